/**
 * What time it is, as distinct from what the machine's clock says.
 *
 * Two answers. `nowMs` is the best guess, for what is written and shown: a wrong one is right again when the clock is.
 * `sureMs` is a time that has surely come, for what cannot be taken back: only what ended by then is removed for good.
 *
 * Behind them is the steady time. It goes on with the monotonic clock, which cannot be set, and follows a clock only to
 * what that has told for an hour without a break (`clockSteadyMs`): the least it has told in that time when it is
 * ahead, the most when it is behind. Two clocks that tell the same are followed at once: the machine's and object
 * storage's, as its answers carry it. Where the store is a directory there is one clock only.
 *
 * Why this is safe: the steady time is ahead of the truth only when a clock was, for an hour on end, or two were alike.
 * So a clock that is wrong for less removes nothing too early, however far ahead it was; one that is behind only
 * delays, and an hour or two after it was set right nothing is delayed any more. A machine that is suspended is a clock
 * that is ahead, and one that is suspended every few minutes still has its hour. What was written under a clock that
 * was ahead is known by lying ahead of all of these times: `believable` takes it for what is now.
 *
 * Must not know: stores, files, what is removed by time.
 */
import { limits } from "./limits.ts";

/**
 * Clocks that differ by no more than this count as equal. More than the steps of NTP, than what a slow answer leaves
 * open of a store's clock, and than nodes of a cluster differ; far less than anything is kept for.
 */
export const clockSlackMs = 60_000;
/**
 * A machine that was suspended or switched off finds its clock ahead by as much as it was away. By more than this it
 * is taken for a wrong clock, also for what is written and shown.
 */
export const clockJumpMsMax = 30 * 86_400_000;

/** What a run of a node leaves to the next, and the main thread to another, in Unix milliseconds. */
export interface TimeMemory {
  /** When this was so, on the monotonic clock, which the threads of a process share. */
  readonly monotonicMs: number;
  readonly steadyMs: number;
  readonly nowMs: number;
  /** What the clock has told since it was not steady, and for how long. */
  readonly toldMs: number;
  readonly toldForMs: number;
}

/** Every time here is kept as its difference from the monotonic clock, so that it goes on by itself. */
export class TrustedTime {
  readonly #wallMs: () => number;
  readonly #monotonicMs: () => number;
  /** NaN until a time was told. */
  #steady: number;
  /** Replaces the machine's clock while that is out of the bounds within which it is believed for `nowMs`. */
  #likely: number;
  #least = Number.NaN;
  #most = Number.NaN;
  /** Of what was told since `#toldSinceMs`, all of it on one side of the steady time, what is nearest to that. */
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
    this.#told = this.#likely = this.#steady = this.#wall;
    this.#bound();
  }

  /**
   * The time that is written and shown, in whole Unix milliseconds. Costs a look at both clocks, a subtraction and two
   * comparisons.
   */
  nowMs(): number {
    const wallMs = this.#wallMs();
    const monotonicMs = this.#monotonicMs();
    const wall = wallMs - monotonicMs;
    return wall < this.#least || wall > this.#most ? Math.floor(monotonicMs + this.#likely) : wallMs;
  }

  /** A time that has surely come: what ended by then may be removed for good. 0 while no time is known. */
  sureMs(): number {
    const { steadyMs } = this;
    // Where there is no other clock, the machine's may be the one that was set right.
    const sureMs = this.#hasStore ? steadyMs : Math.min(steadyMs, this.#wallMs());
    return Number.isNaN(sureMs) ? 0 : sureMs;
  }

  /** The time of something that has happened, or now when it lies so far ahead that a wrong clock must have told it. */
  believable(atMs: number): number {
    const nowMs = this.nowMs();
    const latestMs = Math.max(nowMs, this.steadyMs || nowMs) + clockSlackMs;
    return atMs > latestMs ? nowMs : atMs;
  }

  /** How far the machine's clock is ahead of the time that is steady; negative when it is behind. */
  get aheadMs(): number {
    return this.#wall - this.#steady || 0;
  }

  /** NaN while it is not known. */
  get steadyMs(): number {
    return Math.floor(this.#monotonicMs() + this.#steady);
  }

  /** For the next run, or another thread of this one. */
  get memory(): TimeMemory {
    const monotonicMs = this.#monotonicMs();
    return {
      monotonicMs,
      steadyMs: monotonicMs + this.#steady,
      nowMs: this.nowMs(),
      toldMs: monotonicMs + this.#told,
      toldForMs: monotonicMs - this.#toldSinceMs,
    };
  }

  /** Goes on from where the previous run ended: as if the machine had been suspended between them. */
  resume(memory: TimeMemory): void {
    this.join({ ...memory, monotonicMs: this.#monotonicMs() });
    // That a node was started again is no reason to doubt its clock.
    if (Math.abs(this.#wall - this.#steady) <= limits.clockToldMs) this.#steady = this.#wall;
    this.look();
  }

  /** Goes by what another thread of this process goes by. */
  join({ monotonicMs, steadyMs, nowMs, toldMs, toldForMs }: TimeMemory): void {
    this.#steady = steadyMs - monotonicMs;
    this.#likely = nowMs - monotonicMs;
    this.#told = toldMs - monotonicMs;
    this.#toldSinceMs = monotonicMs - toldForMs;
    this.#bound();
  }

  /** There is a store with a clock of its own: it is gone by from now on, and nothing is sure before its first word. */
  awaitStore(): void {
    this.#hasStore = true;
    this.#steady = Number.NaN;
    this.#bound();
  }

  /**
   * Looks at the machine's clock, every second or so. Says whether to ask the store for its own: the clock was moved
   * since, or the store never told.
   */
  look(): boolean {
    if (this.#hasStore) return !isSame(this.#wall, this.#wallAtWord);
    this.#hear(this.#wall, false);
    return false;
  }

  /**
   * The store's clock, in whole seconds, as an answer told it to a request that was sent at `sentMs` of the monotonic
   * clock.
   */
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
    const side = Math.sign(told - this.#steady);
    if (isCertain || side === 0 || side !== Math.sign(this.#told - this.#steady)) {
      if (isCertain) this.#steady = told;
      this.#told = told;
      this.#toldSinceMs = nowMs;
    } else {
      this.#told = side > 0 ? Math.min(told, this.#told) : Math.max(told, this.#told);
      if (nowMs - this.#toldSinceMs >= limits.clockSteadyMs) {
        this.#steady = this.#told;
        this.#told = told;
        this.#toldSinceMs = nowMs;
      }
    }
    this.#bound();
    if (told < this.#least || told > this.#most) return;
    this.#likely = told;
    this.#bound();
  }

  /** A store's clock is known to within the slack. Without one, the machine's may have slept, but not for years. */
  #bound(): void {
    if (this.#hasStore) this.#likely = this.#steady;
    this.#least = this.#steady - clockSlackMs;
    this.#most = this.#hasStore ? this.#steady + clockSlackMs : Math.max(this.#steady, this.#likely + clockJumpMsMax);
  }
}

/** Whether two clocks tell the same; nothing is the same as one that is not known. */
function isSame(a: number, b: number): boolean {
  return Math.abs(a - b) <= clockSlackMs;
}
