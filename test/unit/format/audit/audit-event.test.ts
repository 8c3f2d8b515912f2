/** Audit events and their objects: one spelling, nothing that a tenant said, and a chain whose gaps show. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { auditActions } from "../../../../src/format/audit/audit-actions.ts";
import {
  auditTimeMs,
  decodeAuditEvent,
  encodeAuditEvent,
  isAuditResource,
  isEvent,
  type AuditEvent,
} from "../../../../src/format/audit/audit-event.ts";
import {
  auditLinkTo,
  brokenLinks,
  decodeAuditObject,
  encodeAuditObject,
  firstLink,
} from "../../../../src/format/audit/audit-object.ts";
import { auditKey, auditKeyAt, formatDay, parseAuditKey } from "../../../../src/format/audit/audit-keys.ts";
import { ulidTimeMs } from "../../../../src/format/core/ids.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { sampleAuditEvents } from "../../../support/format-samples.ts";

const [first, second] = sampleAuditEvents as [AuditEvent, AuditEvent];

/** `count` events of one node that follow from each other. */
function buildChain(count: number, node: string): AuditEvent[] {
  const world = realWorld();
  const events: AuditEvent[] = [];
  for (let n = 0, prev = firstLink; n < count; n++) {
    const event: AuditEvent = {
      id: world.ulid(),
      node,
      namespace: "acme",
      action: "memory.ingest",
      outcome: "ok",
      txid: n,
      prev,
    };
    events.push(event);
    prev = auditLinkTo(encodeAuditEvent(event));
  }
  return events;
}

describe("an audit event", () => {
  test("is read as it was written, and has one spelling", () => {
    for (const event of sampleAuditEvents) expect(decodeAuditEvent(encodeAuditEvent(event))).toEqual(event);
    expect(decodeAuditObject(encodeAuditObject(sampleAuditEvents.map(encodeAuditEvent)))).toEqual(sampleAuditEvents);
  });

  test("happened at the time of its id", () => {
    expect(auditTimeMs({ id: "01HF7YAT000000000000000001" })).toBe(1_700_000_000_000);
    const world = realWorld();
    expect(Math.abs(ulidTimeMs(world.ulid()) - world.nowMs())).toBeLessThan(1_000);
  });

  const line = encodeAuditEvent(first);
  test.each([
    ["not JSON", "{"],
    ["not an object", "[1]"],
    ["another version", line.replace('"v":1', '"v":2')],
    ["one member more", line.replace('"v":1,', '"v":1,"summary":"a secret",')],
    ["one member less", line.replace(/"outcome":"\w+",/, "")],
    ["other spaces", line.replace('"v":1', '"v": 1')],
    ["another order", line.replace(/("v":1),("id":"\w+")/, "$2,$1")],
    ["an action nobody knows", line.replace('"action":"memory.ingest"', '"action":"memory.read_aloud"')],
    ["a time that is not its id's", line.replace(/"ts":\d+/, '"ts":1')],
    ["a namespace that cannot be", line.replace('"ns":"acme"', '"ns":"Acme!"')],
    ["free text as its resource", line.replace('"outcome"', '"resource":"The user likes dogs","outcome"')],
    ["free text as its error", line.replace('"prev"', '"error":"The user likes dogs","prev"')],
    ["a token in place of its hash", line.replace(/"token_hash":"\w+"/, '"token_hash":"eyJhbGciOiJFZERTQSJ9.e30.x"')],
  ])("%s is refused as corrupt", (_, text) => {
    expect(text).not.toBe(line);
    expect(() => decodeAuditEvent(text)).toThrow(StoreError);
  });

  test("no text member takes what a tenant may have said", () => {
    const said = "The user's topic is ui.theme";
    const texts = [
      "id",
      "node",
      "namespace",
      "profile",
      "branch",
      "action",
      "resource",
      "outcome",
      "errorCode",
      "prev",
    ] as const;
    expect(
      Object.entries(first)
        .filter(([, value]) => typeof value === "string")
        .every(([name]) => (texts as readonly string[]).includes(name)),
    ).toBe(true);
    for (const member of texts) expect(isEvent({ ...first, [member]: said }), member).toBe(false);
    for (const member of ["kind", "tokenHash", "scope", "claimDb", "claimNs"])
      expect(isEvent({ ...first, actor: { ...first.actor, [member]: said } }), member).toBe(false);
    for (const member of ["provider", "model", "endpointHost"])
      expect(isEvent({ ...second, egress: { ...second.egress, [member]: said } }), member).toBe(false);
  });

  test("its resource has the form of an id or a name", () => {
    expect(
      ["mem_01HF7YAT000000000000000001", "ers_01HF7YAT000000000000000001", "acme--alice", "namespace"].map(
        isAuditResource,
      ),
    ).toEqual([true, true, true, true]);
    expect(["mem_01HF", "s 1", "The user", "", "mem_01HF7YAT000000000000000001 "].map(isAuditResource)).toEqual([
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  test("the actions are those that clients are told of", () => {
    expect(new Set(auditActions).size).toBe(auditActions.length);
    expect(auditActions).toContain("erasure.completed");
  });
});

describe("an audit object", () => {
  test("that was cut within a line, or is empty, is refused", () => {
    const bytes = encodeAuditObject(sampleAuditEvents.map(encodeAuditEvent));
    for (const end of [0, 1, bytes.length - 1])
      expect(() => decodeAuditObject(bytes.slice(0, end))).toThrow(StoreError);
    expect(() => decodeAuditObject(Uint8Array.of(0xff, 10))).toThrow(StoreError);
  });

  test("its key tells its parts, and sorts by time", () => {
    const parts = { namespace: "acme", day: "2023-11-14", firstId: first.id, node: first.node };
    const key = auditKey(parts);
    expect(parseAuditKey(key)).toEqual(parts);
    expect(formatDay(auditTimeMs(first))).toBe(parts.day);
    const atMs = auditTimeMs(first);
    expect(auditKeyAt("acme", atMs) < key && key < auditKeyAt("acme", atMs + 1)).toBe(true);
    for (const foreign of [
      `${key}x`,
      key.replace("audit/", "audits/"),
      key.replace(first.node, "node-1"),
      "audit/acme/x",
    ])
      expect(parseAuditKey(foreign)).toBeUndefined();
  });
});

describe("a chain of events", () => {
  const [nodeA, nodeB] = ["01HF7YAT00000000000000000A", "01HF7YAT00000000000000000B"];

  test("that is whole has no broken link, also where nodes take turns and where its beginning has expired", () => {
    const [a, b] = [buildChain(5, nodeA), buildChain(5, nodeB)];
    expect(brokenLinks(a.flatMap((event, n) => [event, b[n]!]))).toEqual([]);
    expect(brokenLinks(a.slice(2))).toEqual([]);
  });

  test.each([
    ["removed", (events: AuditEvent[]) => events.toSpliced(2, 1), 3],
    ["changed", (events: AuditEvent[]) => events.with(2, { ...events[2]!, outcome: "denied" }), 3],
    ["put in", (events: AuditEvent[]) => events.toSpliced(2, 0, { ...events[1]!, id: events[2]!.id }), 2],
    ["moved", (events: AuditEvent[]) => [events[0]!, events[2]!, events[1]!, events[3]!, events[4]!], 2],
  ])("shows the event after one that was %s", (_, tamper, at) => {
    const events = buildChain(5, nodeA);
    expect(brokenLinks(tamper(events)).map(({ id }) => id)).toContain(events[at]!.id);
  });
});
