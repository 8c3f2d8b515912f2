/**
 * The OpenAPI 3.1 document, made from the same endpoint table that the router and the gRPC door read.
 *
 * Always true: every endpoint of the table is in it, and nothing else but the routes of `plainRoutes`. Node-internal
 * services are not in the table and so never here.
 */
import type { DescField } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { isTaggedRead, takesIfMatch, takesIfNoneMatch } from "../../service/call/conditions.ts";
import { errorCodes, type ErrorCode } from "../../base/faults/errors.ts";
import { type AnyEndpoint, Credential, isStream, pathTemplate, scopeNames, Scope } from "../../service/call/methods.ts";
import { isRequired } from "../../service/call/constraints.ts";
import { atQuery, headerParameters, responseHeaders } from "./openapi-headers.ts";
import { bodyExample, pathExample } from "./openapi-examples.ts";
import type { Schema } from "./openapi-constraints.ts";
import { getComment, SchemaCollection } from "./openapi-schema.ts";

type Json = { readonly [member: string]: unknown };

/** The version that the interface description carries (spec: Versioning). */
const interfaceVersion = "0.1.0";
const rawBody = "google.api.HttpBody";

const about = `An agent-memory database: typed memories with hybrid recall, and a SQL, document, key-value, vector and \
transcript store, in one SQLite file per branch.

On a per-database address (\`{db}.{suffix}\` as the host) the routes under \`/v1/db/{db}\` appear without that \
prefix, as \`/v1/sql\`; the branch is then given in the \`Service-Branch\` header.

The same methods answer on the same port over gRPC, gRPC-Web and Connect. Times are Unix milliseconds. 64-bit integers \
are JSON numbers. Where authentication is off no credential is needed.`;

/** The document as a plain object, ready to be written as JSON. */
export function openapiDocument(endpoints: readonly AnyEndpoint[]): Json {
  const schemas = new SchemaCollection();
  const paths: Record<string, Record<string, Json>> = {};
  for (const [path, operation] of Object.entries(plainRoutes)) paths[path] = { get: operation };
  for (const endpoint of endpoints) {
    const operations = (paths[pathTemplate(endpoint.segments)] ??= {});
    operations[endpoint.httpMethod.toLowerCase()] = describeOperation(endpoint, schemas);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Palimpsest",
      version: interfaceVersion,
      description: about,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/", description: "The node that gives this document." }],
    tags: [
      ...[...new Set(endpoints.map((endpoint) => endpoint.method.parent))].map((service) => ({
        name: toTag(service.name),
        description: getComment(service.typeName),
      })),
      { name: "Node", description: "What a node tells of itself." },
    ],
    paths,
    components: {
      schemas: { ...schemas.schemas, Error: errorSchema },
      parameters: headerParameters,
      headers: responseHeaders,
      securitySchemes,
    },
  };
}

/** The routes that are no methods, all GET: served beside the table. */
export const plainRoutes: { readonly [path: string]: Json } = {
  "/health": plainRoute("health", "Says that the process answers.", [], {
    200: { description: "The process answers.", content: { "text/plain": { schema: { const: "ok" } } } },
  }),
  "/health/ready": plainRoute("ready", "Says whether the node can serve now.", [{ platformKey: [] }], {
    200: { description: "The node can serve.", content: readiness() },
    503: { description: "The node cannot serve now; `checks` says why.", content: readiness() },
  }),
  "/openapi.json": plainRoute("openapi", "Gives this document.", [{ platformKey: [] }], {
    200: { description: "The document.", content: { "application/json": { schema: { type: "object" } } } },
  }),
  "/llms.txt": plainRoute("llms", "Gives the list of the documents for models, in the form of llmstxt.org.", [], {
    200: { description: "The list, as Markdown.", content: { "text/plain": { schema: { type: "string" } } } },
  }),
  "/.well-known/jwks.json": plainRoute(
    "jwks",
    "Gives the public keys, so that tokens and erasure receipts can be checked offline.",
    [],
    {
      200: { description: "The keys.", content: { "application/json": { schema: keySetSchema() } } },
    },
  ),
};

function plainRoute(operationId: string, description: string, security: readonly Json[], responses: Json): Json {
  const refusals = security.length > 0 ? { 401: refusal(["unauthorized"]), 403: refusal(["forbidden"]) } : {};
  const summary = summarize(description);
  return { operationId, tags: ["Node"], summary, description, security, responses: { ...responses, ...refusals } };
}

/** The first sentence of a comment, as a title. */
function summarize(comment: string): string {
  return comment.split(/[.:;](?=\s|$)/, 1)[0]!.replaceAll(/\s+/g, " ");
}

function readiness(): Json {
  const checks = { type: "object", additionalProperties: { type: "string" } };
  return {
    "application/json": {
      schema: { type: "object", properties: { ready: { type: "boolean" }, checks }, required: ["ready", "checks"] },
    },
  };
}

function keySetSchema(): Schema {
  return { type: "object", properties: { keys: { type: "array", items: { type: "object" } } }, required: ["keys"] };
}

function describeOperation(endpoint: AnyEndpoint, schemas: SchemaCollection): Json {
  const { method } = endpoint;
  const description = getComment(`${method.parent.typeName}.${method.name}`);
  return {
    operationId: method.localName,
    tags: [toTag(method.parent.name)],
    summary: summarize(description),
    description,
    security: describeSecurity(endpoint),
    parameters: describeParameters(endpoint, schemas),
    ...(endpoint.bodyField === undefined ? {} : { requestBody: describeRequestBody(endpoint, schemas) }),
    responses: {
      [endpoint.rule.status]: describeSuccess(endpoint, schemas),
      ...(isTaggedRead(endpoint) && {
        304: { description: "`If-None-Match` names what is there.", ...headersBlock(["ETag"]) },
      }),
      ...describeRefusals(endpoint),
    },
  };
}

function toTag(serviceName: string): string {
  return serviceName.replace(/Service$/, "");
}

function describeSecurity(endpoint: AnyEndpoint): readonly Json[] {
  const { credential, scope } = endpoint.rule;
  const role = scopeNames.get(scope);
  const roles = role === undefined ? [] : [role];
  switch (credential) {
    case Credential.PLATFORM:
      return [{ platformKey: [] }];
    case Credential.NAMESPACE:
      return [{ namespaceToken: roles }];
    case Credential.DATABASE:
      return [{ databaseToken: roles }, { namespaceToken: roles }];
    case Credential.PLATFORM_OR_NAMESPACE_ADMIN:
      return [{ platformKey: [] }, { namespaceToken: roles }];
    default:
      return [];
  }
}

function describeParameters(endpoint: AnyEndpoint, schemas: SchemaCollection): readonly Json[] {
  const fromPath = endpoint.segments.flatMap((segment) =>
    segment.kind === "field"
      ? [{ ...parameter("path", segment.field, schemas), ...pathExample(segment.field, endpoint) }]
      : [],
  );
  const fromQuery = endpoint.queryFields.map((field) => parameter("query", field, schemas));
  return [
    ...fromPath,
    ...fromQuery,
    ...(endpoint.rule.at ? [atQuery] : []),
    ...listHeaderNames(endpoint).map((name) => ({ $ref: `#/components/parameters/${name}` })),
  ];
}

function parameter(place: "path" | "query", field: DescField, schemas: SchemaCollection): Json {
  const { description, ...schema } = schemas.field(field);
  return { name: field.name, in: place, required: place === "path" || isRequired(field), description, schema };
}

function listHeaderNames(endpoint: AnyEndpoint): readonly (keyof typeof headerParameters)[] {
  if (!endpoint.rule.txid) return [];
  const durability = mayWrite(endpoint) ? (["Service-Durability"] as const) : [];
  const repeatable = endpoint.rule.idempotencyKey ? (["Idempotency-Key"] as const) : [];
  return [
    // Where the path names the branch, the header could only repeat it.
    ...(takesBranchInPath(endpoint) ? [] : (["Service-Branch"] as const)),
    "Service-Min-Txid",
    "Service-Consistency",
    ...(endpoint.rule.at ? (["Service-At"] as const) : []),
    ...durability,
    ...repeatable,
    ...(takesIfMatch(endpoint) ? (["If-Match"] as const) : []),
    ...(takesIfNoneMatch(endpoint) ? (["If-None-Match.write"] as const) : []),
    ...(isTaggedRead(endpoint) ? (["If-None-Match"] as const) : []),
  ];
}

function takesBranchInPath({ segments }: AnyEndpoint): boolean {
  return segments.some((segment) => segment.kind === "field" && segment.field.name === "branch");
}

function mayWrite(endpoint: AnyEndpoint): boolean {
  return endpoint.method.idempotency !== IdempotencyLevel.NO_SIDE_EFFECTS;
}

function describeRequestBody(endpoint: AnyEndpoint, schemas: SchemaCollection): Json {
  const { bodyFields, bodyField, method, rule } = endpoint;
  const required = bodyFields.some(isRequired);
  if (bodyField === "*")
    return {
      required,
      content: {
        "application/json": { schema: schemas.referBody(method.input, bodyFields), ...bodyExample(endpoint) },
      },
    };
  return { required, description: "The raw value.", content: { [rule.rawType || "*/*"]: { schema: {} } } };
}

function describeSuccess(endpoint: AnyEndpoint, schemas: SchemaCollection): Json {
  const { method, rule } = endpoint;
  const headers = [
    ...(rule.txid ? ["Service-Txid", "Service-Durable-Txid"] : []),
    ...(rule.idempotencyKey ? ["Idempotency-Replayed"] : []),
    ...(rule.entityTag ? ["ETag"] : []),
    ...rule.headers,
    ...(rule.scope === Scope.WRITE && method.output.fields.some((field) => field.name === "erasure_id")
      ? ["Service-Erasure-Id"]
      : []),
  ];
  return {
    description: rule.status === 204 ? "Done." : describeOutput(endpoint),
    ...headersBlock(headers),
    ...(rule.status === 204 ? {} : { content: successContent(endpoint, schemas) }),
  };
}

function describeOutput(endpoint: AnyEndpoint): string {
  return isRaw(endpoint) ? "The raw value." : getComment(endpoint.method.output.typeName);
}

function successContent(endpoint: AnyEndpoint, schemas: SchemaCollection): Json {
  if (isRaw(endpoint)) return { [endpoint.rule.rawType || "text/plain"]: { schema: {} } };
  const schema = schemas.refer(endpoint.method.output);
  return isStream(endpoint)
    ? { "text/event-stream": { schema: describeEvent(schema) } }
    : { "application/json": { schema } };
}

/** What each event of a stream is: a message, or what the stream ended with. */
function describeEvent(message: Schema): Schema {
  const data = { anyOf: [message, { $ref: "#/components/schemas/Error" }] };
  return {
    type: "object",
    description: "An event. One without an `id` is named `error`, has the envelope of a refusal, and is the last.",
    properties: {
      id: { type: "string" },
      event: { type: "string" },
      data: { type: "string", contentMediaType: "application/json", contentSchema: data },
    },
    required: ["event", "data"],
  };
}

function isRaw(endpoint: AnyEndpoint): boolean {
  return endpoint.method.output.typeName === rawBody;
}

function headersBlock(names: readonly string[]): Json {
  if (names.length === 0) return {};
  return { headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])) };
}

/** The error responses of an endpoint, by HTTP status. */
function describeRefusals(endpoint: AnyEndpoint): Json {
  const byStatus = new Map<number, ErrorCode[]>();
  const add = (status: number, code: ErrorCode) => byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  for (const code of listErrorCodes(endpoint)) add(errorCodes[code].http, code);
  const { bodyField, rule } = endpoint;
  const isOfOneType = bodyField === "*" || (bodyField !== undefined && rule.rawType !== "");
  if (isOfOneType) add(unsupportedMediaType, "invalid_request");
  if (mayBeUnmet(endpoint)) add(preconditionFailed, "conflict");
  return Object.fromEntries([...byStatus].map(([status, codes]) => [status, refusal(codes)]));
}

/** Whether the call can be made to depend on what is there: as a whole, or each item of a list for itself. */
function mayBeUnmet(endpoint: AnyEndpoint): boolean {
  const items = endpoint.method.input.fields.flatMap(({ message }) => message?.fields ?? []);
  return takesIfMatch(endpoint) || takesIfNoneMatch(endpoint) || items.some(({ name }) => name === "if_match");
}

const unsupportedMediaType = 415;
const preconditionFailed = 412;

/**
 * The error codes that an endpoint may answer: those of every call, those that its place in the table brings, and its
 * own.
 */
export function listErrorCodes(endpoint: AnyEndpoint): readonly ErrorCode[] {
  const { rule } = endpoint;
  const namesDatabase =
    rule.txid || endpoint.segments.some((segment) => segment.kind === "field" && segment.field.name === "db");
  const codes: ErrorCode[] = ["invalid_request", "request_timeout", "overloaded", "internal", "unavailable"];
  if (rule.credential !== Credential.NONE) codes.push("unauthorized", "forbidden");
  if (endpoint.bodyField !== undefined) codes.push("payload_too_large");
  if (namesDatabase) codes.push("database_not_found");
  if (rule.txid) codes.push("branch_not_found", "conflict");
  if (rule.at) codes.push("not_found");
  return [...new Set([...codes, ...(rule.errors as ErrorCode[])])];
}

function refusal(codes: readonly ErrorCode[]): Json {
  const headers = [
    ...(codes.some((code) => code === "overloaded" || code === "unavailable") ? ["Retry-After"] : []),
    ...(codes.includes("unauthorized") ? ["WWW-Authenticate"] : []),
  ];
  return {
    description: `Refused: ${codes.map((code) => `\`${code}\``).join(", ")}.`,
    ...headersBlock(headers),
    content: {
      "application/json": { schema: { $ref: "#/components/schemas/Error", properties: { code: { enum: codes } } } },
    },
  };
}

const errorSchema: Schema = {
  type: "object",
  description: "Why a call was refused.",
  properties: {
    error: { type: "string", description: "What is wrong and what is allowed, for people." },
    code: { type: "string", enum: Object.keys(errorCodes), description: "The stable code, for programs." },
  },
  required: ["error", "code"],
};

const securitySchemes: Json = {
  platformKey: { type: "http", scheme: "bearer", description: "The platform key: the control plane." },
  databaseToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A token that covers one database.",
  },
  namespaceToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "A token that covers every profile of a namespace.",
  },
};
