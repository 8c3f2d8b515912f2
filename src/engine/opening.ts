/**
 * From a branch's name to an open file that is provably a point of its history.
 *
 * A local file is a cache: its own pages say which tenure wrote it and how far (`__service_state`), and the head says
 * which tenures there were and how far each came. Always true: a file is used as it is, rolled forward, or set aside and
 * restored; it is never shipped from unless this node holds the branch's newest tenure. Must not know: queues, commits.
 */
import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { sleep, type World } from "../base/world.ts";
import type { Head } from "../format/head.ts";
import type { Press } from "../format/press.ts";
import { readState, stateRootPage, type DatabaseState } from "../model/schema.ts";
import { Connection } from "../sqlite/connection.ts";
import { WalReader } from "../sqlite/wal-reader.ts";
import { markFile, type Disk } from "../base/disk.ts";
import { WalFile } from "../sqlite/wal.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { BranchHead } from "./branch-head.ts";
import { isNewer, type HeadPlaces } from "./head-places.ts";
import { groupsBetween, planOf } from "./lines.ts";
import { branchPath, createFile } from "./files.ts";
import { lostHead } from "./lost.ts";
import { RottenObject } from "./pool-objects.ts";
import { isPatching, materialise, rollForward } from "./restore.ts";

export interface OpeningParts {
  readonly world: World;
  readonly store: ObjectStore;
  readonly press: Press;
  readonly disk: Disk;
  readonly databasesDirectory: string;
  readonly nodeId: string;
  /** Resolves when files may be made; true when what was read before is to be read anew (engine/copies). */
  readonly registered: Promise<boolean>;
  /** The bytes of an empty database. */
  readonly empty: Uint8Array;
  /** Something an operator should know; never content. */
  readonly notice: (message: string) => void;
  readonly headLanded: (bytes: number) => void;
  /** From which heads this thread has served. */
  readonly places: HeadPlaces;
}

/** A branch's file, open, with what is known of its place in history. */
export interface Opened {
  readonly uuid: string;
  readonly branchId: string;
  readonly connection: Connection;
  readonly state: DatabaseState;
  readonly head: BranchHead;
  /** The history that the head named when the file was opened. */
  readonly historyId: string | undefined;
  /** Stands behind the last group that the head covers. */
  readonly log: WalReader;
  readonly statePage: number;
  /** Whether nothing that this branch ever acknowledged can be missing here. */
  readonly knowsAll: boolean;
  /** The file holds groups that neither the head nor the log has: they must be shipped as one difference. */
  readonly logIsLost: boolean;
  /** The file was not closed in order, so that any page of it may have slack (sqlite/slack). */
  readonly slackUnknown: boolean;
}

/** What a local file is to its branch's history. */
export type Standing =
  /** The state of the head. */
  | "current"
  /** An earlier point of the head's own line. */
  | "behind"
  /** Beyond the head, by groups that this node committed and has not shipped. */
  | "ahead"
  /** A point of a line that is no longer the head's, or of an old claim: of no use. */
  | "stale"
  /** Beyond what its claim has shipped, and the claim is not ours any more: never to be shipped. */
  | "orphaned";

/** Judges a file by its own state row. Pure. */
export function standingOf(head: Head, state: DatabaseState, nodeId: string): Standing {
  const { txid, tenure } = state;
  const index = head.tenures.findIndex(({ id }) => tenure !== undefined && Buffer.compare(id, tenure) === 0);
  // Before its first claim a branch has no tenure: what a fork inherits is in the head's table. The empty file of another
  // node, which may be of another build, is not the image that this line begins with.
  if (index < 0) return tenure === undefined && txid === 0 && head.fromTxid === 0 && head.node === nodeId ? (head.txid === 0 ? "current" : "behind") : "stale";
  if (txid > head.tenures[index]!.lastTxid && txid > head.txid) return isOwn(head, state, nodeId) ? "ahead" : "orphaned";
  if (txid > head.tenures[index]!.lastTxid) return "orphaned";
  if (txid < head.fromTxid) return "stale";
  return txid === head.txid ? "current" : "behind";
}

/**
 * Whether this node wrote the file's state, and whatever it has claimed since began right behind that state: a node that
 * dies between a claim and the first commit under it finds a file of the claim before. Another node's claim would have
 * left a gap behind what it could not know.
 */
function isOwn(head: Head, { txid, tenure }: DatabaseState, nodeId: string): boolean {
  const index = head.tenures.findIndex(({ id }) => tenure !== undefined && Buffer.compare(id, tenure) === 0);
  return head.node === nodeId && index >= 0 && head.tenures.slice(index + 1).every(({ firstTxid }) => firstTxid === txid + 1);
}

/** Stands beside a file that was restored and not written since: its node may have acknowledged more than it has. */
function restoredMarker(path: string): string {
  return `${path}.restored`;
}

/** The file's node has claimed the branch: from now on nothing it acknowledges can be missing from the file. */
export function forgetRestored(path: string): void {
  rmSync(restoredMarker(path), { force: true });
}

/** Opens a branch's file, creating, rolling forward or restoring it as its history demands. `held` is a head that this thread already owns. */
export async function openBranch(parts: OpeningParts, uuid: string, branchId: string, held: BranchHead | undefined, isListed: boolean): Promise<Opened> {
  const path = branchPath(parts.databasesDirectory, uuid, branchId);
  // Before anything opens the file: a close in order takes the log away, even an empty one, after the slack is gone.
  const logWasLeft = existsSync(`${path}-wal`);
  const opened = await openFile(parts, path, uuid, branchId, held, isListed);
  // A log that is lost was folded in by somebody else.
  return { ...opened, historyId: opened.head.now.history?.id, slackUnknown: logWasLeft || opened.logIsLost };
}

/** What opening the file itself tells; whether its slack is known only its folder could tell, before. */
type Found = Omit<Opened, "slackUnknown" | "historyId">;

async function openFile(parts: OpeningParts, path: string, uuid: string, branchId: string, held: BranchHead | undefined, isListed: boolean): Promise<Found> {
  let head = held ?? (await readHead(parts, uuid, branchId));
  // Before the first file: its registration, and then a head that was read after it.
  if (!existsSync(path) && (await parts.registered) && head.exists && !head.tenure) head = await readHead(parts, uuid, branchId);
  for (let attempt = 1; ; attempt++) {
    try {
      const found = await openAt(parts, path, head, uuid, branchId, isListed);
      parts.places.note(head.now);
      return found;
    } catch (error) {
      // What an older head refers to may have been packed and collected since it was read.
      if (held || !(error instanceof RottenObject) || attempt >= limits.headsTriedMax) throw error;
      const newest = await readHead(parts, uuid, branchId);
      if (!isNewer(newest.now, head.now)) throw error;
      head = newest;
    }
  }
}

/** The newest head. One that is older than what was served from comes from a cache that lags, and is asked for again. */
async function readHead(parts: OpeningParts, uuid: string, branchId: string): Promise<BranchHead> {
  const { store, world, nodeId, headLanded, places } = parts;
  for (let attempt = 1; ; attempt++) {
    const head = await BranchHead.read({ store, world, nodeId, uuid, branchId, landed: headLanded });
    if (!places.isPast(head.now)) return head;
    if (attempt >= limits.pastHeadLooksMax && !head.exists) throw lostHead(uuid, branchId);
    if (attempt >= limits.pastHeadLooksMax) throw new StoreError("unavailable", "object storage gives an older head of the branch than it gave before");
    await sleep(world, limits.pastHeadPauseMs);
  }
}

async function openAt(parts: OpeningParts, path: string, head: BranchHead, uuid: string, branchId: string, isListed: boolean): Promise<Found> {
  if (!head.exists) return openUnwritten(parts, path, head, uuid, branchId, isListed);
  const found = existsSync(path) ? await openFound(parts, path, head, uuid, branchId) : undefined;
  if (found) return found;
  await restoreFile(parts, path, head.now, uuid);
  return openedCurrent(parts, path, head, uuid, branchId);
}

/** A branch without a head: a new one, or one that an earlier build kept on disk alone. */
async function openUnwritten(parts: OpeningParts, path: string, head: BranchHead, uuid: string, branchId: string, isListed: boolean): Promise<Found> {
  if (isListed) throw lostHead(uuid, branchId);
  if (isCutFirstFile(path, parts.empty)) setAside(parts, path, uuid, branchId, 0);
  if (!existsSync(path)) await createFile(path, parts.empty, parts.disk, parts.world);
  const connection = openConnection(path);
  try {
    const state = readState(connection);
    if (state.tenure !== undefined) throw lostHead(uuid, branchId);
    foldIn(connection);
    return { uuid, branchId, connection, state, head, log: new WalReader(path), statePage: stateRootPage(connection), knowsAll: true, logIsLost: false };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Whether a file is what a full disk has left of a first one under an earlier build: of fewer bytes than an empty database
 * has, and no database that can be read. Nothing was ever written into such a file.
 */
function isCutFirstFile(path: string, empty: Uint8Array): boolean {
  if (!existsSync(path) || statSync(path).size >= empty.length) return false;
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    readState(connection);
    return connection.raw.pragma("quick_check", { simple: true }) !== "ok";
  } catch (error) {
    if (!isBroken(error)) throw error;
    return true;
  } finally {
    connection?.close();
  }
}

/** The local file when it is of use; undefined when the state must be restored, whatever still lies there. */
async function openFound(parts: OpeningParts, path: string, head: BranchHead, uuid: string, branchId: string): Promise<Found | undefined> {
  if (isPatching(path)) {
    removeFile(path);
    return undefined;
  }
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    const state = readState(connection);
    const standing = standingOf(head.now, state, parts.nodeId);
    switch (standing) {
      case "current":
      case "ahead":
        return openedAt(parts, path, connection, state, head, uuid, branchId);
      case "behind":
        foldIn(connection);
        letGo(parts, connection);
        connection = undefined;
        await rollFileForward(parts, path, head.now, uuid, state.txid);
        return openedCurrent(parts, path, head, uuid, branchId);
      case "stale":
        // It stays until the state that takes its place is there: object storage may fall silent meanwhile.
        connection.close();
        return undefined;
      case "orphaned":
        connection.close();
        setAside(parts, path, uuid, branchId, state.txid);
        return undefined;
    }
  } catch (error) {
    if (connection) letGo(parts, connection);
    if (!isBroken(error)) throw error;
    parts.notice("a local file was not a database that could be read; it is restored from object storage");
    setAside(parts, path, uuid, branchId, 0);
    return undefined;
  }
}

/** Whether the file itself is of no use, as opposed to a disk or store that does not answer. */
function isBroken(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string") return code.startsWith("SQLITE_CORRUPT") || code.startsWith("SQLITE_NOTADB") || code === "SQLITE_ERROR";
  // An object that is missing or rotten says nothing of the file, which stays as it is, or is known to be a mixture.
  return error instanceof StoreError && error.kind === "corrupt" && !(error instanceof RottenObject);
}

function openConnection(path: string): Connection {
  return new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
}

/** Moves the log into the file, so that a fresh one begins with the next write. */
function foldIn(connection: Connection): void {
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
}

/** Closes a file whose log was there, and leaves the log's file: as long as it is there the file's slack is taken for unknown. */
function letGo(parts: OpeningParts, connection: Connection): void {
  try {
    new WalFile(connection.path, parts.disk).closeKeeping(connection);
  } catch (error) {
    // The connection is closed all the same. A file that cannot be read once more is set aside or was the caller's error already.
    if (!isBroken(error)) throw error;
  }
}

function openedAt(parts: OpeningParts, path: string, connection: Connection, state: DatabaseState, head: BranchHead, uuid: string, branchId: string): Found {
  const unshipped = groupsBetween(head.now, head.now.txid, state.txid);
  if (unshipped === 0) foldIn(connection);
  const log = new WalReader(path);
  const logged = log.count();
  const logIsLost = unshipped > logged;
  if (logIsLost) parts.notice("groups are missing from the log: what they changed is shipped as one difference");
  else log.skip(logged - unshipped);
  const knowsAll = (isOwn(head.now, state, parts.nodeId) && !existsSync(restoredMarker(path))) || head.now.reservedTo <= state.txid;
  return { uuid, branchId, connection, state, head, log, statePage: stateRootPage(connection), knowsAll, logIsLost };
}

function openedCurrent(parts: OpeningParts, path: string, head: BranchHead, uuid: string, branchId: string): Found {
  const connection = openConnection(path);
  try {
    const state = readState(connection);
    if (state.txid !== head.now.txid) throw new StoreError("corrupt", "a restored file is not the state that its head names");
    return openedAt(parts, path, connection, state, head, uuid, branchId);
  } catch (error) {
    connection.close();
    throw error;
  }
}

async function rollFileForward(parts: OpeningParts, path: string, head: Head, uuid: string, fromTxid: number): Promise<void> {
  const plan = planOf(head, undefined, head.txid);
  if (!plan) throw new StoreError("corrupt", "a head does not say how its own state is restored");
  markFile(restoredMarker(path));
  await rollForward({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, fromTxid, path);
  parts.world.crashPoint("patched");
}

async function restoreFile(parts: OpeningParts, path: string, head: Head, uuid: string): Promise<void> {
  const plan = planOf(head, undefined, head.txid);
  if (!plan) throw new StoreError("corrupt", "a head does not say how its own state is restored");
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${parts.world.ulid()}.tmp`;
  await materialise({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, temporary);
  removeFile(path);
  markFile(restoredMarker(path));
  parts.world.crashPoint("restored");
  renameSync(temporary, path);
  await parts.disk.syncDirectory(dirname(path));
  // The database's own folder may be new too.
  await parts.disk.syncDirectory(dirname(dirname(path)));
}

const besides = ["", "-wal", "-shm", ".restored", ".patching"];

/** Removes a branch's file and everything that stands beside it. */
export function removeFile(path: string): void {
  for (const suffix of besides) rmSync(`${path}${suffix}`, { force: true });
}

/** Keeps what must not be used and may hold somebody's acknowledged writes: an operator looks at it, or an erasure purges it. */
function setAside(parts: OpeningParts, path: string, uuid: string, branchId: string, txid: number): void {
  const folder = join(dirname(parts.databasesDirectory), "quarantine", uuid);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const name = `${branchId}-${txid}-${parts.world.ulid()}.db`;
  for (const suffix of ["", "-wal"]) if (existsSync(`${path}${suffix}`)) renameSync(`${path}${suffix}`, join(folder, `${name}${suffix}`));
  removeFile(path);
  parts.notice("a local file that does not belong to its branch's history was set aside under quarantine/");
}
