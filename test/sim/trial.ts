/** One run of a story on virtual time: the first thing that goes wrong ends it. */
import type { Scheduler } from "./scheduler.ts";
import { Violation } from "./asks.ts";

/** What a run came to. */
export interface Outcome {
  readonly seed: number;
  readonly failure: Error | undefined;
  readonly traceHash: string;
  readonly steps: number;
  readonly virtualMs: number;
  readonly crashes: number;
  readonly counts: Readonly<Record<string, number>>;
  /** The trace's last lines, or all of them when they were asked for. */
  readonly lines: readonly string[];
}

/** So many lines of a trace are kept for whoever looks at a failure. */
export const lastLines = 60;

export class Trial {
  readonly #scheduler: Scheduler;
  /** What went wrong first. */
  #failure: Error | undefined;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  readonly fail = (error: unknown): void => {
    this.#failure ??= error instanceof Error ? error : new Violation(String(error));
  };

  /** Lets the story happen within so much virtual time, then `end`, which leaves nothing behind. */
  async run(story: () => Promise<void>, storyMsMax: number, end: () => void): Promise<void> {
    const unhandled = (error: unknown): void =>
      this.fail(
        new Violation(`a rejection that nobody handles: ${error instanceof Error ? error.stack : String(error)}`),
      );
    process.on("unhandledRejection", unhandled);
    try {
      let ended = false;
      story().then(() => (ended = true), this.fail);
      const came = await this.#scheduler.run(() => ended || this.#failure !== undefined, storyMsMax);
      if (!came) this.fail(new Violation("the run did not end"));
    } catch (error) {
      this.fail(error);
    } finally {
      end();
      await this.#scheduler.run(() => false, this.#scheduler.nowMs + 0.1).catch(this.fail);
      process.off("unhandledRejection", unhandled);
    }
  }

  /** What the run came to, once it is over. */
  outcome(told: Pick<Outcome, "seed" | "crashes" | "counts">): Outcome {
    const { traceHash, steps, nowMs, lines } = this.#scheduler;
    return { ...told, failure: this.#failure, traceHash, steps, virtualMs: nowMs, lines };
  }
}
