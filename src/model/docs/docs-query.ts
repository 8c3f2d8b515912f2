/**
 * Filters and sort keys as SQL over any column that holds a JSON object.
 *
 * Always true:
 * - no text of a client is part of the SQL, only numbers and names of our own
 * - a predicate is 0 or 1, never NULL
 * - within the bounds of a checked filter neither SQLite's limit of variables nor its limit of depth is near
 *
 * Must not know: collections, indexes.
 *
 * Operands are bound as JSON text and read with `->>`, as the column is: SQLite and JavaScript round about one double
 * in 300 differently when they read it from text (measured), so a number bound as a double could miss its own document.
 * Integers within 64 bits compare exactly; what is larger compares as a double.
 */
import type { Connection, SqlValue } from "../../sqlite/connection/connection.ts";
import type { Comparison, Filter } from "./docs-filter.ts";
import { canonicalText, isNumber, jsonText, storedJson, type Json } from "../core/docs-json.ts";
import { parsePath, type DocPath } from "./docs-path.ts";
import { isWhole, reachedText, reachedType } from "./docs-reach.ts";

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
function joinSql(operator: "AND" | "OR", conditions: readonly string[]): string {
  if (conditions.length === 0) return operator === "AND" ? "1" : "0";
  if (conditions.length === 1) return conditions[0]!;
  const half = conditions.length >> 1;
  return `(${joinSql(operator, conditions.slice(0, half))} ${operator} ${joinSql(operator, conditions.slice(half))})`;
}

const pathSql = (components: readonly string[]): string =>
  `$${components.map((part) => `.${JSON.stringify(part)}`).join("")}`;

/** Name of the SQL function that follows a path through arrays. */
const reachFunction = "palimpsest_reach";
/** Name of the SQL function that makes equal JSON equal text. */
const canonicalFunction = "palimpsest_canonical";
const pure = { deterministic: true, directOnly: true };
const prepared = new WeakSet<Connection>();

/** Gives the connection what the SQL of this file needs; call before preparing any of it. Cheap when done before. */
export function prepareQueries(connection: Connection): void {
  if (prepared.has(connection)) return;
  prepared.add(connection);
  connection.raw.function(reachFunction, pure, (document: unknown, path: unknown) =>
    reachedText(storedJson(document as string), parsePath("the path", path as string)),
  );
  connection.raw.function(canonicalFunction, pure, (json: unknown) =>
    json === null ? null : canonicalText(storedJson(json as string)),
  );
}

/** A condition on one value, given SQL for its JSON type (NULL when missing) and for itself. */
interface Condition {
  readonly test: (type: string, value: string) => string;
  /** Whether an array as a whole can fulfil it. */
  readonly wholes: boolean;
}

/**
 * The values that a path reaches in `document`, SQL for a JSON object. Where no array is in the way, SQLite's own path
 * functions find the one value (0.5 us a document, measured). Arrays at the end of a path of one name are theirs too.
 * Only what is left goes through our function (5 us). MongoDB's walk as a recursive query took 6 us, and SQLite refuses
 * any such query in a statement of a thousand cursors, which a wide filter has.
 */
class Reach {
  readonly #document: string;
  readonly #path: DocPath;
  readonly #bindings: Bindings;
  readonly #whole: string;
  readonly type: string;
  readonly value: string;

  constructor(document: string, path: DocPath, bindings: Bindings) {
    this.#document = document;
    this.#path = path;
    this.#bindings = bindings;
    this.#whole = bindings.bind(pathSql(path.components));
    this.type = `json_type(${document}, ${this.#whole})`;
    this.value = `${document} ->> ${this.#whole}`;
  }

  /** Whether an array is at the path or on the way to it: then `type` and `value` are not the whole answer. */
  get meetsArray(): string {
    const { components } = this.#path;
    if (components.length === 1) return `${this.type} = 'array'`;
    const types = components.map(
      (_, index) => `json_type(${this.#document}, ${this.#bindings.bind(pathSql(components.slice(0, index + 1)))})`,
    );
    return `'array' IN (${types.join(", ")})`;
  }

  get #single(): boolean {
    return this.#path.components.length === 1;
  }

  get #reached(): string {
    return `json_each(${reachFunction}(${this.#document}, ${this.#bindings.bind(this.#path.text)}))`;
  }

  /** Whether any value fulfils the condition. */
  any({ test, wholes }: Condition): string {
    const some = this.#single
      ? `EXISTS (SELECT 1 FROM json_each(${this.#document}, ${this.#whole}) AS v ` +
        `WHERE ${test("v.type", "v.value")})${wholes ? ` OR ${test(this.type, this.value)}` : ""}`
      : `EXISTS (SELECT 1 FROM ${this.#reached} AS v WHERE ${test(reachedType("v"), "v.value")})`;
    return `((CASE WHEN ${this.meetsArray} THEN ${some} ELSE ${test(this.type, this.value)} END) IS TRUE)`;
  }

  /** `term` of the value that comes first in this direction, arrays taken apart; NULL when there is none. */
  first(term: (type: string, value: string) => string, direction: "ASC" | "DESC"): string {
    const type = this.#single ? "v.type" : reachedType("v");
    const from = this.#single
      ? `json_each(${this.#document}, ${this.#whole}) AS v`
      : `${this.#reached} AS v WHERE NOT ${isWhole("v")}`;
    return (
      `(SELECT ${term(type, "v.value")} FROM ${from} ORDER BY ${kindSql(type)} ${direction}, ` +
      `v.value ${direction} LIMIT 1)`
    );
  }
}

/** Whether the expression equals an operand of this JSON text, as SQL; the operands are of one scalar kind. */
export function equalsSql(value: string, operands: readonly Json[], bindings: Bindings): string {
  if (operands.length === 1) return `${value} = (${bindings.bind(jsonText(operands[0]!))} ->> '$')`;
  return `${value} IN (SELECT atom FROM json_each(${bindings.bind(jsonText([...operands]))}))`;
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

function compareCondition(comparison: Comparison, operand: Json, bindings: Bindings): Condition {
  const types = jsonTypesByKind[classifyOperand(operand)]!;
  const bound = `(${bindings.bind(jsonText(operand))} ->> '$')`;
  return { test: (type, value) => `(${type} IN (${types}) AND ${value} ${comparison} ${bound})`, wholes: false };
}

const existsCondition: Condition = { test: (type) => `${type} IS NOT NULL`, wholes: true };

const jsonTypesByKind: Readonly<Record<number, string>> = {
  [kinds.number]: "'integer', 'real'",
  [kinds.string]: "'text'",
  [kinds.boolean]: "'true', 'false'",
};

/** The filter as an SQL condition over `document`, which names a column that holds a JSON object. */
export function filterSql(filter: Filter, document: string, bindings: Bindings): string {
  switch (filter.kind) {
    case "and":
    case "or":
      return joinSql(
        filter.kind === "and" ? "AND" : "OR",
        filter.filters.map((inner) => filterSql(inner, document, bindings)),
      );
    case "not":
      return `(NOT ${filterSql(filter.filter, document, bindings)})`;
    case "in":
      return new Reach(document, filter.path, bindings).any(inCondition(filter.operands, bindings));
    case "compare":
      return new Reach(document, filter.path, bindings).any(
        compareCondition(filter.comparison, filter.operand, bindings),
      );
    case "exists":
      return new Reach(document, filter.path, bindings).any(existsCondition);
  }
}

/**
 * A sort key as SQL terms. By kind, then by value: numbers by size, texts and whole objects and arrays bytewise, false
 * before true. A field that is missing comes before null. An array counts as its least element, descending as its
 * greatest one; an empty array has none and counts as missing.
 */
export function orderSql(document: string, path: DocPath, descending: boolean, bindings: Bindings): readonly string[] {
  const direction = descending ? "DESC" : "ASC";
  const reach = new Reach(document, path, bindings);
  return [
    `(CASE WHEN ${reach.meetsArray} THEN coalesce(${reach.first(kindSql, direction)}, ${kinds.missing}) ` +
      `ELSE ${kindSql(reach.type)} END) ${direction}`,
    `(CASE WHEN ${reach.meetsArray} THEN ${reach.first((_, value) => value, direction)} ` +
      `ELSE ${reach.value} END) ${direction}`,
  ];
}
