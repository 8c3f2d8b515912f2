/** What a node does by the policies of namespaces and profiles, over both wires and as time goes by. */
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { namespacePolicyKey } from "../../src/format/keys/object-keys.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { namespacesOn } from "../support/governed-namespace.ts";
import { clockAhead } from "../support/moved-clock.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { ok, startService, useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames, type Reply } from "../support/wires.ts";
import { pitrSecsDefault } from "../../src/server/config/settings.ts";

const service = useService();
const onBoth = test.each(wireNames);
const newNamespace = namespacesOn(service);
onBoth(
  "governance-06 over %s: the lifetime of a task is cut to the policy's, said or not; a shorter one is left",
  async (wire) => {
    const ns = newNamespace(wire);
    await ok(ns.put({ memory: { task_ttl_max_secs: 600 } }));
    await ok(ns.putProfile("strict", { memory: { task_ttl_max_secs: 60 } }));
    const lifetimes = async (profile: string): Promise<number[]> => {
      const ids = await ns.ingest(
        profile,
        ...[{ summary: "said", ttl: 99_999 }, { summary: "default" }, { summary: "short", ttl: 120 }].map((task) => ({
          ...task,
          type: "task",
        })),
        { summary: "a fact" },
      );
      const found = await Promise.all(ids.map(async (id) => (await ok(ns.call("GetMemory", profile, { id }))).body));
      return found.map(({ expires_at: expiresAt, created_at: createdAt }) =>
        expiresAt === null || expiresAt === undefined ? 0 : (expiresAt - createdAt) / 1_000,
      );
    };
    expect(await lifetimes("alice")).toEqual([600, 600, 120, 0]);
    expect(await lifetimes("strict")).toEqual([60, 60, 60, 0]);
    // At once after a change on the node that serves it, and none without a policy.
    await ok(ns.put({ memory: { task_ttl_max_secs: 300 } }));
    expect(await lifetimes("later")).toEqual([300, 300, 120, 0]);
    await ok(ns.put(null));
    expect(await lifetimes("free")).toEqual([99_999, 86_400, 120, 0]);
  },
);

onBoth(
  "governance-08 over %s: of three generations, superseded_max_count 1 lets exactly the oldest superseded one go",
  async (wire) => {
    const [ns, other] = [newNamespace(wire), newNamespace(wire)];
    await ok(ns.put({ memory: { superseded_max_count: 1 } }));
    for (const each of [ns, other])
      await each.ingest("alice", ...["v1", "v2", "v3"].map((summary) => ({ summary, topic_key: "plan" })));
    await expect.poll(() => ns.summaries("alice", { topic_key: "plan" }), { timeout: 10_000 }).toEqual(["v2", "v3"]);
    expect(await other.summaries("alice", { topic_key: "plan" })).toEqual(["v1", "v2", "v3"]);
  },
);

onBoth("over %s: purge_on_forget makes a coupon of each forget, and of no other deletion", async (wire) => {
  const ns = newNamespace(wire);
  await ok(ns.put({ erasure: { purge_on_forget: true, grace_secs: 3_600 } }));
  const db = `${ns.name}--alice`;
  const data = (method: string, request: object): Promise<Reply> => ok(ns.wire.call(method, { db, ...request }));
  const coupons = async (): Promise<number> => (await ok(ns.call("ListErasures", "alice"))).body.erasures.length;
  const [one, two, three, four] = await ns.ingest(
    "alice",
    { summary: "forgotten" },
    { summary: "rejected", status: "proposed" },
    { summary: "kept" },
    { summary: "kept too", status: "proposed" },
    { summary: "task of the session", type: "task", session_id: "s" },
  );
  for (const content of ["a", "b", "c"]) await data("DataService.AppendTurn", { session: "s", role: "user", content });
  await data("DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("x") });

  await ok(ns.call("ForgetMemory", "alice", { id: one }));
  expect(await coupons()).toBe(1);
  await ok(ns.call("ReviewMemory", "alice", { ids: [two], verdict: "reject" }));
  expect(await coupons()).toBe(2);
  for (const [method, request] of [
    ["ForgetMemories", { filter: {} }],
    ["ReviewMemory", { ids: [three, four], verdict: "reject" }],
  ] as const)
    expect(await ns.call(method, "alice", request)).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("erasure.purge_on_forget"),
    });

  await data("DataService.DeleteTurns", { session: "s", last: 1 });
  await data("DataService.DeleteValue", { ns: "n", key: "k" });
  await ok(ns.call("EndSession", "alice", { sid: "s", turns: true }));
  expect((await data("DataService.ListTurns", { session: "s" })).body.turns).toEqual([]);
  expect(await ns.summaries("alice", { query: "task of the session", types: ["task"] })).toEqual([]);
  expect(await coupons()).toBe(2);
});

describe.each(wireNames)("governance-09 and governance-10 over %s", (wire) => {
  test.each([
    ["Ask", "ai_egress.ask", { question: "who?" }],
    ["Extract", "ai_egress.extract", { turns: [{ role: "user", content: "x" }] }],
  ])("%s that policy denies is 403 naming the field; else it is not configured", async (method, field, request) => {
    // Not configured for another use and another namespace, too.
    const [ns, other] = [newNamespace(wire), newNamespace(wire)];
    await ns.ingest("alice", { summary: "data exists" });
    await ok(ns.put({ ai_egress: { [field.slice("ai_egress.".length)]: "deny" } }));
    for (const profile of ["alice", "nobody"])
      expect(await ns.call(method, profile, request)).toMatchObject({
        code: "forbidden",
        message: expect.stringContaining(field),
      });
    expect((await other.call(method, "alice", request)).code).toBe("unconfigured");
    await ok(ns.put({}));
    expect((await ns.call(method, "alice", request)).code).toBe("unconfigured");
    // A profile denies it for itself.
    await ok(ns.putProfile("bob", { ai_egress: { [field.slice("ai_egress.".length)]: "deny" } }));
    expect([(await ns.call(method, "bob", request)).code, (await ns.call(method, "alice", request)).code]).toEqual([
      "forbidden",
      "unconfigured",
    ]);
    expect((await ns.call(method, "not--one", request)).code).toBe("invalid_request");
  });
});

test("governance-13: a corrupt policy sends no text, stops no read or write, and is mended by a put", async () => {
  const directory = temporaryDirectory();
  const node = await startService({ SERVICE_POLICY_CACHE_SECS: "0" }, directory);
  onTestFinished(() => node.close());
  const ns = newNamespace(node.wire("rest"));
  await ok(ns.put({ memory: { task_ttl_max_secs: 600 } }));
  const store = await FileStore.open(join(directory, "objects"), realWorld());
  const object = await store.get(namespacePolicyKey(ns.name));
  await store.put(namespacePolicyKey(ns.name), Buffer.from("not a policy"), {
    kind: "version",
    version: object!.version,
  });
  expect(await ns.call("Ask", "alice", { question: "who?" })).toMatchObject({
    code: "unavailable",
    message: expect.stringContaining("ai_egress.ask"),
  });
  await ns.ingest("alice", { summary: "a fact" }, { summary: "a task", type: "task" });
  expect(await ns.summaries("alice", { query: "fact" })).toContain("a fact");
  expect((await ns.get()).code).toBe("internal");
  await ok(ns.put({ ai_egress: { ask: "deny" } }));
  expect((await ns.call("Ask", "alice", { question: "who?" })).code).toBe("forbidden");
});

test("a change is enforced on another node within the cache's time", async () => {
  const objects = `file://${temporaryDirectory()}`;
  const variables = { SERVICE_OBJECT_STORE: objects, SERVICE_POLICY_CACHE_SECS: "1" };
  const [here, there] = [await startService(variables), await startService(variables)];
  onTestFinished(async () => void (await Promise.all([here.close(), there.close()])));
  const ns = newNamespace(here.wire("rest"));
  const elsewhere = (): Promise<Reply> =>
    there.wire("rest").call("MemoryService.Ask", { ns: ns.name, profile: "alice", question: "who?" });
  expect((await elsewhere()).code).toBe("unconfigured");
  await ok(ns.put({ ai_egress: { ask: "deny" } }));
  expect((await ns.call("Ask", "alice", { question: "who?" })).code).toBe("forbidden");
  await expect.poll(async () => (await elsewhere()).code, { timeout: 3_000 }).toBe("forbidden");
});

describe("as time goes by", () => {
  /** A node of its own process on the directory, with its clock so far ahead. */
  async function at<Value>(
    directory: string,
    aheadSecs: number,
    act: (node: NodeProcess) => Promise<Value>,
  ): Promise<Value> {
    const node = await startNodeProcess(directory, { SERVICE_CONTROL_RATE: "10000", ...clockAhead(aheadSecs) });
    try {
      return await act(node);
    } finally {
      await node.end("SIGTERM");
    }
  }

  async function done(answer: ReturnType<NodeProcess["call"]>): Promise<any> {
    const { status, text, json } = await answer;
    expect(status, text).toBeLessThan(300);
    return json;
  }

  test(
    "governance-07: the window of a profile is the shortest of its own, its namespace's and the node's",
    { timeout: 60_000 },
    async () => {
      const directory = temporaryDirectory();
      const databases = ["acme--strict", "acme--plain", "other--p", "plain"];
      await at(directory, 0, async (node) => {
        await done(node.call("PUT", "/v1/namespaces/acme/policy", { policy: { retention: { pitr_secs: 1200 } } }));
        await done(node.call("PUT", "/v1/memory/acme/strict/policy", { policy: { retention: { pitr_secs: 600 } } }));
        await done(node.call("POST", "/v1/databases", { name: "plain" }));
        for (const [ns, profile] of [
          ["acme", "strict"],
          ["acme", "plain"],
          ["other", "p"],
        ])
          await done(
            node.call("POST", `/v1/memory/${ns}/${profile}/memories`, {
              memories: [{ type: "fact", summary: "one", content: {} }],
            }),
          );
        await done(node.call("PUT", "/v1/db/plain/kv/n/one", "1", { "content-type": "text/plain" }));
        for (const database of databases) {
          await done(node.call("POST", `/v1/db/${database}/sync`));
          await done(node.call("PUT", `/v1/db/${database}/kv/n/two`, "2", { "content-type": "text/plain" }));
          await done(node.call("POST", `/v1/db/${database}/sync`));
        }
      });
      const reach = (aheadSecs: number): Promise<number[]> =>
        at(directory, aheadSecs, (node) =>
          Promise.all(
            databases.map(
              async (database) =>
                (await node.call("POST", `/v1/db/${database}/branches`, { name: `after${aheadSecs}`, at: "1" })).status,
            ),
          ),
        );
      expect(await reach(900)).toEqual([404, 201, 201, 201]);
      expect(await reach(1500)).toEqual([404, 404, 201, 201]);
      expect(await reach(pitrSecsDefault + 60)).toEqual([404, 404, 404, 404]);
    },
  );

  test(
    "governance-14: the caps of age let go of old events and of what was superseded long ago, and of nothing else",
    { timeout: 60_000 },
    async () => {
      const directory = temporaryDirectory();
      const memories = "/v1/memory/acme/alice/memories";
      const ingest = (node: NodeProcess, ...batch: readonly object[]): Promise<any> =>
        done(
          node.call("POST", memories, { memories: batch.map((memory) => ({ type: "fact", content: {}, ...memory })) }),
        );
      const recall = async (node: NodeProcess, request: object): Promise<string[]> =>
        (
          await done(
            node.call("POST", "/v1/memory/acme/alice/recall", { include_superseded: true, k: 100, ...request }),
          )
        ).memories
          .map(({ summary }: { summary: string }) => summary)
          .sort();
      const all = async (node: NodeProcess): Promise<string[]> => [
        ...(await recall(node, { topic_key: "plan" })),
        ...(await recall(node, { query: "memorable" })),
      ];
      await at(directory, 0, async (node) => {
        await ingest(
          node,
          { type: "event", summary: "old memorable event" },
          { summary: "old memorable fact" },
          { summary: "v1", topic_key: "plan" },
          { summary: "v2", topic_key: "plan" },
        );
      });
      await at(directory, 1000, async (node) => {
        await done(
          node.call("PUT", "/v1/namespaces/acme/policy", {
            policy: { memory: { event_max_age_secs: 600, superseded_max_age_secs: 600 } },
          }),
        );
        // The first write of a node to a database is followed by a sweep.
        await ingest(node, { type: "event", summary: "young memorable event" }, { summary: "v3", topic_key: "plan" });
        await expect
          .poll(() => all(node), { timeout: 10_000 })
          .toEqual(["v2", "v3", "old memorable fact", "young memorable event"]);
      });
    },
  );
});
