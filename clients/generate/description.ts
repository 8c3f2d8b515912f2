/**
 * The OpenAPI document of this build as the generators of the clients read it: operations and named objects.
 *
 * Always true: everything comes from the document that a node serves, so that a client knows what a node says of itself
 * and nothing else. Must not know: any language.
 */
import { MethodOptions_IdempotencyLevel as IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { openapiDocument } from "../../src/server/rest/openapi.ts";
import { allEndpoints } from "../../src/service/call/methods.ts";

/** What a value is, as far as the document says: one of the few forms that our schemas have. */
export type Form =
  | { readonly kind: "any" }
  | { readonly kind: "object" }
  | { readonly kind: "string"; readonly values: readonly string[] }
  | { readonly kind: "integer" | "number" | "boolean" | "null" }
  | { readonly kind: "list"; readonly of: Form }
  | { readonly kind: "map"; readonly of: Form }
  | { readonly kind: "named"; readonly name: string }
  | { readonly kind: "either"; readonly of: readonly Form[] };

export interface Field {
  /** On the wire: snake_case. */
  readonly name: string;
  readonly form: Form;
  readonly isRequired: boolean;
  readonly about: string;
}

/** An object that has a name. */
export interface Named {
  readonly name: string;
  readonly about: string;
  readonly fields: readonly Field[];
}

export interface Operation {
  /** Such as `listMemories`. */
  readonly id: string;
  readonly method: string;
  /** Such as `/v1/db/{db}/sql`. */
  readonly path: string;
  /** Names of the query parameters. */
  readonly query: readonly Field[];
  readonly body: "json" | "raw" | "none";
  /** What a success brings; `events`: a stream of server-sent events; `stream`: bytes as they come. */
  readonly answer: "json" | "raw" | "none" | "events";
  /** The names of the request's and the answer's objects, where they have one. */
  readonly input: string | undefined;
  readonly output: string | undefined;
  readonly about: string;
  /** Whether it reads a branch and tells its transaction id, whether it only reads, and whether it takes a key. */
  readonly tellsTxid: boolean;
  readonly reads: boolean;
  readonly takesKey: boolean;
  /** Whether done twice it leaves what done once leaves. */
  readonly isIdempotent: boolean;
}

export interface Description {
  readonly operations: readonly Operation[];
  readonly named: readonly Named[];
  readonly errorCodes: readonly string[];
}

type Json = { readonly [member: string]: any };

const idempotent: ReadonlySet<string> = new Set(
  allEndpoints
    .filter(({ method, httpMethod }) => method.idempotency === IdempotencyLevel.IDEMPOTENT || httpMethod === "DELETE")
    .map(({ method }) => method.localName),
);

/** Reads the document of this build. Throws on a form that no generator knows. */
export function readDescription(): Description {
  const document = openapiDocument(allEndpoints) as Json;
  const { schemas } = document["components"] as Json;
  const operations = Object.entries(document["paths"] as Json).flatMap(([path, methods]) =>
    Object.entries(methods as Json).map(([method, operation]) => readOperation(path, method.toUpperCase(), operation)),
  );
  const named = Object.entries(schemas as Json)
    .filter(([name]) => name !== "Error")
    .map(([name, schema]) => ({ name, about: schema.description ?? "", fields: readFields(schema) }));
  return { operations, named, errorCodes: schemas["Error"].properties.code.enum };
}

function readOperation(path: string, method: string, operation: Json): Operation {
  const parameters = (operation["parameters"] ?? []) as readonly Json[];
  const headers = parameters.flatMap(({ $ref }) => ($ref === undefined ? [] : [String($ref).split("/").at(-1)]));
  const success = Object.entries(operation["responses"] as Json).find(([status]) => status.startsWith("2"))![1] as Json;
  const content = (success["content"] ?? {}) as Json;
  const [answerType] = Object.keys(content);
  const request = operation["requestBody"]?.content as Json | undefined;
  const nameOf = (media: Json | undefined): string | undefined =>
    media?.["schema"]?.$ref === undefined ? undefined : String(media["schema"].$ref).split("/").at(-1);
  return {
    id: operation["operationId"],
    method,
    path,
    query: parameters
      .filter((parameter) => parameter["in"] === "query")
      .map((parameter) => ({
        name: parameter["name"],
        form: readForm(parameter["schema"]),
        isRequired: parameter["required"] === true,
        about: parameter["description"] ?? "",
      })),
    body: request === undefined ? "none" : "application/json" in request ? "json" : "raw",
    answer: readAnswer(answerType),
    input: nameOf(request?.["application/json"]),
    output: nameOf(content["application/json"] ?? dataOfEvents(content["text/event-stream"])),
    about: operation["description"] ?? "",
    tellsTxid: headers.includes("Service-Min-Txid"),
    reads: !headers.includes("Service-Durability") && headers.includes("Service-Min-Txid"),
    takesKey: headers.includes("Idempotency-Key"),
    isIdempotent: idempotent.has(operation["operationId"]),
  };
}

/** What the events of a stream carry as their data, but for the refusal that may end it. */
function dataOfEvents(media: Json | undefined): Json | undefined {
  return media && { schema: media["schema"]?.properties.data.contentSchema.anyOf[0] };
}

function readAnswer(type: string | undefined): Operation["answer"] {
  if (type === undefined) return "none";
  if (type === "text/event-stream") return "events";
  return type === "application/json" ? "json" : "raw";
}

function readFields({ properties = {}, required = [] }: Json): readonly Field[] {
  return Object.entries(properties as Json).map(([name, schema]) => ({
    name,
    form: readForm(schema),
    isRequired: required.includes(name),
    about: schema.description ?? "",
  }));
}

function readForm(schema: Json): Form {
  if (schema["$ref"] !== undefined) return { kind: "named", name: String(schema["$ref"]).split("/").at(-1)! };
  const either = (schema["oneOf"] ?? schema["anyOf"]) as readonly Json[] | undefined;
  if (either !== undefined) return { kind: "either", of: either.map(readForm) };
  const { type } = schema;
  if (type === undefined) return schema["enum"] === undefined ? { kind: "any" } : readType("string", schema);
  if (Array.isArray(type)) return { kind: "either", of: type.map((one: string) => readType(one, schema)) };
  return readType(type, schema);
}

function readType(type: string, schema: Json): Form {
  switch (type) {
    case "string":
      return { kind: "string", values: (schema["enum"] ?? []).filter((value: unknown) => typeof value === "string") };
    case "integer":
    case "number":
    case "boolean":
    case "null":
      return { kind: type };
    case "array":
      return { kind: "list", of: readForm(schema["items"] ?? {}) };
    case "object":
      return typeof schema["additionalProperties"] === "object"
        ? { kind: "map", of: readForm(schema["additionalProperties"]) }
        : { kind: "object" };
    default:
      throw new Error(`no generator knows the type ${type}`);
  }
}
