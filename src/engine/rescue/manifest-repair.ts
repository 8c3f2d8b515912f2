/**
 * The newest sound manifest of a branch whose own is missing, unreadable or refers to what is gone.
 *
 * Three ways, each tried where the one before gives nothing: the manifest that is there, with what is missing put
 * together from other objects of the pool, else cut before it; an older version of the manifest that the store has
 * kept, carried on as far as the pool goes on without a doubt; the pool alone (engine/rescue/pool-repair).
 *
 * Always true:
 * - what is proposed is restored and checked first
 * - its epoch is above all that are known, and it skips transaction ids, as it is unknown which were given
 * - what is lost by it is said
 *
 * Nothing is written here, and the same store gives the same proposal. Must not know: who writes it.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { encodeManifest, computeSha256, type Manifest } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import { manifestKey } from "../../format/keys/object-keys.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { listOlderVersions } from "../../store/port/object-store.ts";
import { readHistory } from "../history/branch-history.ts";
import { ownManifest, type BranchInventory } from "./inventory.ts";
import { findGaps } from "../history/timeline-gaps.ts";
import { forkedManifest, findRestorePlan } from "../history/timelines.ts";
import { checkState } from "../segments/newest-state.ts";
import { beforeRewind, chainFrom, type PoolEntry } from "./pool-index.ts";
import { fromPool } from "./pool-repair.ts";
import { nonceBytes, repairer, type ManifestRepairParts, type ProposedManifest } from "./proposed-manifest.ts";
import { readStatePoint } from "../segments/restore.ts";
import type { StatePlace } from "../segments/restored-state.ts";

/** A base to go on from: a manifest, its past, and the SHA-256 of its bytes. */
interface Base {
  readonly manifest: Manifest;
  readonly history: History | undefined;
  readonly hash: Uint8Array;
}

/** The newest manifest that can be recovered, or why none can. */
export async function proposeManifest(
  parts: ManifestRepairParts,
  branch: BranchInventory,
): Promise<ProposedManifest | string> {
  const base = await findBase(parts, branch);
  const proposal =
    (base && (await fromBase(parts, base, branch.manifest.kind === "sound"))) ?? (await fromPool(parts, branch));
  if (typeof proposal === "string") return proposal;
  try {
    await checkState(parts.place, findRestorePlan(proposal.manifest, undefined, proposal.manifest.txid)!);
    return proposal;
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
    return `what could be put together is not sound: ${error.message}`;
  }
}

/** The manifest itself, or the newest older version of it that can be read. */
async function findBase(
  { place: { source } }: ManifestRepairParts,
  { id, manifest }: BranchInventory,
): Promise<Base | undefined> {
  if (manifest.kind === "sound")
    return {
      manifest: manifest.value,
      history: await readPast(source.store, manifest.value),
      hash: computeSha256(manifest.bytes),
    };
  const older: Base[] = [];
  for (const { bytes } of await listOlderVersions(source.store, manifestKey(source.uuid, id))) {
    const value = readable(() => ownManifest(bytes, source.uuid, id));
    if (value)
      older.push({ manifest: value, history: await readPast(source.store, value), hash: computeSha256(bytes) });
  }
  return older.sort((a, b) => b.manifest.epoch - a.manifest.epoch || b.manifest.seq - a.manifest.seq)[0];
}

async function readPast(store: StatePlace["source"]["store"], manifest: Manifest): Promise<History | undefined> {
  try {
    return await readHistory(store, manifest);
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
    return undefined;
  }
}

function readable<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return undefined;
  }
}

/** The base with what is missing put together from the pool, or cut before it; an older one is carried on. */
async function fromBase(
  parts: ManifestRepairParts,
  base: Base,
  isNewest: boolean,
): Promise<ProposedManifest | undefined> {
  const { pool } = parts;
  const sound = new Map(pool.entries.map((entry) => [entry.ref.id, entry]));
  const isThere = (ref: SegmentRef): boolean => sound.get(ref.id)?.ref.bytes === ref.bytes;
  const own = pool.entries.filter(({ branchId }) => branchId === base.manifest.branchId);
  const mended = base.manifest.refs.flatMap((ref) => (isThere(ref) ? [ref] : (substituteFor(ref, own) ?? [ref])));
  const whole: Manifest = { ...base.manifest, refs: mended };
  const target = newestTxid(whole, base.history, isThere);
  if (target === undefined) return undefined;
  const cut = await cutTo(parts, { ...base, manifest: whole }, target, isThere);
  if (!cut) return undefined;
  const more = isNewest || target < base.manifest.txid ? [] : carriedOn(own, cut);
  return proposed(parts, base, { ...cut, ...extension(cut, more, own) }, isNewest, isThere);
}

/** Other objects of the same branch that hold exactly the same ids. */
function substituteFor(ref: SegmentRef, own: readonly PoolEntry[]): readonly SegmentRef[] | undefined {
  if (ref.kind === "image") return undefined;
  const chain = chainFrom(own, ref.firstTxid, ref.lastTxid, false);
  return chain.at(-1)?.lastTxid === ref.lastTxid ? chain : undefined;
}

/** The newest state that is complete. */
function newestTxid(
  manifest: Manifest,
  history: History | undefined,
  isThere: (ref: SegmentRef) => boolean,
): number | undefined {
  const timelines = [
    { fromTxid: manifest.fromTxid, toTxid: manifest.txid, refs: manifest.refs, tail: manifest.tail },
    ...(history?.timelines ?? []).map((timeline) => ({ ...timeline, tail: [] })),
  ];
  const ends = timelines.flatMap((timeline) => {
    if (!timeline.refs.filter(({ kind }) => kind === "image").every(isThere)) return [];
    const broken = timeline.refs.find((ref) => ref.kind === "delta" && !isThere(ref));
    const gap = findGaps(timeline, manifest.lost)[0];
    const stop = Math.min(broken?.firstTxid ?? Infinity, gap?.firstTxid ?? Infinity, timeline.toTxid + 1);
    return reachBelow(timeline, stop);
  });
  const possible = ends.filter((txid) => findRestorePlan(manifest, history, txid) !== undefined);
  return possible.length === 0 ? undefined : Math.max(...possible);
}

/** The last id of the timeline below `stop` that an object ends with, or a tail. */
function reachBelow(
  {
    fromTxid,
    refs,
    tail,
  }: { readonly fromTxid: number; readonly refs: readonly SegmentRef[]; readonly tail: Manifest["tail"] },
  stop: number,
): number[] {
  const ends = [...refs, ...tail].map(({ lastTxid }) => lastTxid).filter((txid) => txid < stop && txid >= fromTxid);
  return ends.length === 0 ? [] : [Math.max(...ends)];
}

/** The branch as it was at the id. */
async function cutTo(
  { place: { source } }: ManifestRepairParts,
  { manifest, history }: Base,
  txid: number,
  isThere: (ref: SegmentRef) => boolean,
): Promise<Manifest | undefined> {
  const plan = findRestorePlan(manifest, history, txid);
  if (!plan || ![...plan.images, ...plan.deltas].every(isThere)) return undefined;
  if (txid === manifest.txid) return manifest;
  const point = await readStatePoint(source, manifest, plan);
  const own = { branchId: manifest.branchId, nonce: manifest.nonce, node: manifest.node, ...point };
  const cut = await forkedManifest(manifest, history, txid, own, source.press);
  // The claims stay known, and what they gave up: the node that has more on its disk must be told apart from a
  // stranger.
  const writerEpochs = manifest.writerEpochs.map((writerEpoch) => ({
    ...writerEpoch,
    lastTxid: Math.max(writerEpoch.firstTxid - 1, Math.min(writerEpoch.lastTxid, txid)),
  }));
  return (
    cut && {
      ...cut,
      epoch: manifest.epoch,
      seq: manifest.seq,
      reservedTo: manifest.reservedTo,
      fromTxid: plan.fromTxid,
      floorTxid: manifest.floorTxid,
      history: manifest.history,
      writerEpochs,
      lost: manifest.lost,
    }
  );
}

/** What the same claim has put behind the manifest, as far as it goes on without a doubt. */
function carriedOn(own: readonly PoolEntry[], { txid, epoch, tail }: Manifest): readonly SegmentRef[] {
  const ofClaim = own.filter((entry) => entry.epoch === epoch);
  // What the tail held may now be in an object together with what came after it.
  const starts = [txid + 1, ...tail.map(({ firstTxid }) => firstTxid)];
  const chains = starts
    .map((start) => beforeRewind(own, chainFrom(ofClaim, start, Infinity, false), txid))
    .filter((chain) => chain.length > 0 && chain.at(-1)!.lastTxid > txid);
  return chains.reduce<readonly SegmentRef[]>(
    (best, chain) => (chain.at(-1)!.lastTxid > (best.at(-1)?.lastTxid ?? 0) ? chain : best),
    [],
  );
}

function extension(manifest: Manifest, more: readonly SegmentRef[], own: readonly PoolEntry[]): Partial<Manifest> {
  const last = more.at(-1);
  if (!last) return {};
  const { pages } = own.find(({ ref }) => ref.id === last.id)!;
  const writerEpochs = manifest.writerEpochs.map((writerEpoch, at) =>
    at === manifest.writerEpochs.length - 1
      ? { ...writerEpoch, lastTxid: Math.max(writerEpoch.lastTxid, last.lastTxid) }
      : writerEpoch,
  );
  // What the tail held may be in an object by now.
  const tail = manifest.tail.filter(({ lastTxid }) => lastTxid < more[0]!.firstTxid);
  return {
    refs: [...manifest.refs, ...more],
    tail,
    writerEpochs,
    txid: last.lastTxid,
    committedAtMs: last.lastAtMs,
    pages,
  };
}

/** The base's successor, and what is lost by it. */
async function proposed(
  { pool }: ManifestRepairParts,
  { manifest: before, history, hash }: Base,
  state: Manifest,
  isNewest: boolean,
  isThere: (ref: SegmentRef) => boolean,
): Promise<ProposedManifest> {
  const epoch = Math.max(before.epoch, pool.epochs.get(before.branchId) ?? 0) + (isNewest ? 1 : limits.epochsSkipped);
  const known = Math.max(
    before.reservedTo,
    before.txid,
    ...pool.entries.filter(({ branchId }) => branchId === before.branchId).map(({ ref }) => ref.lastTxid),
  );
  const past = keptPast(history, isThere);
  const loses: string[] = [];
  if (state.txid === 0 && before.txid > 0)
    loses.push("EVERYTHING that was ever written on the branch, as far as object storage goes: it begins empty");
  if (state.txid < before.txid) {
    const unless = `, unless the disk of the node ${before.node} has them: it ships them when it starts`;
    loses.push(`transaction ids ${state.txid + 1} to ${before.txid}${isNewest ? unless : ""}`);
  }
  if (!isNewest)
    loses.push(
      `whatever was written after transaction id ${state.txid} and is in no object of the pool; among it may ` +
        "be durable writes that stood in the lost manifest alone",
    );
  if (before.history && past !== "all")
    loses.push(`the past before this timeline${named(history)}: it can be gone back to no more`);
  const manifest: Manifest = {
    ...state,
    epoch,
    seq: before.seq + 1,
    prevHash: hash,
    nonce: computeSha256(hash).subarray(0, nonceBytes),
    garbageBelowUlid: "",
    // A lost claim may have followed an older manifest: then no node may take the branch for its own.
    node: isNewest ? before.node : repairer,
    reservedTo: known + limits.txidsSkipped,
    history: past === "all" ? before.history : undefined,
  };
  const how = isNewest
    ? "the manifest that is there, without what is missing"
    : `an older version of the manifest (epoch ${before.epoch}, number ${before.seq}) that the store has kept`;
  return {
    manifest,
    bytes: encodeManifest(manifest),
    how: `${how}, up to transaction id ${state.txid} of ${new Date(state.committedAtMs).toISOString()}`,
    loses,
  };
}

function named(history: History | undefined): string {
  const names = history?.checkpoints.map(({ name }) => name) ?? [];
  if (history === undefined) return " and its checkpoints";
  if (names.length === 0) return "";
  const more = names.length > limits.findingKeysMax ? ` and ${names.length - limits.findingKeysMax} more` : "";
  return ` and the checkpoints ${names.slice(0, limits.findingKeysMax).join(", ")}${more}`;
}

/**
 * Whether the past can stay as it is. A part of it would need an object of its own, which only a writer of the branch
 * may name.
 */
function keptPast(history: History | undefined, isThere: (ref: SegmentRef) => boolean): "all" | "none" {
  return history && history.timelines.every(({ refs }) => refs.every(isThere)) ? "all" : "none";
}
