/** What object storage knows of the copies on the disks of nodes, and how a node lets go of one. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { Copies, registerCopies, unregisterCopies } from "../../../../src/engine/local/copies.ts";
import { isStanding, type CopyRecord } from "../../../../src/format/records/copy-record.ts";
import { LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import type { Fate } from "../../../support/scripted-store.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine, type VirtualTime } from "../../../support/timed-engine.ts";

const openRecords = (time: VirtualTime): CopyRecords => new CopyRecords(time.store.calm, time.world());

/** The copies of the database that stand, as `node`, and those that are purged, as `node purged files`. */
async function listCopies(time: VirtualTime, uuid: string): Promise<string[]> {
  const records: CopyRecord[] = await openRecords(time).list(uuid);
  return records.map((record) =>
    isStanding(record) ? record.node : `${record.node} purged ${record.purged?.filesRemoved}`,
  );
}

const listFolders = ({ directory, uuid }: TimedEngine): string[] =>
  [join(directory, "db", uuid), join(directory, "quarantine", uuid)].flatMap((path) =>
    existsSync(path) ? readdirSync(path) : [],
  );
const isRecordPut = (verb: string, key: string): boolean => verb === "put" && key.startsWith("copies/");

/** A writer with a key in object storage, and another node. */
async function pair(): Promise<{ time: VirtualTime; a: LeasedNode; b: LeasedNode }> {
  const time = sharedTime();
  const [a, b] = [new LeasedNode(time, "a", { nodeName: "alpha" }), new LeasedNode(time, "b")];
  await a.hold(1, 1e9);
  await a.put("first", "main", { durable: true });
  await b.renew(1e9);
  return { time, a, b };
}

describe("a copy", () => {
  test.each(["a new database", "one that is restored"])(
    "of %s is registered before its first file stands, once",
    async (which) => {
      const { time, b } = await pair();
      const node = which === "a new database" ? new LeasedNode(time, "c") : b;
      const target =
        which === "a new database" ? { uuid: "00000000-0000-4000-8000-0000000000aa", branch: "main" } : node.at("main");
      const directory = join(node.directory, "db", target.uuid);
      let seen: boolean | undefined;
      const { promise: gate, resolve: open } = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key): Fate => {
        if (!isRecordPut(verb, key)) return "fine";
        seen = existsSync(directory);
        return { held: gate };
      };
      const reading = node.client.read(target, "kv.list", { ns: "n" }, node.soon());
      await time.pass(500);
      expect(seen).toBe(false);
      expect(existsSync(directory)).toBe(false);
      open();
      await time.of(reading);
      time.store.decideFate = () => "fine";
      expect(readdirSync(directory)).toContain("main.db");
      await time.of(node.client.read(target, "kv.list", { ns: "n" }, node.soon()));
      expect(await listCopies(time, target.uuid)).toEqual(which === "a new database" ? ["c"] : ["a", "b"]);
    },
  );

  test("that cannot be registered is not made, and the call is told so", async () => {
    const { time, b } = await pair();
    time.store.decideFate = (verb, key): Fate => (isRecordPut(verb, key) ? "refused" : "fine");
    expect(await time.of(describeOutcome(b.keys()))).toBe("unavailable");
    expect(listFolders(b)).toEqual([]);
    time.store.decideFate = () => "fine";
    expect(await b.keys()).toEqual(["first"]);
    expect(await listCopies(time, b.uuid)).toEqual(["a", "b"]);
  });

  test("is begun from a manifest that was read after its registration", async () => {
    const { time, a, b } = await pair();
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const asked: string[] = [];
    time.store.decideFate = (verb, key): Fate => {
      if (verb === "get" && key.includes("/head/")) asked.push("head");
      if (verb === "get" && key.includes("/seg/")) asked.push("pages");
      if (!isRecordPut(verb, key)) return "fine";
      asked.push("registration");
      return { held: gate };
    };
    const reading = b.client.read(b.at("main"), "kv.list", { ns: "n" }, b.soon());
    await time.pass(100);
    asked.push("registered");
    open();
    expect((await time.of(reading)).value.keys).toEqual(["first"]);
    expect(asked.slice(asked.indexOf("registered"))).toContain("head");
    expect(asked.indexOf("pages") === -1 || asked.indexOf("pages") > asked.indexOf("registered")).toBe(true);
    expect(a.notices).toEqual([]);
  });

  test("is known to the next process by its files, and registered anew only when they are gone", async () => {
    const { time, b } = await pair();
    await b.keys();
    const again = new LeasedNode(time, "b", {}, b.directory);
    b.kill();
    expect(await again.keys()).toEqual(["first"]);
    expect(await listCopies(time, b.uuid)).toEqual(["a", "b"]);
  });

  test("a node that is alone registers nothing and asks for nothing", async () => {
    const { time } = await pair();
    let asked = 0;
    time.store.decideFate = (_verb, key): Fate => {
      if (key.startsWith("copies/")) asked++;
      return "fine";
    };
    const alone = new TimedEngine(time, { nodeId: "alone" });
    expect(await alone.keys()).toEqual(["first"]);
    expect(asked).toBe(0);
  });

  test("goes with a deleted database; the deletion's marker stays until the last node has said so", async () => {
    const { time, a, b } = await pair();
    await b.keys();
    const marker = `purges/${a.uuid}`;
    await time.store.calm.put(marker, Buffer.from("x"), { kind: "absent" });
    await time.of(a.client.deleteTarget(a.at("main"), a.soon()));
    expect(listFolders(a)).toEqual([]);
    expect(await listCopies(time, a.uuid)).toEqual([expect.stringMatching(/^a purged [1-9]/), "b"]);
    await time.pass(700_000);
    expect(time.store.keys("db/")).toEqual([]);
    expect(time.store.read(marker)).toBeDefined();
    await time.of(b.client.removeCopies(b.uuid, b.soon()));
    await time.pass(5_000_000);
    expect(time.store.keys("copies/")).toEqual([]);
    expect(time.store.read(marker)).toBeUndefined();
  });
});

describe("a purge of a node's copies", () => {
  test("removes every file, set aside or not, then says so; the next use fetches a copy anew", async () => {
    const { time, b } = await pair();
    await b.keys();
    const aside = join(b.directory, "quarantine", b.uuid);
    mkdirSync(aside, { recursive: true });
    writeFileSync(join(aside, "main-1-x.db"), "x");
    let files: string[] | undefined;
    time.store.watch = (key) => void (key.startsWith("copies/") && (files = listFolders(b)));
    await time.of(b.client.removeCopies(b.uuid, b.soon()));
    expect(files).toEqual([]);
    expect(await listCopies(time, b.uuid)).toEqual(["a", expect.stringMatching(/^b purged [2-9]/)]);
    expect(await b.keys()).toEqual(["first"]);
    expect(await listCopies(time, b.uuid)).toEqual(["a", expect.stringMatching(/^b purged/), "b"]);
  });

  test("does nothing to a database that the node writes, and says so", async () => {
    const { time, a } = await pair();
    expect(await time.of(a.client.removeCopies(a.uuid, a.soon()))).toBe(false);
    expect(await a.keys()).toEqual(["first"]);
    await a.releaseDatabase();
    expect(await time.of(a.client.removeCopies(a.uuid, a.soon()))).toBe(true);
    expect(listFolders(a)).toEqual([]);
  });

  test("F92: waits for a copy that is being renewed, removes what came of it; then begins anew", async () => {
    const { time, a, b } = await pair();
    await b.keys();
    for (let n = 0; n < 3; n++) {
      await time.of(a.putting(`more${n}`, "main", {}, noise(400_000, n)));
      await a.sync();
    }
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let fetching = 0;
    time.store.decideFate = (verb, key): Fate => {
      if (verb !== "get" || !key.includes("/seg/")) return "fine";
      fetching++;
      return { held: gate };
    };
    const applying = describeOutcome(b.client.read(b.at("main"), "kv.list", { ns: "n" }, b.soon({ minTxid: 4 })));
    await time.pass(200);
    expect(fetching).toBeGreaterThan(0);
    let isPurged = false;
    const purging = b.client.removeCopies(b.uuid, b.soon()).then(() => (isPurged = true));
    await time.pass(2_000);
    expect(isPurged).toBe(false);
    expect((await listCopies(time, b.uuid)).filter((copy) => copy.startsWith("b"))).toEqual(["b"]);
    open();
    await time.of(purging);
    await time.of(applying);
    time.store.decideFate = () => "fine";
    const copies = await listCopies(time, b.uuid);
    expect(copies.filter((copy) => copy.startsWith("b purged"))).toHaveLength(1);
    expect(await b.keys()).toEqual(["first", "more0", "more1", "more2"]);
    expect((await listCopies(time, b.uuid)).filter((copy) => copy === "b")).toHaveLength(1);
    expect(time.store.violations).toEqual([]);
  });

  test("leaves a record for whoever is about to make a file, and none for whoever only was", async () => {
    const time = sharedTime();
    const records = openRecords(time);
    const uuid = "00000000-0000-4000-8000-000000000001";
    const copies = new Copies({
      records,
      owner: { node: "a", name: "" },
      coordinated: true,
      databasesDirectory: join(temporaryDirectory(), "db"),
    });
    const { promise: made, resolve: make } = Promise.withResolvers<void>();
    const act = copies.making(uuid, async (registered) => {
      expect(await registered).toBe(true);
      await made;
    });
    await time.pass(10);
    await time.of(copies.purged(uuid, 1));
    expect(await listCopies(time, uuid)).toEqual(["a purged 1", "a"]);
    make();
    await time.of(act);
    await time.of(copies.purged(uuid, 2));
    expect(await listCopies(time, uuid)).toEqual(["a purged 1", "a purged 2"]);
    await time.of(copies.making(uuid, async (registered) => expect(await registered).toBe(true)));
    expect(await listCopies(time, uuid)).toEqual(["a purged 1", "a purged 2", "a"]);
    await time.of(copies.making(uuid, async (registered) => expect(await registered).toBe(false)));
    expect(await listCopies(time, uuid)).toHaveLength(3);
  });

  test("never ends with a file and no standing record, however reads, purges and faults mix", async () => {
    const { time, b } = await pair();
    const random = seeded(3);
    for (let round = 0; round < 60; round++) {
      time.store.decideFate = (_verb, key): Fate =>
        key.startsWith("copies/")
          ? (["fine", "fine", "refused", "answerLost", "requestLost"] as const)[Math.floor(random() * 5)]!
          : "fine";
      const acts = [
        describeOutcome(b.client.read(b.at("main"), "kv.list", { ns: "n" }, b.soon())),
        describeOutcome(b.client.removeCopies(b.uuid, b.soon())),
        describeOutcome(b.client.read(b.at("main"), "kv.list", { ns: "n" }, b.soon())),
      ];
      await time.of(Promise.all(round % 2 === 0 ? acts : acts.toReversed()));
      time.store.decideFate = () => "fine";
      const own = (await openRecords(time).list(b.uuid)).filter((record) => record.node === "b" && isStanding(record));
      if (listFolders(b).length > 0) expect(own.length, `round ${round}`).toBeGreaterThan(0);
    }
  });
});

describe("a disk from a time when its node was alone", () => {
  test("is registered before the node is one of several, once; and again after it was alone again", async () => {
    const time = sharedTime();
    const records = openRecords(time);
    const directory = temporaryDirectory();
    const databasesDirectory = join(directory, "db");
    const uuids = [
      "00000000-0000-4000-8000-000000000001",
      "00000000-0000-4000-8000-000000000002",
      "00000000-0000-4000-8000-000000000003",
    ] as const;
    for (const path of [
      join(databasesDirectory, uuids[0]),
      join(databasesDirectory, uuids[1]),
      join(directory, "quarantine", uuids[2]),
    ])
      mkdirSync(path, { recursive: true });
    writeFileSync(join(databasesDirectory, uuids[0], "main.db"), "x");
    writeFileSync(join(directory, "quarantine", uuids[2], "main.db"), "x");
    const owner = { node: "a", name: "alpha" };
    for (let starts = 0; starts < 2; starts++) await registerCopies({ records, owner, databasesDirectory });
    expect(await Promise.all(uuids.map(async (uuid) => (await records.list(uuid)).length))).toEqual([1, 0, 1]);
    unregisterCopies(databasesDirectory);
    writeFileSync(join(databasesDirectory, uuids[1], "main.db"), "x");
    await registerCopies({ records, owner, databasesDirectory });
    expect(await Promise.all(uuids.map(async (uuid) => (await records.list(uuid)).length))).toEqual([2, 1, 2]);
  });
});
