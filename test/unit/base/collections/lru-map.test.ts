/** The bounded map: who gives way, and what counts as use. */
import { describe, expect, test } from "vitest";
import { LruMap } from "../../../../src/base/collections/lru-map.ts";
import { seeded } from "../../../support/random.ts";

function filled(onEvict?: (key: string, value: number) => void): LruMap<string, number> {
  const recent = new LruMap<string, number>(3, onEvict);
  for (const [index, key] of ["a", "b", "c"].entries()) recent.set(key, index);
  return recent;
}

describe("a full map", () => {
  test("makes room by the entry that was set first when none was used since", () => {
    const recent = filled();
    recent.set("d", 3);
    expect([...recent.keys()]).toEqual(["b", "c", "d"]);
    expect([...recent.values()]).toEqual([1, 2, 3]);
    expect(recent.size).toBe(3);
  });

  test("keeps what was got or set again, and not what was merely looked at", () => {
    const recent = filled();
    expect(recent.get("a")).toBe(0);
    recent.set("b", 10);
    expect([recent.peek("c"), recent.has("c")]).toEqual([2, true]);
    recent.set("d", 3);
    expect([...recent.keys()]).toEqual(["a", "b", "d"]);
    expect(recent.peek("b")).toBe(10);
  });

  test("tells of what gave way, and of nothing else", () => {
    const evicted: [string, number][] = [];
    const recent = filled((key, value) => evicted.push([key, value]));
    recent.set("a", 5);
    expect(recent.delete("b")).toBe(true);
    expect(recent.delete("b")).toBe(false);
    recent.set("d", 3);
    expect(evicted).toEqual([]);
    recent.set("e", 4);
    expect(evicted).toEqual([["c", 2]]);
    recent.clear();
    expect([recent.size, evicted.length]).toEqual([0, 1]);
  });
});

test("what is not there is not put in by asking for it", () => {
  const recent = filled();
  expect([recent.get("x"), recent.peek("x"), recent.has("x")]).toEqual([undefined, undefined, false]);
  expect([...recent.keys()]).toEqual(["a", "b", "c"]);
});

test("a value that is undefined is an entry like any other", () => {
  const recent = new LruMap<string, undefined>(2);
  for (const key of ["a", "b"]) recent.set(key, undefined);
  expect(recent.get("a")).toBeUndefined();
  recent.set("c", undefined);
  expect([...recent.keys()]).toEqual(["a", "c"]);
});

test("agrees with a list in order of use over many random steps", () => {
  const random = seeded(11);
  const recent = new LruMap<number, number>(5);
  let list: [number, number][] = [];
  for (let step = 0; step < 5_000; step++) {
    const [key, draw] = [Math.floor(random() * 9), random()];
    const at = list.find(([known]) => known === key);
    if (draw < 0.4) {
      recent.set(key, step);
      list = [...list.filter((entry) => entry !== at), [key, step] as [number, number]].slice(-5);
    } else if (draw < 0.7) {
      expect(recent.get(key)).toBe(at?.[1]);
      if (at) list = [...list.filter((entry) => entry !== at), at];
    } else if (draw < 0.9) {
      expect(recent.peek(key)).toBe(at?.[1]);
    } else {
      expect(recent.delete(key)).toBe(at !== undefined);
      list = list.filter((entry) => entry !== at);
    }
    expect([...recent.keys()]).toEqual(list.map(([known]) => known));
  }
});
