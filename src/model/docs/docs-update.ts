/**
 * Update operators: `$set`, `$unset`, `$inc` and `$push` on dot paths, applied to a document in memory.
 *
 * Always true:
 * - the paths of one update never overlap, so the order of its operators does not matter
 * - `_id` is out of reach
 * - integers are exact or refused
 *
 * Must not know: tables, filters.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import {
  checkJson,
  getField,
  parseInt64,
  isInt64,
  isIntegerSource,
  isNumber,
  isObject,
  parseNumber,
  parseJson,
  setField,
  formatNumber,
  type Json,
  type JsonObject,
  type RawNumber,
} from "../core/docs-json.ts";
import { parseArrayIndex, idField, parsePath, type DocPath } from "./docs-path.ts";

/** How far past an array's end `$set` may write; what lies between is filled with null. */
const docArrayPadMax = 1000;

interface Change {
  /** Its place in the update, for messages. */
  readonly at: string;
  readonly path: DocPath;
  readonly operand: Json;
  readonly apply: (change: Change, doc: JsonObject) => void;
}

export interface Update {
  readonly changes: readonly Change[];
  /** The top-level fields that the update may change. */
  readonly fields: ReadonlySet<string>;
}

const operators: Readonly<Record<string, Change["apply"]>> = { $set: set, $unset: unset, $inc: increment, $push: push };

/** Reads an update. Every refusal names the place, beginning with `name`. */
export function parseUpdate(name: string, text: string): Update {
  const { value } = parseJson(name, text, limits.jsonDepthMax + 2);
  if (!isObject(value) || Object.keys(value).length === 0)
    throw invalid(`${name} must be an object of operators: ${Object.keys(operators).join(", ")}`);
  const changes = Object.entries(value).flatMap(([operator, fields]) => {
    const apply = Object.hasOwn(operators, operator) ? operators[operator] : undefined;
    if (apply === undefined)
      throw invalid(
        `${name} may hold only the operators ${Object.keys(operators).join(", ")}; a document is not replaced ` +
          "as a whole",
      );
    if (!isObject(fields)) throw invalid(`${name}.${operator} must be an object of paths and values`);
    return Object.entries(fields).map(([path, operand]) => parseChange(`${name}.${operator}`, path, operand, apply));
  });
  refuseOverlap(name, changes);
  return { changes, fields: new Set(changes.map((change) => change.path.components[0]!)) };
}

function parseChange(at: string, text: string, operand: Json, apply: Change["apply"]): Change {
  const path = parsePath(`a path in ${at}`, text);
  const place = `${at}.${text}`;
  if (path.components[0] === idField) throw invalid(`${place} cannot be changed: ${idField} is immutable`);
  if (apply === increment && !isNumber(operand)) throw invalid(`${place} must be a number`);
  if (apply === push && isObject(operand) && Object.keys(operand).some((key) => key.startsWith("$"))) {
    throw invalid(`${place} must be a value to append; modifiers that start with $ are not supported`);
  }
  return { at: place, path, operand, apply };
}

/** Refuses two changes of one place, or of a place and something inside it: which one wins would be chance. */
function refuseOverlap(name: string, changes: readonly Change[]): void {
  const sorted = changes.map((change) => change.path.components.join("\0")).sort();
  for (let index = 1; index < sorted.length; index++) {
    // Sorted with the lowest character as separator, whatever lies inside a path follows it directly.
    const [before, after] = [sorted[index - 1]!, sorted[index]!];
    if (after === before || after.startsWith(`${before}\0`))
      throw invalid(`${name} changes ${before.replaceAll("\0", ".")} twice, or both it and something inside it`);
  }
}

/**
 * Applies the update to the document in place. Throws when the document has no room for it; then it may be half done.
 */
export function applyUpdate(update: Update, doc: JsonObject): void {
  for (const change of update.changes) change.apply(change, doc);
  checkJson("the updated document", doc);
}

/** A place in a document: a container and a key in it. */
type Place =
  { readonly object: JsonObject; readonly field: string } | { readonly array: Json[]; readonly index: number };

function valueAt(place: Place): Json | undefined {
  return "array" in place ? place.array[place.index] : getField(place.object, place.field);
}

function put(change: Change, place: Place, value: Json): void {
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

/** The place inside this container, or undefined when there cannot be one: a name in an array, anything in a scalar. */
function placeIn(container: Json, component: string): Place | undefined {
  if (isObject(container)) return { object: container, field: component };
  const index = Array.isArray(container) ? parseArrayIndex(component) : undefined;
  return index === undefined ? undefined : { array: container as Json[], index };
}

/** Walks to the change's place. Objects that are missing on the way are made, or (`make` false) end the walk. */
function walkTo(change: Change, doc: JsonObject, make: boolean): Place | undefined {
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

function set(change: Change, doc: JsonObject): void {
  put(change, walkTo(change, doc, true)!, change.operand);
}

/** A field goes away; an element becomes null, so that the others keep their positions. */
function unset(change: Change, doc: JsonObject): void {
  const place = walkTo(change, doc, false);
  if (place === undefined || valueAt(place) === undefined) return;
  if ("array" in place) place.array[place.index] = null;
  else delete place.object[place.field];
}

function increment(change: Change, doc: JsonObject): void {
  const place = walkTo(change, doc, true)!;
  const before = valueAt(place);
  if (before !== undefined && !isNumber(before))
    throw invalid(`${change.at} cannot be incremented: a document has something there that is not a number`);
  assert(isNumber(change.operand), "an increment is a number");
  put(change, place, sum(change, before ?? 0, change.operand));
}

function push(change: Change, doc: JsonObject): void {
  const place = walkTo(change, doc, true)!;
  const before = valueAt(place);
  if (before === undefined) put(change, place, [change.operand]);
  else if (Array.isArray(before)) before.push(change.operand);
  else throw invalid(`${change.at} cannot be appended to: a document has something there that is not an array`);
}

/** Exact for two integers of 64 bits, refused beyond them; as doubles when one has a fraction or an exponent. */
function sum(change: Change, left: number | RawNumber, right: number | RawNumber): number | RawNumber {
  const sources = [formatNumber(left), formatNumber(right)] as const;
  if (sources.every(isIntegerSource)) {
    const [augend, addend] = [parseInt64(sources[0]), parseInt64(sources[1])];
    if (augend === undefined || addend === undefined || !isInt64(augend + addend))
      throw invalid(`${change.at} goes beyond 64-bit integers`);
    return parseNumber(String(augend + addend));
  }
  const total = Number(sources[0]) + Number(sources[1]);
  if (!Number.isFinite(total)) throw invalid(`${change.at} goes beyond the largest number`);
  return total;
}
