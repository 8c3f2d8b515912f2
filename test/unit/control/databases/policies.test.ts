/** Policies in object storage: none is lost, none is out of date for long, and what cannot be read lets nothing out. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import type { Log } from "../../../../src/base/log.ts";
import { effectivePolicy } from "../../../../src/control/databases/effective-policy.ts";
import { Policies } from "../../../../src/control/databases/policies.ts";
import {
  egressOrder,
  looserFields,
  type PolicyDocument,
  type PolicyValues,
} from "../../../../src/format/records/policy.ts";
import { namespacePolicyKey, profilePolicyKey } from "../../../../src/format/keys/object-keys.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { VirtualTime } from "../../../support/timed-engine.ts";

const cacheMs = 30_000;
const nodePitrSecs = 86_400;
const denied = { extract: "deny", ask: "deny", embed: "deny" };
const allowed = { extract: "allow", ask: "allow", embed: "allow" };

let time: VirtualTime;
let lines: string[];

beforeEach(() => {
  time = new VirtualTime();
  lines = [];
});

/** What a line of the log says of a part, an error's cause included. */
function inWords(part: unknown): string {
  return part instanceof Error ? `${part.message} ${String(part.cause)}` : JSON.stringify(part);
}

function node(store = time.store): Policies {
  const write = (message: string, ...rest: readonly unknown[]): void =>
    void lines.push([message, ...rest.map(inWords)].join(" "));
  const log: Log = { info: write, warn: write, error: write };
  return new Policies({ store, world: time.world(), log, cacheMs, nodePitrSecs });
}

const pitr = (secs: number): PolicyDocument => ({ retention: { pitr_secs: secs } });

describe("a namespace's policy", () => {
  test("governance-01: was never set, is set, replaced as a whole, and cleared, with a revision for each", async () => {
    const policies = node();
    expect(await policies.getNamespace("acme")).toBeUndefined();
    expect(await policies.putNamespace("acme", { ...pitr(600), mine: 1 })).toMatchObject({
      revision: 1,
      document: { ...pitr(600), mine: 1 },
    });
    expect(await policies.getNamespace("acme")).toMatchObject({ revision: 1, document: { ...pitr(600), mine: 1 } });
    expect(await policies.putNamespace("acme", { memory: { superseded_max_count: 2 } })).toMatchObject({ revision: 2 });
    expect((await policies.effective("acme")).pitrSecs).toBe(nodePitrSecs);
    expect(await policies.putNamespace("acme", undefined)).toMatchObject({ revision: 3, document: undefined });
    expect(await policies.getNamespace("acme")).toMatchObject({ revision: 3, document: undefined });
    expect((await policies.effective("acme")).supersededMaxCount).toBeUndefined();
    expect(await policies.getNamespace("other")).toBeUndefined();
  });

  test("two writers at once, on one node or two, are two revisions: none is lost", async () => {
    const nodes = [node(), node(), node()];
    const puts = await time.of(
      Promise.all(Array.from({ length: 30 }, (_, n) => nodes[n % 3]!.putNamespace("acme", pitr(60 + n)))),
    );
    expect(puts.map(({ revision }) => revision).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 30 }, (_, n) => n + 1),
    );
    const last = puts.find(({ revision }) => revision === 30)!;
    expect(await nodes[0]!.getNamespace("acme")).toMatchObject({ revision: 30, document: last.document });
  });

  test.each(["answerLost", "requestLost"] as const)(
    "a put whose outcome was in doubt (%s) is settled: it counts once",
    async (fate) => {
      const policies = node();
      let puts = 0;
      time.store.decideFate = (verb) => (verb === "put" && ++puts === 1 ? fate : "fine");
      expect(await policies.putNamespace("acme", pitr(600))).toMatchObject({ revision: 1 });
      expect(await policies.getNamespace("acme")).toMatchObject({ revision: 1 });
      expect(await policies.putNamespace("acme", pitr(600))).toMatchObject({ revision: 2 });
    },
  );

  test("a put that stays in doubt says so, and what this node enforces is read anew", async () => {
    const policies = node();
    await policies.putNamespace("acme", pitr(600));
    time.store.decideFate = (verb) => (verb === "put" ? "requestLost" : "fine");
    await expect(policies.putNamespace("acme", pitr(60))).rejects.toMatchObject({ kind: "unknown_outcome" });
    time.store.decideFate = () => "fine";
    const before = time.store.count("get");
    expect((await policies.effective("acme")).pitrSecs).toBe(600);
    expect(time.store.count("get")).toBeGreaterThan(before);
  });
});

describe("a profile's policy", () => {
  test("governance-04: tightens its namespace's, names what it would loosen, leaves siblings alone", async () => {
    const policies = node();
    await policies.putNamespace("acme", {
      retention: { pitr_secs: 600 },
      ai_egress: { ask: "deny" },
      erasure: { purge_on_forget: true },
    });
    await expect(
      policies.putProfile("acme", "a", {
        retention: { pitr_secs: 601 },
        ai_egress: { ask: "allow", embed: "deny" },
        erasure: { purge_on_forget: false },
      }),
    ).rejects.toMatchObject({
      code: "conflict",
      message: expect.stringContaining("retention.pitr_secs, ai_egress.ask, erasure.purge_on_forget"),
    });
    expect(await policies.getProfile("acme", "a")).toMatchObject({ stored: undefined, effective: { pitrSecs: 600 } });
    expect(await policies.putProfile("acme", "a", { ...pitr(60), ai_egress: { embed: "deny" } })).toMatchObject({
      stored: { revision: 1 },
      effective: { pitrSecs: 60, egress: { ask: "deny", embed: "deny" } },
    });
    expect(await policies.effective("acme", "b")).toMatchObject({ pitrSecs: 600, egress: { embed: "allow" } });
    expect(await policies.effective("acme")).toMatchObject({ pitrSecs: 600 });
    expect(await policies.putProfile("acme", "a", undefined)).toMatchObject({
      stored: { revision: 2, document: undefined },
      effective: { pitrSecs: 600, egress: { embed: "allow" } },
    });
  });

  test("is overruled by a namespace that becomes stricter later", async () => {
    const policies = node();
    await policies.putProfile("acme", "a", { ...pitr(600), ai_egress: { ask: "self_hosted_only" } });
    await policies.putNamespace("acme", { ...pitr(60), ai_egress: { ask: "deny" } });
    expect(await policies.getProfile("acme", "a")).toMatchObject({
      stored: { document: pitr(600) },
      effective: { pitrSecs: 60, egress: { ask: "deny" } },
    });
  });

  test("that loosens is refused also when the namespace has become stricter while it was on its way", async () => {
    const policies = node();
    const gate = Promise.withResolvers<void>();
    let held = 0;
    // The put of the profile waits until somebody else has written the profile and the namespace.
    time.store.decideFate = (verb, key) =>
      verb === "put" && key === profilePolicyKey("acme", "a") && ++held === 1 ? { held: gate.promise } : "fine";
    const late = policies.putProfile("acme", "a", pitr(600));
    const refused = expect(late).rejects.toMatchObject({ code: "conflict" });
    await time.pass(1_000);
    const other = node();
    await other.putProfile("acme", "a", pitr(60));
    await other.putNamespace("acme", pitr(120));
    gate.resolve();
    await refused;
    expect(await other.getProfile("acme", "a")).toMatchObject({ stored: { revision: 1, document: pitr(60) } });
  });
});

describe("what is enforced", () => {
  test("governance-02: of a policy that nobody has set is what the node has", async () => {
    expect(await node().effective("acme", "a")).toMatchObject({
      known: true,
      pitrSecs: nodePitrSecs,
      taskTtlMaxSecs: undefined,
      egress: allowed,
      audit: { enabled: false, includeReads: false, retentionSecs: undefined },
      erasureGraceSecs: 86_400,
      purgeOnForget: false,
    });
  });

  test("a namespace may lengthen the grace of erasures beyond the default; a profile may only shorten it", async () => {
    const policies = node();
    await policies.putProfile("acme", "a", { erasure: { grace_secs: 172_800 } });
    expect((await policies.effective("acme", "a")).erasureGraceSecs).toBe(86_400);
    await policies.putNamespace("acme", { erasure: { grace_secs: 604_800 } });
    expect((await policies.effective("acme", "a")).erasureGraceSecs).toBe(172_800);
    expect((await policies.effective("acme", "b")).erasureGraceSecs).toBe(604_800);
  });

  test("changes at once on the node that made the change, and on the others within the cache's time", async () => {
    const [here, there] = [node(), node()];
    expect((await there.effective("acme", "a")).pitrSecs).toBe(nodePitrSecs);
    await here.putNamespace("acme", pitr(600));
    expect((await here.effective("acme", "a")).pitrSecs).toBe(600);
    const gets = time.store.count("get");
    await time.pass(cacheMs - 1);
    expect((await there.effective("acme", "a")).pitrSecs).toBe(nodePitrSecs);
    expect(time.store.count("get")).toBe(gets);
    await time.pass(1);
    expect((await there.effective("acme", "a")).pitrSecs).toBe(600);
  });

  test("is not undone by a reading that began before the change and is answered after it", async () => {
    const gate = Promise.withResolvers<void>();
    const slow = new ScriptedStore();
    slow.put = (...put) => time.store.put(...put);
    slow.get = async (key) => {
      const object = time.store.read(key);
      await gate.promise;
      return object;
    };
    const policies = node(slow);
    const early = policies.getNamespace("acme");
    slow.get = (key) => time.store.get(key);
    await policies.putNamespace("acme", pitr(60));
    gate.resolve();
    expect(await early).toBeUndefined();
    expect((await policies.effective("acme")).pitrSecs).toBe(60);
  });

  test("is read once for a crowd of callers", async () => {
    const policies = node();
    const before = time.store.count("get");
    await Promise.all(Array.from({ length: 100 }, () => policies.effective("acme", "a")));
    expect(time.store.count("get") - before).toBe(2);
  });

  test("is never looser than any of its parts, whatever they are", () => {
    const cap = fc.integer({ min: 60, max: 100_000_000 });
    const some = fc.record(
      {
        "retention.pitr_secs": cap,
        "memory.task_ttl_max_secs": cap,
        "memory.event_max_age_secs": cap,
        "memory.superseded_max_age_secs": cap,
        "memory.superseded_max_count": fc.integer({ min: 1, max: 9 }),
        "ai_egress.extract": fc.constantFrom(...egressOrder),
        "ai_egress.ask": fc.constantFrom(...egressOrder),
        "ai_egress.embed": fc.constantFrom(...egressOrder),
        "erasure.grace_secs": fc.integer({ min: 0, max: 1_000_000 }),
        "erasure.purge_on_forget": fc.boolean(),
        "audit.enabled": fc.boolean(),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<PolicyValues>;
    fc.assert(
      fc.property(
        cap,
        fc.option(some, { nil: undefined }),
        fc.option(some, { nil: undefined }),
        (ceiling, namespace, profile) => {
          const { values, known, egress, pitrSecs } = effectivePolicy(ceiling, namespace, profile);
          expect(looserFields(values, { "retention.pitr_secs": ceiling })).toEqual([]);
          for (const part of [namespace, profile]) expect(looserFields(values, part ?? {})).toEqual([]);
          expect(known).toBe(namespace !== undefined && profile !== undefined);
          if (!known) expect(egress).toEqual(denied);
          expect(pitrSecs).toBe(values["retention.pitr_secs"]);
        },
      ),
    );
  });
});

describe("governance-13: a store that fails", () => {
  test("leaves in force what is known, however old, and says so once", async () => {
    const policies = node();
    await policies.putNamespace("acme", { ...pitr(600), ai_egress: { ask: "deny" } });
    await policies.effective("acme", "a");
    await time.pass(cacheMs);
    time.store.decideFate = () => "refused";
    for (let call = 0; call < 5; call++) {
      expect(await time.of(policies.effective("acme", "a"))).toMatchObject({
        known: true,
        pitrSecs: 600,
        egress: { ask: "deny", embed: "allow" },
      });
      await time.pass(cacheMs);
    }
    expect(lines).toHaveLength(1);
    time.store.decideFate = () => "fine";
    await node().putNamespace("acme", pitr(60));
    expect(await time.of(policies.effective("acme", "a"))).toMatchObject({
      known: true,
      pitrSecs: 60,
      egress: allowed,
    });
  });

  test("with a policy that is not known denies all egress, keeps the node's bounds, and is asked again", async () => {
    const policies = node();
    time.store.decideFate = () => "refused";
    expect(await time.of(policies.effective("acme", "a"))).toMatchObject({
      known: false,
      pitrSecs: nodePitrSecs,
      taskTtlMaxSecs: undefined,
      egress: denied,
      audit: { enabled: false },
    });
    time.store.decideFate = (_, key) => (key === profilePolicyKey("acme", "a") ? "refused" : "fine");
    await node().putNamespace("acme", pitr(600));
    expect(await time.of(policies.effective("acme", "a"))).toMatchObject({
      known: false,
      pitrSecs: 600,
      egress: denied,
    });
    expect(await time.of(policies.effective("acme"))).toMatchObject({ known: true, pitrSecs: 600, egress: allowed });
    time.store.decideFate = () => "fine";
    expect(await time.of(policies.effective("acme", "a"))).toMatchObject({
      known: true,
      pitrSecs: 600,
      egress: allowed,
    });
  });

  test("or is silent keeps nobody waiting for long, and whoever comes then not at all", async () => {
    // A moment for what is known, a little longer for what is not.
    const policies = node();
    await time.of(policies.effective("acme", "a"));
    await time.pass(cacheMs);
    const never = new Promise<void>(() => {});
    time.store.decideFate = () => ({ held: never });
    const waited = async (profile: string): Promise<number> => {
      const beganMs = time.scheduler.nowMs;
      await time.of(policies.effective("acme", profile));
      return time.scheduler.nowMs - beganMs;
    };
    expect(await waited("a")).toBeLessThanOrEqual(300);
    expect(await waited("b")).toBeLessThanOrEqual(2_100);
    expect(await waited("a")).toBe(0);
    expect(await waited("b")).toBe(0);
  });

  test("fails whoever wants to see or change a policy", async () => {
    const policies = node();
    time.store.decideFate = () => "refused";
    for (const act of [
      () => policies.getNamespace("acme"),
      () => policies.getProfile("acme", "a"),
      () => policies.putNamespace("acme", pitr(60)),
      () => policies.putProfile("acme", "a", pitr(60)),
      () => policies.namespaces(),
    ]) {
      await expect(act()).rejects.toBeInstanceOf(StoreError);
    }
  });
});

describe("governance-13: a corrupt policy", () => {
  const secret = "tenant-secret";
  const corrupt = (key: string): void =>
    time.store.spoil(key, () => Buffer.from(`${secret}{"v":1,"policy":{"note":"${secret}"}`));

  test("is left out of lists, and the others are there", async () => {
    const policies = node();
    for (const namespace of ["acme", "beta", "c-1"]) await policies.putNamespace(namespace, pitr(600));
    await policies.putProfile("acme", "a", pitr(60));
    // A namespace whose name ends like the key of a policy, and an object that is none of ours.
    await policies.putProfile("beta", "namespace", pitr(60));
    await time.store.put("policies/UPPER/namespace", Buffer.from("{}"), { kind: "absent" });
    corrupt(namespacePolicyKey("beta"));
    expect(await policies.namespaces()).toEqual(
      ["acme", "c-1"].map((namespace) => ({ namespace, values: { "retention.pitr_secs": 600 } })),
    );
  });

  test("denies egress, of a namespace and of a profile, with a log line that holds nothing of it", async () => {
    const policies = node();
    await policies.putNamespace("acme", pitr(600));
    await policies.putProfile("acme", "a", pitr(60));
    corrupt(profilePolicyKey("acme", "a"));
    await time.pass(cacheMs);
    expect(await policies.effective("acme", "a")).toMatchObject({ known: false, pitrSecs: 600, egress: denied });
    expect(await policies.effective("acme", "b")).toMatchObject({ known: true, pitrSecs: 600, egress: allowed });
    corrupt(namespacePolicyKey("acme"));
    await time.pass(cacheMs);
    expect(await policies.effective("acme", "b")).toMatchObject({
      known: false,
      pitrSecs: nodePitrSecs,
      egress: denied,
    });
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).not.toContain(secret);
    expect(lines.every((line) => line.includes("policies/acme/"))).toBe(true);
    await expect(policies.getNamespace("acme")).rejects.toMatchObject({ kind: "corrupt" });
    // Nothing can be said of a profile's policy that would be judged by it.
    await expect(policies.putProfile("acme", "b", pitr(60))).rejects.toMatchObject({ kind: "corrupt" });
  });

  test("is mended by a put", async () => {
    const policies = node();
    await policies.putNamespace("acme", pitr(600));
    corrupt(namespacePolicyKey("acme"));
    expect(await policies.putNamespace("acme", pitr(60))).toMatchObject({ document: pitr(60) });
    expect(await policies.effective("acme")).toMatchObject({ known: true, pitrSecs: 60, egress: allowed });
  });
});
