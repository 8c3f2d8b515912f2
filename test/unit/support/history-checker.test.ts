/** The checker itself: a history in which all is well, and for each rule one that breaks this rule and no other. */
import { describe, expect, test } from "vitest";
import {
  checkHistory,
  type FinalState,
  type History,
  type Read,
  type Seen,
  type Trouble,
  type Write,
} from "../../support/history-checker.ts";

const database = "db";
const stream = "s";

function write(value: string, txid: number, given: Partial<Write> = {}): Write {
  return {
    kind: "write",
    client: "one",
    node: "a",
    database,
    stream,
    value,
    startMs: txid * 10,
    endMs: txid * 10 + 5,
    outcome: "ok",
    txid,
    durable: false,
    ...given,
  };
}

/** A read that shows the values, after everything else. */
function read(txid: number, values: readonly string[], given: Partial<Read> = {}): Read {
  return {
    kind: "read",
    client: "one",
    node: "a",
    database,
    stream,
    startMs: 1_000,
    endMs: 1_005,
    txid,
    minTxid: 0,
    isPrimary: false,
    seen: values.map((value) => ({ value })),
    ...given,
  };
}

function final(values: readonly (string | Seen)[], name = "fresh"): FinalState {
  const seen = values.map((value) => (typeof value === "string" ? { value } : value));
  return { name, databases: new Map([[database, new Map([[stream, seen]])]]) };
}

function history(given: Partial<History>): History {
  return { operations: [], troubles: [], finals: [final([])], probes: [], shipsWithinMs: 50, ...given };
}

function broken(given: Partial<History>): readonly string[] {
  return checkHistory(history(given)).violations.map(({ rule }) => rule);
}

const kill = (startMs: number, endMs = startMs): Trouble => ({ what: "kill", overtakes: true, startMs, endMs });
const outage = (startMs: number, endMs: number): Trouble => ({ what: "outage", overtakes: false, startMs, endMs });
const unknown: Partial<Write> = { outcome: "unknown", txid: undefined };
const failed: Partial<Write> = { outcome: "failed", txid: undefined };

describe("a history in which all is well", () => {
  test("is not found fault with, and is counted", () => {
    const verdict = checkHistory(
      history({
        operations: [
          write("v1", 1, { durable: true, place: 1 }),
          write("v2", 2, { place: 2 }),
          // Both were committed together with another one.
          write("v3", 3, { place: 3 }),
          write("v4", 3, { client: "two", node: "b", place: 4 }),
          write("u1", 4, { ...unknown, client: "two" }),
          write("u2", 5, { ...unknown, client: "two" }),
          write("f1", 6, failed),
          write("l1", 7, { place: 6 }),
          write("v9", 1_000, { startMs: 300, endMs: 310, place: 6 }),
          read(7, ["v1", "v2", "v3", "v4", "u1", "l1"], { startMs: 80, endMs: 90 }),
          read(3, ["v1", "v2", "v3", "v4"], { startMs: 95, endMs: 99 }),
          read(1_000, ["v1", "v2", "v3", "v4", "u1", "v9"], { minTxid: 1_000, isPrimary: true }),
          read(0, [], { client: "two", node: "c" }),
        ],
        troubles: [kill(100)],
        finals: [
          final([
            { value: "v1", place: 1 },
            { value: "v2", place: 2 },
            { value: "v3", place: 3 },
            { value: "v4", place: 4 },
            { value: "u1", place: 5 },
            { value: "v9", place: 6 },
          ]),
          final(
            [
              { value: "v1", place: 1 },
              { value: "v2", place: 2 },
              { value: "v3", place: 3 },
              { value: "v4", place: 4 },
              { value: "u1", place: 5 },
              { value: "v9", place: 6 },
            ],
            "a",
          ),
        ],
        probes: [
          { database, txid: 7, answer: "lost" },
          { database, txid: 1_000, answer: "known" },
        ],
      }),
    );
    expect(verdict.violations).toEqual([]);
    expect(verdict.counts).toEqual({
      acknowledged: 6,
      durable: 1,
      failed: 1,
      unknown: 2,
      unknownPresent: 1,
      reads: 4,
      lost: 1,
      wentBack: 1,
    });
  });

  test("an empty one too; one without an end is no history", () => {
    expect(broken({})).toEqual([]);
    expect(() => checkHistory(history({ finals: [] }))).toThrow();
  });
});

describe("each rule", () => {
  test("a durable write is lost, kill or not", () => {
    const operations = [write("v1", 1), write("v2", 2, { durable: true })];
    expect(broken({ operations, finals: [final(["v1"])], troubles: [kill(20)] })).toEqual(["a durable write is lost"]);
  });

  test("a standard write is lost without a cause: nothing, too early, too late, or not overtaking", () => {
    const operations = [write("v1", 20)];
    for (const troubles of [[], [kill(100, 199)], [kill(256)], [outage(190, 220)], [outage(190, 220), kill(271)]]) {
      expect(broken({ operations, troubles })).toEqual(["a standard write is lost without a cause"]);
    }
    for (const troubles of [
      [kill(201)],
      [kill(100, 200)],
      [kill(255)],
      [outage(190, 220), kill(270)],
      [outage(300, 400), outage(210, 300), kill(450)],
    ]) {
      expect(broken({ operations, troubles })).toEqual([]);
    }
  });

  test("a write is there twice, in the end or in a read", () => {
    expect(broken({ operations: [write("v1", 1)], finals: [final(["v1", "v1"])] })).toEqual(["a write is there twice"]);
    expect(broken({ operations: [write("v1", 1), read(1, ["v1", "v1"])], finals: [final(["v1"])] })).toEqual([
      "a write is there twice",
    ]);
  });

  test("a write that failed is there, in the end or in a read", () => {
    expect(broken({ operations: [write("v1", 1, failed)], finals: [final(["v1"])] })).toEqual([
      "a write that failed is there",
    ]);
    expect(broken({ operations: [write("v1", 1, failed), read(1, ["v1"])] })).toEqual(["a write that failed is there"]);
  });

  test("a value came from nowhere: unknown, in another stream, or before it was sent", () => {
    expect(broken({ finals: [final(["v1"])] })).toEqual(["a value came from nowhere"]);
    expect(
      broken({ operations: [write("v1", 1, { stream: "other", outcome: "unknown" })], finals: [final(["v1"])] }),
    ).toEqual(["a value came from nowhere"]);
    expect(
      broken({ operations: [write("v1", 1), read(1, ["v1"], { startMs: 1, endMs: 2 })], finals: [final(["v1"])] }),
    ).toEqual(["a value came from nowhere"]);
  });

  test("transaction ids go against time: a later write has a smaller or the same one, at whatever nodes", () => {
    for (const txid of [1, 2]) {
      const operations = [write("v1", 2), write("v2", txid, { client: "two", node: "b", startMs: 26, endMs: 30 })];
      expect(broken({ operations, finals: [final(["v1", "v2"])] })).toEqual(["transaction ids go against time"]);
    }
    const together = [write("v1", 2), write("v2", 1, { client: "two", startMs: 24, endMs: 30 })];
    expect(broken({ operations: together, finals: [final(["v1", "v2"])] })).toEqual([]);
    const apart = [write("v1", 2), write("v2", 1, { database: "other", startMs: 26, endMs: 30 })];
    const finals = [
      {
        name: "fresh",
        databases: new Map([
          [database, new Map([[stream, [{ value: "v1" }]]])],
          ["other", new Map([[stream, [{ value: "v2" }]]])],
        ]),
      },
    ];
    expect(broken({ operations: apart, finals })).toEqual([]);
  });

  test("places go against transaction ids", () => {
    const operations = [write("v1", 1, { place: 2 }), write("v2", 2, { place: 1 })];
    expect(
      broken({
        operations,
        finals: [
          final([
            { value: "v2", place: 1 },
            { value: "v1", place: 2 },
          ]),
        ],
      }),
    ).toEqual(["places go against transaction ids"]);
  });

  test("a place is not kept", () => {
    const operations = [write("v1", 1, { place: 1 }), write("v2", 2, { place: 1, outcome: "ok" })];
    expect(
      broken({
        operations,
        finals: [
          final([
            { value: "v1", place: 1 },
            { value: "v2", place: 2 },
          ]),
        ],
      }),
    ).toEqual(["a place was given twice or is not kept"]);
  });

  test("a read is older than it asked", () => {
    expect(
      broken({
        operations: [write("v1", 1), write("v2", 2), read(1, ["v1"], { minTxid: 2 })],
        finals: [final(["v1", "v2"])],
      }),
    ).toEqual(["a read is older than it asked"]);
  });

  test("a read misses what its transaction id says", () => {
    expect(
      broken({ operations: [write("v1", 1), write("v2", 2), read(2, ["v2"])], finals: [final(["v1", "v2"])] }),
    ).toEqual(["a read misses what it must show"]);
    // What is lost in the end may have been lost by then.
    expect(
      broken({
        operations: [write("v1", 1), write("v2", 2), read(2, ["v2"])],
        troubles: [kill(16)],
        finals: [final(["v2"])],
      }),
    ).toEqual([]);
  });

  test("a read shows what is newer than it says", () => {
    expect(
      broken({ operations: [write("v1", 1), write("v2", 2), read(1, ["v1", "v2"])], finals: [final(["v1", "v2"])] }),
    ).toEqual(["a read shows what is newer than it says"]);
  });

  test("a primary read is stale, and only a primary one", () => {
    const operations = (isPrimary: boolean) => [
      write("v1", 1),
      write("v2", 2, { node: "b" }),
      read(1, ["v1"], { isPrimary }),
    ];
    expect(broken({ operations: operations(true), finals: [final(["v1", "v2"])] })).toEqual([
      "a primary read is stale",
    ]);
    expect(broken({ operations: operations(false), finals: [final(["v1", "v2"])] })).toEqual([]);
  });

  test("two nodes differ in the end", () => {
    const operations = [write("v1", 1), write("u1", 2, unknown)];
    expect(broken({ operations, finals: [final(["v1"]), final(["v1", "u1"], "a")] })).toEqual([
      "two nodes differ in the end",
    ]);
    expect(broken({ operations, finals: [final(["v1"]), { name: "a", databases: new Map() }] })).toEqual([
      "two nodes differ in the end",
    ]);
  });

  test("a lost transaction is not told from a known one", () => {
    const operations = [write("v1", 1), write("v2", 2)];
    const given = { operations, troubles: [kill(22)], finals: [final(["v1"])] };
    expect(
      broken({
        ...given,
        probes: [
          { database, txid: 1, answer: "known" },
          { database, txid: 2, answer: "lost" },
        ],
      }),
    ).toEqual([]);
    expect(broken({ ...given, probes: [{ database, txid: 1, answer: "lost" }] })).toEqual([
      "a lost transaction is not told from a known one",
    ]);
    expect(broken({ ...given, probes: [{ database, txid: 2, answer: "known" }] })).toEqual([
      "a lost transaction is not told from a known one",
    ]);
  });
});

test("two writers that both extend one history break more than one rule", () => {
  const operations = [
    write("v1", 1),
    write("x2", 2, { node: "a", durable: true }),
    write("y2", 2, { node: "b", durable: true, startMs: 30, endMs: 35 }),
    read(2, ["v1", "x2"], { client: "two" }),
  ];
  expect(broken({ operations, finals: [final(["v1", "y2"])] })).toEqual([
    "a durable write is lost",
    "transaction ids go against time",
    "a read misses what it must show",
  ]);
});
