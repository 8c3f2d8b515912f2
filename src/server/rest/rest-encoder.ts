/**
 * From a response message to the JSON text of REST.
 *
 * Compiled once from the descriptors into closures. Always true: names are the proto files' own (snake_case), 64-bit
 * integers are JSON numbers, lists are never absent, an absent optional field is left out or `null` as its option says,
 * and a field of any JSON is its exact text.
 */
import { type DescField, type DescMessage, getOption, type Message, ScalarType } from "@bufbuild/protobuf";
import { json as jsonOption } from "../../../gen/palimpsest/v1/options_pb.ts";
import { assert } from "../../base/faults/assert.ts";
import { getJsonKind, jsonText } from "../../service/call/exact-json.ts";

/** Writes a message as JSON text. */
export type WriteMessage = (message: Message) => string;
/** Writes a value that is present. */
type WriteValue = (value: unknown) => string;
/** Writes a field with its name, or nothing where it is left out. */
type WriteField = (message: Message) => string;
type Properties = Message & Record<string, unknown>;

const compiled = new Map<string, WriteMessage>();

/** Compiles the writer of a message type; the same type gives the same writer. */
export function compileWriter(type: DescMessage): WriteMessage {
  const known = compiled.get(type.typeName);
  if (known) return known;
  let fields: readonly WriteField[] | undefined;
  const write: WriteMessage = (message) => {
    // On first use, so that a type may hold itself.
    fields ??= type.fields.map(compileField);
    let members = "";
    for (let i = 0; i < fields.length; i++) {
      const member = fields[i]!(message);
      if (member !== "") members += members === "" ? member : `,${member}`;
    }
    return `{${members}}`;
  };
  compiled.set(type.typeName, write);
  return write;
}

function compileField(field: DescField): WriteField {
  const name = field.localName;
  const key = `${JSON.stringify(field.name)}:`;
  const options = getOption(field, jsonOption);
  const absent = options.nullWhenAbsent ? `${key}null` : "";
  if (getJsonKind(field) !== undefined) {
    return (message) => {
      const text = jsonText(message, name);
      return text === undefined ? absent : key + text;
    };
  }
  const write = compileValue(field);
  return (message) => {
    const value = (message as Properties)[name];
    return value === undefined ? absent : key + write(value);
  };
}

function compileValue(field: DescField): WriteValue {
  const options = getOption(field, jsonOption);
  switch (field.fieldKind) {
    case "scalar":
      return compileScalar(field.scalar);
    case "message":
      return options.bareList ? compileBareList(field.message) : (compileWriter(field.message) as WriteValue);
    case "list": {
      assert(!options.orderedObject && field.listKind !== "enum", `no response holds this list: ${String(field)}`);
      return compileList(
        field.listKind === "message" ? (compileWriter(field.message) as WriteValue) : compileScalar(field.scalar),
      );
    }
    case "map": {
      assert(field.mapKind === "scalar", `no response holds this map: ${String(field)}`);
      return compileMap(compileScalar(field.scalar));
    }
    case "enum":
      return assert(false, `no response holds an enum: ${String(field)}`) as never;
  }
}

/** A message of one repeated field, written as that field's array. */
function compileBareList(type: DescMessage): WriteValue {
  const [list] = type.fields;
  assert(list?.fieldKind === "list" && type.fields.length === 1, `${type.typeName} is not a wrapper of one list`);
  const write = compileValue(list);
  return (message) => write((message as Properties)[list.localName]);
}

function compileList(write: WriteValue): WriteValue {
  return (value) => {
    const list = value as readonly unknown[];
    let items = "";
    for (let i = 0; i < list.length; i++) items += i === 0 ? write(list[i]) : `,${write(list[i])}`;
    return `[${items}]`;
  };
}

function compileMap(write: WriteValue): WriteValue {
  return (value) => {
    const members = Object.entries(value as object).map(([key, item]) => `${JSON.stringify(key)}:${write(item)}`);
    return `{${members.join(",")}}`;
  };
}

function compileScalar(type: ScalarType): WriteValue {
  switch (type) {
    case ScalarType.STRING:
      return (value) => JSON.stringify(value);
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      return (value) => {
        assert(Number.isFinite(value), "a number in a response is finite");
        return String(value);
      };
    case ScalarType.BOOL:
    case ScalarType.INT32:
    case ScalarType.UINT32:
    case ScalarType.INT64:
      return String;
    case ScalarType.BYTES:
      return (value) => {
        const { buffer, byteOffset, byteLength } = value as Uint8Array;
        return `"${Buffer.from(buffer, byteOffset, byteLength).toString("base64")}"`;
      };
    default:
      return assert(false, `no response holds a scalar of type ${type}`) as never;
  }
}
