/**
 * What becomes of a local file that is not what object storage says: what may be all there is of a write is kept, and
 * told.
 */
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { listQuarantine } from "../../../../src/engine/local/quarantine.ts";
import { listKeys, kill, putAll, start, withUnshipped, allowAll } from "../../../support/mortal-node.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { seenNotedMs } from "../../../../src/engine/local/seen-manifests.ts";
import { listAside } from "../../../support/set-aside.ts";

/** As many claims of other nodes, each with a write, until the last of them ends. */
async function makeClaims(time: VirtualTime, count: number): Promise<void> {
  let other = new TimedEngine(time, { nodeId: "other" });
  for (let n = 0; n < count; n++) {
    await other.put(`b${n}`);
    other = await other.again();
  }
  await other.close();
}

describe("writes that were acknowledged and not shipped", () => {
  test.each([1, 15, 16, 17, 40])(
    "are set aside, never thrown away, when others have claimed the branch %i times since",
    async (claims) => {
      const time = new VirtualTime();
      const node = await withUnshipped(time, { nodeId: "a" });
      kill(node);
      allowAll(time.store);
      await makeClaims(time, claims);
      const back = start(time, { nodeId: "a" }, node.directory);
      await back.put("hello");
      expect(listAside(back)).toMatchObject([
        {
          uuid: node.uuid,
          isMoving: false,
          keys: listKeys(1, 8),
          label: {
            branchId: "main",
            txid: 8,
            tenure: expect.stringMatching(/^[0-9a-f]{32}$/),
            manifest: { epoch: expect.any(Number) },
            atMs: expect.any(Number),
          },
        },
      ]);
      const { label } = listAside(back)[0]!;
      expect(back.notices.join("\n")).toContain(`branch main was set aside under quarantine/${node.uuid}/main-8-`);
      expect(back.notices.join("\n")).toContain(label!.why);
      expect(back.engine.state.alarms).toEqual({ quarantined: 1, lost: 0, wentBack: 0 });
      expect(back.client.alarms).toEqual({ quarantined: 1, lost: 0, wentBack: 0 });
      // The next process knows of it as well, until somebody has removed it.
      const again = await back.again();
      expect(again.client.alarms.quarantined).toBe(1);
      rmSync(join(node.directory, "quarantine"), { recursive: true });
      expect(again.engine.state.alarms.quarantined).toBe(0);
    },
  );

  test.each([1, 40])(
    "leave nothing behind when all of it was shipped, however often others have claimed the branch (%i times)",
    async (claims) => {
      const time = new VirtualTime();
      const node = start(time, { nodeId: "a" });
      await putAll(node, listKeys(1, 3));
      await node.sync();
      await putAll(node, listKeys(4, 5));
      await node.close();
      await makeClaims(time, claims);
      const back = start(time, { nodeId: "a" }, node.directory);
      expect((await back.keys()).length).toBe(5 + claims);
      expect(listQuarantine(back.directory)).toEqual([]);
    },
  );

  test("leave nothing behind when the node died after it had shipped all of it, and some time had passed", async () => {
    const time = new VirtualTime();
    const node = start(time, { nodeId: "a", idleCloseMs: 1e12 });
    await putAll(node, listKeys(1, 3));
    await time.pass(seenNotedMs + 5_000);
    await putAll(node, listKeys(4, 5));
    await node.sync();
    await time.pass(seenNotedMs + 5_000);
    kill(node);
    await makeClaims(time, 20);
    const back = start(time, { nodeId: "a" }, node.directory);
    expect((await back.keys()).length).toBe(25);
    expect(listQuarantine(back.directory)).toEqual([]);
  });

  test("of a fork of an old state whose claim is no longer listed are none: its copy is used", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a", pitrMs: 1e12 });
    await node.put("k1");
    await node.branch({ act: "checkpoint", name: "early" });
    await node.close();
    await makeClaims(time, 20);
    const back = new TimedEngine(time, { nodeId: "a", idleCloseMs: 1_000, pitrMs: 1e12 });
    await back.branch({ act: "fork", name: "x", at: "early" });
    for (let round = 0; round < 3; round++) {
      expect(await back.keys("x")).toEqual(["k1"]);
      await time.pass(10_000);
    }
    const gets = time.store.count("get", "seg");
    expect(await back.keys("x")).toEqual(["k1"]);
    expect(time.store.count("get", "seg")).toBe(gets);
    await back.put("own", "x", { durable: true });
    await time.pass(10_000);
    expect(await (await back.again()).keys("x")).toEqual(["k1", "own"]);
    expect(listQuarantine(back.directory)).toEqual([]);
  });
});

describe("a move that is cut short", () => {
  /** A node that is to set a file with a log aside. */
  async function orphaned(): Promise<{ time: VirtualTime; directory: string }> {
    const time = new VirtualTime();
    const node = await withUnshipped(time, { nodeId: "a" });
    kill(node);
    allowAll(time.store);
    await makeClaims(time, 1);
    return { time, directory: node.directory };
  }

  /** A log that cannot be folded in when the file is closed stays beside it: a reader holds it. */
  test.each([1, 2, 3, 4])(
    "by a death at step %i is finished by the next start: nothing of it is lost, and it is told once",
    async (step) => {
      const { time, directory } = await orphaned();
      const reader = new Sqlite(join(directory, "db", "00000000-0000-4000-8000-000000000001", "main.db"), {
        readonly: true,
      });
      reader.prepare("BEGIN").run();
      reader.prepare("SELECT count(*) FROM __service_kv").get();
      const left = temporaryDirectory();
      const dying = start(time, { nodeId: "a" }, directory);
      let seen = 0;
      dying.world.atCrashPoint = (name) => {
        if (name !== "set-aside" || ++seen !== step) return;
        cpSync(directory, left, { recursive: true });
        kill(dying);
      };
      dying.client.read(dying.at("main"), "kv.list", { ns: "n" }, dying.soon()).catch(() => {});
      await time.pass(1_000);
      reader.close();
      expect(seen).toBeGreaterThanOrEqual(step);
      const next = start(time, { nodeId: "a" }, left);
      expect(await next.keys()).toEqual(["b0", ...listKeys(1, 3)]);
      expect(listAside(next)).toMatchObject([{ isMoving: false, keys: listKeys(1, 8), label: { txid: 8 } }]);
      expect(next.client.alarms.quarantined).toBe(1);
      await next.put("goes on", "main", { durable: true });
      const after = await next.again();
      expect(await after.keys()).toHaveLength(5);
      expect(listAside(after)).toHaveLength(1);
    },
  );

  test("by a disk that fails is finished when the branch is opened next", async () => {
    const { time, directory } = await orphaned();
    for (let failing = 1; failing <= 5; failing++) {
      const copy = temporaryDirectory();
      cpSync(directory, copy, { recursive: true });
      let syncs = 0;
      const disk = {
        ...soundDisk,
        syncDirectory: async (path: string) => {
          if (path.includes("quarantine") && ++syncs === failing)
            throw Object.assign(new Error("simulated: fsync failed"), { code: "EIO" });
        },
      };
      const node = new TimedEngine(time, { nodeId: "a" }, copy, time.store, disk);
      await node.keys().catch(() => {});
      expect(await node.keys(), `sync ${failing}`).toEqual(["b0", ...listKeys(1, 3)]);
      expect(listAside(node), `sync ${failing}`).toMatchObject([{ isMoving: false, keys: listKeys(1, 8) }]);
      node.kill();
    }
  });

  test("and whose label is back after the branch has a new file takes nothing of that", async () => {
    const { time, directory } = await orphaned();
    const node = start(time, { nodeId: "a" }, directory);
    await node.put("new");
    kill(node);
    // As a loss of power may leave it, had the last rename not been synced.
    const folder = join(directory, "quarantine", node.uuid);
    const label = readdirSync(folder).find((name) => name.endsWith(".json"))!;
    cpSync(join(folder, label), join(folder, label.replace(".json", ".moving")));
    rmSync(join(folder, label));
    const next = start(time, { nodeId: "a" }, directory);
    expect(await next.keys()).toContain("new");
    expect(listAside(next)).toHaveLength(1);
  });
});

test("what an older build has set aside without a word is listed too", () => {
  const directory = temporaryDirectory();
  const folder = join(directory, "quarantine", "00000000-0000-4000-8000-000000000001");
  cpSync(
    join(import.meta.dirname, "../../../golden/database-v1.db"),
    join(folder, "main-8-01J0000000000000000000000A.db"),
  );
  expect(listQuarantine(directory)).toMatchObject([
    { name: "main-8-01J0000000000000000000000A", label: undefined, isMoving: false },
  ]);
  expect(listQuarantine(temporaryDirectory())).toEqual([]);
});
