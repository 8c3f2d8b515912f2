/**
 * `palimpsest restore`: a plain SQLite file out of object storage alone, without a node.
 *
 * Always true: it only reads the store, never touches a data directory or its lock, and never writes over a file; the
 * file appears whole, proven and synced, or not at all. What was erased or abandoned stays so: no state below a
 * branch's floor is restored. Exit codes as of the command line: 0 restored, 1 not restored, 2 a wrong command line.
 */
import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Command, Option } from "commander";
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { isWritten } from "../../engine/history/catalogs.ts";
import { readHistory } from "../../engine/history/branch-history.ts";
import type { Plan } from "../../engine/history/timelines.ts";
import { findPastPlan } from "../../engine/segments/past-point.ts";
import { lostCatalog } from "../../engine/api/missing-objects.ts";
import { materialise } from "../../engine/segments/restore.ts";
import { isUuid } from "../../format/core/binary.ts";
import { decodeCatalog } from "../../format/history/catalog.ts";
import { decodeManifest, type Manifest } from "../../format/history/manifest.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { isDatabaseName, mainBranch } from "../../format/core/names.ts";
import type { BackupProof } from "../../format/records/backup-manifest.ts";
import { catalogKey, databasePrefix, manifestKey, nameClaimKey } from "../../format/keys/object-keys.ts";
import { threadedPress } from "../../format/core/compression.ts";
import { realDisk, writeWhole } from "../../base/disk.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { openStoreToRead, type StoreLocation } from "../../store/open-store.ts";
import { requireStoreFormat } from "../../store/store-format.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation } from "../config/store-location.ts";

/** What the command is told. */
export interface RestoreFlags {
  readonly objectStore?: string;
  readonly database?: string;
  readonly uuid?: string;
  readonly branch: string;
  /** A checkpoint's name or a transaction id; the branch's newest state when absent. */
  readonly at?: string;
  readonly out?: string;
}

/** What it is told when a whole fleet is restored. */
export interface RestoreAllFlags {
  readonly all?: true;
  readonly objectStore?: string;
  readonly to?: string;
  readonly force?: true;
  readonly verify?: BackupProof;
  readonly erasuresFrom?: string;
}

/** Where the command's words go, and what ends it early. */
export interface RestoreSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readonly signal: AbortSignal;
}

/** Where a database's header says how it is written and read: 1 is with a rollback journal, 2 with a log. */
const journalModeAt = 18;
const withRollbackJournal = Uint8Array.of(1, 1);
const progressSteps = 10;

/** The command with its flags, without its action. */
export function restoreCommand(): Command {
  return new Command("restore")
    .description("rebuild a database as a plain SQLite file from object storage alone, or a whole fleet from a backup")
    .addOption(new Option("--object-store <url>", "where the objects are (default: SERVICE_OBJECT_STORE)"))
    .addOption(
      new Option("--database <name>", "name of the database; a profile's is namespace--profile").conflicts("uuid"),
    )
    .addOption(new Option("--uuid <uuid>", "identity of the database, also after its deletion"))
    .addOption(new Option("--branch <name>", "branch").default(mainBranch))
    .addOption(new Option("--at <point>", "checkpoint, transaction id or time (default: the newest state)"))
    .addOption(new Option("--out <file>", "file to write; it must not exist"))
    .addOption(
      new Option("--all", "a whole fleet, from a backup that --object-store names").conflicts([
        "database",
        "uuid",
        "at",
        "out",
      ]),
    )
    .addOption(
      new Option("--to <url>", "with --all: the empty store to fill").conflicts(["database", "uuid", "at", "out"]),
    )
    .addOption(verifyOption("with --all: "))
    .addOption(
      new Option(
        "--erasures-from <url>",
        "with --all: a store of the fleet as it was later, whose erasures the backup lacks are told",
      ),
    )
    .addOption(new Option("--force", "with --all: also from a copy that is no complete backup"));
}

/** How much of what was copied is restored to prove it. */
export function verifyOption(before = ""): Option {
  return new Option(
    "--verify <how>",
    `${before}which newest states are restored to prove the copy: sample, or restore for all of them and ` +
      "the SHA-256 of every object",
  ).choices(["sample", "restore"]);
}

/** Restores the file and says so; answers the exit code. */
export async function restore(around: RestoreSurroundings, flags: RestoreFlags): Promise<number> {
  const location = resolveLocation(around.env, flags);
  if (typeof location === "string") {
    around.stderr.write(`palimpsest: nothing restored\n  ${location}\n`);
    return 2;
  }
  try {
    around.stdout.write(`${await restoreFrom(await openStoreToRead(location, realWorld()), around, flags)}\n`);
    return 0;
  } catch (error) {
    const known = error instanceof ServiceError || error instanceof StoreError || around.signal.aborted;
    const words = error instanceof Error ? (known ? error.message : (error.stack ?? error.message)) : String(error);
    around.stderr.write(`palimpsest: nothing restored: ${words}\n`);
    return 1;
  }
}

/** Where the objects are, or what is wrong with the command line. */
function resolveLocation(env: Environment, flags: RestoreFlags): StoreLocation | string {
  if ((flags.database === undefined) === (flags.uuid === undefined)) return "give --database or --uuid";
  if (flags.database !== undefined && !isDatabaseName(flags.database)) return "--database is no name of a database";
  if (flags.uuid !== undefined && !isUuid(flags.uuid)) return "--uuid must be a lower-case UUID";
  if (flags.out === undefined) return "give --out, the file to write";
  if (existsSync(flags.out)) return `${flags.out} exists; the restored file must be a new one`;
  if (!existsSync(dirname(resolve(flags.out)))) return `there is no directory ${dirname(resolve(flags.out))}`;
  const url = flags.objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return "give --object-store or set SERVICE_OBJECT_STORE";
  return parseStoreLocation(env, url);
}

function notFound(what: string): ServiceError {
  return new ServiceError("not_found", what);
}

async function restoreFrom(store: ObjectStore, around: RestoreSurroundings, flags: RestoreFlags): Promise<string> {
  await requireStoreFormat(store);
  const uuid = flags.uuid ?? (await findUuid(store, flags.database!));
  const manifest = await readManifest(store, uuid, flags.branch);
  const plan = await planTo(store, manifest, flags.at);
  const out = resolve(flags.out!);
  const { pages } = await materialise({ store, uuid, press: threadedPress, disk: realDisk }, plan, out, {
    signal: around.signal,
    progress: progressTo(around.stderr),
  });
  await leaveLogMode(out);
  return (
    `restored ${flags.database ?? uuid}@${flags.branch} at transaction ` +
    `id ${plan.txid}: ${pages} pages, ${statSync(out).size} bytes in ${flags.out}`
  );
}

/** The database that has the name now. */
async function findUuid(store: ObjectStore, name: string): Promise<string> {
  const claim = await store.get(nameClaimKey(name));
  if (!claim) throw notFound(`there is no database ${name}`);
  const { uuid, deletedAtMs } = decodeNameClaim(claim.bytes);
  if (deletedAtMs !== undefined)
    throw notFound(`database ${name} was deleted; what is left of it can be restored with --uuid ${uuid}`);
  return uuid;
}

async function readManifest(store: ObjectStore, uuid: string, branchName: string): Promise<Manifest> {
  const branchId = await findBranchId(store, uuid, branchName);
  const manifest = await store.get(manifestKey(uuid, branchId));
  if (!manifest)
    throw new StoreError("corrupt", `the manifest of branch ${branchName} is missing (${manifestKey(uuid, branchId)})`);
  const decoded = decodeManifest(manifest.bytes);
  if (decoded.uuid !== uuid || decoded.branchId !== branchId)
    throw new StoreError("corrupt", `the manifest of branch ${branchName} is another branch's`);
  return decoded;
}

/** The id of the branch; without a catalog only that of `main` is known. */
async function findBranchId(store: ObjectStore, uuid: string, branchName: string): Promise<string> {
  const stored = await store.get(catalogKey(uuid));
  if (stored) {
    const catalog = decodeCatalog(stored.bytes);
    const branch = isWritten(catalog) ? catalog.branches.find(({ name }) => name === branchName) : undefined;
    if (branch) return branch.id;
    throw notFound(
      isWritten(catalog) ? `the database has no branch ${branchName}` : `database ${uuid} was never written`,
    );
  }
  const { objects } = await store.list(databasePrefix(uuid), { limit: 1 });
  if (objects.length === 0) throw notFound(`object storage holds nothing of database ${uuid}`);
  if (branchName !== mainBranch) throw lostCatalog(uuid);
  return mainBranch;
}

/** How to restore the point: a checkpoint's name, a transaction id, a time, else the newest state. */
async function planTo(store: ObjectStore, manifest: Manifest, at: string | undefined): Promise<Plan> {
  const history = await readHistory(store, manifest);
  const source = { store, uuid: manifest.uuid, press: threadedPress, disk: realDisk };
  return findPastPlan(source, { manifest, history, cutoffMs: undefined }, at ?? String(manifest.txid));
}

/** Writes a line whenever another tenth has been read. */
function progressTo(
  stderr: RestoreSurroundings["stderr"],
): (done: { readonly bytes: number; readonly bytesTotal: number }) => void {
  let told = 0;
  return ({ bytes, bytesTotal }) => {
    const step = Math.floor((bytes / bytesTotal) * progressSteps);
    if (step <= told) return;
    told = step;
    stderr.write(`palimpsest: ${(step * 100) / progressSteps} % of ${bytesTotal} bytes\n`);
  };
}

/** Makes the file one that any SQLite opens alone, without a log beside it. */
async function leaveLogMode(path: string): Promise<void> {
  const descriptor = openSync(path, "r+");
  try {
    writeWhole(realDisk, descriptor, path, withRollbackJournal, journalModeAt);
    await realDisk.fdatasync(descriptor, path);
  } finally {
    closeSync(descriptor);
  }
}
