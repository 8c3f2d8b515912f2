/** What the order makes of an embedder's vectors: names, neighbours, long questions, words that are too few alone. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { ingest, type MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import type { MemoryRecord } from "../../../../src/model/memory/memory-record.ts";
import { recall } from "../../../../src/model/recall.ts";
import { appendTurn } from "../../../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

let database: ModelDatabase;

beforeEach(() => {
  database = new ModelDatabase();
});

afterEach(() => database.close());

const embeddedBy = { name: "model", floor: 0.5 };
/** A unit vector at this cosine from the one that is asked for. */
const at = (cosine: number) => ({ embedding: Float32Array.of(cosine, Math.sqrt(1 - cosine ** 2)), embeddedBy });
const asked = { embedding: Float32Array.of(1, 0), embeddedBy: embeddedBy.name };

const say = (...drafts: (Partial<MemoryInput> & { summary: string })[]): void => {
  const memories = drafts.map((draft) => ({ type: "event", content: "null", ...draft }));
  database.write((tx) => ingest(tx, { memories }));
};
const ask = (query: string): MemoryRecord[] => recall(database.view(), { query, ...asked }).memories;
const found = (query: string): string[] => ask(query).map(({ summary }) => summary);
const crowd = Array.from({ length: 600 }, (_, index) => ({ summary: `note ${index} of the weekly report`, ...at(0) }));

test("a name that nothing here holds asks for more nearness", () => {
  say({ summary: "has two dogs", ...at(0.55) });
  expect(found("where is the puppy?")).toEqual(["has two dogs"]);
  expect(found("where is Audrey's puppy?")).toEqual([]);
  expect(found("Where is the puppy? Puppies run away.")).toEqual(["has two dogs"]);
  expect(found("WHERE IS THE PUPPY OF AUDREY")).toEqual(["has two dogs"]);
  say({ summary: "moved to Lisbon", source: "Audrey", ...at(0.1) });
  expect(found("where is Audrey's puppy?")).toContain("has two dogs");
});

test("what is near lifts what stands beside it in its session", () => {
  say(
    { summary: "the puppy ran away", sessionId: "s", ...at(0.9) },
    { summary: "it came back on Monday", sessionId: "s", ...at(0.6) },
    { summary: "the cat is fine", sessionId: "t", ...at(0.62) },
  );
  const order = ["the puppy ran away", "it came back on Monday", "the cat is fine"];
  expect(found("where do hounds sleep?")).toEqual(order);
  const answer = recall(database.view(), { ...asked, query: "" });
  expect(answer.memories.map(({ summary }) => summary)).toEqual([order[0], order[2], order[1]]);
});

test("so it does among turns", () => {
  const turn = (sessionId: string, text: string, cosine: number): unknown =>
    database.write((tx) => appendTurn(tx, { sessionId, role: "user", content: JSON.stringify(text), ...at(cosine) }));
  turn("s", "the puppy ran away", 0.9);
  turn("s", "it came back on Monday", 0.6);
  turn("t", "the cat is fine", 0.62);
  const input = { query: "where do hounds sleep?", ...asked, includeTurns: true, searchTurns: true };
  expect(recall(database.view(), input).turns.map(({ content }) => JSON.parse(content))).toEqual([
    "the puppy ran away",
    "it came back on Monday",
    "the cat is fine",
  ]);
});

test("words that are too few alone count where a vector lets the memory in", () => {
  say(...crowd, { summary: "the kettle is blue", ...at(0.6) }, { summary: "the cup is green", ...at(0.6) });
  const query = "which shop sells spare handles lids spouts filters gaskets kettle";
  expect(recall(database.view(), { query }).memories).toEqual([]);
  expect(ask(query).map(({ summary, channels }) => [summary, channels])).toEqual([
    ["the kettle is blue", ["vector"]],
    ["the cup is green", ["vector"]],
  ]);
});

test("a question of many words is asked for less nearness", () => {
  say(...crowd, { summary: "the kettle is blue", ...at(0.43) });
  const rare = "shop spare handle lid spout filter gasket seller price colour brand steel copper glass wire";
  expect(found("shop spare handle kettle lid spout filter")).toEqual([]);
  expect(found(`kettle ${rare}`)).toEqual(["the kettle is blue"]);
});
