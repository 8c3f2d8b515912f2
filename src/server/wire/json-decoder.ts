/**
 * From JSON to a request message: in the specification's dialect on REST, in ProtoJSON on Connect and gRPC.
 *
 * The codecs are compiled once from the descriptors into closures, one per field: REST has to stay near a bare JSON
 * echo, and a walk over the descriptors at every call does not. The two dialects differ in how a few types are written;
 * both go through here, so that they refuse the same things with the same words.
 * Always true: what is accepted is exactly the declared fields with values of their types and ranges; everything else
 * is an `invalid_request` that names the place, such as `memories[3].ttl`. A value of the client's never gets into a
 * message, only names do. It must not know sockets, nor what a field means.
 */
import { create, type DescField, type DescMessage, getOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { json as jsonOption } from "../../../gen/palimpsest/v1/options_pb.ts";
import { assert } from "../../base/faults/assert.ts";
import { limits } from "../../base/limits.ts";
import { isRequired } from "../../service/call/constraints.ts";
import { inspectJson, type JsonKind, getJsonKind, setJson, setJsonElements } from "../../service/call/exact-json.ts";
import {
  compileProtoScalar,
  compileScalar,
  floatMax,
  isObject,
  Misfit,
  numberOrText,
  type Reading,
  type ReadValue,
} from "./json-scalars.ts";

/** How JSON writes a message: as the specification does, or as protobuf does. */
export type JsonDialect = "rest" | "proto";

/** Reads one field of an object into its message. */
type ReadField = (message: Message, json: unknown, reading: Reading) => void;
type Properties = Message & Record<string, unknown>;

/** Reads a JSON object into the fields of a message. */
export interface BodyDecoder {
  /**
   * Fills `message` from `json`, which must be an object.
   * @returns false when digits were lost in parsing: parse the text with parseExact and decode that into a new message.
   * @throws ServiceError `invalid_request` that names the place.
   */
  decode(message: Message, json: unknown): boolean;
  /**
   * The fields that are lists, by the names that they may have: what a large body's are read by, some elements at a
   * time.
   */
  readonly lists: ReadonlyMap<string, ListReader>;
}

/** Reads a list some elements at a time, in order. */
interface ListReader {
  /**
   * Adds the elements, of which the first has the index `from`, to the field of `message`; `texts` is where a list of
   * any JSON is gathered until `end`; `isExact` says that no digit was lost in parsing.
   * @returns false when digits may have been lost, and nothing was added.
   * @throws ServiceError `invalid_request` that names the place.
   */
  add(message: Message, json: readonly unknown[], from: number, texts: string[], isExact?: boolean): boolean;
  /** The list is complete. */
  end(message: Message, texts: readonly string[]): void;
}

/**
 * The decoder of a body that holds the fields given. It is compiled on first use: a node has hundreds, and most of them
 * never see a body.
 */
export function compileBody(fields: readonly DescField[], dialect: JsonDialect = "rest"): BodyDecoder {
  let read: ReadField | undefined;
  let lists: BodyDecoder["lists"] | undefined;
  return {
    decode(message, json) {
      const known = (read ??= compileFields(fields, dialect));
      return guarded((reading) => known(message, json, reading));
    },
    get lists() {
      return (lists ??= compileLists(fields, dialect));
    },
  };
}

function compileLists(fields: readonly DescField[], dialect: JsonDialect): BodyDecoder["lists"] {
  return new Map(
    fields
      .filter(isList)
      .flatMap((field) => listNames(field, dialect).map((name) => [name, compileList(field, name, dialect)] as const)),
  );
}

/** Reads, and gives whether every digit was kept. */
function guarded(read: (reading: Reading) => void): boolean {
  const reading: Reading = { isInexact: false };
  try {
    read(reading);
  } catch (error) {
    throw error instanceof Misfit ? error.refusal() : error;
  }
  return !reading.isInexact;
}

function isList(field: DescField): boolean {
  return field.fieldKind === "list" && !getOption(field, jsonOption).orderedObject;
}

/** ProtoJSON takes a field by either of its names. */
function listNames(field: DescField, dialect: JsonDialect): readonly string[] {
  return dialect === "rest" || field.jsonName === field.name ? [field.name] : [field.jsonName, field.name];
}

function compileList(field: DescField, name: string, dialect: JsonDialect): ListReader {
  const kind = getJsonKind(field);
  const read = kind ? undefined : compileValue(field, dialect);
  const act = (from: number, read: (reading: Reading) => void): boolean =>
    guarded((reading) => {
      try {
        read(reading);
      } catch (error) {
        // Places are counted from the first element of the piece.
        if (error instanceof Misfit && typeof error.path[0] === "number") error.path[0] += from;
        throw error instanceof Misfit ? error.within(name) : error;
      }
    });
  return {
    add(message, json, from, texts, isExact = false) {
      let list: unknown[] = [];
      const isWhole = act(from, (reading) => {
        if (kind) checkJson(kind, json, reading);
        else list = read!(json, reading) as unknown[];
      });
      if (!isWhole && !isExact) return false;
      if (kind) for (const element of json) texts.push(JSON.stringify(element));
      else for (const item of list) ((message as Properties)[field.localName] as unknown[]).push(item);
      return true;
    },
    end(message, texts) {
      if (kind) setJsonElements(message, field.localName, texts);
    },
  };
}

function compileFields(fields: readonly DescField[], dialect: JsonDialect): ReadField {
  const readers = new Map(
    fields.flatMap((field) => {
      const read = compileField(field, dialect);
      return listNames(field, dialect).map((name) => [name, read] as const);
    }),
  );
  // In protobuf a scalar that is missing is empty, and a message's absence is looked for on both of its forms alike.
  const required = dialect === "rest" ? fields.filter(isRequired) : [];
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
      const isMissing = given === undefined || (given === null && getJsonKind(field) !== "value");
      if (isMissing) throw new Misfit("is required").within(field.name);
    }
  };
}

/** `null` is absence, but for a field of any JSON, where it is a value. */
function compileField(field: DescField, dialect: JsonDialect): ReadField {
  const kind = getJsonKind(field);
  const name = field.localName;
  const readJson = kind && compileJson(name, kind);
  if (kind === "value") return readJson!;
  if (readJson) return (message, json, reading) => void (json === null || readJson(message, json, reading));
  const readValue = compileValue(field, dialect);
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
  return (message, json, reading) => {
    checkJson(kind, json, reading);
    setJson(message, name, JSON.stringify(json));
  };
}

function checkJson(kind: JsonKind, json: unknown, reading: Reading): void {
  const { what, fits } = jsonShapes[kind];
  if (!fits(json)) throw new Misfit(`must be ${what}`);
  const finding = inspectJson(json, limits.jsonDepthMax);
  if (finding === "too_deep") throw new Misfit(`is nested deeper than ${limits.jsonDepthMax} levels`);
  if (finding === "large_number") reading.isInexact = true;
}

function compileValue(field: DescField, dialect: JsonDialect): ReadValue {
  const options = getOption(field, jsonOption);
  const isRest = dialect === "rest";
  switch (field.fieldKind) {
    case "scalar":
      return options.acceptNumber ? numberOrText : compileDialectScalar(field.scalar, dialect);
    case "message":
      if (!options.bareList) return compileMessage(field.message, dialect);
      return isRest ? compileBareList(field.message, dialect) : compileWrappedList(field.message);
    case "list":
      if (options.orderedObject && isRest) return compileOrderedObject(field);
      return field.listKind === "message"
        ? compileListReader(compileMessage(field.message, dialect))
        : compileScalarList(field, dialect);
    case "enum":
    case "map":
      assert(false, `no request holds an enum or a map: ${String(field)}`);
  }
}

function compileDialectScalar(type: ScalarType, dialect: JsonDialect): ReadValue {
  return dialect === "rest" ? compileScalar(type) : compileProtoScalar(type);
}

function compileMessage(type: DescMessage, dialect: JsonDialect): ReadValue {
  let read: ReadField | undefined;
  return (json, reading) => {
    // On first use, so that a type may hold itself.
    read ??= compileFields(type.fields.filter(isTaken), dialect);
    const message = create(type);
    read(message, json, reading);
    return message;
  };
}

/** Raw bytes may say more of themselves than their type, which is not used. */
function isTaken(field: DescField): boolean {
  return field.message?.typeName !== "google.protobuf.Any";
}

/** A message of one repeated field, written as that field's array. */
function compileBareList(type: DescMessage, dialect: JsonDialect): ReadValue {
  const [list] = type.fields;
  assert(list?.fieldKind === "list" && type.fields.length === 1, `${type.typeName} is not a wrapper of one list`);
  const read = compileValue(list, dialect);
  const name = list.localName;
  return (json, reading) => {
    const message = create(type) as Properties;
    message[name] = read(json, reading);
    return message;
  };
}

/** The same as ProtoJSON writes it. Who knows REST tries the array, so the refusal shows the form. */
function compileWrappedList(type: DescMessage): ReadValue {
  const read = compileMessage(type, "proto");
  const [list] = type.fields;
  return (json, reading) => {
    if (!isObject(json)) throw new Misfit(`must be an object that holds the array, {"${list!.jsonName}": […]}`);
    return read(json, reading);
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

function compileScalarList(field: DescField & { fieldKind: "list" }, dialect: JsonDialect): ReadValue {
  assert(field.listKind === "scalar", `no request holds a list of enums: ${String(field)}`);
  const isFloating = field.scalar === ScalarType.FLOAT || field.scalar === ScalarType.DOUBLE;
  return isFloating
    ? compileNumberList(field.scalar, dialect)
    : compileListReader(compileDialectScalar(field.scalar, dialect));
}

function compileListReader(read: ReadValue): ReadValue {
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
function compileNumberList(type: ScalarType, dialect: JsonDialect): ReadValue {
  const read = compileDialectScalar(type, dialect);
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
