/**
 * A job that is done again and again, until the node ends.
 *
 * Always true: one round is under way at a time, and none begins after the end.
 */
import { sleep, type Cancel, type World } from "./world.ts";

export interface RoundsOptions {
  readonly world: World;
  /** Between two rounds. */
  readonly pauseMs: number | (() => number);
  /** Never rejects. */
  readonly round: () => Promise<unknown>;
}

export class Rounds {
  readonly #options: RoundsOptions;
  #cancel: Cancel = () => {};
  #closing = false;
  #isRunning = false;
  /** Another round is wanted as soon as this one is over. */
  #isHurried = false;
  #current: Promise<void> = Promise.resolve();

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Whether a round that is under way had better come to an end. */
  get closing(): boolean {
    return this.#closing;
  }

  /** Begins, unless it has ended; resolves after the first round. */
  start(): Promise<void> {
    if (this.#closing) return this.#current;
    this.#cancel();
    this.#isRunning = true;
    this.#isHurried = false;
    this.#current = this.#options.round().then(() => this.#next());
    return this.#current;
  }

  /** Has the next round begin now, or when the one that is under way is over. */
  hurry(): void {
    if (this.#isRunning) this.#isHurried = true;
    else void this.start();
  }

  /** Begins nothing more, and waits this long at most for what is under way. */
  async close(patienceMs: number): Promise<void> {
    this.#closing = true;
    this.#cancel();
    await Promise.race([this.#current, sleep(this.#options.world, patienceMs)]);
  }

  #next(): void {
    this.#isRunning = false;
    if (this.#closing) return;
    const { world, pauseMs } = this.#options;
    const delayMs = this.#isHurried ? 0 : typeof pauseMs === "number" ? pauseMs : pauseMs();
    this.#cancel = world.after(delayMs, () => void this.start());
  }
}

/** A pause that doubles for as long as there is nothing to do. */
export class RisingPause {
  readonly #leastMs: number;
  readonly #mostMs: number;
  #ms: number;

  constructor(leastMs: number, mostMs: number) {
    this.#leastMs = leastMs;
    this.#mostMs = mostMs;
    this.#ms = leastMs;
  }

  /** How long to wait after a round that had something to do, or had not. */
  after(hadWork: boolean): number {
    const ms = hadWork ? this.#leastMs : this.#ms;
    this.#ms = Math.min(ms * 2, this.#mostMs);
    return ms;
  }
}
