/**
 * Nodes on virtual time that can die in the middle of everything, and what the failure matrix does to them and to their
 * files.
 *
 * A node that was killed sends no request any more, and none that it has sent comes to an end for it.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect } from "vitest";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import type { ScriptedStore } from "./scripted-store.ts";
import { temporaryDirectory } from "./temporary.ts";
import { TimedEngine, type VirtualTime } from "./timed-engine.ts";

/** Whether a node's process is gone: then its requests have no end, and no new ones reach object storage. */
const lives = new WeakMap<TimedEngine, { over: boolean }>();

/** A node that can die in the middle of everything. */
export function start(
  time: VirtualTime,
  options: ConstructorParameters<typeof TimedEngine>[1] = {},
  directory = temporaryDirectory(),
): TimedEngine {
  const life = { over: false };
  const never = new Promise<never>(() => {});
  const whileAlive = <Value>(act: () => Promise<Value>): Promise<Value> => {
    if (life.over) return never;
    return act().then(
      (value) => (life.over ? never : value),
      (error: unknown) => (life.over ? never : Promise.reject(error as Error)),
    );
  };
  const store: ObjectStore = {
    get: (key) => whileAlive(() => time.store.get(key)),
    put: (key, bytes, condition) => whileAlive(() => time.store.put(key, bytes, condition)),
    delete: (key) => whileAlive(() => time.store.delete(key)),
    list: (prefix, given) => whileAlive(() => time.store.list(prefix, given)),
    purgeVersions: () => whileAlive(() => time.store.purgeVersions()),
  };
  const node = new TimedEngine(time, options, directory, store);
  lives.set(node, life);
  return node;
}

/** The process is gone; its files stay as they are. */
export function kill(node: TimedEngine): void {
  lives.get(node)!.over = true;
  node.kill();
}

/** The names that a run of writes gives its keys. */
export const listKeys = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, index) => `k${from + index}`);

/** The file of the branch `main`. */
export function getFilePath(node: TimedEngine): string {
  return join(node.directory, "db", node.uuid, "main.db");
}

/** Nothing is put any more, and everything else is answered. */
export function refusePuts(store: ScriptedStore): void {
  store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
}

/** Everything is answered again. */
export function allowAll(store: ScriptedStore): void {
  store.decideFate = () => "fine";
}

/** Puts the keys one after the other, and gives the last transaction id. */
export async function putAll(node: TimedEngine, keys: readonly string[]): Promise<number> {
  let txid = 0;
  for (const key of keys) ({ txid } = await node.put(key));
  return txid;
}

/** A node whose log holds groups that object storage lacks: k1 to k3 are shipped, k4 to k8 are not. */
export async function withUnshipped(
  time: VirtualTime,
  options: ConstructorParameters<typeof TimedEngine>[1] = {},
): Promise<TimedEngine> {
  const node = start(time, options);
  await putAll(node, listKeys(1, 3));
  await node.sync();
  refusePuts(time.store);
  await putAll(node, listKeys(4, 8));
  return node;
}

/** What a node with nothing of its own finds in object storage. */
export async function keysInStore(time: VirtualTime): Promise<readonly string[]> {
  const other = start(time, { nodeId: "onlooker" });
  const keys = await other.keys();
  const sound = await other.sql(["PRAGMA integrity_check"]);
  expect(JSON.stringify(sound.value)).toContain("ok");
  kill(other);
  return keys;
}

/** The node's process dies; another one starts on a copy of its directory as it is. */
export function reborn(
  node: TimedEngine,
  time: VirtualTime,
  options: ConstructorParameters<typeof TimedEngine>[1] = {},
): TimedEngine {
  const directory = temporaryDirectory();
  cpSync(node.directory, directory, { recursive: true });
  kill(node);
  return start(time, options, directory);
}

/** Opens the file with a plain SQLite, as an operator's tool would. */
export function meddle(path: string, act: (database: Sqlite.Database) => void): void {
  const database = new Sqlite(path);
  act(database);
  database.close();
}
