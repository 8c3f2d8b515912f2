/**
 * Filters and sort keys as SQL over any column that holds a JSON object.
 *
 * Always true:
 * - no text of a client is part of the SQL, only numbers and names of our own
 * - a predicate is 0 or 1, never NULL
 * - within the bounds of a checked filter neither SQLite's limit of variables nor its limit of depth is near, and the
 *   SQL grows with the filter and not with its depth
 *
 * Must not know: collections, indexes.
 */
import type { ElementFilter, Filter, Leaf } from "./docs-filter.ts";
import {
  joinSql,
  kinds,
  kindSql,
  leafCondition,
  orderedSql,
  reachFunction,
  sortFunction,
  type Bindings,
  type Condition,
} from "./docs-conditions.ts";
import type { DocPath } from "./docs-path.ts";
import { isEmptyArray, isNoElement, reachedType } from "./docs-reach.ts";

export { Bindings, prepareQueries } from "./docs-conditions.ts";

const pathSql = (components: readonly string[]): string =>
  `$${components.map((part) => `.${JSON.stringify(part)}`).join("")}`;

/** What a filter is asked of: a document, or an element of an array that stands in its place. */
interface Target {
  /** SQL for the JSON text. */
  readonly document: string;
  /** SQL for the JSON type and the value of an element; a document of a collection is always an object. */
  readonly element?: { readonly type: string; readonly value: string };
  /** How many elements it is inside of: its aliases are numbered so. */
  readonly depth: number;
}

/**
 * The values that a path reaches in the target. Where no array is in the way, SQLite's own path functions find the one
 * value (0.5 us a document, measured). Arrays at the end of a path of one name are theirs too. Only what is left goes
 * through our function (5 us). MongoDB's walk as a recursive query took 6 us, and SQLite refuses any such query in a
 * statement of a thousand cursors, which a wide filter has.
 */
class Reach {
  readonly #target: Target;
  readonly #path: DocPath;
  readonly #bindings: Bindings;
  readonly #whole: string;
  readonly type: string;
  readonly value: string;

  constructor(target: Target, path: DocPath, bindings: Bindings) {
    this.#target = target;
    this.#path = path;
    this.#bindings = bindings;
    this.#whole = bindings.bind(pathSql(path.components));
    this.type = `json_type(${target.document}, ${this.#whole})`;
    this.value = `${target.document} ->> ${this.#whole}`;
  }

  /** Whether an array is at the path or on the way to it: then `type` and `value` are not the whole answer. */
  get meetsArray(): string {
    const { components } = this.#path;
    const { document, element } = this.#target;
    const types = components.map(
      (_, index) => `json_type(${document}, ${this.#bindings.bind(pathSql(components.slice(0, index + 1)))})`,
    );
    if (element) types.push(element.type);
    return types.length === 1 ? `${types[0]} = 'array'` : `'array' IN (${types.join(", ")})`;
  }

  get #single(): boolean {
    return this.#path.components.length === 1 && !this.#target.element;
  }

  get #reached(): string {
    return `json_each(${reachFunction}(${this.#target.document}, ${this.#bindings.bind(this.#path.text)}))`;
  }

  /** Whether any value fulfils the condition. */
  any({ test, wholes, onlyWholes = false }: Condition): string {
    if (onlyWholes && this.#single) return `(${test(this.type, this.value)} IS TRUE)`;
    const some = this.#single
      ? `EXISTS (SELECT 1 FROM json_each(${this.#target.document}, ${this.#whole}) AS v ` +
        `WHERE ${test("v.type", "v.value")})${wholes ? ` OR ${test(this.type, this.value)}` : ""}`
      : `EXISTS (SELECT 1 FROM ${this.#reached} AS v WHERE ` +
        `${onlyWholes ? `${isNoElement("v")} AND ` : ""}${test(reachedType("v"), "v.value")})`;
    return `((CASE WHEN ${this.meetsArray} THEN ${some} ELSE ${test(this.type, this.value)} END) IS TRUE)`;
  }

  /** Whether an element of an array that the path reaches fulfils what `test` says. It is written once. */
  anyElement(test: (element: Target) => string): string {
    const depth = this.#target.depth + 1;
    const [array, element] = [`a${depth}`, `e${depth}`];
    const from = this.#single
      ? `json_each(${this.#target.document}, ${this.#whole}) AS ${element}`
      : `${this.#reached} AS ${array}, json_each(CASE WHEN ${array}.type = 'array' AND ${isNoElement(array)} ` +
        `THEN ${array}.value END) AS ${element}`;
    const holds = test(elementTarget(element, depth));
    return `((${this.meetsArray}) IS TRUE AND EXISTS (SELECT 1 FROM ${from} WHERE ${holds}))`;
  }

  /** The terms of a sort by what comes first in this direction, arrays taken apart. */
  order(direction: "ASC" | "DESC"): readonly string[] {
    const first = (term: string, type: string): string =>
      `(SELECT ${term} FROM json_each(${sortFunction}(${this.#target.document}, ` +
      `${this.#bindings.bind(this.#path.text)})) AS v ORDER BY ${sortKindSql(type, isEmptyArray("v"))} ${direction}, ` +
      `${orderedSql(type, "v.value")} ${direction} LIMIT 1)`;
    return [
      `(CASE WHEN ${this.meetsArray} THEN ${first(sortKindSql("v.type", isEmptyArray("v")), "v.type")} ` +
        `ELSE ${sortKindSql(this.type)} END) ${direction}`,
      `(CASE WHEN ${this.meetsArray} THEN ${first(orderedSql("v.type", "v.value"), "v.type")} ` +
        `ELSE ${orderedSql(this.type, this.value)} END) ${direction}`,
    ];
  }
}

/** The kind that a value sorts by: what is missing is null, and an empty array comes before it. */
function sortKindSql(type: string, isEmpty?: string): string {
  const kind = `max(${kindSql(type)}, ${kinds.null})`;
  return isEmpty === undefined ? kind : `(CASE WHEN ${isEmpty} THEN ${kinds.missing} ELSE ${kind} END)`;
}

function elementTarget(alias: string, depth: number): Target {
  const [type, value] = [`${alias}.type`, `${alias}.value`];
  return { document: value, element: { type, value }, depth };
}

/** The filter as an SQL condition over `document`, which names a column that holds a JSON object. */
export function filterSql(filter: Filter, document: string, bindings: Bindings): string {
  return targetSql(filter, { document, depth: 0 }, bindings);
}

/** A condition on the elements of an array as SQL over a row of `json_each` with this alias. */
export function elementSql({ filter, isValue }: ElementFilter, alias: string, bindings: Bindings): string {
  return holdsOfElement(filter, isValue, elementTarget(alias, 0), bindings);
}

function targetSql(filter: Filter, target: Target, bindings: Bindings): string {
  switch (filter.kind) {
    case "and":
    case "or":
      return joinSql(
        filter.kind === "and" ? "AND" : "OR",
        filter.filters.map((inner) => targetSql(inner, target, bindings)),
      );
    case "not":
      return `(NOT ${targetSql(filter.filter, target, bindings)})`;
    default:
      return leafSql(filter, target, bindings);
  }
}

function leafSql(leaf: Leaf, target: Target, bindings: Bindings): string {
  const { element } = target;
  if (leaf.path.components.length > 0) {
    const reach = new Reach(target, leaf.path, bindings);
    return leaf.kind === "element"
      ? reach.anyElement((inner) => holdsOfElement(leaf.filter, leaf.isValue, inner, bindings))
      : reach.any(leafCondition(leaf, bindings));
  }
  const { type, value } = element!;
  if (leaf.kind !== "element") return `(${leafCondition(leaf, bindings).test(type, value)} IS TRUE)`;
  const inner = elementTarget(`e${target.depth + 1}`, target.depth + 1);
  return (
    `EXISTS (SELECT 1 FROM json_each(CASE WHEN ${type} = 'array' THEN ${value} END) AS e${inner.depth} ` +
    `WHERE ${holdsOfElement(leaf.filter, leaf.isValue, inner, bindings)})`
  );
}

/** An array in the place of a document is one whose fields are its positions. */
function holdsOfElement(filter: Filter, isValue: boolean, target: Target, bindings: Bindings): string {
  if (isValue) return targetSql(filter, target, bindings);
  const { type } = target.element!;
  // CASE, because only these are JSON whatever order SQLite tests its conditions in.
  const document = `(CASE WHEN ${type} IN ('object', 'array') THEN ${target.document} END)`;
  return `(${type} IN ('object', 'array') AND ${targetSql(filter, { ...target, document }, bindings)})`;
}

/**
 * A sort key as SQL terms. By kind, then by value: numbers by size, texts by bytes, objects and arrays by members,
 * false before true. A field that is missing counts as null. An array counts as its least element, descending as its
 * greatest one; an empty array comes before null.
 */
export function orderSql(document: string, path: DocPath, descending: boolean, bindings: Bindings): readonly string[] {
  return new Reach({ document, depth: 0 }, path, bindings).order(descending ? "DESC" : "ASC");
}
