/**
 * From a branch's name to an open file that is provably a point of its history.
 *
 * A local file is a cache: its own pages say which writer epoch wrote it and how far (`__service_state`), and the
 * manifest says which writer epochs there were and how far each came (engine/opening/file-standing).
 *
 * Always true:
 * - a file is used as it is, rolled forward, replaced by the manifest's state, or set aside (engine/local/quarantine)
 * - it is never shipped from unless this node holds the branch's newest writer epoch
 * - a manifest older than one this node has seen is refused, and nothing is touched for it, unless an operator accepts
 *   it; then what is newer here is set aside first
 *
 * Must not know: queues, commits.
 */
import { existsSync, statSync } from "node:fs";
import { readState, type DatabaseState } from "../../model/schema.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import { checkReserved } from "../../sqlite/soundness.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import { isNewer } from "../local/seen-manifests.ts";
import { branchPath, createFile, finishReplacement, removeFile, proveIfOwed } from "../local/database-files.ts";
import { lostManifest } from "../api/missing-objects.ts";
import {
  checkpointWal,
  isBroken,
  closeKeepingLog,
  openConnection,
  openedAt,
  openedCurrent,
  openedUnwritten,
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
import { computeStanding } from "./file-standing.ts";

/** Newer manifests that an opening tries, when objects of the last one were collected meanwhile. */
export const manifestsTriedMax = 3;

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

/** Which branch is opened, and what is known of it before. */
export interface OpeningTarget {
  readonly uuid: string;
  readonly branchId: string;
  /** A manifest that this thread already owns. */
  readonly held: ManifestWriter | undefined;
  /** Whether the catalog says that the branch has a manifest; undefined when there is no catalog. */
  readonly isListed: boolean | undefined;
}

/** One opening of one branch's file. */
export class BranchOpening {
  readonly #parts: OpeningParts;
  readonly #target: OpeningTarget;
  readonly #path: string;

  constructor(parts: OpeningParts, target: OpeningTarget) {
    this.#parts = parts;
    this.#target = target;
    this.#path = branchPath(parts.databasesDirectory, target.uuid, target.branchId);
  }

  /** Opens the file, creating, rolling forward or restoring it as its history demands. */
  async open(): Promise<Opened> {
    const { quarantine, disk } = this.#parts;
    // What a crash has cut short is finished before anything looks at the file.
    await quarantine.finishMove(this.#target.uuid, this.#target.branchId);
    finishReplacement(this.#path);
    await proveIfOwed(this.#path, disk);
    // Before anything opens the file: a close in order takes the log away, even an empty one, after the slack is gone.
    const logWasLeft = existsSync(`${this.#path}-wal`);
    const found = await this.#openFile();
    // If the log is lost, another process has checkpointed it.
    return { ...found, historyId: found.manifest.now.history?.id, slackUnknown: logWasLeft || found.logIsLost };
  }

  async #openFile(): Promise<Found> {
    const { held } = this.#target;
    let read: ReadManifest = held ? { manifest: held, isOlder: false } : await this.#readManifest();
    // Before the first file: its registration, and then a manifest that was read after it.
    const isFirst = !existsSync(this.#path) && (await this.#parts.registered);
    if (isFirst && read.manifest.exists && !read.manifest.writerEpoch) read = await this.#readManifest();
    for (let attempt = 1; ; attempt++) {
      try {
        const found = await this.#openAt(read);
        if (read.manifest.exists) noteSeen(this.#parts, read, found.state);
        return found;
      } catch (error) {
        // What an older manifest refers to may have been packed and collected since it was read.
        if (held || !(error instanceof RottenObject) || attempt >= manifestsTriedMax) throw error;
        const newest = await this.#readManifest();
        if (!isNewer(newest.manifest.now, read.manifest.now)) throw error;
        read = newest;
      }
    }
  }

  #readManifest(): Promise<ReadManifest> {
    return readManifest(this.#parts, this.#target.uuid, this.#target.branchId);
  }

  async #openAt({ manifest, isOlder }: ReadManifest): Promise<Found> {
    if (!manifest.exists) return this.#openUnwritten(manifest);
    if (isOlder)
      this.#parts.notice(
        `object storage is older than this node has seen of branch ${this.#target.branchId}, and is accepted as it ` +
          "is; what is newer here is set aside",
      );
    const found = existsSync(this.#path) ? await this.#openFound(manifest, isOlder) : undefined;
    if (found) return found;
    await restoreFile(this.#parts, this.#path, manifest.now, this.#target.uuid);
    return openedCurrent(this.#parts, this.#path, manifest);
  }

  /** A branch without a manifest: a new one, or one that an earlier build kept on disk alone. */
  async #openUnwritten(manifest: ManifestWriter): Promise<Found> {
    const { uuid, branchId, isListed } = this.#target;
    const { empty, disk, world, hasRemains } = this.#parts;
    // Neither a catalog nor a manifest, but something: it was written, whatever this node knows of it.
    if (isListed || (isListed === undefined && (await hasRemains()))) throw lostManifest(uuid, branchId);
    if (isCutFirstFile(this.#path, empty))
      await this.#setAside(
        manifest,
        undefined,
        "a full disk had cut it when it was made, and nothing was ever written into it",
      );
    if (!existsSync(this.#path)) await createFile(this.#path, empty, disk, world);
    const connection = openConnection(this.#path);
    try {
      const state = readState(connection);
      if (state.writerEpochId !== undefined) throw lostManifest(uuid, branchId);
      return openedUnwritten(this.#path, connection, state, manifest);
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** The local file when it is of use; undefined when the state must be restored, whatever still lies there. */
  async #openFound(manifest: ManifestWriter, isOlder: boolean): Promise<Found | undefined> {
    if (isPatching(this.#path)) {
      // It was of the manifest's own timeline before it became a mixture.
      removeFile(this.#path);
      return undefined;
    }
    let connection: Connection | undefined;
    try {
      connection = openConnection(this.#path);
      const state = readState(connection);
      const used = await this.#useAsItStands(connection, state, manifest, isOlder);
      if (used && "connection" in used) return used;
      connection.close();
      if (used) await this.#setAside(manifest, state, used.why);
      return undefined;
    } catch (error) {
      // Where the log was released, the connection is closed already.
      if (connection?.raw.open) closeKeepingLog(this.#parts, connection);
      if (!isBroken(error)) throw error;
      await this.#setAside(manifest, undefined, "it was not a database that could be read");
      return undefined;
    }
  }

  /**
   * The file opened as what it is to the branch's history, or why it must be set aside; undefined when it is unusable.
   */
  async #useAsItStands(
    connection: Connection,
    state: DatabaseState,
    manifest: ManifestWriter,
    isOlder: boolean,
  ): Promise<Found | { readonly why: string } | undefined> {
    const { now } = manifest;
    const { uuid, branchId } = this.#target;
    const { places, nodeId, acceptsRollback } = this.#parts;
    // What was shipped to an abandoned history is not in object storage.
    const shippedTo = (writerEpoch: Uint8Array): number | undefined =>
      isOlder ? undefined : places.shippedTo(uuid, branchId, writerEpoch);
    switch (computeStanding(now, state, nodeId, shippedTo)) {
      case "current":
        return openedAt(this.#parts, this.#path, connection, state, manifest);
      case "ahead":
        return isOlder ? { why: acceptedAsOlder } : openedAt(this.#parts, this.#path, connection, state, manifest);
      case "behind":
        checkpointWal(connection);
        closeKeepingLog(this.#parts, connection);
        await rollFileForward(this.#parts, this.#path, now, uuid, state.txid);
        return openedCurrent(this.#parts, this.#path, manifest);
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
        if (!acceptsRollback) throw olderThanSeen(this.#parts, now, state);
        return { why: acceptedAsOlder };
    }
  }

  async #setAside({ now }: ManifestWriter, state: DatabaseState | undefined, why: string): Promise<void> {
    const where = await this.#parts.quarantine.setAside(now.uuid, now.branchId, state, now, why);
    this.#parts.notice(`the local file of branch ${now.branchId} was set aside under ${where}: ${why}`);
  }
}

const acceptedAsOlder = "object storage was put back to before it, which was accepted";

/**
 * Whether a full disk left this as a first file under an earlier build: fewer bytes than an empty database has, and no
 * readable database. Nothing was ever written into such a file.
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
