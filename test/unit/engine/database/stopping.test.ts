/** What an orderly end leaves in object storage, and what a start finds and removes of a disorderly one. */
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { removeLeftovers } from "../../../../src/engine/local/database-files.ts";
import { computeLane } from "../../../../src/engine/api/protocol.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { listKeys, kill, putAll, start } from "../../../support/mortal-node.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

const other = { nodeId: "another-disk" };

describe("transaction ids that were reserved and never used", () => {
  test(
    "are given back by a clean stop: a node without the disk goes on without a gap, and nothing counts as " + "lost",
    async () => {
      const time = new VirtualTime();
      time.store.audit();
      const node = start(time);
      const txid = await putAll(node, listKeys(1, 3));
      await node.branch({ act: "fork", name: "dev" });
      const onBranch = await node.put("own", "dev");
      const manifestKeys = time.store.keys().filter((key) => key.includes("/head/"));
      expect(manifestKeys).toHaveLength(2);
      await node.close();
      for (const id of manifestKeys.map((key) => key.split("/").at(-1)!)) {
        const { reservedTo, txid: covered } = time.manifest(node.uuid, id);
        expect(reservedTo, id).toBe(covered);
      }
      const next = start(time, other);
      expect((await next.put("k4")).txid).toBe(txid + 1);
      expect((await next.put("more", "dev")).txid).toBe(onBranch.txid + 1);
      expect(await next.keys()).toEqual(listKeys(1, 4));
      expect(time.manifest(node.uuid).lost).toEqual([]);
      expect(time.manifest(node.uuid).reservedTo).toBeGreaterThan(limits.txidReserve);
      expect(time.store.violations).toEqual([]);
    },
  );

  test("are given back for branches that were closed long before", async () => {
    const time = new VirtualTime();
    const node = start(time, { idleCloseMs: 1_000 });
    await node.put("k1");
    await node.sync();
    await time.pass(10_000);
    expect([...readdirSync(join(node.directory, "db", node.uuid))]).toEqual(["main.db"]);
    expect(time.manifest(node.uuid).reservedTo).toBeGreaterThan(1);
    await node.close();
    expect(time.manifest(node.uuid)).toMatchObject({ txid: 1, reservedTo: 1 });
  });

  test(
    "are never given back where a writer before may have used them: a claim that committed nothing keeps " + "its gap",
    async () => {
      const time = new VirtualTime();
      time.store.audit();
      const node = start(time);
      const txid = await putAll(node, listKeys(1, 3));
      await node.sync();
      kill(node);
      const next = start(time, other);
      await next.branch({ act: "fork", name: "dev" });
      const { lost } = time.manifest(node.uuid);
      expect(lost).toMatchObject([{ firstTxid: txid + 1 }]);
      await next.close();
      const third = start(time, { nodeId: "a-third-disk" });
      const { txid: given } = await third.put("k4", "main", { durable: true });
      expect(given).toBeGreaterThan(lost[0]!.lastTxid);
      const seen = third.client.read(
        third.at("main"),
        "kv.list",
        { ns: "n", limit: 10 },
        third.soon({ minTxid: given }),
      );
      expect((await time.of(seen)).value.keys).toEqual(listKeys(1, 4));
      expect(time.store.violations).toEqual([]);
    },
  );

  test("stay reserved when the process dies: what it may have acknowledged lies in the gap", async () => {
    const time = new VirtualTime();
    const node = start(time);
    const txid = await putAll(node, listKeys(1, 3));
    await node.sync();
    kill(node);
    const next = start(time, other);
    expect((await next.put("k4")).txid).toBeGreaterThan(limits.txidReserve);
    expect(time.manifest(node.uuid).lost).toMatchObject([{ firstTxid: txid + 1 }]);
  });

  test("stay reserved while the log holds what is not shipped; the node that has it goes on behind", async () => {
    const time = new VirtualTime();
    time.store.audit();
    const node = start(time);
    await node.put("k1");
    await node.sync();
    time.store.decideFate = (verb, key) => (verb === "put" && key.includes("/seg/") ? "refused" : "fine");
    const { txid } = await time.of(node.putting("k2", "main", {}, noise(2 * limits.tailBytesMax)));
    await node.close();
    expect(time.manifest(node.uuid).txid).toBeLessThan(txid);
    expect(time.manifest(node.uuid).reservedTo).toBeGreaterThanOrEqual(limits.txidReserve);
    time.store.decideFate = () => "fine";
    const again = start(time, {}, node.directory);
    expect((await again.put("k3")).txid).toBe(txid + 1);
    await again.sync();
    expect(await again.keys()).toEqual(listKeys(1, 3));
    expect(time.store.violations).toEqual([]);
  });

  test(
    "stay reserved for a write that was let in before the stop and that nobody could ship, with time left " + "or not",
    async () => {
      const time = new VirtualTime();
      const first = start(time);
      await first.put("k1");
      await first.close();
      const node = start(time, {}, first.directory);
      const gate = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key) =>
        verb === "get" && key.includes("/head/")
          ? { held: gate.promise }
          : verb === "put" && key.includes("/seg/")
            ? "refused"
            : "fine";
      const writing = node.putting("k2", "main", {}, noise(2 * limits.tailBytesMax));
      await time.pass(100);
      const closing = node.client.close();
      await time.pass(100);
      gate.resolve();
      const { txid } = await time.of(writing);
      expect(txid).toBe(2);
      const startedMs = time.scheduler.nowMs;
      await time.of(closing);
      expect(time.scheduler.nowMs - startedMs).toBeLessThan(limits.lastShipMs / 2);
      expect(time.manifest(node.uuid)).toMatchObject({ txid: 1, reservedTo: txid - 1 + limits.txidReserve });
    },
  );

  test("of a branch that another node has claimed are that node's", async () => {
    const time = new VirtualTime();
    time.store.audit();
    const node = start(time);
    await node.put("k1");
    await node.sync();
    const next = start(time, other);
    await next.put("k2");
    const { seq } = time.manifest(node.uuid);
    await node.close();
    expect(time.manifest(node.uuid)).toMatchObject({ seq, node: other.nodeId });
    const { txid } = await next.put("k3");
    expect(await next.sync()).toMatchObject({ durableTxid: txid });
    expect(time.store.violations).toEqual([]);
  });

  test.each(["requestLost", "answerLost", "held"] as const)(
    "do not hold up a stop when the put of a manifest is %s",
    async (fate) => {
      const time = new VirtualTime();
      time.store.audit();
      const node = start(time);
      await node.put("k1");
      await node.sync();
      const gate = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key) =>
        verb === "put" && key.includes("/head/") ? (fate === "held" ? { held: gate.promise } : fate) : "fine";
      const startedMs = time.scheduler.nowMs;
      await node.close();
      expect(time.scheduler.nowMs - startedMs).toBeLessThanOrEqual(limits.lastShipMs + 100);
      gate.resolve();
      time.store.decideFate = () => "fine";
      const again = start(time, {}, node.directory);
      expect((await again.put("k2")).txid).toBe(2);
      expect(await again.keys()).toEqual(listKeys(1, 2));
      expect(time.store.violations).toEqual([]);
    },
  );

  test("are no business of a node that ships nothing", async () => {
    const time = new VirtualTime();
    const node = start(time, { shipping: false });
    await node.put("k1");
    const before = time.store.count("put");
    await node.close();
    expect(time.store.count("put")).toBe(before);
  });
});

describe("files that a crash has left half made", () => {
  const ulid = "01J0000000000000000000000A";
  const leftovers = ["", "-wal", "-shm", ".restoring"].map((suffix) => `main.db.${ulid}.tmp${suffix}`);
  const ofUse = [
    "main.db",
    "main.db-wal",
    "main.db-shm",
    "main.db.restored",
    "main.db.patching",
    `${ulid}.db`,
    "main.db.tmp",
    `main.db.${ulid}.tmp.kept`,
  ];

  function fill(directory: string, uuid: string): string {
    const folder = join(directory, "db", uuid);
    mkdirSync(folder, { recursive: true });
    for (const name of [...leftovers, ...ofUse]) writeFileSync(join(folder, name), "");
    return folder;
  }

  test("go, and nothing else does", () => {
    const directory = temporaryDirectory();
    const folder = fill(directory, uuidOf(1));
    removeLeftovers(join(directory, "db"), uuidOf(1));
    expect(readdirSync(folder).sort()).toEqual([...ofUse].sort());
    removeLeftovers(join(directory, "db"), uuidOf(2));
  });

  test("go when a thread starts, of its own databases only", () => {
    const directory = temporaryDirectory();
    const uuids = Array.from({ length: 20 }, (_, index) => uuidOf(index + 1));
    const folders = new Map(uuids.map((uuid) => [uuid, fill(directory, uuid)]));
    const lanes = 2;
    expect(new Set(uuids.map((uuid) => computeLane(uuid, lanes)))).toEqual(new Set([0, 1]));
    new TimedEngine(new VirtualTime(), { lane: 1, lanes, shipping: false }, directory);
    for (const [uuid, folder] of folders)
      expect(existsSync(join(folder, leftovers[0]!)), uuid).toBe(computeLane(uuid, lanes) !== 1);
  });

  test("by a death in the middle of a restore go with the next start, which restores anew", async () => {
    const time = new VirtualTime();
    const first = start(time);
    await putAll(first, listKeys(1, 3));
    await first.close();
    const dying = start(time, other);
    const left = temporaryDirectory();
    const names = (directory: string): string[] => readdirSync(join(directory, "db", first.uuid));
    dying.world.atCrashPoint = (name) => {
      if (name !== "restored") return;
      cpSync(dying.directory, left, { recursive: true });
      kill(dying);
    };
    dying.client.read(dying.at("main"), "kv.list", { ns: "n" }, dying.soon()).catch(() => {});
    await time.pass(1_000);
    expect(names(left).some((name) => name.endsWith(".tmp"))).toBe(true);
    const next = start(time, other, left);
    expect(names(left).some((name) => name.includes(".tmp"))).toBe(false);
    expect(await next.keys()).toEqual(listKeys(1, 3));
  });
});
