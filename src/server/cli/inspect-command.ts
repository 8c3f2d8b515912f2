/**
 * `palimpsest inspect`: what one object at rest says, a file of a data directory, or a whole database, readably.
 *
 * Always true: it only reads, needs no node and disturbs none. It tells names, ids, times, sizes and counts, and
 * nothing that a tenant has stored. Exit codes: 0 it is sound; 1 it is damaged, missing or cannot be reached; 2 a wrong
 * command line. Must not know: any format (server/inspect).
 */
import { existsSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import { findNearestWord } from "../../base/faults/near-words.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { isUuid } from "../../format/core/binary.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import { openStoreToRead } from "../../store/open-store.ts";
import type { Environment } from "../config/config.ts";
import { parseStoreLocation, type LastingLocation } from "../config/store-location.ts";
import { buildDatabaseAccount } from "../inspect/database-account.ts";
import { buildFileAccount } from "../inspect/database-file.ts";
import { readGivenFile } from "../inspect/given-file.ts";
import { buildAccount, findKindByKey, toldKeys, type KindName } from "../inspect/kinds.ts";
import { safeText } from "../inspect/safe-text.ts";
import { buildDocument, formatText, type Inspection } from "../inspect/writing.ts";

/** Rows of a table that are shown unless more are asked for. */
const inspectRowsShown = 50;
/** No table of any format has more. */
const inspectRowsMax = 10_000_000;

/** Where the command's words go, and the variables that say how to reach a store. */
export interface InspectSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

interface InspectFlags {
  readonly objectStore?: string;
  readonly database?: string;
  readonly limit: number;
  readonly json?: true;
}

/** What is to be told of. */
type Wanted =
  | { readonly is: "file"; readonly path: string }
  | {
      readonly is: "object";
      readonly location: LastingLocation;
      readonly key: string;
      readonly kind: KindName;
    }
  | { readonly is: "database"; readonly location: LastingLocation; readonly url: string; readonly named: string };

const about = `
WHAT is a file, or with --object-store the key of an object:
${toldKeys.map((key) => `  ${key}\n`).join("")}
A file may be such an object, a version of one in a file store (objects/<key>~/<number>, or the folder <key>~ for the
newest), a receipt, or a SQLite file of a data directory, which is read without SQLite and may be in use.

With --database every branch is a line, and what follows says how to see one.

It changes nothing, and shows names, ids, times, sizes and counts: never pages, memories, topics or sessions. With
--json times are Unix milliseconds, hashes and ids hexadecimal digits, and null stands where there is nothing;
docs/storage-engine.md has the members.

Exit codes: 0 sound, 1 damaged, missing or not reached, 2 a wrong command line.
`;

/** The command; it hands its exit code to `ended`. */
export function inspectCommand(around: InspectSurroundings, ended: (code: number) => void): Command {
  return new Command("inspect")
    .description("print what one object or file at rest says, or what a database consists of; changes nothing")
    .argument("[what]", "a file, or with --object-store the key of an object")
    .option("--object-store <url>", "where the object is (default where there is no such file: SERVICE_OBJECT_STORE)")
    .option("--database <name or uuid>", "a whole database instead: its catalog, its branches, each manifest in a line")
    .addOption(
      new Option("--limit <rows>", "rows of each table that are shown")
        .argParser(parseRowCount)
        .default(inspectRowsShown),
    )
    .option("--json", "one JSON document instead of text")
    .addHelpText("after", about)
    .action(async (what: string | undefined, flags: InspectFlags) => ended(await inspect(around, what, flags)));
}

function parseRowCount(text: string): number {
  const rows = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (rows >= 1 && rows <= inspectRowsMax) return rows;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${inspectRowsMax}.`);
}

async function inspect(around: InspectSurroundings, what: string | undefined, flags: InspectFlags): Promise<number> {
  const wanted = parseWanted(around.env, what, flags);
  if (typeof wanted === "string") {
    around.stderr.write(`palimpsest: nothing inspected\n  ${wanted}\n`);
    return 2;
  }
  try {
    const inspection = await readInspection(wanted);
    if (typeof inspection === "string") return fail(around, inspection);
    around.stdout.write(
      flags.json ? `${JSON.stringify(buildDocument(inspection, flags.limit))}\n` : formatText(inspection, flags.limit),
    );
    return inspection.damage.length === 0 ? 0 : 1;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof StoreError) && code === undefined) throw error;
    return fail(around, `${nameWanted(wanted)}: ${error instanceof StoreError ? error.message : code}`);
  }
}

function fail({ stderr }: InspectSurroundings, why: string): number {
  stderr.write(`palimpsest: ${safeText(why)}\n`);
  return 1;
}

/** What to tell of, or what is wrong with the command line. */
function parseWanted(env: Environment, what: string | undefined, flags: InspectFlags): Wanted | string {
  if ((what === undefined) === (flags.database === undefined)) return "give a file, a key, or --database";
  if (what !== undefined && flags.objectStore === undefined && (existsSync(what) || !env["SERVICE_OBJECT_STORE"]))
    return { is: "file", path: what };
  const url = flags.objectStore ?? env["SERVICE_OBJECT_STORE"];
  if (!url) return "give --object-store or set SERVICE_OBJECT_STORE";
  const location = parseStoreLocation(env, url);
  if (typeof location === "string") return location;
  if (what === undefined) {
    const named = flags.database!;
    if (!isDatabaseName(named) && !isUuid(named)) return "--database is neither a name of a database nor a UUID";
    return { is: "database", location, url, named };
  }
  const kind = findKindByKey(what);
  return kind === undefined ? unknownKey(what) : { is: "object", location, key: what, kind };
}

function unknownKey(key: string): string {
  const [folder = ""] = key.split("/");
  const near = findNearestWord(
    folder,
    toldKeys.map((known) => known.split("/")[0]!),
  );
  const hint = near === undefined || near === folder ? "" : ` (did you mean ${near}/…?)`;
  return `${safeText(key)} is no key that can be told of${hint}; those are ${toldKeys.join(", ")}`;
}

function nameWanted(wanted: Wanted): string {
  if (wanted.is === "file") return wanted.path;
  return wanted.is === "object" ? wanted.key : wanted.named;
}

/** What there is to tell, or in words that there is nothing. */
async function readInspection(wanted: Wanted): Promise<Inspection | string> {
  if (wanted.is === "file") return inspectionOfFile(wanted.path);
  const store = await openStoreToRead(wanted.location, realWorld());
  if (wanted.is === "object") {
    const { key, kind } = wanted;
    const stored = await store.get(key);
    return stored ? { kind, where: key, ...buildAccount(kind, stored.bytes) } : `there is no object ${key}`;
  }
  const { named, url } = wanted;
  const account = await buildDatabaseAccount(store, named);
  if (!account) return `object storage holds nothing of a database ${named}`;
  const { keys, uuid, ...told } = account;
  const next = keys.map((key) => `palimpsest inspect --object-store ${url} ${key}`);
  return { kind: "database", where: uuid, ...told, next };
}

function inspectionOfFile(path: string): Inspection | string {
  if (!existsSync(path)) return `there is no file ${path}; the key of an object needs --object-store`;
  const given = readGivenFile(path);
  if (given.is === "database") return { kind: "database_file", where: given.path, ...buildFileAccount(given.path) };
  return { kind: given.kind, where: given.path, ...buildAccount(given.kind, given.bytes) };
}
