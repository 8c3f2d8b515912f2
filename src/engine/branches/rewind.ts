/**
 * Puts a branch's state back to an earlier one, by a commit that goes forward.
 *
 * Plan, act, record: the earlier state is restored beside the open file and given a new transaction id; that one small
 * group is uploaded; the timeline that ends goes into history; one compare-and-set of the manifest makes it all true.
 * Then the new file takes the old one's place. A crash before the compare-and-set leaves the branch as it was; a crash
 * after it leaves a local file of a timeline that is no longer the manifest's, which is restored when the branch is
 * opened.
 *
 * The caller holds the branch exclusively meanwhile, and has shipped all of it.
 */
import { renameSync } from "node:fs";
import { assert } from "../../base/faults/assert.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import { makeCanonical } from "../../format/history/pages.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { encodeSegment, type PageGroup } from "../../format/history/segment.ts";
import { sealTransaction, type Seal } from "../../model/core/change-log.ts";
import { readState } from "../../model/schema.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { WalReader } from "../../sqlite/wal/wal-reader.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { removeFile } from "../local/database-files.ts";
import { planTo, type BranchParts } from "./branches.ts";
import { changeHistory, readHistory, withTimeline } from "../history/branch-history.ts";
import { findRestorePlan, reaching, rewound, type Plan } from "../history/timelines.ts";
import { joined, putObject, type PageSource } from "../segments/pool-objects.ts";
import { materialise } from "../segments/restore.ts";
import { Uploads } from "../history/uploads.ts";

export interface Rewind {
  readonly manifest: ManifestWriter;
  /** The branch's file, which is closed by the time `exchange` is called. */
  readonly path: string;
  /** The transaction id of the rewind itself. */
  readonly txid: number;
  readonly writerEpochId: Uint8Array;
  readonly to: string;
}

export interface Rewound {
  readonly rewoundTo: number;
  /** Puts the new file in the place of the old one. */
  readonly exchange: () => void;
}

/** Makes the rewind true in object storage. Throws not_found when the state cannot be restored. */
export async function rewindBranch(
  parts: BranchParts,
  { manifest, path, txid, writerEpochId, to }: Rewind,
): Promise<Rewound> {
  const { uuid, branchId } = manifest.now;
  const source = parts.source(uuid);
  const uploads = new Uploads(manifest);
  // A refusal comes before anything is changed.
  const { txid: toTxid } = await planTo(parts, manifest.now, await readHistory(source.store, manifest.now), to);
  const temporary = `${path}.${parts.world.ulid()}.tmp`;
  try {
    await spillTail(uploads, source);
    const plan = presentPlan(manifest.now, await readHistory(source.store, manifest.now), toTxid);
    // And one for the rewind itself. Timelines are packed long before they are so long, but for some that an older
    // build has left.
    if (plan.images.length + plan.deltas.length >= limits.timelineRefsMax) {
      throw new ServiceError(
        "overloaded",
        `transaction ${toTxid} is held by as many objects as a branch may have: it must be packed first, or forked`,
        { retryAfterSecs: 30 },
      );
    }
    await materialise(source, plan, temporary);
    const group = renumbered(temporary, {
      txid,
      committedAtMs: Math.max(parts.world.nowMs(), parts.world.time.believable(manifest.now.committedAtMs)),
      writerEpochId: writerEpochId,
      changesKeptMs: parts.pitrMs(uuid),
    });
    const bytes = await encodeSegment(
      { kind: "delta", uuid, branchId, epoch: manifest.now.epoch, groups: [group] },
      source.press,
    );
    const rawBytes = group.images.reduce((sum, image) => sum + image.bytes.length, 0);
    const delta = await putObject(source, {
      kind: "delta",
      id: uploads.newId(),
      firstTxid: txid,
      lastTxid: txid,
      lastAtMs: group.committedAtMs,
      rawBytes,
      bytes,
    });
    parts.world.crashPoint("rewind-put");
    await publish(parts, uploads, plan, delta, group, writerEpochId);
    parts.world.crashPoint("rewind-landed");
  } catch (error) {
    removeFile(temporary);
    throw error;
  } finally {
    uploads.end();
  }
  return {
    rewoundTo: toTxid,
    exchange: () => {
      removeFile(path);
      renameSync(temporary, path);
    },
  };
}

async function publish(
  parts: BranchParts,
  uploads: Uploads,
  plan: Plan,
  delta: SegmentRef,
  group: PageGroup,
  writerEpochId: Uint8Array,
): Promise<void> {
  const { manifest } = uploads;
  await changeHistory(parts.source(manifest.now.uuid).store, uploads, (now, history) => {
    // Only an earlier try of this very change can have moved the manifest meanwhile; it may have landed.
    if (now.txid >= group.txid) return undefined;
    // Objects may have been packed since the state was restored, and what they were packed from may be condemned by
    // now.
    const present = presentPlan(now, history, plan.txid);
    const { refs, fromTxid, closed } = rewound(now, present, delta, group.committedAtMs);
    const writerEpochs = reaching(now.writerEpochs, writerEpochId, group.txid);
    return {
      history: withTimeline(history, closed),
      with: (latest) =>
        latest.refs !== now.refs
          ? undefined
          : { refs, fromTxid, writerEpochs, txid: group.txid, committedAtMs: group.committedAtMs, pages: group.pages },
    };
  });
  assert(manifest.now.txid === group.txid, "a rewind has landed");
}

function presentPlan(manifest: Manifest, history: History, txid: number): Plan {
  const plan = findRestorePlan(manifest, history, txid);
  if (plan) return plan;
  throw new ServiceError("not_found", `transaction ${txid} has left the history meanwhile`);
}

/** The tail becomes an object: what goes into history has none. */
async function spillTail(uploads: Uploads, source: PageSource): Promise<void> {
  const { manifest } = uploads;
  if (manifest.now.tail.length === 0) return;
  const ref = await putObject(source, { ...joined(manifest.now.tail), kind: "delta", id: uploads.newId() });
  await uploads.update((now) => (now.tail.length === 0 ? undefined : { refs: [...now.refs, ref], tail: [] }));
}

/** Gives the restored state its new place in history, in the file itself, and gives that as a group. */
function renumbered(path: string, state: Seal): PageGroup {
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  const log = new WalReader(path);
  try {
    assert(readState(connection).txid < state.txid, "a rewind has a transaction id of its own");
    connection.run("BEGIN IMMEDIATE");
    sealTransaction(connection, state, [], true);
    connection.run("COMMIT");
    const [commit] = log.read(1, 1);
    assert(commit !== undefined, "a commit stands in the log");
    for (const { page, bytes } of commit.images) makeCanonical(bytes, page);
    return { txid: state.txid, committedAtMs: state.committedAtMs, pages: commit.pages, images: commit.images };
  } finally {
    log.close();
    // Closing the last connection checkpoints the log.
    connection.close();
  }
}
