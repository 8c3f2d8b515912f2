/**
 * The conditions of writes, and the tags of what they are about, as HTTP and messages say them.
 *
 * Always true: what HTTP's own headers say is taken as the fields of the request are; said twice with different values
 * it is refused, and so is a condition of a call that takes none. Must not know: what the hash is of.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Call } from "./call.ts";
import type { Context } from "./context.ts";
import { present } from "./data-messages.ts";
import type { AnyEndpoint } from "./methods.ts";

/** Whether the write can be made to depend on what is there, by `If-Match`. */
export function takesIfMatch({ method }: AnyEndpoint): boolean {
  return method.input.fields.some(({ name }) => name === "if_match");
}

/** Whether the write can be made to depend on there being nothing, by `If-None-Match`. */
export function takesIfNoneMatch({ method }: AnyEndpoint): boolean {
  return method.input.fields.some(({ name }) => name === "if_absent");
}

/** Whether the call reads content that has a tag, and `If-None-Match` may name what the caller has of it. */
export function isTaggedRead({ rule, httpMethod }: AnyEndpoint): boolean {
  return rule.entityTag && httpMethod === "GET";
}

/** Refuses a condition of a call that takes none: to drop it in silence would lose what it was to protect. */
export function checkConditions({ endpoint, headers: { ifMatch, ifNoneMatch } }: Call): void {
  if (ifMatch !== undefined && !takesIfMatch(endpoint))
    throw invalid("If-Match is for writes on a condition: this call takes none");
  if (ifNoneMatch !== undefined && !takesIfNoneMatch(endpoint) && !isTaggedRead(endpoint))
    throw invalid("If-None-Match is for writes on a condition and for reads of what has a tag: this call takes none");
}

/** The hash that the caller wants what is there to have, from the field and the header. */
export function expectedHash(field: string | undefined, { call }: Context): { ifMatch?: string } {
  const { ifMatch: header } = call.headers;
  if (header === undefined) return present({ ifMatch: field });
  const hash = /^\*$|^"([0-9a-f]{64})"$/.exec(header);
  if (!hash) throw invalid('If-Match must be one hash in quotes, such as "9f86…", or *');
  const ifMatch = hash[1] ?? "*";
  if (field !== undefined && field !== ifMatch)
    throw invalid("the expected hash is given twice, with different values: as if_match and as If-Match");
  return { ifMatch };
}

/** Whether the caller wants that there is nothing. */
export function expectsNone(field: boolean, { call }: Context): { ifAbsent?: true } {
  const { ifNoneMatch } = call.headers;
  if (ifNoneMatch !== undefined && ifNoneMatch !== "*") throw invalid("If-None-Match of a write must be *");
  return field || ifNoneMatch !== undefined ? { ifAbsent: true } : {};
}

/** Notes the hash of what the answer is about. */
export function tagged(context: Context, hash: string): void {
  context.entityTag = `"${hash}"`;
}
