/**
 * Updates: JSON text in, a checked list of changes out, and the documents that upserts begin with.
 *
 * Always true:
 * - the paths of one update never overlap, so the order of its operators does not matter
 * - `_id` is out of reach
 *
 * Must not know: tables, how an operator changes a document.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkJson, isObject, parseJson, type Json, type JsonObject } from "../core/docs-json.ts";
import type { Filter } from "./docs-filter.ts";
import { operators, putAt, type Change, type Surroundings } from "./docs-operators.ts";
import { idField, parsePath, type DocPath } from "./docs-path.ts";

export interface Update {
  readonly changes: readonly Change[];
  /** The top-level fields that the update may change. */
  readonly fields: ReadonlySet<string>;
}

const names = Object.keys(operators).join(", ");

/** Reads an update. Every refusal names the place, beginning with `name`. */
export function parseUpdate(name: string, text: string): Update {
  const { value } = parseJson(name, text, limits.jsonDepthMax + 3);
  if (!isObject(value) || Object.keys(value).length === 0)
    throw invalid(`${name} must be an object of operators: ${names}`);
  const changes = Object.entries(value).flatMap(([key, fields]) => {
    const operator = Object.hasOwn(operators, key) ? operators[key] : undefined;
    if (operator === undefined)
      throw invalid(`${name} may hold only the operators ${names}; a document is not replaced as a whole`);
    if (!isObject(fields)) throw invalid(`${name}.${key} must be an object of paths and values`);
    return Object.entries(fields).map(([path, operand]): Change => {
      const named = { at: `${name}.${key}.${path}`, path: changedPath(`${name}.${key}`, path) };
      return { ...named, ...operator({ ...named, operand }) };
    });
  });
  const paths = changes.flatMap(({ path, target }) => (target ? [path, target] : [path]));
  refuseOverlap(name, "changes", paths);
  return { changes, fields: new Set(paths.map((path) => path.components[0]!)) };
}

/** A path that may be changed. */
function changedPath(at: string, text: string): DocPath {
  const path = parsePath(`a path in ${at}`, text);
  if (path.components[0] === idField) throw invalid(`${at}.${text} cannot be changed: ${idField} is immutable`);
  return path;
}

/** Refuses two changes of one place, or of a place and something inside it: which one wins would be chance. */
function refuseOverlap(name: string, does: string, paths: readonly DocPath[]): void {
  const sorted = paths.map((path) => path.components.join("\0")).sort();
  for (let index = 1; index < sorted.length; index++) {
    // Sorted with the lowest character as separator, whatever lies inside a path follows it directly.
    const [before, after] = [sorted[index - 1]!, sorted[index]!];
    if (after === before || after.startsWith(`${before}\0`))
      throw invalid(`${name} ${does} ${before.replaceAll("\0", ".")} twice, or both it and something inside it`);
  }
}

/**
 * Applies the update to the document in place. Throws when the document has no room for it; then it may be half done.
 */
export function applyUpdate(update: Update, doc: JsonObject, surroundings: Surroundings): void {
  for (const change of update.changes) change.apply(doc, surroundings);
  checkJson("the updated document", doc);
}

/** The document that an upsert begins with: what the filter says that fields equal, alone or in `$and`. */
export function equalParts(filter: Filter): JsonObject {
  const parts = [...listEqualities(filter)];
  refuseOverlap(
    "filter",
    "says what equals",
    parts.map(({ path }) => path),
  );
  const doc: JsonObject = {};
  for (const { path, value } of parts) putAt({ at: `filter.${path.text}`, path }, doc, value);
  return doc;
}

function* listEqualities(filter: Filter): Generator<{ readonly path: DocPath; readonly value: Json }> {
  if (filter.kind === "and") for (const inner of filter.filters) yield* listEqualities(inner);
  if (filter.kind === "in" && filter.operands.length === 1) yield { path: filter.path, value: filter.operands[0]! };
}
