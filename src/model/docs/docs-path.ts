/**
 * Dot paths: how a filter, a sort, an update or an index names a place in a document.
 *
 * Always true: a path that was read has at least one component, none is empty or starts with `$`; it reaches SQL only
 * as a bound value.
 */
import { invalid } from "../../base/faults/errors.ts";
import { isWellFormed } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";

export interface DocPath {
  readonly text: string;
  readonly components: readonly string[];
}

/** The path of no names: a value itself. No text of a client is read as it. */
export const selfPath: DocPath = { text: "", components: [] };

/** The field that every document has, and that nothing changes. */
export const idField = "_id";

/** Reads a dot path; `name` is used in the message of a refusal. */
export function parsePath(name: string, text: string): DocPath {
  const components = text.split(".");
  const wrong =
    text.length > limits.pathCharsMax ||
    !isWellFormed(text) ||
    components.length > limits.jsonDepthMax ||
    components.some((part) => part === "" || part.startsWith("$"));
  if (wrong) {
    throw invalid(
      `${name} must be a path of 1 to ${limits.jsonDepthMax} field names joined by ` +
        `dots, ${limits.pathCharsMax} characters at most; no name may be empty or start with $`,
    );
  }
  return { text, components };
}

/** The component as a position in an array, or undefined when it is not written as one. */
export function parseArrayIndex(component: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,8})$/.test(component) ? Number(component) : undefined;
}

/**
 * Whether an index can hold what the path reaches. A number between names can lead from an array into an array, where
 * builds before this one went another way: what they entered would not be what is looked for.
 */
export function isIndexable({ components }: DocPath): boolean {
  return !components.slice(1, -1).some((component) => parseArrayIndex(component) !== undefined);
}
