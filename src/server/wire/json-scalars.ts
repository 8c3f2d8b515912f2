/**
 * From parsed JSON, or the text of a query parameter, to the value of a scalar field; and the refusal of what does not
 * fit, which gets its place on the way up.
 *
 * Always true: a value of the client's never gets into a message, only names do. Must not know: messages.
 */
import { type DescField, type Message, ScalarType } from "@bufbuild/protobuf";
import { assert } from "../../base/faults/assert.ts";
import { invalid, type ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { getRawNumber } from "../../service/call/exact-json.ts";

/** What a reading of parsed JSON found out beside the message. */
export interface Reading {
  /** A number beyond what a double tells apart was where its digits matter: parse again with parseExact. */
  isInexact: boolean;
}

/** Turns JSON into the value of a field, as the generated code has it. */
export type ReadValue = (json: unknown, reading: Reading) => unknown;
/** A value that does not fit, on its way up through the places that hold it. */
export class Misfit extends Error {
  readonly path: (string | number)[] = [];

  within(place: string | number): this {
    this.path.unshift(place);
    return this;
  }

  refusal(): ServiceError {
    const path = this.path.map((place, index) => {
      if (typeof place === "number") return `[${place}]`;
      return index === 0 ? printableName(place) : `.${printableName(place)}`;
    });
    return invalid(`${path.join("") || "the body"} ${this.message}`);
  }
}

/** A name as the client wrote it, made fit for a message: short and printable. */
export function printableName(name: string): string {
  const shown = name.length > limits.nameCharsMax ? `${name.slice(0, limits.nameCharsMax)}…` : name;
  return /^[\w.-]+…?$/.test(shown) ? shown : JSON.stringify(shown.toWellFormed());
}

export function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === "object" && json !== null && !Array.isArray(json) && getRawNumber(json) === undefined;
}

/** The largest number of 32 bits. */
export const floatMax = (2 - 2 ** -23) * 2 ** 127;

/** Compiles the reader of a scalar in the specification's JSON. */
export function compileScalar(type: ScalarType): ReadValue {
  switch (type) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return truth;
    case ScalarType.DOUBLE:
      return finite(Number.MAX_VALUE);
    case ScalarType.FLOAT:
      return finite(floatMax);
    case ScalarType.INT32:
      return integer(-(2 ** 31), 2 ** 31 - 1);
    case ScalarType.UINT32:
      return integer(0, 2 ** 32 - 1);
    case ScalarType.INT64:
      return bigInteger;
    case ScalarType.BYTES:
      return base64;
    default:
      return assert(false, `no request holds a scalar of type ${type}`) as never;
  }
}

function text(json: unknown): string {
  if (typeof json !== "string") throw new Misfit("must be a string");
  if (!json.isWellFormed()) throw new Misfit("must be Unicode text: it holds half of a surrogate pair");
  return json;
}

/** A text that may be written as a number. */
export function numberOrText(json: unknown, reading: Reading): string {
  if (typeof json === "number") {
    if (!Number.isSafeInteger(json)) reading.isInexact = true;
    return String(json);
  }
  return getRawNumber(json) ?? text(json);
}

function truth(json: unknown): boolean {
  if (typeof json !== "boolean") throw new Misfit("must be true or false");
  return json;
}

function finite(max: number): ReadValue {
  return (json) => {
    const value = typeof json === "number" ? json : Number(getRawNumber(json) ?? Number.NaN);
    if (!(Math.abs(value) <= max)) throw new Misfit("must be a number in range");
    return value;
  };
}

function integer(min: number, max: number): ReadValue {
  return (json) => {
    // Not the whole range of the type: what the field allows is narrower, and its own check says it.
    if (!Number.isInteger(json) || ((json as number) < min && min === 0))
      throw new Misfit(`must be a whole number${min === 0 ? " that is not negative" : ""}`);
    if ((json as number) < min || (json as number) > max)
      throw new Misfit(`must be a whole number from ${min} to ${max}`);
    // Adding zero makes 0 of -0, which no integer field should hold.
    return (json as number) + 0;
  };
}

function bigInteger(json: unknown, reading: Reading): bigint {
  if (Number.isSafeInteger(json)) return BigInt(json as number);
  reading.isInexact = true;
  return parseInt64(Number.isInteger(json) ? String(BigInt(json as number)) : (getRawNumber(json) ?? ""));
}

function parseInt64(digits: string): bigint {
  const value = /^-?\d{1,19}$/.test(digits) ? BigInt(digits) : undefined;
  if (value === undefined || BigInt.asIntN(64, value) !== value) throw new Misfit("must be an integer of 64 bits");
  return value;
}

/** Compiles the reader of a scalar in ProtoJSON: numbers may be written as texts. */
export function compileProtoScalar(type: ScalarType): ReadValue {
  switch (type) {
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT: {
      const read = compileScalar(type);
      return (json, reading) => read(typeof json === "string" && decimal.test(json) ? Number(json) : json, reading);
    }
    case ScalarType.INT32:
    case ScalarType.UINT32: {
      const read = compileScalar(type);
      return (json, reading) =>
        read(typeof json === "string" && /^-?\d{1,10}$/.test(json) ? Number(json) : json, reading);
    }
    case ScalarType.INT64:
      return (json, reading) => (typeof json === "string" ? parseInt64(json) : bigInteger(json, reading));
    default:
      return compileScalar(type);
  }
}

/** A number as JSON writes it, of a length that no double needs. */
const decimal = /^-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,5})?$/;

function base64(json: unknown): Uint8Array {
  if (typeof json !== "string") throw new Misfit("must be a string of base64");
  const bytes = Buffer.from(json, "base64");
  // The decoder passes over what is no base64, so the length tells whether it has.
  if (bytes.length !== Math.floor((withoutPadding(json) * 3) / 4)) throw new Misfit("must be a string of base64");
  return bytes;
}

function withoutPadding(text: string): number {
  return text.endsWith("==") ? text.length - 2 : text.endsWith("=") ? text.length - 1 : text.length;
}

/** Reads one query parameter's text into its field. */
export type ReadParameter = (message: Message, value: string) => void;

/**
 * Compiles the reader of a query parameter; its field is text, a truth value or an integer.
 * What it throws is a ServiceError that names the parameter.
 */
export function compileParameter(field: DescField): ReadParameter {
  assert(field.fieldKind === "scalar", `a query parameter is a scalar: ${String(field)}`);
  const { name, localName } = field;
  const read = compileParameterText(field.scalar);
  return (message, value) => {
    try {
      (message as Message & Record<string, unknown>)[localName] = read(value);
    } catch (error) {
      throw error instanceof Misfit ? error.within(name).refusal() : error;
    }
  };
}

function compileParameterText(type: ScalarType): (value: string) => unknown {
  switch (type) {
    case ScalarType.STRING:
      return (value) => value;
    case ScalarType.BOOL:
      return (value) => truth(value === "true" || (value === "false" ? false : value));
    case ScalarType.INT64:
      return parseInt64;
    case ScalarType.INT32:
    case ScalarType.UINT32: {
      const read = compileScalar(type);
      return (value) => read(/^-?\d+$/.test(value) ? Number(value) : value, { isInexact: false });
    }
    default:
      return assert(false, `no query parameter has the type ${type}`) as never;
  }
}
