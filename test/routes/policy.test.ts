/** Policies of namespaces and profiles over both wires: what is put, refused, and seen of each. */
import { expect, onTestFinished, test } from "vitest";
import { platformKey } from "../support/credentials.ts";
import { namespacesOn } from "../support/governed-namespace.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { ok, useService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";
import { policyBytesMax } from "../../src/format/records/policy.ts";
import { pitrSecsDefault } from "../../src/server/config/settings.ts";

const service = useService();
const onBoth = test.each(wireNames);
const newNamespace = namespacesOn(service);
onBoth(
  "governance-01 over %s: a namespace has no policy, then one, then another, then none: each with its revision",
  async (wire) => {
    const ns = newNamespace(wire);
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
  const ns = newNamespace("rest");
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
    const ns = newNamespace(wire);
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
        "egress.webhooks": "allow",
        "audit.include_data": false,
        "erasure.grace_secs": 86_400,
        "erasure.purge_on_forget": false,
      },
    });
    // What no policy sets is the node's; what a policy sets beyond the node's is the node's too.
    expect((await ok(newNamespace(wire).getProfile("alice"))).body.effective["retention.pitr_secs"]).toBe(
      pitrSecsDefault,
    );
    await ok(ns.put({ retention: { pitr_secs: pitrSecsDefault * 2 } }));
    expect((await ok(ns.getProfile("alice"))).body.effective["retention.pitr_secs"]).toBe(pitrSecsDefault);
    expect((await ok(ns.wire.call("MemoryService.ListProfiles", { ns: ns.name }))).body.profiles).toEqual([]);
  },
);

onBoth("governance-03 over %s: what a policy cannot say is 400, naming the field and what is allowed", async (wire) => {
  const ns = newNamespace(wire);
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
  "governance-04 over %s: a looser override is 409 naming every field; a tighter one holds alone",
  async (wire) => {
    // For its profile alone.
    const ns = newNamespace(wire);
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
