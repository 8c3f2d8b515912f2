/**
 * `palimpsest doctor`: what is in an object store, a data directory or both, whether it fits together, and what to do.
 *
 * Always true: it only reads, needs no node and disturbs none: no byte of the store or of the directory changes, no
 * lock is taken. Nothing that it says is content. Exit codes: 0 all is well; 1 an operator has to act, or not all could
 * be looked at; 2 a wrong command line.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Command, Option } from "commander";
import { realDisk } from "../../base/disk.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { examineDisk, type DiskLook } from "../../engine/rescue/disk-doctor.ts";
import { findingKinds, Findings, formatTodo, type Finding } from "../../engine/rescue/findings.ts";
import { StoreDoctor, type DoctorScope, type StoreLook } from "../../engine/rescue/store-doctor.ts";
import { isUuid } from "../../format/core/binary.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import { threadedPress } from "../../format/core/compression.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { openStoreToRead, type StoreLocation } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation } from "../config/store-location.ts";

/** Where the command's words go, and the variables that say how to reach a store. */
export interface DoctorSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface DoctorFlags {
  readonly dataDir?: string;
  readonly objectStore?: string;
  readonly database?: string;
  readonly uuid?: string;
  readonly deep?: true;
  readonly json?: true;
}

/** What is looked at. */
interface Patient {
  readonly directory: string | undefined;
  readonly url: string | undefined;
  readonly location: StoreLocation | undefined;
  readonly scope: DoctorScope;
}

/** What one run has found. */
interface Diagnosis {
  readonly patient: Patient;
  readonly findings: Findings;
  readonly store: StoreLook | undefined;
  readonly disk: DiskLook | undefined;
}

const about = `
Looks at an object store, at a node's data directory, or at both, and changes nothing: run it beside nodes that serve.
Without flags it takes SERVICE_DATA_DIR and SERVICE_OBJECT_STORE; a data directory that has objects/ in it is looked at
with that store. Without --deep it compares names, lengths and transaction ids. With --deep it also reads every object,
proves its SHA-256, restores the newest state of every branch into the system's temporary directory and has SQLite
check it; of a data directory that no node has open it checks a copy of every file.

Each line says how bad it is, where, what there is, what it means and what to do. docs/disasters.md goes through the
disasters one by one.

Exit codes: 0 all is well, 1 somebody has to act or not all could be looked at, 2 a wrong command line.
`;

/** The command; it hands its exit code to `ended`. */
export function doctorCommand(around: DoctorSurroundings, ended: (code: number) => void): Command {
  return new Command("doctor")
    .description(
      "look at object storage and a data directory: what is there, what fits, what is missing; changes nothing",
    )
    .option("--data-dir <directory>", "a node's data directory (default: SERVICE_DATA_DIR)")
    .option(
      "--object-store <url>",
      "where the objects are (default: SERVICE_OBJECT_STORE, or objects/ of the data directory)",
    )
    .addOption(new Option("--database <name>", "one database only").conflicts("uuid"))
    .option("--uuid <uuid>", "one database only, told by its identity")
    .option("--deep", "read and prove every object, restore and check every newest state")
    .option("--json", "one JSON object instead of lines")
    .addHelpText("after", about)
    .action(async (flags: DoctorFlags) => ended(await doctor(around, flags)));
}

async function doctor(around: DoctorSurroundings, flags: DoctorFlags): Promise<number> {
  const patient = resolvePatient(around.env, flags);
  if (typeof patient === "string") {
    around.stderr.write(`palimpsest: nothing looked at\n  ${patient}\n`);
    return 2;
  }
  const scratchDirectory = flags.deep ? mkdtempSync(join(tmpdir(), "palimpsest-doctor-")) : undefined;
  const findings = new Findings();
  try {
    const diagnosis = await diagnose(patient, findings, scratchDirectory);
    around.stdout.write(
      flags.json ? `${JSON.stringify(toJson(diagnosis))}\n` : formatReport(diagnosis, flags.deep === true),
    );
    return findings.isWell ? 0 : 1;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof StoreError) && code === undefined) throw error;
    around.stderr.write(`palimpsest: not all was looked at: ${error instanceof StoreError ? error.message : code}\n`);
    return 1;
  } finally {
    if (scratchDirectory !== undefined) rmSync(scratchDirectory, { recursive: true, force: true });
  }
}

/** What to look at, or what is wrong with the command line. */
function resolvePatient(env: Environment, flags: DoctorFlags): Patient | string {
  if (flags.database !== undefined && !isDatabaseName(flags.database)) return "--database is no name of a database";
  if (flags.uuid !== undefined && !isUuid(flags.uuid)) return "--uuid must be a lower-case UUID";
  // A command line that names one of the two wants no other from a variable.
  const isBare = flags.dataDir === undefined && flags.objectStore === undefined;
  const directory = flags.dataDir ?? (isBare ? env["SERVICE_DATA_DIR"] : undefined);
  if (directory !== undefined && !existsSync(directory)) return `there is no directory ${directory}`;
  const own =
    directory !== undefined && existsSync(join(directory, "objects"))
      ? `file://${resolve(directory, "objects")}`
      : undefined;
  const url = flags.objectStore ?? env["SERVICE_OBJECT_STORE"] ?? own;
  if (directory === undefined && url === undefined) return "give --data-dir, --object-store or both";
  if (url === undefined && flags.database !== undefined)
    return "--database needs an object store, which knows names; give --uuid";
  const location = url === undefined ? undefined : parseStoreLocation(env, url);
  if (typeof location === "string") return location;
  return { directory, url, location, scope: parseScope(flags) };
}

function parseScope({ database, uuid }: DoctorFlags): DoctorScope {
  if (database !== undefined) return { kind: "name", name: database };
  return uuid === undefined ? { kind: "all" } : { kind: "uuid", uuid };
}

async function diagnose(
  patient: Patient,
  findings: Findings,
  scratchDirectory: string | undefined,
): Promise<Diagnosis> {
  const world = realWorld();
  const { directory, location, scope } = patient;
  const store = location && (await openStoreToRead(location, world));
  const look = store && (await lookAtStore(store, patient, findings, scratchDirectory));
  const uuid = scope.kind === "uuid" ? scope.uuid : scope.kind === "name" ? look?.only : undefined;
  const disk =
    directory === undefined
      ? undefined
      : await examineDisk({ directory, store, world, scratchDirectory, findings, uuid });
  return { patient, findings, store: look, disk };
}

async function lookAtStore(
  store: ObjectStore,
  { scope }: Patient,
  findings: Findings,
  scratchDirectory: string | undefined,
): Promise<StoreLook> {
  const doctorOfStore = new StoreDoctor({
    store,
    world: realWorld(),
    findings,
    scratchDirectory,
    source: (uuid) => ({ store, uuid, press: threadedPress, disk: realDisk }),
  });
  await doctorOfStore.examine(scope);
  return doctorOfStore.look;
}

function describeWhere({ url, directory }: Patient): {
  readonly store: string | undefined;
  readonly data: string | undefined;
} {
  return { store: url, data: directory };
}

/** What machines read. Names are never taken away or given another meaning. */
function toJson({ patient, findings, store, disk }: Diagnosis): object {
  const told = ({ kind, uuid, database, branch, key, what }: Finding): object => {
    const { severity, means } = findingKinds[kind];
    return {
      severity,
      kind,
      uuid,
      database,
      branch,
      key,
      what,
      means,
      todo: formatTodo({ kind, uuid, what }, describeWhere(patient)),
    };
  };
  return {
    v: 1,
    object_store: patient.url,
    data_dir: patient.directory,
    well: findings.isWell,
    counts: findings.counts,
    store: store && {
      databases: store.databases,
      branches: store.branches,
      objects: store.objects,
      bytes: store.bytes,
      proven: store.proven,
      restored: store.restored,
    },
    disk: disk && {
      node: disk.node,
      running: disk.isRunning,
      databases: disk.databases,
      files: disk.files,
      bytes: disk.bytes,
      standings: disk.standings,
      quarantined: disk.quarantined,
      logs: disk.logs,
      log_bytes: disk.logBytes,
    },
    findings: findings.all.map(told),
  };
}

/** What a person reads. */
function formatReport({ patient, findings, store, disk }: Diagnosis, deep: boolean): string {
  const lines = findings.all.map((finding) => formatLine(finding, patient));
  const { critical, warning, note } = findings.counts;
  const kept = findings.all.length;
  if (critical + warning + note > kept) lines.push(`and ${critical + warning + note - kept} more`);
  if (store) {
    const depth = deep
      ? `; ${store.proven} objects of page data read and proven, ${store.restored} newest states restored and checked`
      : "; names and lengths only, give --deep to read and prove all of it";
    lines.push(
      `${patient.url}: ${store.databases} databases, ${store.branches} branches, ${store.objects} objects ` +
        `of ${store.bytes} bytes${depth}`,
    );
  }
  if (disk) {
    const standings = Object.entries(disk.standings)
      .map(([standing, count]) => `${count} ${standing}`)
      .join(", ");
    lines.push(
      `${patient.directory}: node ${disk.node}${disk.isRunning ? ", running" : ""}, ${disk.files} files ` +
        `of ${disk.databases} databases${standings === "" ? "" : ` (${standings})`}, ${disk.logs} logs ` +
        `of ${disk.logBytes} bytes, ${disk.quarantined} set aside`,
    );
  }
  lines.push(
    findings.isWell ? `all is well (${note} notes)` : `${critical} critical, ${warning} warnings, ${note} notes`,
  );
  return `${lines.join("\n")}\n`;
}

function formatLine(finding: Finding, patient: Patient): string {
  const { kind, database, uuid, branch, what } = finding;
  const { severity, means } = findingKinds[kind];
  const named = database ?? uuid;
  const where = [named === undefined ? undefined : `${named}${branch === undefined ? "" : `@${branch}`}`, finding.key]
    .filter((part) => part !== undefined)
    .join(" ");
  const todo = formatTodo(finding, describeWhere(patient));
  return (
    `${severity.padEnd(8)} ${kind}${where === "" ? "" : ` ${where}`}: ${what}. ` +
    `Means: ${means}.${severity === "note" ? "" : ` Do: ${todo}.`}`
  );
}
