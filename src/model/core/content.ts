/**
 * Contents of memories and turns: any JSON, kept as text so that no number loses a digit.
 *
 * Owns: their bounds on the way in and on the way out, and the words in them. Must not know: rows, indexes.
 */
import { utf8Length } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { isObject, parseJson, type Json } from "./docs-json.ts";

export const contentBytesMax = 1024 * 1024;
/** Contents in one answer of recall or of the transcript, all together; more must be asked for in smaller parts. */
const contentsBytesMax = 32 * 1024 * 1024;

/** Reads a content, and gives its text as it is stored. Refuses one that is too large, not JSON or nested too deep. */
export function readContent(field: string, text: string): { readonly value: Json; readonly text: string } {
  if (text.length > contentBytesMax || utf8Length(text) > contentBytesMax) {
    throw invalid(`${field} must be at most ${contentBytesMax} bytes of JSON`);
  }
  return parseJson(field, text);
}

/**
 * Refuses an answer whose contents together are larger than one answer may be; `field` is what the client can lower.
 */
export function checkAnswerBytes(field: string, contents: readonly { readonly bytes: number }[]): void {
  const bytes = contents.reduce((sum, content) => sum + content.bytes, 0);
  if (bytes <= contentsBytesMax) return;
  throw invalid(
    `${field} must be lower: these ${contents.length} contents are ${bytes} bytes, and one answer holds at ` +
      `most ${contentsBytesMax}`,
  );
}

/** Every string value in the order of the text, never a field name, until `charsMax` characters have come together. */
export function textLeaves(value: Json, charsMax: number): readonly string[] {
  const leaves: string[] = [];
  let charsLeft = charsMax;
  const visit = (node: Json): void => {
    if (charsLeft <= 0) return;
    if (typeof node === "string") {
      leaves.push(node.slice(0, charsLeft));
      charsLeft -= node.length;
    } else if (Array.isArray(node)) node.forEach(visit);
    else if (isObject(node)) Object.values(node).forEach(visit);
  };
  visit(value);
  return leaves;
}
