/**
 * What a dot path reaches in a document: MongoDB's walk.
 *
 * A name looks into an object. Where it finds an array, the rest of the path goes into each element that is an object,
 * and a number as the next name also picks one element. At the path's end an array counts by its elements and as a
 * whole, unless a number picked it. Elements that are not objects lead nowhere, not even to "missing"; arrays directly
 * in arrays are entered by numbers only. Must not know: filters, SQL beyond how its text is read there.
 */
import { getField, isObject, jsonText, setField, type Json, type JsonObject } from "../core/docs-json.ts";
import { parseArrayIndex, type DocPath } from "./docs-path.ts";

/**
 * The values as the text of a JSON object, for `json_each`: the first letter of a key says what it is. Repeated values
 * stay repeated. An object, because a list has no way to say that a field is missing.
 */
export function reachedText(doc: Json, path: DocPath): string {
  const found: JsonObject = {};
  let count = 0;
  walk(doc, path.components, 0, (kind, value) => setField(found, `${kind}${count++}`, value));
  return jsonText(found);
}

/** SQL for the JSON type of a row of `json_each(reachedText)`; NULL when it says that the field is missing. */
export function reachedType(alias: string): string {
  return `CASE WHEN ${alias}.key >= 'm' AND ${alias}.key < 'n' THEN NULL ELSE ${alias}.type END`;
}

/** SQL that tells whether a row of `json_each(reachedText)` is an array as a whole, beside its elements. */
export function isWhole(alias: string): string {
  return `(${alias}.key >= 'w')`;
}

/** A value, the absence of one, or a whole array. */
type ReachedKind = "v" | "m" | "w";

type Emit = (kind: ReachedKind, value: Json) => void;

function walk(container: Json, path: readonly string[], at: number, emit: Emit): void {
  const found = lookUp(container, path[at]!);
  const ends = at === path.length - 1;
  if (Array.isArray(found)) {
    walkArray(found, path, at, emit);
  } else if (found === undefined || (!ends && !isObject(found))) {
    emit("m", null);
  } else if (ends) {
    emit("v", found);
  } else {
    walk(found, path, at + 1, emit);
  }
}

/** Goes on from an array that the name at `at` has found. */
function walkArray(array: readonly Json[], path: readonly string[], at: number, emit: Emit): void {
  if (at === path.length - 1) {
    for (const element of array) emit("v", element);
    emit("w", array as Json[]);
    return;
  }
  for (const element of array) if (isObject(element)) walk(element, path, at + 1, emit);
  const index = parseArrayIndex(path[at + 1]!);
  const picked = index === undefined ? undefined : array[index];
  if (picked === undefined) return;
  if (at + 1 === path.length - 1) emit("v", picked);
  else if (isObject(picked) || Array.isArray(picked)) walk(picked, path, at + 2, emit);
}

function lookUp(container: Json, name: string): Json | undefined {
  if (isObject(container)) return getField(container, name);
  const index = parseArrayIndex(name);
  return Array.isArray(container) && index !== undefined ? container[index] : undefined;
}
