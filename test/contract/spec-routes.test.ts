/**
 * The proto files say what the interface specification says: every row of its tables is a method with that path,
 * access, request, status and answer, and every method beyond them is listed here as an extension.
 */
import { type DescField, type DescMessage, getOption, ScalarType } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";
import { isRequired } from "../../src/service/call/constraints.ts";
import { plainRoutes } from "../../src/server/rest/openapi.ts";
import { Credential, type Endpoint, endpoints, pathTemplate, scopeNames } from "../../src/service/call/methods.ts";
import { answerRecords, inputRecords } from "./spec-records.ts";
import { agentMemory, controlPlane, type SpecField, type SpecRoute, substrate } from "./spec-tables.ts";

/** Methods that the specification does not have. */
const extensionRoutes = new Set([
  "PATCH /v1/memory/{ns}/{profile}/memories/{id}",
  "POST /v1/memory/{ns}/{profile}/context",
  "POST /v1/memory/{ns}/{profile}/review",
  "GET /v1/memory/{ns}/{profile}/history",
  "GET /v1/db/{db}/diff",
  "POST /v1/db/{db}/undo",
  "POST /v1/db/{db}/webhooks",
  "GET /v1/db/{db}/webhooks",
  "PATCH /v1/db/{db}/webhooks/{id}",
  "DELETE /v1/db/{db}/webhooks/{id}",
  "POST /v1/db/{db}/webhooks/{id}/test",
  "GET /v1/db/{db}/webhooks/{id}/failures",
  "POST /v1/db/{db}/webhooks/{id}/redeliver",
  "GET /v1/db/{db}/branches/{branch}/checkpoints",
  "DELETE /v1/db/{db}/branches/{branch}/checkpoint/{name}",
  "GET /v1/memory/{ns}/{profile}/memories",
  "POST /v1/memory/{ns}/{profile}/forget",
  "POST /v1/memory/{ns}/{profile}/reembed",
  "POST /v1/memory/{ns}/{profile}/calibrate",
  "DELETE /v1/databases/{db}/tokens/{jti}",
  "DELETE /v1/namespaces/{ns}/tokens/{jti}",
  "POST /v1/db/{db}/memory/{session}/turns/batch",
  "POST /v1/db/{db}/memory/{session}/turns/delete",
  "POST /v1/db/{db}/memory/{session}/turns/replace",
  "GET /v1/db/{db}/facets",
  "GET /v1/namespaces/{ns}/usage",
  "POST /v1/db/{db}/kv_batch/{ns}/get",
  "POST /v1/db/{db}/kv_batch/{ns}/put",
  "POST /v1/db/{db}/kv_batch/{ns}/delete",
  "POST /v1/db/{db}/vectors/{coll}/batch",
  "POST /v1/db/{db}/vectors/{coll}/delete",
  "GET /v1/db/{db}/vectors/{coll}",
  "GET /v1/db/{db}/vectors/{coll}/items/{id}",
  "DELETE /v1/db/{db}/vectors/{coll}/items/{id}",
  "PUT /v1/db/{db}/docs/{coll}/items/{id}",
  "GET /v1/db/{db}/docs/{coll}/items/{id}",
  "DELETE /v1/db/{db}/docs/{coll}/items/{id}",
  "GET /v1/db/{db}/docs",
  "POST /v1/db/{db}/docs/{coll}/count",
  "POST /v1/db/{db}/docs/{coll}/group",
  "GET /v1/db/{db}/docs/{coll}/indexes",
  "DELETE /v1/db/{db}/docs/{coll}/indexes/{path}",
  "PUT /v1/db/{db}/files/{path}",
  "GET /v1/db/{db}/files/{path}",
  "POST /v1/db/{db}/files/{path}/edit",
  "GET /v1/db/{db}/files",
  "POST /v1/db/{db}/files/{path}/move",
  "DELETE /v1/db/{db}/files/{path}",
  "GET /v1/db/{db}/files/{path}/versions",
  "POST /v1/db/{db}/file_search",
  "GET /v1/db/{db}/export",
  "POST /v1/db/{db}/import",
]);

/** Request fields that the specification does not have, all optional. */
const extensionFields: { readonly [place: string]: readonly string[] } = {
  "MemoryService.Recall": [
    "min_score",
    "search_turns",
    "explain",
    "filter",
    "since",
    "until",
    "prefer_session_id",
    "k_per_type",
    "include_completed",
    "valid_at",
    "include_invalid",
    "subject",
  ],
  "MemoryService.Ask": ["valid_at"],
  "MemoryService.CreateErasure": [
    "seq",
    "path",
    "kv_ns",
    "key",
    "collection",
    "doc_id",
    "vector_collection",
    "vector_id",
    "subject",
  ],
  "MemoryService.ListProfiles": ["prefix", "limit", "cursor", "order", "include"],
  "MemoryService.ListSessions": ["limit", "cursor", "include_turns"],
  "DataService.FindDocs": ["projection"],
  "DataService.UpdateDocs": ["upsert"],
  "DataService.ListTurns": ["order", "limit", "cursor", "from_seq", "to_seq", "role", "filter", "subject"],
  "DataService.AppendTurn": ["subject"],
  "DataService.InsertDocs": ["subject"],
  "MemoryService.Extract": ["status"],
  MemoryInput: ["metadata", "pinned", "status", "valid_from", "valid_until", "derived_from", "subject"],
  "DataService.ListKeys": ["cursor", "start", "end", "order", "include"],
  "DataService.PutValue": ["if_match", "if_absent", "subject"],
  "DataService.DeleteValue": ["if_match"],
  "DataService.UpsertVector": ["metadata", "metric", "subject"],
  "DataService.SearchVectors": ["filter", "metric", "id", "include_vectors", "include_metadata"],
  "BranchService.CreateBranch": ["at"],
};

/** Where a decision goes beyond the specification: what it says, and what we do. */
const settledAuth: { readonly [route: string]: { readonly from: string; readonly to: string } } = {
  // Its chapter on authentication lets namespace tokens mint per-profile tokens.
  "POST /v1/databases/{db}/tokens": { from: "P", to: "P or NS admin" },
};
/** Limits that the specification leaves out. */
const settledDefaults: { readonly [place: string]: number } = {
  "DataService.FindDocs.limit": 100,
  "DataService.FindDocs.skip": 0,
};

/** What the specification requires, and what may take its place. */
const settledRequired: { readonly [place: string]: string } = {
  "DataService.SearchVectors.vector": "id",
};

/**
 * The scopes of the routes under `/v1/db`: what reads needs read, what changes data write, what changes branches admin.
 */
const substrateScopes: { readonly [route: string]: "read" | "write" | "admin" } = {
  "POST /v1/db/{db}/memory/{session}/turns": "write",
  "GET /v1/db/{db}/memory/{session}/turns": "read",
  "POST /v1/db/{db}/memory/{session}/search": "read",
  "POST /v1/db/{db}/sql": "read", // write when a statement mutates
  "POST /v1/db/{db}/sync": "write",
  "GET /v1/db/{db}/kv/{ns}": "read",
  "GET /v1/db/{db}/kv/{ns}/{key}": "read",
  "PUT /v1/db/{db}/kv/{ns}/{key}": "write",
  "DELETE /v1/db/{db}/kv/{ns}/{key}": "write",
  "POST /v1/db/{db}/docs/{coll}/insert": "write",
  "POST /v1/db/{db}/docs/{coll}/find": "read",
  "POST /v1/db/{db}/docs/{coll}/update": "write",
  "POST /v1/db/{db}/docs/{coll}/delete": "write",
  "POST /v1/db/{db}/docs/{coll}/indexes": "write",
  "POST /v1/db/{db}/vectors/{coll}": "write",
  "POST /v1/db/{db}/vectors/{coll}/search": "read",
  "POST /v1/db/{db}/branches": "admin",
  "GET /v1/db/{db}/branches": "read",
  "DELETE /v1/db/{db}/branches/{branch}": "admin",
  "POST /v1/db/{db}/branches/{branch}/checkpoint": "admin",
  "POST /v1/db/{db}/branches/{branch}/rewind": "admin",
};

const rows: readonly SpecRoute[] = [
  ...controlPlane,
  ...agentMemory,
  ...substrate.map((row): SpecRoute => {
    const scope = substrateScopes[`${row.method} ${row.path}`];
    if (scope === undefined) throw new Error(`no scope for ${row.method} ${row.path}`);
    return { ...row, auth: "DB", scope };
  }),
];
const byRoute = new Map(
  endpoints.map((endpoint) => [`${endpoint.httpMethod} ${pathTemplate(endpoint.segments)}`, endpoint]),
);
const formatRoute = (row: SpecRoute) => `${row.method} ${row.path}`;

function endpointFor(row: SpecRoute): Endpoint {
  const endpoint = byRoute.get(formatRoute(row));
  if (!endpoint) throw new Error(`no method for ${formatRoute(row)}`);
  return endpoint;
}

describe("the specification's endpoint tables", () => {
  it("has a method for every row, and no method beyond but the listed extensions", () => {
    expect([...byRoute.keys()].toSorted()).toEqual([...rows.map(formatRoute), ...extensionRoutes].toSorted());
  });

  it("has GET /health beside the methods, without a credential", () => {
    expect(plainRoutes["/health"]).toMatchObject({ security: [] });
  });

  it.each(rows.map((row) => [formatRoute(row), row] as const))("%s: access, status and txid", (route, row) => {
    const { rule } = endpointFor(row);
    const settled = settledAuth[route];
    if (settled) expect(row.auth).toBe(settled.from);
    expect(describeAccess(rule.credential)).toBe(settled?.to ?? row.auth);
    if (row.scope) expect(scopeNames.get(rule.scope)).toBe(row.scope);
    expect(rule.status).toBe(row.status);
    // What is marked TX carries the header; so does whatever else touches a database.
    if (row.tx) expect(rule.txid).toBe(true);
    expect(rule.control).toBe(controlPlane.includes(row));
  });

  it.each(rows.map((row) => [formatRoute(row), row] as const))("%s: request", (_route, row) => {
    const { name, bodyFields, queryFields } = endpointFor(row);
    compareFields(name, row.fields, [...bodyFields, ...queryFields], extensionFields[name] ?? []);
  });

  it.each(rows.map((row) => [formatRoute(row), row] as const))("%s: answer", (_route, row) => {
    const { output } = endpointFor(row).method;
    if (row.answer === "raw") return expect(output.typeName).toBe("google.api.HttpBody");
    if (typeof row.answer === "string") return expect(output.name).toBe(row.answer);
    for (const [name, type] of Object.entries(row.answer ?? {})) expectAnswerField(output, name, type, true);
  });

  it("puts the parameters named `branch` of the memory routes in the query", () => {
    for (const row of agentMemory.filter((candidate) => "branch" in candidate.fields)) {
      expect(endpointFor(row).queryFields.map((field) => field.name)).toContain("branch");
    }
  });
});

describe("the specification's records", () => {
  it.each(Object.entries(inputRecords))("%s as sent", (record, fields) => {
    compareFields(record, fields, messageNamed(record).fields, extensionFields[record] ?? []);
  });

  it.each(Object.entries(answerRecords))("%s as answered", (record, fields) => {
    for (const [name, field] of Object.entries(fields)) {
      if (typeof field === "string") expectAnswerField(messageNamed(record), name, field, true);
      else expectAnswerField(messageNamed(record), name, field.type, false);
    }
  });
});

/** Compares fields both ways; those in `extensions` must be there too, and none of them required. */
function compareFields(
  place: string,
  specified: { readonly [name: string]: SpecField },
  fields: readonly DescField[],
  extensions: readonly string[],
) {
  expect(fields.map((field) => field.name).toSorted(), place).toEqual(
    [...Object.keys(specified), ...extensions].toSorted(),
  );
  for (const field of fields) {
    const row = specified[field.name];
    const at = `${place}.${field.name}`;
    const instead = settledRequired[at];
    if (instead !== undefined) expect(extensions).toContain(instead);
    expect(isRequired(field), `${at} required`).toBe(row !== undefined && row.required && instead === undefined);
    if (!row) continue;
    expect(accepted(row.type), `${at} type`).toContain(restType(field));
    const defaultValue = getOption(field, json).defaultNumber;
    const expected = typeof row.defaultValue === "number" ? row.defaultValue : settledDefaults[at];
    expect(defaultValue === undefined ? undefined : Number(defaultValue), `${at} default`).toBe(expected);
    // An absent boolean is false unless the field can tell absence.
    if (row.defaultValue === false) expect(field.proto.proto3Optional, `${at} default`).toBe(false);
  }
}

function expectAnswerField(message: DescMessage, name: string, type: string, always: boolean) {
  const field = message.fields.find((candidate) => candidate.name === name);
  const at = `${message.name}.${name}`;
  if (!field) throw new Error(`${at} is missing`);
  const orNull = type.endsWith(" or null");
  expect(accepted(orNull ? type.slice(0, -" or null".length) : type), `${at} type`).toContain(restType(field));
  expect(getOption(field, json).nullWhenAbsent, `${at} null`).toBe(orNull);
  expect(field.proto.proto3Optional && !orNull, `${at} can be left out`).toBe(!always);
}

/**
 * The forms that fit what the specification calls a type: its objects are our records, its null is the handler's to
 * see.
 */
function accepted(type: string): readonly string[] {
  if (type === "object or null" || type === "array") return ["any JSON"];
  return [type];
}

/** A field's form in the REST JSON, in the specification's words. */
function restType(field: DescField): string {
  switch (field.fieldKind) {
    case "scalar":
      return scalarWord(field.scalar);
    case "message":
      return getOption(field, json).bareList
        ? restType(onlyField(field.message))
        : messageWord(field.message, "object");
    case "list":
      if (getOption(field, json).orderedObject) return "object";
      return field.listKind === "scalar"
        ? `array of ${scalarWord(field.scalar)}`
        : `array of ${messageWord(field.message as DescMessage, undefined)}`;
    default:
      return "object";
  }
}

const namedInLists = new Set([...Object.keys(answerRecords), "MemoryInput"]);

function messageWord(message: DescMessage, singular: "object" | undefined): string {
  if (message.typeName === "google.protobuf.Value") return "any JSON";
  if (message.typeName === "google.api.HttpBody") return "raw";
  return singular ?? (namedInLists.has(message.name) ? message.name : "object");
}

function onlyField(wrapper: DescMessage): DescField {
  const [field, ...others] = wrapper.fields;
  if (!field || others.length > 0) throw new Error(`${wrapper.name} is no wrapper`);
  return field;
}

function scalarWord(scalar: ScalarType): string {
  switch (scalar) {
    case ScalarType.STRING:
      return "string";
    case ScalarType.BOOL:
      return "boolean";
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      return "number";
    default:
      return "integer";
  }
}

function describeAccess(credential: Endpoint["rule"]["credential"]): string {
  switch (credential) {
    case Credential.PLATFORM:
      return "P";
    case Credential.NAMESPACE:
      return "NS";
    case Credential.DATABASE:
      return "DB";
    case Credential.PLATFORM_OR_NAMESPACE_ADMIN:
      return "P or NS admin";
    default:
      return "none";
  }
}

/** A message of the public services by its short name. */
function messageNamed(name: string): DescMessage {
  const found = endpoints
    .flatMap((endpoint) => endpoint.method.parent.file.messages)
    .find((message) => message.name === name);
  if (!found) throw new Error(`no message ${name}`);
  return found;
}
