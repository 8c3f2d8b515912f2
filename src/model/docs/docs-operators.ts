/**
 * What each update operator does to a document in memory.
 *
 * Always true:
 * - an operand is checked before any document is changed
 * - integers are exact or refused
 *
 * Must not know: tables, how filters are evaluated.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import {
  canonicalText,
  getField,
  parseInt64,
  isInt64,
  isIntegerSource,
  isNumber,
  isObject,
  parseNumber,
  setField,
  formatNumber,
  type Json,
  type JsonObject,
  type RawNumber,
} from "../core/docs-json.ts";
import { orderedText } from "./docs-conditions.ts";
import { parseElementFilter, type ElementFilter } from "./docs-filter.ts";
import { idField, parseArrayIndex, parsePath, type DocPath } from "./docs-path.ts";

/** How far past an array's end `$set` may write; what lies between is filled with null. */
const docArrayPadMax = 1000;

/** What an operator needs beside the document. */
export interface Surroundings {
  /** Whether the document is made by an upsert. */
  readonly isInsert: boolean;
  /** Which elements meet the condition. */
  readonly matching: (elements: readonly Json[], filter: ElementFilter) => ReadonlySet<number>;
}

/** A place that an operator names, and what it says of it. */
interface Named {
  /** Its place in the update, for messages. */
  readonly at: string;
  readonly path: DocPath;
}

interface Operation {
  /** A second path that is changed. */
  readonly target?: DocPath;
  readonly apply: (doc: JsonObject, surroundings: Surroundings) => void;
}

export type Change = Named & Operation;

/** Each checks its operand, and gives what is to be done. */
export const operators: Readonly<Record<string, (change: Named & { readonly operand: Json }) => Operation>> = {
  $set: (change) => ({ apply: (doc) => putAt(change, doc, change.operand) }),
  $setOnInsert: (change) => ({ apply: (doc, { isInsert }) => isInsert && putAt(change, doc, change.operand) }),
  $unset: (change) => ({ apply: (doc) => unset(change, doc) }),
  $inc: (change) =>
    arithmetic(
      change,
      "incremented",
      (left, right) => left + right,
      (left, right) => left + right,
    ),
  $mul: (change) =>
    arithmetic(
      change,
      "multiplied",
      (left, right) => left * right,
      (left, right) => left * right,
    ),
  $min: (change) => bounding(change, (given, bound) => bound < given),
  $max: (change) => bounding(change, (given, bound) => bound > given),
  $rename: rename,
  $push: push,
  $addToSet: addToSet,
  $pop: pop,
  $pull: (change) => {
    const filter = parseElementFilter(change.at, change.operand);
    return pulling(change, (elements, { matching }) => matching(elements, filter));
  },
  $pullAll: (change) => {
    if (!Array.isArray(change.operand)) throw invalid(`${change.at} must be an array of values`);
    const gone = new Set(change.operand.map(canonicalText));
    return pulling(
      change,
      (elements) => new Set([...elements.keys()].filter((at) => gone.has(canonicalText(elements[at]!)))),
    );
  },
};

/** A place in a document: a container and a key in it. */
type Place =
  { readonly object: JsonObject; readonly field: string } | { readonly array: Json[]; readonly index: number };

function valueAt(place: Place): Json | undefined {
  return "array" in place ? place.array[place.index] : getField(place.object, place.field);
}

function put(change: Named, place: Place, value: Json): void {
  if (!("array" in place)) {
    setField(place.object, place.field, value);
    return;
  }
  const { array, index } = place;
  if (index - array.length > docArrayPadMax) {
    throw invalid(`${change.at} lies more than ${docArrayPadMax} past the end of its array`);
  }
  while (array.length < index) array.push(null);
  array[index] = value;
}

/** Puts the value at the change's place. Each document has a copy of its own: later changes are within one. */
export function putAt(change: Named, doc: JsonObject, value: Json): void {
  put(change, walkTo(change, doc, true)!, copied(value));
}

/** The value anew, as deep as it is: what is put into one document must not change with another. */
function copied(value: Json): Json {
  if (Array.isArray(value)) return value.map(copied);
  if (!isObject(value)) return value;
  const copy: JsonObject = {};
  for (const [field, inner] of Object.entries(value)) setField(copy, field, copied(inner));
  return copy;
}

/** The place inside this container, or undefined when there cannot be one: a name in an array, anything in a scalar. */
function placeIn(container: Json, component: string): Place | undefined {
  if (isObject(container)) return { object: container, field: component };
  const index = Array.isArray(container) ? parseArrayIndex(component) : undefined;
  return index === undefined ? undefined : { array: container as Json[], index };
}

/** Walks to the change's place. Objects that are missing on the way are made, or (`make` false) end the walk. */
function walkTo(change: Named, doc: JsonObject, make: boolean): Place | undefined {
  let container: Json = doc;
  let place: Place | undefined;
  for (const component of change.path.components) {
    if (place !== undefined) {
      let inner = valueAt(place);
      if (inner === undefined) {
        if (!make) return undefined;
        put(change, place, (inner = {}));
      }
      container = inner;
    }
    place = placeIn(container, component);
    if (place === undefined) {
      if (!make) return undefined;
      const what = Array.isArray(container)
        ? "an array, which has positions, not names"
        : "a value that is neither an object nor an array";
      throw invalid(`${change.at} cannot be reached: "${component}" would be inside ${what}`);
    }
  }
  assert(place !== undefined, "a path has a component");
  return place;
}

/** A field goes away; an element becomes null, so that the others keep their positions. */
function unset(change: Named, doc: JsonObject): void {
  const place = walkTo(change, doc, false);
  if (place === undefined || valueAt(place) === undefined) return;
  if ("array" in place) place.array[place.index] = null;
  else delete place.object[place.field];
}

/** Of a missing field it begins at 0. */
function arithmetic(
  change: Named & { readonly operand: Json },
  done: string,
  exact: (left: bigint, right: bigint) => bigint,
  rounded: (left: number, right: number) => number,
): Operation {
  const { operand } = change;
  if (!isNumber(operand)) throw invalid(`${change.at} must be a number`);
  return {
    apply: (doc) => {
      const place = walkTo(change, doc, true)!;
      const before = valueAt(place) ?? (valueAt(place) === undefined ? 0 : null);
      if (!isNumber(before))
        throw invalid(`${change.at} cannot be ${done}: a document has something there that is not a number`);
      put(change, place, computed(change, before, operand, exact, rounded));
    },
  };
}

/** Exact for two integers of 64 bits, refused beyond them; as doubles when one has a fraction or an exponent. */
function computed(
  change: Named,
  left: number | RawNumber,
  right: number | RawNumber,
  exact: (left: bigint, right: bigint) => bigint,
  rounded: (left: number, right: number) => number,
): number | RawNumber {
  const sources = [formatNumber(left), formatNumber(right)] as const;
  if (sources.every(isIntegerSource)) {
    const [first, second] = [parseInt64(sources[0]), parseInt64(sources[1])];
    const result = first === undefined || second === undefined ? undefined : exact(first, second);
    if (result === undefined || !isInt64(result)) throw invalid(`${change.at} goes beyond 64-bit integers`);
    return parseNumber(String(result));
  }
  const result = rounded(Number(sources[0]), Number(sources[1]));
  if (!Number.isFinite(result)) throw invalid(`${change.at} goes beyond the largest number`);
  return result;
}

/** Puts the operand where it goes beyond what is there, in the order of a sort; also where nothing is. */
function bounding(
  change: Named & { readonly operand: Json },
  goesBeyond: (given: string, bound: string) => boolean,
): Operation {
  const bound = orderedText(change.operand);
  return {
    apply: (doc) => {
      const before = valueAt(walkTo(change, doc, true)!);
      if (before === undefined || goesBeyond(orderedText(before), bound)) putAt(change, doc, change.operand);
    },
  };
}

/** Moves a field; neither path may lead into an array. Without the field nothing changes. */
function rename(change: Named & { readonly operand: Json }): Operation {
  if (typeof change.operand !== "string") throw invalid(`${change.at} must be the path that the field is to have`);
  const target = parsePath(change.at, change.operand);
  if (target.components[0] === idField) throw invalid(`${change.at} cannot be ${idField}, which is immutable`);
  return {
    target,
    apply: (doc) => {
      const place = walkTo(change, doc, false);
      const value = place && valueAt(place);
      if (value === undefined) return;
      const next = { at: change.at, path: target };
      const goal = walkTo(next, doc, true)!;
      if ("array" in place! || "array" in goal || passesArray(doc, change.path) || passesArray(doc, target))
        throw invalid(`${change.at} cannot be renamed: a path leads into an array of a document`);
      unset(change, doc);
      put(next, goal, value);
    },
  };
}

function passesArray(doc: JsonObject, { components }: DocPath): boolean {
  let at: Json | undefined = doc;
  for (const component of components.slice(0, -1)) {
    if (Array.isArray(at)) return true;
    at = isObject(at) ? getField(at, component) : undefined;
  }
  return Array.isArray(at);
}

/** The array at the place; undefined where nothing is. */
function arrayAt(change: Named, place: Place): Json[] | undefined {
  const found = valueAt(place);
  if (found !== undefined && !Array.isArray(found))
    throw invalid(`${change.at} needs an array: a document has something there that is not one`);
  return found;
}

/** The modifiers of the operand, or undefined when it is a value. */
function modifiersOf(change: Named & { readonly operand: Json }, known: readonly string[]): JsonObject | undefined {
  const { at, operand } = change;
  if (!isObject(operand) || !Object.keys(operand).some((key) => key.startsWith("$"))) return undefined;
  const unknown = Object.keys(operand).some((key) => !known.includes(key));
  if (unknown || !Array.isArray(operand["$each"]))
    throw invalid(`${at} must be a value, or $each with an array of values and of these: ${known.join(", ")}`);
  return operand;
}

function push(change: Named & { readonly operand: Json }): Operation {
  const { at, operand } = change;
  const modifiers = modifiersOf(change, ["$each", "$position", "$slice", "$sort"]);
  const added = modifiers ? (modifiers["$each"] as Json[]) : [operand];
  const position = integerOf(`${at}.$position`, modifiers?.["$position"]);
  const slice = integerOf(`${at}.$slice`, modifiers?.["$slice"]);
  const compare = modifiers?.["$sort"] === undefined ? undefined : comparisonOf(`${at}.$sort`, modifiers["$sort"]);
  return {
    apply: (doc) => {
      const place = walkTo(change, doc, true)!;
      const before = arrayAt(change, place) ?? [];
      const start = position ?? before.length;
      const index = start < 0 ? Math.max(before.length + start, 0) : start;
      let after = [...before.slice(0, index), ...added.map(copied), ...before.slice(index)];
      if (compare) after = compare(after);
      if (slice !== undefined) after = slice < 0 ? after.slice(slice) : after.slice(0, slice);
      put(change, place, after);
    },
  };
}

function integerOf(at: string, value: Json | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw invalid(`${at} must be a whole number`);
  return value;
}

/** Sorts elements by themselves, or by fields of the documents that they are. */
function comparisonOf(at: string, sort: Json): (elements: readonly Json[]) => Json[] {
  const keys = isObject(sort)
    ? Object.entries(sort).map(([text, direction]) => ({ path: parsePath(`a path in ${at}`, text), direction }))
    : [{ path: undefined, direction: sort }];
  if (keys.length === 0 || !keys.every(({ direction }) => direction === 1 || direction === -1))
    throw invalid(`${at} must be 1 or -1, or an object of paths with 1 or -1`);
  return (elements) => {
    const keyed = elements.map((element) => ({
      element,
      texts: keys.map(({ path }) => orderedText(path ? (fieldAt(element, path) ?? null) : element)),
    }));
    keyed.sort((left, right) => {
      for (const [index, { direction }] of keys.entries()) {
        const [one, other] = [left.texts[index]!, right.texts[index]!];
        if (one !== other) return one < other === (direction === 1) ? -1 : 1;
      }
      return 0;
    });
    return keyed.map(({ element }) => element);
  };
}

function fieldAt(element: Json, { components }: DocPath): Json | undefined {
  let at: Json | undefined = element;
  for (const component of components) at = isObject(at) ? getField(at, component) : undefined;
  return at;
}

function addToSet(change: Named & { readonly operand: Json }): Operation {
  const modifiers = modifiersOf(change, ["$each"]);
  const added = modifiers ? (modifiers["$each"] as Json[]) : [change.operand];
  return {
    apply: (doc) => {
      const place = walkTo(change, doc, true)!;
      const before = arrayAt(change, place);
      const known = new Set(before?.map(canonicalText));
      const news = added.filter((value) => known.size < known.add(canonicalText(value)).size);
      if (news.length > 0 || !before) put(change, place, [...(before ?? []), ...news.map(copied)]);
    },
  };
}

function pop(change: Named & { readonly operand: Json }): Operation {
  const { operand } = change;
  if (operand !== 1 && operand !== -1) throw invalid(`${change.at} must be 1 (the last element) or -1 (the first)`);
  return {
    apply: (doc) => {
      const place = walkTo(change, doc, false);
      const before = place && arrayAt(change, place);
      if (before && operand === 1) before.pop();
      else before?.shift();
    },
  };
}

function pulling(
  change: Named,
  goes: (elements: readonly Json[], surroundings: Surroundings) => ReadonlySet<number>,
): Operation {
  return {
    apply: (doc, surroundings) => {
      const place = walkTo(change, doc, false);
      const before = place && arrayAt(change, place);
      if (!before || before.length === 0) return;
      const gone = goes(before, surroundings);
      if (gone.size > 0)
        put(
          change,
          place,
          before.filter((_, index) => !gone.has(index)),
        );
    },
  };
}
