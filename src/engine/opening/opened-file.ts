/**
 * A branch's file, open, with its place in the branch's history.
 *
 * Always true: the log is read for shipping from behind the last group that the manifest covers; a log's file is left
 * there for as long as the file's slack is unknown. Must not know: whether the file is of use, where its manifest came
 * from.
 */
import { existsSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Disk } from "../../base/disk.ts";
import { readState, stateRootPage, type DatabaseState } from "../../model/schema.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { WalReader } from "../../sqlite/wal/wal-reader.ts";
import { WalFile } from "../../sqlite/wal/wal.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { groupsBetween } from "../history/timelines.ts";
import { StoreWentBack, UnusableManifest } from "../api/missing-objects.ts";
import { RottenObject } from "../segments/pool-objects.ts";
import { isRestored } from "./restored-file.ts";
import { isOwn } from "./file-standing.ts";

/** The same for an engine thread, which all calls wait for. */
const engineBusyMs = 250;

/** What a file is opened with. */
export interface FileOpeningParts {
  readonly disk: Disk;
  readonly nodeId: string;
  /** Something an operator should know; never content. */
  readonly notice: (message: string) => void;
}

/** A branch's file, open, with what is known of its place in history. */
export interface Opened {
  readonly uuid: string;
  readonly branchId: string;
  readonly connection: Connection;
  readonly state: DatabaseState;
  readonly manifest: ManifestWriter;
  /** The history that the manifest named when the file was opened. */
  readonly historyId: string | undefined;
  /** Begins behind the last group that the manifest covers. */
  readonly log: WalReader;
  readonly statePage: number;
  /** Whether nothing that this branch ever acknowledged can be missing here. */
  readonly knowsAll: boolean;
  /** The file holds groups that neither the manifest nor the log has: they must be shipped as one difference. */
  readonly logIsLost: boolean;
  /** The file was not closed in order, so that any page of it may have slack (sqlite/pages/slack). */
  readonly slackUnknown: boolean;
}

/** What opening the file itself tells; whether its slack is known only its folder could tell, before. */
export type Found = Omit<Opened, "slackUnknown" | "historyId">;

/** Whether the file itself is of no use, as opposed to a disk or store that does not answer. */
export function isBroken(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string")
    return code.startsWith("SQLITE_CORRUPT") || code.startsWith("SQLITE_NOTADB") || code === "SQLITE_ERROR";
  // What is missing, rotten or older in object storage says nothing of the file, which stays as it is, or is known to
  // be a mixture.
  const isOfStore =
    error instanceof RottenObject || error instanceof UnusableManifest || error instanceof StoreWentBack;
  return error instanceof StoreError && error.kind === "corrupt" && !isOfStore;
}

/** The only connection that writes the file. */
export function openConnection(path: string): Connection {
  return new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB, busyMs: engineBusyMs });
}

/** The state row of the closed file, its log included; undefined when it is gone or cannot be read. */
export function readClosedState(path: string): DatabaseState | undefined {
  if (!existsSync(path)) return undefined;
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    return readState(connection);
  } catch (error) {
    if (!isBroken(error)) throw error;
    return undefined;
  } finally {
    connection?.close();
  }
}

/** Moves the log into the file, so that a fresh one begins with the next write. */
export function checkpointWal(connection: Connection): void {
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
}

/**
 * Closes a file whose log was there, and leaves the log's file: as long as it is there the file's slack is taken for
 * unknown.
 */
export function closeKeepingLog(parts: Pick<FileOpeningParts, "disk">, connection: Connection): void {
  try {
    new WalFile(connection.path, parts.disk).closeKeeping(connection);
  } catch (error) {
    // The connection is closed anyway. A file that cannot be read once more is set aside or was the caller's error
    // already.
    if (!isBroken(error)) throw error;
  }
}

/**
 * What the open file is to the branch: how much of its log the manifest does not cover, and whether it can lack
 * something.
 */
export function openedAt(
  parts: FileOpeningParts,
  path: string,
  connection: Connection,
  state: DatabaseState,
  manifest: ManifestWriter,
): Found {
  const { uuid, branchId } = manifest.now;
  const unshipped = groupsBetween(manifest.now, manifest.now.txid, state.txid);
  if (unshipped === 0) checkpointWal(connection);
  const log = new WalReader(path);
  const logged = log.count();
  const logIsLost = unshipped > logged;
  if (logIsLost) parts.notice("groups are missing from the log: what they changed is shipped as one difference");
  else log.skip(logged - unshipped);
  const knowsAll =
    (isOwn(manifest.now, state, parts.nodeId) && !isRestored(path)) || manifest.now.reservedTo <= state.txid;
  return {
    uuid,
    branchId,
    connection,
    state,
    manifest,
    log,
    statePage: stateRootPage(connection),
    knowsAll,
    logIsLost,
  };
}

/** Opens a file that has the manifest's own state. */
export function openedCurrent(parts: FileOpeningParts, path: string, manifest: ManifestWriter): Found {
  const connection = openConnection(path);
  try {
    const state = readState(connection);
    if (state.txid !== manifest.now.txid)
      throw new StoreError("corrupt", "a restored file is not the state that its manifest names");
    return openedAt(parts, path, connection, state, manifest);
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** The open file of a branch that has no manifest yet. */
export function openedUnwritten(
  path: string,
  connection: Connection,
  state: DatabaseState,
  manifest: ManifestWriter,
): Found {
  const { uuid, branchId } = manifest.now;
  checkpointWal(connection);
  const [log, statePage] = [new WalReader(path), stateRootPage(connection)];
  return { uuid, branchId, connection, state, manifest, log, statePage, knowsAll: true, logIsLost: false };
}
