/**
 * Leases in a real etcd: what every adapter must do, and what becomes of them when etcd, the disk or the network fails.
 */
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { silentLog } from "../../src/base/log.ts";
import { realWorld } from "../../src/base/world.ts";
import { EtcdLeases, type EtcdLeasesOptions } from "../../src/store/etcd/etcd-leases.ts";
import { etcdNeed, hasEtcd, startEtcd, type EtcdServer } from "../support/etcd-server.ts";
import { describeLeases, joined, type LeasedNode } from "../support/lease-suite.ts";
import { freePort } from "../support/node-process.ts";

/** The shortest lease that etcd gives, renewed often enough for it. */
const short = { ttlSecs: 2, renewMs: 400, marginMs: 400 };
const waiting = { timeout: 15_000, interval: 20 };
const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** Each of the nodes has been told of one loss, and of a lease after it. */
async function leasedAnew(...nodes: readonly LeasedNode[]): Promise<void> {
  await vi.waitFor(() => {
    for (const { told } of nodes) {
      expect(told.filter((tiding) => tiding === "lost")).toHaveLength(1);
      expect(told.at(-1)).not.toBe("lost");
    }
  }, waiting);
}

describe.skipIf(!hasEtcd)(`leases in a real etcd${etcdNeed}`, { timeout: 60_000 }, () => {
  let etcd: EtcdServer;
  let prefixes = 0;
  const newPrefix = (): string => `test-${++prefixes}/`;
  const open = (options: Partial<EtcdLeasesOptions> = {}): EtcdLeases =>
    new EtcdLeases({
      endpoints: [etcd.endpoint],
      world: realWorld(),
      log: silentLog,
      progress: async () => {},
      prefix: newPrefix(),
      ...options,
    });
  /** Two nodes of one cluster. */
  async function pair(
    options: Partial<EtcdLeasesOptions> = {},
  ): Promise<{ a: LeasedNode; b: LeasedNode; prefix: string }> {
    const prefix = newPrefix();
    return {
      a: await joined(open({ ...short, prefix, ...options })),
      b: await joined(open({ ...short, prefix })),
      prefix,
    };
  }
  /** The leases with which the keys of the prefix live. */
  async function leasesUnder(prefix: string): Promise<string[]> {
    const { kvs } = await etcd.call("kv/range", { key: base64(prefix), range_end: base64(`${prefix.slice(0, -1)}0`) });
    return [...new Set((kvs as { lease?: string }[]).flatMap(({ lease }) => lease ?? []))];
  }

  beforeAll(async () => {
    etcd = await startEtcd();
  });
  afterAll(async () => {
    await etcd.end();
  });

  describeLeases("as every adapter", () => {
    const prefix = newPrefix();
    return { open: () => open({ prefix }) };
  });

  test("a lease is told to hold from before its renewal was sent, less the margin, each time anew", async () => {
    const world = realWorld();
    const before = { monotonicMs: world.monotonicMs(), wallMs: world.nowMs() };
    const { told } = await joined(open({ ttlSecs: 5, renewMs: 100, marginMs: 1_000 }));
    const [first] = told;
    expect(first).toMatchObject({ monotonicMs: expect.any(Number) });
    const { monotonicMs, wallMs } = first as { monotonicMs: number; wallMs: number };
    expect(monotonicMs).toBeGreaterThanOrEqual(before.monotonicMs + 4_000);
    expect(monotonicMs).toBeLessThanOrEqual(world.monotonicMs() + 4_000);
    expect(wallMs).toBeGreaterThanOrEqual(before.wallMs + 4_000);
    expect(wallMs).toBeLessThanOrEqual(world.nowMs() + 4_000);
    await vi.waitFor(() => expect(told.length).toBeGreaterThan(5), waiting);
    const spans = told.map((span) => (span as { monotonicMs: number }).monotonicMs);
    expect(spans).toEqual(spans.toSorted((x, y) => x - y));
    expect(new Set(spans).size).toBe(spans.length);
  });

  test("a lease that is renewed outlives its time", async () => {
    const { a, b } = await pair();
    await a.leases.acquire("db");
    await new Promise((resolve) => setTimeout(resolve, 4_500));
    expect(await b.leases.acquire("db")).toMatchObject({ kind: "held", by: { nodeId: a.node.id } });
    expect(a.told).not.toContain("lost");
  });

  test("F57: while a proof of progress hangs the lease lapses, and another node gets the databases", async () => {
    // No second proof is begun meanwhile; afterwards there is a new lease.
    let proofs = 0;
    let hang: Promise<void> | undefined;
    const { a, b } = await pair({ progress: async () => void (proofs++, await hang) });
    await a.leases.acquire("db");
    const { promise, resolve } = Promise.withResolvers<void>();
    hang = promise;
    await vi.waitFor(
      async () => expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 }),
      waiting,
    );
    const begun = proofs;
    // Longer than a proof is waited for.
    await new Promise((pass) => setTimeout(pass, 3_000));
    expect(proofs).toBe(begun);
    expect(a.told).not.toContain("lost");
    hang = undefined;
    resolve();
    await leasedAnew(a);
    await vi.waitFor(async () => expect(await b.leases.nodes()).toHaveLength(2), waiting);
    expect(await a.leases.acquire("db")).toMatchObject({ kind: "held", by: { nodeId: b.node.id } });
  });

  test("F57: a proof of progress that fails is no progress", async () => {
    const { a, b } = await pair();
    const sick = await joined(open({ ...short, progress: () => Promise.reject(new Error("the disk is gone")) }));
    expect(sick.told).toEqual([]);
    await expect(sick.leases.acquire("db")).rejects.toMatchObject({ kind: "unavailable" });
    expect(await b.leases.nodes()).toHaveLength(2);
    expect(a.told).not.toEqual([]);
  });

  test("F52: a lease that etcd ends by mistake is lost, told so, and taken anew without a restart", async () => {
    const { a, b, prefix } = await pair();
    await a.leases.acquire("db");
    for (const id of await leasesUnder(prefix)) await etcd.call("lease/revoke", { ID: id });
    await leasedAnew(a, b);
    expect(await b.leases.holding("db")).toEqual({ holder: undefined });
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
    await vi.waitFor(async () => expect(await b.leases.nodes()).toHaveLength(2), waiting);
  });

  test("F52: who meets the loss when he takes a database hears of it at once, and has nothing", async () => {
    const prefix = newPrefix();
    const a = await joined(open({ prefix, renewMs: 60_000 }));
    for (const id of await leasesUnder(prefix)) await etcd.call("lease/revoke", { ID: id });
    await expect(a.leases.acquire("db")).rejects.toMatchObject({ kind: "unavailable" });
    expect(a.told[1]).toBe("lost");
    await vi.waitFor(() => expect(a.told).toHaveLength(3), waiting);
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
  });

  test("F49: F50: while etcd is silent nothing is told and calls end; lapsed leases are taken anew", async () => {
    // Every call ends in time; leases that lapsed are lost and taken anew once etcd answers.
    const { a, b } = await pair();
    await a.leases.acquire("db");
    etcd.freeze();
    onTestFinished(() => etcd.awaken());
    // What was on its way has come.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const told = [...a.told];
    const startedMs = performance.now();
    await expect(b.leases.holding("db")).rejects.toMatchObject({ kind: "unavailable" });
    await expect(b.leases.acquire("db2")).rejects.toMatchObject({ kind: "unknown_outcome" });
    expect(performance.now() - startedMs).toBeLessThan(6_000);
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(a.told).toEqual(told);
    etcd.awaken();
    await vi.waitFor(async () => expect((await b.leases.acquire("db")).kind).toBe("acquired"), waiting);
    await vi.waitFor(async () => expect(await a.leases.acquire("db")).toMatchObject({ kind: "held" }), waiting);
    // What had no answer may have come late, and its lease may be over by now: no lease epoch is given twice.
    const { holder } = await b.leases.holding("db2");
    const acquired = await b.leases.acquire("db2");
    expect(acquired).toMatchObject({ kind: "acquired" });
    expect([1, 2]).toContain((acquired as { leaseEpoch: number }).leaseEpoch);
    if (holder) expect(holder.leaseEpoch).toBe(1);
    if (holder) expect(acquired).toMatchObject({ leaseEpoch: 2 });
  });

  test("an etcd that ends and comes back with its data is asked again, over a new connection", async () => {
    const { a, b } = await pair({ ttlSecs: 10 });
    await a.leases.acquire("db");
    const before = a.told.length;
    await etcd.stopGently();
    await expect(b.leases.holding("db")).rejects.toMatchObject({ kind: "unavailable" });
    await etcd.start();
    await vi.waitFor(() => expect(a.told.length).toBeGreaterThan(before + 1), waiting);
    expect(a.told).not.toContain("lost");
    expect(await b.leases.acquire("db")).toMatchObject({ kind: "held", by: { nodeId: a.node.id, leaseEpoch: 1 } });
  });

  test("F51: an etcd that has lost everything begins its lease epochs anew, and nodes go on with it", async () => {
    const { a, b } = await pair();
    for (let turn = 0; turn < 5; turn++) await a.leases.acquire("db");
    await etcd.stop();
    await etcd.startEmpty();
    await leasedAnew(a, b);
    expect(await b.leases.holding("db")).toEqual({ holder: undefined });
    expect(await b.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
  });

  test("a node that starts while etcd is away has no lease, and gets one later", async () => {
    await etcd.stop();
    const a = await joined(open(short));
    expect(a.told).toEqual([]);
    await expect(a.leases.acquire("db")).rejects.toMatchObject({ kind: "unavailable" });
    await etcd.start();
    await vi.waitFor(() => expect(a.told.length).toBeGreaterThan(0), waiting);
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
  });

  test("of two endpoints one may be dead or silent", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    onTestFinished(() => void silent.close());
    await new Promise((resolve) => silent.once("listening", resolve));
    const { port } = silent.address() as { port: number };
    for (const other of [`127.0.0.1:${await freePort()}`, `http://127.0.0.1:${port}`]) {
      const a = await joined(open({ endpoints: [other, etcd.endpoint] }));
      expect(a.told).toHaveLength(1);
      const startedMs = performance.now();
      expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
      // The one that answered is asked first.
      expect(performance.now() - startedMs).toBeLessThan(1_000);
    }
  });

  test.each([
    ["writer/db", "not JSON"],
    ["writer/db", '{"node":"n","address":"http://n:1","term":0}'],
    ["writer/db", '{"node":"n","address":"http://n:1","term":9007199254740992}'],
    ["writer/db", '{"node":"n","address":"ftp://n","term":1}'],
    ["writer/db", '{"node":"n/../m","address":"http://n:1","term":1}'],
    ["writer/db", `{"node":"n","address":"http://n:1","term":1,"x":"${"x".repeat(2_000)}"}`],
    ["writer/db", "[]"],
    ["term/db", "1e3"],
    ["terms/db", "1e3"],
    ["term/db", "0"],
    ["term/db", "9007199254740991"],
    ["term/db", ""],
  ])("%s that holds %.80s is corrupt", async (key, value) => {
    const prefix = newPrefix();
    const a = await joined(open({ prefix }));
    await etcd.call("kv/put", { key: base64(prefix + key), value: base64(value) });
    await expect(a.leases.acquire("db")).rejects.toMatchObject({ kind: "corrupt" });
  });

  test("etcd keeps nothing of a database that nobody holds; what older builds kept is a floor", async () => {
    // The floor goes when the database is next taken.
    const prefix = newPrefix();
    const [a, b] = [await joined(open({ prefix })), await joined(open({ prefix }))];
    const keys = async (): Promise<string[]> => {
      const { kvs = [] } = await etcd.call("kv/range", {
        key: base64(prefix),
        range_end: base64(`${prefix.slice(0, -1)}0`),
      });
      return (kvs as { key: string }[])
        .map(({ key }) => Buffer.from(key, "base64").toString().slice(prefix.length))
        .filter((key) => !key.startsWith("nodes/"));
    };
    await etcd.call("kv/put", { key: base64(`${prefix}term/abc-old`), value: base64("41") });
    expect(await a.leases.acquire("abc-old")).toEqual({ kind: "acquired", leaseEpoch: 42 });
    // One count for all that begin alike: it only has to grow.
    expect(await a.leases.acquire("abc-new")).toEqual({ kind: "acquired", leaseEpoch: 43 });
    expect(await keys()).toEqual(["announced", "terms/abc", "writer/abc-new", "writer/abc-old"]);
    await a.leases.release("abc-old", 42);
    await a.leases.release("abc-new", 43);
    expect(await keys()).toEqual(["announced", "terms/abc"]);
    // A node of a build before takes the database as it does, and gives it back.
    await etcd.call("kv/put", { key: base64(`${prefix}term/abc-old`), value: base64("1") });
    expect(await b.leases.acquire("abc-old")).toEqual({ kind: "acquired", leaseEpoch: 44 });
    expect(await keys()).toEqual(["announced", "terms/abc", "writer/abc-old"]);
  });

  test(
    "nodes() pages through any number, asks only after changes, and sees what older builds announce",
    { timeout: 120_000 },
    async () => {
      const prefix = newPrefix();
      const a = await joined(open({ prefix }));
      const listed = async (count: number): Promise<void> =>
        void (await vi.waitFor(async () => expect(await a.leases.nodes()).toHaveLength(count), waiting));
      await listed(1);
      const older = (at: number): Promise<unknown> =>
        etcd.call("kv/put", {
          key: base64(`${prefix}nodes/older-${at}`),
          value: base64('{"address":"http://n:1","reachesStore":true}'),
        });
      for (let at = 0; at < 2_500; at += 50)
        await Promise.all(Array.from({ length: 50 }, (_, index) => older(at + index)));
      await listed(2_501);
      const all = await a.leases.nodes();
      expect(new Set(all.map(({ id }) => id)).size).toBe(2_501);
      expect(all.filter(({ sharesJobs }) => sharesJobs)).toEqual([a.node]);
      // Longer than a list is taken for the present one without a question.
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      expect(await a.leases.nodes()).toBe(all);
      await etcd.call("kv/deleterange", { key: base64(`${prefix}nodes/older-7`) });
      await listed(2_500);
      const b = await joined(open({ prefix }));
      await listed(2_501);
      await b.leases.announce({ ...b.node, reachesStore: false });
      await vi.waitFor(
        async () =>
          expect((await a.leases.nodes()).find(({ id }) => id === b.node.id)).toEqual({
            ...b.node,
            reachesStore: false,
          }),
        waiting,
      );
    },
  );

  test("a node's key that no node writes is corrupt; what a later version adds is passed over", async () => {
    const prefix = newPrefix();
    const a = await joined(open({ prefix }));
    const later = { id: "later", address: "https://[::1]:8443", reachesStore: false, sharesJobs: true };
    await etcd.call("kv/put", {
      key: base64(`${prefix}nodes/later`),
      value: base64(JSON.stringify({ ...later, zone: "eu" })),
    });
    expect(await a.leases.nodes()).toEqual(expect.arrayContaining([a.node, later]));
    await etcd.call("kv/put", { key: base64(`${prefix}nodes/later`), value: base64('{"address":"http://n:1"}') });
    await a.leases.announce({ ...a.node });
    await expect(a.leases.nodes()).rejects.toMatchObject({ kind: "corrupt" });
  });
});

describe.skipIf(!hasEtcd)(`a real etcd that asks for credentials${etcdNeed}`, { timeout: 60_000 }, () => {
  let etcd: EtcdServer;
  const endpointAs = (credentials: string): string => etcd.endpoint.replace("://", `://${credentials}@`);
  const open = (endpoint: string): EtcdLeases =>
    new EtcdLeases({ endpoints: [endpoint], world: realWorld(), log: silentLog, progress: async () => {}, ...short });
  beforeAll(async () => {
    etcd = await startEtcd();
    for (const name of ["root", "palimpsest"]) {
      await etcd.call("auth/role/add", { name });
      await etcd.call("auth/user/add", { name, password: "p@ss:word" });
      await etcd.call("auth/user/grant", { user: name, role: name });
    }
    await etcd.call("auth/role/grant", {
      name: "palimpsest",
      perm: { permType: "READWRITE", key: base64("palimpsest/"), range_end: base64("palimpsest0") },
    });
  });
  afterAll(async () => {
    await etcd.end();
  });

  test("is given those of the endpoint, from before it asks for them until it has forgotten its tokens", async () => {
    const a = await joined(open(endpointAs("palimpsest:p%40ss%3Aword")));
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 1 });
    await etcd.call("auth/enable", {});
    expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 2 });
    await etcd.stop();
    await etcd.start();
    await vi.waitFor(
      async () => expect(await a.leases.acquire("db")).toEqual({ kind: "acquired", leaseEpoch: 3 }),
      waiting,
    );
    const before = a.told.length;
    await vi.waitFor(() => expect(a.told.length).toBeGreaterThan(before + 2), waiting);
  });

  test("refuses others: a wrong configuration, which says nothing of the password", async () => {
    for (const endpoint of [etcd.endpoint, endpointAs("palimpsest:wrong-secret"), endpointAs("nobody:wrong-secret")]) {
      const failure: unknown = await joined(open(endpoint)).catch((error: unknown) => error);
      expect(failure).toMatchObject({ kind: "misconfigured" });
      expect(`${(failure as Error).message} ${String((failure as Error).cause)}`).not.toContain("wrong-secret");
    }
  });
});
