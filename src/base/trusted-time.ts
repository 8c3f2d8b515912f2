/**
 * What time it is, told apart from what the machine's clock says.
 *
 * Two answers. `nowMs` is the best guess, for what is written and shown: a wrong one is right again when the clock is.
 * `sureMs` is a time that has surely come, for what cannot be taken back: only what ended by then is removed for good.
 *
 * Between them stands the steady time: it goes on with the monotonic clock, which nobody sets, and follows a clock only
 * when that has told the same for an hour (`clockSteadyMs`), or when two clocks tell the same: the machine's and object
 * storage's, as its answers carry it. Where the store is a directory there is one clock only.
 *
 * Why this is safe: the steady time never runs faster than time does, but for what a clock tells that was wrong for an
 * hour on end (or two that were wrong alike). So a clock that is ahead for less removes nothing too early, however far
 * ahead it was. One that is behind only delays, and delays an hour at most after it was set right. What was written under
 * a clock that was ahead is known by lying ahead of all of these times: `believable` takes it for what is now.
 *
 * Must not know: stores, files, what is removed by time.
 */
import { limits } from "./limits.ts";

export class TrustedTime {
  readonly #wallMs: () => number;
  readonly #monotonicMs: () => number;
  /** Every other time here is kept as its difference from the monotonic clock. The steady time; NaN while nobody has told one. */
  #steady: number;
  /** What was told last, as it was when that began, and since when. */
  #told: number;
  #toldSinceMs: number;
  #hasStore = false;
  /** The machine's clock when the store last told its own. */
  #wallAtWord = Number.NaN;

  /** Begins with the machine's clock, which is all there is to go by. */
  constructor(wallMs: () => number, monotonicMs: () => number) {
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicMs;
    this.#toldSinceMs = monotonicMs();
    this.#told = this.#wall;
    this.#steady = this.#told;
  }

  /** The time that is written and shown, in whole Unix milliseconds. Costs a look at both clocks, an addition and two comparisons. */
  nowMs(): number {
    const wallMs = this.#wallMs();
    const steadyMs = this.#monotonicMs() + this.#steady;
    const isBelieved = !(wallMs < steadyMs - limits.clockSlackMs || wallMs > steadyMs + (this.#hasStore ? limits.clockSlackMs : limits.clockJumpMsMax));
    return isBelieved ? wallMs : Math.floor(steadyMs);
  }

  /** A time that has surely come: what ended by then may be removed for good. */
  sureMs(): number {
    const steadyMs = this.#monotonicMs() + this.#steady;
    // Where there is no other clock, the machine's may be the one that was set right.
    const sureMs = this.#hasStore ? steadyMs : Math.min(steadyMs, this.#wallMs());
    return Number.isNaN(sureMs) ? Number.NEGATIVE_INFINITY : Math.floor(sureMs);
  }

  /** The time of something that has happened, or now when it lies so far ahead that a wrong clock must have told it. */
  believable(atMs: number): number {
    const nowMs = this.nowMs();
    const latestMs = Math.max(nowMs, this.#monotonicMs() + this.#steady || nowMs) + limits.clockSlackMs;
    return atMs > latestMs ? nowMs : atMs;
  }

  /** How far the machine's clock is ahead of the time that is trusted; negative when it is behind. */
  get aheadMs(): number {
    return this.#wall - this.#steady || 0;
  }

  /** The steady time, as its difference from the monotonic clock: for another thread's `begin`. Undefined while it is not known. */
  get steady(): number | undefined {
    return Number.isNaN(this.#steady) ? undefined : this.#steady;
  }

  /** Goes on from the steady time of another thread of the process, whose monotonic clock is the same. */
  begin(steady: number): void {
    this.#steady = steady;
  }

  /** Goes on from a time that had surely come when the node ran last. A clock that is elsewhere now has to be steady first. */
  resume(sureMs: number): void {
    const steady = sureMs - this.#monotonicMs();
    if (!isSame(this.#wall, steady)) this.#steady = steady;
  }

  /** There is a store with a clock of its own: it is gone by from now on, and nothing is sure before its first word. */
  awaitStore(): void {
    this.#hasStore = true;
    this.#steady = Number.NaN;
  }

  /** Looks at the machine's clock. Says whether the store is to be asked for its own: because that was moved, or was never told. */
  look(): boolean {
    if (this.#hasStore) return !isSame(this.#wall, this.#wallAtWord);
    this.#hear(this.#wall, false);
    return false;
  }

  /** The store's clock, in whole seconds, as an answer told it to a request that was sent at `sentMs` of the monotonic clock. */
  heard(storeMs: number, sentMs: number): void {
    const nowMs = this.#monotonicMs();
    // An answer that took longer says too little.
    if (!isSame(nowMs, sentMs)) return;
    // The second had begun, and was anywhere in it, when the server wrote it, anywhere between the request and now.
    const store = storeMs + 500 - (sentMs + nowMs) / 2;
    const wall = this.#wall;
    this.#wallAtWord = wall;
    // The machine's clock is the finer one, as long as it is right.
    const isSecond = isSame(wall, store);
    this.#hear(isSecond ? wall : store, isSecond || Number.isNaN(this.#steady));
  }

  get #wall(): number {
    return this.#wallMs() - this.#monotonicMs();
  }

  #hear(told: number, isCertain: boolean): void {
    const nowMs = this.#monotonicMs();
    if (!isSame(told, this.#told)) {
      this.#told = told;
      this.#toldSinceMs = nowMs;
    }
    if (isCertain || nowMs - this.#toldSinceMs >= limits.clockSteadyMs) this.#steady = told;
  }
}

/** Whether two clocks tell the same; nothing is the same as one that is not known. */
function isSame(a: number, b: number): boolean {
  return Math.abs(a - b) <= limits.clockSlackMs;
}
