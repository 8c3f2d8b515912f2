/**
 * The look at a node's data directory: how each file relates to its branch's manifest, and what else is there.
 *
 * Always true: it only reads, takes no lock and opens no file with SQLite, which would put others beside it. Files that
 * are checked are copied away first. Must not know: how a manifest is read, who reads the findings.
 */
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { isUuid } from "../../format/core/binary.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { isNodeId } from "../../format/core/ids.ts";
import { forgottenNodeKey } from "../../format/keys/node-keys.ts";
import { manifestKey, isBranchId } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { readFileState, type FileState } from "../local/file-state.ts";
import type { FindingPlace, Findings } from "./findings.ts";
import { SeenManifests } from "../local/seen-manifests.ts";
import { lookAt, ownManifest, type Looked } from "./inventory.ts";
import { groupsBetween } from "../history/timelines.ts";
import { readStateRow } from "../segments/image-maker.ts";
import { listQuarantine, type Quarantined } from "../local/quarantine.ts";
import { inRestored, turnEnd } from "../segments/restored-state.ts";
import { computeStanding } from "../opening/file-standing.ts";

export interface DiskDoctorParts {
  /** The data directory. */
  readonly directory: string;
  /** What its node's manifests are in; undefined when only the directory is looked at. */
  readonly store: ObjectStore | undefined;
  readonly world: World;
  /** Where copies are checked; undefined for a look without that. */
  readonly scratchDirectory: string | undefined;
  readonly findings: Findings;
  /** Which database is looked at; all when undefined. */
  readonly uuid: string | undefined;
}

/** What was looked at. */
export interface DiskLook {
  /** The node's identity, or why it is not known. */
  node: string;
  databases: number;
  files: number;
  bytes: number;
  /** Of each standing, how many files. */
  readonly standings: Record<string, number>;
  quarantined: number;
  logs: number;
  logBytes: number;
  isRunning: boolean;
}

const ownNames = [
  "db",
  "quarantine",
  "seen",
  "spares",
  "scratch",
  "objects",
  "node-id",
  "node-address",
  "node.lock.db",
  "node.lock.db-journal",
  "processes.lock.db",
  "processes.lock.db-journal",
  "signing-key.pem",
  "format.json",
];
const besideFile = /\.db(?:-wal|-shm|\.restored|\.unproven|\.patching|\.next)$/;

/** Looks at the directory. Throws StoreError when the store does not answer. */
export async function examineDisk(parts: DiskDoctorParts): Promise<DiskLook> {
  const { directory, findings, uuid } = parts;
  const look: DiskLook = {
    node: "unknown",
    databases: 0,
    files: 0,
    bytes: 0,
    standings: {},
    quarantined: 0,
    logs: 0,
    logBytes: 0,
    isRunning: isRunningIn(directory),
  };
  await lookAtNode(parts, look);
  const strangers = namesIn(directory).filter((name) => !ownNames.includes(name));
  if (strangers.length > 0)
    findings.add(
      "directory_foreign",
      { key: strangers[0] },
      `${strangers.length} names that are not a node's: ${strangers.slice(0, 5).join(", ")}`,
    );
  for (const folder of namesIn(join(directory, "db"))) {
    if (uuid !== undefined && folder !== uuid) continue;
    // Made ahead, or left of that: nobody's, and its node sees to it.
    if (existsSync(join(directory, "spares", folder))) continue;
    if (isUuid(folder)) await lookAtDatabase(parts, folder, look);
    else findings.add("directory_foreign", { key: join("db", folder) }, "a folder of no database");
  }
  for (const aside of listQuarantine(directory))
    if (uuid === undefined || aside.uuid === uuid) quarantined(parts, aside, look);
  return look;
}

/** Names in a directory; none when it is not there. */
function namesIn(path: string): string[] {
  return existsSync(path) && statSync(path).isDirectory() ? readdirSync(path).sort() : [];
}

async function lookAtNode({ directory, store, findings }: DiskDoctorParts, look: DiskLook): Promise<void> {
  const path = join(directory, "node-id");
  if (existsSync(path)) look.node = readFileSync(path, "utf8").trim();
  if (look.isRunning) findings.add("node_running", {}, "a node has this directory open");
  if (store && isNodeId(look.node) && (await store.get(forgottenNodeKey(look.node))))
    findings.add("node_forgotten", {}, `the node ${look.node} was forgotten`);
}

/**
 * Whether a process holds the directory's lock. The system lists locks by inode, so that the lock need not be tried;
 * where there is no list, no process is taken to run there.
 */
function isRunningIn(directory: string): boolean {
  const lock = join(directory, "node.lock.db");
  if (!existsSync(lock) || !existsSync("/proc/locks")) return false;
  const inode = String(statSync(lock).ino);
  return readFileSync("/proc/locks", "utf8")
    .split("\n")
    .some((line) => / WRITE /.test(line) && line.split(/\s+/).some((word) => word.endsWith(`:${inode}`)));
}

/** Files of one database. */
async function lookAtDatabase(parts: DiskDoctorParts, uuid: string, look: DiskLook): Promise<void> {
  const folder = join(parts.directory, "db", uuid);
  const names = namesIn(folder);
  look.databases++;
  const leftovers = names.filter((name) => !name.endsWith(".db") && !besideFile.test(name));
  if (leftovers.length > 0)
    parts.findings.add(
      "leftovers",
      { uuid, key: join("db", uuid, leftovers[0]!) },
      `${leftovers.length} unfinished files`,
    );
  const branches = names.filter((name) => name.endsWith(".db") && isBranchId(name.slice(0, -".db".length)));
  const manifests = new Map<string, Looked<Manifest>>();
  for (const name of branches) manifests.set(name, await readManifest(parts, uuid, name.slice(0, -".db".length)));
  if (parts.store && branches.length > 0 && (await isForeign(parts.store, uuid, manifests))) {
    return parts.findings.add(
      "file_foreign",
      { uuid, key: join("db", uuid) },
      `object storage has nothing of the database, and this disk ${branches.length} of its branches`,
    );
  }
  for (const name of branches) await lookAtFile(parts, uuid, name.slice(0, -".db".length), manifests.get(name)!, look);
}

async function readManifest({ store }: DiskDoctorParts, uuid: string, branchId: string): Promise<Looked<Manifest>> {
  return store
    ? lookAt(store, manifestKey(uuid, branchId), (bytes) => ownManifest(bytes, uuid, branchId))
    : { kind: "missing" };
}

async function isForeign(
  store: ObjectStore,
  uuid: string,
  manifests: ReadonlyMap<string, Looked<Manifest>>,
): Promise<boolean> {
  if ([...manifests.values()].some(({ kind }) => kind !== "missing")) return false;
  return (await store.list(`db/${uuid}/`, { limit: 1 })).objects.length === 0;
}

async function lookAtFile(
  parts: DiskDoctorParts,
  uuid: string,
  branchId: string,
  manifest: Looked<Manifest>,
  look: DiskLook,
): Promise<void> {
  const { directory, findings, store } = parts;
  const key = join("db", uuid, `${branchId}.db`);
  const place: FindingPlace = { uuid, branch: branchId, key };
  const path = join(directory, key);
  look.files++;
  if (existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0) {
    look.logs++;
    look.logBytes += statSync(`${path}-wal`).size;
  }
  if (existsSync(`${path}.patching`))
    return findings.add("file_patching", place, "the file is a mixture of two states");
  const read = stateIn(parts, path, place);
  if (!read) return;
  look.bytes += read.bytes;
  await checkCopy(parts, path, place, look);
  if (!store) return;
  if (manifest.kind !== "sound") {
    const isEmpty = manifest.kind === "missing" && read.state.txid === 0 && read.state.writerEpochId === undefined;
    if (!isEmpty)
      findings.add(
        "file_unheaded",
        place,
        `the file stands at transaction id ${read.state.txid}, and the branch's manifest is ${manifest.kind}`,
      );
    return;
  }
  await judge(parts, place, read, manifest.value, look);
}

/** What the file says of itself; undefined, and told, when it cannot be read. */
function stateIn({ findings }: DiskDoctorParts, path: string, place: FindingPlace): FileState | undefined {
  try {
    return readFileState(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (!(error instanceof StoreError) && code === undefined) throw error;
    findings.add("file_unreadable", place, error instanceof StoreError ? error.message : `reading it failed (${code})`);
    return undefined;
  }
}

/** What the file is to its branch's manifest. */
async function judge(
  { directory, findings, world }: DiskDoctorParts,
  place: FindingPlace,
  { state }: FileState,
  manifest: Manifest,
  look: DiskLook,
): Promise<void> {
  const { uuid, branchId, epoch, seq } = manifest;
  // It only reads while nothing is noted.
  const places = new SeenManifests({ directory: join(directory, "seen"), disk: realDisk, world, notice: () => {} });
  if (places.isPast(manifest))
    findings.add(
      "head_older",
      place,
      `the manifest has epoch ${epoch}, number ${seq}; this node has seen ` +
        `epoch ${places.newest(uuid, branchId)?.epoch}, number ${places.newest(uuid, branchId)?.seq}`,
    );
  const standing = computeStanding(manifest, state, look.node, (writerEpoch) =>
    places.shippedTo(uuid, branchId, writerEpoch),
  );
  look.standings[standing] = (look.standings[standing] ?? 0) + 1;
  const at = `the file stands at transaction id ${state.txid}, the manifest at ${manifest.txid}`;
  if (standing === "ahead")
    findings.add(
      look.isRunning ? "node_running" : "file_ahead",
      place,
      `${at}: ${describeCount(manifest, state.txid)} on this disk only`,
    );
  else if (standing === "orphaned") findings.add("file_orphaned", place, `${at}, under a claim that has ended`);
  else if (standing === "beyond")
    findings.add(
      "head_older",
      place,
      `${at}, under a claim that the manifest does not know or beyond what it has reserved`,
    );
  else if (standing === "stale")
    findings.add("file_stale", place, `${at}; object storage has all that is in it, or had it`);
  else if (standing === "behind") findings.add("file_behind", place, at);
  else if (standing !== "current")
    findings.add("file_unknown", place, `${at}, under a claim that the manifest lists no more`);
}

/**
 * How many transactions lie between the manifest and the id, in words. Ids may have been skipped in great numbers,
 * which are not counted one by one.
 */
function describeCount(manifest: Manifest, txid: number): string {
  if (txid - manifest.txid > limits.txidReserve) return "its newest transactions are";
  const count = groupsBetween(manifest, manifest.txid, txid);
  return count === 1 ? "1 transaction is" : `${count} transactions are`;
}

/** Checks a copy of the file and its log. A node that runs would change one while the other is copied. */
async function checkCopy(
  { scratchDirectory, findings, world }: DiskDoctorParts,
  path: string,
  place: FindingPlace,
  look: DiskLook,
): Promise<void> {
  if (scratchDirectory === undefined || look.isRunning) return;
  const copy = join(scratchDirectory, `copy-${world.ulid()}.db`);
  try {
    for (const suffix of ["", "-wal"]) if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
    // The log is checkpointed, as the check looks at the file alone.
    inRestored(copy, false, (connection) => connection.raw.pragma("wal_checkpoint(TRUNCATE)"));
    await readStateRow(copy, true, () => turnEnd(world));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    findings.add("file_unreadable", place, error.message);
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
  }
}

/** What was set aside of one database. */
function quarantined({ findings }: DiskDoctorParts, { uuid, name, label }: Quarantined, look: DiskLook): void {
  look.quarantined++;
  const place = { uuid, branch: label?.branchId, key: join("quarantine", uuid, `${name}.db`) };
  findings.add(
    "quarantine",
    place,
    label ? `a file was set aside at ${new Date(label.atMs).toISOString()}: ${label.why}` : "a file was set aside",
  );
}
