/** Object storage that was put back to an older state: what is refused, what stays on the disk, and who is told. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { listQuarantine } from "../../../../src/engine/local/quarantine.ts";
import type { EngineOptions } from "../../../../src/engine/api/protocol.ts";
import { catalogKey, databasePrefix } from "../../../../src/format/keys/object-keys.ts";
import { LeasedNode, sharedTime } from "../../../support/leased-node.ts";
import { getFilePath } from "../../../support/mortal-node.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { keysIn, listAside } from "../../../support/set-aside.ts";

/** Everything that object storage has, to be put back later. */
function snapshot(time: VirtualTime): () => void {
  const saved = new Map(time.store.keys().map((key) => [key, time.store.read(key)!.bytes] as const));
  return () => {
    time.store.watch = () => {};
    for (const key of time.store.keys()) if (!saved.has(key)) time.store.spoil(key, () => undefined);
    for (const [key, bytes] of saved)
      if (time.store.read(key)) time.store.spoil(key, () => bytes);
      else void time.store.calm.put(key, bytes, { kind: "absent" });
  };
}

describe("object storage that was put back to an older state", () => {
  async function putBack(
    options: Partial<EngineOptions> = {},
  ): Promise<{ time: VirtualTime; node: TimedEngine; newest: () => void }> {
    const time = new VirtualTime();
    let node = new TimedEngine(time, { nodeId: "a", ...options });
    await node.put("k1");
    await node.sync();
    const older = snapshot(time);
    node = await node.again();
    for (let n = 0; n < 5; n++) await node.put(`later${n}`, "main", { durable: true });
    await node.close();
    const newest = snapshot(time);
    older();
    return { time, node, newest };
  }

  test("F40: is refused for reads and writes after a restart; the local file stays, and it is told", async () => {
    const { time, node, newest } = await putBack({ gcGraceMs: 1_000 });
    const before = time.store.keys();
    const back = new TimedEngine(time, { nodeId: "a", gcGraceMs: 1_000 }, node.directory);
    for (let n = 0; n < 2; n++) {
      await expect(back.keys()).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining(`--accept-rollback ${node.uuid}`),
      });
      await expect(back.put("new")).rejects.toMatchObject({ code: "unavailable" });
    }
    await time.pass(600_000);
    expect(time.store.keys()).toEqual(before);
    expect(keysIn(getFilePath(back))).toEqual(["k1", "later0", "later1", "later2", "later3", "later4"]);
    expect(listQuarantine(back.directory)).toEqual([]);
    expect(back.client.alarms).toEqual({ quarantined: 0, lost: 0, wentBack: 1 });
    // Once the newer state is back, so is everything.
    newest();
    expect(await back.keys()).toHaveLength(6);
    await back.put("new", "main", { durable: true });
    expect(back.client.alarms.wentBack).toBe(0);
  });

  test.each(["all", "named"])(
    "is taken as it is where an operator accepts it (%s): what was newer is set aside first, and then it is the truth",
    async (which) => {
      const { time, node } = await putBack();
      const accepting = new TimedEngine(
        time,
        { nodeId: "a", acceptRollback: [which === "all" ? "all" : node.uuid] },
        node.directory,
      );
      expect(await accepting.keys()).toEqual(["k1"]);
      expect(listAside(accepting)).toMatchObject([
        {
          keys: ["k1", "later0", "later1", "later2", "later3", "later4"],
          label: { txid: 6, why: expect.stringContaining("accepted") },
        },
      ]);
      await accepting.put("new", "main", { durable: true });
      await accepting.close();
      const next = new TimedEngine(time, { nodeId: "a" }, node.directory);
      expect(await next.keys()).toEqual(["k1", "new"]);
      expect(next.client.alarms).toEqual({ quarantined: 1, lost: 0, wentBack: 0 });
    },
  );

  test.each(["by whoever asks for it", "because time has passed"])(
    "F40: and does not know a branch that is open costs nobody what was only here, when it is closed %s",
    async (which) => {
      const time = new VirtualTime();
      const node = new TimedEngine(time, { nodeId: "a", acceptRollback: ["all"], idleCloseMs: 1e12 });
      await node.put("k1", "main", { durable: true });
      const older = snapshot(time);
      await node.branch({ act: "fork", name: "x" });
      await node.put("own", "x", { durable: true });
      older();
      // Whoever changes the branches reads the catalog anew.
      await node.branch({ act: "fork", name: "y" });
      if (which === "because time has passed") await time.pass(600_000);
      else await expect(node.keys("x")).rejects.toMatchObject({ code: "branch_not_found" });
      expect(listAside(node)).toMatchObject([
        { keys: ["k1", "own"], label: { txid: 2, why: expect.stringContaining("accepted") } },
      ]);
      expect(node.notices.join("\n")).toContain("was set aside under quarantine/");
      // A branch that is deleted is gone, and leaves nothing.
      await node.branch({ act: "delete", name: "y" });
      expect(listQuarantine(node.directory)).toHaveLength(1);
      expect(await node.keys()).toEqual(["k1"]);
    },
  );

  test("is not accepted for another database than the one that is named", async () => {
    const { time, node } = await putBack();
    const other = new TimedEngine(
      time,
      { nodeId: "a", acceptRollback: ["00000000-0000-4000-8000-00000000abcd"] },
      node.directory,
    );
    await expect(other.keys()).rejects.toMatchObject({ code: "unavailable" });
  });

  test.each(["nothing is noted", "what was noted is damaged"])(
    "F40: is found out by the file alone, when %s",
    async (which) => {
      const { time, node } = await putBack();
      const seen = join(node.directory, "seen", node.uuid, "main");
      if (which === "nothing is noted") rmSync(join(node.directory, "seen"), { recursive: true });
      else writeFileSync(seen, readFileSync(seen).subarray(0, 5));
      const back = new TimedEngine(time, { nodeId: "a" }, node.directory);
      await expect(back.keys()).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining("transaction 6 in the local file"),
      });
      expect(keysIn(getFilePath(back))).toHaveLength(6);
      await back.close();
      const accepting = new TimedEngine(time, { nodeId: "a", acceptRollback: ["all"] }, node.directory);
      expect(await accepting.keys()).toEqual(["k1"]);
      expect(listAside(accepting)).toMatchObject([{ keys: { length: 6 } }]);
    },
  );

  test("F40: and written on by a node that knew nothing of it costs nobody what was only here", async () => {
    const { time, node } = await putBack();
    const other = new TimedEngine(time, { nodeId: "b" });
    for (let n = 0; n < 20; n++) await other.put(`b${n}`, "main", { durable: true });
    await other.close();
    const back = new TimedEngine(time, { nodeId: "a" }, node.directory);
    await back.keys().catch(() => {});
    const kept = existsSync(join(back.directory, "quarantine"))
      ? listAside(back).map(({ keys }) => keys)
      : [keysIn(getFilePath(back))];
    expect(kept).toEqual([["k1", "later0", "later1", "later2", "later3", "later4"]]);
  });

  test("F40: stops its running writer, which opens it again as soon as the newer state is back", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a" });
    await node.put("k1", "main", { durable: true });
    const older = snapshot(time);
    await node.put("k2", "main", { durable: true });
    const newest = snapshot(time);
    older();
    await expect(node.put("k3", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
    await expect(node.keys()).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("put back"),
    });
    newest();
    // What nobody was promised may have come to be all the same.
    expect(await node.keys()).toEqual(["k1", "k2", "k3"]);
    await node.put("k4", "main", { durable: true });
    expect(listQuarantine(node.directory)).toEqual([]);
  });

  test("F40: is told of by the node that takes over, though nobody opens it, until it is put right", async () => {
    const time = sharedTime();
    const node = new LeasedNode(time, "a");
    await node.hold(1, 1e9);
    await node.put("k1", "main", { durable: true });
    const older = snapshot(time);
    await node.branch({ act: "fork", name: "dev" });
    await node.releaseDatabase();
    const newest = snapshot(time);
    older();
    await expect(node.hold(2, 1e9)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("put back"),
    });
    expect(node.client.alarms).toEqual({ quarantined: 0, lost: 0, wentBack: 1 });
    newest();
    await node.hold(3, 1e9);
    expect(node.client.alarms.wentBack).toBe(0);
  });

  test("F40: is not followed by a replica that has seen more, nor after its restart", async () => {
    const time = sharedTime();
    const [writer, replica] = [new LeasedNode(time, "writer"), new LeasedNode(time, "replica")];
    await writer.hold(1, 1e9);
    await writer.put("k1", "main", { durable: true });
    const older = snapshot(time);
    await writer.put("k2", "main", { durable: true });
    await replica.renew(1e9);
    expect(await replica.keys()).toEqual(["k1", "k2"]);
    writer.kill();
    older();
    await time.pass(10_000);
    expect(await replica.keys()).toEqual(["k1", "k2"]);
    expect(replica.notices.join("\n")).toContain("put back");
    expect(replica.client.alarms.wentBack).toBe(1);
    await replica.close();
    const next = new LeasedNode(time, "replica", {}, replica.directory);
    await next.renew(1e9);
    await expect(next.keys()).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("put back"),
    });
    expect(keysIn(getFilePath(next))).toEqual(["k1", "k2"]);
  });

  test("F40: is found out by its catalog too, so that no branch counts as deleted for it", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { nodeId: "a", gcGraceMs: 1_000 });
    await node.put("k1", "main", { durable: true });
    const old = time.store.read(catalogKey(node.uuid))!.bytes;
    await node.branch({ act: "fork", name: "exp" });
    await node.put("e", "exp", { durable: true });
    await node.close();
    const newest = time.store.read(catalogKey(node.uuid))!.bytes;
    time.store.spoil(catalogKey(node.uuid), () => old);
    const before = time.store.keys(databasePrefix(node.uuid));
    const back = new TimedEngine(time, { nodeId: "a", gcGraceMs: 1_000 }, node.directory);
    await expect(back.put("more")).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("put back"),
    });
    await expect(back.keys("exp")).rejects.toMatchObject({ code: "unavailable" });
    await time.pass(600_000);
    expect(time.store.keys(databasePrefix(node.uuid))).toEqual(before);
    time.store.spoil(catalogKey(node.uuid), () => newest);
    expect(await back.keys("exp")).toEqual(["e", "k1"]);
  });

  test("does not concern what was deleted and made again under its name", async () => {
    const time = new VirtualTime();
    let node = new TimedEngine(time, { nodeId: "a" });
    await node.put("k1", "main", { durable: true });
    for (let life = 0; life < 3; life++) {
      await node.branch({ act: "fork", name: "exp" });
      for (let n = 0; n < 3 - life; n++) await node.put(`e${life}${n}`, "exp", { durable: true });
      node = await node.again();
      expect(await node.keys("exp")).toHaveLength(1 + 3 - life);
      await node.branch({ act: "delete", name: "exp" });
      expect(readdirSync(join(node.directory, "seen", node.uuid)).toSorted()).toEqual(["catalog", "main"]);
    }
  });
});
