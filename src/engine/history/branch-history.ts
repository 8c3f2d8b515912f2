/** Reads and writes the history objects that manifests refer to. */
import { invalid, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { computeSha256, type Manifest, type HistoryRef } from "../../format/history/manifest.ts";
import { decodeHistory, encodeHistory, type History } from "../../format/history/history.ts";
import { historyKey } from "../../format/keys/object-keys.ts";
import type { Timeline } from "../../format/history/refs.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { putImmutable, sameBytes } from "../../store/port/sure-put.ts";
import type { ManifestChange } from "./manifest-writer.ts";
import { trimmed } from "./timelines.ts";
import type { Uploads } from "./uploads.ts";

/**
 * References of all its timelines together, of 160 bytes at most; a sixteenth of the bytes is left to timelines and
 * checkpoints.
 */
export const historyRefsMax = 96 * 1024;

/**
 * The history of a manifest; an empty one when it has none. Throws StoreError("corrupt") when it is not what the
 * manifest names.
 */
export async function readHistory(store: ObjectStore, manifest: Manifest): Promise<History> {
  const { uuid, branchId, history } = manifest;
  if (!history) return { uuid, branchId, timelines: [], checkpoints: [] };
  const stored = await store.get(historyKey(uuid, history.id));
  if (!stored || stored.bytes.length !== history.bytes || !sameBytes(computeSha256(stored.bytes), history.sha256)) {
    throw new StoreError("corrupt", `the history object ${history.id} is missing or not what its manifest names`);
  }
  return decodeHistory(stored.bytes);
}

/** Puts a history under an unused id and gives what a manifest says of it; nothing for an empty one. */
export async function putHistory(store: ObjectStore, history: History, id: string): Promise<HistoryRef | undefined> {
  if (history.timelines.length === 0 && history.checkpoints.length === 0) return undefined;
  const bytes = encodeHistory(history);
  await putImmutable(store, historyKey(history.uuid, id), bytes);
  return { id, bytes: bytes.length, sha256: computeSha256(bytes) };
}

/** The outcome of a change of history: the new one, and what else changes in the manifest with it. */
export interface HistoryChange {
  readonly history: History;
  /** Called with the manifest that the change is made to; undefined when it no longer fits. */
  readonly with: (manifest: Manifest) => ManifestChange | undefined;
}

const racesMax = 16;

/**
 * Changes a branch's history: a new object, then the manifest that names it. `change` gives nothing when there is
 * nothing to do, and may throw a refusal; it is called again when history was changed meanwhile. `uploads` has the
 * names of what the new history names besides. Says whether it was done.
 */
export async function changeHistory(
  store: ObjectStore,
  uploads: Uploads,
  change: (manifest: Manifest, history: History) => HistoryChange | undefined | Promise<HistoryChange | undefined>,
): Promise<boolean> {
  const { manifest } = uploads;
  for (let race = 0; race < racesMax; race++) {
    const before = manifest.now;
    const next = await change(before, await readHistory(store, before));
    if (!next) return false;
    const history = await putHistory(store, next.history, uploads.newId());
    let done = false;
    await uploads.update((now) => {
      if (now.history?.id !== before.history?.id) return undefined;
      const others = next.with(now);
      done = others !== undefined;
      return others && { ...others, history };
    });
    if (done) return true;
  }
  throw new StoreError("unavailable", "a branch's history changed too often to be changed");
}

function countRefs(timelines: readonly Timeline[]): number {
  return timelines.reduce((sum, { refs }) => sum + refs.length, 0);
}

function fits(timelines: readonly Timeline[]): boolean {
  return timelines.length <= limits.historyTimelinesMax && countRefs(timelines) <= historyRefsMax;
}

/** The history with nothing but what its checkpoints need: of each, the newest timeline that holds it. */
function pinned(history: History): History {
  const needed = new Set(
    history.checkpoints.map(({ txid }) =>
      history.timelines.findLastIndex(({ fromTxid, toTxid }) => txid >= fromTxid && txid <= toTxid),
    ),
  );
  return trimmed({ ...history, timelines: history.timelines.filter((_, index) => needed.has(index)) }, Infinity);
}

/**
 * The history with one more timeline. At its bound the oldest timelines that no checkpoint needs are dropped: a branch
 * that changes so much that its window does not fit keeps writing, and can go back less far. Checkpoints alone never
 * fill it, as one that would is refused (`refuseCheckpoint`), but for those of an older build.
 */
export function withTimeline(history: History, timeline: Timeline): History {
  const timelines = [...history.timelines, timeline];
  const isNamed = ({ fromTxid, toTxid }: Timeline): boolean =>
    history.checkpoints.some(({ txid }) => txid >= fromTxid && txid <= toTxid);
  while (!fits(timelines)) {
    const oldest = timelines.findIndex((one) => !isNamed(one));
    if (oldest < 0) break;
    timelines.splice(oldest, 1);
  }
  if (fits(timelines)) return { ...history, timelines };
  const least = pinned({ ...history, timelines });
  if (!fits(least.timelines))
    throw invalid("the branch's checkpoints hold as much of its history as there is room for; delete some first");
  return least;
}

/**
 * Refuses a checkpoint of a timeline of this many references, when what all of them hold might outgrow the history once
 * that timeline is closed.
 */
export function refuseCheckpoint(history: History, timelineRefs: number): void {
  if (history.checkpoints.length >= limits.checkpointsMax)
    throw invalid(`a branch has at most ${limits.checkpointsMax} checkpoints; delete some first`);
  const room = historyRefsMax - timelineRefs;
  if (countRefs(history.timelines) <= room || countRefs(pinned(history).timelines) <= room) return;
  throw invalid("the branch's checkpoints hold as much of its history as there is room for; delete some first");
}
