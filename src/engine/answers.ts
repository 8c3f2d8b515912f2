/**
 * Answers of one open branch that wait for the disk or for object storage.
 *
 * Always true: an answer leaves only when the state that it speaks of cannot be lost by a crash, a durable one only when
 * object storage covers it; what is not answered when the handle is given up is refused.
 */
import type { Watermark } from "../base/watermark.ts";
import type { Settle } from "./protocol.ts";
import type { Writership } from "./writership.ts";

export class Answers {
  readonly #synced: Watermark;
  readonly #writer: Writership;
  #parked = 0;

  constructor(synced: Watermark, writer: Writership) {
    this.#synced = synced;
    this.#writer = writer;
  }

  /** How many wait. */
  get parked(): number {
    return this.#parked;
  }

  /** Calls `act` once the state is on disk, at once when it already is. */
  afterSync(txid: number, act: () => void, settle: Settle): void {
    if (this.#synced.reached(txid)) return act();
    this.#park(this.#synced.wait(txid), act, settle);
  }

  /** Calls `act` once object storage covers the state, which is on disk before that. */
  afterShip(txid: number, act: () => void, settle: Settle): void {
    if (this.#writer.covers(txid)) return this.afterSync(txid, act, settle);
    const { shipper } = this.#writer;
    shipper.hurry(txid);
    this.#park(shipper.shipped.wait(txid), act, settle);
  }

  #park(reached: Promise<void>, act: () => void, settle: Settle): void {
    this.#parked++;
    reached.then(
      () => {
        this.#parked--;
        act();
      },
      (error: unknown) => {
        this.#parked--;
        settle.failed(error, Math.max(0, this.#synced.level));
      },
    );
  }
}
