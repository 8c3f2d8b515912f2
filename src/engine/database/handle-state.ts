/**
 * How far one open database has come, and whether its handle still serves.
 *
 * Always true:
 * - the committed txid rises by one per group that changed something
 * - nothing counts as safe before it is on disk
 * - a failed handle stays failed, and every waiter for the disk is refused then
 *
 * Must not know: queues, who is answered.
 */
import type { ServiceError } from "../../base/faults/errors.ts";
import { Watermark } from "../../base/collections/watermark.ts";
import type { Opened } from "../opening/opened-file.ts";
import { lossBy, refusalBy } from "./refusals.ts";
import type { WritePermission } from "./write-permission.ts";

/** What the parts of one open database share. */
export class HandleState {
  /** The file, its manifest and its place in history. */
  readonly opened: Opened;
  /** This node's right to write the branch. */
  readonly writer: WritePermission;
  readonly #poisoned: (error: unknown) => void;
  readonly #synced: Watermark;
  #committedTxid: number;
  #poison: { readonly error: unknown } | undefined;

  /** `recovered`: the log survived a crash and was read back, but may not be on disk. The first answer syncs it. */
  constructor(opened: Opened, writer: WritePermission, recovered: boolean, poisoned: (error: unknown) => void) {
    const { txid } = opened.state;
    this.opened = opened;
    this.writer = writer;
    this.#poisoned = poisoned;
    this.#committedTxid = txid;
    this.#synced = new Watermark(recovered ? txid - 1 : txid);
  }

  /** The newest commit. */
  get committedTxid(): number {
    return this.#committedTxid;
  }

  /** How far the disk has it. */
  get synced(): Watermark {
    return this.#synced;
  }

  /** The newest transaction id that a crash cannot take back: what a refusal that waits for nothing may speak of. */
  get safeTxid(): number {
    return Math.max(0, this.#synced.level);
  }

  /** Whether object storage covers everything that was committed. */
  get isDrained(): boolean {
    return this.writer.covers(this.#committedTxid);
  }

  /** Whether the handle has failed. */
  get poisoned(): boolean {
    return this.#poison !== undefined;
  }

  /** The error of the calls that were under way when the handle failed. */
  get loss(): ServiceError {
    return lossBy(this.#poison?.error);
  }

  /** What those are told whose write had not begun. */
  get refusal(): Error {
    return refusalBy(this.#poison?.error, this.writer.isShared);
  }

  /** A group was committed. */
  committed(): void {
    this.#committedTxid = this.writer.committed();
  }

  /** Storage failed, or another writer has the branch: this handle gives no more answers. */
  failHandle(error: unknown): void {
    if (this.#poison) return;
    this.#poison = { error };
    this.#synced.fail(lossBy(error));
    this.#poisoned(error);
  }

  /** Gives the handle up when storage fails in `act`. */
  guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.failHandle(error);
    }
  }
}
