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
  #unsynced = 0;
  #unshipped = 0;

  constructor(synced: Watermark, writer: Writership) {
    this.#synced = synced;
    this.#writer = writer;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#unsynced + this.#unshipped;
  }

  /** How many wait for the disk. */
  get unsynced(): number {
    return this.#unsynced;
  }

  /** How many wait for object storage: in an outage these may be many, and must be nobody else's trouble. */
  get unshipped(): number {
    return this.#unshipped;
  }

  /** Calls `act` once the state is on disk, at once when it already is. */
  afterSync(txid: number, act: () => void, settle: Settle): void {
    if (this.#synced.reached(txid)) return act();
    this.#unsynced++;
    this.#park(this.#synced.wait(txid), () => this.#unsynced--, act, settle);
  }

  /** Calls `act` once object storage covers the state, which is on disk before that. */
  afterShip(txid: number, act: () => void, settle: Settle): void {
    if (this.#writer.covers(txid)) return this.afterSync(txid, act, settle);
    const { shipper } = this.#writer;
    shipper.hurry(txid);
    this.#unshipped++;
    this.#park(shipper.shipped.wait(txid), () => this.#unshipped--, act, settle);
  }

  #park(reached: Promise<void>, leave: () => void, act: () => void, settle: Settle): void {
    reached.then(
      () => {
        leave();
        act();
      },
      (error: unknown) => {
        leave();
        settle.failed(error, Math.max(0, this.#synced.level));
      },
    );
  }
}
