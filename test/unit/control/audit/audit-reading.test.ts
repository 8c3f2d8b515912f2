/** Reading a stream of the audit log in pages and by filters, and what a sweep removes of it. */
import { describe, expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import type { AuditEntry, AuditPolicy } from "../../../../src/control/audit/audit-entry.ts";
import { AuditLog } from "../../../../src/control/audit/audit-log.ts";
import { auditObjectsReadMax } from "../../../../src/control/audit/audit-streams.ts";
import { auditTimeMs } from "../../../../src/format/audit/audit-event.ts";
import { formatDay, parseAuditKey } from "../../../../src/format/audit/audit-keys.ts";
import { setWorld } from "../../../support/set-world.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { dayMs, nodeA, on, all, ingest, open, turnedWorld, countingLog } from "../../../support/turned-audit-log.ts";

test("audit-07: a sweep removes only whole days that a namespace's own policy no longer keeps", async () => {
  const world = turnedWorld(Date.UTC(2026, 0, 1, 12));
  const policies = {
    acme: { ...on, retentionSecs: (2 * dayMs) / 1_000 },
    "acme-x": { ...on, retentionSecs: 60 },
    acme0: on,
  };
  const { audit, store } = open({ world, policies });
  const namespaces = Object.keys(policies);
  for (let day = 0; day < 5; day++) {
    for (const namespace of namespaces) for (let n = 0; n < 20; n++) audit.record(ingest(n, namespace));
    await audit.flush();
    world.atMs += dayMs;
  }
  world.atMs -= dayMs;
  const days = (): string[][] =>
    namespaces.map((namespace) => store.keys(`audit/${namespace}/`).map((key) => parseAuditKey(key)!.day.slice(-2)));
  expect(days()).toEqual([
    ["01", "02", "03", "04", "05"],
    ["01", "02", "03", "04", "05"],
    ["01", "02", "03", "04", "05"],
  ]);
  // The cutoff of `acme` is noon of the 3rd: that day is not over by then.
  expect(await audit.sweep()).toBe(6);
  expect(days()).toEqual([["03", "04", "05"], ["05"], ["01", "02", "03", "04", "05"]]);
  expect(await audit.sweep()).toBe(0);
  expect(formatDay(world.atMs)).toBe("2026-01-05");
});

test("F42: a sweep under a clock that has come to be ahead removes nothing", async () => {
  const clock = setWorld(Date.UTC(2026, 0, 1, 12));
  const { audit, store } = open({ world: clock.world, policies: { acme: { ...on, retentionSecs: dayMs / 1_000 } } });
  audit.record(ingest(1));
  await audit.flush();
  clock.aheadMs = 4 * dayMs;
  expect(await audit.sweep()).toBe(0);
  expect(store.keys("audit/")).toHaveLength(1);
});

test("a sweep removes nothing of a namespace that is another node's to sweep", async () => {
  const world = turnedWorld(Date.UTC(2026, 0, 1, 12));
  const store = new ScriptedStore();
  const ours = new Set(["acme"]);
  const readPolicy = async (): Promise<AuditPolicy> => ({ ...on, retentionSecs: 60 });
  const audit = new AuditLog({
    store,
    world,
    log: silentLog,
    node: nodeA,
    flushMs: 1_000_000,
    readPolicy,
    tends: async (namespace) => ours.has(namespace),
  });
  for (const namespace of ["acme", "other"]) audit.record(ingest(1, namespace));
  await audit.flush();
  world.atMs += 3 * dayMs;
  expect(await audit.sweep()).toBe(1);
  expect([store.keys("audit/acme/").length, store.keys("audit/other/").length]).toEqual([0, 1]);
  ours.add("other");
  expect(await audit.sweep()).toBe(1);
  expect(store.keys("audit/")).toEqual([]);
});

describe("reading", () => {
  test("audit-06: pages of 2 over 6 one-event objects: 6 distinct ids, no gap, and what comes meanwhile", async () => {
    const { audit } = open();
    for (let txid = 1; txid <= 6; txid++) {
      audit.record(ingest(txid));
      await audit.flush();
    }
    const txids: unknown[] = [];
    const ids = new Set<string>();
    let cursor: string | undefined;
    for (let page = 0; page === 0 || cursor !== undefined; page++) {
      const { events, nextCursor, complete } = await audit.read("acme", { fromMs: 0, limit: 2, cursor });
      expect(events.length).toBeLessThanOrEqual(2);
      expect(complete).toBe(nextCursor === undefined);
      for (const { id, txid } of events) {
        ids.add(id);
        txids.push(txid);
      }
      if (page === 1) {
        audit.record(ingest(7));
        await audit.flush();
      }
      cursor = nextCursor;
    }
    expect(txids).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(ids.size).toBe(7);
  });

  test("a page may end within an object, and the last one has no cursor even when it is full", async () => {
    const { audit } = open();
    for (let txid = 1; txid <= 4; txid++) audit.record(ingest(txid));
    await audit.flush();
    const first = await audit.read("acme", { fromMs: 0, limit: 3 });
    expect(first.events.map(({ txid }) => txid)).toEqual([1, 2, 3]);
    const last = await audit.read("acme", { fromMs: 0, limit: 1, cursor: first.nextCursor });
    expect(last).toMatchObject({ events: [{ txid: 4 }], nextCursor: undefined, complete: true });
  });

  test("audit-06: filters by time, action, prefix, profile and outcome", async () => {
    const world = turnedWorld(Date.UTC(2026, 0, 1, 12));
    const { audit } = open({ world });
    const startMs = world.atMs;
    const entries: AuditEntry[] = [
      ingest(0),
      { ...ingest(1), action: "memory.forget", profile: "bob" },
      { ...ingest(2), action: "token.mint", profile: undefined },
      { ...ingest(3), action: "ai.extract", outcome: "denied", errorCode: "forbidden" },
      { ...ingest(4), outcome: "error", errorCode: "overloaded" },
    ];
    for (const entry of entries) {
      audit.record(entry);
      world.atMs += 10 * 3_600_000;
    }
    await audit.flush();
    const found = async (filter: object): Promise<unknown[]> =>
      (await audit.read("acme", { ...all, ...filter })).events.map(({ txid }) => txid);
    expect(await found({})).toEqual([0, 1, 2, 3, 4]);
    expect(await found({ action: "memory.ingest" })).toEqual([0, 4]);
    expect(await found({ action: "memory." })).toEqual([0, 1, 4]);
    expect(await found({ action: "memory" })).toEqual([]);
    expect(await found({ profile: "bob" })).toEqual([1]);
    expect(await found({ outcome: "denied" })).toEqual([3]);
    expect(await found({ outcome: "error" })).toEqual([4]);
    for (let from = 0; from <= 5; from++) {
      for (let to = from; to <= 5; to++) {
        const window = { fromMs: startMs + from * 10 * 3_600_000, toMs: startMs + to * 10 * 3_600_000 };
        expect(await found(window)).toEqual([0, 1, 2, 3, 4].slice(from, to));
      }
    }
  });

  test("a window finds events deep within an object of an earlier time", async () => {
    const world = turnedWorld(Date.UTC(2026, 0, 1, 12));
    const { audit } = open({ world });
    const startMs = world.atMs;
    for (let n = 0; n <= 60; n++, world.atMs += 1_000) audit.record(ingest(n));
    await audit.flush();
    const { events } = await audit.read("acme", { fromMs: startMs + 60_000, limit: 10 });
    expect(events.map(({ txid }) => txid)).toEqual([60]);
    expect(auditTimeMs(events[0]!)).toBe(startMs + 60_000);
  });

  test("a narrow filter ends a page early and the next one goes on", async () => {
    const { audit } = open();
    const objects = auditObjectsReadMax + 30;
    for (let txid = 0; txid < objects; txid++) {
      audit.record(txid === objects - 1 ? { ...ingest(txid), profile: "bob" } : ingest(txid));
      await audit.flush();
    }
    const first = await audit.read("acme", { ...all, profile: "bob" });
    expect(first).toMatchObject({ events: [], complete: false });
    const second = await audit.read("acme", { ...all, profile: "bob", cursor: first.nextCursor });
    expect(second).toMatchObject({ events: [{ txid: objects - 1 }], nextCursor: undefined, complete: true });
  });

  test.each(["", "x", "Zm9v", "!!!!", Buffer.from("2026-01-01/x 0").toString("base64url")])(
    "%j is no cursor",
    async (cursor) => {
      const { audit } = open();
      await expect(audit.read("acme", { ...all, cursor })).rejects.toMatchObject({ code: "invalid_request" });
    },
  );

  test("an object that cannot be read is passed over, and the page says that it is not complete", async () => {
    const log = countingLog();
    const { audit, store } = open({ log });
    for (let txid = 1; txid <= 3; txid++) {
      audit.record(ingest(txid));
      await audit.flush();
    }
    store.spoil(store.keys("audit/")[1]!, (bytes) => bytes.fill(0xff, 3, 9));
    const { events, complete, nextCursor } = await audit.read("acme", all);
    expect(events.map(({ txid }) => txid)).toEqual([1, 3]);
    expect({ complete, nextCursor }).toEqual({ complete: false, nextCursor: undefined });
    expect(log.said.join()).toContain("cannot be read");
  });
});
