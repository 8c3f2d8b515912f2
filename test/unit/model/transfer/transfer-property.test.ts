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
  fc
    .record({ sessionId: session, role: word, content: json, turnId: maybe(fc.uuid()), metadata: maybe(object) })
    .map(({ sessionId, ...turn }) => ({ kind: "turn.append_many", input: { sessionId, turns: [turn] } }) as const),
  session.map((sessionId) => ({ kind: "turn.delete", input: { sessionId, last: 1 } }) as const),
  session.map((sessionId) => ({ kind: "session.end", input: { sessionId, turns: false } }) as const),
  fc
    .record({ key: word, value: fc.uint8Array({ maxLength: 20 }), ttlSecs: maybe(fc.constantFrom(0, 60)) })
    .map(
      ({ ttlSecs, ...rest }) =>
        ({ kind: "kv.put", input: { ns: "prefs", ...rest, ...(ttlSecs !== undefined && { ttlSecs }) } }) as const,
    ),
  fc
    .tuple(fc.constantFrom("people", "Things"), object)
    .map(([collection, doc]) => ({ kind: "docs.insert", input: { collection, docs: [doc] } }) as const),
  fc.constantFrom("tag", "n").map((path) => ({ kind: "docs.index", input: { collection: "people", path } }) as const),
  fc
    .record({ id: word, embedding: vector, metadata: maybe(object) })
    .map(
      ({ metadata, ...rest }) =>
        ({ kind: "vector.upsert", input: { collection: "faces", ...rest, ...(metadata && { metadata }) } }) as const,
    ),
  fc
    .tuple(fc.constantFrom("a.md", "b/c.md", "b/d.md"), word)
    .map(([path, text]) => ({ kind: "file.put", input: { path, text } }) as const),
  fc
    .constantFrom("a.md", "b/c.md")
    .map((path) => ({ kind: "file.move", input: { path, to: "moved/x.md", overwrite: true } }) as const),
  fc.constantFrom("a.md", "b").map((path) => ({ kind: "file.delete", input: { path, recursive: true } }) as const),
);

let ids = 0;

/** Some steps are refused, such as a move of what is not there: then nothing happens. */
function take(database: ModelDatabase, all: readonly Step[]): void {
  for (const { kind, input } of all) {
    database.nowMs += 1_000;
    const newId = (): string => ulidTime(database.nowMs) + String(ids++).padStart(16, "0");
    database.group((tx) => runWrite(kind, { ...tx, newId }, input));
  }
}

/** What lies in tables without what it belongs to. Throws where an index of words differs from its texts. */
function residueOf({ connection }: ModelDatabase): readonly unknown[] {
  const strays = [strayMemoryText(connection), strayTurnText(connection), strayFiles(connection)];
  if (isBatched(connection)) strays.push(strayFingerprint);
  return strays.flatMap((sql) => (sql === undefined ? [] : connection.all(sql)));
}

function database(format?: number): ModelDatabase {
  return new ModelDatabase(new VectorCache(), format);
}

test("what is exported and imported is exported alike, and imported twice changes nothing", () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 25 }), fc.constantFrom(1, 2), fc.constantFrom(1, 2), (all, from, to) => {
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
