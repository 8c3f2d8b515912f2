/**
 * JSON Schemas of the messages as they look in the REST JSON, for the OpenAPI document.
 *
 * Owns the translation of a descriptor with our `json` options to a schema (OpenAPI 3.1 uses JSON Schema 2020-12). The
 * descriptions are the comments of the proto files. It knows nothing of routes.
 */
import { type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { comments } from "../../../gen/comments.ts";
import { json } from "../../../gen/palimpsest/v1/options_pb.ts";
import { floatMax } from "../wire/json-scalars.ts";
import { assert } from "../../base/faults/assert.ts";
import { isRequired } from "../../service/call/constraints.ts";
import { endpoints } from "../../service/call/methods.ts";
import { choiceKeywords, constrain, needsWords, sayConstraint, type Schema } from "./openapi-constraints.ts";

/** Messages whose JSON form is any JSON of a kind. */
const jsonMessages: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  ["google.protobuf.Value", {}],
  ["google.protobuf.Struct", { type: "object" }],
  ["google.protobuf.ListValue", { type: "array", items: {} }],
]);

/** The comment of a declaration in the proto files. */
export function getComment(fullName: string): string {
  const comment = comments[fullName];
  assert(comment !== undefined, `${fullName} has no comment`);
  return comment;
}

/** Collects the schemas of messages under their names, each once. */
export class SchemaCollection {
  readonly schemas: Record<string, Schema> = {};

  /** A reference to the message's schema, which is added with all that it refers to. */
  refer(message: DescMessage): Schema {
    if (!(message.name in this.schemas)) {
      this.schemas[message.name] = {}; // Stands in, so that a message that holds itself ends.
      this.schemas[message.name] = this.object(message, message.fields);
    }
    return { $ref: `#/components/schemas/${message.name}` };
  }

  /** A reference to a request's schema made of those of its fields that come from the body. */
  referBody(message: DescMessage, bodyFields: readonly DescField[]): Schema {
    this.schemas[message.name] = this.object(message, bodyFields);
    return { $ref: `#/components/schemas/${message.name}` };
  }

  /** The schema of one field, with its description. */
  field(field: DescField): Schema {
    const options = getOption(field, json);
    const defaultValue = options.defaultNumber === undefined ? {} : { default: Number(options.defaultNumber) };
    const schema = options.nullWhenAbsent ? orNull(this.bareField(field)) : this.bareField(field);
    return { ...schema, ...defaultValue, description: describeField(field) };
  }

  private object(message: DescMessage, fields: readonly DescField[]): Schema {
    const isInput = requestMessages.has(message.typeName);
    const required = fields.filter(isInput ? isRequired : isAlwaysWritten).map((field) => field.name);
    return {
      type: "object",
      description: getComment(message.typeName),
      properties: Object.fromEntries(
        fields.map((field) => [field.name, isInput ? this.inputField(field) : this.field(field)]),
      ),
      ...(required.length > 0 ? { required } : {}),
      ...(isInput && { additionalProperties: false, ...choiceKeywords(message) }),
    };
  }

  /** A field of a request's object: null is as good as absent. */
  private inputField(field: DescField): Schema {
    const { description, ...schema } = this.field(field);
    return isRequired(field) ? { ...schema, description } : { ...orNull(schema), description };
  }

  private bareField(field: DescField): Schema {
    return constrain(field, this.plainField(field));
  }

  private plainField(field: DescField): Schema {
    const options = getOption(field, json);
    switch (field.fieldKind) {
      case "scalar":
        return options.acceptNumber
          ? { type: [scalarSchema(field.scalar).type, "number"] }
          : scalarSchema(field.scalar);
      case "message":
        if (options.objectOrNull) return { type: ["object", "null"] };
        return options.bareList ? this.bareList(field.message) : this.message(field.message);
      case "list":
        assert(field.listKind !== "enum", `${field.name} is a list of enum values`);
        if (options.orderedObject) return this.orderedObject(field.message);
        return {
          type: "array",
          items: field.listKind === "scalar" ? scalarSchema(field.scalar) : this.message(field.message),
        };
      case "map":
        assert(field.mapKind !== "enum", `${field.name} is a map to enum values`);
        return {
          type: "object",
          additionalProperties: field.mapKind === "scalar" ? scalarSchema(field.scalar) : this.message(field.message),
        };
      default:
        assert(false, `${field.name} is an enum, which the REST JSON has no form for`);
    }
  }

  private message(message: DescMessage): Schema {
    return jsonMessages.get(message.typeName) ?? this.refer(message);
  }

  private bareList(wrapper: DescMessage): Schema {
    const [list] = wrapper.fields;
    assert(list !== undefined && wrapper.fields.length === 1, `${wrapper.name} wraps more than a list`);
    return this.bareField(list);
  }

  private orderedObject(entry: DescMessage | undefined): Schema {
    const value = entry?.fields[1];
    assert(value !== undefined, "an ordered object's entry has no second field");
    return { type: "object", additionalProperties: this.bareField(value) };
  }
}

/** Whether an answer always carries the field: `optional` marks those that may be left out. */
function isAlwaysWritten(field: DescField): boolean {
  return !field.proto.proto3Optional || getOption(field, json).nullWhenAbsent;
}

function formatFieldName(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`;
}

/** The comment of a field, and what is allowed of it where no keyword of the schema says so, or only a pattern. */
function describeField(field: DescField): string {
  const comment = getComment(formatFieldName(field));
  const allowed = needsWords(field) ? sayConstraint(field) : undefined;
  return allowed === undefined ? comment : `${comment} ${allowed}`;
}

function orNull(schema: Schema): Schema {
  const { type } = schema;
  const isOpen = type === undefined && !("$ref" in schema) && !("anyOf" in schema);
  if (isOpen) return schema;
  if (type === undefined || "enum" in schema || "anyOf" in schema) return { oneOf: [schema, { type: "null" }] };
  return { ...schema, type: [type, "null"].flat() };
}

/** The messages that requests are made of, by their full names. */
const requestMessages: ReadonlySet<string> = listRequestMessages();

function listRequestMessages(): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (message: DescMessage): void => {
    if (found.has(message.typeName) || !message.typeName.startsWith("palimpsest.")) return;
    found.add(message.typeName);
    for (const field of message.fields) if (field.message) visit(field.message);
  };
  for (const { method } of endpoints) visit(method.input);
  return found;
}

function scalarSchema(scalar: ScalarType): Schema {
  switch (scalar) {
    case ScalarType.STRING:
      return { type: "string" };
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
      return { type: "integer", format: "int32", minimum: -(2 ** 31), maximum: 2 ** 31 - 1 };
    case ScalarType.UINT32:
      return { type: "integer", minimum: 0, maximum: 0xffff_ffff };
    case ScalarType.INT64:
      return { type: "integer", format: "int64" };
    case ScalarType.FLOAT:
      return { type: "number", format: "float", minimum: -floatMax, maximum: floatMax };
    case ScalarType.DOUBLE:
      return { type: "number", format: "double" };
    case ScalarType.BYTES:
      return { type: "string", contentEncoding: "base64" };
    default:
      assert(false, `the REST JSON has no form for scalar ${scalar}`);
  }
}
