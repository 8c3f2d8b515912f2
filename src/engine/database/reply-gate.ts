/**
 * Answers of one open branch that wait for the disk, for object storage, or for the certainty that no other node
 * writes.
 *
 * Always true:
 * - an answer leaves only when a crash cannot lose the state it speaks of, a durable one only when object storage
 *   covers it
 * - a writer's answer needs a lease that is certain at that moment, or a manifest that has landed, which proves that no
 *   other writer has claimed the branch
 * - what is unanswered when the handle fails is refused
 */
import { limits } from "../../base/limits.ts";
import type { Watermark } from "../../base/collections/watermark.ts";
import type { Completion } from "../api/protocol.ts";
import type { WritePermission } from "./write-permission.ts";

export class ReplyGate {
  readonly #synced: Watermark;
  readonly #writer: WritePermission;
  readonly #prove: () => Promise<void>;
  readonly #left: () => void;
  #unsynced = 0;
  #unshipped = 0;

  /**
   * `prove` rejects unless object storage shows that no other writer has claimed the branch. `left` is called when one
   * waits no more.
   */
  constructor(synced: Watermark, writer: WritePermission, prove: () => Promise<void>, left: () => void) {
    this.#synced = synced;
    this.#writer = writer;
    this.#prove = prove;
    this.#left = left;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#unsynced + this.#unshipped;
  }

  /** How many wait for object storage: in an outage these may be many, and must not delay other answers. */
  get unshipped(): number {
    return this.#unshipped;
  }

  /** Why one more answer cannot wait, for object storage or for the disk alone; undefined when it can. */
  whyFull(forStore: boolean): string | undefined {
    if (this.#unsynced >= limits.parkedAnswersMax) return "too many answers wait for the disk";
    if (forStore && this.#unshipped >= limits.parkedAnswersMax) return "too many answers wait for object storage";
    return undefined;
  }

  /** Calls `act` once the state is on disk, at once when it already is. */
  afterSync(txid: number, act: () => void, completion: Completion): void {
    if (this.#synced.reached(txid)) return act();
    this.#unsynced++;
    this.#park(this.#synced.wait(txid), () => this.#unsynced--, act, completion);
  }

  /** Calls `act` once object storage covers the state, which is on disk before that. */
  afterShip(txid: number, act: () => void, completion: Completion): void {
    if (this.#writer.covers(txid)) return this.afterSync(txid, act, completion);
    const { shipper } = this.#writer;
    shipper.hurry(txid);
    this.#unshipped++;
    this.#park(shipper.shipped.wait(txid), () => this.#unshipped--, act, completion);
  }

  /** Calls `act` once the state is on disk and surely the branch's newest: what only its writer can say. */
  asWriter(txid: number, act: () => void, completion: Completion): void {
    // Asked anew after the wait: the process, or the machine, may have been stopped meanwhile.
    const certain = (): void => {
      if (this.#writer.isSole) return act();
      // The manifest that lands is the proof.
      if (!this.#writer.covers(txid)) return this.afterShip(txid, act, completion);
      this.#unshipped++;
      this.#park(this.#prove(), () => this.#unshipped--, act, completion);
    };
    this.afterSync(txid, certain, completion);
  }

  /** Calls `act` once a state that was read is on disk, a `primary` read's as the writer's. */
  afterRead(txid: number, isPrimary: boolean, act: () => void, completion: Completion): void {
    if (isPrimary) this.asWriter(txid, act, completion);
    else this.afterSync(txid, act, completion);
  }

  #park(reached: Promise<void>, leave: () => void, act: () => void, completion: Completion): void {
    reached.then(
      () => {
        leave();
        this.#left();
        act();
      },
      (error: unknown) => {
        leave();
        this.#left();
        completion.failed(error, Math.max(0, this.#synced.level));
      },
    );
  }
}
