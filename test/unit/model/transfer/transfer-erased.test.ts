/**
 * An import into a database that has erased something: what comes back is what the erasure has left, whatever the
 * export from before it says; and every record that is written is told to the change feed.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runWrite, type WriteInput, type WriteKind } from "../../../../src/model/commands.ts";
import { ulidTime } from "../../../../src/format/core/ids.ts";
import type { ErasureTarget } from "../../../../src/format/erasure/erasure-receipt.ts";
import type { ErasedNames } from "../../../../src/model/transfer/erased.ts";
import { importRecords } from "../../../../src/model/transfer/transfer.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { exportedLines, importLines, outcomesOf } from "../../../support/transferred.ts";

let database: ModelDatabase;
let ids = 0;
beforeEach(() => {
  database = new ModelDatabase();
});
afterEach(() => database.close());

function write<Kind extends WriteKind>(kind: Kind, input: WriteInput<Kind>): any {
  database.nowMs += 1_000;
  const newId = (): string => ulidTime(database.nowMs) + String(ids++).padStart(16, "0");
  return database.write((tx) => runWrite(kind, { ...tx, newId }, input));
}

function remember(memory: object): string {
  const whole = { type: "fact", summary: "x", content: "null", ...memory };
  return write("memory.ingest", { memories: [whole] }).results[0].id as string;
}

/** Fills the database; what is of the subject or the session is also mentioned by others. */
function fill(): Record<"ada" | "said" | "shared", string> {
  const say = (sessionId: string, content: string, subject?: string): void => {
    const turn = { role: "user", content: JSON.stringify(content), ...(subject !== undefined && { subject }) };
    write("turn.append_many", { sessionId, turns: [turn] });
  };
  say("s-ada", "I am Ada", "ada");
  say("s-1", "hello");
  say("s-1", "Ada called", "ada");
  const ada = remember({ summary: "Ada lives in Paris", subject: "ada", topicKey: "home" });
  remember({ summary: "somebody lives in Rome", topicKey: "home" });
  const said = remember({ summary: "said in a session", sessionId: "s-1" });
  const shared = remember({ summary: "said in two", sessionId: "s-1", source: "chat" });
  remember({ summary: "said in two", sessionId: "s-2", source: "mail" });
  remember({ type: "event", summary: "concluded", derivedFrom: [{ memoryId: ada }, { sessionId: "s-1", seq: 2 }] });
  remember({ type: "event", summary: "concluded too", derivedFrom: [{ sessionId: "s-1", seq: 1 }] });
  write("kv.put", { ns: "prefs", key: "mail", value: new Uint8Array([1]), subject: "ada" });
  write("kv.put", { ns: "prefs", key: "raw", value: new Uint8Array([2]) });
  write("docs.insert", { collection: "people", docs: ['{"_id":"ada"}'], subject: "ada" });
  write("vector.upsert", { collection: "faces", id: "ada", embedding: Float32Array.of(1, 2), subject: "ada" });
  write("file.put", { path: "ada/notes.md", text: "one", subject: "ada" });
  write("file.put", { path: "drafts/plan.md", text: "two" });
  write("file.move", { path: "drafts/plan.md", to: "plan.md", overwrite: false });
  return { ada, said, shared };
}

function erase(target: ErasureTarget): ErasedNames {
  const couponId = "ers_01JD8Z3K5N0V6W4X2Y1Z0A9B8C";
  const erased = write("memory.erase", { couponId, target, traceKey: new Uint8Array(32).fill(1) });
  expect(erased.found).toBe(true);
  const targets = target.kind === "memory" || target.kind === "topic" ? [] : [{ target, untilMs: database.nowMs }];
  return { memoryIds: erased.memoryIds, targets };
}

const sorted = (): readonly string[] => exportedLines(database).lines.toSorted();

describe("what was erased stays erased, and so do mentions of it", () => {
  test.each<[string, (of: ReturnType<typeof fill>) => ErasureTarget]>([
    ["a memory", ({ ada }) => ({ kind: "memory", memoryId: ada })],
    ["a topic", () => ({ kind: "topic", topicKey: "home", type: "fact" })],
    ["a session", () => ({ kind: "session", sessionId: "s-1", turns: false })],
    ["a session with its turns", () => ({ kind: "session", sessionId: "s-1", turns: true })],
    ["a turn", () => ({ kind: "turn", sessionId: "s-1", seq: 2 })],
    ["a path", () => ({ kind: "path", path: "drafts" })],
    ["a key", () => ({ kind: "key", ns: "prefs", key: "mail" })],
    ["a document", () => ({ kind: "document", collection: "people", id: "ada" })],
    ["a vector", () => ({ kind: "vector", collection: "faces", id: "ada" })],
    ["a subject", () => ({ kind: "subject", subject: "ada" })],
  ])("%s", (_what, targetOf) => {
    const filled = fill();
    const { lines } = exportedLines(database);
    const erased = erase(targetOf(filled));
    const left = sorted();
    for (const mode of ["skip", "replace"] as const) {
      const outcomes = outcomesOf(importLines(database, lines, { mode, erased }));
      expect(outcomes["erased"]).toBeGreaterThan(0);
      expect(outcomes["created"] ?? 0).toBe(0);
      expect(sorted()).toEqual(left);
    }
    // Into a database that lost the rest too, with the same erasures.
    using empty = disposable(new ModelDatabase());
    empty.it.nowMs = database.nowMs;
    importLines(empty.it, lines, { erased });
    // Where no turn was ever removed, no number of one is kept.
    const isFloor = (line: string): boolean => line.startsWith('{"kind":"turn_floor"');
    expect(exportedLines(empty.it).lines.toSorted()).toEqual(left.filter((line) => !isFloor(line)));
  });

  test("what is newer than the erasure comes in", () => {
    fill();
    const erased = erase({ kind: "subject", subject: "ada" });
    remember({ summary: "Ada is back", subject: "ada" });
    const { lines } = exportedLines(database);
    using copy = disposable(new ModelDatabase());
    copy.it.nowMs = database.nowMs;
    importLines(copy.it, lines, { erased });
    expect(exportedLines(copy.it).lines.join("\n")).toContain("Ada is back");
  });
});

test("every record that is written is told to the change feed", () => {
  fill();
  const { lines } = exportedLines(database);
  using copy = disposable(new ModelDatabase());
  const told = copy.it.write((tx) => {
    const records = lines.map((text, at) => ({ line: at + 2, text }));
    importRecords(tx, { records, mode: "skip", erased: { memoryIds: [], targets: [] } });
    return tx.notes.map((one) => (JSON.parse(one) as string[])[0]!);
  });
  const kinds = Map.groupBy(lines, (line) => /"kind":"(\w+)"/.exec(line)![1]!);
  const toldOf = Map.groupBy(told, (kind) => kind);
  for (const kind of ["memory", "turn", "kv", "doc", "vector", "file"])
    expect(toldOf.get(kind)?.length, kind).toBe(kinds.get(kind)!.length);
});

function disposable(it: ModelDatabase): Disposable & { readonly it: ModelDatabase } {
  return { it, [Symbol.dispose]: () => it.close() };
}
