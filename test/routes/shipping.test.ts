/** How writes come into object storage that were not waited for there, and what is left when they had not. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ok, startLosable, startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type Reply } from "../support/wires.ts";
import { start, loseNode } from "../support/losable-process.ts";

const statement = (...texts: readonly string[]): object => ({ stmts: texts.map((q) => ({ q })) });

const key = (name: string): object => ({ ns: "n", key: name, value: Buffer.from(name) });

test("what was never asked to be durable is shipped by itself before long", async () => {
  const service = await startService();
  try {
    const db = await service.database();
    const wire = service.wire("rest");
    const { txid } = await ok(wire.call("DataService.PutValue", { db, ...key("a") }));
    let durableTxid: number | undefined = 0;
    while (durableTxid! < txid!) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      durableTxid = (await ok(wire.call("DataService.ListKeys", { db, ns: "n" }))).durableTxid;
    }
    expect(durableTxid).toBe(txid);
  } finally {
    await service.close();
  }
});

test("core-11: with a hot cap of 1, databases that take turns lose nothing, not even with the disk", async () => {
  const node = await startLosable({ SERVICE_HOT_CAP: "1", SERVICE_ENGINE_THREADS: "1" });
  const dbs = [await node.now.database(), await node.now.database(), await node.now.database()];
  for (let round = 0; round < 5; round++)
    for (const db of dbs) await ok(node.now.wire("rest").call("DataService.PutValue", { db, ...key(`k${round}`) }));
  for (const db of dbs) await ok(node.now.wire("rest").call("DataService.Sync", { db }));
  await node.loseDisk();
  for (const db of dbs) {
    expect((await ok(node.now.wire("rest").call("DataService.ListKeys", { db, ns: "n" }))).body.keys).toEqual([
      "k0",
      "k1",
      "k2",
      "k3",
      "k4",
    ]);
  }
});

test(
  "segments-01 and segments-03: many synced writes, each with its state in object storage, restore on a fresh node",
  { timeout: 120_000 },
  async () => {
    const node = await startLosable();
    const db = await node.now.database();
    const wire = node.now.wire("rest");
    for (let n = 1; n <= 150; n++) {
      await ok(wire.call("DataService.PutValue", { db, ...key(`k${String(n).padStart(3, "0")}`) }));
      expect(await ok(wire.call("DataService.Sync", { db })), `sync ${n}`).toMatchObject({ txid: n, durableTxid: n });
    }
    await node.loseDisk();
    const after = node.now.wire("rest");
    expect((await ok(after.call("DataService.ListKeys", { db, ns: "n", limit: 1000 }))).body.keys).toHaveLength(150);
    expect(
      (await ok(after.call("DataService.ExecuteSql", { db, ...statement("PRAGMA integrity_check") }))).body.results[0]
        .rows,
    ).toEqual([["ok"]]);
  },
);

/** Object storage that takes no put until it is let go: reads go on. The file store writes through this directory. */
function holdPuts(directory: string): { release(): void } {
  const temporary = join(directory, "objects", ".tmp");
  renameSync(temporary, `${temporary}-held`);
  writeFileSync(temporary, "");
  return {
    release() {
      rmSync(temporary);
      renameSync(`${temporary}-held`, temporary);
    },
  };
}

test("F33: while object storage takes nothing, only standard writes go on; all is shipped afterwards", async () => {
  // Durable writes are refused in time.
  const directory = temporaryDirectory();
  const service = await startService({ SERVICE_REQUEST_TIMEOUT: "10" }, directory);
  onTestFinished(() => service.close());
  const wire = service.wire("rest");
  const db = await service.database();
  // What begins with the first write, the engine's thread above all, may take a busy machine longer than a request
  // has.
  await untilOk(() => wire.call("DataService.PutValue", { db, ...key("a") }));
  const shipped = await untilOk(() => wire.call("DataService.Sync", { db }));
  const held = holdPuts(directory);
  const before = await ok(wire.call("DataService.PutValue", { db, ...key("b") }));
  const refused = await Promise.all([
    wire.call("DataService.PutValue", { db, ...key("c") }, { "Service-Durability": "durable" }),
    wire.call("DataService.Sync", { db }),
  ]);
  for (const { code } of refused) expect(["unavailable", "request_timeout"]).toContain(code);
  const standard = await ok(wire.call("DataService.PutValue", { db, ...key("d") }));
  expect([before.durableTxid, standard.durableTxid]).toEqual([shipped.durableTxid, shipped.durableTxid]);
  held.release();
  const synced = await ok(untilOk(() => wire.call("DataService.Sync", { db })));
  expect(synced.durableTxid).toBeGreaterThanOrEqual(standard.txid!);
});

/** Calls until it succeeds: a store that comes back is noticed at the next attempt, not at once. */
async function untilOk(call: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await call();
    if (reply.code === "ok") return reply;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a write acknowledged before it was shipped and lost with the disk is known to be lost: 409", async () => {
  const directory = join(temporaryDirectory(), "data");
  const first = await start(directory);
  await ok(first.wire.call("ControlService.CreateDatabase", { name: "db" }));
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("kept") }));
  const kept = (await ok(first.wire.call("DataService.Sync", { db: "db" }))).txid!;
  const held = holdPuts(directory);
  const lost = (await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("lost") }))).txid!;
  expect(lost).toBeGreaterThan(kept);
  await first.node.end("SIGKILL");
  held.release();
  rmSync(join(directory, "db"), { recursive: true });
  const { wire } = await start(directory);
  const read = (txid: number): Promise<Reply> =>
    wire.call("DataService.ListKeys", { db: "db", ns: "n" }, { "Service-Min-Txid": String(txid) });
  expect((await ok(wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual(["kept"]);
  expect((await ok(read(kept))).body.keys).toEqual(["kept"]);
  const lostForGood = { code: "conflict", message: expect.stringContaining("lost") };
  expect(await read(lost)).toMatchObject(lostForGood);
  // Also once a later write has a larger number: a larger state is not the one that was promised.
  expect((await ok(wire.call("DataService.PutValue", { db: "db", ...key("new") }))).txid).toBeGreaterThan(lost);
  expect(await read(lost)).toMatchObject(lostForGood);
  expect((await ok(wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual(["kept", "new"]);
});

test("F02: what was acknowledged, not shipped, before kill -9 is logged; the next start ships it", async () => {
  const directory = join(temporaryDirectory(), "data");
  const first = await start(directory);
  await ok(first.wire.call("ControlService.CreateDatabase", { name: "db" }));
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("shipped") }));
  await ok(first.wire.call("DataService.Sync", { db: "db" }));
  const held = holdPuts(directory);
  await ok(first.wire.call("DataService.PutValue", { db: "db", ...key("in the log") }));
  await first.node.end("SIGKILL");
  held.release();
  const second = await start(directory);
  await ok(second.wire.call("DataService.Sync", { db: "db" }));
  const third = await loseNode(second.node, directory);
  expect((await ok(third.wire.call("DataService.ListKeys", { db: "db", ns: "n" }))).body.keys).toEqual([
    "in the log",
    "shipped",
  ]);
});
