/**
 * Memories in random order taken in, proposed, reviewed, completed and forgotten, beside a model of a few lines: both
 * formats give the same answers as it.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ingest } from "../../../src/model/memory/memory-ingest.ts";
import { listMemories } from "../../../src/model/memory/memory-list.ts";
import { deleteMemory, updateMemory } from "../../../src/model/memory/stored-memories.ts";
import { recall } from "../../../src/model/recall.ts";
import { review } from "../../../src/model/review.ts";
import type { MemoryState } from "../../../src/model/standing/states.ts";
import { ModelDatabase } from "../../support/model-database.ts";

interface Said {
  readonly type: string;
  readonly topicKey?: string;
  readonly summary: string;
}

interface Held {
  readonly id: string;
  readonly said: Said;
  state: MemoryState;
  by: string | null;
}

const same = (left: Said, right: Said): boolean =>
  left.type === right.type && left.topicKey === right.topicKey && left.summary === right.summary;

/** What memories should do. */
class Model {
  /** In the order in which they were taken in. */
  held: Held[] = [];

  find(state: MemoryState, said: Said): Held | undefined {
    return this.held.find((one) => one.state === state && same(one.said, said));
  }

  /** Takes in, and gives what the answer should be; `newId` is the id that a new one has. */
  takeIn(said: Said, newId: string, proposed: boolean): { id: string; status: string; superseded: string[] } {
    const active = this.find("active", said);
    if (active) return { id: active.id, status: "duplicate", superseded: [] };
    const pending = proposed ? this.find("proposed", said) : undefined;
    if (pending) return { id: pending.id, status: "proposed", superseded: [] };
    const old =
      proposed || said.topicKey === undefined
        ? undefined
        : this.held.find(
            ({ state, said: { type, topicKey } }) =>
              state === "active" && type === said.type && topicKey === said.topicKey,
          );
    if (old) Object.assign(old, { state: "superseded", by: newId });
    this.held.push({ id: newId, said, state: proposed ? "proposed" : "active", by: null });
    return { id: newId, status: proposed ? "proposed" : "created", superseded: old ? [old.id] : [] };
  }

  remove(id: string): boolean {
    const before = this.held.length;
    this.held = this.held.filter((one) => one.id !== id);
    return this.held.length < before;
  }
}

type Step =
  | { readonly do: "say"; readonly said: Said; readonly proposed: boolean }
  | { readonly do: "review"; readonly which: number; readonly approve: boolean }
  | { readonly do: "forget" | "complete" | "open"; readonly which: number };

const said: fc.Arbitrary<Said> = fc.oneof(
  fc.record({
    type: fc.constantFrom("fact", "instruction"),
    topicKey: fc.constantFrom("home", "work"),
    summary: fc.constantFrom("one", "two", "three"),
  }),
  fc.record({ type: fc.constantFrom("fact", "event", "task"), summary: fc.constantFrom("one", "two") }),
);
const which = fc.nat({ max: 30 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("say" as const), said, proposed: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("review" as const), which, approve: fc.boolean() }) },
  fc.record({ do: fc.constantFrom("forget" as const, "complete" as const, "open" as const), which }),
);

/** Runs a step on both, and compares what they answer. */
function run(database: ModelDatabase, model: Model, one: Step): void {
  if (one.do === "say") {
    const memory = { ...one.said, content: "{}", ...(one.proposed && { proposed: true }) };
    const [result] = database.write((tx) => ingest(tx, { memories: [memory] })).results;
    const { expiresAt: _, ...told } = result!;
    expect(told).toEqual(model.takeIn(one.said, told.id, one.proposed));
    return;
  }
  const chosen = model.held[one.which % (model.held.length || 1)];
  const id = chosen?.id ?? "mem_nothing";
  switch (one.do) {
    case "review": {
      const verdict = one.approve ? "approve" : "reject";
      const [reviewed] = database.write((tx) => review(tx, { ids: [id], verdict })).results;
      expect(reviewed).toEqual(reviewedBy(model, chosen, id, one.approve));
      return;
    }
    case "forget":
      expect(database.write((tx) => deleteMemory(tx, { id })).forgotten).toBe(model.remove(id));
      return;
    case "complete":
    case "open": {
      if (chosen?.said.type !== "task" || chosen.state === "proposed") return;
      const completed = one.do === "complete";
      const isTwice = !completed && chosen.state === "completed" && model.find("active", chosen.said) !== undefined;
      const act = () => database.write((tx) => updateMemory(tx, { id, completed }));
      if (isTwice) expect(act).toThrow("is open");
      else act();
      if (!isTwice) chosen.state = completed ? "completed" : "active";
    }
  }
}

function reviewedBy(model: Model, chosen: Held | undefined, id: string, approve: boolean): object {
  if (chosen?.state !== "proposed") return { id, status: "unknown", superseded: [] };
  model.remove(id);
  if (!approve) return { id, status: "rejected", superseded: [] };
  const { id: heldId, status, superseded } = model.takeIn(chosen.said, id, false);
  return status === "duplicate"
    ? { id, status, duplicateOf: heldId, superseded }
    : { id, status: "approved", superseded };
}

describe.each([1, 2])("in a file of format %i", (format) => {
  test("states are those of the model, whatever happens in whatever order", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), (steps) => {
        const database = new ModelDatabase(undefined, format);
        try {
          const model = new Model();
          for (const one of steps) {
            database.nowMs += 1;
            run(database, model, one);
          }
          for (const state of ["active", "superseded", "completed", "proposed"] as const) {
            const { memories } = listMemories(database.view(), { states: [state], order: "asc", limit: 100 });
            const expected = model.held.filter((held) => held.state === state);
            expect(memories.map(({ id, supersededBy }) => ({ id, by: supersededBy }))).toEqual(
              expected.map(({ id, by }) => ({ id, by })),
            );
          }
          for (const topicKey of ["home", "work"]) {
            const found = recall(database.view(), { topicKey, k: 50 }).memories.map(({ id }) => id);
            const expected = model.held.filter((held) => held.said.topicKey === topicKey && held.state === "active");
            expect(found.toSorted()).toEqual(expected.map(({ id }) => id).toSorted());
          }
        } finally {
          database.close();
        }
      }),
      { numRuns: 60 },
    );
  });
});
