/**
 * Databases held open for processes that read them.
 *
 * Always true: a pin ends by its own token, which reaches the very handle that was pinned, whatever is open by then.
 */
import type { Sight } from "../process-calls/command-call.ts";
import type { Pinned, Completion } from "../api/protocol.ts";

/** A file that can be held open: that of an open database, or of an earlier state. */
export interface Pinnable {
  readonly path: string;
  /** How far object storage covers the branch. */
  readonly durableTxid: number;
  /** Keeps the file until it is unpinned. Gives what a command would see. */
  pin(): Sight;
  /** Ends that, and answers as a read of what the reader saw. */
  unpin(seenTxid: number, completion: Completion, isPrimary?: boolean): void;
}

interface Pin {
  readonly file: Pinnable;
  /** Whether the reader is to be answered as by the branch's writer. */
  readonly isPrimary: boolean;
}

/** The pins of one engine thread, by token. */
export class Pins {
  readonly #pins = new Map<number, Pin>();

  /** Holds the file open, and says what a reader has to know. */
  pin(token: number, file: Pinnable, isPrimary: boolean): Pinned {
    const sight = file.pin();
    this.#pins.set(token, { file, isPrimary });
    return { path: file.path, token, ...sight };
  }

  /**
   * Ends the pin and answers as a read of what the reader saw. Says no when there is no such pin: an earlier engine had
   * it.
   */
  unpin(token: number, seenTxid: number, makeCompletion: (file: Pinnable) => Completion): boolean {
    const pin = this.#pins.get(token);
    this.#pins.delete(token);
    pin?.file.unpin(seenTxid, makeCompletion(pin.file), pin.isPrimary);
    return pin !== undefined;
  }
}
