/**
 * The filter language: JSON text in, a checked tree out.
 *
 * The meaning is MongoDB's: a condition on a path holds when any value that the path reaches fulfils it, elements of
 * arrays included; `$ne`, `$nin` and `$not` are the negation of the whole condition, so they hold where nothing is
 * reached. `$not` may also be used where `$and` and `$or` may, over a whole filter. Always true: a tree is within every
 * bound of base/limits, so compiling it needs none. Must not know: SQL, tables.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isObject, parseJson, type Json, type JsonObject } from "../core/docs-json.ts";
import { parsePath, selfPath, type DocPath } from "./docs-path.ts";
import { checkRegex, regexesMax } from "./docs-regex.ts";

const filterDepthMax = 32;
const filterNodesMax = 2000;
const filterInMax = 1000;
/** `$elemMatch` within `$elemMatch`: each costs SQLite a fortieth of the depth that it allows, a `$not` far less. */
const elementDepthMax = 8;

type Comparison = ">" | ">=" | "<" | "<=";

/** A filter as a tree. `and` of nothing holds everywhere, `or` of nothing nowhere. */
export type Filter =
  | { readonly kind: "and" | "or"; readonly filters: readonly Filter[] }
  | { readonly kind: "not"; readonly filter: Filter }
  | Leaf;

/** A condition on what a path reaches. Of `selfPath` it is one on the value itself, whose elements do not count. */
export type Leaf =
  /** The path reaches a value equal to one of the operands; null also means a missing field. */
  | { readonly kind: "in"; readonly path: DocPath; readonly operands: readonly Json[] }
  /** The path reaches a value of the operand's own type that compares so: numbers with numbers, texts with texts. */
  | { readonly kind: "compare"; readonly path: DocPath; readonly comparison: Comparison; readonly operand: Json }
  /** The path reaches anything, null included. */
  | { readonly kind: "exists"; readonly path: DocPath }
  /** The path reaches a value of one of these types. */
  | { readonly kind: "type"; readonly path: DocPath; readonly types: readonly TypeName[] }
  /** The path reaches a text in which the pattern is found. */
  | { readonly kind: "regex"; readonly path: DocPath; readonly pattern: string; readonly options: string }
  /** The path reaches an array of so many elements. */
  | { readonly kind: "size"; readonly path: DocPath; readonly size: number }
  /** The path reaches an array, one element of which is a document that matches; of `isValue`, fulfils it itself. */
  | { readonly kind: "element"; readonly path: DocPath; readonly filter: Filter; readonly isValue: boolean };

const typeNames = ["null", "number", "string", "object", "array", "bool"] as const;
export type TypeName = (typeof typeNames)[number];

const comparisons: Readonly<Record<string, Comparison>> = { $gt: ">", $gte: ">=", $lt: "<", $lte: "<=" };
const fieldOperators =
  "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $not, $all, $size, $type, $elemMatch, $regex with $options";
const lists: Readonly<Record<string, "and" | "or">> = { $and: "and", $or: "or", $nor: "or" };
const filterOperators = [...Object.keys(lists), "$not"].join(", ");

/** Reads a filter. Every refusal names the place, beginning with `name`. */
export function parseFilter(name: string, text: string): Filter {
  // Each $and or $or is two levels of JSON; the operands may be as deep as values may.
  const { value } = parseJson(name, text, 2 * filterDepthMax + limits.jsonDepthMax);
  return new FilterReader(name).filter(name, value, 0);
}

/** A condition on an element: one that it fulfils itself, or a filter on the document that it is. */
export interface ElementFilter {
  readonly filter: Filter;
  readonly isValue: boolean;
}

/**
 * Reads a condition on the elements of an array, as `$pull` has it: operators on the element, fields of the document
 * that it is, or the value that it equals.
 */
export function parseElementFilter(name: string, value: Json): ElementFilter {
  const reader = new FilterReader(name);
  if (isObject(value)) return reader.element(name, value, 0);
  return { filter: reader.field(name, selfPath, value, 0), isValue: true };
}

/** Joins filters into one and flattens: the `and` of one filter is that filter. */
function joined(kind: "and" | "or", filters: readonly Filter[]): Filter {
  const flat = filters.flatMap((filter) => (filter.kind === kind ? filter.filters : [filter]));
  const parts = kind === "or" ? mergedLists(flat) : flat;
  return parts.length === 1 ? parts[0]! : { kind, filters: parts };
}

/** One list of operands for each path: the same meaning, and one look at the document or index instead of many. */
function mergedLists(filters: readonly Filter[]): readonly Filter[] {
  const merged = new Map<string, { readonly path: DocPath; readonly operands: Json[] }>();
  const others = filters.filter((filter) => {
    if (filter.kind !== "in") return true;
    const list = merged.get(filter.path.text);
    if (list) list.operands.push(...filter.operands);
    else merged.set(filter.path.text, { path: filter.path, operands: [...filter.operands] });
    return false;
  });
  return [...Array.from(merged.values(), (list): Filter => ({ kind: "in", ...list })), ...others];
}

/** A key as a refusal names it. */
const shown = (key: string): string => (key.length <= limits.pathCharsMax ? key : `${key.slice(0, 32)}…`);

const negated = (filter: Filter): Filter => ({ kind: "not", filter });

/** Reads one filter and counts what it has read. */
class FilterReader {
  readonly #name: string;
  #nodes = 0;
  #regexes = 0;
  #elements = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /**
   * A whole filter: fields and logical operators, all of which must hold. `depth` counts the logical operators around
   * it.
   */
  filter(at: string, value: Json, depth: number): Filter {
    if (!isObject(value)) throw invalid(`${at} must be an object`);
    return joined(
      "and",
      Object.entries(value).map(([key, operand]) => {
        const place = `${at}.${shown(key)}`;
        if (!key.startsWith("$")) return this.field(place, parsePath(`a field name in ${at}`, key), operand, depth);
        if (Object.hasOwn(lists, key)) {
          const list = this.#list(place, lists[key]!, operand, this.#deeper(depth));
          return key === "$nor" ? negated(list) : list;
        }
        if (key === "$not") return negated(this.filter(place, operand, this.#deeper(depth)));
        throw invalid(`${place} is not an operator that can stand here; these can: ${filterOperators}`);
      }),
    );
  }

  /** A condition on one element: operators that it fulfils itself, or a filter on the document that it is. */
  element(at: string, value: Json, depth: number): ElementFilter {
    if (!isObject(value)) throw invalid(`${at} must be an object`);
    const keys = Object.keys(value);
    // `$not` may stand in both; here it is the operator of a value.
    const isValue = keys.length > 0 && keys.every((key) => key.startsWith("$") && !Object.hasOwn(lists, key));
    if (++this.#elements > elementDepthMax)
      throw invalid(`${this.#name} nests $elemMatch more than ${elementDepthMax} deep`);
    const filter = isValue ? this.#condition(at, selfPath, value, depth) : this.filter(at, value, depth);
    this.#elements--;
    return { filter, isValue };
  }

  /** What a field must be: a condition, or equal to a value. */
  field(at: string, path: DocPath, operand: Json, depth: number): Filter {
    if (this.#isCondition(at, operand)) return this.#condition(at, path, operand, depth);
    this.#countPath(path);
    return { kind: "in", path, operands: [operand] };
  }

  #list(at: string, kind: "and" | "or", value: Json, depth: number): Filter {
    if (!Array.isArray(value) || value.length === 0) throw invalid(`${at} must be an array of at least one filter`);
    this.#count(value.length);
    return joined(
      kind,
      value.map((filter, index) => this.filter(`${at}[${index}]`, filter, depth)),
    );
  }

  /** Whether the operand consists of operators. Operators beside fields are refused: neither reading would be safe. */
  #isCondition(at: string, operand: Json): operand is JsonObject {
    if (!isObject(operand)) return false;
    const keys = Object.keys(operand);
    const operators = keys.filter((key) => key.startsWith("$")).length;
    if (operators > 0 && operators < keys.length)
      throw invalid(`${at} mixes operators and fields; use one or the other`);
    return operators > 0;
  }

  #condition(at: string, path: DocPath, condition: JsonObject, depth: number): Filter {
    if (Object.hasOwn(condition, "$options") && !Object.hasOwn(condition, "$regex"))
      throw invalid(`${at}.$options needs a $regex beside it`);
    return joined(
      "and",
      Object.entries(condition)
        .filter(([key]) => key !== "$options")
        .map(([key, operand]) => {
          this.#countPath(path);
          const place = `${at}.${shown(key)}`;
          if (key === "$regex") return this.#regex(place, path, operand, condition["$options"] ?? "");
          return this.#operator(place, key, path, operand, depth);
        }),
    );
  }

  #operator(at: string, key: string, path: DocPath, operand: Json, depth: number): Filter {
    switch (key) {
      case "$eq":
        return { kind: "in", path, operands: [operand] };
      case "$ne":
        return negated({ kind: "in", path, operands: [operand] });
      case "$in":
        return { kind: "in", path, operands: this.#operands(at, operand) };
      case "$nin":
        return negated({ kind: "in", path, operands: this.#operands(at, operand) });
      case "$exists":
        if (typeof operand !== "boolean") throw invalid(`${at} must be true or false`);
        return operand ? { kind: "exists", path } : negated({ kind: "exists", path });
      case "$not":
        if (!this.#isCondition(at, operand)) throw invalid(`${at} must be an object of operators`);
        return negated(this.#condition(at, path, operand, this.#deeper(depth)));
      case "$all":
        return this.#all(at, path, operand, this.#deeper(depth));
      case "$elemMatch":
        return { kind: "element", path, ...this.element(at, operand, this.#deeper(depth)) };
      case "$size":
        if (typeof operand !== "number" || !Number.isSafeInteger(operand) || operand < 0)
          throw invalid(`${at} must be a whole number from 0`);
        return { kind: "size", path, size: operand };
      case "$type":
        return { kind: "type", path, types: this.#types(at, operand) };
      default:
        return this.#comparison(at, key, path, operand);
    }
  }

  /** Each value must be reached, or each `$elemMatch` hold, of whichever elements. Of nothing it holds nowhere. */
  #all(at: string, path: DocPath, value: Json, depth: number): Filter {
    const operands = this.#operands(at, value);
    if (operands.length === 0) return { kind: "or", filters: [] };
    return joined(
      "and",
      operands.map((operand, index): Filter => {
        this.#countPath(path);
        const place = `${at}[${index}]`;
        if (!this.#isCondition(place, operand)) return { kind: "in", path, operands: [operand] };
        if (Object.keys(operand).join() !== "$elemMatch")
          throw invalid(`${place} must be a value or an $elemMatch: other operators cannot stand in $all`);
        return { kind: "element", path, ...this.element(`${place}.$elemMatch`, operand["$elemMatch"]!, depth) };
      }),
    );
  }

  #regex(at: string, path: DocPath, pattern: Json, options: Json): Filter {
    if (typeof pattern !== "string") throw invalid(`${at} must be a string`);
    if (typeof options !== "string") throw invalid(`the $options beside ${at} must be a string`);
    if (++this.#regexes > regexesMax) throw invalid(`${this.#name} has more than ${regexesMax} $regex`);
    checkRegex(at, pattern, options);
    return { kind: "regex", path, pattern, options };
  }

  #types(at: string, value: Json): readonly TypeName[] {
    const types = Array.isArray(value) ? value : [value];
    if (types.length === 0 || !types.every((type) => (typeNames as readonly Json[]).includes(type)))
      throw invalid(`${at} must be one of ${typeNames.join(", ")}, or an array of these`);
    return [...new Set(types as TypeName[])];
  }

  #comparison(at: string, key: string, path: DocPath, operand: Json): Filter {
    const comparison = Object.hasOwn(comparisons, key) ? comparisons[key] : undefined;
    if (comparison === undefined) throw invalid(`${at} is not an operator of a field; these are: ${fieldOperators}`);
    // Null equals itself, and nothing is before or after it.
    if (operand === null)
      return comparison.endsWith("=") ? { kind: "in", path, operands: [null] } : { kind: "or", filters: [] };
    return { kind: "compare", path, comparison, operand };
  }

  #operands(at: string, value: Json): readonly Json[] {
    if (!Array.isArray(value)) throw invalid(`${at} must be an array`);
    if (value.length > filterInMax) throw invalid(`${at} must have at most ${filterInMax} values, not ${value.length}`);
    return value;
  }

  #deeper(depth: number): number {
    if (depth >= filterDepthMax)
      throw invalid(`${this.#name} nests $and, $or, $nor, $not, $all and $elemMatch more than ${filterDepthMax} deep`);
    this.#count(1);
    return depth + 1;
  }

  /** Paths count by their length, because so does what they compile to. */
  #countPath(path: DocPath): void {
    this.#count(Math.max(path.components.length, 1));
  }

  #count(nodes: number): void {
    this.#nodes += nodes;
    if (this.#nodes > filterNodesMax) {
      throw invalid(
        `${this.#name} is too large: its operators and the field names in its paths may ` +
          `be ${filterNodesMax} together`,
      );
    }
  }
}
