/**
 * What a local file is to its branch's history, by its own state row, the branch's manifest and what this node
 * remembers.
 *
 * The one rule for a file that is not what object storage says. Pure. Always true: a file is thrown away only when all
 * that it holds is known to have reached object storage (a state of a timeline that the manifest has or had, at or
 * below what the claim that wrote it has shipped); what may hold an acknowledged write that is nowhere else is kept.
 *
 * Why a claim that the manifest does not list is either old or never existed: claims rise, each begins above every
 * transaction id that was reserved before it, and only the oldest leave the manifest's table. So an id below the
 * table's first belongs to a claim that has left it, and what this node noted of that claim tells how far it was
 * shipped; an id at or above it belongs to a claim that this history never had: object storage was put back to before
 * it. The same is true of an id that the manifest never reserved. One case is taken for old that is not: storage was
 * put back while this node was away, and claimed by others sixteen times since; what was shipped before is then
 * abandoned with the history that it was shipped to.
 */
import type { Manifest } from "../../format/history/manifest.ts";
import type { DatabaseState } from "../../model/schema.ts";
import { txidAfter, within } from "../history/timelines.ts";

export type Standing =
  /** The state of the manifest. */
  | "current"
  /** An earlier point of the manifest's own timeline. */
  | "behind"
  /** Beyond the manifest, by groups that this node committed and has not shipped. */
  | "ahead"
  /** Of a timeline that is no longer the manifest's, and all of it is in object storage, or was: of no use. */
  | "stale"
  /** Beyond what its claim has shipped, and the claim is not ours any more: never to be shipped. */
  | "orphaned"
  /** Of a claim that is unknown to the manifest and to this node. */
  | "unknown"
  /** Of a later time than the manifest: object storage was put back. */
  | "beyond";

/** How far a claim is known to have reached object storage; undefined when nothing is known of it. */
export type ShippedTo = (writerEpoch: Uint8Array) => number | undefined;

export function computeStanding(
  manifest: Manifest,
  state: DatabaseState,
  nodeId: string,
  shippedTo: ShippedTo,
): Standing {
  const { txid, writerEpochId } = state;
  if (writerEpochId === undefined) return unclaimed(manifest, txid, nodeId);
  if (txid > manifest.reservedTo && txid > manifest.txid) return "beyond";
  const claim = findClaim(manifest, writerEpochId);
  if (claim === undefined) return ofUnlistedClaim(manifest, txid, shippedTo(writerEpochId));
  if (txid > claim.lastTxid) return txid > manifest.txid && isNewest(manifest, state, nodeId) ? "ahead" : "orphaned";
  if (txid < manifest.fromTxid) return "stale";
  return txid === manifest.txid ? "current" : "behind";
}

/**
 * Before its first claim a branch has no writer epoch: what a fork inherits is in the manifest's table. The empty file
 * of another node, which may be of another build, is not the image that this timeline begins with.
 */
function unclaimed(manifest: Manifest, txid: number, nodeId: string): Standing {
  if (txid > 0) return "unknown";
  if (manifest.fromTxid > 0 || manifest.node !== nodeId) return "stale";
  return manifest.txid === 0 ? "current" : "behind";
}

function ofUnlistedClaim(manifest: Manifest, txid: number, shippedTo: number | undefined): Standing {
  // A fork without a claim is the state it was forked from, whichever node wrote that.
  if (manifest.epoch === 0 && txid === manifest.txid) return "current";
  const isOld = txid < (manifest.writerEpochs[0]?.firstTxid ?? Infinity);
  if (!isOld && txid > manifest.txid) return "beyond";
  return isOld && shippedTo !== undefined && txid <= shippedTo ? "stale" : "unknown";
}

/**
 * Whether this node wrote the file's state, and whatever it has claimed since began right behind that state: a node
 * that dies between a claim and the first commit under it finds a file of the claim before. Another node's claim would
 * have left a gap behind what it could not know.
 */
export function isOwn(manifest: Manifest, state: DatabaseState, nodeId: string): boolean {
  return (
    manifest.node === nodeId &&
    (claimsSince(manifest, state)?.every(({ firstTxid }) => firstTxid === state.txid + 1) ?? false)
  );
}

/**
 * Whether no node can have more than this node's file: the claims since gave up nothing of it, at most what would
 * follow it. A node claims like that when its file may lack what it acknowledged, and may die before the file is
 * shipped.
 */
function isNewest(manifest: Manifest, state: DatabaseState, nodeId: string): boolean {
  if (manifest.node !== nodeId || manifest.lost.some((range) => within(range, state.txid))) return false;
  const nextTxid = txidAfter(manifest, state.txid);
  return claimsSince(manifest, state)?.every(({ firstTxid }) => firstTxid <= nextTxid) ?? false;
}

/** The claims after the one that wrote the state; undefined when the manifest does not list that. */
function claimsSince(manifest: Manifest, { writerEpochId }: DatabaseState): Manifest["writerEpochs"] | undefined {
  const claim = writerEpochId && findClaim(manifest, writerEpochId);
  return claim && manifest.writerEpochs.slice(manifest.writerEpochs.indexOf(claim) + 1);
}

function findClaim({ writerEpochs }: Manifest, id: Uint8Array): Manifest["writerEpochs"][number] | undefined {
  return writerEpochs.find((writerEpoch) => Buffer.compare(writerEpoch.id, id) === 0);
}
