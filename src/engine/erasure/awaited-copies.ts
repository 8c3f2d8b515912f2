/**
 * Which erasures wait for a copy on another node's disk. Pure.
 *
 * Why counting the copies once is enough: they are counted when all of history has been cut, so that a later copy from
 * object storage has nothing of the erased data. Only a branch that was not looked at then, a fork that was on its way,
 * can bring it back; once such a fork is cut, the copies are counted anew. A copy has an id of its own: a node that
 * purges and copies again does not have the counted one any more. This node's own copies do not count, as the run that
 * proves an erasure cleans them itself.
 */
import { copiesInWords } from "../../control/databases/copy-records.ts";
import { isStanding, type CopyRecord } from "../../format/records/copy-record.ts";
import type { AwaitedCopies } from "../../format/erasure/erasure-coupon.ts";
import { ulidTimeMs } from "../../format/core/ids.ts";
import type { ErasureEvidence } from "../../format/erasure/erasure-receipt.ts";
import type { CopiesFound, ErasedCoupon } from "../api/protocol.ts";

export interface CopyVerdict {
  /** By the coupon's id, of those that wait or have waited for copies. */
  readonly found: Readonly<Record<string, CopiesFound>> | undefined;
  /** Erasures that no copy holds up. */
  readonly free: readonly ErasedCoupon[];
  /** What holds up the others, in words for a coupon's reader; undefined when there are none. */
  readonly waitingFor: string | undefined;
}

/** Whether the copies that were counted for one of the erasures have to be counted anew once these branches are cut. */
export function mustCountAnew(coupons: readonly ErasedCoupon[], uncutIds: readonly string[]): boolean {
  return coupons.some(
    ({ awaiting }) => awaiting !== undefined && uncutIds.some((id) => !awaiting.branches.includes(id)),
  );
}

/** Judges by the database's copies as they are listed now, when all of history has been cut for these erasures. */
export function judgeCopies(
  records: readonly CopyRecord[],
  nodeId: string,
  branchIds: readonly string[],
  coupons: readonly ErasedCoupon[],
): CopyVerdict {
  const standing = records.filter(isStanding);
  const isShared = standing.some(({ node }) => node !== nodeId);
  const counted: AwaitedCopies = { branches: branchIds, copies: standing.map(({ node, copy }) => ({ node, copy })) };
  const byId = new Map(records.map((record) => [record.copy, record]));
  const found: Record<string, CopiesFound> = {};
  const free: ErasedCoupon[] = [];
  const holding: CopyRecord[] = [];
  for (const coupon of coupons) {
    const forgotten = records.filter((record) => mayHaveHad(record, coupon)).map(({ node }) => node);
    const awaiting = coupon.awaiting ?? (isShared || forgotten.length > 0 ? counted : undefined);
    const held = (awaiting?.copies ?? [])
      .flatMap(({ node, copy }) => (node === nodeId ? [] : (byId.get(copy) ?? [])))
      .filter(isStanding);
    if (awaiting)
      found[coupon.id] = {
        awaiting,
        holding: held.map(({ node, copy }) => ({ node, copy })),
        ...toldBy(awaiting, byId, nodeId, forgotten),
      };
    holding.push(...held);
    if (held.length === 0) free.push(coupon);
  }
  return { found: Object.keys(found).length === 0 ? undefined : found, free, waitingFor: copiesInWords(holding) };
}

/**
 * Whether the node that never came back can have had what was erased: it was forgotten after some of it was taken in.
 */
function mayHaveHad({ forgottenAtMs }: CopyRecord, { memoryIds }: ErasedCoupon): boolean {
  if (forgottenAtMs === undefined) return false;
  // When records and turns were taken in is not known.
  return memoryIds.length === 0 || memoryIds.some((id) => ulidTimeMs(id.slice("mem_".length)) <= forgottenAtMs);
}

function toldBy(
  awaiting: AwaitedCopies,
  byId: ReadonlyMap<string, CopyRecord>,
  nodeId: string,
  forgotten: readonly string[],
): Pick<CopiesFound, "purged" | "unattested"> {
  const removed = new Map<string, number>();
  const unattested = new Set(forgotten);
  for (const { node, copy } of awaiting.copies) {
    if (node === nodeId) continue;
    const record = byId.get(copy);
    if (!record) unattested.add(node);
    else if (record.purged) removed.set(node, (removed.get(node) ?? 0) + record.purged.filesRemoved);
  }
  const purged: ErasureEvidence["local"] = [...removed].map(([node, files]) => ({
    node,
    files_scrubbed: 0,
    files_removed: files,
  }));
  return { purged, unattested: [...unattested] };
}
