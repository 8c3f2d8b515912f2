/**
 * The shapes of what an undo is told: things by their names, and rows as they are stored.
 *
 * Always true: what passes has names of tables and columns that are names and nothing else, as they become parts of
 * statements. Must not know how payloads are written.
 */
import type { ReadInput, WriteInput } from "../../model/commands.ts";
import type { StoredThing, Thing } from "../../model/undo/things.ts";
import { boolean, list, maybe, number, record, type Shape, text } from "./payload-shapes.ts";

const name = /^[a-z_][a-z0-9_]*$/;

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

function isRow(value: unknown): boolean {
  if (!isMap(value)) return false;
  return Object.entries(value).every(
    ([column, held]) =>
      name.test(column) &&
      (held === null || ["number", "bigint", "string"].includes(typeof held) || held instanceof Uint8Array),
  );
}

function isStored(value: unknown): boolean {
  if (!isMap(value) || !isRow(value["own"]) || !isMap(value["parts"]) || Object.keys(value).length !== 2) return false;
  return Object.entries(value["parts"]).every(
    ([table, rows]) => name.test(table) && Array.isArray(rows) && rows.every(isRow),
  );
}

const stored: Shape<StoredThing> = {
  findFault: (value, path) =>
    isStored(value) ? undefined : { what: `${path} must be rows as they are stored`, isUnknown: false },
};

const kinds = ["memory", "session", "turn", "kv", "doc", "vector", "file"];

const thing: Shape<Thing> = {
  findFault: (value, path) => {
    const isThing =
      Array.isArray(value) &&
      value.length > 1 &&
      value.length < 4 &&
      value.every((part) => typeof part === "string" || typeof part === "number");
    if (!isThing) return { what: `${path} must be a kind and its names`, isUnknown: false };
    return kinds.includes(value[0] as string) ? undefined : { what: `${path} ${value[0]}`, isUnknown: true };
  },
};

const left = { thing, mark: maybe(text) };

export const undoChangesShape: Shape<ReadInput<"undo.changes">> = record({ txid: number });

export const undoBeforeShape: Shape<ReadInput<"undo.before">> = record({ txid: number, left: list(record(left)) });

export const undoShape: Shape<WriteInput<"undo.apply">> = record({
  txid: number,
  things: list(record({ ...left, before: maybe(stored) })),
  dryRun: maybe(boolean),
  keepsMemories: maybe(text),
});
