/** What an import is told of erasures: too much at most, never too little for what becomes of its records. */
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ErasedBook, type NamedErasure } from "../../../../src/service/erasure/erased-book.ts";
import { namesIn } from "../../../../src/service/transfer/record-names.ts";
import type { ErasureTarget } from "../../../../src/format/erasure/erasure-receipt.ts";
import type { ErasedNames } from "../../../../src/model/transfer/erased.ts";
import { planImport } from "../../../../src/model/transfer/transfer.ts";
import { runWrite, type WriteInput, type WriteKind } from "../../../../src/model/commands.ts";
import { ulidTime } from "../../../../src/format/core/ids.ts";
import { ModelDatabase } from "../../../support/model-database.ts";
import { exportedLines } from "../../../support/transferred.ts";

const source = new ModelDatabase();
const empty = new ModelDatabase();
let lines: readonly string[] = [];
let startMs = 0;
let ids = 0;

function write<Kind extends WriteKind>(kind: Kind, input: WriteInput<Kind>): void {
  source.nowMs += 1_000;
  const newId = (): string => ulidTime(source.nowMs) + String(ids++).padStart(16, "0");
  source.write((tx) => runWrite(kind, { ...tx, newId }, input));
}

beforeAll(() => {
  startMs = source.nowMs;
  for (const at of [1, 2, 3]) {
    const [session, subject] = [`s${at}`, `u${at}`];
    const turns = [1, 2].map(() => ({ role: "user", content: '"hello"', ...(at === 2 && { subject }) }));
    write("turn.append_many", { sessionId: session, turns });
    const memory = { type: "event", content: "{}", derivedFrom: [{ sessionId: "s1", seq: 2 }] } as const;
    const said = [
      { ...memory, summary: `said in ${at}`, sessionId: session },
      { ...memory, summary: "said by many", sessionId: session, source: `agent${at}` },
      { ...memory, summary: `about ${at}`, subject },
    ];
    write("memory.ingest", { memories: said });
    write("kv.put", { ns: `n${at}`, key: "a/b", value: new Uint8Array([at]), subject });
    write("docs.insert", { collection: `c${at}`, docs: ['{"_id":"a","b":"s1"}'] });
    write("vector.upsert", { collection: `c${at}`, id: "a", embedding: Float32Array.of(1, at) });
    write("file.put", { path: `a/b/${at}.md`, text: "one" });
    write("file.move", { path: `a/b/${at}.md`, to: `d${at}/x.md`, overwrite: false });
  }
  lines = exportedLines(source).lines;
  empty.nowMs = source.nowMs;
});
afterAll(() => {
  source.close();
  empty.close();
});

const digit = fc.integer({ min: 1, max: 4 });
const named = digit.map((n) => ["a", `s${n}`, `u${n}`, `n${n}`, `c${n}`, "a/b", `d${n}`, `d${n}/x.md`] as const);
const anyName = named.chain((names) => fc.constantFrom(...names));
const target = fc.oneof(
  digit.chain((n) => fc.boolean().map((turns) => ({ kind: "session", sessionId: `s${n}`, turns }) as const)),
  digit.chain((n) => digit.map((seq) => ({ kind: "turn", sessionId: `s${n}`, seq }) as const)),
  anyName.map((path) => ({ kind: "path", path }) as const),
  digit.chain((n) => anyName.map((key) => ({ kind: "key", ns: `n${n}`, key }) as const)),
  digit.chain((n) => anyName.map((id) => ({ kind: "document", collection: `c${n}`, id }) as const)),
  digit.chain((n) => anyName.map((id) => ({ kind: "vector", collection: `c${n}`, id }) as const)),
  digit.map((n) => ({ kind: "subject", subject: `u${n}` }) as const),
) satisfies fc.Arbitrary<ErasureTarget>;

test("records come to what they would come to if all erasures were told, however the records are cut", () => {
  const records = lines.map((text, at) => ({ line: at + 1, text }));
  const memoryIds = [...new Set(lines.join("\n").match(/mem_[0-9A-Z]{26}/g))];
  const erasure = fc.record({
    target,
    memoryIds: fc.subarray([...memoryIds, "mem_01JD8Z3K5N0V6W4X2Y1Z0A9B8C"], { maxLength: 3 }),
    requestedAtMs: fc.integer({ min: 0, max: 40 }).map((secs) => startMs + secs * 1_000),
  }) satisfies fc.Arbitrary<NamedErasure>;
  const told = fc.array(erasure, { maxLength: 6 });
  let erased = 0;
  fc.assert(
    fc.property(told, fc.integer({ min: 1, max: 12 }), (erasures, atOnce) => {
      const book = new ErasedBook();
      for (const one of erasures) book.add(one);
      const all: ErasedNames = {
        memoryIds: erasures.flatMap((one) => one.memoryIds),
        targets: erasures.map((one) => ({ target: one.target, untilMs: one.requestedAtMs })),
      };
      for (let at = 0; at < records.length; at += atOnce) {
        const batch = records.slice(at, at + atOnce);
        const found = namesIn(batch, { isEmpty: book.size === 0, find: (each) => book.find(each) });
        const plan = (names: ErasedNames) =>
          planImport(empty.view(), { records: batch, mode: "skip", erased: names, each: true });
        expect(plan(found)).toEqual(plan(all));
        erased += plan(all).each!.filter((outcome) => outcome === "erased").length;
        expect(found.targets.length).toBeLessThanOrEqual(all.targets.length);
      }
    }),
    { numRuns: 200 },
  );
  expect(erased).toBeGreaterThan(100);
});
