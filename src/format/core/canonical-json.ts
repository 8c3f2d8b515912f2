/**
 * The one spelling of a JSON value that signatures are made over: RFC 8785 (JSON Canonicalization Scheme).
 *
 * Always true: equal values give equal text, whatever program wrote them and in whatever order. The scheme spells
 * numbers and strings as ECMAScript's own JSON.stringify does and sorts members by UTF-16 code units as its sort does,
 * so little is left to do here. Must not know: what is signed. Values from outside are first checked to have
 * well-formed strings: text with a lone surrogate has no canonical form.
 */
import { assert } from "../../base/faults/assert.ts";

/** The canonical text of a JSON value. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member)}`).join(",")}}`;
  }
  if (typeof value === "string") assert(value.isWellFormed(), "canonical text has no lone surrogates");
  else assert(value === null || typeof value === "boolean" || Number.isFinite(value), "only JSON has a canonical form");
  return JSON.stringify(value);
}
