/**
 * Databases held open for processes that read them.
 *
 * Always true: a pin ends by its own token, which reaches the very handle that was pinned, whatever is open by then.
 */
import type { Database } from "../database/database.ts";
import type { Pinned, Completion } from "../api/protocol.ts";

interface Pin {
  readonly database: Database;
  /** Whether the reader is to be answered as by the branch's writer. */
  readonly isPrimary: boolean;
}

/** The pins of one engine thread, by token. */
export class Pins {
  readonly #pins = new Map<number, Pin>();

  /** Holds the database open, and says what a reader has to know. */
  pin(token: number, database: Database, isPrimary: boolean): Pinned {
    const sight = database.pin();
    this.#pins.set(token, { database, isPrimary });
    return { path: database.path, token, ...sight };
  }

  /**
   * Ends the pin and answers as a read of what the reader saw. Says no when there is no such pin: an earlier engine had
   * it.
   */
  unpin(token: number, seenTxid: number, makeCompletion: (database: Database) => Completion): boolean {
    const pin = this.#pins.get(token);
    this.#pins.delete(token);
    pin?.database.unpin(seenTxid, makeCompletion(pin.database), pin.isPrimary);
    return pin !== undefined;
  }
}
