/**
 * Values between JSON and SQLite, exactly: parameters in, rows out.
 *
 * Always true: an integer that SQLite holds comes back as the same integer, and a JSON integer goes in as one, all 64
 * bits of it; a number inside a parameter's object keeps its source text. Must not know: statements' meaning.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { SqlValue } from "../../sqlite/connection/connection.ts";

// JSON.rawJSON and the reviver's source text are in the language (ES2026) but not yet in the compiler's library.
interface ExactJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): { readonly rawJSON: string };
  isRawJSON(value: unknown): value is { readonly rawJSON: string };
}
const exactJson = JSON as unknown as ExactJson;

const int64Min = -(2n ** 63n);
const int64Max = 2n ** 63n - 1n;
const integerText = /^-?[0-9]+$/;
const base64Text = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Parameters as they came: by position or by name, not yet turned into SQLite's values. */
export type GivenParams =
  | { readonly kind: "positions"; readonly values: readonly unknown[] }
  | { readonly kind: "names"; readonly values: ReadonlyMap<string, unknown> };

/** What is bound to a statement: the arguments of better-sqlite3's run and iterate. */
export type BoundParams = readonly (readonly SqlValue[] | Readonly<Record<string, SqlValue>>)[];

/** Parses a statement's parameters. Throws invalid_request when they are neither an array nor an object. */
export function parseParams(paramsJson: string | undefined): GivenParams {
  if (paramsJson === undefined) return { kind: "positions", values: [] };
  let parsed: unknown;
  try {
    parsed = exactJson.parse(paramsJson, (_key, value, { source }) =>
      typeof value === "number" ? exactJson.rawJSON(source!) : value,
    );
  } catch {
    throw invalid("params must be JSON");
  }
  if (parsed === null) return { kind: "positions", values: [] };
  if (Array.isArray(parsed)) return { kind: "positions", values: parsed };
  if (typeof parsed === "object" && !exactJson.isRawJSON(parsed))
    return { kind: "names", values: new Map(Object.entries(parsed)) };
  throw invalid("params must be an array, or an object of parameters by name");
}

/** A number by its source text: an integer within 64 bits stays one, anything else is a double. */
function parseNumber(source: string): bigint | number {
  if (!integerText.test(source)) return Number(source);
  const integer = BigInt(source);
  return integer >= int64Min && integer <= int64Max ? integer : Number(source);
}

function parseBlob(value: object): Buffer | undefined {
  const keys = Object.keys(value);
  if (keys.length !== 1 || keys[0] !== "$base64") return undefined;
  const text = (value as { readonly $base64: unknown }).$base64;
  if (typeof text !== "string" || !base64Text.test(text))
    throw invalid("a parameter's $base64 must be a string of padded base64");
  return Buffer.from(text, "base64");
}

/** One parameter as SQLite takes it. Integers are bigint, because better-sqlite3 binds every number as REAL. */
function toSqlValue(value: unknown): SqlValue {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (exactJson.isRawJSON(value)) return parseNumber(value.rawJSON);
  return parseBlob(value as object) ?? JSON.stringify(value);
}

/** Every way to write a parameter's name is accepted: with its sign, or without. */
function givenByName(values: ReadonlyMap<string, unknown>, name: string, used: Set<string>): unknown {
  for (const key of [name, name.slice(1)]) {
    if (!values.has(key)) continue;
    used.add(key);
    return values.get(key);
  }
  throw invalid(`params has no value for ${name}`);
}

/**
 * The arguments that bind `given` to a statement with these parameters (sqlite/sql-tokens: listParameters). Throws
 * invalid_request when there are too many or too few, or a name fits none.
 */
export function bindParams(names: readonly (string | undefined)[], given: GivenParams): BoundParams {
  const used = new Set<string>();
  if (given.kind === "positions" && given.values.length !== names.length) {
    throw invalid(`the statement has ${names.length} parameters, params has ${given.values.length} values`);
  }
  const plain: SqlValue[] = [];
  const byName = new Map<string, SqlValue>();
  for (const [index, name] of names.entries()) {
    if (name === undefined) {
      if (given.kind === "names") throw invalid("params is an object, but the statement has parameters without a name");
      plain.push(toSqlValue(given.values[index]));
      continue;
    }
    const value = toSqlValue(given.kind === "names" ? givenByName(given.values, name, used) : given.values[index]);
    // better-sqlite3 knows a parameter by its name without the sign, so two that differ in the sign share one value.
    const key = name.slice(1);
    const other = byName.get(key);
    if (other !== undefined && other !== value)
      throw invalid(`two parameters are named ${key} and differ only in their sign`);
    byName.set(key, value);
  }
  if (given.kind === "names") {
    const unknown = [...given.values.keys()].find((key) => !used.has(key));
    if (unknown !== undefined)
      throw invalid(`params has a value for ${unknown.slice(0, 64)}, which is no parameter of the statement`);
  }
  return byName.size === 0
    ? [plain]
    : [plain, Object.assign(Object.create(null), Object.fromEntries(byName)) as Record<string, SqlValue>];
}

/** One value of a row as JSON text: integers beyond 2^53 as strings, blobs as `{"$base64"}`, infinities as null. */
export function encodeJsonValue(value: unknown): string {
  if (typeof value === "bigint") {
    return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER)
      ? String(value)
      : `"${value}"`;
  }
  if (value instanceof Uint8Array)
    return `{"$base64":"${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64")}"}`;
  return JSON.stringify(value);
}
