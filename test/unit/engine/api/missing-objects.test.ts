/** What object storage has lost is told and refused: nothing is deleted, forgotten or taken for empty because of it. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { databasePrefix, manifestKey, historyKey } from "../../../../src/format/keys/object-keys.ts";
import { LeasedNode, describeOutcome, sharedTime } from "../../../support/leased-node.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { packRefsMin } from "../../../../src/engine/compaction/timeline-length.ts";

const pool = (time: VirtualTime, { uuid }: TimedEngine): string[] => time.store.keys(databasePrefix(uuid));

/** An erasure whose time has come, of a memory that the database does not have. */
const dueCoupon = {
  id: "ers_x",
  memoryIds: ["mem_01M81N26FSQB4PXJS6XVYRE6MJ"],
  points: [{ branch: "main", branchId: "main", txid: 1, ancestors: [] }],
  traces: { key: new Uint8Array(32), windows: new Uint8Array(0), windowsTotal: 0 },
  isDue: true,
};

/** Several writes, each shipped as an object of its own. */
async function shipSome(node: TimedEngine, count: number, branch = "main"): Promise<void> {
  for (let n = 0; n < count; n++) {
    await node.put(`k${n}`, branch);
    await node.time.pass(limits.shipIntervalMs + 20);
  }
}

/** A writer of a key, and a node that follows it; from then on the store is not audited: it may lose what it has. */
async function startFollowed(): Promise<{ time: VirtualTime; writer: LeasedNode; replica: LeasedNode }> {
  const time = sharedTime();
  const [writer, replica] = [new LeasedNode(time, "writer"), new LeasedNode(time, "replica")];
  await writer.hold(1, 1e9);
  await writer.put("k", "main", { durable: true });
  await replica.renew(1e9);
  expect(await replica.keys()).toEqual(["k"]);
  time.store.watch = () => {};
  return { time, writer, replica };
}

describe("a listed branch whose manifest is missing", () => {
  test("F39: keeps every object of its database meanwhile, and the operator is told what to do", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { gcGraceMs: 60_000, idleCloseMs: 1e12 });
    await shipSome(node, 5);
    await node.branch({ act: "fork", name: "exp" });
    await node.put("e", "exp");
    await node.sync("exp");
    const before = pool(time, node);
    const manifest = time.store.read(manifestKey(node.uuid, "main"))!.bytes;
    await time.of(time.store.delete(manifestKey(node.uuid, "main")));
    // The other branch makes garbage all the while.
    await shipSome(node, packRefsMin + 4, "exp");
    await time.pass(3_600_000);
    expect(pool(time, node)).toEqual(expect.arrayContaining(before.filter((key) => !key.endsWith("head/main"))));
    expect(time.catalog(node.uuid).condemned).toEqual([]);
    expect(node.notices.join("\n")).toMatch(
      /garbage could not be collected.*manifest is missing.*db\/.*\/head\/main.*put back/,
    );
    // Put back, all of it is there, and collection goes on.
    await time.of(time.store.put(manifestKey(node.uuid, "main"), manifest, { kind: "absent" }));
    await time.pass(600_000);
    expect(await (await node.again(true)).keys()).toHaveLength(5);
    expect(pool(time, node).length).toBeLessThan(before.length + packRefsMin);
  });

  test(
    "F39: is refused and nothing of it goes when it is the only one, whatever is done on the running " + "node",
    async () => {
      const time = new VirtualTime();
      const node = new TimedEngine(time, { gcGraceMs: 600_000, idleCloseMs: 30_000 });
      await shipSome(node, 5);
      const manifest = time.store.read(manifestKey(node.uuid, "main"))!.bytes;
      await time.of(time.store.delete(manifestKey(node.uuid, "main")));
      const before = pool(time, node);
      await time.pass(1_500_000);
      expect(pool(time, node)).toEqual(before);
      for (let n = 0; n < 3; n++)
        await expect(node.put("again", "main", { durable: true })).rejects.toMatchObject({ code: "unavailable" });
      await expect(node.keys()).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining("put back"),
      });
      await time.pass(1_500_000);
      expect(pool(time, node)).toEqual(before);
      await time.of(time.store.put(manifestKey(node.uuid, "main"), manifest, { kind: "absent" }));
      expect(await (await node.again()).keys()).toEqual(expect.arrayContaining(["k0", "k4"]));
    },
  );

  test("is not listed as an empty one, nor forked from", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { idleCloseMs: 1e12 });
    await node.put("k");
    const { branch } = await node.branch({ act: "fork", name: "exp" });
    expect(branch).toBe("exp");
    await node.put("e", "exp");
    await node.sync("exp");
    const id = time.catalog(node.uuid).branches.find(({ name }) => name === "exp")!.id;
    const again = await node.again();
    await time.of(time.store.delete(manifestKey(node.uuid, id)));
    await expect(again.branch({ act: "list" })).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining(id),
    });
    await expect(again.branch({ act: "fork", name: "more" }, "exp")).rejects.toMatchObject({ code: "unavailable" });
    expect(await again.keys()).toEqual(["k"]);
    // Whoever gives the branch up says so; then the rest is listed again.
    await again.branch({ act: "delete", name: "exp" });
    expect((await again.branch({ act: "list" })).branches).toHaveLength(1);
  });

  test("is told by a node that follows it, which goes on with its copy", async () => {
    const { time, writer, replica } = await startFollowed();
    await time.of(time.store.delete(manifestKey(writer.uuid, "main")));
    await time.pass(5_000);
    expect(await replica.keys()).toEqual(["k"]);
    expect(replica.notices.join("\n")).toContain("manifest is missing");
  });
});

describe("what cannot be read of a listed branch", () => {
  test.each(["head", "history"])("keeps every object too: its %s", async (which) => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { gcGraceMs: 60_000, idleCloseMs: 1e12 });
    await shipSome(node, 3);
    await node.branch({ act: "rewind", to: "2" });
    await node.branch({ act: "fork", name: "exp" });
    await shipSome(node, 2, "exp");
    const before = pool(time, node);
    const key =
      which === "head" ? manifestKey(node.uuid, "main") : historyKey(node.uuid, time.manifest(node.uuid).history!.id);
    time.store.spoil(key, (bytes) => (which === "head" ? bytes.subarray(0, bytes.length - 7) : undefined));
    await shipSome(node, packRefsMin + 4, "exp");
    await time.pass(3_600_000);
    expect(pool(time, node)).toEqual(expect.arrayContaining(before.filter((one) => one !== key)));
    expect(time.catalog(node.uuid).condemned).toEqual([]);
    expect(node.notices.join("\n")).toContain("garbage could not be collected");
  });
});

describe("a database of which object storage has nothing any more", () => {
  test("F39: is not taken for deleted by a node that follows it: its copy stays", async () => {
    const { time, writer, replica } = await startFollowed();
    for (const key of pool(time, writer)) await time.of(time.store.delete(key));
    await time.pass(60_000);
    expect(await describeOutcome(replica.keys())).not.toBe("database_not_found");
    expect(existsSync(join(replica.directory, "db", replica.uuid, "main.db"))).toBe(true);
    expect(replica.notices.join("\n")).toContain("catalog is missing");
  });

  test("completes no erasure, and the local files stay: they may be the last", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { idleCloseMs: 1_000 });
    await node.put("k", "main", { durable: true });
    await time.pass(10_000);
    for (const key of pool(time, node)) await time.of(time.store.delete(key));
    await expect(node.branch({ act: "expunge", coupons: [dueCoupon] } as never)).rejects.toMatchObject({
      code: "unavailable",
    });
    expect(readdirSync(join(node.directory, "db", node.uuid))).toContain("main.db");
  });

  test("keeps a copy whose log holds what is not shipped, when that is ordered away", async () => {
    const time = sharedTime();
    const node = new LeasedNode(time, "node", { idleCloseMs: 1e12 });
    await node.hold(1, 1e9);
    await node.put("k", "main", { durable: true });
    await node.branch({ act: "fork", name: "exp" });
    await node.put("e", "exp", { durable: true });
    time.store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
    await node.put("only here", "exp");
    await node.lose();
    const next = await (async () => {
      node.kill();
      time.store.decideFate = () => "fine";
      time.store.watch = () => {};
      for (const key of pool(time, node)) await time.of(time.store.delete(key));
      return new LeasedNode(time, "node", {}, node.directory);
    })();
    await next.renew(1e9);
    expect(await describeOutcome(time.of(next.client.removeCopies(next.uuid, next.soon())))).toBe("unavailable");
    expect(readdirSync(join(next.directory, "db", next.uuid)).some((name) => name.endsWith("-wal"))).toBe(true);
  });
});

describe("a database that came into being only half", () => {
  const isCatalog = (key: string): boolean => key.endsWith("/catalog");

  test.each([1, 2])(
    "has its catalog before its first write is acknowledged, when put %i of it fails",
    async (failing) => {
      const time = new VirtualTime();
      const node = new TimedEngine(time, { idleCloseMs: 30_000 });
      let puts = 0;
      time.store.decideFate = (verb, key) =>
        verb === "put" && isCatalog(key) && ++puts >= failing ? "refused" : "fine";
      for (let n = 0; n < 3; n++) await expect(node.put("a")).rejects.toMatchObject({ code: "unavailable" });
      expect(await node.keys()).toEqual([]);
      time.store.decideFate = () => "fine";
      await node.put("b");
      expect(time.catalog(node.uuid)).toMatchObject({ seq: 1, branches: [{ name: "main", id: "main" }] });
      await node.sync();
      // It is an ordinary database: it is collected, and with its manifest lost it is refused.
      await node.close();
      node.wipe();
      await time.of(time.store.delete(manifestKey(node.uuid, "main")));
      await expect(new TimedEngine(time, {}, node.directory).keys()).rejects.toMatchObject({ code: "unavailable" });
    },
  );

  test.each(["catalog-put", "image-put", "head-put", "head-landed", "catalog-put again", "claimed"])(
    "by a death at %s goes on with the next write, on the same disk and on another",
    async (where) => {
      for (const wiped of [false, true]) {
        const time = new VirtualTime();
        const node = new TimedEngine(time);
        let seen = 0;
        node.world.atCrashPoint = (name) => {
          if (name !== where.split(" ")[0] || seen++ < (where.endsWith("again") ? 1 : 0)) return;
          node.world.atCrashPoint = () => {};
          node.kill();
        };
        node.putting("a").catch(() => {});
        await time.pass(5_000);
        if (wiped) node.wipe();
        const next = new TimedEngine(time, { nodeId: wiped ? "other" : "test-node" }, node.directory);
        expect(await next.keys()).toEqual([]);
        await next.put("b");
        expect(await next.keys()).toEqual(["b"]);
        expect(time.catalog(next.uuid).seq).toBe(1);
      }
    },
  );

  /** A database as an older build has left it, whose only put of the catalog had failed. */
  async function withoutCatalog(options = {}): Promise<{ time: VirtualTime; node: TimedEngine }> {
    const time = new VirtualTime();
    const node = new TimedEngine(time, options);
    await node.put("a", "main", { durable: true });
    await node.close();
    await time.of(time.store.delete(`${databasePrefix(node.uuid)}catalog`));
    node.wipe();
    return { time, node };
  }

  test("and left without a catalog by an older build is given one when it is opened by its writer", async () => {
    const { time, node } = await withoutCatalog();
    const next = new TimedEngine(time, {}, node.directory);
    expect(await next.keys()).toEqual(["a"]);
    expect(time.catalog(node.uuid)).toMatchObject({ seq: 1, branches: [{ name: "main" }] });
    expect(next.notices).toEqual([]);
  });

  test("and left without a catalog is given one at its claim at the latest", async () => {
    const { time, node } = await withoutCatalog();
    const next = new TimedEngine(time, {}, node.directory);
    let isRefused = true;
    time.store.decideFate = (verb, key) => (isRefused && verb === "put" && isCatalog(key) ? "refused" : "fine");
    expect(await next.keys()).toEqual(["a"]);
    await expect(next.put("b")).rejects.toMatchObject({ code: "unavailable" });
    isRefused = false;
    await next.put("b");
    expect(time.catalog(node.uuid).seq).toBe(1);
  });

  test("and left without a catalog completes its erasures like any other", async () => {
    const { time, node } = await withoutCatalog();
    const next = new TimedEngine(time, {}, node.directory);
    const found: unknown[] = [];
    for (let round = 0; round < 4; round++) {
      found.push((await next.branch({ act: "expunge", coupons: [dueCoupon] })).clean);
      await time.pass(700_000);
    }
    expect(found.at(-1)).toEqual(["ers_x"]);
  });
});

describe("a database whose catalog was lost", () => {
  async function forked(): Promise<{ time: VirtualTime; node: TimedEngine; childId: string; catalog: Uint8Array }> {
    const time = new VirtualTime();
    const node = new TimedEngine(time, { gcGraceMs: 60_000 });
    await shipSome(node, 3);
    await node.branch({ act: "fork", name: "exp" });
    await node.put("e", "exp", { durable: true });
    const childId = time.catalog(node.uuid).branches.find(({ name }) => name === "exp")!.id;
    const catalog = time.store.read(`${databasePrefix(node.uuid)}catalog`)!.bytes;
    await node.close();
    await time.of(time.store.delete(`${databasePrefix(node.uuid)}catalog`));
    return { time, node, childId, catalog };
  }

  test.each(["with its disk", "without its disk"])(
    "F39: serves main on a node %s, refuses every other name, deletes nothing and says so",
    async (which) => {
      const { time, node, childId, catalog } = await forked();
      if (which === "without its disk") node.wipe();
      const next = new TimedEngine(time, { gcGraceMs: 60_000 }, node.directory);
      const before = pool(time, node);
      expect(await next.keys()).toEqual(["k0", "k1", "k2"]);
      await next.put("more", "main", { durable: true });
      for (const name of ["exp", "never"])
        await expect(next.keys(name)).rejects.toMatchObject({
          code: "unavailable",
          message: expect.stringContaining("catalog is missing"),
        });
      await expect(next.branch({ act: "list" })).rejects.toMatchObject({ code: "unavailable" });
      await expect(next.branch({ act: "fork", name: "x" })).rejects.toMatchObject({ code: "unavailable" });
      await shipSome(next, packRefsMin + 4);
      await time.pass(3_600_000);
      expect(pool(time, node)).toEqual(expect.arrayContaining(before));
      expect(pool(time, node).some(isCatalogKey)).toBe(false);
      expect(next.notices.join("\n")).toContain("catalog is missing");
      await expect(next.branch({ act: "sweep", branchId: childId })).rejects.toMatchObject({ code: "unavailable" });
      await time.of(time.store.put(`${databasePrefix(node.uuid)}catalog`, catalog, { kind: "absent" }));
      expect(await (await next.again()).keys("exp")).toEqual(["e", "k0", "k1", "k2"]);
    },
  );

  const isCatalogKey = (key: string): boolean => key.endsWith("/catalog");

  test.each([true, false])(
    "F39: and its manifests too is never opened as an empty one, nor claimed (durable: %s)",
    async (durable) => {
      const time = new VirtualTime();
      const node = new TimedEngine(time);
      await node.put("k", "main", { durable });
      await node.close();
      node.wipe();
      for (const key of pool(time, node))
        if (isCatalogKey(key) || key.includes("/head/")) await time.of(time.store.delete(key));
      const left = pool(time, node);
      const next = new TimedEngine(time, { nodeId: "other" }, node.directory);
      await expect(next.keys()).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining("missing"),
      });
      await expect(next.put("new")).rejects.toMatchObject({ code: "unavailable" });
      expect(pool(time, node)).toEqual(left);
    },
  );

  test("F39: and its manifests too is not claimed by a node that had opened it before it was written", async () => {
    const time = new VirtualTime();
    const early = new TimedEngine(time, { nodeId: "early" });
    expect(await early.keys()).toEqual([]);
    await early.close();
    const node = new TimedEngine(time);
    await node.put("k", "main", { durable: true });
    await node.close();
    for (const key of pool(time, node))
      if (isCatalogKey(key) || key.includes("/head/")) await time.of(time.store.delete(key));
    const again = new TimedEngine(time, { nodeId: "early" }, early.directory);
    await expect(again.keys()).rejects.toMatchObject({ code: "unavailable" });
    await expect(again.put("new")).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("missing"),
    });
    expect(pool(time, node).some((key) => key.includes("/head/"))).toBe(false);
  });

  test("is looked for by one listing for each database that is begun, and by none afterwards", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time);
    await node.put("k", "main", { durable: true });
    expect(time.store.count("list")).toBe(1);
    await node.close();
    const again = new TimedEngine(time, {}, node.directory);
    await again.put("more", "main", { durable: true });
    expect(time.store.count("list")).toBe(1);
  });
});
