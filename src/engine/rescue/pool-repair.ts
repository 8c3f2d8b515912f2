/**
 * The manifest of a branch that is known by its objects in the pool alone.
 *
 * Always true: it begins with the newest whole image that the pool holds, and goes on over the objects that follow it
 * without a doubt; the past and the checkpoints are lost by it, and that is said. Nothing is written here. Must not
 * know: manifests that were there before.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { encodeManifest, computeSha256, type Manifest } from "../../format/history/manifest.ts";
import type { SegmentRef, TxidRange } from "../../format/history/refs.ts";
import type { DatabaseState } from "../../model/schema.ts";
import type { BranchInventory } from "./inventory.ts";
import { findRestorePlan } from "../history/timelines.ts";
import { checkState } from "../segments/newest-state.ts";
import { beforeRewind, chainFrom, newestImage, type PoolEntry } from "./pool-index.ts";
import { nonceBytes, repairer, type ManifestRepairParts, type ProposedManifest } from "./proposed-manifest.ts";
import type { StatePlace } from "../segments/restored-state.ts";

/** What a branch is put together from: the objects of its newest image, and those that follow it. */
interface Found {
  readonly own: readonly PoolEntry[];
  readonly image: SegmentRef;
  readonly chain: readonly SegmentRef[];
  readonly refs: readonly SegmentRef[];
  readonly last: SegmentRef;
  /** How many pages the state has. */
  readonly pages: number;
  /** The highest transaction id that any object of the branch names. */
  readonly lastKnown: number;
}

/** A branch out of the pool alone. It begins with the state that was found, as a fork does. */
export async function fromPool(
  parts: ManifestRepairParts,
  { id, listed }: BranchInventory,
): Promise<ProposedManifest | string> {
  const { pool, place } = parts;
  const found = findIn(parts, id);
  if (!found) return "the pool holds no whole image of any state of it";
  const { image, chain, last } = found;
  const epoch = (pool.epochs.get(id) ?? 0) + limits.epochsSkipped;
  const bare = bareManifest(place.source.uuid, id, epoch, found);
  const state = await tryState(place, bare);
  if (typeof state === "string") return state;
  const manifest: Manifest = {
    ...bare,
    writerEpochs: state.writerEpochId
      ? [{ epoch: epoch - 1, id: state.writerEpochId, firstTxid: image.lastTxid, lastTxid: last.lastTxid }]
      : [],
  };
  const until = `transaction id ${last.lastTxid} of ${new Date(last.lastAtMs).toISOString()}`;
  const how =
    `the pool alone: an image of transaction id ${image.lastTxid} and ${chain.length} objects after it, up to ` +
    `${until}${listed ? "" : ", of a branch that no catalog lists"}`;
  return { manifest, bytes: encodeManifest(manifest), how, loses: describeLosses(found) };
}

function findIn(parts: ManifestRepairParts, id: string): Found | undefined {
  const own = parts.pool.entries.filter(({ branchId }) => branchId === id);
  const usable = [...own, ...inherited(parts, id)];
  const images = newestImage(usable, Infinity);
  if (!images) return undefined;
  const { ref: image, pages: imagePages } = images[0]!;
  const chain = beforeRewind(
    usable,
    chainFrom(
      usable.filter(({ ref }) => ref.lastTxid > image.lastTxid),
      image.lastTxid + 1,
      Infinity,
      true,
    ),
    image.lastTxid,
  );
  const refs = [...images.map(({ ref }) => ref), ...chain];
  const last = refs.at(-1)!;
  const pages = usable.find(({ ref }) => ref.id === last.id)?.pages ?? imagePages;
  return {
    own,
    image,
    chain,
    refs,
    last,
    pages,
    lastKnown: Math.max(...own.map(({ ref }) => ref.lastTxid), last.lastTxid),
  };
}

/** A manifest of what was found, without any claim: only its restored state tells who wrote it. */
function bareManifest(
  uuid: string,
  branchId: string,
  epoch: number,
  { refs, last, pages, lastKnown }: Found,
): Manifest {
  const hash = computeSha256(Buffer.from(`${uuid}/${branchId}/${last.lastTxid}`));
  return {
    uuid,
    branchId,
    epoch,
    seq: 1,
    nonce: hash.subarray(0, nonceBytes),
    prevHash: new Uint8Array(hash.length),
    node: repairer,
    writerEpochs: [],
    lost: [],
    txid: last.lastTxid,
    committedAtMs: last.lastAtMs,
    reservedTo: lastKnown + limits.txidsSkipped,
    pages,
    fromTxid: last.lastTxid,
    floorTxid: last.lastTxid,
    refs,
    tail: [],
    history: undefined,
    garbageBelowUlid: "",
  };
}

function describeLosses({ own, last, lastKnown }: Found): readonly string[] {
  return [
    ...(last.lastTxid === 0
      ? [
          "EVERYTHING that was ever written on the branch: no object of the pool holds a transaction of it, and " +
            "it begins empty",
        ]
      : []),
    "the whole past of the branch and its checkpoints",
    `whatever was written after transaction id ${last.lastTxid} and is in no object of the pool; among it ` +
      "may be durable writes that stood in the lost manifest alone",
    ...unlaid(own, { firstTxid: last.lastTxid + 1, lastTxid: lastKnown }),
  ];
}

async function tryState(place: StatePlace, manifest: Manifest): Promise<DatabaseState | string> {
  try {
    return await checkState(place, findRestorePlan(manifest, undefined, manifest.txid)!);
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
    return `what could be put together from the pool is not sound: ${error.message}`;
  }
}

/** Objects that are there and cannot be laid upon what is before them. */
function unlaid(own: readonly PoolEntry[], { firstTxid, lastTxid }: TxidRange): string[] {
  const count = own.filter(({ ref }) => ref.lastTxid >= firstTxid).length;
  return count === 0
    ? []
    : [
        `${count} objects up to transaction id ${lastTxid} that follow a gap or what may be a rewind: what they ` +
          "were laid upon cannot be told",
      ];
}

/** What a fork has of the branches that it came from, as the catalog tells. */
function inherited({ pool, catalog }: ManifestRepairParts, id: string): readonly PoolEntry[] {
  const parent = catalog?.branches.find((branch) => branch.id === id)?.parent;
  if (!parent) return [];
  const below = (entry: PoolEntry): PoolEntry[] => {
    const { ref } = entry;
    if (ref.firstTxid > parent.forkTxid) return [];
    if (ref.lastTxid <= parent.forkTxid) return [entry];
    return ref.kind === "image"
      ? []
      : [
          {
            ...entry,
            ref: { ...ref, lastTxid: parent.forkTxid, cut: true },
            rewinds: entry.rewinds.filter((txid) => txid <= parent.forkTxid),
          },
        ];
  };
  const ofParent = [
    ...pool.entries.filter(({ branchId }) => branchId === parent.id),
    ...inherited({ pool, catalog } as ManifestRepairParts, parent.id),
  ];
  return ofParent.flatMap(below);
}
