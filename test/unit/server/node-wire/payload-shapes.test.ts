/** Shapes of what commands are given: what they find wrong, and what the compiler finds wrong with them. */
import { describe, expect, test } from "vitest";
import {
  list,
  maybe,
  number,
  oneOf,
  record,
  type Shape,
  text,
  variants,
} from "../../../../src/server/node-wire/payload-shapes.ts";

interface Item {
  readonly id: string;
  readonly count?: number;
}

const item: Shape<Item> = record({ id: text, count: maybe(number) });

describe("what is wrong with data", () => {
  const shape = record<{ readonly items: readonly Item[]; readonly kind: "a" | "b" }>({
    items: list(item),
    kind: oneOf("a", "b"),
  });

  test.each([
    [{ items: [], kind: "a" }, undefined],
    [{ items: [{ id: "x" }, { id: "x", count: 1 }, { id: "x", count: undefined }], kind: "b" }, undefined],
    [{ items: [], kind: "a", later: undefined }, undefined],
    [
      { items: [{ id: 1 }], kind: "a" },
      { what: "given.items.id must be text", isUnknown: false },
    ],
    [
      { items: [{}], kind: "a" },
      { what: "given.items.id must be text", isUnknown: false },
    ],
    [
      { items: [null], kind: "a" },
      { what: "given.items must be a record", isUnknown: false },
    ],
    [
      { items: {}, kind: "a" },
      { what: "given.items must be a list", isUnknown: false },
    ],
    [
      { items: [], kind: 1 },
      { what: "given.kind must be one of a, b", isUnknown: false },
    ],
    [
      { items: [], kind: "c" },
      { what: "given.kind must be one of a, b", isUnknown: true },
    ],
    [
      { items: [{ id: "x", later: 1 }], kind: "a" },
      { what: "given.items.later", isUnknown: true },
    ],
    [
      { items: [], kind: "a", constructor: 1 },
      { what: "given.constructor", isUnknown: true },
    ],
    [[], { what: "given must be a record", isUnknown: false }],
    [new Uint8Array(1), { what: "given must be a record", isUnknown: false }],
  ])("%j", (value, fault) => {
    expect(shape.findFault(value, "given")).toEqual(fault);
  });

  test("a variant that is none, and a field of another one", () => {
    type Act = { readonly act: "go"; readonly to: string } | { readonly act: "stay" };
    const act = variants<"act", Act>("act", {
      go: record({ act: oneOf("go"), to: text }),
      stay: record({ act: oneOf("stay") }),
    });
    expect(act.findFault({ act: "go", to: "x" }, "act")).toBeUndefined();
    expect(act.findFault({ act: "stay", to: "x" }, "act")).toEqual({ what: "act.to", isUnknown: true });
    for (const name of ["toString", "__proto__", "fly"])
      expect(act.findFault({ act: name }, "act")).toEqual({ what: `act.act ${name}`, isUnknown: true });
    expect(act.findFault({ act: 1 }, "act")).toEqual({ what: "act.act must be text", isUnknown: false });
    expect(act.findFault({}, "act")).toEqual({ what: "act.act must be text", isUnknown: false });
  });
});

test("the compiler refuses shapes that are not those of their types", () => {
  expect([
    // @ts-expect-error one field is missing
    record<Item>({ id: text }),
    // @ts-expect-error one field is too many
    record<Item>({ id: text, count: maybe(number), more: text }),
    // @ts-expect-error it may be absent, and the shape wants it
    record<Item>({ id: text, count: number }),
    // @ts-expect-error it is never absent, and the shape lets it be
    record<Item>({ id: maybe(text), count: maybe(number) }),
    // @ts-expect-error it is of another kind
    record<Item>({ id: number, count: maybe(number) }),
    // @ts-expect-error a text is not one of a few
    record<{ readonly kind: "a" | "b" }>({ kind: text }),
    // @ts-expect-error one of them is missing
    record<{ readonly kind: "a" | "b" }>({ kind: oneOf("a") }),
  ]).toHaveLength(7);
});
