/**
 * Three nodes on one etcd and one S3 server: a database has one writer, every node serves it, and all that a client
 * says with a call reaches whoever answers it (acceptance: Distribution, Replica stream, auth-16).
 */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";
import { grpcWire, restWire, wireNames, type Reply, type Wire, type WireName } from "../support/wires.ts";
import { expectOk, ingest, summariesAt, readUuid } from "../support/cluster-calls.ts";

const durable = { "service-durability": "durable" };
const primary = { "service-consistency": "primary" };
const atLeast = (txid: number | undefined): Record<string, string> => ({ "service-min-txid": String(txid) });

const wires = new Map<string, Wire>();

/** A node over a wire; connections are kept for all tests. */
function at(node: ClusterNode, wireName: WireName = "rest"): Wire {
  const key = `${node.address} ${wireName}`;
  const wire = wires.get(key) ?? (wireName === "rest" ? restWire(node.address) : grpcWire(node.address));
  wires.set(key, wire);
  return wire;
}

let names = 0;
const freshName = (): string => `dist-${names++}`;

/** Makes a database that the node writes: a database's first write takes it. */
async function ownedBy(
  owner: ClusterNode,
  wire: WireName = "rest",
  headers: Record<string, string> = {},
): Promise<{ readonly db: string; readonly uuid: string }> {
  const db = freshName();
  const { uuid } = expectOk(await at(owner, wire).call("ControlService.CreateDatabase", { name: db })).body;
  expectOk(
    await at(owner, wire).call(
      "DataService.ExecuteSql",
      { db, stmts: [{ q: "CREATE TABLE rows (name TEXT PRIMARY KEY)" }] },
      headers,
    ),
  );
  return { db, uuid };
}

const insert = (wire: Wire, db: string, name: string, headers: Record<string, string> = {}): Promise<Reply> =>
  wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "INSERT INTO rows VALUES (?)", params: [name] }] }, headers);

async function rowsAt(wire: Wire, db: string, headers: Record<string, string> = {}): Promise<string[]> {
  const { body } = expectOk(
    await wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "SELECT name FROM rows ORDER BY name" }] }, headers),
  );
  return body.results[0].rows.flat();
}

const put = (
  wire: Wire,
  db: string,
  key: string,
  value: string,
  headers: Record<string, string> = {},
): Promise<Reply> => wire.call("DataService.PutValue", { db, ns: "n", key, value: Buffer.from(value) }, headers);

/** The value and the transaction id of the state; undefined when there is none. */
async function valueAt(
  wire: Wire,
  db: string,
  key: string,
  headers: Record<string, string> = {},
): Promise<{ readonly value: string | undefined; readonly txid: number }> {
  const reply = await wire.call("DataService.GetValue", { db, ns: "n", key }, headers);
  if (reply.code !== "not_found") expectOk(reply);
  return { value: reply.code === "ok" ? reply.body.toString() : undefined, txid: reply.txid! };
}

describe.skipIf(!hasCluster)(`a cluster of three${clusterNeed}`, () => {
  let cluster: Cluster;
  let a: ClusterNode, b: ClusterNode, c: ClusterNode;
  beforeAll(async () => {
    cluster = await Cluster.start();
    [a, b, c] = cluster.nodes as [ClusterNode, ClusterNode, ClusterNode];
  }, 120_000);
  afterAll(async () => {
    for (const wire of wires.values()) wire.close();
    wires.clear();
    await cluster?.end();
  });
  afterEach(() => cluster.heal(), 120_000);

  describe.each(wireNames)("over %s", (wireName) => {
    const of = (node: ClusterNode): Wire => at(node, wireName);

    test("dist-01: the first write takes ownership for the node that got it", async () => {
      for (const node of cluster.nodes) {
        const name = freshName();
        const { uuid } = expectOk(await of(a).call("ControlService.CreateDatabase", { name })).body;
        expect(await cluster.readWriter(uuid), "a database that nobody wrote has no writer").toBeUndefined();
        expect(expectOk(await put(of(node), name, "k", "v")).txid).toBe(1);
        expect(await cluster.readWriter(uuid)).toMatchObject({
          node: node.id,
          leaseEpoch: expect.any(Number),
          address: `http://127.0.0.1:${node.links.peers.port}`,
        });
      }
    });

    test("dist-02: a write sent to another node is forwarded, its txid relayed, and ownership stays", async () => {
      const { db, uuid } = await ownedBy(a, wireName);
      const before = await cluster.readWriter(uuid);
      expect(expectOk(await insert(of(b), db, "from b")).txid).toBe(2);
      expect(expectOk(await insert(of(c), db, "from c")).txid).toBe(3);
      expect(await rowsAt(of(a), db)).toEqual(["from b", "from c"]);
      expect(await cluster.readWriter(uuid)).toEqual(before);
      const refused = await insert(of(b), db, "from b");
      expect(refused, "the owner's refusal is relayed").toMatchObject({ code: "invalid_request", txid: 3 });
    });

    test("dist-05: an ingest on another node is forwarded and supersedes there", async () => {
      const profile = freshName();
      const first = expectOk(
        await ingest(of(a), "dist", profile, { topic_key: "colour", summary: "likes the colour red" }),
      );
      const uuid = await readUuid(of(b), `dist--${profile}`);
      const writer = await cluster.readWriter(uuid!);
      const second = expectOk(
        await ingest(of(b), "dist", profile, { topic_key: "colour", summary: "likes the colour blue" }),
      );
      expect(second.txid).toBeGreaterThan(first.txid!);
      expect(second.body.results).toMatchObject([{ status: "created", superseded: [first.body.results[0].id] }]);
      expect(await cluster.readWriter(uuid!)).toEqual(writer);
      for (const node of [a, b, c])
        expect(await summariesAt(of(node), "dist", profile, "colour", atLeast(second.txid))).toEqual([
          "likes the colour blue",
        ]);
    });

    test("dist-06: a replica wakes for a read and names its state; a Min-Txid read is never older", async () => {
      const { db } = await ownedBy(a, wireName, durable);
      const { txid } = expectOk(await put(of(a), db, "k", "old", durable));
      // Without a way to the writer, this is the other node's own doing.
      a.links.peers.cut();
      expect(await valueAt(of(c), db, "k")).toEqual({ value: "old", txid });
      const newer = expectOk(await put(of(a), db, "k", "new", durable));
      const asked = await valueAt(of(c), db, "k", atLeast(newer.txid));
      expect(asked.value).toBe("new");
      expect(asked.txid).toBeGreaterThanOrEqual(newer.txid!);
      expect((await valueAt(of(c), db, "k")).txid, "and never goes back").toBeGreaterThanOrEqual(newer.txid!);
    });

    test("dist-06: a plain read may be behind, as its state says; a primary read never is", async () => {
      const { db } = await ownedBy(a, wireName, durable);
      const { txid } = expectOk(await put(of(a), db, "k", "old", durable));
      expect((await valueAt(of(b), db, "k")).value).toBe("old");
      b.links.store.silence();
      const newer = expectOk(await put(of(a), db, "k", "new", durable));
      expect(await valueAt(of(b), db, "k")).toEqual({ value: "old", txid });
      const inQuery = expectOk(
        await of(b).call("DataService.GetValue", { db, ns: "n", key: "k", consistency: "primary" }),
      );
      expect(inQuery.body.toString()).toBe("new");
      expect(await valueAt(of(b), db, "k", primary)).toEqual({ value: "new", txid: newer.txid });
    });

    test("dist-11: what a call says reaches who answers it: durability, Min-Txid, consistency, branch", async () => {
      const { db } = await ownedBy(a, wireName, durable);
      const { txid, durableTxid } = expectOk(await put(of(b), db, "k", "v1", durable));
      expect(durableTxid).toBeGreaterThanOrEqual(txid!);
      const standard = expectOk(await put(of(b), db, "k", "v2"));
      expect(await valueAt(of(c), db, "k", primary), "as of the call").toEqual({ value: "v2", txid: standard.txid });
      expect(await put(of(b), db, "k", "v3", { "service-durability": "sometimes" })).toMatchObject({
        code: "invalid_request",
      });
      expect(
        await of(b).call("DataService.GetValue", { db, ns: "n", key: "k" }, { "service-consistency": "sometimes" }),
      ).toMatchObject({ code: "invalid_request" });
      const never = await of(b).call("DataService.GetValue", { db, ns: "n", key: "k" }, atLeast(1_000_000_000));
      expect(never, "what the writer has never given").toMatchObject({ code: "invalid_request" });
      expect(never.message).toContain(String(standard.txid));

      expectOk(await of(c).call("BranchService.CreateBranch", { db, name: "side" }));
      const onSide = expectOk(await put(of(b), db, "k", "on the side", { "service-branch": "side" }));
      for (const node of [a, b, c]) {
        expect((await valueAt(of(node), db, "k", { "service-branch": "side", ...atLeast(onSide.txid) })).value).toBe(
          "on the side",
        );
        expect((await valueAt(of(node), db, "k", atLeast(standard.txid))).value).toBe("v2");
      }
    });

    test("dist-07: of two nodes that create one name one wins, and the other has the winner's", async () => {
      for (let round = 0; round < 5; round++) {
        const name = freshName();
        const replies = await Promise.all(
          [a, b, c].map((node) => of(node).call("ControlService.CreateDatabase", { name })),
        );
        expect(replies.map(({ code }) => code).toSorted()).toEqual(["already_exists", "already_exists", "ok"]);
        const { uuid } = replies.find(({ code }) => code === "ok")!.body;
        for (const node of [a, b, c]) expect(await readUuid(of(node), name)).toBe(uuid);
        const loser = [a, b, c][replies.findIndex(({ code }) => code !== "ok")]!;
        const { txid } = expectOk(await put(of(loser), name, "k", "from the loser"));
        for (const node of [a, b, c])
          expect((await valueAt(of(node), name, "k", atLeast(txid))).value).toBe("from the loser");
      }
    });

    test("dist-08, dist-10: a profile made at all nodes at once is one; made again it is another", async () => {
      const profile = freshName();
      const all = (summary: string): Promise<Reply[]> =>
        Promise.all(
          [a, b, c].map((node) =>
            ingest(of(node), "dist", profile, { type: "event", summary: `${summary} of ${node.name}` }),
          ),
        );
      const made = await all("memory");
      const txid = Math.max(...made.map((reply) => expectOk(reply).txid!));
      const uuids = new Set(await Promise.all([a, b, c].map((node) => readUuid(of(node), `dist--${profile}`))));
      expect(uuids.size).toBe(1);
      for (const node of [a, b, c])
        expect(await summariesAt(of(node), "dist", profile, "memory", atLeast(txid))).toEqual([
          "memory of a",
          "memory of b",
          "memory of c",
        ]);

      expectOk(await of(a).call("ControlService.DeleteDatabase", { db: `dist--${profile}` }));
      const again = expectOk(
        await ingest(of(b), "dist", profile, { type: "event", summary: "memory after the deletion" }),
      );
      const uuid = await readUuid(of(b), `dist--${profile}`);
      expect(uuids.has(uuid)).toBe(false);
      for (const node of [a, b, c]) {
        await eventually(15_000, async () => {
          expect(await readUuid(of(node), `dist--${profile}`)).toBe(uuid);
          expect(await summariesAt(of(node), "dist", profile, "memory", atLeast(again.txid))).toEqual([
            "memory after the deletion",
          ]);
        });
      }
    });
  });

  test("dist-03: a node that stops lets go: the next write takes the database elsewhere, complete", async () => {
    const { db, uuid } = await ownedBy(a);
    expectOk(await insert(at(a), db, "by a"));
    const first = (await cluster.readWriter(uuid))!.leaseEpoch;
    await a.stop();
    expect(await cluster.readWriter(uuid)).toBeUndefined();
    expectOk(await insert(at(b), db, "by b or c"));
    const second = (await cluster.readWriter(uuid))!;
    expect(second.leaseEpoch).toBeGreaterThan(first);
    expect(await rowsAt(at(b), db, primary)).toEqual(["by a", "by b or c"]);
    await a.start();
    const { txid } = expectOk(await insert(at(a), db, "through a"));
    expect(await cluster.readWriter(uuid), "ownership does not come back by itself").toEqual(second);
    for (const node of [a, b, c])
      expect(await rowsAt(at(node), db, atLeast(txid))).toEqual(["by a", "by b or c", "through a"]);
  });

  test("dist-04, F52, F60: a node that lost its lease ships nothing more; the new owner's data stands", async () => {
    const { db, uuid } = await ownedBy(a, "rest", durable);
    expectOk(await insert(at(a), db, "kept", durable));
    a.links.store.silence();
    const dirty = expectOk(await insert(at(a), db, "dirty"));
    const before = (await cluster.readWriter(uuid))!;
    await cluster.revoke(before.leaseId);
    const taken = await eventually(15_000, async () => expectOk(await insert(at(b), db, "by the new owner", durable)));
    expect(taken.txid, "no transaction id is given twice").toBeGreaterThan(dirty.txid!);
    expect((await cluster.readWriter(uuid))!.leaseEpoch).toBeGreaterThan(before.leaseEpoch);
    expect(await cluster.findOwner(uuid)).not.toBe(a);
    a.links.store.restore();
    await pause(3_000);
    for (const node of [a, b, c]) {
      expect(await rowsAt(at(node), db, atLeast(taken.txid))).toEqual(["by the new owner", "kept"]);
      const lost = await at(node).call(
        "DataService.ExecuteSql",
        { db, stmts: [{ q: "SELECT 1" }] },
        atLeast(dirty.txid),
      );
      expect(lost, "what is lost is said to be lost").toMatchObject({ code: "conflict" });
    }
    const later = expectOk(await insert(at(a), db, "through the old owner"));
    expect(await rowsAt(at(c), db, atLeast(later.txid))).toEqual(["by the new owner", "kept", "through the old owner"]);
  });

  test("dist-11: an overtaken node acknowledges nothing more as durable; what was durable is there", async () => {
    const { db, uuid } = await ownedBy(a, "rest", durable);
    expectOk(await insert(at(a), db, "durable", durable));
    a.links.store.silence();
    a.links.coordination.cut();
    const late = insert(at(a), db, "late", durable);
    await cluster.revoke((await cluster.readWriter(uuid))!.leaseId);
    const { txid } = await eventually(15_000, async () =>
      expectOk(await insert(at(b), db, "by the new owner", durable)),
    );
    a.links.store.restore();
    expect((await late).code).not.toBe("ok");
    expect(await rowsAt(at(c), db, atLeast(txid))).toEqual(["by the new owner", "durable"]);
    const after = await insert(at(a), db, "without a lease");
    expect(after.code, "nor anything else, without a way to know who does").not.toBe("ok");
    expect(await rowsAt(at(c), db, primary)).toEqual(["by the new owner", "durable"]);
  });

  test("replica-01: once a replica has read, plain reads see what is shipped within 3 s, key by key", async () => {
    // Its file is sound, too.
    const { db } = await ownedBy(a, "rest", durable);
    for (const node of [b, c]) await rowsAt(at(node), db);
    for (let round = 0; round < 5; round++) {
      const keys = [0, 1, 2].map((key) => `${round}-${key}`);
      for (const key of keys) expectOk(await put(at(a), db, key, `value of ${key}`));
      for (const node of [b, c]) {
        for (const key of keys)
          await eventually(3_000, async () => expect((await valueAt(at(node), db, key)).value).toBe(`value of ${key}`));
      }
    }
    for (const node of [b, c]) {
      const { body } = expectOk(
        await at(node).call("DataService.ExecuteSql", { db, stmts: [{ q: "PRAGMA integrity_check" }] }),
      );
      expect(body.results[0].rows).toEqual([["ok"]]);
    }
  });

  test(
    "replica-02: writes across packs and new base images reach a replica without a download of everything",
    { timeout: 120_000 },
    async () => {
      const { db } = await ownedBy(a, "rest", durable);
      const largeBytes = 16 * 2 ** 20;
      // Random bytes, which no compression makes smaller.
      expectOk(await at(a).call("DataService.ExecuteSql", { db, stmts: [{ q: "CREATE TABLE large (b BLOB)" }] }));
      for (let part = 0; part < 16; part++)
        expectOk(
          await at(a).call(
            "DataService.ExecuteSql",
            { db, stmts: [{ q: "INSERT INTO large VALUES (randomblob(1048576))" }] },
            durable,
          ),
        );
      const { txid: from } = expectOk(await put(at(a), db, "k", "0", durable));
      expect((await valueAt(at(b), db, "k", atLeast(from))).value).toBe("0");
      const before = b.links.store.passed.answers;
      for (let step = 1; step <= 120; step++) {
        expectOk(await put(at(a), db, "k", String(step), durable));
        if (step % 10 === 0) await valueAt(at(b), db, "k");
      }
      await eventually(5_000, async () => expect((await valueAt(at(b), db, "k")).value).toBe("120"));
      expect(b.links.store.passed.answers - before).toBeLessThan(largeBytes / 2);
    },
  );

  test(
    "replica-03, F61: a write under a lease epoch that is over is turned away and answered by the new owner",
    { timeout: 120_000 },
    async () => {
      const databases = await Promise.all(Array.from({ length: 8 }, () => ownedBy(a, "rest", durable)));
      // Now c knows a as the owner of all of them.
      const leaseEpochs = new Map(
        await Promise.all(
          databases.map(async ({ uuid }) => [uuid, (await cluster.readWriter(uuid))!.leaseEpoch] as const),
        ),
      );
      for (const { db } of databases) expectOk(await insert(at(c), db, "first", durable));
      await a.stop();
      for (const { db } of databases) expectOk(await insert(at(b), db, "second", durable));
      await a.start();
      // Who takes a database is a matter of its uuid; one that c took itself is not forwarded.
      const owners = await Promise.all(databases.map(({ uuid }) => cluster.findOwner(uuid)));
      const forwarded = databases.filter((_, index) => owners[index] === b);
      expect(forwarded.length).toBeGreaterThan(0);
      for (const { db, uuid } of forwarded) {
        const { txid } = expectOk(await insert(at(c), db, "third"));
        const writer = (await cluster.readWriter(uuid))!;
        expect(writer.node).toBe(b.id);
        expect(writer.leaseEpoch).toBeGreaterThan(leaseEpochs.get(uuid)!);
        for (const node of [a, b, c])
          expect(await rowsAt(at(node), db, atLeast(txid)), node.name).toEqual(["first", "second", "third"]);
      }
    },
  );
});
