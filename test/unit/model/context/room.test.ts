/** How room is divided among sections, what is cut and what is left out. */
import { describe, expect, test } from "vitest";
import { lineText } from "../../../../src/model/context/block-text.ts";
import { makeRoom, type Offer, type Room } from "../../../../src/model/context/room.ts";
import { countQuarters } from "../../../../src/model/context/token-count.ts";

const about = (id: string) => ({ id, age: "1 d" });
const words = (count: number): string => Array.from({ length: count }, () => "word").join(" ");

function offer(name: string, texts: Readonly<Record<string, string>>, more: Partial<Offer> = {}): Offer {
  const ids = Object.keys(texts);
  return {
    name,
    share: 1,
    ids,
    line: (at) => ({ about: about(ids[at]!), text: texts[ids[at]!]!, isWhole: true }),
    more: false,
    ...more,
  };
}

const room = (quarters: number, lineQuarters = quarters): Room => ({ format: "markdown", quarters, lineQuarters });
const idsOf = (offers: readonly Offer[], within: Room): readonly string[] =>
  makeRoom(offers, within).map(({ lines }) => lines.map(({ id }) => id).join(" "));
const cost = (id: string, text: string): number => countQuarters(lineText("markdown", about(id), text));
const headingCost = 40;

describe("room", () => {
  test("that is enough is given to all, and nothing is left out", () => {
    const placed = makeRoom([offer("facts", { a: "one", b: "two" }), offer("tasks", { c: "three" })], room(10_000));
    expect(placed.map(({ lines, leftOut }) => [lines.length, leftOut])).toEqual([
      [2, 0],
      [1, 0],
    ]);
    expect(placed[0]!.lines.map(({ text }) => text)).toEqual(["- [a 1 d] one\n", "- [b 1 d] two\n"]);
  });

  test("is divided by shares where every section has more than fits", () => {
    const many = (letter: string) =>
      Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`${letter}${at}`, words(5)]));
    const placed = makeRoom(
      [offer("facts", many("f"), { share: 3 }), offer("tasks", many("t"), { share: 1 })],
      room(4_000),
    );
    const [facts, tasks] = placed.map(({ lines }) => lines.length) as [number, number];
    expect(facts / tasks).toBeGreaterThan(2.4);
    expect(facts / tasks).toBeLessThan(3.8);
    expect(placed.map(({ leftOut }) => leftOut)).toEqual([100 - facts, 100 - tasks]);
    expect(placed.reduce((sum, { quarters }) => sum + quarters, 0)).toBeLessThanOrEqual(4_000);
  });

  test("that a section leaves goes to the first that has more to show", () => {
    const offers = [offer("a", { a1: words(20), a2: words(20) }), offer("b", { b1: words(20) }), offer("c", {})];
    // A third is too little for one line each; what is left serves the first before the second.
    const one = headingCost + cost("a1", words(20));
    expect(idsOf(offers, room(one))).toEqual(["a1", "", ""]);
    expect(idsOf(offers, room(one + cost("a2", words(20))))).toEqual(["a1 a2", "", ""]);
    expect(idsOf(offers, room(2 * one + cost("a2", words(20))))).toEqual(["a1 a2", "b1", ""]);
  });
});

describe("a line that does not fit", () => {
  test("is cut at a word, and the section ends with it", () => {
    const [placed] = makeRoom([offer("facts", { a: words(200), b: "short" })], room(400));
    expect(placed!.lines).toMatchObject([{ id: "a", isCut: true }]);
    expect(placed!.lines[0]!.text).toMatch(/^- \[a 1 d\] (word )+word…\n$/);
    expect(placed!.quarters).toBeLessThanOrEqual(400);
    expect(placed!.quarters).toBeGreaterThan(380);
    expect(placed!.leftOut).toBe(1);
  });

  test("is left out whole where none is cut, and a shorter one behind it takes the room", () => {
    const [placed] = makeRoom([offer("instructions", { a: words(200), b: "short" }, { isUncut: true })], room(400));
    expect(placed).toMatchObject({ lines: [{ id: "b", isCut: false }], leftOut: 1 });
  });

  test("is not cut to a few words", () => {
    const whole = headingCost + cost("a", "first");
    expect(idsOf([offer("facts", { a: "first", b: words(200) })], room(whole + 60))).toEqual(["a"]);
    expect(idsOf([offer("facts", { a: "first", b: words(200) })], room(whole + 120))).toEqual(["a b"]);
  });

  test("takes no more than a line may, so that others fit behind it", () => {
    const [placed] = makeRoom([offer("facts", { a: words(500), b: words(500) })], room(4_000, 300));
    expect(placed!.lines.map(({ isCut, text }) => [isCut, countQuarters(text) <= 300])).toEqual([
      [true, true],
      [true, true],
    ]);
  });

  test("of which only the beginning was read is cut even where all of that fits", () => {
    const begun = offer(
      "facts",
      { a: "the beginning" },
      {
        line: () => ({ about: about("a"), text: "the beginning", isWhole: false }),
      },
    );
    expect(makeRoom([begun], room(1_000))[0]!.lines).toEqual([
      { id: "a", text: "- [a 1 d] the beginning…\n", isCut: true },
    ]);
    expect(makeRoom([{ ...begun, isUncut: true }], room(1_000))[0]).toEqual({ lines: [], leftOut: 1, quarters: 0 });
  });
});

test("a line stands in one section only, and is left out of none that another shows", () => {
  const offers = [offer("facts", { a: "one", b: "two" }), offer("memories", { b: "two", c: "three" })];
  const placed = makeRoom(offers, room(10_000));
  expect(placed.map(({ lines, leftOut }) => [lines.map(({ id }) => id), leftOut])).toEqual([
    [["a", "b"], 0],
    [["c"], 0],
  ]);
});

test("lines may stand in the other order than they are wanted in", () => {
  const turns = { "#3": words(30), "#2": words(30), "#1": words(30) };
  const most = headingCost + 2 * cost("#3", words(30)) + 8;
  expect(idsOf([offer("turns", turns, { isReversed: true })], room(most))).toEqual(["#2 #3"]);
});
