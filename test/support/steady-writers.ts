/**
 * Clients that put keys of their own one after the other while nodes are killed around them: what was acknowledged is
 * what whoever follows the database must be told.
 */
import { setTimeout as pause } from "node:timers/promises";
import { onTestFinished } from "vitest";

/** Puts a key, whatever node it asks. */
type Put = (key: string) => Promise<{ readonly status: number; readonly json: any }>;

export class SteadyWriters {
  /** The transaction of each key that was acknowledged. */
  readonly acknowledged = new Map<string, number>();
  readonly #writing: Promise<unknown>;
  #isOver = false;

  /** One client for each; each rests so long between two puts. They end with the test. */
  constructor(puts: readonly Put[], restMs: number) {
    this.#writing = Promise.all(puts.map((put, writer) => this.#write(put, writer, restMs)));
    onTestFinished(() => {
      this.#isOver = true;
    });
  }

  /** The last transaction that was acknowledged. */
  get last(): number {
    return Math.max(...this.acknowledged.values());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#writing;
  }

  async #write(put: Put, writer: number, restMs: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const key = `w${writer}-${n}`;
      try {
        const { status, json } = await put(key);
        if (status === 200) this.acknowledged.set(key, json.txid as number);
      } catch {
        // The node is down: whether the write is there, its followers will tell.
      }
      await pause(restMs);
    }
  }
}
