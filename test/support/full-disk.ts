/**
 * A process that fills the disk under an engine and its object store: `node full-disk.ts <data on a small disk> <folder
 * elsewhere>`.
 *
 * Prints what happened as one line of JSON; the test that started it judges.
 */
import { randomBytes } from "node:crypto";
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ServiceError, StoreError } from "../../src/base/faults/errors.ts";
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { openInlineEngine, uuidOf } from "./inline-engine.ts";

const [directory, elsewhere] = process.argv.slice(2) as [string, string];
const target = { uuid: uuidOf(1), branch: "main" };
const files = await FileStore.open(join(directory, "objects"), realWorld());
let storeIsAway = false;
const store: ObjectStore = {
  get: (key) => files.get(key),
  put: (key, bytes, condition) =>
    storeIsAway ? Promise.reject(new StoreError("unavailable", "away")) : files.put(key, bytes, condition),
  delete: (key) => files.delete(key),
  list: (prefix, options) => files.list(prefix, options),
  purgeVersions: () => files.purgeVersions(""),
};
const { client, soon, world } = openInlineEngine(directory, { store, options: { unshippedMsMax: 60_000 } });
// The world's timers keep no process alive.
const alive = setInterval(() => {}, 1_000);
const acknowledged: string[] = [];
const refused: string[] = [];
let keys = 0;

async function put(bytes: number, durable = false): Promise<string> {
  const key = `k${String(++keys).padStart(4, "0")}`;
  try {
    // Noise, which is no smaller in object storage.
    const value = Buffer.concat([Buffer.from(key), randomBytes(bytes)]);
    await client.write(
      target,
      "kv.put",
      { ns: "n", key, value },
      durable ? { deadlineMs: world.monotonicMs() + 3_000, durable } : soon(),
    );
    acknowledged.push(key);
    return "ok";
  } catch (error) {
    refused.push(key);
    return error instanceof ServiceError ? `${error.code}: ${error.message}` : String(error);
  }
}

async function held(from: typeof client): Promise<readonly string[]> {
  return (await from.read(target, "kv.list", { ns: "n", limit: 1_000 }, soon())).value.keys;
}

/** Leaves about this much room on the disk. */
function fill(leftBytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  writeFileSync(join(directory, "filler"), Buffer.alloc(Math.max(0, bavail * bsize - leftBytes)));
}

function empty(): void {
  rmSync(join(directory, "filler"));
}

/** Writes until the disk is full, and some more. */
async function untilFull(durable = false): Promise<string[]> {
  const outcomes: string[] = [];
  while (outcomes.at(-1) === undefined || (outcomes.at(-1) === "ok" && outcomes.length < 100))
    outcomes.push(await put(256 * 1024, durable));
  for (let more = 0; more < 3; more++) outcomes.push(await put(256 * 1024, durable));
  return outcomes;
}

for (let step = 0; step < 3; step++) await put(100);
await client.sync(target, soon());
fill(1024 * 1024);
const full = await untilFull();
const whileFull = await held(client);
const acknowledgedWhenFull = [...acknowledged];
empty();
const afterwards = [await put(100), await put(256 * 1024)];
await client.sync(target, soon());

fill(2 * 1024 * 1024);
const fullAndDurable = await untilFull(true);
const durableWhenFull = [...acknowledged];
// What object storage has while the disk is full is what a node elsewhere can go on from.
const fromFull = openInlineEngine(join(elsewhere, "from-full"), {
  store,
  options: { nodeId: "other", shipping: false },
});
const heldFromFull = await held(fromFull.client);
await fromFull.client.close();
empty();
await client.sync(target, soon());

storeIsAway = true;
fill(1024 * 1024);
const fullAndAway = await untilFull();
const whileAway = await held(client);
const acknowledgedWhenAway = [...acknowledged];
storeIsAway = false;
empty();
await client.sync(target, soon());
const atTheEnd = [await put(100), await put(256 * 1024)];
await client.sync(target, soon());
const check = await client.sqlWrite(
  target,
  { statements: [{ text: "PRAGMA integrity_check", paramsJson: undefined }], atomic: true, mayWrite: false },
  soon(),
);
const last = await held(client);
await client.close();

const other = openInlineEngine(join(elsewhere, "at-the-end"), { store: files, options: { nodeId: "other" } });
const restored = await held(other.client);
await other.client.close();
clearInterval(alive);
console.log(
  JSON.stringify({
    full,
    whileFull,
    acknowledgedWhenFull,
    afterwards,
    fullAndDurable,
    durableWhenFull,
    heldFromFull,
    fullAndAway,
    whileAway,
    acknowledgedWhenAway,
    atTheEnd,
    integrity: check.value[0]!.rowsJson,
    last,
    restored,
    acknowledged,
    refused,
  }),
);
