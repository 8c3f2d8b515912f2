/**
 * A branch's local file brought to the state of its manifest, from what object storage has.
 *
 * Always true: before such a state is there, a mark on the disk beside it says that its node may have acknowledged more
 * than it has; the mark is removed when the branch is claimed. Must not know: which file is to be brought forward, or
 * why.
 */
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { markFile, type Disk } from "../../base/disk.ts";
import type { World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { replaceFile, restoredMark } from "../local/database-files.ts";
import { findRestorePlan, type Plan } from "../history/timelines.ts";
import { UnusableManifest } from "../api/missing-objects.ts";
import { materialise, rollForward } from "../segments/restore.ts";

/** What a file is restored with. */
export interface RestoringParts {
  readonly world: World;
  readonly store: ObjectStore;
  readonly press: Compression;
  readonly disk: Disk;
}

/**
 * Lies beside a file that was restored and not written since: its node may have acknowledged more than it has, under
 * transaction ids that must not be given again.
 */
function restoredMarker(path: string): string {
  return `${path}${restoredMark}`;
}

/** Whether what the file's node acknowledged may be missing from the file. */
export function isRestored(path: string): boolean {
  return existsSync(restoredMarker(path));
}

/** The file's node has claimed the branch: from now on nothing it acknowledges can be missing from the file. */
export function removeRestoredMarker(path: string): void {
  rmSync(restoredMarker(path), { force: true });
}

/** Brings a closed file, which has the state of an id on the manifest's own timeline, to the manifest's state. */
export async function rollFileForward(
  parts: RestoringParts,
  path: string,
  manifest: Manifest,
  uuid: string,
  fromTxid: number,
): Promise<void> {
  const plan = ownPlan(manifest);
  await markRestored(parts, path);
  await rollForward({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, fromTxid, path);
  parts.world.crashPoint("patched");
}

/** Puts the manifest's state in the place of whatever lies under the path. */
export async function restoreFile(
  parts: RestoringParts,
  path: string,
  manifest: Manifest,
  uuid: string,
): Promise<void> {
  const plan = ownPlan(manifest);
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${parts.world.ulid()}.tmp`;
  await materialise({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, temporary);
  await markRestored(parts, path);
  parts.world.crashPoint("restored");
  await replaceFile(temporary, path, parts.disk);
  // The database's own folder may be new too.
  await parts.disk.syncDirectory(dirname(dirname(path)));
}

/**
 * The marker is on disk before the state that needs it: a file that came back without it would give lost transaction
 * ids again.
 */
async function markRestored({ disk }: RestoringParts, path: string): Promise<void> {
  if (isRestored(path)) return;
  markFile(restoredMarker(path));
  await disk.syncDirectory(dirname(path));
}

function ownPlan(manifest: Manifest): Plan {
  const plan = findRestorePlan(manifest, undefined, manifest.txid);
  if (!plan) throw new UnusableManifest("a manifest does not say how its own state is restored");
  return plan;
}
