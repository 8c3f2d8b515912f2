/** How many streams of changes a node serves: of all databases, and of each. */
import { ServiceError } from "../../base/faults/errors.ts";

/** Each looks at its branch twice a second at least. */
const streamsMax = 1_024;
export const streamsOfDatabaseMax = 64;

export class StreamPlaces {
  readonly #open = new Map<string, number>();
  #total = 0;

  /** Takes a place, and gives what releases it, which may be called again; throws overloaded. */
  enter(uuid: string): () => void {
    const open = this.#open.get(uuid) ?? 0;
    if (this.#total >= streamsMax) throw tooMany(`this node serves ${streamsMax} streams of changes`);
    if (open >= streamsOfDatabaseMax)
      throw tooMany(`this node serves ${streamsOfDatabaseMax} streams of the database's changes`);
    this.#open.set(uuid, open + 1);
    this.#total++;
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.#total--;
      const left = this.#open.get(uuid)! - 1;
      if (left === 0) this.#open.delete(uuid);
      else this.#open.set(uuid, left);
    };
  }
}

function tooMany(what: string): ServiceError {
  return new ServiceError("overloaded", `${what}, the most that it may`, { retryAfterSecs: 5 });
}
