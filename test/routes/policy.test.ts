/** Governance over both wires: policies of namespaces and profiles, and what a node does by them. */
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { namespacePolicyKey } from "../../src/format/keys/object-keys.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { platformKey } from "../support/credentials.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { clockAhead } from "../support/moved-clock.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { ok, startService, useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames, type Reply, type Wire, type WireName } from "../support/wires.ts";
import { policyBytesMax } from "../../src/format/records/policy.ts";
import { pitrSecsDefault } from "../../src/server/config/settings.ts";

const service = useService();
const onBoth = test.each(wireNames);

let namespaces = 0;

/** A namespace of one test, by one wire. */
class Namespace {
  readonly name = `ns${++namespaces}`;
  readonly wire: Wire;

  constructor(wire: WireName | Wire) {
    this.wire = typeof wire === "string" ? service().wire(wire) : wire;
  }

  put(policy: unknown): Promise<Reply> {
    return this.wire.call("ControlService.PutNamespacePolicy", { ns: this.name, policy });
  }

  get(): Promise<Reply> {
    return this.wire.call("ControlService.GetNamespacePolicy", { ns: this.name });
  }

  putProfile(profile: string, policy: unknown): Promise<Reply> {
    return this.call("PutProfilePolicy", profile, { policy });
  }

  getProfile(profile: string): Promise<Reply> {
    return this.call("GetProfilePolicy", profile);
  }

  call(method: string, profile: string, request: object = {}): Promise<Reply> {
    return this.wire.call(`MemoryService.${method}`, { ns: this.name, profile, ...request });
  }

  async ingest(profile: string, ...memories: readonly object[]): Promise<string[]> {
    const { body } = await ok(
      this.call("Ingest", profile, { memories: memories.map((memory) => ({ type: "fact", content: {}, ...memory })) }),
    );
    return body.results.map(({ id }: { id: string }) => id);
  }

  async summaries(profile: string, request: object): Promise<string[]> {
    const { body } = await ok(this.call("Recall", profile, { include_superseded: true, k: 100, ...request }));
    return body.memories.map(({ summary }: { summary: string }) => summary).sort();
  }
}

onBoth(
  "governance-01 over %s: a namespace has no policy, then one, then another, then none: each with its revision",
  async (wire) => {
    const ns = new Namespace(wire);
    expect(await ns.get()).toMatchObject({ code: "not_found", message: expect.stringContaining(ns.name) });
    const policy = {
      retention: { pitr_secs: 3600 },
      ai_egress: { ask: "deny" },
      team: { cost_centre: 7, tags: ["a", null] },
    };
    const first = await ok(ns.put(policy));
    const { warnings, ...stored } = first.body;
    expect(stored).toEqual({ namespace: ns.name, revision: 1, updated_at: expect.any(Number), policy });
    expect(warnings).toEqual(["team is not known to this node, and enforces nothing"]);
    expect((await ok(ns.get())).body).toEqual(stored);
    const second = await ok(ns.put({ memory: { task_ttl_max_secs: 600 } }));
    expect(second.body).toMatchObject({ revision: 2, policy: { memory: { task_ttl_max_secs: 600 } } });
    expect(second.body.policy).not.toHaveProperty("retention");
    expect(second.body.updated_at).toBeGreaterThanOrEqual(first.body.updated_at);
    expect((await ok(ns.put(null))).body).toMatchObject({ revision: 3, policy: null });
    expect((await ok(ns.get())).body).toMatchObject({ revision: 3, policy: null });
  },
);

test("governance-01: the status is 200 for every put, and both wires see the same policy", async () => {
  const ns = new Namespace("rest");
  for (const policy of [{ retention: { pitr_secs: 60 } }, {}, null]) {
    expect((await service().call("PUT", `/v1/namespaces/${ns.name}/policy`, { policy })).status).toBe(200);
  }
  await ok(ns.put({ memory: { superseded_max_count: 3 }, other: "kept" }));
  const [rest, grpc] = await Promise.all(
    wireNames.map(
      async (wire) => (await service().wire(wire).call("ControlService.GetNamespacePolicy", { ns: ns.name })).body,
    ),
  );
  expect(rest).toEqual(grpc);
});

onBoth(
  "governance-02 over %s: a profile's view folds the node's ceilings in, whether or not the profile exists",
  async (wire) => {
    const ns = new Namespace(wire);
    await ok(
      ns.put({ retention: { pitr_secs: 3600 }, memory: { task_ttl_max_secs: 600 }, ai_egress: { extract: "deny" } }),
    );
    const { body } = await ok(ns.getProfile("alice"));
    expect(body).toEqual({
      namespace: ns.name,
      profile: "alice",
      override: null,
      revision: 0,
      effective: {
        "retention.pitr_secs": 3600,
        "memory.task_ttl_max_secs": 600,
        "ai_egress.extract": "deny",
        "ai_egress.ask": "allow",
        "ai_egress.embed": "allow",
        "audit.enabled": false,
        "audit.include_reads": false,
        "audit.include_data": false,
        "erasure.grace_secs": 86_400,
        "erasure.purge_on_forget": false,
      },
    });
    // What no policy sets is the node's; what a policy sets beyond the node's is the node's too.
    expect((await ok(new Namespace(wire).getProfile("alice"))).body.effective["retention.pitr_secs"]).toBe(
      pitrSecsDefault,
    );
    await ok(ns.put({ retention: { pitr_secs: pitrSecsDefault * 2 } }));
    expect((await ok(ns.getProfile("alice"))).body.effective["retention.pitr_secs"]).toBe(pitrSecsDefault);
    expect((await ok(ns.wire.call("MemoryService.ListProfiles", { ns: ns.name }))).body.profiles).toEqual([]);
  },
);

onBoth("governance-03 over %s: what a policy cannot say is 400, naming the field and what is allowed", async (wire) => {
  const ns = new Namespace(wire);
  const wrong: [unknown, string][] = [
    [{ retention: { pitr_secs: 1 } }, "retention.pitr_secs must be a whole number of seconds, at least 60"],
    [{ memory: { superseded_max_count: 0 } }, "memory.superseded_max_count must be a whole number, at least 1"],
    [{ ai_egress: { ask: "sometimes" } }, "ai_egress.ask must be one of allow, self_hosted_only, deny"],
    [{ audit: { enabled: "yes" } }, "audit.enabled must be true or false"],
    [{ memory: [] }, "memory must be an object"],
    ["deny", "policy must be an object, or null"],
    [{ note: "x".repeat(policyBytesMax) }, "policy must be at most"],
  ];
  for (const [policy, message] of wrong) {
    expect(await ns.put(policy)).toMatchObject({ code: "invalid_request", message: expect.stringContaining(message) });
    expect((await ns.putProfile("alice", policy)).code).toBe("invalid_request");
  }
  expect(await ns.putProfile("alice", { audit: { enabled: true } })).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("audit.enabled"),
  });
  for (const name of ["Upper", "a--b", "end-"])
    expect((await ns.wire.call("ControlService.PutNamespacePolicy", { ns: name, policy: {} })).code).toBe(
      "invalid_request",
    );
  expect((await ns.get()).code).toBe("not_found");
  if (wire === "rest")
    expect(await service().call("PUT", `/v1/namespaces/${ns.name}/policy`, {})).toMatchObject({ status: 400 });
  if (wire === "rest")
    expect(
      await service().call("PUT", `/v1/namespaces/${ns.name}/policy`, '{"policy":{"n":9007199254740993}}', {
        "content-type": "application/json",
      }),
    ).toMatchObject({ status: 400 });
});

onBoth(
  "governance-04 over %s: an override that loosens is 409 naming every field; one that tightens holds for " +
    "its profile alone",
  async (wire) => {
    const ns = new Namespace(wire);
    await ok(ns.put({ retention: { pitr_secs: 3600 }, ai_egress: { ask: "self_hosted_only", embed: "deny" } }));
    const refused = await ns.putProfile("alice", {
      retention: { pitr_secs: 7200 },
      ai_egress: { ask: "deny", embed: "allow" },
    });
    expect(refused).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("retention.pitr_secs, ai_egress.embed"),
    });
    expect(refused.message).not.toContain("ai_egress.ask");
    const override = {
      retention: { pitr_secs: 600 },
      ai_egress: { ask: "deny" },
      memory: { superseded_max_count: 4 },
      mine: true,
    };
    expect((await ok(ns.putProfile("alice", override))).body).toMatchObject({
      override,
      revision: 1,
      effective: { "retention.pitr_secs": 600, "ai_egress.ask": "deny", "memory.superseded_max_count": 4 },
    });
    expect((await ok(ns.getProfile("alice"))).body).toMatchObject({
      override,
      revision: 1,
      effective: { "ai_egress.embed": "deny" },
    });
    expect((await ok(ns.getProfile("bob"))).body).toMatchObject({
      override: null,
      effective: { "retention.pitr_secs": 3600, "ai_egress.ask": "self_hosted_only" },
    });
    // The namespace becomes stricter: the override stands as it was written, and no longer counts.
    await ok(ns.put({ retention: { pitr_secs: 60 } }));
    expect((await ok(ns.getProfile("alice"))).body).toMatchObject({
      override,
      effective: { "retention.pitr_secs": 60, "ai_egress.ask": "deny" },
    });
    expect((await ok(ns.putProfile("alice", null))).body).toMatchObject({
      override: null,
      revision: 2,
      effective: { "retention.pitr_secs": 60, "ai_egress.ask": "allow" },
    });
  },
);

test("governance-05: the platform key sets a namespace's policy, an admin token a profile's", async () => {
  // Before anything was ingested.
  const node = await startGuarded();
  onTestFinished(() => node.service.close());
  const policy = { policy: { retention: { pitr_secs: 3600 } } };
  const place = "/v1/namespaces/acme/policy";
  const own = "/v1/memory/acme/alice/policy";
  const [read, write, admin, whole] = [
    await node.mint({ db: "acme--alice" }, "read"),
    await node.mint({ db: "acme--alice" }, "write"),
    await node.mint({ db: "acme--alice" }, "admin"),
    await node.mint({ ns: "acme" }, "admin"),
  ];
  const readStatus = async (...call: Parameters<typeof node.call>): Promise<number> =>
    (await node.call(...call)).status;
  expect(await readStatus(undefined, "PUT", place, policy)).toBe(401);
  for (const token of [read, admin, whole])
    expect([await readStatus(token, "PUT", place, policy), await readStatus(token, "GET", place)]).toEqual([403, 403]);
  expect(await readStatus(platformKey, "PUT", place, policy)).toBe(200);
  expect([
    await readStatus(read, "PUT", own, policy),
    await readStatus(write, "PUT", own, policy),
    await readStatus(platformKey, "PUT", own, policy),
  ]).toEqual([403, 403, 403]);
  expect(await readStatus(admin, "PUT", own, { policy: { retention: { pitr_secs: 600 } } })).toBe(200);
  const seen = await node.call(read, "GET", own);
  expect([seen.status, seen.json.effective["retention.pitr_secs"]]).toEqual([200, 600]);
  expect(await readStatus(whole, "PUT", "/v1/memory/acme/bob/policy", { policy: null })).toBe(200);
  expect(await readStatus(await node.mint({ ns: "other" }, "admin"), "GET", own)).toBe(403);
});

onBoth(
  "governance-06 over %s: the lifetime of a task is cut to the policy's, said or not; a shorter one is left",
  async (wire) => {
    const ns = new Namespace(wire);
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
    const [ns, other] = [new Namespace(wire), new Namespace(wire)];
    await ok(ns.put({ memory: { superseded_max_count: 1 } }));
    for (const each of [ns, other])
      await each.ingest("alice", ...["v1", "v2", "v3"].map((summary) => ({ summary, topic_key: "plan" })));
    await expect.poll(() => ns.summaries("alice", { topic_key: "plan" }), { timeout: 10_000 }).toEqual(["v2", "v3"]);
    expect(await other.summaries("alice", { topic_key: "plan" })).toEqual(["v1", "v2", "v3"]);
  },
);

describe.each(wireNames)("governance-09 and governance-10 over %s", (wire) => {
  test.each([
    ["Ask", "ai_egress.ask", { question: "who?" }],
    ["Extract", "ai_egress.extract", { turns: [{ role: "user", content: "x" }] }],
  ])("%s that policy denies is 403 naming the field; else it is not configured", async (method, field, request) => {
    // Not configured for another use and another namespace, too.
    const [ns, other] = [new Namespace(wire), new Namespace(wire)];
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
  const ns = new Namespace(node.wire("rest"));
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
  const ns = new Namespace(here.wire("rest"));
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
