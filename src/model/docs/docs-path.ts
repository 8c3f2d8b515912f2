/**
 * Dot paths: how a filter, a sort, an update or an index names a place in a document.
 *
 * Always true: a path has at least one component, none is empty or starts with `$`; it reaches SQL only as a bound
 * value.
 */
import { invalid } from "../../base/faults/errors.ts";
import { isWellFormed } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";

export interface DocPath {
  readonly text: string;
  readonly components: readonly string[];
}

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
