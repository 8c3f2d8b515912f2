/**
 * The newest head of a branch, as this node may serve from it.
 *
 * Always true: a head that is older than one this node has seen is asked for again, as it may come from a cache that
 * lags, and then refused, unless an operator accepts it. Must not know: local files.
 */
import { limits } from "../../base/limits/limits.ts";
import { sleep, type World } from "../../base/world.ts";
import type { Head } from "../../format/history/head.ts";
import { headKey } from "../../format/keys/object-keys.ts";
import type { DatabaseState } from "../../model/schema.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { BranchHead } from "../history/branch-head.ts";
import type { HeadPlaces } from "../local/head-places.ts";
import { lostHead, wentBack, type StoreWentBack } from "../api/lost.ts";

/** What a head is read with. */
export interface HeadReadingParts {
  readonly world: World;
  readonly store: ObjectStore;
  readonly nodeId: string;
  /** A head of the branch, of so many bytes, has landed. */
  readonly headLanded: (bytes: number) => void;
  /** What this node has seen of each branch. */
  readonly places: HeadPlaces;
  /** Whether an operator accepts that object storage was put back, and loses what was newer. */
  readonly acceptsRollback: boolean;
}

/** A head, and whether it is older than one that this node has seen, which an operator accepts. */
export interface ReadHead {
  readonly head: BranchHead;
  readonly isOlder: boolean;
}

/** From now on this node serves from the head; what the file has that the head covers was shipped. */
export function noteSeen(
  { places }: Pick<HeadReadingParts, "places">,
  { head: { now }, isOlder }: ReadHead,
  state: DatabaseState,
): void {
  const covered = state.txid <= now.txid ? state : undefined;
  if (isOlder) return places.accept(now, covered);
  places.note(now, covered);
  places.save(now.uuid, now.branchId);
}

/**
 * The newest head. One that is older than what was served from may come from a cache that lags, and is asked for again
 * before it is refused, or accepted.
 */
export async function readHead(parts: HeadReadingParts, uuid: string, branchId: string): Promise<ReadHead> {
  const { store, world, nodeId, headLanded, places, acceptsRollback } = parts;
  for (let attempt = 1; ; attempt++) {
    const head = await BranchHead.read({ store, world, nodeId, uuid, branchId, landed: headLanded });
    if (!places.isPast(head.now)) return { head, isOlder: false };
    if (attempt >= limits.pastHeadLooksMax) {
      if (!head.exists) throw lostHead(uuid, branchId);
      if (acceptsRollback) return { head, isOlder: true };
      throw olderThanSeen(parts, head.now);
    }
    await sleep(world, limits.pastHeadPauseMs);
  }
}

/** Why the head is refused: this node has seen a newer one, or its file has more than the head's line can. */
export function olderThanSeen(
  { places }: Pick<HeadReadingParts, "places">,
  { uuid, branchId, epoch, seq, txid, reservedTo }: Head,
  state?: DatabaseState,
): StoreWentBack {
  const newest = places.newest(uuid, branchId);
  const seen = state
    ? `transaction ${state.txid} in the local file, where the head has ${txid} and has reserved up to ${reservedTo}`
    : `epoch ${newest?.epoch}, number ${newest?.seq}`;
  return wentBack(uuid, headKey(uuid, branchId), `epoch ${epoch}, number ${seq}`, seen);
}
