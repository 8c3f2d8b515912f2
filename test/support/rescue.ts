/**
 * The tools for the worst day as tests use them, and a small fleet's object store to break.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { palimpsest } from "./command-runs.ts";
import { startService, type Service } from "./service.ts";
import { temporaryDirectory } from "./temporary.ts";

/** What doctor says, for machines. */
export interface Diagnosis {
  readonly code: number;
  readonly well: boolean;
  readonly counts: Readonly<Record<"critical" | "warning" | "note", number>>;
  readonly findings: readonly {
    readonly severity: string;
    readonly kind: string;
    readonly uuid?: string;
    readonly branch?: string;
    readonly key?: string;
    readonly what: string;
    readonly todo: string;
  }[];
  readonly store?: Readonly<Record<string, number>>;
  readonly disk?: {
    readonly node: string;
    readonly running: boolean;
    readonly files: number;
    readonly standings: Readonly<Record<string, number>>;
    readonly quarantined: number;
  };
}

/** Runs doctor with these flags. */
export async function diagnosed(...flags: string[]): Promise<Diagnosis> {
  const run = await palimpsest(["doctor", "--json", ...flags]);
  expect(run.error).toBe("");
  return { code: run.code, ...(JSON.parse(run.out) as Omit<Diagnosis, "code">) };
}

/** Kinds of what is worse than a note. */
export function troubles({ findings }: Diagnosis): string[] {
  return findings.filter(({ severity }) => severity !== "note").map(({ kind }) => kind);
}

/** Everything below a directory: names, kinds, lengths, times of change and content. */
export function fingerprint(directory: string): string {
  const lines = (readdirSync(directory, { recursive: true, encoding: "utf8" }) as string[]).sort().map((name) => {
    const path = join(directory, name);
    const stat = lstatSync(path);
    const content = stat.isFile()
      ? createHash("sha256").update(readFileSync(path)).digest("hex")
      : stat.isSymbolicLink()
        ? readlinkSync(path)
        : "";
    return `${name} ${stat.mode} ${stat.size} ${stat.mtimeMs} ${stat.ino} ${content}`;
  });
  return lines.join("\n");
}

/** The place of a key in a store in a directory. */
function getVersionsPath(objects: string, key: string): string {
  return join(objects, `${key}~`);
}

function newestVersion(objects: string, key: string): number {
  return Math.max(...readdirSync(getVersionsPath(objects, key)).map(Number));
}

/** The file that is the object now. */
export function objectFile(objects: string, key: string): string {
  return join(getVersionsPath(objects, key), String(newestVersion(objects, key)));
}

/**
 * Puts a version above all others of an object, as the file store lays one down: a byte for what it is, then the
 * object.
 */
export function overlayObject(objects: string, key: string, bytes: string): void {
  writeFileSync(join(getVersionsPath(objects, key), String(newestVersion(objects, key) + 1)), `\u0001${bytes}`);
}

/** Keys below a folder of a store in a directory. */
export function keysUnder(objects: string, folder: string): string[] {
  const path = join(objects, folder);
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .filter((name) => name.endsWith("~"))
    .map((name) => folder + name.slice(0, -1))
    .sort();
}

/** Takes an object away with all that the store keeps of it, as whoever removes files by hand does. */
export function loseObject(objects: string, key: string): void {
  rmSync(getVersionsPath(objects, key), { recursive: true });
}

/** Turns one bit of an object. */
export function rotObject(objects: string, key: string): void {
  const path = objectFile(objects, key);
  const bytes = readFileSync(path);
  bytes[Math.floor(bytes.length / 2)]! ^= 1;
  writeFileSync(path, bytes);
}

/** Makes an object one that a newer build has written: another version, and the seal that belongs to it. */
export function ageObject(objects: string, key: string): void {
  const path = objectFile(objects, key);
  const sealed = Buffer.from(readFileSync(path).subarray(1));
  sealed[4] = 200;
  const checked = sealed.length - 16;
  createHash("sha256").update(sealed.subarray(0, checked)).digest().copy(sealed, checked, 0, 16);
  writeFileSync(path, Buffer.concat([Buffer.of(1), sealed]));
}

/** A node's data directory with some databases in it, of which the node is stopped. */
export interface Fleet {
  readonly directory: string;
  readonly objects: string;
  /** `file://…` of the objects. */
  readonly url: string;
  /** Starts the node again; the test closes it. */
  start(variables?: Record<string, string>): Promise<Service>;
  /** The uuid of a database, from its claim. */
  readUuid(name: string): string;
}

/** A durable statement on a database; gives its transaction id. */
export async function sql(service: Service, db: string, q: string): Promise<number> {
  const answer = await service.call(
    "POST",
    `/v1/db/${db}/sql`,
    { stmts: [{ q }] },
    { "service-durability": "durable" },
  );
  expect(answer.status, answer.text).toBe(200);
  return Number(answer.headers.get("service-txid"));
}

/** The numbers in a database's table. */
export async function rows(service: Service, db: string): Promise<number[]> {
  const answer = await service.call("POST", `/v1/db/${db}/sql`, { stmts: [{ q: "SELECT n FROM t ORDER BY n" }] });
  expect(answer.status, answer.text).toBe(200);
  return (answer.json as { results: { rows: { n: number }[] | number[][] }[] }).results[0]!.rows.map((row) =>
    Array.isArray(row) ? row[0]! : row.n,
  );
}

export function fleetIn(directory: string): Fleet {
  const objects = join(directory, "objects");
  return {
    directory,
    objects,
    url: `file://${objects}`,
    start: (variables = {}) => startService(variables, directory),
    readUuid: (name) =>
      (
        JSON.parse(
          readFileSync(objectFile(objects, `names/${name}.json`))
            .subarray(1)
            .toString(),
        ) as { uuid: string }
      ).uuid,
  };
}

/** A copy of a stopped fleet, to break. */
export function copyFleet({ directory }: Fleet): Fleet {
  const copy = temporaryDirectory();
  cpSync(directory, copy, { recursive: true });
  return fleetIn(copy);
}

/** The node of a fleet; it ends with the test. */
export async function started(fleet: Fleet, variables: Record<string, string> = {}): Promise<Service> {
  const service = await fleet.start(variables);
  onTestFinished(() => service.close());
  return service;
}

/**
 * A stopped node with the databases `one` and `two`, each a table of three numbers; `one` has a branch `side` and a
 * checkpoint.
 */
export async function smallFleet(directory = temporaryDirectory()): Promise<Fleet> {
  const fleet = fleetIn(directory);
  const service = await fleet.start();
  for (const name of ["one", "two"]) {
    expect((await service.call("POST", "/v1/databases", { name })).status).toBe(201);
    await sql(service, name, "CREATE TABLE t (n)");
    for (const n of [1, 2, 3]) await sql(service, name, `INSERT INTO t VALUES (${n})`);
  }
  expect((await service.call("POST", "/v1/db/one/branches/main/checkpoint", { name: "three" })).status).toBe(200);
  expect((await service.call("POST", "/v1/db/one/branches", { name: "side" })).status).toBe(201);
  await sql(service, "one@side", "INSERT INTO t VALUES (4)");
  await service.close();
  return fleet;
}
