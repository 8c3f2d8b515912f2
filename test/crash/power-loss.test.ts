/** What a power loss leaves: every acknowledged write, whole groups only, and a file that is sound. */
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Disk } from "../../src/base/disk.ts";
import { realWorld, type World } from "../../src/base/world.ts";
import { WalCheckpointer } from "../../src/engine/database/wal-checkpointer.ts";
import { Scrub } from "../../src/engine/database/scrub.ts";
import { createSchema } from "../../src/model/schema.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { WalFile } from "../../src/sqlite/wal/wal.ts";
import { openInlineEngine } from "../support/inline-engine.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { PowerDisk } from "../support/power-disk.ts";
import { seeded } from "../support/random.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { commit, openConnection, put, openReader } from "../support/wal-log.ts";

const target = { uuid: "00000000-0000-4000-8000-000000000001", branch: "main" };
const keys = 24;

interface Loss {
  /** Acknowledged writes that are not there any more. */
  lost: number;
  /** Power losses in which some write was still unanswered. */
  interrupted: number;
  /** Fsyncs of a log that was being written over its old frames. */
  overwriting: number;
}

/** Writes with several clients, loses power at random moments, and looks at what each loss left. */
async function run(seed: number, syncs: boolean, losses: number): Promise<Loss> {
  const random = seeded(seed);
  const directory = temporaryDirectory();
  const live = join(directory, "live");
  // Whoever prepares a data directory sees to it that its folders are on the disk.
  for (const name of ["db", "scratch"]) mkdirSync(join(live, name), { recursive: true });
  const disk = new PowerDisk(live, syncs);
  const store = new MemoryStore();
  let answered = (): void => {};
  const world = realWorld((point) => {
    if (point === "answered") answered();
  });
  const { client, soon } = openInlineEngine(live, { disk, world, store, options: { logCheckpointBytes: 64 * 1024 } });
  const acknowledged = new Map<string, number>();
  const result: Loss = { lost: 0, interrupted: 0, overwriting: 0 };
  let writing = true;
  let unanswered = 0;
  let next = 0;
  const writer = async (): Promise<void> => {
    while (writing) {
      const round = ++next;
      const key = `k${round % keys}`;
      unanswered++;
      // Both rows of a write are in one command, so a state with only one of them is torn.
      await client.write(
        target,
        "docs.insert",
        { collection: "log", docs: [`{"_id":"${round}","key":"${key}"}`, `{"_id":"${round}b"}`] },
        soon(),
      );
      await client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(String(round)) }, soon());
      unanswered--;
      acknowledged.set(key, Math.max(round, acknowledged.get(key) ?? 0));
    }
  };
  const writers = Array.from({ length: 8 }, writer);
  for (let loss = 0; loss < losses; loss++) {
    for (let turns = Math.floor(random() * 40); turns >= 0; turns--) await turn();
    // Every other time right after an answer has left: one that left too early is not on the disk then.
    if (loss % 2 === 1) await new Promise<void>((resolve) => (answered = resolve)).then(turn);
    const known = new Map(acknowledged);
    if (unanswered > 0) result.interrupted++;
    const after = join(directory, `after${loss}`);
    disk.lose(after, random);
    result.lost += await inspect(after, await copyStore(store), known);
  }
  writing = false;
  await Promise.all(writers);
  await client.close();
  result.overwriting = disk.overwriting;
  disk.close();
  return result;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** What object storage holds now: the node that comes after a loss must not fence the one that goes on. */
async function copyStore(store: ObjectStore): Promise<ObjectStore> {
  const copy = new MemoryStore();
  for (const { key } of (await store.list("", { limit: 100_000 })).objects) {
    const found = await store.get(key);
    if (found) await copy.put(key, found.bytes, { kind: "absent" });
  }
  return copy;
}

/** Opens what is left and counts acknowledged writes that are missing; throws when the state is torn. */
async function inspect(directory: string, store: ObjectStore, known: ReadonlyMap<string, number>): Promise<number> {
  const { client, soon } = openInlineEngine(directory, { store });
  let lost = 0;
  for (const [key, round] of known) {
    const { value } = await client.read(target, "kv.get", { ns: "n", key }, soon());
    const found = value ? Number(Buffer.from(value.value).toString()) : 0;
    if (found < round) lost++;
  }
  const { value } = await client.read(
    target,
    "docs.find",
    { collection: "log", limit: 1000, filter: '{"key":{"$exists":true}}' },
    soon(),
  );
  const pairs = new Set(
    (
      await client.read(
        target,
        "docs.find",
        { collection: "log", limit: 1000, filter: '{"key":{"$exists":false}}' },
        soon(),
      )
    ).value.docs.map((doc) => (JSON.parse(doc) as { _id: string })._id),
  );
  if (value.docs.length < 1000)
    for (const doc of value.docs) expect(pairs.has(`${(JSON.parse(doc) as { _id: string })._id}b`)).toBe(true);
  await client.close();
  const connection = new Connection(join(directory, "db", target.uuid, "main.db"), {
    readonly: false,
    pageCacheKiB: 1024,
  });
  expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  connection.close();
  return lost;
}

test("F20: no acknowledged write is lost and no state is torn (seeds 1 to 3)", { timeout: 600_000 }, async () => {
  for (const seed of [1, 2, 3]) {
    const { lost, interrupted, overwriting } = await run(seed, true, 25);
    expect(lost, `seed ${seed}`).toBe(0);
    expect(interrupted).toBeGreaterThan(0);
    expect(overwriting).toBeGreaterThan(0);
  }
});

test(
  "F20, negative control: with the fdatasync taken out, the same test sees losses",
  { timeout: 600_000 },
  async () => {
    const { lost } = await run(1, false, 25);
    expect(lost).toBeGreaterThan(0);
  },
);

/** The keys that the node finds on what a loss of power has left. */
async function keysAfterLoss(
  disk: PowerDisk,
  directory: string,
  random: () => number,
  store: ObjectStore,
): Promise<readonly string[]> {
  const after = join(directory, `after${random()}`);
  disk.lose(after, random);
  const { client, soon } = openInlineEngine(after, { store });
  const { value } = await client.read(target, "kv.list", { ns: "n" }, soon());
  await client.close();
  return value.keys;
}

test.each(["in order", "by a kill"])(
  "F20: an fsync that failed before the process ended %s takes nothing along that the next one acknowledges",
  async (how) => {
    const random = seeded(1);
    const directory = temporaryDirectory();
    const live = join(directory, "live");
    for (const name of ["db", "scratch"]) mkdirSync(join(live, name), { recursive: true });
    const disk = new PowerDisk(live, true);
    const store = new MemoryStore();
    const put = (key: string) => ({ ns: "n", key, value: Buffer.from(key) });
    // A process that was killed goes on with nothing.
    let isDead = false;
    const whileAlive = <Value>(act: Promise<Value>): Promise<Value> =>
      act.then(
        (value) => (isDead ? new Promise<never>(() => {}) : value),
        (error: unknown) => (isDead ? new Promise<never>(() => {}) : Promise.reject(error as Error)),
      );
    const real = realWorld();
    const world: World = { ...real, after: (ms, act) => real.after(ms, () => isDead || act()) };
    const own: Disk = {
      write: disk.write,
      fdatasync: (descriptor) => whileAlive(disk.fdatasync(descriptor)),
      syncDirectory: (path) => whileAlive(disk.syncDirectory(path)),
    };
    const first = openInlineEngine(live, { disk: own, store, world });
    await first.client.write(target, "kv.put", put("before"), first.soon());
    disk.isFailing = true;
    await expect(first.client.write(target, "kv.put", put("doubtful"), first.soon())).rejects.toMatchObject({
      code: "unavailable",
    });
    if (how === "in order") await first.client.close();
    isDead = true;
    disk.isFailing = false;
    const second = openInlineEngine(live, { disk, store });
    await second.client.write(target, "kv.put", put("after"), second.soon());
    for (let loss = 0; loss < 20; loss++)
      expect(await keysAfterLoss(disk, directory, random, await copyStore(store))).toEqual(
        expect.arrayContaining(["before", "after"]),
      );
    await second.client.close();
    disk.close();
  },
);

test("F20: what was scrubbed out of a file stays out of it, whatever a loss of power takes back", async () => {
  const random = seeded(5);
  const directory = temporaryDirectory();
  const live = join(directory, "live");
  mkdirSync(live);
  const disk = new PowerDisk(live, true);
  const path = join(live, "main.db");
  const connection = openConnection(path);
  createSchema(connection);
  connection.exec("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)");
  const wal = new WalFile(path, disk);
  const folder = new WalCheckpointer(
    wal,
    { connection, log: openReader(path), slackUnknown: false },
    realWorld(),
    disk,
    64 * 1024,
  );
  const secret = Buffer.from("the secret that is to be forgotten");
  for (let key = 0; key < 200; key++)
    commit(connection, () => put(connection, key, Buffer.concat([secret, Buffer.alloc(key * 7)])));
  await wal.sync();
  folder.checkpointWal();
  for (let key = 0; key < 200; key++) commit(connection, () => put(connection, key, Buffer.alloc(key % 5)));
  await new Scrub(folder, realWorld(), {
    isDrained: () => true,
    ship: () => {},
    wake: () => {},
    failure: () => undefined,
  }).run(performance.now() + 60_000);
  for (let loss = 0; loss < 20; loss++) {
    const left = join(directory, `left${loss}`);
    disk.lose(left, random);
    for (const name of readdirSync(left))
      expect(readFileSync(join(left, name)).includes(secret), `${name} after loss ${loss}`).toBe(false);
  }
  wal.close();
  connection.close();
  disk.close();
});
