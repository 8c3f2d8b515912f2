/** Copies when things change under them: objects that are packed and collected, crashes, branches that go. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { manifestKey, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { describeOutcome } from "../../../support/leased-node.ts";
import { ReplicaNode } from "../../../support/replica-node.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise } from "../../../support/timed-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";
import { followIdleMs, followLookMsMin } from "../../../../src/engine/replica/manifest-watcher.ts";
import { manifestsTriedMax } from "../../../../src/engine/opening/branch-opening.ts";
import { idleCloseMs } from "../../../../src/server/config/settings.ts";
import { collectAfterMs } from "../../../../src/engine/maintenance/background-jobs.ts";
import { durable, pair, shipMany, pin, unpin, setAside } from "../../../support/followed-writer.ts";

describe("objects", () => {
  test("replica-stream-2, F80: across packs and collection it reaches the last value without the base", async () => {
    const { time, writer, replica } = await pair({ gcGraceMs: 1_000 });
    await writer.sql(["CREATE TABLE ballast (n INTEGER PRIMARY KEY, text TEXT)"]);
    for (let n = 0; n < 12; n++) await writer.sql([`INSERT INTO ballast VALUES (${n}, '${noise(500_000, n)}')`]);
    await shipMany(writer, 1);
    // Nothing follows while it skips manifests.
    await replica.list();
    const base = readdirSync(join(replica.directory, "db", writer.uuid));
    await time.pass(followIdleMs + idleCloseMs + 5_000);
    const before = time.manifest(writer.uuid);
    await shipMany(writer, 40, 60_000, "later");
    await time.pass(collectAfterMs * 4);
    const now = time.manifest(writer.uuid);
    expect(now.refs.filter(({ kind }) => kind === "image")).toEqual(before.refs.filter(({ kind }) => kind === "image"));
    expect(now.refs.length).toBeLessThan(40);
    expect(before.refs.length).toBeGreaterThan(0);
    replica.seen.forget();
    const { txid } = await replica.read("kv.get", { ns: "n", key: "later 039" });
    expect(txid).toBe(now.txid);
    const bytes = replica.seen.of("seg").reduce((sum, got) => sum + got.bytes, 0);
    const images = new Set(
      now.refs.filter(({ kind }) => kind === "image").map(({ id }) => segmentKey(writer.uuid, id)),
    );
    expect(replica.seen.of("seg").filter(({ key }) => images.has(key))).toEqual([]);
    expect(bytes).toBeLessThan((now.pages * 4_096) / 2);
    expect(readdirSync(join(replica.directory, "db", writer.uuid)).filter((name) => name.endsWith(".db"))).toEqual(
      base.filter((name) => name.endsWith(".db")),
    );
    expect(replica.integrity()).toBe("ok");
  });

  test("F80: what is collected while it is fetched is looked for in the newest manifest, not for ever", async () => {
    const { time, writer, replica } = await pair();
    await shipMany(writer, 3);
    const key = manifestKey(writer.uuid, "main");
    const old = time.store.read(key)!;
    await shipMany(writer, 2 * packRefsMin, 60_000, "later");
    await time.pass(5_000);
    const kept = new Set(time.manifest(writer.uuid).refs.map(({ id }) => segmentKey(writer.uuid, id)));
    const gone = time.store.keys(`db/${writer.uuid}/seg/`).filter((object) => !kept.has(object));
    expect(gone.length).toBeGreaterThan(3);
    for (const object of gone) await time.store.calm.delete(object);
    let answers = 0;
    // Read when the file is registered, and once more after that.
    replica.seen.between = (asked, found) => (asked === key && ++answers <= 2 ? old : found);
    expect((await replica.list()).length).toBe(4 + 2 * packRefsMin);
    expect(replica.integrity()).toBe("ok");

    // With nothing newer to be had, it is a fault that an operator sees.
    const other = new ReplicaNode(time);
    other.seen.between = (asked, found) => (asked === key ? old : found);
    expect(await describeOutcome(time.of(other.listing()))).toBe("unavailable");
    expect(other.seen.of("head").length).toBeLessThanOrEqual(manifestsTriedMax + 2);
  });

  test("an exchange that fails leaves the old copy in service, tells of it once and succeeds later", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await shipMany(writer, 2);
    replica.seen.between = (asked, found) => (asked.includes("/seg/") ? undefined : found);
    for (let round = 0; round < 30; round++) {
      expect(await replica.list()).toEqual(["first"]);
      await time.pass(500);
    }
    expect(replica.notices.filter((notice) => notice.includes("is missing"))).toHaveLength(1);
    // Later and later.
    expect(replica.seen.of("seg").length).toBeLessThan(30);
    replica.seen.between = undefined;
    await time.pass(30_000);
    expect((await replica.list()).length).toBe(3);
    expect(setAside(replica)).toEqual([]);
    expect(replica.integrity()).toBe("ok");
  });

  test("F79: a process that dies while its copy is laid leaves a mixture that answers nobody", async () => {
    const { time, writer } = await pair();
    let hangs = false;
    const disk = {
      ...soundDisk,
      fdatasync: async (_: number, path: string) =>
        hangs && path.endsWith(".db") ? new Promise<void>(() => {}) : undefined,
    };
    const replica = new ReplicaNode(time, {}, temporaryDirectory(), disk);
    await replica.list();
    await shipMany(writer, 2);
    hangs = true;
    await time.pass(1_000);
    expect(existsSync(`${replica.path()}.patching`)).toBe(true);
    const waiting = describeOutcome(replica.listing());
    await time.pass(5_000);
    const again = replica.restarted();
    expect((await again.list()).length).toBe(3);
    expect(existsSync(`${again.path()}.patching`)).toBe(false);
    expect(again.integrity()).toBe("ok");
    void waiting;
  });

  test("F83: vectors are searched in the state that is answered from, before and after an exchange", async () => {
    const { time, writer, replica } = await pair();
    const upsert = (id: string, angle: number): Promise<unknown> =>
      time.of(
        writer.client.write(
          writer.at("main"),
          "vector.upsert",
          { collection: "v", id, embedding: Float32Array.of(Math.cos(angle), Math.sin(angle)) },
          writer.soon(durable),
        ),
      );
    const nearest = async (minTxid: number): Promise<readonly string[]> =>
      (
        await replica.read("vector.search", { collection: "v", vector: Float32Array.of(1, 0), k: 2 }, { minTxid })
      ).value.hits.map(({ id }) => id);
    await upsert("far", 2);
    await upsert("near", 0.5);
    expect(await nearest(3)).toEqual(["near", "far"]);
    await upsert("nearer", 0.1);
    await upsert("near", 3);
    expect(await nearest(5)).toEqual(["nearer", "far"]);
  });
});

describe("branches", () => {
  test("a branch that the writer has made is found, its end is followed, and so is another of its name", async () => {
    const { time, writer, replica } = await pair();
    expect(await describeOutcome(time.of(replica.listing({}, "dev")))).toBe("branch_not_found");
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of dev", "dev", durable);
    await time.pass(followLookMsMin);
    expect(await replica.list({}, "dev")).toEqual(["first", "of dev"]);
    const { id } = time.catalog(writer.uuid).branches.find(({ name }) => name === "dev")!;
    await writer.branch({ act: "delete", name: "dev" });
    await time.pass(1_000);
    expect(await describeOutcome(time.of(replica.listing({}, "dev")))).toBe("branch_not_found");
    expect(existsSync(replica.path(id))).toBe(false);
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of another", "dev", durable);
    await time.pass(1_000);
    expect(await replica.list({}, "dev")).toEqual(["first", "of another"]);
    // Between two looks too.
    await writer.branch({ act: "delete", name: "dev" });
    await writer.branch({ act: "fork", name: "dev" });
    await time.pass(1_000);
    expect(await replica.list({}, "dev")).toEqual(["first"]);
    expect(await replica.list()).toEqual(["first"]);
  });

  test("a branch of another's name is never answered for it, however long somebody reads the old one", async () => {
    const { time, writer, replica } = await pair();
    await writer.branch({ act: "fork", name: "dev" });
    await writer.put("of dev", "dev", durable);
    expect(await replica.list({}, "dev")).toEqual(["first", "of dev"]);
    replica.engine.receive([{ ...pin, target: replica.at("dev") }]);
    await time.pass(10);
    await writer.branch({ act: "delete", name: "dev" });
    await writer.branch({ act: "fork", name: "dev" });
    await time.pass(1_000);
    const [plain, cached] = [replica.listing({}, "dev"), replica.listing({ consistency: "cached" }, "dev")];
    await time.pass(1_000);
    replica.engine.receive([{ ...unpin, target: replica.at("dev") }]);
    expect(await time.of(Promise.all([plain, cached]))).toEqual([["first"], ["first"]]);
  });

  test("an expired branch is not found, whether or not anybody has removed it", async () => {
    const { time, writer, replica } = await pair();
    await writer.branch({ act: "fork", name: "burner", ttlSecs: 30 });
    expect(await replica.list({}, "burner")).toEqual(["first"]);
    writer.kill();
    await time.pass(31_000);
    expect(await describeOutcome(time.of(replica.listing({}, "burner")))).toBe("branch_not_found");
    expect(await describeOutcome(time.of(replica.listing({ consistency: "cached" }, "burner")))).toBe(
      "branch_not_found",
    );
  });

  test("F68: a rewind is followed, and releases who waits for it", async () => {
    const { time, writer, replica } = await pair();
    await writer.put("second", "main", durable);
    await replica.list();
    const { txid } = await writer.branch({ act: "rewind", to: "1" });
    expect(await replica.list({ minTxid: txid })).toEqual(["first"]);
    await writer.put("third", "main", durable);
    await time.pass(1_000);
    expect(await replica.list()).toEqual(["first", "third"]);
    expect(replica.integrity()).toBe("ok");
  });

  test("F76: a deleted database is not found, and its files go", async () => {
    const { time, writer, replica } = await pair();
    await replica.list();
    await time.of(writer.client.deleteTarget(writer.at("main"), writer.soon()));
    await time.pass(1_000);
    expect(await describeOutcome(time.of(replica.listing()))).toBe("database_not_found");
    expect(await describeOutcome(time.of(replica.listing({ consistency: "cached" })))).toBe("database_not_found");
    expect(readdirSync(join(replica.directory, "db"))).toEqual([]);
  });

  test("F76: one that was purged since anybody looked is not found either", async () => {
    const { time, writer, replica } = await pair({ gcGraceMs: 1 });
    await replica.list();
    replica.engine.receive([{ ...pin, target: replica.at("main") }]);
    await time.pass(followIdleMs * 3);
    // The replica has not said that its copy is purged, so the marker stays.
    await time.noteDeletion(writer.uuid);
    await time.of(writer.client.deleteTarget(writer.at("main"), writer.soon()));
    await time.pass(10_000);
    expect(time.store.keys(`db/${writer.uuid}/`)).toEqual([]);
    expect(await describeOutcome(time.of(replica.listing()))).toBe("database_not_found");
  });
});
