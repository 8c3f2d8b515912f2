/**
 * A rolling upgrade of a cluster across the change of what nodes say to each other: nodes of the build before, which
 * know structured clones of V8 alone, and nodes of this build, each as the caller and as the writer, and back again.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Build, Cluster, clusterNeed, eventually, hasCluster, type ClusterNode } from "../support/cluster.ts";
import { inGate } from "../support/gate.ts";
import { buildEntry, clonesOnlyCommit, hasReleasedBuild } from "../support/released-build.ts";
import { sampleRequests, unserved } from "../support/requests.ts";
import { grpcWire, restWire, type Reply, type Wire } from "../support/wires.ts";

const durable = { "service-durability": "durable" };
/** Answered by the writer alone: from any other node, the call is forwarded. */
const primary = { "service-consistency": "primary" };
/** A Node.js of another major version, such as that which an upgrade goes to. */
const otherNode = process.env["PALIMPSEST_OTHER_NODE"];
const otherNodeNeed = otherNode ? "" : " (skipped: PALIMPSEST_OTHER_NODE names no Node.js of another major version)";
const hasHistory = inGate || hasReleasedBuild(clonesOnlyCommit);
const historyNeed = hasHistory ? "" : " (skipped: the history of this clone does not reach back to the build before)";

function expectOk(reply: Reply): Reply {
  expect(reply, reply.message).toMatchObject({ code: "ok" });
  return reply;
}

/** The interface of an older build, as its proto files have it. */
class OlderInterface {
  readonly #text: string;

  constructor(folder: string) {
    const protos = join(folder, "proto/palimpsest/v1");
    this.#text = readdirSync(protos)
      .map((name) => readFileSync(join(protos, name), "utf8"))
      .join("\n");
  }

  hasMethod(name: string): boolean {
    return this.#text.includes(`rpc ${name.slice(name.indexOf(".") + 1)}(`);
  }

  /** The method's request, and each of its memories, without fields that came later. */
  known(method: string, request: object): any {
    return this.#known(`${method.slice(method.indexOf(".") + 1)}Request`, request);
  }

  #known(message: string, value: object): any {
    const [declared = ""] = new RegExp(`^message ${message} \\{[^]*?^\\}`, "m").exec(this.#text) ?? [];
    const fields = Object.entries(value).filter(([name]) => new RegExp(`\\b${name} = \\d`).test(declared));
    return Object.fromEntries(
      fields.map(([name, inner]) => [
        name,
        name === "memories" ? inner.map((one: object) => this.#known("MemoryInput", one)) : inner,
      ]),
    );
  }
}

/** A database that a node writes, and what has been written into it. */
interface Owned {
  readonly db: string;
  readonly uuid: string;
  readonly keys: string[];
}

describe.skipIf(!hasCluster || !hasHistory)(
  `a rolling upgrade from nodes that forward structured clones${clusterNeed}${historyNeed}`,
  { timeout: 300_000 },
  () => {
    const folder = mkdtempSync(join(tmpdir(), "palimpsest-upgrade-"));
    let cluster: Cluster;
    let a: ClusterNode, b: ClusterNode;
    let before: string;
    let older: OlderInterface;
    let turns = 0;
    const written: Owned[] = [];
    beforeAll(async () => {
      expect(hasReleasedBuild(clonesOnlyCommit), "the history of this clone reaches back to the build before").toBe(
        true,
      );
      before = buildEntry(join(folder, "before"), clonesOnlyCommit);
      older = new OlderInterface(join(folder, "before"));
      cluster = await Cluster.start({ nodes: 2, entry: before, linked: false });
      [a, b] = cluster.nodes as [ClusterNode, ClusterNode];
    });
    afterAll(async () => {
      await cluster?.end();
      rmSync(folder, { recursive: true, force: true });
    });

    const rest = (node: ClusterNode): Wire => restWire(node.address);

    /** Makes a database that the node writes: a database's first write takes it. */
    async function ownedBy(owner: ClusterNode, name = `upgrade-${turns++}`): Promise<Owned> {
      const { uuid } = expectOk(await rest(owner).call("ControlService.CreateDatabase", { name })).body;
      expectOk(await put(owner, name, "first", "by its writer"));
      expect(await cluster.findOwner(uuid)).toBe(owner);
      const owned = { db: name, uuid, keys: ["first"] };
      written.push(owned);
      return owned;
    }

    const put = (node: ClusterNode, db: string, key: string, value: string | Uint8Array): Promise<Reply> =>
      rest(node).call("DataService.PutValue", { db, ns: "kept", key, value: Buffer.from(value) }, durable);

    /** Whatever can be asked of a database, through the other node. */
    async function exercise(caller: ClusterNode, owner: ClusterNode): Promise<void> {
      const { db, uuid, keys } = await ownedBy(owner);
      const profile = { ns: "upgrade", profile: `p${turns++}` };
      const samples = sampleRequests(db, profile);
      expectOk(
        await rest(owner).call(
          "MemoryService.Ingest",
          older.known("MemoryService.Ingest", samples.get("MemoryService.Ingest")!),
        ),
      );
      for (const wire of [rest(caller), grpcWire(caller.address)]) {
        for (const [method, request] of samples) {
          if (method.startsWith("ControlService.") || unserved.has(method) || !older.hasMethod(method)) continue;
          const reply = await wire.call(method, older.known(method, request), primary);
          // Some ask for what is not there, or has been made by the wire before.
          expect([method, reply.code, reply.message]).toEqual([
            method,
            expect.stringMatching(/^(?:ok|not_found|conflict)$/),
            reply.message,
          ]);
        }
      }
      await exerciseData(caller, db, keys);
      await exerciseBranches(caller, db);
      expect(await cluster.findOwner(uuid)).toBe(owner);
      await exerciseMemory(caller, owner);
    }

    async function exerciseData(caller: ClusterNode, db: string, keys: string[]): Promise<void> {
      const wire = rest(caller);
      const large = new Uint8Array(3 * 1024 * 1024).map((_, at) => at * 7);
      expectOk(await put(caller, db, "large", large));
      keys.push("large");
      const read = expectOk(await wire.call("DataService.GetValue", { db, ns: "kept", key: "large" }, primary));
      expect(Buffer.compare(read.body, large)).toBe(0);
      const sql = async (q: string, params: readonly unknown[] = []): Promise<any> =>
        expectOk(await wire.call("DataService.ExecuteSql", { db, stmts: [{ q, params }] }, primary)).body.results[0];
      await sql("CREATE TABLE t (id INTEGER PRIMARY KEY, x, y)");
      expect(await sql("INSERT INTO t VALUES (?, ?, ?)", [7, "Grüße \u{1f375}", null])).toMatchObject({
        rows_affected: 1,
        last_insert_rowid: 7,
      });
      expect((await sql("SELECT * FROM t")).rows).toEqual([[7, "Grüße \u{1f375}", null]]);
      const wrong = await wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "SELECT missing" }] }, primary);
      expect([wrong.code, wrong.message]).toEqual(["invalid_request", expect.stringContaining("no such column")]);
      const vector = { db, coll: "near", id: "v", embedding: [0.25, -1e30], metadata: { a: 1 } };
      expectOk(await wire.call("DataService.UpsertVector", vector));
      const found = expectOk(await wire.call("DataService.GetVector", { db, coll: "near", id: "v" }, primary));
      expect(found.body).toMatchObject({ id: "v", embedding: [0.25, Math.fround(-1e30)], metadata: { a: 1 } });
    }

    async function exerciseBranches(caller: ClusterNode, db: string): Promise<void> {
      const wire = rest(caller);
      const main = { db, branch: "main" };
      const call = async (method: string, request: object): Promise<any> =>
        expectOk(await wire.call(`BranchService.${method}`, request, primary)).body;
      await call("CreateCheckpoint", { ...main, name: "then" });
      await call("CreateBranch", { db, name: "fork", from: "main", ttl: 3_600 });
      expectOk(await put(caller, `${db}@fork`, "forked", "on the fork"));
      const { branches } = await call("ListBranches", { db });
      expect(branches.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining(["fork", "main"]));
      expectOk(await put(caller, db, "rewound", "gone in a moment"));
      await call("RewindBranch", { ...main, to: "then" });
      expect((await wire.call("DataService.GetValue", { db, ns: "kept", key: "rewound" }, primary)).code).toBe(
        "not_found",
      );
      await call("DeleteBranch", { db, branch: "fork" });
      const gone = await wire.call("BranchService.DeleteBranch", { db, branch: "fork" });
      expect(gone.code).toBe("branch_not_found");
    }

    async function exerciseMemory(caller: ClusterNode, owner: ClusterNode): Promise<void> {
      const at = { ns: "upgrade", profile: `m${turns++}` };
      const ingest = (node: ClusterNode, summary: string): Promise<Reply> =>
        rest(node).call(
          "MemoryService.Ingest",
          { ...at, memories: [{ type: "fact", topic_key: "t", summary, content: { n: 1 }, embedding: [1, 0.5] }] },
          durable,
        );
      expectOk(await ingest(owner, "by the writer"));
      const { results } = expectOk(await ingest(caller, "through the other")).body;
      expect(results).toMatchObject([{ status: "created", superseded: [expect.any(String)] }]);
      const asked = { ...at, embedding: [1, 0.5], topic_key: "t", include_superseded: true, explain: true };
      const { memories } = expectOk(await rest(caller).call("MemoryService.Recall", asked, primary)).body;
      expect(memories.map(({ summary }: { summary: string }) => summary)).toEqual([
        "through the other",
        "by the writer",
      ]);
      expectOk(await rest(caller).call("MemoryService.CreateErasure", { ...at, topic_key: "t", type: "fact" }));
    }

    /** What was acknowledged, as both nodes read it, whichever of them writes it by now. */
    async function expectKept(): Promise<void> {
      for (const node of [a, b]) {
        for (const { db, keys } of written) {
          const reply = await eventually(30_000, async () => {
            const listed = await rest(node).call("DataService.ListKeys", { db, ns: "kept" }, primary);
            if (listed.code === "unavailable") throw new Error(listed.message);
            return expectOk(listed);
          });
          expect(reply.body.keys).toEqual(expect.arrayContaining(keys));
        }
      }
    }

    /** Restarts a node as another build while its neighbour's clients go on. */
    async function upgrade(node: ClusterNode, other: ClusterNode, build?: Build): Promise<void> {
      const { db } = await ownedBy(node);
      let isOver = false;
      let accepted = 0;
      // So few keys that a listing has them all on its first page.
      const during = (count: number): string => `during-${count % 50}`;
      const writing = (async () => {
        while (!isOver) {
          const { code } = await put(other, db, during(accepted), "x");
          if (code === "ok") accepted++;
          expect(["ok", "unavailable", "overloaded"]).toContain(code);
          await pause(20);
        }
      })();
      await node.restartAs(build);
      await cluster.whole();
      await eventually(30_000, async () => void expectOk(await put(node, db, "after", "x")));
      isOver = true;
      await writing;
      expect(accepted).toBeGreaterThan(0);
      written.find((owned) => owned.db === db)!.keys.push("after", during(accepted - 1));
    }

    test("old nodes forward to each other", () => exercise(a, b));

    test("one is upgraded: the new one forwards to the old one, and the old one to the new one", async () => {
      await upgrade(b, a);
      await exercise(a, b);
      await exercise(b, a);
      await expectKept();
    });

    test("the upgrade is taken back and done again", async () => {
      await upgrade(b, a, { entry: before });
      await exercise(a, b);
      await upgrade(b, a);
      await exercise(b, a);
      await expectKept();
    });

    test("the other one is upgraded too: new ones forward to each other", async () => {
      await upgrade(a, b);
      await exercise(a, b);
      await exercise(b, a);
      await expectKept();
      for (const node of [a, b]) expect(node.log()).not.toMatch(/fault of ours|refuses this one|malformed/);
    });

    test.skipIf(!otherNode)(`Node.js is upgraded, one node after the other${otherNodeNeed}`, async () => {
      const version = execFileSync(otherNode!, ["-p", "process.versions.v8"], { encoding: "utf8" });
      expect(parseInt(version)).not.toBe(parseInt(process.versions.v8));
      await upgrade(b, a, { runtime: otherNode! });
      await exercise(a, b);
      await exercise(b, a);
      await upgrade(a, b, { runtime: otherNode! });
      await exercise(a, b);
      await expectKept();
      for (const node of [a, b]) expect(node.log()).not.toMatch(/fault of ours|refuses this one|malformed/);
    });

    test.skipIf(!otherNode)(
      `a node of the build before, on another V8, is not forwarded to, and clients are told why${otherNodeNeed}`,
      async () => {
        await a.restartAs({ entry: before });
        await cluster.whole();
        const { db } = await ownedBy(a);
        const refused = await put(b, db, "refused", "x");
        expect([refused.code, refused.message]).toEqual(["unavailable", expect.stringContaining("different builds")]);
        await upgrade(a, b);
        await exercise(b, a);
        await expectKept();
      },
    );
  },
);
