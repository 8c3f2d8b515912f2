/** Databases that are made ahead: what the first write of a name costs then, who gets one, what is left of it. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { realDisk, type Disk } from "../../../../src/base/disk.ts";
import { realWorld, type World } from "../../../../src/base/world.ts";
import { Databases } from "../../../../src/control/databases/databases.ts";
import { nameClaimKey } from "../../../../src/format/keys/object-keys.ts";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import { realFileSystem, type FileSystem } from "../../../../src/store/file/file-system.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { faultVfs } from "../../../support/fault-vfs.ts";
import { openInlineEngine } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

const name = "tenant--one";

/** Notes in the node's data directory. */
function notes({ directory }: { readonly directory: string }): string[] {
  const path = join(directory, "spares");
  return existsSync(path) ? readdirSync(path).toSorted() : [];
}

function files({ directory }: { readonly directory: string }): string[] {
  return readdirSync(join(directory, "db")).toSorted();
}

/** Uuids of which object storage has anything. */
function stored({ store }: VirtualTime): string[] {
  return [...new Set(store.keys("db/").map((key) => key.split("/")[1]!))].toSorted();
}

function databasesOf(node: TimedEngine): Databases {
  return new Databases(node.time.store, node.world, node.client.spares);
}

function write(node: TimedEngine, uuid: string, key = "k"): Promise<unknown> {
  const input = { ns: "n", key, value: Buffer.from(key) };
  return node.time.of(node.client.write({ uuid, branch: "main" }, "kv.put", input, node.soon()));
}

/** A node that has as many as it is to have. */
async function startReady(spareDatabases = 2, time = new VirtualTime()): Promise<TimedEngine> {
  time.store.audit();
  const node = new TimedEngine(time, { spareDatabases, gcGraceMs: 5_000 });
  await time.pass(1_000);
  expect(notes(node)).toHaveLength(spareDatabases);
  return node;
}

/** Another process on what the killed one has left. */
function startAfter(killed: TimedEngine, options = {}): TimedEngine {
  killed.kill();
  return new TimedEngine(killed.time, { gcGraceMs: 5_000, ...options }, killed.directory);
}

/** Everything that is asked of the disk and of object storage, counted. */
class Tally {
  syncs = 0;
  puts = 0;
  readonly #folder: number;

  constructor(directory: string) {
    this.#folder = faultVfs().watch(join(directory, "db"), temporaryDirectory(), 1);
  }

  /** With what SQLite has asked for by itself. */
  take(): { syncs: number; puts: number } {
    const own = faultVfs()
      .drain()
      .filter(({ folder, kind }) => folder === this.#folder && (kind === "synced" || kind === "folder-synced"));
    const taken = { syncs: this.syncs + own.length, puts: this.puts };
    this.syncs = this.puts = 0;
    return taken;
  }

  /** Whether nothing was asked for since the last time. */
  isQuiet(): boolean {
    const { syncs, puts } = this.take();
    return syncs + puts === 0;
  }

  end(): void {
    faultVfs().drop(this.#folder);
  }

  readonly disk: Disk = {
    write: realDisk.write,
    fdatasync: (...file) => {
      this.syncs++;
      return realDisk.fdatasync(...file);
    },
    syncDirectory: (path) => {
      this.syncs++;
      return realDisk.syncDirectory(path);
    },
  };

  readonly files: FileSystem = {
    ...realFileSystem,
    create: async (path) => {
      const draft = await realFileSystem.create(path);
      return {
        ...draft,
        sync: () => {
          this.syncs++;
          return draft.sync();
        },
      };
    },
    syncDirectory: (path) => {
      this.syncs++;
      return realFileSystem.syncDirectory(path);
    },
  };

  /** The store with its puts counted. */
  counting(store: ObjectStore): ObjectStore {
    return new Proxy(store, {
      get:
        (target, key: keyof ObjectStore) =>
        (...args: unknown[]) => {
          if (key === "put") this.puts++;
          return (target[key] as (...given: unknown[]) => unknown).apply(target, args);
        },
    });
  }
}

/** The machine's world, whose timers can be held: what is due then comes when they are released. */
function holdingWorld(): { readonly world: World; hold(): void; release(): void } {
  const real = realWorld();
  let held: (() => void)[] | undefined;
  const after: World["after"] = (delayMs, act) => real.after(delayMs, () => (held ? void held.push(act) : act()));
  return {
    world: new Proxy(real, { get: (target, key) => (key === "after" ? after : Reflect.get(target, key)) }),
    hold: () => void (held ??= []),
    release() {
      const due = held ?? [];
      held = undefined;
      for (const act of due) act();
    },
  };
}

/** What the first write of a new name costs before its answer, on a node that keeps so many. */
async function countFirstWrite(spareDatabases: number): Promise<{ syncs: number; puts: number }> {
  const directory = temporaryDirectory();
  const { world, hold, release } = holdingWorld();
  const tally = new Tally(directory);
  const store = tally.counting(await FileStore.open(join(directory, "objects"), world, tally.files));
  const node = openInlineEngine(directory, { world, store, disk: tally.disk, options: { spareDatabases } });
  const databases = new Databases(store, world, node.client.spares);
  const firstWrite = async (of: string): Promise<void> => {
    const { uuid } = await databases.ensure(of);
    const memories = [{ type: "fact" as const, summary: "the first", content: "{}" }];
    await node.client.write({ uuid, branch: "main" }, "memory.ingest", { memories }, node.soon());
  };
  try {
    await firstWrite("tenant--earlier");
    // The store's folders are known, and the spare that it took is made again.
    await expect.poll(() => node.client.spares.ready, { timeout: 30_000 }).toBe(spareDatabases);
    // From now on nothing begins by the clock: what is counted is the write's own.
    hold();
    await expect.poll(() => tally.isQuiet(), { timeout: 30_000, interval: 300 }).toBe(true);
    tally.take();
    await firstWrite(name);
    return tally.take();
  } finally {
    release();
    await node.client.close();
    tally.end();
  }
}

describe("the first write of a new name", () => {
  test("waits for 6 fsyncs and 2 puts at most where a database was made ahead", async () => {
    const { syncs, puts } = await countFirstWrite(1);
    expect(syncs).toBeLessThanOrEqual(6);
    expect(puts).toBeLessThanOrEqual(2);
    // Its name and itself: there is no way around these.
    expect(syncs).toBeGreaterThanOrEqual(4);
    expect(puts).toBeGreaterThanOrEqual(1);
  });

  test("waits for many more without", async () => {
    const { syncs, puts } = await countFirstWrite(0);
    expect(syncs).toBeGreaterThan(20);
    expect(puts).toBe(5);
  });

  test("is the database's first transaction, survives a crash, and is shipped", async () => {
    const node = await startReady();
    const spare = stored(node.time);
    const { uuid } = await node.time.of(databasesOf(node).ensure(name));
    expect(spare).toContain(uuid);
    expect(await write(node, uuid)).toMatchObject({ txid: 1 });
    const again = startAfter(node);
    const { value, txid } = await again.time.of(
      again.client.read({ uuid, branch: "main" }, "kv.list", { ns: "n", limit: 10 }, again.soon()),
    );
    expect({ keys: value.keys, txid }).toEqual({ keys: ["k"], txid: 1 });
    await again.time.of(again.client.sync({ uuid, branch: "main" }, again.soon()));
    await again.close();
    again.wipe();
    const elsewhere = new TimedEngine(again.time, {});
    await write(elsewhere, uuid, "l");
    const read = elsewhere.client.read({ uuid, branch: "main" }, "kv.list", { ns: "n", limit: 10 }, elsewhere.soon());
    expect((await elsewhere.time.of(read)).value.keys).toEqual(["k", "l"]);
    expect(elsewhere.time.store.violations).toEqual([]);
  });
});

describe("spare databases", () => {
  test("are given to one name each, and made again once nobody asks", async () => {
    const node = await startReady(2);
    const databases = databasesOf(node);
    const spare = stored(node.time);
    const records = await node.time.of(Promise.all(["a--a", "b--b", "c--c"].map((one) => databases.ensure(one))));
    const uuids = records.map(({ uuid }) => uuid);
    expect(new Set(uuids).size).toBe(3);
    expect(uuids.filter((uuid) => spare.includes(uuid))).toHaveLength(2);
    await node.time.pass(1_000);
    expect(notes(node)).toHaveLength(2);
    expect(notes(node).filter((uuid) => uuids.includes(uuid))).toEqual([]);
  });

  test("are made again after each that is given", async () => {
    const node = await startReady(1);
    for (const one of ["a--a", "b--b", "c--c"]) {
      const spare = stored(node.time);
      const { uuid } = await node.time.of(databasesOf(node).ensure(one));
      expect(spare).toContain(uuid);
      await node.time.pass(1_000);
      expect(notes(node)).toHaveLength(1);
    }
  });

  test("are not wasted on callers of one name, who all get the same one", async () => {
    const node = await startReady(3);
    const databases = databasesOf(node);
    const records = await node.time.of(Promise.all(Array.from({ length: 8 }, () => databases.ensure(name))));
    expect(new Set(records.map(({ uuid }) => uuid)).size).toBe(1);
    expect(stored(node.time)).toHaveLength(3);
  });

  test("are removed when another node was faster with the name", async () => {
    const node = await startReady(1);
    const [spare] = stored(node.time);
    const other = new Databases(node.time.store.calm, node.time.world());
    let isTold = false;
    node.time.store.decideFate = (verb, key) => {
      if (verb !== "put" || key !== nameClaimKey(name) || isTold) return "fine";
      isTold = true;
      return { held: other.ensure(name).then(() => {}) };
    };
    const { uuid } = await node.time.of(databasesOf(node).ensure(name));
    expect(uuid).not.toBe(spare);
    await node.time.pass(20_000);
    expect(stored(node.time)).not.toContain(spare);
    expect(files(node)).not.toContain(spare);
    expect(notes(node)).not.toContain(spare);
    expect(node.time.store.violations).toEqual([]);
  });

  test("stay when it is unknown whether the name leads there, and belong to it when it does", async () => {
    const node = await startReady(1);
    const [spare] = stored(node.time);
    let isPut = false;
    node.time.store.decideFate = (verb, key) => {
      if (key !== nameClaimKey(name)) return "fine";
      if (verb !== "put") return isPut ? "refused" : "fine";
      isPut = true;
      return "answerLost";
    };
    await expect(node.time.of(databasesOf(node).create(name))).rejects.toMatchObject({ kind: "unknown_outcome" });
    await node.time.pass(20_000);
    expect(notes(node)).toContain(spare);
    node.time.store.decideFate = () => "fine";
    const again = startAfter(node, { spareDatabases: 0 });
    await again.time.pass(20_000);
    expect(await again.time.of(databasesOf(again).ensure(name))).toMatchObject({ uuid: spare });
    expect([stored(again.time), notes(again)]).toEqual([[spare], []]);
  });

  test("take an eighth of the handles at most, and are not closed for being idle", async () => {
    const time = new VirtualTime();
    const few = new TimedEngine(time, { spareDatabases: 100, hotHandlesMax: 16, idleCloseMs: 1_000 });
    await time.pass(10_000);
    expect(notes(few)).toHaveLength(2);
    expect(few.engine.state.counters).toMatchObject({ opened: 2, evicted: 0 });
    const none = new TimedEngine(time, { spareDatabases: 100, hotHandlesMax: 7 });
    await time.pass(1_000);
    expect(notes(none)).toEqual([]);
  });

  test("are not made among several nodes, where nobody holds a lease for them", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { spareDatabases: 2, coordinated: true });
    await time.pass(5_000);
    expect([notes(node), stored(time)]).toEqual([[], []]);
  });
});

describe("what is left of spare databases", () => {
  test("is nothing after an end in order", async () => {
    const node = await startReady(3);
    await node.close();
    expect([notes(node), files(node), stored(node.time)]).toEqual([[], [], []]);
    expect(node.time.store.violations).toEqual([]);
  });

  test("is nothing when the node ends while one is being made", async () => {
    const time = new VirtualTime();
    time.store.audit();
    const node = new TimedEngine(time, { spareDatabases: 1, gcGraceMs: 5_000 });
    const gate = Promise.withResolvers<void>();
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/seg/") ? { held: gate.promise } : "fine");
    await time.pass(1_000);
    expect(notes(node)).toHaveLength(1);
    const closing = node.client.close();
    let isClosed = false;
    void closing.then(() => (isClosed = true));
    await time.pass(500);
    expect(isClosed).toBe(false);
    gate.resolve();
    await time.of(closing);
    expect([notes(node), files(node), stored(time)]).toEqual([[], [], []]);
  });

  test("F97: is removed after a crash, and what this process makes is its own", async () => {
    const node = await startReady(2);
    const before = stored(node.time);
    const again = startAfter(node, { spareDatabases: 2 });
    await again.time.pass(20_000);
    const after = stored(again.time);
    expect(after).toHaveLength(2);
    expect(after.filter((uuid) => before.includes(uuid))).toEqual([]);
    expect([notes(again), files(again)]).toEqual([after, after]);
    expect(again.time.store.violations).toEqual([]);
  });

  test("F97: is removed after a crash between the gift and the name", async () => {
    const node = await startReady(1);
    const uuid = await node.time.of(node.client.spares.take(name));
    expect(stored(node.time)).toContain(uuid);
    const again = startAfter(node);
    await again.time.pass(20_000);
    expect([notes(again), files(again), stored(again.time)]).toEqual([[], [], []]);
  });

  test("is a database like all others when the name leads there", async () => {
    const node = await startReady(1);
    const { uuid } = await node.time.of(databasesOf(node).ensure(name));
    await write(node, uuid);
    // As a loss of power may leave it: the note of what was given is back.
    const again = startAfter(node);
    await again.time.pass(20_000);
    expect(notes(again)).toEqual([]);
    expect(stored(again.time)).toEqual([uuid]);
    expect(await write(again, uuid, "l")).toMatchObject({ txid: 2 });
  });

  test("F97: stays when anything was written to it, whatever its note says", async () => {
    const node = await startReady(1);
    const [uuid] = notes(node);
    await write(node, uuid!);
    await node.time.of(node.client.sync({ uuid: uuid!, branch: "main" }, node.soon()));
    const again = startAfter(node);
    await again.time.pass(20_000);
    expect(stored(again.time)).toEqual([uuid]);
    expect(notes(again)).toEqual([]);
    expect(again.notices.join()).toContain("made ahead is in use");
  });

  test("waits for a store that does not answer, and is removed then", async () => {
    const node = await startReady(1);
    const before = stored(node.time);
    node.time.store.decideFate = () => "refused";
    const again = startAfter(node);
    await again.time.pass(30_000);
    expect(notes(again)).toEqual(before);
    node.time.store.decideFate = () => "fine";
    await again.time.pass(30_000);
    expect([notes(again), stored(again.time)]).toEqual([[], []]);
  });
});
