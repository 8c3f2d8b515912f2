/** One run of a story on virtual time: the first thing that goes wrong ends it. */
import type { Scheduler } from "./scheduler.ts";
import { Violation } from "./asks.ts";

export class Trial {
  readonly #scheduler: Scheduler;
  #failure: Error | undefined;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
  }

  /** What went wrong first. */
  get failure(): Error | undefined {
    return this.#failure;
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
}
