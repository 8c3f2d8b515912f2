/**
 * Conditions on one value, as SQL over its JSON type and itself; and the functions that SQL calls for them.
 *
 * Always true: no text of a client is part of the SQL, only numbers and names of our own; a condition is 0, 1 or NULL,
 * which stands for 0. Must not know: paths, arrays around a value, filters as a whole.
 *
 * Operands are bound as JSON text and read with `->>`, as the column is: SQLite and JavaScript round about one double
 * in 300 differently when they read it from text (measured), so a number bound as a double could miss its own document.
 * Integers within 64 bits compare exactly; what is larger compares as a double.
 */
import type { Connection, SqlValue } from "../../sqlite/connection/connection.ts";
import type { Leaf, TypeName } from "./docs-filter.ts";
import {
  canonicalText,
  formatNumber,
  isNumber,
  jsonText,
  parseInt64,
  storedJson,
  type Json,
} from "../core/docs-json.ts";
import { parsePath } from "./docs-path.ts";
import { reachedText, sortedText } from "./docs-reach.ts";
import { matchesRegex } from "./docs-regex.ts";

/** The named parameters of one statement; equal values share a name. Anonymous ones are left to the caller. */
export class Bindings {
  readonly values: Record<string, SqlValue> = {};
  readonly #names = new Map<string, string>();

  /** The parameter in the SQL that holds this text. */
  bind(text: string): string {
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `q${this.#names.size}`;
      this.#names.set(text, name);
      this.values[name] = text;
    }
    return `$${name}`;
  }
}

/** Types in the order in which values of different types sort; 0 is a field that is missing. */
export const kinds = { missing: 0, null: 1, number: 2, string: 3, object: 4, array: 5, boolean: 6 } as const;

/** The kind of a value whose JSON type this SQL expression gives, as SQL. */
export function kindSql(type: string): string {
  return (
    `CASE ${type} WHEN 'null' THEN 1 WHEN 'integer' THEN 2 WHEN 'real' THEN 2 WHEN 'text' THEN 3 WHEN ` +
    "'object' THEN 4 WHEN 'array' THEN 5 WHEN 'true' THEN 6 WHEN 'false' THEN 6 ELSE 0 END"
  );
}

/** The kind of an operand. */
export function classifyOperand(operand: Json): number {
  if (operand === null) return kinds.null;
  if (typeof operand === "string") return kinds.string;
  if (typeof operand === "boolean") return kinds.boolean;
  if (isNumber(operand)) return kinds.number;
  return Array.isArray(operand) ? kinds.array : kinds.object;
}

/** Joins conditions as a balanced tree, so that two thousand of them are eleven deep and not two thousand. */
export function joinSql(operator: "AND" | "OR", conditions: readonly string[]): string {
  if (conditions.length === 0) return operator === "AND" ? "1" : "0";
  if (conditions.length === 1) return conditions[0]!;
  const half = conditions.length >> 1;
  return `(${joinSql(operator, conditions.slice(0, half))} ${operator} ${joinSql(operator, conditions.slice(half))})`;
}

/** Name of the SQL function that follows a path through arrays. */
export const reachFunction = "palimpsest_reach";
/** Name of the SQL function that gives what a document sorts by. */
export const sortFunction = "palimpsest_sort";
/** Name of the SQL function that makes equal JSON equal text. */
const canonicalFunction = "palimpsest_canonical";
/** Name of the SQL function that makes objects and arrays bytes that compare as they do. */
const orderFunction = "palimpsest_order";
/** Name of the SQL function that looks for a pattern in a text. */
const regexFunction = "palimpsest_regex";
const pure = { deterministic: true, directOnly: true };
const prepared = new WeakSet<Connection>();

/** Gives the connection what the SQL of this room needs; call before preparing any of it. Cheap when done before. */
export function prepareQueries(connection: Connection): void {
  if (prepared.has(connection)) return;
  prepared.add(connection);
  const define = (name: string, act: (...args: readonly string[]) => string | number | Uint8Array): void => {
    connection.raw.function(name, { ...pure, varargs: true }, (...args: readonly unknown[]) =>
      args[0] === null ? null : act(...(args as readonly string[])),
    );
  };
  define(reachFunction, (document, path) => reachedText(storedJson(document!), parsePath("the path", path!)));
  define(sortFunction, (document, path) => sortedText(storedJson(document!), parsePath("the path", path!)));
  define(canonicalFunction, (json) => canonicalText(storedJson(json!)));
  define(orderFunction, (json) => Buffer.from(orderedText(storedJson(json!)), "latin1"));
  define(regexFunction, (text, pattern, options) =>
    matchesRegex(pattern!, options!, text!, () => connection.look()) ? 1 : 0,
  );
}

/**
 * Bytes, one in each character, whose order is that of the values: kinds, numbers by size, texts and names by their
 * UTF-8, arrays and objects member by member, objects in the order of names.
 */
export function orderedText(value: Json): string {
  const kind = String.fromCharCode(classifyOperand(value));
  if (value === null) return kind;
  if (typeof value === "boolean") return `${kind}${value ? "\x01" : "\0"}`;
  if (typeof value === "string") return kind + orderedString(value);
  if (isNumber(value)) return kind + orderedNumber(formatNumber(value));
  if (Array.isArray(value)) return `${kind}${value.map(orderedText).join("")}\0`;
  const members = Object.keys(value as object)
    .sort()
    .map((name) => {
      const inner = orderedText((value as Record<string, Json>)[name]!);
      return inner[0]! + orderedString(name) + inner.slice(1);
    });
  return `${kind}${members.join("")}\0`;
}

/** Ends before whatever it goes on with. */
function orderedString(text: string): string {
  return `${Buffer.from(text).toString("latin1").replaceAll("\0", "\0\xff")}\0\x01`;
}

/** A double, and by how much an integer of 64 bits is more than it. */
function orderedNumber(source: string): string {
  const double = Number(source);
  const bytes = Buffer.alloc(10);
  bytes.writeDoubleBE(double === 0 ? 0 : double);
  const isNegative = bytes[0]! >= 0x80;
  for (let at = 0; at < 8; at++) bytes[at] = bytes[at]! ^ (isNegative ? 0xff : at === 0 ? 0x80 : 0);
  const exact = parseInt64(source);
  bytes.writeUInt16BE(0x8000 + (exact === undefined ? 0 : Number(exact - BigInt(double))), 8);
  return bytes.toString("latin1");
}

/** A value as what sorts it within its kind, as SQL. */
export function orderedSql(type: string, value: string): string {
  return `CASE WHEN ${type} IN ('object', 'array') THEN ${orderFunction}(${value}) ELSE ${value} END`;
}

/** A condition on one value, given SQL for its JSON type (NULL when missing) and for itself. */
export interface Condition {
  readonly test: (type: string, value: string) => string;
  /** Whether an array at the path's end can fulfil it, beside its elements. */
  readonly wholes: boolean;
  /** Whether it is not asked of the elements of an array at the path's end. */
  readonly onlyWholes?: boolean;
}

/** Whether the expression equals an operand of this JSON text, as SQL; the operands are of one scalar kind. */
export function equalsSql(value: string, operands: readonly Json[], bindings: Bindings): string {
  if (operands.length === 1) return `${value} = (${bindings.bind(jsonText(operands[0]!))} ->> '$')`;
  return `${value} IN (SELECT atom FROM json_each(${bindings.bind(jsonText([...operands]))}))`;
}

type Simple = Exclude<Leaf, { readonly kind: "element" }>;

/** The condition of a leaf. */
export function leafCondition(leaf: Simple, bindings: Bindings): Condition {
  switch (leaf.kind) {
    case "in":
      return inCondition(leaf.operands, bindings);
    case "compare":
      return compareCondition(leaf, bindings);
    case "exists":
      return { test: (type) => `${type} IS NOT NULL`, wholes: true };
    case "type": {
      const types = leaf.types.map((name) => jsonTypesByName[name]).join(", ");
      return { test: (type) => `${type} IN (${types})`, wholes: leaf.types.includes("array") };
    }
    case "regex":
      return {
        test: (type, value) => `(${type} = 'text' AND ${regexSql(value, leaf, bindings)})`,
        wholes: false,
      };
    case "size":
      return {
        test: (type, value) => `(CASE WHEN ${type} = 'array' THEN json_array_length(${value}) = ${leaf.size} END)`,
        wholes: true,
        onlyWholes: true,
      };
  }
}

/** Whether the pattern is found in a text, as SQL. */
export function regexSql(value: string, leaf: Leaf & { readonly kind: "regex" }, bindings: Bindings): string {
  return `${regexFunction}(${value}, ${bindings.bind(leaf.pattern)}, ${bindings.bind(leaf.options)})`;
}

function inCondition(operands: readonly Json[], bindings: Bindings): Condition {
  const of = (...kind: readonly number[]) => operands.filter((operand) => kind.includes(classifyOperand(operand)));
  const numbers = of(kinds.number);
  const strings = of(kinds.string);
  const composites = of(kinds.object, kinds.array);
  const test = (type: string, value: string): string => {
    const ways: string[] = [];
    if (operands.includes(null)) ways.push(`coalesce(${type}, 'null') = 'null'`);
    if (operands.includes(true)) ways.push(`${type} = 'true'`);
    if (operands.includes(false)) ways.push(`${type} = 'false'`);
    if (numbers.length > 0) ways.push(`(${type} IN ('integer', 'real') AND ${equalsSql(value, numbers, bindings)})`);
    if (strings.length > 0) ways.push(`(${type} = 'text' AND ${equalsSql(value, strings, bindings)})`);
    if (composites.length > 0) {
      // CASE, because only here is the value JSON whatever order SQLite tests its conditions in.
      const canonical = `CASE WHEN ${type} IN ('object', 'array') THEN ${canonicalFunction}(${value}) END`;
      ways.push(
        `${canonical} IN (SELECT atom FROM json_each(${bindings.bind(JSON.stringify(composites.map(canonicalText)))}))`,
      );
    }
    return joinSql("OR", ways);
  };
  return { test, wholes: composites.some((operand) => Array.isArray(operand)) };
}

function compareCondition({ comparison, operand }: Leaf & { readonly kind: "compare" }, bindings: Bindings): Condition {
  const kind = classifyOperand(operand);
  const text = bindings.bind(jsonText(operand));
  if (kind === kinds.object || kind === kinds.array) {
    const type = kind === kinds.array ? "'array'" : "'object'";
    return {
      test: (given, value) =>
        `(CASE WHEN ${given} = ${type} THEN ${orderFunction}(${value}) ${comparison} ${orderFunction}(${text}) END)`,
      wholes: kind === kinds.array,
    };
  }
  const types = jsonTypesByKind[kind]!;
  return {
    test: (type, value) => `(${type} IN (${types}) AND ${value} ${comparison} (${text} ->> '$'))`,
    wholes: false,
  };
}

const jsonTypesByName: Readonly<Record<TypeName, string>> = {
  null: "'null'",
  number: "'integer', 'real'",
  string: "'text'",
  object: "'object'",
  array: "'array'",
  bool: "'true', 'false'",
};

const jsonTypesByKind: Readonly<Record<number, string>> = {
  [kinds.number]: jsonTypesByName.number,
  [kinds.string]: jsonTypesByName.string,
  [kinds.boolean]: jsonTypesByName.bool,
};

/** The kind of the values of a type. */
export const kindOfType: Readonly<Record<TypeName, number>> = {
  null: kinds.null,
  number: kinds.number,
  string: kinds.string,
  object: kinds.object,
  array: kinds.array,
  bool: kinds.boolean,
};
