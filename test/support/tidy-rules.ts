/**
 * The rules of the house that no known tool has, as functions of source text: which floor may import what, names that
 * one file alone may use, columns, headers, forgotten counts. The formatter, the linter and knip (package.json: check)
 * look after the rest. Each finding says where, what, and what to do about it.
 *
 * The rules read masked text (source-mask), not a syntax tree: the compiler's programming interface is not stable yet,
 * and patterns over code without comments and strings are enough for what is asked here.
 */
import { posix } from "node:path";
import { maskSource, type MaskedSource } from "./source-mask.ts";
import { reservedNames } from "./reserved-names.ts";

/** A file of `src/` with its path from there, such as `model/kv.ts`. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** One breach of one rule. */
export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

/** A file ready for the rules. */
export interface ScannedFile extends SourceFile, MaskedSource {}

/** From the ground up; folders of one row are neighbours that must not know each other. */
export const floors: readonly (readonly string[])[] = [
  ["base"],
  ["format", "egress"],
  ["store", "ai"],
  ["sqlite", "control"],
  ["model"],
  ["engine"],
  ["service"],
  ["server"],
];

/**
 * The rooms of each floor, from the ground up: a file knows its own room and those before it. A file that lies in no
 * room stands above them all and ties them together.
 */
export const rooms: Readonly<Record<string, readonly string[]>> = {
  base: ["faults", "collections"],
  format: ["core", "audit", "keys", "records", "history", "erasure"],
  egress: [],
  store: ["port", "etcd", "file", "s3"],
  ai: [],
  sqlite: ["pages", "connection", "wal"],
  control: ["access", "audit", "databases"],
  model: [
    "index",
    "core",
    "kv",
    "docs",
    "text",
    "ranking",
    "vectors",
    "standing",
    "memory",
    "transcript",
    "lineage",
    "files",
    "context",
    "sql",
    "facets",
    "transfer",
    "undo",
  ],
  engine: [
    "process-calls",
    "api",
    "direct-reads",
    "local",
    "history",
    "segments",
    "opening",
    "branches",
    "compaction",
    "shipping",
    "database",
    "writer",
    "pool",
    "past",
    "maintenance",
    "erasure",
    "replica",
    "processes",
    "threads",
    "rescue",
    "backup",
  ],
  service: [
    "call",
    "placement",
    "feed",
    "webhooks",
    "erasure",
    "embedding",
    "jobs",
    "handlers",
    "changes",
    "transfer",
    "memory",
    "pipeline",
  ],
  server: [
    "wire",
    "config",
    "rest",
    "observability",
    "rpc",
    "mcp",
    "node-wire",
    "cluster",
    "node",
    "terminal",
    "inspect",
    "importers",
    "client-session",
    "node-commands",
    "client-commands",
    "transfer-commands",
    "cli",
  ],
};

const filesPerRoomMax = 16;

const files = ["node:fs", "node:fs/promises", "node:path"];

/** Packages and built-in modules that a floor may import; a name ending in `/` allows everything below it. */
export const packagesOfFloor: Readonly<Record<string, readonly string[]>> = {
  base: ["pino", "ulid"],
  format: ["node:crypto", "node:zlib"],
  store: [...files, "node:crypto", "@aws-sdk/client-s3", "@bufbuild/protobuf", "@connectrpc/"],
  egress: ["node:dns/promises", "node:http", "node:https", "node:net"],
  ai: ["openai", "@anthropic-ai/sdk"],
  sqlite: [...files, "node:url", "better-sqlite3"],
  control: ["node:crypto", "jose"],
  model: ["node:crypto", "re2js", "usearch"],
  engine: [...files, "node:os", "node:worker_threads", "hnswlib-node"],
  service: ["@bufbuild/protobuf", "@bufbuild/protobuf/"],
  server: [
    ...files,
    "node:crypto",
    "node:events",
    "node:http",
    "node:http2",
    "node:https",
    "node:net",
    "node:os",
    "node:readline/promises",
    "node:stream",
    "node:stream/promises",
    "node:tls",
    "node:util",
    "node:zlib",
    "node:v8",
    "@bufbuild/protobuf",
    "@bufbuild/protobuf/",
    "@connectrpc/",
    "@modelcontextprotocol/server",
    "@opentelemetry/",
    "commander",
    "prom-client",
    "string-width",
  ],
};

/** Single files that may import one thing more than their floor, and why. */
const packagesOfFile: Readonly<Record<string, readonly string[]>> = {
  // The one door to chance.
  "base/world.ts": ["node:crypto"],
  // The one door to the disk for what we write ourselves.
  "base/disk.ts": ["node:fs", "node:fs/promises", "node:path"],
  // A model that runs beside the node: where it is installed, and its process.
  "ai/local-model.ts": ["node:fs", "node:module", "node:path", "node:url"],
  "ai/local-process.ts": ["node:child_process", "node:url"],
  // The processes that run user SQL, and their messages.
  "engine/processes/sql-process.ts": ["node:child_process", "node:stream"],
  "engine/processes/sql-frames.ts": ["node:v8"],
  // The one place where threads are started.
  "engine/threads/threads.ts": ["node:v8"],
  "engine/threads/thread-spawner.ts": ["node:url"],
  // What is compiled for this platform, which is required by its place.
  "base/native-places.ts": ["node:module", "node:url"],
  "engine/threads/hnswlib.ts": ["node:module"],
  // The one place that asks V8 to collect.
  "sqlite/idle-memory.ts": ["node:perf_hooks", "node:v8", "node:vm"],
};

/** The rooms that speak to nodes by the client, which they take from its sources: the package has no second one. */
const roomsOfClient = ["client-session", "client-commands", "transfer-commands"].map((room) => `server/${room}/`);

/** Floors that speak the generated messages. */
const floorsWithMessages = ["store", "service", "server"];

const bannedFileNames =
  /^(?:utils?|helpers?|common|misc|shared|managers?|index|types)$|-(?:utils?|helpers?|managers?)$/;

const columnsMax = 120;

export function scan(file: SourceFile): ScannedFile {
  return { ...file, ...maskSource(file.text) };
}

/** Everything wrong with the sources of the service. */
export function checkSources(sources: readonly SourceFile[]): readonly Finding[] {
  const scanned = sources.map(scan);
  const rules = [
    listFloorBreaches,
    reservedNamesUsed,
    modulesBySourcePath,
    swallowedErrors,
    ignoredCounts,
    missingHeader,
  ];
  return [
    ...checkFiles(scanned),
    ...scanned.flatMap((file) => rules.flatMap((rule) => rule(file))),
    ...crowdedRooms(scanned),
    ...deadMentions(scanned),
  ];
}

/** Files of src that a comment names, such as base/world, and that are not there. */
export function deadMentions(scanned: readonly ScannedFile[]): readonly Finding[] {
  const files = scanned.map(({ path }) => path.slice(0, -".ts".length));
  const known = new Set([...files, ...files.map((path) => posix.dirname(path))]);
  const mention = new RegExp(`(?<![\\w/.-])(?:${floors.flat().join("|")})/[a-z][a-z0-9/-]*[a-z0-9](?![\\w/<])`, "g");
  return scanned.flatMap((file) =>
    [...file.comments.matchAll(mention)]
      .filter(([name]) => !known.has(name))
      .map((match) => finding(file, match.index, `names ${match[0]}, which is not there; name the file of today`)),
  );
}

/** Folders with more files than one holds in the head. */
function crowdedRooms(scanned: readonly ScannedFile[]): readonly Finding[] {
  const byFolder = Map.groupBy(scanned, ({ path }) => posix.dirname(path));
  return [...byFolder].flatMap(([folder, { length }]) =>
    length > filesPerRoomMax
      ? [{ path: folder, line: 1, message: `has ${length} files, more than ${filesPerRoomMax}; divide it into rooms` }]
      : [],
  );
}

/** What is asked of tests too: columns, names, no unfinished business. */
export function checkFiles(scanned: readonly ScannedFile[]): readonly Finding[] {
  return scanned.flatMap((file) => [...longLines(file), ...badFileName(file), ...unfinishedBusiness(file)]);
}

function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) line++;
  return line;
}

function finding(file: ScannedFile, offset: number, message: string): Finding {
  return { path: file.path, line: lineAt(file.text, offset), message };
}

/** Every module that the file imports, statically or not, types included. */
export function listImports(file: ScannedFile): readonly { readonly specifier: string; readonly offset: number }[] {
  const pattern = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|(?<![.\w])require\s*\(\s*)(["'`])/g;
  return [...file.code.matchAll(pattern)].map((match) => {
    const start = match.index + match[0].length;
    return { specifier: file.text.slice(start, file.text.indexOf(match[1]!, start)), offset: match.index };
  });
}

/** Modules that the file starts as threads or processes, by their paths below `src`. */
export function listStarted(file: ScannedFile): readonly string[] {
  return [...file.code.matchAll(/\bmoduleFile\(\s*"/g)].map((match) => {
    const start = match.index + match[0].length;
    return file.text.slice(start, file.text.indexOf('"', start));
  });
}

function getFolder(path: string): string {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : "";
}

/** Where the file's room stands among those of its floor; what lies in none stands above. */
function findRoom(path: string): number {
  const known = rooms[getFolder(path)]!;
  const [, room, ...rest] = path.split("/");
  return rest.length === 0 ? known.length : known.indexOf(room!);
}

function findFloor(folder: string): number {
  return floors.findIndex((row) => row.includes(folder));
}

export function listFloorBreaches(file: ScannedFile): readonly Finding[] {
  const folder = getFolder(file.path);
  if (findFloor(folder) < 0)
    return [finding(file, 0, `lies on no floor; move it into one of ${floors.flat().join(", ")}`)];
  if (findRoom(file.path) < 0)
    return [finding(file, 0, `lies in no room of ${folder}; move it into one of ${rooms[folder]!.join(", ")}`)];
  return listImports(file).flatMap(({ specifier, offset }) => {
    const message = specifier.startsWith(".")
      ? findFloorBreach(file.path, specifier)
      : foreignPackage(file.path, specifier);
    return message === undefined ? [] : [finding(file, offset, message)];
  });
}

function findFloorBreach(from: string, specifier: string): string | undefined {
  const folder = getFolder(from);
  if (!specifier.endsWith(".ts")) return `imports ${specifier}; write the ending .ts, which Node wants`;
  const target = posix.join(posix.dirname(from), specifier);
  if (target.startsWith("../gen/")) {
    return floorsWithMessages.includes(folder)
      ? undefined
      : `imports generated messages; only ${floorsWithMessages.join(" and ")} speak them: take plain data instead`;
  }
  if (target.startsWith("../clients/typescript/src/") && roomsOfClient.some((room) => from.startsWith(room)))
    return undefined;
  if (target.startsWith("..")) return `imports ${specifier} from outside src; move what it needs into a floor`;
  const other = getFolder(target);
  if (other === folder) {
    if (findRoom(target) <= findRoom(from)) return undefined;
    return `imports upward from the room of ${target}; move what both need into a lower room of ${folder}`;
  }
  const [here, there] = [findFloor(folder), findFloor(other)];
  if (there < here) return undefined;
  if (there === here)
    return (
      `imports sideways from ${other}; move what both need to a lower floor, or take it as a function or a ` +
      "type of this floor"
    );
  return (
    `imports upward from ${other}; take a function typed on the floor ${folder} and tie it in ` +
    "server/node/compose.ts"
  );
}

function foreignPackage(from: string, specifier: string): string | undefined {
  const folder = getFolder(from);
  const allowed = [...packagesOfFloor[folder]!, ...(packagesOfFile[from] ?? [])];
  if (allowed.some((name) => (name.endsWith("/") ? specifier.startsWith(name) : specifier === name))) return undefined;
  return (
    `imports ${specifier}, which the floor ${folder} does not need; move the code to the floor that owns ` +
    "it, or add it to packagesOfFloor with a reason"
  );
}

export function reservedNamesUsed(file: ScannedFile): readonly Finding[] {
  return reservedNames.flatMap(({ pattern, name, allowedIn, remedy }) =>
    allowedIn.includes(file.path)
      ? []
      : [...file.code.matchAll(pattern)].map((match) => finding(file, match.index, `uses ${name}; ${remedy}`)),
  );
}

/** Modules that are named by where they lie beside the source: the build puts them elsewhere. */
export function modulesBySourcePath(file: ScannedFile): readonly Finding[] {
  return [...file.code.matchAll(/\bnew URL\(\s*["'`]/g)]
    .filter((match) => /^\.[^"'`$]*(?:\.[jt]s["'`]|\$\{)/.test(file.text.slice(match.index + match[0].length)))
    .map((match) =>
      finding(file, match.index, "names a module by its place; start it by moduleFile, which the build knows too"),
    );
}

/** Lines that the formatter cannot break: texts and comments. */
export function longLines(file: ScannedFile): readonly Finding[] {
  return file.text.split("\n").flatMap((line, index) => {
    const columns = [...line].length;
    return columns > columnsMax
      ? [{ path: file.path, line: index + 1, message: `has ${columns} columns, more than ${columnsMax}; break it` }]
      : [];
  });
}

export function badFileName(file: ScannedFile): readonly Finding[] {
  const name = posix.basename(file.path).replace(/\.test\.ts$|\.ts$/, "");
  if (bannedFileNames.test(name)) return [finding(file, 0, `is named ${name}; name it by the noun of what it owns`)];
  if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name))
    return [finding(file, 0, `is named ${name}; write file names in lower case with hyphens`)];
  return [];
}

export function unfinishedBusiness(file: ScannedFile): readonly Finding[] {
  return [...file.comments.matchAll(/\b(?:TODO|FIXME|XXX|HACK)\b|@ts-(?:ignore|nocheck)\b/g)].map((match) =>
    finding(file, match.index, `says ${match[0]}; do it now, or say in prose what holds and why`),
  );
}

export function missingHeader(file: ScannedFile): readonly Finding[] {
  const start = file.text.replace(/^#!.*\n/, "");
  return start.startsWith("/**")
    ? []
    : [
        finding(
          file,
          0,
          "has no header; begin with a comment that says what the file owns, what is always true, what it must " +
            "not know",
        ),
      ];
}

export function swallowedErrors(file: ScannedFile): readonly Finding[] {
  return [...file.code.matchAll(/\bcatch\s*(?:\([^)]*\)\s*)?\{(\s*)\}/g)]
    .filter((match) => file.comments.slice(match.index, match.index + match[0].length).trim() === "")
    .map((match) =>
      finding(file, match.index, "swallows an error; handle it, or say in the block why it may be forgotten"),
    );
}

const modulesOfFiles = ["node:fs", "node:fs/promises"];

/**
 * Writes of files whose count nobody looks at: a full disk takes a part of the bytes and says so by the count alone. A
 * statement that is nothing but the call drops it; streams tell by other means, and their `write` is not awaited.
 */
export function ignoredCounts(file: ScannedFile): readonly Finding[] {
  if (!listImports(file).some(({ specifier }) => modulesOfFiles.includes(specifier))) return [];
  const receiver = "(?:[\\w$#?!()[\\]]+\\s*\\.\\s*)*";
  const dropped = new RegExp(
    `(?<=^|[;{}]|\\belse|\\))\\s*(?:(?:await|void)\\s+${receiver}(?:write|writev|pwrite|pwritev)|` +
      `${receiver}(?:(?:write|writev)Sync|writev|pwritev?))\\s*\\(`,
    "g",
  );
  return [...file.code.matchAll(dropped)].map((match) =>
    finding(
      file,
      match.index + match[0].search(/\S/),
      "ignores how much a write has taken; take the count, or write through base/disk",
    ),
  );
}
