/**
 * How a caller names a state of a branch: a transaction id in decimal, a time, or the name of a checkpoint.
 *
 * Always true: the three cannot be taken for each other. A time has a colon, which no name has, and a new checkpoint's
 * name holds something besides digits. Must not know: which states there are.
 */
import { invalid } from "../../base/faults/errors.ts";
import { isBranchName } from "./names.ts";

const txidPattern = /^\d{1,16}$/;
const datePattern = /\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])/;
const clockPattern = /(?:[01]\d|2[0-3]):[0-5]\d/;
/** RFC 3339, to the minute at least; the rule `state_name` of the proto files has the same. */
const timePattern = new RegExp(
  String.raw`^${datePattern.source}T${clockPattern.source}(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-]${clockPattern.source})$`,
);

/** What a text says of a state. */
export type StateName =
  | { readonly kind: "txid"; readonly txid: number }
  | { readonly kind: "time"; readonly atMs: number }
  | { readonly kind: "checkpoint"; readonly name: string };

/** What the text means; undefined when it can mean nothing. An old checkpoint may have a name of digits. */
export function parseState(text: string): StateName | undefined {
  if (txidPattern.test(text)) return { kind: "txid", txid: Number(text) };
  if (isBranchName(text)) return { kind: "checkpoint", name: text };
  const atMs = timePattern.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(atMs) ? undefined : { kind: "time", atMs };
}

/** Refuses what can name no state; whether there is one of that name, the branch's history knows. */
export function checkState(field: string, text: string): string {
  if (parseState(text)) return text;
  throw invalid(
    `${field} must be a transaction id, the name of a checkpoint, or a time such as 2026-01-31T12:00:00Z ` +
      "(in a query, + is written %2B)",
  );
}
