/**
 * From a branch's name to an open file that is provably a point of its history.
 *
 * A local file is a cache: its own pages say which writer epoch wrote it and how far (`__service_state`), and the
 * manifest says which writer epochs there were and how far each came (engine/opening/standing). Always true: a file is
 * used as it is, rolled forward, replaced by the manifest's state, or set aside (engine/local/quarantine); it is never
 * shipped from unless this node holds the branch's newest writer epoch. A manifest that is older than one this node has
 * seen is refused, and nothing is touched for it, unless an operator accepts it; then what is newer here is set aside
 * first. Must not know: queues, commits.
 */
import { existsSync, statSync } from "node:fs";
import { limits } from "../../base/limits/limits.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { readState, stateRootPage, type DatabaseState } from "../../model/schema.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { WalReader } from "../../sqlite/wal/wal-reader.ts";
import { checkReserved } from "../../sqlite/soundness.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { isNewer } from "../local/seen-manifests.ts";
import { branchPath, createFile, finishReplacement, removeFile, settleProof } from "../local/files.ts";
import { lostManifest } from "../api/lost.ts";
import {
  foldIn,
  isBroken,
  letGo,
  openConnection,
  openedAt,
  openedCurrent,
  type FileOpeningParts,
  type Found,
  type Opened,
} from "./opened-file.ts";
import { RottenObject } from "../segments/pool-objects.ts";
import type { Quarantine } from "../local/quarantine.ts";
import { isPatching } from "../segments/restore.ts";
import { restoreFile, rollFileForward, type RestoringParts } from "./restored-file.ts";
import {
  noteSeen,
  olderThanSeen,
  readManifest,
  type ManifestReadingParts,
  type ReadManifest,
} from "./served-manifest.ts";
import { standingOf } from "./standing.ts";

export interface OpeningParts extends ManifestReadingParts, FileOpeningParts, RestoringParts {
  readonly databasesDirectory: string;
  /** Resolves when files may be made; true when what was read before is to be read anew (engine/local/copies). */
  readonly registered: Promise<boolean>;
  /** The bytes of an empty database. */
  readonly empty: Uint8Array;
  readonly quarantine: Quarantine;
  /** Whether object storage has anything of the database. */
  readonly hasRemains: () => Promise<boolean>;
}

/**
 * Opens a branch's file, creating, rolling forward or restoring it as its history demands. `held` is a manifest that
 * this thread already owns. `isListed`: whether the catalog says that the branch has a manifest; undefined when there
 * is no catalog.
 */
export async function openBranch(
  parts: OpeningParts,
  uuid: string,
  branchId: string,
  held: ManifestWriter | undefined,
  isListed: boolean | undefined,
): Promise<Opened> {
  const path = branchPath(parts.databasesDirectory, uuid, branchId);
  // What a crash has cut short is finished before anything looks at the file.
  await parts.quarantine.settle(uuid, branchId);
  finishReplacement(path);
  await settleProof(path, parts.disk);
  // Before anything opens the file: a close in order takes the log away, even an empty one, after the slack is gone.
  const logWasLeft = existsSync(`${path}-wal`);
  const opened = await openFile(parts, path, uuid, branchId, held, isListed);
  // A log that is lost was folded in by somebody else.
  return { ...opened, historyId: opened.manifest.now.history?.id, slackUnknown: logWasLeft || opened.logIsLost };
}

async function openFile(
  parts: OpeningParts,
  path: string,
  uuid: string,
  branchId: string,
  held: ManifestWriter | undefined,
  isListed: boolean | undefined,
): Promise<Found> {
  let read: ReadManifest = held ? { manifest: held, isOlder: false } : await readManifest(parts, uuid, branchId);
  // Before the first file: its registration, and then a manifest that was read after it.
  if (!existsSync(path) && (await parts.registered) && read.manifest.exists && !read.manifest.writerEpoch)
    read = await readManifest(parts, uuid, branchId);
  for (let attempt = 1; ; attempt++) {
    try {
      const found = await openAt(parts, path, read, uuid, branchId, isListed);
      if (read.manifest.exists) noteSeen(parts, read, found.state);
      return found;
    } catch (error) {
      // What an older manifest refers to may have been packed and collected since it was read.
      if (held || !(error instanceof RottenObject) || attempt >= limits.manifestsTriedMax) throw error;
      const newest = await readManifest(parts, uuid, branchId);
      if (!isNewer(newest.manifest.now, read.manifest.now)) throw error;
      read = newest;
    }
  }
}

async function openAt(
  parts: OpeningParts,
  path: string,
  { manifest, isOlder }: ReadManifest,
  uuid: string,
  branchId: string,
  isListed: boolean | undefined,
): Promise<Found> {
  if (!manifest.exists) return openUnwritten(parts, path, manifest, uuid, branchId, isListed);
  if (isOlder)
    parts.notice(
      `object storage is older than this node has seen of branch ${branchId}, and is accepted as it is; what ` +
        "is newer here is set aside",
    );
  const found = existsSync(path) ? await openFound(parts, path, manifest, isOlder) : undefined;
  if (found) return found;
  await restoreFile(parts, path, manifest.now, uuid);
  return openedCurrent(parts, path, manifest, uuid, branchId);
}

/** A branch without a manifest: a new one, or one that an earlier build kept on disk alone. */
async function openUnwritten(
  parts: OpeningParts,
  path: string,
  manifest: ManifestWriter,
  uuid: string,
  branchId: string,
  isListed: boolean | undefined,
): Promise<Found> {
  // Neither a catalog nor a manifest, but something: it was written, whatever this node knows of it.
  if (isListed || (isListed === undefined && (await parts.hasRemains()))) throw lostManifest(uuid, branchId);
  if (isCutFirstFile(path, parts.empty))
    await setAside(
      parts,
      manifest.now,
      undefined,
      "a full disk had cut it when it was made, and nothing was ever written into it",
    );
  if (!existsSync(path)) await createFile(path, parts.empty, parts.disk, parts.world);
  const connection = openConnection(path);
  try {
    const state = readState(connection);
    if (state.writerEpochId !== undefined) throw lostManifest(uuid, branchId);
    foldIn(connection);
    return {
      uuid,
      branchId,
      connection,
      state,
      manifest,
      log: new WalReader(path),
      statePage: stateRootPage(connection),
      knowsAll: true,
      logIsLost: false,
    };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Whether a file is what a full disk has left of a first one under an earlier build: of fewer bytes than an empty
 * database has, and no database that can be read. Nothing was ever written into such a file.
 */
function isCutFirstFile(path: string, empty: Uint8Array): boolean {
  if (!existsSync(path) || statSync(path).size >= empty.length) return false;
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    readState(connection);
    // It has these tables and nothing else, and what is missing of it is missing of one of them.
    for (const _table of checkReserved(connection));
    return false;
  } catch (error) {
    if (!isBroken(error)) throw error;
    return true;
  } finally {
    connection?.close();
  }
}

/** The local file when it is of use; undefined when the state must be restored, whatever still lies there. */
async function openFound(
  parts: OpeningParts,
  path: string,
  manifest: ManifestWriter,
  isOlder: boolean,
): Promise<Found | undefined> {
  if (isPatching(path)) {
    // It was of the manifest's own timeline before it became a mixture.
    removeFile(path);
    return undefined;
  }
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    const state = readState(connection);
    const used = await useAsItStands(parts, path, connection, state, manifest, isOlder);
    if (used && "connection" in used) return used;
    connection.close();
    if (used) await setAside(parts, manifest.now, state, used.why);
    return undefined;
  } catch (error) {
    // Where the log was let go of, the connection is closed already.
    if (connection?.raw.open) letGo(parts, connection);
    if (!isBroken(error)) throw error;
    await setAside(parts, manifest.now, undefined, "it was not a database that could be read");
    return undefined;
  }
}

/**
 * The file opened as what it is to the branch's history, or why it must be set aside; undefined when it is of no use.
 */
async function useAsItStands(
  parts: OpeningParts,
  path: string,
  connection: Connection,
  state: DatabaseState,
  manifest: ManifestWriter,
  isOlder: boolean,
): Promise<Found | { readonly why: string } | undefined> {
  const { now } = manifest;
  const { uuid, branchId } = now;
  // What was shipped to a history that is given up is not in object storage.
  const shippedTo = (writerEpoch: Uint8Array): number | undefined =>
    isOlder ? undefined : parts.places.shippedTo(uuid, branchId, writerEpoch);
  switch (standingOf(now, state, parts.nodeId, shippedTo)) {
    case "current":
      return openedAt(parts, path, connection, state, manifest, uuid, branchId);
    case "ahead":
      return isOlder ? { why: acceptedAsOlder } : openedAt(parts, path, connection, state, manifest, uuid, branchId);
    case "behind":
      foldIn(connection);
      letGo(parts, connection);
      await rollFileForward(parts, path, now, uuid, state.txid);
      return openedCurrent(parts, path, manifest, uuid, branchId);
    case "stale":
      // It stays until the state that takes its place is there: object storage may fall silent meanwhile.
      return undefined;
    case "orphaned":
      return { why: "another node claimed the branch before all of it had reached object storage" };
    case "unknown":
      return {
        why: "nothing tells any more whether all of it had reached object storage before others claimed the branch",
      };
    case "beyond":
      if (!parts.acceptsRollback) throw olderThanSeen(parts, now, state);
      return { why: acceptedAsOlder };
  }
}

const acceptedAsOlder = "object storage was put back to before it, which was accepted";

/**
 * Keeps what must not be used and may hold somebody's acknowledged writes: an operator looks at it, or an erasure
 * purges it.
 */
async function setAside(
  parts: OpeningParts,
  manifest: Manifest,
  state: DatabaseState | undefined,
  why: string,
): Promise<void> {
  const where = await parts.quarantine.setAside(manifest.uuid, manifest.branchId, state, manifest, why);
  parts.notice(`the local file of branch ${manifest.branchId} was set aside under ${where}: ${why}`);
}
