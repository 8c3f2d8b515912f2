/**
 * How this node becomes the writer of an open branch, and how what its log lost reaches object storage even so.
 *
 * Plan, act, record: what a new branch begins with is uploaded, then one compare-and-set of the manifest makes the
 * claim, then the catalog says that the branch exists (engine/history/catalogs says in which order a database begins).
 * A crash between any two leaves objects that nothing refers to, or a claim that the next one replaces; the next claim
 * makes a failure between them good, before any write is acknowledged.
 */
import { closeSync, fstatSync, openSync, readSync, rmSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { TailSegment, WriterEpoch } from "../../format/history/manifest.ts";
import { poolId } from "../../format/keys/object-keys.ts";
import { lockPage, makeCanonical, pageBytes } from "../../format/history/pages.ts";
import { encodeSegment, type PageGroup, type PageImage } from "../../format/history/segment.ts";
import type { ManifestChange } from "../history/manifest-writer.ts";
import type { Catalogs } from "../history/catalogs.ts";
import { packDue } from "../compaction/timeline-length.ts";
import { findRestorePlan, reachingTo, withLost } from "../history/timelines.ts";
import { LostObject } from "../api/missing-objects.ts";
import type { Opened } from "../opening/opened-file.ts";
import { uploadImages } from "../compaction/compaction.ts";
import { joined, putObject, type PageSource } from "../segments/pool-objects.ts";
import { materialise } from "../segments/restore.ts";
import { removeRestoredMarker } from "../opening/restored-file.ts";
import { packTimeline } from "../compaction/compactor.ts";
import { withUploads } from "../history/uploads.ts";

export interface WriterEpochParts {
  readonly source: PageSource;
  readonly catalogs: Catalogs;
  readonly world: World;
  readonly bytesPut: (bytes: number) => void;
}

/**
 * Claims the branch for this node, under its lease epoch. The claim has landed when this resolves; nothing may be
 * written under it before it is recorded.
 */
export async function claimWriterEpoch(
  parts: WriterEpochParts,
  opened: Opened,
  leaseEpoch: number,
): Promise<WriterEpoch> {
  const { manifest, uuid, state } = opened;
  if (!manifest.exists) await parts.catalogs.begin(uuid);
  const first = manifest.exists ? {} : await firstState(parts, opened);
  return manifest.claim(state.txid, opened.knowsAll, first, leaseEpoch);
}

/**
 * Makes a landed claim known to the catalog and to the disk. What fails here is done again by the next request for the
 * claim.
 */
export async function recordWriterEpoch(
  parts: WriterEpochParts,
  { uuid, connection }: Opened,
  lost: (error: LostObject) => void,
): Promise<void> {
  try {
    await parts.catalogs.ensure(uuid);
  } catch (error) {
    if (!(error instanceof LostObject)) throw error;
    lost(error);
  }
  removeRestoredMarker(connection.path);
  parts.world.crashPoint("claimed");
}

/**
 * The image of a file that no manifest covers yet. Its log was checkpointed when it was opened, and nothing commits
 * before the claim.
 */
async function firstState(parts: WriterEpochParts, opened: Opened): Promise<ManifestChange> {
  const { connection, state, branchId } = opened;
  const point = { txid: state.txid, committedAtMs: state.committedAtMs };
  const { refs, pages } = await uploadImages(parts.source, connection.path, point, branchId, () =>
    poolId(branchId, 1, parts.world.ulid()),
  );
  for (const { bytes } of refs) parts.bytesPut(bytes);
  parts.world.crashPoint("image-put");
  return { refs, pages, txid: state.txid, committedAtMs: state.committedAtMs, fromTxid: state.txid };
}

/**
 * Ships what a file has beyond its manifest when the log that led there is gone: the state of the manifest is restored
 * beside the file, and the pages that differ become one group. The states between can no longer be restored and are
 * noted as lost.
 */
export async function shipDifference(parts: WriterEpochParts, opened: Opened): Promise<void> {
  const { manifest, uuid, branchId, state, connection } = opened;
  const { source, world } = parts;
  const plan = findRestorePlan(manifest.now, undefined, manifest.now.txid);
  if (!plan) throw new StoreError("corrupt", "a manifest does not say how its own state is restored");
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  const shippedPath = `${connection.path}.${world.ulid()}.tmp`;
  await materialise(source, plan, shippedPath);
  const { images, pages } = computeDifference(shippedPath, connection.path);
  rmSync(shippedPath);
  const group: PageGroup = { txid: state.txid, committedAtMs: state.committedAtMs, pages, images };
  const segment = await encodeSegment(
    { kind: "delta", uuid, branchId, epoch: manifest.now.epoch, groups: [group] },
    source.press,
  );
  const own: TailSegment = {
    firstTxid: state.txid,
    lastTxid: state.txid,
    lastAtMs: state.committedAtMs,
    rawBytes: images.length * pageBytes,
    bytes: segment,
  };
  // Nothing else packs a branch that does not open.
  const due = manifest.now.refs.length >= limits.timelineRefsMax ? packDue(manifest.now) : undefined;
  if (due) await packTimeline(parts, manifest, due);
  await withUploads(manifest, async (uploads) => {
    const ref = await putObject(source, { ...joined([...manifest.now.tail, own]), kind: "delta", id: uploads.newId() });
    parts.bytesPut(ref.bytes);
    await uploads.update((now) => {
      if (now.txid >= state.txid) return undefined;
      const skipped = state.txid - now.txid > 1 ? [{ firstTxid: now.txid + 1, lastTxid: state.txid - 1 }] : [];
      // What it holds may be of several claims: a node may die between a claim and the first thing that it ships.
      const writerEpochs = state.writerEpochId ? reachingTo(now, state.txid) : now.writerEpochs;
      return {
        refs: [...now.refs, ref],
        tail: [],
        lost: withLost(now.lost, skipped),
        writerEpochs,
        txid: state.txid,
        committedAtMs: state.committedAtMs,
        pages,
      };
    });
  });
}

const comparedPages = 256;

/** The canonical images of the pages of `path` that are not the same in `basePath`. */
function computeDifference(
  basePath: string,
  path: string,
): { readonly images: readonly PageImage[]; readonly pages: number } {
  // Descriptors of a file that SQLite holds open: closing one drops this process's locks on it, which guard only
  // against other processes; the lock of the data directory keeps those away.
  const [base, current] = [openSync(basePath, "r"), openSync(path, "r")];
  try {
    const pages = fstatSync(current).size / pageBytes;
    const images: PageImage[] = [];
    const [before, after] = [new Uint8Array(comparedPages * pageBytes), new Uint8Array(comparedPages * pageBytes)];
    for (let from = 0; from < pages; from += comparedPages) {
      before.fill(0);
      readSync(base, before, 0, before.length, from * pageBytes);
      const read = readSync(current, after, 0, after.length, from * pageBytes);
      for (let at = 0; at < read; at += pageBytes) {
        const page = from + at / pageBytes + 1;
        const bytes = after.slice(at, at + pageBytes);
        makeCanonical(bytes, page);
        if (page !== lockPage && Buffer.compare(bytes, before.subarray(at, at + pageBytes)) !== 0)
          images.push({ page, bytes });
      }
    }
    return { images, pages };
  } finally {
    closeSync(base);
    closeSync(current);
  }
}
