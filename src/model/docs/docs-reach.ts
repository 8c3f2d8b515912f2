/**
 * What a dot path reaches in a document: MongoDB's walk.
 *
 * A name looks into an object. Where it finds an array, the rest of the path goes into each element that is an object,
 * and a number as the next name also picks one element. At the path's end an array counts by its elements and as a
 * whole, unless a number picked it. Elements that are not objects lead nowhere, not even to "missing"; arrays directly
 * in arrays are entered by numbers only, and then element by element as any array. Must not know: filters, SQL beyond
 * how its text is read there.
 */
import { getField, isObject, jsonText, setField, type Json, type JsonObject } from "../core/docs-json.ts";
import { parseArrayIndex, type DocPath } from "./docs-path.ts";

/** An element of an array at the path's end, the absence of a value, a value, or a whole array beside its elements. */
type ReachedKind = "e" | "m" | "v" | "w";

/** What is told of a walk. */
interface Visitor {
  readonly found: (kind: ReachedKind, value: Json) => unknown;
  /** An element on the way leads nowhere. */
  readonly nowhere?: () => void;
  /** A number that picks an element is a position and nothing else, as in a sort. */
  readonly picksOnly?: boolean;
}

/**
 * The values as the text of a JSON object, for `json_each`: the first letter of a key says what it is. Repeated values
 * stay repeated. An object, because a list has no way to say that a field is missing.
 */
export function reachedText(doc: Json, path: DocPath): string {
  const found = new Found();
  walk(doc, path.components, 0, { found: (kind, value) => found.add(kind, value) });
  return found.text;
}

/** The values alone, those of an array at the path's end by its elements; null for a field that is missing. */
export function reachedValues(doc: Json, path: DocPath): readonly Json[] {
  const values: Json[] = [];
  walk(doc, path.components, 0, { found: (kind, value) => kind === "w" || values.push(value) });
  return values;
}

/**
 * What a document sorts by, in the same form: what the path reaches, arrays taken apart. An empty array at the end is
 * `w`, and comes before everything; what is missing, or leads nowhere, is null.
 */
export function sortedText(doc: Json, path: DocPath): string {
  const found = new Found();
  walk(doc, path.components, 0, {
    found: (kind, value) => {
      if (kind !== "w") found.add(kind, value);
      else if ((value as readonly Json[]).length === 0) found.add(kind, null);
    },
    nowhere: () => found.add("m", null),
    picksOnly: true,
  });
  if (found.count === 0) found.add("m", null);
  return found.text;
}

class Found {
  readonly #values: JsonObject = {};
  count = 0;

  add(kind: ReachedKind, value: Json): void {
    setField(this.#values, `${kind}${this.count++}`, value);
  }

  get text(): string {
    return jsonText(this.#values);
  }
}

/** SQL for the JSON type of a row of `json_each(reachedText)`; NULL when it says that the field is missing. */
export function reachedType(alias: string): string {
  return `CASE WHEN ${alias}.key >= 'm' AND ${alias}.key < 'n' THEN NULL ELSE ${alias}.type END`;
}

/** SQL that tells whether a row of `json_each(reachedText)` is no element of an array at the path's end. */
export function isNoElement(alias: string): string {
  return `(${alias}.key >= 'm')`;
}

/** SQL that tells whether a row of `json_each(sortedText)` is an empty array. */
export function isEmptyArray(alias: string): string {
  return `(${alias}.key >= 'w')`;
}

function walk(container: Json, path: readonly string[], at: number, visitor: Visitor): void {
  const found = lookUp(container, path[at]!);
  const ends = at === path.length - 1;
  if (Array.isArray(found)) {
    if (ends) tellArray(found, visitor);
    else walkArray(found, path, at + 1, visitor);
  } else if (found === undefined || (!ends && !isObject(found))) {
    visitor.found("m", null);
  } else if (ends) {
    visitor.found("v", found);
  } else {
    walk(found, path, at + 1, visitor);
  }
}

function tellArray(array: Json[], visitor: Visitor): void {
  for (const element of array) visitor.found("e", element);
  visitor.found("w", array);
}

/** Goes on from an array with the name at `at`, which may be a number and pick one element. */
function walkArray(array: readonly Json[], path: readonly string[], at: number, visitor: Visitor): void {
  const index = parseArrayIndex(path[at]!);
  const picked = index === undefined ? undefined : array[index];
  if (picked === undefined || !visitor.picksOnly) {
    for (const element of array) {
      if (isObject(element)) walk(element, path, at, visitor);
      else visitor.nowhere?.();
    }
  }
  if (picked === undefined) return;
  if (at === path.length - 1) visitor.found("v", picked);
  else if (isObject(picked)) walk(picked, path, at + 1, visitor);
  else if (Array.isArray(picked)) walkArray(picked, path, at + 1, visitor);
  else visitor.nowhere?.();
}

function lookUp(container: Json, name: string): Json | undefined {
  if (isObject(container)) return getField(container, name);
  const index = parseArrayIndex(name);
  return Array.isArray(container) && index !== undefined ? container[index] : undefined;
}
