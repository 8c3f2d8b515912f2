/**
 * From a branch's name to an open file that is provably a point of its history.
 *
 * A local file is a cache: its own pages say which tenure wrote it and how far (`__service_state`), and the head says
 * which tenures there were and how far each came (engine/standing). Always true: a file is used as it is, rolled forward,
 * replaced by the head's state, or set aside (engine/quarantine); it is never shipped from unless this node holds the
 * branch's newest tenure. A head that is older than one this node has seen is refused, and nothing is touched for it,
 * unless an operator accepts it; then what is newer here is set aside first. Must not know: queues, commits.
 */
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { sleep, type World } from "../base/world.ts";
import type { Head } from "../format/head.ts";
import { headKey } from "../format/object-keys.ts";
import type { Press } from "../format/press.ts";
import { readState, stateRootPage, type DatabaseState } from "../model/schema.ts";
import { Connection } from "../sqlite/connection.ts";
import { WalReader } from "../sqlite/wal-reader.ts";
import { markFile, type Disk } from "../base/disk.ts";
import { checkReserved } from "../sqlite/soundness.ts";
import { WalFile } from "../sqlite/wal.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { BranchHead } from "./branch-head.ts";
import { isNewer, type HeadPlaces } from "./head-places.ts";
import { groupsBetween, planOf } from "./lines.ts";
import { branchPath, createFile, finishReplacement, removeFile, replaceFile, restoredMark, settleProof } from "./files.ts";
import { lostHead, StoreWentBack, UnusableHead, wentBack } from "./lost.ts";
import { RottenObject } from "./pool-objects.ts";
import type { Quarantine } from "./quarantine.ts";
import { isPatching, materialise, rollForward } from "./restore.ts";
import { isOwn, standingOf } from "./standing.ts";

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
  /** What this node has seen of each branch. */
  readonly places: HeadPlaces;
  readonly quarantine: Quarantine;
  /** Whether an operator accepts that object storage was put back, and loses what was newer. */
  readonly acceptsRollback: boolean;
  /** Whether object storage has anything of the database. */
  readonly hasRemains: () => Promise<boolean>;
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

/**
 * Stands beside a file that was restored and not written since: its node may have acknowledged more than it has, under
 * transaction ids that must not be given again.
 */
function restoredMarker(path: string): string {
  return `${path}${restoredMark}`;
}

/** The file's node has claimed the branch: from now on nothing it acknowledges can be missing from the file. */
export function forgetRestored(path: string): void {
  rmSync(restoredMarker(path), { force: true });
}

/**
 * Opens a branch's file, creating, rolling forward or restoring it as its history demands. `held` is a head that this
 * thread already owns. `isListed`: whether the catalog says that the branch has a head; undefined when there is no catalog.
 */
export async function openBranch(parts: OpeningParts, uuid: string, branchId: string, held: BranchHead | undefined, isListed: boolean | undefined): Promise<Opened> {
  const path = branchPath(parts.databasesDirectory, uuid, branchId);
  // What a crash has cut short is finished before anything looks at the file.
  await parts.quarantine.settle(uuid, branchId);
  finishReplacement(path);
  await settleProof(path, parts.disk);
  // Before anything opens the file: a close in order takes the log away, even an empty one, after the slack is gone.
  const logWasLeft = existsSync(`${path}-wal`);
  const opened = await openFile(parts, path, uuid, branchId, held, isListed);
  // A log that is lost was folded in by somebody else.
  return { ...opened, historyId: opened.head.now.history?.id, slackUnknown: logWasLeft || opened.logIsLost };
}

/** What opening the file itself tells; whether its slack is known only its folder could tell, before. */
type Found = Omit<Opened, "slackUnknown" | "historyId">;

/** A head, and whether it is older than one that this node has seen, which an operator accepts. */
interface ReadHead {
  readonly head: BranchHead;
  readonly isOlder: boolean;
}

async function openFile(parts: OpeningParts, path: string, uuid: string, branchId: string, held: BranchHead | undefined, isListed: boolean | undefined): Promise<Found> {
  let read: ReadHead = held ? { head: held, isOlder: false } : await readHead(parts, uuid, branchId);
  // Before the first file: its registration, and then a head that was read after it.
  if (!existsSync(path) && (await parts.registered) && read.head.exists && !read.head.tenure) read = await readHead(parts, uuid, branchId);
  for (let attempt = 1; ; attempt++) {
    try {
      const found = await openAt(parts, path, read, uuid, branchId, isListed);
      if (read.head.exists) noteSeen(parts, read, found.state);
      return found;
    } catch (error) {
      // What an older head refers to may have been packed and collected since it was read.
      if (held || !(error instanceof RottenObject) || attempt >= limits.headsTriedMax) throw error;
      const newest = await readHead(parts, uuid, branchId);
      if (!isNewer(newest.head.now, read.head.now)) throw error;
      read = newest;
    }
  }
}

/** From now on this node serves from the head; what the file has that the head covers was shipped. */
function noteSeen({ places }: OpeningParts, { head: { now }, isOlder }: ReadHead, state: DatabaseState): void {
  const covered = state.txid <= now.txid ? state : undefined;
  if (isOlder) return places.accept(now, covered);
  places.note(now, covered);
  places.save(now.uuid, now.branchId);
}

/** The newest head. One that is older than what was served from may come from a cache that lags, and is asked for again before it is refused, or accepted. */
async function readHead(parts: OpeningParts, uuid: string, branchId: string): Promise<ReadHead> {
  const { store, world, nodeId, headLanded, places, acceptsRollback } = parts;
  for (let attempt = 1; ; attempt++) {
    const head = await BranchHead.read({ store, world, nodeId, uuid, branchId, landed: headLanded });
    if (!places.isPast(head.now)) return { head, isOlder: false };
    if (attempt >= limits.pastHeadLooksMax) {
      if (!head.exists) throw lostHead(uuid, branchId);
      if (acceptsRollback) return { head, isOlder: true };
      throw olderThanSeen(parts, head.now);
    }
    await sleep(world, limits.pastHeadPauseMs);
  }
}

function olderThanSeen({ places }: OpeningParts, { uuid, branchId, epoch, seq, txid, reservedTo }: Head, state?: DatabaseState): StoreWentBack {
  const newest = places.newest(uuid, branchId);
  const seen = state ? `transaction ${state.txid} in the local file, where the head has ${txid} and has reserved up to ${reservedTo}` : `epoch ${newest?.epoch}, number ${newest?.seq}`;
  return wentBack(uuid, headKey(uuid, branchId), `epoch ${epoch}, number ${seq}`, seen);
}

async function openAt(parts: OpeningParts, path: string, { head, isOlder }: ReadHead, uuid: string, branchId: string, isListed: boolean | undefined): Promise<Found> {
  if (!head.exists) return openUnwritten(parts, path, head, uuid, branchId, isListed);
  if (isOlder) parts.notice(`object storage is older than this node has seen of branch ${branchId}, and is accepted as it is; what is newer here is set aside`);
  const found = existsSync(path) ? await openFound(parts, path, head, isOlder) : undefined;
  if (found) return found;
  await restoreFile(parts, path, head.now, uuid);
  return openedCurrent(parts, path, head, uuid, branchId);
}

/** A branch without a head: a new one, or one that an earlier build kept on disk alone. */
async function openUnwritten(parts: OpeningParts, path: string, head: BranchHead, uuid: string, branchId: string, isListed: boolean | undefined): Promise<Found> {
  // Neither a catalog nor a head, but something: it was written, whatever this node knows of it.
  if (isListed || (isListed === undefined && (await parts.hasRemains()))) throw lostHead(uuid, branchId);
  if (isCutFirstFile(path, parts.empty)) await setAside(parts, head.now, undefined, "a full disk had cut it when it was made, and nothing was ever written into it");
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
async function openFound(parts: OpeningParts, path: string, head: BranchHead, isOlder: boolean): Promise<Found | undefined> {
  if (isPatching(path)) {
    // It was of the head's own line before it became a mixture.
    removeFile(path);
    return undefined;
  }
  let connection: Connection | undefined;
  try {
    connection = openConnection(path);
    const state = readState(connection);
    const used = await useAsItStands(parts, path, connection, state, head, isOlder);
    if (used && "connection" in used) return used;
    connection.close();
    if (used) await setAside(parts, head.now, state, used.why);
    return undefined;
  } catch (error) {
    // Where the log was let go of, the connection is closed already.
    if (connection?.raw.open) letGo(parts, connection);
    if (!isBroken(error)) throw error;
    await setAside(parts, head.now, undefined, "it was not a database that could be read");
    return undefined;
  }
}

/** The file opened as what it is to the branch's history, or why it must be set aside; undefined when it is of no use. */
async function useAsItStands(parts: OpeningParts, path: string, connection: Connection, state: DatabaseState, head: BranchHead, isOlder: boolean): Promise<Found | { readonly why: string } | undefined> {
  const { now } = head;
  const { uuid, branchId } = now;
  // What was shipped to a history that is given up is not in object storage.
  const shippedTo = (tenure: Uint8Array): number | undefined => (isOlder ? undefined : parts.places.shippedTo(uuid, branchId, tenure));
  switch (standingOf(now, state, parts.nodeId, shippedTo)) {
    case "current":
      return openedAt(parts, path, connection, state, head, uuid, branchId);
    case "ahead":
      return isOlder ? { why: acceptedAsOlder } : openedAt(parts, path, connection, state, head, uuid, branchId);
    case "behind":
      foldIn(connection);
      letGo(parts, connection);
      await rollFileForward(parts, path, now, uuid, state.txid);
      return openedCurrent(parts, path, head, uuid, branchId);
    case "stale":
      // It stays until the state that takes its place is there: object storage may fall silent meanwhile.
      return undefined;
    case "orphaned":
      return { why: "another node claimed the branch before all of it had reached object storage" };
    case "unknown":
      return { why: "nothing tells any more whether all of it had reached object storage before others claimed the branch" };
    case "beyond":
      if (!parts.acceptsRollback) throw olderThanSeen(parts, now, state);
      return { why: acceptedAsOlder };
  }
}

const acceptedAsOlder = "object storage was put back to before it, which was accepted";

/** Keeps what must not be used and may hold somebody's acknowledged writes: an operator looks at it, or an erasure purges it. */
async function setAside(parts: OpeningParts, head: Head, state: DatabaseState | undefined, why: string): Promise<void> {
  const where = await parts.quarantine.setAside(head.uuid, head.branchId, state, head, why);
  parts.notice(`the local file of branch ${head.branchId} was set aside under ${where}: ${why}`);
}

/** Whether the file itself is of no use, as opposed to a disk or store that does not answer. */
function isBroken(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === "string") return code.startsWith("SQLITE_CORRUPT") || code.startsWith("SQLITE_NOTADB") || code === "SQLITE_ERROR";
  // What is missing, rotten or older in object storage says nothing of the file, which stays as it is, or is known to be a mixture.
  const isOfStore = error instanceof RottenObject || error instanceof UnusableHead || error instanceof StoreWentBack;
  return error instanceof StoreError && error.kind === "corrupt" && !isOfStore;
}

function openConnection(path: string): Connection {
  return new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB, busyMs: limits.engineBusyMs });
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
  if (!plan) throw new UnusableHead("a head does not say how its own state is restored");
  await markRestored(parts, path);
  await rollForward({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, fromTxid, path);
  parts.world.crashPoint("patched");
}

async function restoreFile(parts: OpeningParts, path: string, head: Head, uuid: string): Promise<void> {
  const plan = planOf(head, undefined, head.txid);
  if (!plan) throw new UnusableHead("a head does not say how its own state is restored");
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${parts.world.ulid()}.tmp`;
  await materialise({ store: parts.store, uuid, press: parts.press, disk: parts.disk }, plan, temporary);
  await markRestored(parts, path);
  parts.world.crashPoint("restored");
  await replaceFile(temporary, path, parts.disk);
  // The database's own folder may be new too.
  await parts.disk.syncDirectory(dirname(dirname(path)));
}

/** The marker is on disk before the state that needs it: a file that came back without it would give lost transaction ids again. */
async function markRestored({ disk }: OpeningParts, path: string): Promise<void> {
  if (existsSync(restoredMarker(path))) return;
  markFile(restoredMarker(path));
  await disk.syncDirectory(dirname(path));
}
