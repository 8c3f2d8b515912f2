/**
 * From the JSON, the path and the query of a REST call to its request message.
 *
 * The codecs are compiled once from the descriptors into closures, one per field: REST has to stay near a bare JSON
 * echo, and a walk over the descriptors at every call does not.
 * Always true: what is accepted is exactly the declared fields with values of their types and ranges; everything else
 * is an `invalid_request` that names the place, such as `memories[3].ttl`. A value of the client's never gets into a
 * message, only names do. It must not know sockets, nor what a field means.
 */
import { create, type DescField, type DescMessage, getOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { field_behavior, FieldBehavior } from "../../gen/google/api/field_behavior_pb.ts";
import { json as jsonOption } from "../../gen/palimpsest/v1/options_pb.ts";
import { assert } from "../base/assert.ts";
import { invalid, type ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { inspectJson, type JsonKind, jsonKindOf, rawNumberOf, setJson } from "../service/exact-json.ts";

/** What a reading of parsed JSON found out beside the message. */
interface Reading {
  /** A number beyond what a double tells apart stood where its digits matter: parse again with parseExact. */
  isInexact: boolean;
}

/** Turns JSON into the value of a field, as the generated code has it. */
type ReadValue = (json: unknown, reading: Reading) => unknown;
/** Reads one field of an object into its message. */
type ReadField = (message: Message, json: unknown, reading: Reading) => void;
type Properties = Message & Record<string, unknown>;

/** A value that does not fit, on its way up through the places that hold it. */
class Misfit extends Error {
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

/** Reads a JSON object into the fields of a message. */
export interface BodyDecoder {
  /**
   * Fills `message` from `json`, which must be an object.
   * @returns false when digits were lost in parsing: parse the text with parseExact and decode that into a new message.
   * @throws ServiceError `invalid_request` that names the place.
   */
  decode(message: Message, json: unknown): boolean;
}

/** Compiles the decoder of a body that holds the fields given. */
export function compileBody(fields: readonly DescField[]): BodyDecoder {
  const read = compileFields(fields);
  return {
    decode(message, json) {
      const reading: Reading = { isInexact: false };
      try {
        read(message, json, reading);
      } catch (error) {
        throw error instanceof Misfit ? error.refusal() : error;
      }
      return !reading.isInexact;
    },
  };
}

function compileFields(fields: readonly DescField[]): ReadField {
  const readers = new Map(fields.map((field) => [field.name, compileField(field)]));
  const required = fields.filter(isRequired);
  const names = fields.map((field) => field.name).join(", ");
  return (message, json, reading) => {
    if (!isObject(json)) throw new Misfit("must be an object");
    let name = "";
    try {
      for (name in json) {
        const read = readers.get(name);
        if (read === undefined) throw new Misfit(`is not a field of this request; allowed here: ${names || "none"}`);
        read(message, json[name], reading);
      }
    } catch (error) {
      throw error instanceof Misfit ? error.within(name) : error;
    }
    for (const field of required) {
      const given = Object.hasOwn(json, field.name) ? json[field.name] : undefined;
      const isMissing = given === undefined || (given === null && jsonKindOf(field) !== "value");
      if (isMissing) throw new Misfit("is required").within(field.name);
    }
  };
}

/** Whether a request without the field is refused. */
export function isRequired(field: DescField): boolean {
  return getOption(field, field_behavior).includes(FieldBehavior.REQUIRED);
}

/** `null` is absence, but for a field of any JSON, where it is a value. */
function compileField(field: DescField): ReadField {
  const kind = jsonKindOf(field);
  const name = field.localName;
  const readJson = kind && compileJson(name, kind);
  if (kind === "value") return readJson!;
  if (readJson) return (message, json, reading) => void (json === null || readJson(message, json, reading));
  const readValue = compileValue(field);
  return (message, json, reading) => {
    if (json !== null) (message as Properties)[name] = readValue(json, reading);
  };
}

const jsonShapes: Readonly<Record<JsonKind, { readonly what: string; readonly fits: (json: unknown) => boolean }>> = {
  value: { what: "JSON", fits: () => true },
  object: { what: "an object", fits: isObject },
  objects: { what: "an array of objects", fits: (json) => Array.isArray(json) && json.every(isObject) },
  arrays: { what: "an array of arrays", fits: (json) => Array.isArray(json) && json.every(Array.isArray) },
  values: { what: "an array", fits: Array.isArray },
};

function compileJson(name: string, kind: JsonKind): ReadField {
  const { what, fits } = jsonShapes[kind];
  return (message, json, reading) => {
    if (!fits(json)) throw new Misfit(`must be ${what}`);
    const finding = inspectJson(json, limits.jsonDepthMax);
    if (finding === "too_deep") throw new Misfit(`is nested deeper than ${limits.jsonDepthMax} levels`);
    if (finding === "large_number") reading.isInexact = true;
    setJson(message, name, JSON.stringify(json));
  };
}

function compileValue(field: DescField): ReadValue {
  const options = getOption(field, jsonOption);
  switch (field.fieldKind) {
    case "scalar":
      return options.acceptNumber ? numberOrText : compileScalar(field.scalar);
    case "message":
      return options.bareList ? compileBareList(field.message) : compileMessage(field.message);
    case "list":
      if (options.orderedObject) return compileOrderedObject(field);
      return field.listKind === "message" ? listOf(compileMessage(field.message)) : compileScalarList(field);
    case "enum":
    case "map":
      assert(false, `no request holds an enum or a map: ${String(field)}`);
  }
}

function compileMessage(type: DescMessage): ReadValue {
  let read: ReadField | undefined;
  return (json, reading) => {
    // On first use, so that a type may hold itself.
    read ??= compileFields(type.fields);
    const message = create(type);
    read(message, json, reading);
    return message;
  };
}

/** A message of one repeated field, written as that field's array. */
function compileBareList(type: DescMessage): ReadValue {
  const [list] = type.fields;
  assert(list?.fieldKind === "list" && type.fields.length === 1, `${type.typeName} is not a wrapper of one list`);
  const read = compileValue(list);
  const name = list.localName;
  return (json, reading) => {
    const message = create(type) as Properties;
    message[name] = read(json, reading);
    return message;
  };
}

/** A list of messages of two fields, written as an object from the first to the second. */
function compileOrderedObject(field: DescField): ReadValue {
  const type = field.message!;
  const [key, value] = type.fields;
  assert(key?.fieldKind === "scalar" && value?.fieldKind === "scalar", `${type.typeName} is not a pair of scalars`);
  const read = compileScalar(value.scalar);
  return (json, reading) => {
    if (!isObject(json)) throw new Misfit("must be an object");
    return Object.entries(json).map(([name, item]) => {
      const message = create(type) as Properties;
      message[key.localName] = name;
      message[value.localName] = at(name, () => read(item, reading));
      return message;
    });
  };
}

function compileScalarList(field: DescField & { fieldKind: "list" }): ReadValue {
  assert(field.listKind === "scalar", `no request holds a list of enums: ${String(field)}`);
  const isFloating = field.scalar === ScalarType.FLOAT || field.scalar === ScalarType.DOUBLE;
  return isFloating ? compileNumberList(field.scalar) : listOf(compileScalar(field.scalar));
}

function listOf(read: ReadValue): ReadValue {
  return (json, reading) => {
    if (!Array.isArray(json)) throw new Misfit("must be an array");
    const list: unknown[] = new Array(json.length);
    let index = 0;
    try {
      for (; index < json.length; index++) list[index] = read(json[index], reading);
    } catch (error) {
      throw error instanceof Misfit ? error.within(index) : error;
    }
    return list;
  };
}

/** Embeddings are most of what an ingest carries: the parsed array itself becomes the field, after one look. */
function compileNumberList(type: ScalarType): ReadValue {
  const read = compileScalar(type);
  const max = type === ScalarType.FLOAT ? floatMax : Number.MAX_VALUE;
  return (json, reading) => {
    if (!Array.isArray(json)) throw new Misfit("must be an array");
    for (let index = 0; index < json.length; index++) {
      const item: unknown = json[index];
      if (typeof item === "number" && item >= -max && item <= max) continue;
      json[index] = at(index, () => read(item, reading));
    }
    return json;
  };
}

function at<T>(place: string | number, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw error instanceof Misfit ? error.within(place) : error;
  }
}

const floatMax = (2 - 2 ** -23) * 2 ** 127;

function compileScalar(type: ScalarType): ReadValue {
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
    default:
      return assert(false, `no request holds a scalar of type ${type}`) as never;
  }
}

function text(json: unknown): string {
  if (typeof json !== "string") throw new Misfit("must be a string");
  if (!json.isWellFormed()) throw new Misfit("must be Unicode text: it holds half of a surrogate pair");
  return json;
}

function numberOrText(json: unknown, reading: Reading): string {
  if (typeof json === "number") {
    if (!Number.isSafeInteger(json)) reading.isInexact = true;
    return String(json);
  }
  return rawNumberOf(json) ?? text(json);
}

function truth(json: unknown): boolean {
  if (typeof json !== "boolean") throw new Misfit("must be true or false");
  return json;
}

function finite(max: number): ReadValue {
  return (json) => {
    const value = typeof json === "number" ? json : Number(rawNumberOf(json) ?? Number.NaN);
    if (!(Math.abs(value) <= max)) throw new Misfit("must be a number in range");
    return value;
  };
}

function integer(min: number, max: number): ReadValue {
  return (json) => {
    const isInRange = Number.isInteger(json) && (json as number) >= min && (json as number) <= max;
    if (!isInRange) throw new Misfit(`must be an integer from ${min} to ${max}`);
    // Adding zero makes 0 of -0, which no integer field should hold.
    return (json as number) + 0;
  };
}

function bigInteger(json: unknown, reading: Reading): bigint {
  if (Number.isSafeInteger(json)) return BigInt(json as number);
  reading.isInexact = true;
  return int64Of(Number.isInteger(json) ? String(BigInt(json as number)) : (rawNumberOf(json) ?? ""));
}

function int64Of(digits: string): bigint {
  const value = /^-?\d{1,19}$/.test(digits) ? BigInt(digits) : undefined;
  if (value === undefined || BigInt.asIntN(64, value) !== value) throw new Misfit("must be an integer of 64 bits");
  return value;
}

function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === "object" && json !== null && !Array.isArray(json) && rawNumberOf(json) === undefined;
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
      (message as Properties)[localName] = read(value);
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
      return int64Of;
    case ScalarType.INT32:
    case ScalarType.UINT32: {
      const read = compileScalar(type);
      return (value) => read(/^-?\d+$/.test(value) ? Number(value) : value, { isInexact: false });
    }
    default:
      return assert(false, `no query parameter has the type ${type}`) as never;
  }
}
