/**
 * JSON that keeps every number as it was written.
 *
 * Always true: a text that went in and out again has the same numbers, digit by digit, however large; objects hold only
 * properties of their own, so that a field named `__proto__` is data and nothing else. Must not know: documents, SQL.
 */
import { invalid } from "../../base/faults/errors.ts";
import { isWellFormed } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";

/** A number that a double would not give back as it was written: `1.0`, or one of more than 53 bits. */
export interface RawNumber {
  readonly rawJSON: string;
}

export type Json = null | boolean | string | number | RawNumber | Json[] | JsonObject;

export interface JsonObject {
  [field: string]: Json;
}

/** What this runtime has and the compiler's library does not describe yet. */
const exactJson = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source: string }) => unknown): Json;
  rawJSON(text: string): RawNumber;
  isRawJSON(value: unknown): value is RawNumber;
};

/** The number with this JSON source. */
export function parseNumber(source: string): number | RawNumber {
  const value = Number(source);
  return String(value) === source ? value : exactJson.rawJSON(source);
}

/** The JSON source of a number. */
export function formatNumber(value: number | RawNumber): string {
  return typeof value === "number" ? String(value) : value.rawJSON;
}

export function isNumber(value: Json | undefined): value is number | RawNumber {
  return typeof value === "number" || exactJson.isRawJSON(value);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !exactJson.isRawJSON(value);
}

/** The field's value, or undefined when the object has no such field of its own. */
export function getField(object: JsonObject, field: string): Json | undefined {
  return Object.hasOwn(object, field) ? object[field] : undefined;
}

/** Sets the field as the object's own, whatever its name: assigning `__proto__` would set the prototype instead. */
export function setField(object: JsonObject, field: string, value: Json): void {
  Object.defineProperty(object, field, { value, writable: true, enumerable: true, configurable: true });
}

/** The value as text without spaces. Two values that are written alike give the same text. */
export function jsonText(value: Json): string {
  return JSON.stringify(value);
}

/** The same text for equal values: fields sorted, numbers by value (exact within 64 bits, as doubles beyond). */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  if (isNumber(value)) return canonicalNumber(formatNumber(value));
  if (!isObject(value)) return JSON.stringify(value);
  const fields = Object.keys(value).sort();
  return `{${fields.map((field) => `${JSON.stringify(field)}:${canonicalText(value[field]!)}`).join(",")}}`;
}

/** Whether the number is written as an integer. */
export function isIntegerSource(source: string): boolean {
  return /^-?[0-9]+$/.test(source);
}

/** The integer that is written here, when it fits 64 bits. */
export function parseInt64(source: string): bigint | undefined {
  // The length first: reading a million digits takes long.
  if (source.length > 20 || !isIntegerSource(source)) return undefined;
  const value = BigInt(source);
  return isInt64(value) ? value : undefined;
}

/** Whether the integer fits 64 bits, sign included. */
export function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

function canonicalNumber(source: string): string {
  const exact = parseInt64(source);
  if (exact !== undefined) return String(exact);
  const double = Number(source);
  return Number.isInteger(double) && isInt64(BigInt(double)) ? String(BigInt(double)) : String(double);
}

/** Refuses a value that is nested too deep, or whose strings or field names have no UTF-8 form. */
export function checkJson(name: string, value: Json, depthMax: number = limits.jsonDepthMax): void {
  if (typeof value === "string") {
    if (!isWellFormed(value))
      throw invalid(`${name} has a string with half a surrogate pair, which is not valid Unicode text`);
  } else if (Array.isArray(value)) {
    if (depthMax === 0) throw tooDeep(name);
    for (const element of value) checkJson(name, element, depthMax - 1);
  } else if (isObject(value)) {
    if (depthMax === 0) throw tooDeep(name);
    for (const [field, inner] of Object.entries(value)) {
      if (!isWellFormed(field))
        throw invalid(`${name} has a field name with half a surrogate pair, which is not valid Unicode text`);
      checkJson(name, inner, depthMax - 1);
    }
  }
}

const tooDeep = (name: string) =>
  invalid(`${name} is nested too deep: JSON values may nest ${limits.jsonDepthMax} levels`);

/**
 * Reads JSON text; `name` is used in the message of a refusal. Also gives the text again without spaces and repeated
 * fields (the last one counts). `depthMax` is in levels of arrays and objects.
 */
export function parseJson(
  name: string,
  text: string,
  depthMax: number = limits.jsonDepthMax,
): { readonly value: Json; readonly text: string } {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid(`${name} must be valid JSON`);
    throw error;
  }
  // The depth comes first: writing and the second reading recurse, the first reading does not.
  checkJson(name, value, depthMax);
  // The usual text comes back as it was, which proves that no number lost a digit, at a fifth of the second reading's
  // cost.
  if (JSON.stringify(value) === text) return { value, text };
  const exact = exactJson.parse(text, (_, inner, { source }) =>
    typeof inner === "number" ? parseNumber(source) : inner,
  );
  return { value: exact, text: jsonText(exact) };
}

/** Reads text that was checked before it was stored. */
export function storedJson(text: string): Json {
  return parseJson("the stored document", text).value;
}
