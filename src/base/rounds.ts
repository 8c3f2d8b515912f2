/**
 * A job that is done again and again, until the node ends.
 *
 * Always true: one round is under way at a time, and none begins after the end.
 */
import { sleep, type Cancel, type World } from "./world.ts";

export interface RoundsOptions {
  readonly world: World;
  /** Between two rounds. */
  readonly pauseMs: number;
  /** Never rejects. */
  readonly round: () => Promise<unknown>;
}

export class Rounds {
  readonly #options: RoundsOptions;
  #cancel: Cancel = () => {};
  #closing = false;
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
    const { world, pauseMs, round } = this.#options;
    this.#current = round().then(() => {
      if (!this.#closing) this.#cancel = world.after(pauseMs, () => void this.start());
    });
    return this.#current;
  }

  /** Begins nothing more, and waits so long for what is under way. */
  async close(patienceMs: number): Promise<void> {
    this.#closing = true;
    this.#cancel();
    await Promise.race([this.#current, sleep(this.#options.world, patienceMs)]);
  }
}
