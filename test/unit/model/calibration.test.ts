/** The floor of an embedder by the memories that are stored: what is measured, what follows, and what is refused. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seeded } from "../../../src/base/seeded.ts";
import {
  calibrationMemoriesMax,
  calibrationPairsMax,
  calibrationPairsMin,
  measureFloor,
  takeFloor,
  type Calibration,
} from "../../../src/model/calibration.ts";
import { ingest, type MemoryInput } from "../../../src/model/memory/memory-ingest.ts";
import { findMaker, memorySpace } from "../../../src/model/memory/memory-vectors.ts";
import { recall } from "../../../src/model/recall.ts";
import { ModelDatabase } from "../../support/model-database.ts";

let database: ModelDatabase;
let random: () => number;

beforeEach(() => {
  database = new ModelDatabase();
  random = seeded(11);
});

afterEach(() => database.close());

const maker = { name: "openai/unknown", floor: 0.2 };
const dimension = 32;

type Measured = Extract<Calibration, { readonly refused?: never }>;

/** What an embedder gives that puts all texts near to each other: unrelated ones at about .8. */
function somewhere(): Float32Array {
  return Float32Array.from({ length: dimension }, (_, at) => (at === 0 ? 6 : 2 * random() - 1));
}

/** About as near as this to it. */
function beside(other: Float32Array): Float32Array {
  return other.map((value) => value + (random() - 0.5) / 5);
}

function say(...drafts: (Partial<MemoryInput> & { embedding: Float32Array })[]): readonly string[] {
  const memories = drafts.map((draft, at) => ({
    type: "event",
    summary: `memory ${at} of ${random()}`,
    content: "null",
    embeddedBy: maker,
    ...draft,
  }));
  return database.write((tx) => ingest(tx, { memories })).results.map(({ id }) => id);
}

const crowd = (count: number): { embedding: Float32Array }[] =>
  Array.from({ length: count }, () => ({ embedding: somewhere() }));
const measure = (unrelatedShare = 0.02, seed = 1, embeddedBy = maker.name): Calibration =>
  measureFloor(database.view(), { embeddedBy, unrelatedShare, seed });
const measured = (unrelatedShare?: number, seed?: number): Measured => {
  const found = measure(unrelatedShare, seed);
  expect(found.refused).toBeUndefined();
  return found as Measured;
};
const take = (floor: number): { taken: boolean } =>
  database.write((tx) => takeFloor(tx, { embeddedBy: maker.name, floor }));
const storedFloor = (): number => findMaker(database.view(), memorySpace(database.view())!)!.floor;

function cosine(left: Float32Array, right: Float32Array): number {
  const dot = (one: Float32Array, other: Float32Array): number =>
    one.reduce((sum, value, at) => sum + value * other[at]!, 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}

describe("what is measured", () => {
  test.each([0.02, 0.1, 0.001])("the floor is the lowest that at most %d of the unrelated pairs reach", (share) => {
    const memories = crowd(60);
    say(...memories);
    const all = memories.flatMap(({ embedding }, at) =>
      memories.slice(at + 1).map((other) => cosine(embedding, other.embedding)),
    );
    const shareFrom = (floor: number): number => all.filter((value) => value >= floor).length / all.length;
    const { floor, floorBefore, unrelated, related, memories: sampled } = measured(share);
    expect(shareFrom(floor)).toBeLessThanOrEqual(share);
    expect(shareFrom(floor - 0.001)).toBeGreaterThan(share);
    expect([sampled, floorBefore, unrelated.pairs, related]).toEqual([60, maker.floor, 1_770, { pairs: 0 }]);
    expect(unrelated.share).toBeCloseTo(shareFrom(floor), 10);
    expect(unrelated.shareBefore).toBe(1);
    expect(unrelated.highest).toBeCloseTo(Math.max(...all), 6);
    expect(unrelated.median).toBeGreaterThan(0.6);
  });

  test("a topic and a session relate memories, and what is not visible is not looked at", () => {
    say(...crowd(30));
    const base = measured();
    const [one, two] = [somewhere(), somewhere()];
    say({ type: "fact", topicKey: "ui", embedding: one });
    say({ type: "fact", topicKey: "ui", embedding: beside(one) });
    say({ sessionId: "s", embedding: two }, { sessionId: "s", embedding: beside(two) });
    const found = measured();
    expect(found.memories).toBe(34);
    expect(found.unrelated.pairs).toBe((34 * 33) / 2 - 2);
    expect(found.related.pairs).toBe(2);
    expect(found.related.median).toBeGreaterThan(0.97);
    expect(found.related.share).toBe(1);
    expect(Math.abs(found.floor - base.floor)).toBeLessThan(0.1);
    say(...crowd(20).map((draft) => ({ ...draft, type: "task", ttlSecs: 60 })));
    expect(measured().memories).toBe(54);
    database.nowMs += 60_000;
    expect(measured()).toEqual(found);
  });

  test("of many memories and pairs so many at most are looked at, and the seed says which", () => {
    for (let at = 0; at < 3; at++) say(...crowd(700));
    const found = measured(0.02, 5);
    expect(found.memories).toBeLessThanOrEqual(calibrationMemoriesMax);
    expect(found.memories).toBeGreaterThan(calibrationMemoriesMax / 2);
    expect(found.unrelated.pairs).toBe(calibrationPairsMax);
    expect(measured(0.02, 5)).toEqual(found);
    const other = measured(0.02, 6);
    expect(other.unrelated.median).not.toBe(found.unrelated.median);
    expect(Math.abs(other.floor - found.floor)).toBeLessThan(0.02);
  });
});

describe("a floor that is taken in", () => {
  const found = (embedding: Float32Array): string[] =>
    recall(database.view(), { embedding, embeddedBy: maker.name, k: 100 }).memories.map(({ id }) => id);

  test("decides what a recall finds, until another one takes its place", () => {
    say(...crowd(60));
    const mine = somewhere();
    const [id] = say({ embedding: mine });
    const question = beside(mine);
    expect(found(question)).toHaveLength(61);
    const { floor } = measured();
    expect(take(floor)).toEqual({ taken: true });
    expect(storedFloor()).toBe(floor);
    const near = found(question);
    expect(near[0]).toBe(id);
    expect(near.length).toBeLessThan(10);
    expect(measured()).toMatchObject({ floorBefore: floor, floor });
    const lower = measured(0.5).floor;
    expect(lower).toBeLessThan(floor);
    take(lower);
    expect(storedFloor()).toBe(lower);
    expect(found(question).length).toBeGreaterThan(near.length);
  });

  test("that is the same as before changes nothing", () => {
    say(...crowd(2));
    const changed = (floor: number): boolean => {
      const outcome = database.group((tx) => takeFloor(tx, { embeddedBy: maker.name, floor }))[0]!;
      return outcome.kind === "done" && outcome.changed;
    };
    expect([changed(0.31), changed(0.31), changed(0.3)]).toEqual([true, false, true]);
  });
});

describe("is refused", () => {
  test("without vectors, and with too few unrelated pairs", () => {
    expect(measure()).toEqual({ refused: "no_vectors" });
    say(...crowd(20));
    expect(measure()).toEqual({ refused: "too_few", pairs: 190 });
    expect(190).toBeLessThan(calibrationPairsMin);
    say(...crowd(100).map((draft) => ({ ...draft, sessionId: "one" })));
    expect(measured().unrelated.pairs).toBe(190 + 20 * 100);
  });

  test("where the vectors are another embedder's or the callers' own, and then nothing is set", () => {
    say(...crowd(30));
    expect(measure(0.02, 1, "openai/other")).toEqual({ refused: "foreign", embeddedBy: maker.name });
    expect(database.write((tx) => takeFloor(tx, { embeddedBy: "openai/other", floor: 0.9 }))).toEqual({ taken: false });
    expect(storedFloor()).toBe(maker.floor);
    const callers = new ModelDatabase();
    try {
      callers.write((tx) =>
        ingest(tx, { memories: [{ type: "event", summary: "s", content: "1", embedding: somewhere() }] }),
      );
      const asked = { embeddedBy: maker.name, unrelatedShare: 0.02, seed: 1 };
      expect(measureFloor(callers.view(), asked)).toEqual({ refused: "foreign", embeddedBy: undefined });
      expect(callers.write((tx) => takeFloor(tx, { embeddedBy: maker.name, floor: 0.9 }))).toEqual({ taken: false });
    } finally {
      callers.close();
    }
  });

  test("where all have the same direction", () => {
    const same = somewhere();
    say(...crowd(30).map(() => ({ embedding: same })));
    expect(measure()).toEqual({ refused: "no_difference" });
  });
});
