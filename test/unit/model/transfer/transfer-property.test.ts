/**
 * Databases of chance, of all kinds of records: what is exported and imported into an empty database is exported alike,
 * whatever the parts; imported again it changes nothing, nor into one that has records of its own.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { runWrite, type WriteKind } from "../../../../src/model/commands.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { exportedLines, importLines, outcomesOf } from "../../../support/transferred.ts";
import { ulidTime } from "../../../../src/format/core/ids.ts";
import { VectorCache } from "../../../../src/model/index/vector-index.ts";
import { strayMemoryText } from "../../../../src/model/memory/keyword.ts";
import { strayTurnText } from "../../../../src/model/transcript/turn-text.ts";
import { strayFiles } from "../../../../src/model/files/file-store.ts";
import { strayFingerprint } from "../../../../src/model/memory/fingerprint-index.ts";
import { straySubjects } from "../../../../src/model/core/subjects.ts";
import { strayLinks } from "../../../../src/model/standing/links.ts";
import { strayValidity } from "../../../../src/model/standing/validity.ts";
import { isBatched } from "../../../../src/model/core/database-state.ts";

interface Step {
  readonly kind: WriteKind;
  readonly input: unknown;
}

const json = fc.json({ maxDepth: 3 });
const object = fc
  .dictionary(fc.constantFrom("tag", "n", "a b"), fc.oneof(fc.integer(), fc.string()))
  .map((value) => JSON.stringify(value));
const word = fc.constantFrom("tea", "light theme", "Grüße 茶", "invoice 12", "\u{1f375}");
const session = fc.constantFrom("s-1", "s-2");
const vector = fc
  .array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 3 })
  .map((v) => Float32Array.from(v));
const maybe = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });
const subject = fc.constantFrom("ada", "Bob ☂");
const since = fc.constantFrom(-86_400_000, 1_700_000_005_000);
const until = fc.constantFrom(1_700_000_010_000, 1_800_000_000_000);
const maker = { name: "model/a", floor: 0.25 };

const memory = fc.record(
  {
    type: fc.constantFrom("fact", "event", "instruction", "task"),
    summary: word,
    content: json,
    keywords: word,
    sessionId: session,
    source: fc.constantFrom("chat", "mail"),
    metadata: object,
    embedding: vector,
    pinned: fc.boolean(),
    proposed: fc.boolean(),
    subject,
    validFromMs: since,
    validUntilMs: until,
    derivedFrom: fc.constantFrom([{ sessionId: "s-1", seq: 1 }], [{ sessionId: "s-2", seq: 2 }], []),
  },
  { requiredKeys: ["type", "summary", "content"] },
);

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(memory, maybe(fc.constantFrom("theme", "drink")), fc.boolean()).map(([one, topicKey, isMade]) => {
    const hasTopic = topicKey !== undefined && (one.type === "fact" || one.type === "instruction");
    const by = isMade ? { embeddedBy: maker } : {};
    const input = { memories: [{ ...one, ...(hasTopic && { topicKey }), ...by }] };
    return { kind: "memory.ingest", input } as const;
  }),
  fc.boolean().map((completed) => ({ kind: "memory.update", input: { id: "a task", completed } }) as const),
  fc
    .record({
      ...{ sessionId: session, role: word, content: json, turnId: maybe(fc.uuid()), metadata: maybe(object) },
      subject: maybe(subject),
    })
    .map(({ sessionId, ...turn }) => ({ kind: "turn.append_many", input: { sessionId, turns: [turn] } }) as const),
  session.map((sessionId) => ({ kind: "turn.delete", input: { sessionId, last: 1 } }) as const),
  session.map((sessionId) => ({ kind: "session.end", input: { sessionId, turns: false } }) as const),
  fc
    .record({
      ...{ key: word, value: fc.uint8Array({ maxLength: 20 }), ttlSecs: maybe(fc.constantFrom(0, 60)) },
      subject: maybe(subject),
    })
    .map((input) => ({ kind: "kv.put", input: { ns: "prefs", ...input } }) as const),
  fc
    .record({ collection: fc.constantFrom("people", "Things"), docs: fc.array(object), subject: maybe(subject) })
    .map((input) => ({ kind: "docs.insert", input }) as const),
  fc.constantFrom("tag", "n").map((path) => ({ kind: "docs.index", input: { collection: "people", path } }) as const),
  fc
    .record({ id: word, embedding: vector, metadata: maybe(object), subject: maybe(subject) })
    .map((input) => ({ kind: "vector.upsert", input: { collection: "faces", metric: "dot", ...input } }) as const),
  fc
    .record({ path: fc.constantFrom("a.md", "b/c.md", "b/d.md"), text: word, subject: maybe(subject) })
    .map((input) => ({ kind: "file.put", input }) as const),
  fc
    .constantFrom("a.md", "b/c.md")
    .map((path) => ({ kind: "file.move", input: { path, to: "moved/x.md", overwrite: true } }) as const),
  fc.constantFrom("a.md", "b").map((path) => ({ kind: "file.delete", input: { path, recursive: true } }) as const),
);

const formats = fc.constantFrom(1, 2, 3);

let ids = 0;

/** Some steps are refused, such as a move of what is not there: then nothing happens. */
function take(database: ModelDatabase, all: readonly Step[]): void {
  for (const { kind, input } of all) {
    database.nowMs += 1_000;
    const newId = (): string => ulidTime(database.nowMs) + String(ids++).padStart(16, "0");
    const named = kind === "memory.update" ? { ...(input as object), id: anyTask(database) } : input;
    database.group((tx) => runWrite(kind, { ...tx, newId }, named));
  }
}

function anyTask({ connection }: ModelDatabase): string {
  const sql = "SELECT id FROM __service_memory WHERE type = 'task' ORDER BY row LIMIT 1";
  return connection.get<{ id: string }>(sql)?.id ?? "mem_none";
}

/** What lies in tables without what it belongs to. Throws where an index of words differs from its texts. */
function residueOf({ connection }: ModelDatabase): readonly unknown[] {
  const strays = [strayMemoryText(connection), strayTurnText(connection), strayFiles(connection)];
  strays.push(straySubjects(connection), strayLinks(connection), strayValidity(connection));
  if (isBatched(connection)) strays.push(strayFingerprint);
  return strays.flatMap((sql) => (sql === undefined ? [] : connection.all(sql)));
}

function database(format?: number): ModelDatabase {
  return new ModelDatabase(new VectorCache(), format);
}

test("what is exported and imported is exported alike, and imported twice changes nothing", () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 25 }), formats, formats, (all, from, to) => {
      using source = disposable(database(from));
      using target = disposable(database(to));
      take(source.it, all);
      const { lines, hash } = exportedLines(source.it);
      expect(exportedLines(source.it, 1)).toEqual({ lines, hash });
      target.it.nowMs = source.it.nowMs;
      const first = outcomesOf(importLines(target.it, lines));
      expect(first["created"] ?? 0).toBe(lines.length);
      expect(exportedLines(target.it)).toEqual({ lines, hash });
      expect(residueOf(target.it)).toEqual([]);
      expect(outcomesOf(importLines(target.it, lines))).toEqual(lines.length > 0 ? { unchanged: lines.length } : {});
      expect(exportedLines(target.it).hash).toBe(hash);
    }),
    { numRuns: 15 },
  );
});

test("into a database with records of its own, the second time changes nothing", () => {
  const modes = fc.constantFrom("skip" as const, "replace" as const);
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 15 }), fc.array(steps, { maxLength: 15 }), modes, (own, all, mode) => {
      using source = disposable(database());
      using target = disposable(database());
      take(source.it, all);
      take(target.it, own);
      source.it.nowMs = target.it.nowMs = Math.max(source.it.nowMs, target.it.nowMs);
      const { lines } = exportedLines(source.it);
      importLines(target.it, lines, { mode });
      const once = exportedLines(target.it).lines.toSorted();
      expect(residueOf(target.it)).toEqual([]);
      importLines(target.it, lines, { mode });
      expect(exportedLines(target.it).lines.toSorted()).toEqual(once);
    }),
    { numRuns: 15 },
  );
});

function disposable(it: ModelDatabase): Disposable & { readonly it: ModelDatabase } {
  return { it, [Symbol.dispose]: () => it.close() };
}
