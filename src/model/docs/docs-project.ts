/**
 * Projections: which fields of a document are given.
 *
 * The meaning is MongoDB's: paths that are all included or all excluded, of each object in arrays on the way, nested
 * ones too; `_id` is given unless it is excluded by itself. Always true: what is given has the order and the numbers of
 * what is stored. Must not know: filters, SQL.
 */
import { invalid } from "../../base/faults/errors.ts";
import {
  getField,
  isObject,
  jsonText,
  parseJson,
  setField,
  storedJson,
  type Json,
  type JsonObject,
} from "../core/docs-json.ts";
import { idField, parsePath } from "./docs-path.ts";

const projectionPathsMax = 1000;

/** Gives the JSON text of a document as the projection has it. */
export type Projection = (doc: string) => string;

/** Field names; what has no names below it is a path's end. */
type Tree = Map<string, Tree>;

/** Reads a projection; undefined where it gives every field. Every refusal names the place, beginning with `name`. */
export function parseProjection(name: string, text: string): Projection | undefined {
  const { value } = parseJson(name, text);
  if (!isObject(value)) throw invalid(`${name} must be an object`);
  const tree: Tree = new Map();
  const paths = [...listPaths(name, value, "")];
  if (paths.length > projectionPathsMax) throw invalid(`${name} must have at most ${projectionPathsMax} paths`);
  const ofId = paths.find(({ path }) => path === idField)?.isIncluded;
  const others = paths.filter(({ path }) => path !== idField);
  if (others.some(({ isIncluded }) => isIncluded !== others[0]!.isIncluded))
    throw invalid(`${name} mixes fields that are given (1) and left out (0); only ${idField} may differ`);
  if (paths.length === 0) return undefined;
  const isIncluding = others[0]?.isIncluded ?? ofId!;
  for (const { path } of others) enter(name, tree, path);
  if (isIncluding ? ofId !== false : ofId === false) enter(name, tree, idField);
  return (doc) => jsonText(isIncluding ? including(storedJson(doc), tree)! : excluding(storedJson(doc), tree));
}

function* listPaths(
  name: string,
  object: JsonObject,
  before: string,
): Generator<{ readonly path: string; readonly isIncluded: boolean }> {
  for (const [field, value] of Object.entries(object)) {
    const path = parsePath(`a path in ${name}`, before + field).text;
    if (isObject(value) && Object.keys(value).length > 0) yield* listPaths(name, value, `${path}.`);
    else if (value === 1 || value === true) yield { path, isIncluded: true };
    else if (value === 0 || value === false) yield { path, isIncluded: false };
    else throw invalid(`${name}.${path} must be 1 or true, 0 or false, or an object of such fields`);
  }
}

function enter(name: string, tree: Tree, path: string): void {
  let at = tree;
  const parts = path.split(".");
  for (const [index, part] of parts.entries()) {
    const known = at.get(part);
    if (known && (known.size === 0 || index === parts.length - 1))
      throw invalid(`${name} names ${path} twice, or both it and something inside it or around it`);
    const next: Tree = known ?? new Map();
    at.set(part, next);
    at = next;
  }
}

/** What is named, of an object or of each one in an array; undefined for anything else. */
function including(value: Json, tree: Tree): Json | undefined {
  if (Array.isArray(value))
    return value.map((element) => including(element, tree)).filter((element) => element !== undefined);
  if (!isObject(value)) return undefined;
  return rebuilt(
    value,
    (inner, below) => (below === undefined ? undefined : below.size === 0 ? inner : including(inner, below)),
    tree,
  );
}

/** All but what is named. */
function excluding(value: Json, tree: Tree): Json {
  if (Array.isArray(value)) return value.map((element) => excluding(element, tree));
  if (!isObject(value)) return value;
  return rebuilt(
    value,
    (inner, below) => (below === undefined ? inner : below.size === 0 ? undefined : excluding(inner, below)),
    tree,
  );
}

function rebuilt(
  value: JsonObject,
  act: (inner: Json, below: Tree | undefined) => Json | undefined,
  tree: Tree,
): JsonObject {
  const result: JsonObject = {};
  for (const field of Object.keys(value)) {
    const kept = act(getField(value, field)!, tree.get(field));
    if (kept !== undefined) setField(result, field, kept);
  }
  return result;
}
