/** Timelines that cannot be kept short for a while: what goes on, what is refused, and how it ends by itself. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Disk } from "../../../../src/base/disk.ts";
import { limits } from "../../../../src/base/limits.ts";
import { decodeManifest, encodeManifest } from "../../../../src/format/history/manifest.ts";
import { manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { readState, writeState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import type { Fate, Verb } from "../../../support/scripted-store.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { splitTimeline } from "../../../support/split-timeline.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { timelineRefsHard, packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";
import { timelineRefsShipped } from "../../../../src/engine/shipping/shipper.ts";
import { compactorRetryMsMax } from "../../../../src/engine/compaction/compactor.ts";

/** A disk of which the scratch directory has no room while `isFull`; counts what it refused. */
class ScratchDisk implements Disk {
  isFull = true;
  refused = 0;

  write(descriptor: number, path: string, bytes: Uint8Array, position: number): number {
    if (!this.isFull || !path.includes("/scratch/")) return soundDisk.write(descriptor, path, bytes, position);
    this.refused++;
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  }

  fdatasync(descriptor: number, path: string): Promise<void> | undefined {
    return soundDisk.fdatasync(descriptor, path);
  }

  syncDirectory(path: string): Promise<void> {
    return soundDisk.syncDirectory(path);
  }
}

/** Reads of page data are refused: nothing can be packed, and no state restored. */
const noReads = (verb: Verb, key: string): Fate => (verb === "get" && key.includes("/seg/") ? "refused" : "fine");

/** Twelve megabytes of which three stay: a new base image is due. */
async function grow(node: TimedEngine): Promise<void> {
  for (let n = 0; n < 12; n++) {
    await node.time.of(node.putting(`big${n % 3}`, "main", {}, noise(512 * 1024, n + 1)));
    await node.time.pass(1_100);
  }
}

/** Standard writes, one shipped after the other. Gives those that were refused. */
async function write(
  node: TimedEngine,
  count: number,
  name = "s",
): Promise<{ code: string; message: string; detail: { retryAfterSecs?: number } }[]> {
  const refusals: { code: string; message: string; detail: { retryAfterSecs?: number } }[] = [];
  for (let n = 0; n < count; n++) {
    await node.put(`${name}${n}`).catch((error: (typeof refusals)[number]) => refusals.push(error));
    await node.time.pass(limits.shipIntervalMs + 10);
  }
  return refusals;
}

/** A node that has written so many groups and is stopped, its timeline in that many objects. */
async function longTimeline(time: VirtualTime, groups: number, refs: number): Promise<TimedEngine> {
  const node = new TimedEngine(time);
  // Nor does a new base image make the timeline short.
  time.store.decideFate = noReads;
  for (let n = 0; n < groups; n++) await node.time.of(node.putting(`k${n % 40}`, "main", {}, `${n}`));
  // All of it in objects, nothing in the manifest itself.
  await time.pass(3 * limits.shipIntervalMs);
  await node.close();
  await splitTimeline(time, node.uuid, refs);
  expect(time.manifest(node.uuid).refs).toHaveLength(refs);
  return node;
}

describe("a base image that cannot be made", () => {
  test("for want of room is tried ever more rarely and said once; with room it is made unasked", async () => {
    const time = new VirtualTime();
    const disk = new ScratchDisk();
    const node = new TimedEngine(time, { idleCloseMs: 1e12 }, temporaryDirectory(), time.store, disk);
    await node.put("k0");
    await grow(node);
    const before = disk.refused;
    expect(await write(node, 4 * packRefsMin)).toEqual([]);
    expect(disk.refused).toBeGreaterThan(0);
    expect(disk.refused - before).toBeLessThan(8);
    expect(node.notices.filter((notice) => notice.includes("base image"))).toEqual([
      "a new base image could not be made: ENOSPC; trying again",
    ]);
    expect(node.engine.state.packs).toBeGreaterThan(2);
    expect(time.manifest(node.uuid).refs.length).toBeLessThan(3 * packRefsMin);
    disk.isFull = false;
    // Nobody writes any more.
    await time.pass(2 * compactorRetryMsMax);
    expect(node.engine.state.rebases).toBe(1);
    expect(node.notices.filter((notice) => notice.includes("base image"))).toHaveLength(2);
    expect(node.notices).toContain("base images are made again");
  });

  test("for want of a scratch directory is made all the same: the directory is made anew", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { idleCloseMs: 1e12 });
    await node.put("k0");
    rmSync(join(node.directory, "scratch"), { recursive: true });
    await grow(node);
    expect(node.engine.state.rebases).toBeGreaterThan(0);
    expect(node.notices).toEqual([]);
  });

  test(
    "F73: packing goes on while one is made and hangs; it still fits when it is done",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      time.store.audit();
      const node = new TimedEngine(time, { idleCloseMs: 1e12 });
      const target = { uuid: uuidOf(2), branch: "main" };
      const putOther = (key: string): Promise<unknown> =>
        time.of(node.client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(key) }, node.soon()));
      await node.put("k0");
      await putOther("o");
      await node.sync();
      // The image of the first state comes so slowly that whoever restores waits for it.
      const [image] = time.manifest(node.uuid).refs;
      const gate = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key) =>
        verb === "get" && key.endsWith(image!.id) ? { held: gate.promise } : "fine";
      await grow(node);
      let most = 0;
      for (let n = 0; n < 100; n++) {
        await putOther(`s${n}`);
        await node.put(`s${n}`);
        await time.pass(limits.shipIntervalMs + 10);
        most = Math.max(most, time.manifest(node.uuid).refs.length, time.manifest(target.uuid).refs.length);
      }
      expect(node.engine.state.rebases).toBe(0);
      expect(most).toBeLessThan(4 * packRefsMin);
      const { refs } = time.manifest(node.uuid);
      gate.resolve();
      await time.pass(5_000);
      expect(node.engine.state.rebases).toBe(1);
      expect(time.manifest(node.uuid).refs.length).toBeLessThan(refs.length);
      expect(time.history(node.uuid).timelines).toHaveLength(1);
      expect(time.store.violations).toEqual([]);
      expect(await (await node.again(true)).keys()).toHaveLength(1 + 3 + 100);
    },
  );
});

describe("a timeline that is full", () => {
  test(
    "refuses writes and says why, ships what was committed, and takes writes again by itself once it can be packed",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      const { directory, uuid } = await longTimeline(time, 960, 940);
      const node = new TimedEngine(time, { idleCloseMs: 1e12 }, directory);
      const refusals = await write(node, 40);
      expect(refusals.length).toBeGreaterThan(10);
      expect(refusals.length).toBeLessThan(30);
      for (const { code, message, detail } of refusals) {
        expect(code).toBe("overloaded");
        expect(message).toContain("history must be packed first");
        expect(detail.retryAfterSecs).toBeGreaterThan(0);
      }
      // What was taken is covered: there is room for it.
      await node.sync();
      expect(time.manifest(uuid).refs.length).toBeLessThan(timelineRefsShipped);
      expect(await node.keys()).toHaveLength(40 + 40 - refusals.length);
      const tries = time.store.count("get", "seg");
      await time.pass(300_000);
      // Pack and image are each asked for about once a minute.
      expect(time.store.count("get", "seg") - tries).toBeLessThan(20 * limits.restoreFetchesMax);
      expect(node.notices.filter((notice) => notice.startsWith("history could not be packed"))).toHaveLength(1);
      time.store.decideFate = () => "fine";
      await time.pass(2 * compactorRetryMsMax);
      expect(time.manifest(uuid).refs.length).toBeLessThan(packRefsMin);
      expect(await write(node, 3, "again")).toEqual([]);
      expect(node.notices).toContain("history is packed again");
      await node.branch({ act: "rewind", to: "500" });
      expect(await (await node.again(true)).keys()).toHaveLength(40);
    },
  );

  test("is packed when the branch is opened, also after a restart in that state", { timeout: 60_000 }, async () => {
    const time = new VirtualTime();
    const { directory, uuid } = await longTimeline(time, 1_000, 980);
    let node = new TimedEngine(time, {}, directory);
    await expect(node.put("a", "main", { durable: true })).resolves.toBeDefined();
    await expect(node.put("b", "main", { durable: true })).rejects.toMatchObject({ code: "overloaded" });
    node.kill();
    time.store.decideFate = () => "fine";
    node = new TimedEngine(time, {}, directory);
    // Nobody writes: that it is opened is enough.
    expect(await node.keys()).toHaveLength(41);
    await time.pass(2_000);
    expect(time.manifest(uuid).refs.length).toBeLessThan(packRefsMin);
    await node.put("c", "main", { durable: true });
  });

  test(
    "with all the references a manifest holds, from an older build, ships its log once packed",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      const first = new TimedEngine(time);
      time.store.decideFate = noReads;
      for (let n = 0; n < 1_050; n++) await time.of(first.putting(`k${n % 40}`, "main", {}, `${n}`));
      await time.pass(3 * limits.shipIntervalMs);
      time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
      for (let n = 0; n < 3; n++) await first.put(`late${n}`);
      first.kill();
      await splitTimeline(time, first.uuid, limits.timelineRefsMax);
      expect(time.manifest(first.uuid).refs).toHaveLength(limits.timelineRefsMax);
      time.store.decideFate = noReads;
      let node = new TimedEngine(time, { idleCloseMs: 1e12 }, first.directory);
      expect(await node.keys()).toHaveLength(43);
      await time.pass(120_000);
      expect(time.manifest(node.uuid).refs).toHaveLength(limits.timelineRefsMax);
      time.store.decideFate = () => "fine";
      await time.pass(2 * compactorRetryMsMax);
      expect(time.manifest(node.uuid).refs.length).toBeLessThan(packRefsMin);
      await node.put("on", "main", { durable: true });
      node = await node.again(true);
      expect(await node.keys()).toHaveLength(44);
    },
  );

  test(
    "with all the references that a manifest has room for, and a log that is lost, is packed before it opens",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      const { directory, uuid } = await longTimeline(time, 1_050, limits.timelineRefsMax);
      // As by a node that died: what it had reserved, it has not given back.
      time.store.spoil(manifestKey(uuid, "main"), (bytes) =>
        encodeManifest({ ...decodeManifest(bytes), reservedTo: 2_000 }),
      );
      const path = join(directory, "db", uuid, "main.db");
      const file = new Connection(path, { readonly: false, pageCacheKiB: 1024 });
      const { writerEpochId } = readState(file);
      file.run("BEGIN");
      writeState(file, { txid: 1_051, committedAtMs: Date.UTC(2030, 0, 2), writerEpochId: writerEpochId! });
      file.run("COMMIT");
      file.raw.pragma("wal_checkpoint(TRUNCATE)");
      file.close();
      time.store.decideFate = () => "fine";
      const node = new TimedEngine(time, {}, directory);
      expect(await node.keys()).toHaveLength(40);
      expect(time.manifest(uuid)).toMatchObject({ txid: 1_051 });
      await node.put("on", "main", { durable: true });
    },
  );

  test(
    "refuses a rewind to as many objects as a branch may have, and takes it once they are packed",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      const { directory } = await longTimeline(time, 1_050, limits.timelineRefsMax);
      const gate = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key) =>
        verb === "put" && key.includes("/seg/") ? { held: gate.promise } : "fine";
      const node = new TimedEngine(time, {}, directory);
      await expect(node.branch({ act: "rewind", to: "1050" })).rejects.toMatchObject({
        code: "overloaded",
        message: expect.stringContaining("packed first") as string,
      });
      gate.resolve();
      time.store.decideFate = () => "fine";
      await time.pass(2_000);
      expect(await node.branch({ act: "rewind", to: "1049" })).toMatchObject({ rewoundTo: 1_049 });
    },
  );

  test(
    "of another branch's objects, as a fork has it, is packed when the fork is opened",
    { timeout: 60_000 },
    async () => {
      const time = new VirtualTime();
      time.store.audit();
      const { directory, uuid } = await longTimeline(time, 1_000, 980);
      const gate = Promise.withResolvers<void>();
      time.store.decideFate = (verb, key) =>
        verb === "put" && key.includes("/seg/") ? { held: gate.promise } : "fine";
      const node = new TimedEngine(time, {}, directory);
      await node.branch({ act: "fork", name: "child", at: "990" });
      const { id } = time.catalog(uuid).branches.find(({ name }) => name === "child")!;
      expect(time.manifest(uuid, id).refs.length).toBeGreaterThan(timelineRefsHard);
      expect(time.manifest(uuid, id).refs.at(-1)!.lastTxid).toBe(990);
      gate.resolve();
      time.store.decideFate = () => "fine";
      expect(await node.keys("child")).toHaveLength(40);
      await time.pass(2_000);
      expect(time.manifest(uuid, id).refs.length).toBeLessThan(packRefsMin);
      await node.put("new", "child", { durable: true });
      node.kill();
      const elsewhere = new TimedEngine(time, { nodeId: "elsewhere" });
      expect(await elsewhere.keys("child")).toHaveLength(41);
      expect(time.store.violations).toEqual([]);
    },
  );
});
