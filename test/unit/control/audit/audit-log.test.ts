/** Recording into the audit log: order, chains, what is left out, and a store that fails. */
import { describe, expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import type { AuditEntry } from "../../../../src/control/audit/audit-entry.ts";
import { AuditLog, auditEventsMax, auditStrangersMax } from "../../../../src/control/audit/audit-log.ts";
import { AuditStreams } from "../../../../src/control/audit/audit-streams.ts";
import { brokenLinks, firstLink } from "../../../../src/format/audit/audit-object.ts";
import { parseAuditKey } from "../../../../src/format/audit/audit-keys.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import {
  dayMs,
  nodeA,
  on,
  off,
  all,
  ingest,
  open,
  turnedWorld,
  countingLog,
} from "../../../support/turned-audit-log.ts";

const nodeB = "01HF7YAT00000000000000000B";

const stranger: AuditEntry = { ...ingest(0), txid: undefined, outcome: "denied", errorCode: "unauthorized" };

describe("recording", () => {
  test("events of a namespace are stored in order, chained, one object per flush", async () => {
    const { audit, store, events, txids } = open();
    for (let txid = 1; txid <= 3; txid++) audit.record(ingest(txid));
    await audit.flush();
    audit.record(ingest(4));
    await audit.flush();
    expect(await txids()).toEqual([1, 2, 3, 4]);
    expect(store.keys("audit/acme/").map((key) => parseAuditKey(key)?.node)).toEqual([nodeA, nodeA]);
    const stored = await events();
    expect(stored[0]!.prev).toBe(firstLink);
    expect(brokenLinks(stored)).toEqual([]);
    expect(new Set(stored.map(({ prev }) => prev)).size).toBe(4);
  });

  test("a removed or changed object shows", async () => {
    const { audit, store, events } = open();
    for (let txid = 1; txid <= 3; txid++) {
      audit.record(ingest(txid));
      await audit.flush();
    }
    const [, second, third] = store.keys("audit/acme/");
    const whole = await events();
    store.spoil(second!, (bytes) => Buffer.from(Buffer.from(bytes).toString().replace('"txid":2', '"txid":9')));
    expect(brokenLinks(await events()).map(({ id }) => id)).toEqual([whole[2]!.id]);
    await store.delete(second!);
    expect(brokenLinks(await events()).map(({ id }) => id)).toEqual([whole[2]!.id]);
    expect(parseAuditKey(third!)?.firstId).toBe(whole[2]!.id);
  });

  test("a node's chain goes on over a restart, however old its last event, beside other nodes", async () => {
    const world = turnedWorld(Date.UTC(2026, 0, 1, 12));
    const store = new ScriptedStore();
    for (const [n, pauseMs] of [0, 1_000, 2 * 3_600_000, 3 * dayMs, 100 * dayMs].entries()) {
      world.atMs += pauseMs;
      for (const node of [nodeA, nodeB]) {
        const { audit } = open({ store, world, node });
        audit.record(ingest(n));
        await audit.close();
      }
    }
    const { events } = open({ store, world });
    const stored = await events();
    expect(stored).toHaveLength(10);
    expect(brokenLinks(stored)).toEqual([]);
    expect(stored.filter(({ prev }) => prev === firstLink).map(({ node }) => node)).toEqual([nodeA, nodeB]);
  });

  test("the change that switches a stream on is its first event, the one that switches it off its last", async () => {
    const { audit, policies, events } = open({ policies: {} });
    const change: AuditEntry = {
      namespace: "acme",
      action: "policy.update",
      resource: "namespace",
      outcome: "ok",
      identity: { kind: "platform", hash: "0123456789abcdef" },
    };
    audit.record(ingest(1));
    await audit.flush();
    audit.record(change);
    audit.record(ingest(2));
    policies["acme"] = on;
    audit.record(change);
    audit.record(ingest(3));
    policies["acme"] = off;
    audit.record(change);
    audit.record(ingest(4));
    await audit.flush();
    await audit.flush();
    expect((await events()).map(({ action, txid }) => txid ?? action)).toEqual(["policy.update", 3, "policy.update"]);
  });

  test("reads are left out until the policy includes them; refusals never are", async () => {
    const { audit, policies, events } = open();
    const recall: AuditEntry = {
      namespace: "acme",
      profile: "alice",
      action: "memory.recall",
      outcome: "ok",
      count: 2,
      identity: { kind: "anonymous" },
    };
    audit.record(recall);
    audit.record({ ...recall, count: undefined, outcome: "denied", errorCode: "forbidden" });
    policies["acme"] = { ...on, includeReads: true };
    audit.record(recall);
    await audit.flush();
    expect((await events()).map(({ outcome, count }) => [outcome, count])).toEqual([
      ["denied", undefined],
      ["ok", 2],
    ]);
  });

  test("audit-08: streams are per namespace; one that is off stores nothing, empty and complete", async () => {
    const { audit, store, txids } = open({ policies: { acme: on, other: on } });
    for (const namespace of ["acme", "other", "silent"]) audit.record(ingest(namespace.length, namespace));
    await audit.flush();
    expect(await txids("acme")).toEqual([4]);
    expect(await txids("other")).toEqual([5]);
    expect(store.keys("audit/").map((key) => parseAuditKey(key)?.namespace)).toEqual(["acme", "other"]);
    expect(await audit.read("silent", all)).toEqual({ events: [], nextCursor: undefined, complete: true });
  });

  test("the actor is told by kind, hash and claims", async () => {
    const { audit, events } = open();
    const token = {
      kind: "token",
      hash: "00112233aabbccdd",
      scope: "write",
      database: undefined,
      namespace: "acme",
      issuedAtMs: 1_700_000_000_999,
      expiresAtMs: 1_800_000_000_000,
    } as const;
    audit.record({ ...ingest(1), identity: token });
    audit.record({
      ...ingest(2),
      identity: { ...token, namespace: undefined, database: { name: "acme--alice", uuid: "u" } },
    });
    await audit.flush();
    expect((await events()).map(({ actor }) => actor)).toEqual([
      { kind: "token", tokenHash: "00112233aabbccdd", scope: "write", claimNs: "acme", iatSecs: 1_700_000_000 },
      { kind: "token", tokenHash: "00112233aabbccdd", scope: "write", claimDb: "acme--alice", iatSecs: 1_700_000_000 },
    ]);
  });

  test("an entry that holds text of a tenant is left out, and told of", async () => {
    const log = countingLog();
    const { audit, txids } = open({ log });
    audit.record({ ...ingest(1), resource: "The user likes dogs" });
    audit.record(ingest(2));
    await audit.flush();
    expect(await txids()).toEqual([2]);
    expect(audit.dropped).toBe(1);
    expect(log.said.join()).toContain("no valid form");
    expect(log.said.join()).not.toContain("dogs");
  });

  test("an object holds events of one day and one minute", async () => {
    const world = turnedWorld(Date.UTC(2026, 0, 1, 23, 59, 59, 998));
    const { audit, store, txids } = open({ world });
    for (const [txid, stepMs] of [0, 1, 1, 59_000, 2_000, 0].entries()) {
      world.atMs += stepMs;
      audit.record(ingest(txid));
    }
    await audit.flush();
    expect(store.keys("audit/").map((key) => parseAuditKey(key)?.day)).toEqual([
      "2026-01-01",
      "2026-01-02",
      "2026-01-02",
    ]);
    expect(await txids()).toEqual([0, 1, 2, 3, 4, 5]);
  });
});

describe("a store that fails", () => {
  test("what could not be stored is stored in order once it can; lost answers make no doubles", async () => {
    const log = countingLog();
    const { audit, store, events, txids } = open({ log });
    store.decideFate = () => "refused";
    audit.record(ingest(1));
    await audit.flush();
    store.decideFate = (verb) => (verb === "put" ? "answerLost" : "fine");
    audit.record(ingest(2));
    await audit.flush();
    store.decideFate = (verb) => (verb === "put" ? "requestLost" : "fine");
    audit.record(ingest(3));
    await audit.flush();
    expect(await txids()).toEqual([1, 2]);
    store.decideFate = () => "fine";
    await audit.flush();
    expect(await txids()).toEqual([1, 2, 3]);
    expect(brokenLinks(await events())).toEqual([]);
    expect(audit.dropped).toBe(0);
    expect(log.said.filter((line) => line.includes("could not be stored"))).toHaveLength(2);
  });

  test("a policy that cannot be read holds back its own namespace only, and is asked again", async () => {
    let readable = false;
    const { audit, txids } = open({
      readPolicy: async (namespace) => {
        if (namespace === "dark" && !readable) throw new Error("no answer");
        return on;
      },
    });
    audit.record(ingest(1, "dark"));
    audit.record(ingest(2, "acme"));
    await audit.flush();
    expect([await txids("dark"), await txids("acme")]).toEqual([[], [2]]);
    readable = true;
    audit.record(ingest(3, "dark"));
    await audit.flush();
    expect(await txids("dark")).toEqual([1, 3]);
  });

  test("what does not fit is counted, said once per flush, and stands as a gap in the stream", async () => {
    const log = countingLog();
    const { audit, store, events } = open({ log });
    store.decideFate = () => "refused";
    const extra = 7;
    for (let txid = 0; txid < auditEventsMax + extra; txid++) audit.record(ingest(txid));
    expect(audit.dropped).toBe(extra);
    store.decideFate = () => "fine";
    await audit.flush();
    await audit.flush();
    audit.record(ingest(0));
    await audit.flush();
    const found = await new AuditStreams(store, silentLog).read("acme", {
      fromMs: 0,
      limit: auditEventsMax + 2,
    });
    expect(found.events).toHaveLength(auditEventsMax + 2);
    expect(found.events.at(-2)).toMatchObject({
      action: "audit.dropped",
      outcome: "error",
      count: extra,
      actor: { kind: "internal" },
    });
    expect(found.events.at(-1)).toMatchObject({ action: "memory.ingest" });
    expect(brokenLinks(found.events)).toEqual([]);
    expect(await events()).toHaveLength(1_000);
    expect(log.said.filter((line) => line.includes("left out"))).toHaveLength(1);
  });

  test("a flood of strangers does not crowd out the others", async () => {
    const { audit, store } = open();
    store.decideFate = () => "refused";
    for (let n = 0; n < auditEventsMax; n++) audit.record(stranger);
    const lost = audit.dropped;
    expect(lost).toBe(auditEventsMax - auditStrangersMax);
    audit.record(ingest(1));
    expect(audit.dropped).toBe(lost);
  });

  test("recording neither waits nor throws, whatever the store and the policies do", async () => {
    const never = new Promise<never>(() => {});
    const { audit } = open({ readPolicy: () => never, world: hastyWorld(100) });
    for (let n = 0; n < 100; n++) expect(audit.record(ingest(n))).toBeUndefined();
    await audit.close();
    expect(audit.dropped).toBe(100);
  });

  test("a crash loses what was recorded since the last flush, and nothing else", async () => {
    const { audit, store, txids } = open();
    audit.record(ingest(1));
    await audit.flush();
    store.decideFate = () => ({ held: new Promise<void>(() => {}) });
    audit.record(ingest(2));
    void audit.flush();
    await expect.poll(() => store.count("put")).toBe(2);
    // The process is gone: nobody ever calls this log again.
    store.decideFate = () => "fine";
    const next = open({ store });
    next.audit.record(ingest(3));
    await next.audit.flush();
    expect(await txids()).toEqual([1, 3]);
  });

  test("a stopping node stores what is left, also when the store comes back only then", async () => {
    const { audit, store, txids } = open({ world: hastyWorld(20) });
    store.decideFate = () => "refused";
    for (let txid = 1; txid <= 3; txid++) audit.record(ingest(txid));
    await audit.flush();
    const closing = audit.close();
    store.decideFate = () => "fine";
    await closing;
    expect(await txids()).toEqual([1, 2, 3]);
    audit.record(ingest(4));
    expect(audit.dropped).toBe(1);
  });

  test("a stopping node does not wait for a store that stays silent, and says what was lost", async () => {
    const log = countingLog();
    const { audit, store } = open({ world: hastyWorld(50), log });
    store.decideFate = () => ({ held: new Promise<void>(() => {}) });
    audit.record(ingest(1));
    await audit.close();
    expect(audit.dropped).toBe(1);
    expect(log.said.join()).toContain("lost");
  });
});

test("events are flushed within the interval, without being asked", async () => {
  const store = new ScriptedStore();
  const audit = new AuditLog({
    store,
    world: realWorld(),
    log: silentLog,
    node: nodeA,
    flushMs: 20,
    readPolicy: async () => on,
  });
  audit.record(ingest(1));
  await expect.poll(() => store.keys("audit/").length, { timeout: 2_000 }).toBe(1);
  audit.record(ingest(2));
  await expect.poll(() => store.keys("audit/").length, { timeout: 2_000 }).toBe(2);
  await audit.close();
});
