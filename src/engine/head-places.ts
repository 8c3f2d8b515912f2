/**
 * How far along its heads each branch was served from on this thread.
 *
 * Always true: what was noted only rises, so that whoever reads here twice never sees the branch go back, whatever a
 * cache before object storage gives. Must not know: files, handles.
 */
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import type { Head } from "../format/head.ts";

/** Which of a branch's heads one is: heads follow each other by epoch, within one by number. */
export type HeadPlace = Pick<Head, "epoch" | "seq">;

/** Whether the head comes after the other. */
export function isNewer(head: HeadPlace, other: HeadPlace): boolean {
  return head.epoch > other.epoch || (head.epoch === other.epoch && head.seq > other.seq);
}

export class HeadPlaces {
  /** A branch that is forgotten is taken as its head comes. */
  readonly #served = new Recent<string, HeadPlace>(limits.headPlacesMax);

  /** The branch was served from a state of this head. */
  note({ uuid, branchId, epoch, seq }: Head): void {
    const key = `${uuid}/${branchId}`;
    const before = this.#served.get(key);
    if (!before || isNewer({ epoch, seq }, before)) this.#served.set(key, { epoch, seq });
  }

  /** Whether the branch was served from a newer head than this one, which must then not be believed to be the newest. */
  isPast({ uuid, branchId, epoch, seq }: Pick<Head, "uuid" | "branchId"> & HeadPlace): boolean {
    const served = this.#served.peek(`${uuid}/${branchId}`);
    return served !== undefined && isNewer(served, { epoch, seq });
  }
}
