/**
 * The endpoint table: one row per method of the public services, read from the descriptors that the proto files compile
 * to. The REST router, the access check, the gRPC door, the OpenAPI document and the route test read it.
 *
 * Always true: every method has a route and a rule, every field of its request has one place on REST (path, query or
 * body), and no two rows share a method and a path. A breach fails the start of the process.
 */
import {
  type DescField,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type DescService,
  getOption,
  ScalarType,
} from "@bufbuild/protobuf";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import type { HttpRule } from "../../../gen/google/api/http_pb.ts";
import { BranchService } from "../../../gen/palimpsest/v1/branch_pb.ts";
import { ChangeService } from "../../../gen/palimpsest/v1/change_pb.ts";
import { ControlService } from "../../../gen/palimpsest/v1/control_pb.ts";
import { DataService } from "../../../gen/palimpsest/v1/data_pb.ts";
import { FileService } from "../../../gen/palimpsest/v1/file_pb.ts";
import { MemoryService } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { BodyCap, Credential, json, type Rule, rule, Scope } from "../../../gen/palimpsest/v1/options_pb.ts";
import { TransferService } from "../../../gen/palimpsest/v1/transfer_pb.ts";
import { WebhookService } from "../../../gen/palimpsest/v1/webhook_pb.ts";
import { assert } from "../../base/faults/assert.ts";

export { BodyCap, Credential, type Rule, Scope };

type HttpMethod = "GET" | "PUT" | "POST" | "DELETE" | "PATCH";

/** One segment of a path: itself, or any one segment, percent-decoded once into a string field of the request. */
export type PathSegment =
  { readonly kind: "literal"; readonly text: string } | { readonly kind: "field"; readonly field: DescField };

/** A method of a public service and everything that its proto file says of it. */
interface MethodEndpoint<Method extends DescMethodUnary | DescMethodServerStreaming> {
  /** `MemoryService.Ingest`: unique, and what handlers are registered under. */
  readonly name: string;
  readonly method: Method;
  readonly httpMethod: HttpMethod;
  /** The path below the service's own address. */
  readonly segments: readonly PathSegment[];
  /** The path below a database's own address, where `/v1/db/{db}` is `/v1`; undefined where the route is not there. */
  readonly hostSegments: readonly PathSegment[] | undefined;
  /**
   * `*`: the body is a JSON object of `bodyFields`. A field's name: the body is that field alone. Undefined: no body.
   */
  readonly bodyField: string | undefined;
  /** The request's fields that come from the body. */
  readonly bodyFields: readonly DescField[];
  /** The request's fields that come from the query string. */
  readonly queryFields: readonly DescField[];
  readonly rule: Rule;
}

/** A method that takes one message and gives one. */
export type Endpoint = MethodEndpoint<DescMethodUnary>;
/** A method that takes one message and gives a stream of them. */
export type StreamEndpoint = MethodEndpoint<DescMethodServerStreaming>;
export type AnyEndpoint = Endpoint | StreamEndpoint;

/** The services that clients call. */
export const publicServices: readonly DescService[] = [
  ControlService,
  MemoryService,
  DataService,
  FileService,
  BranchService,
  TransferService,
  ChangeService,
  WebhookService,
];

/** Every method, in the order of the proto files. */
export const allEndpoints: readonly AnyEndpoint[] = publicServices.flatMap((service) =>
  service.methods.map((method) => {
    const { methodKind } = method;
    assert(methodKind === "unary" || methodKind === "server_streaming", `${method.name} takes more than one message`);
    return buildEndpoint(method as DescMethodUnary | DescMethodServerStreaming) as AnyEndpoint;
  }),
);

/** Whether the method gives a stream. */
export function isStream(endpoint: AnyEndpoint): endpoint is StreamEndpoint {
  return endpoint.method.methodKind === "server_streaming";
}

/** Those that give one message. */
export const endpoints: readonly Endpoint[] = allEndpoints.filter((endpoint) => !isStream(endpoint)) as Endpoint[];

const paths = allEndpoints.map((endpoint) => `${endpoint.httpMethod} ${formatShape(endpoint.segments)}`);
assert(new Set(paths).size === paths.length, "two methods share a path");

/** The scopes as clients and tokens write them, least first; each includes the ones before. */
export const scopeNames: ReadonlyMap<Rule["scope"], "read" | "write" | "admin"> = new Map([
  [Scope.READ, "read"],
  [Scope.WRITE, "write"],
  [Scope.ADMIN, "admin"],
]);

/** The path as a template, `/v1/db/{db}/sql`. */
export function pathTemplate(segments: readonly PathSegment[]): string {
  return segments
    .map((segment) => `/${segment.kind === "literal" ? segment.text : `{${segment.field.name}}`}`)
    .join("");
}

function formatShape(segments: readonly PathSegment[]): string {
  return segments.map((segment) => `/${segment.kind === "literal" ? segment.text : "{}"}`).join("");
}

function buildEndpoint<Method extends DescMethodUnary | DescMethodServerStreaming>(
  method: Method,
): MethodEndpoint<Method> {
  const name = `${method.parent.name}.${method.name}`;
  const methodRule = getOption(method, rule);
  assert(methodRule.status >= 200 && methodRule.credential !== Credential.UNSPECIFIED, `${name} has no rule`);
  const httpRule = getOption(method, http);
  const { httpMethod, path } = readRoute(name, httpRule);
  const segments = parseSegments(method, path);
  const bodyField = httpRule.body === "" ? undefined : httpRule.body;
  const inPath = new Set(segments.flatMap((segment) => (segment.kind === "field" ? [segment.field] : [])));
  const rest = method.input.fields.filter((field) => !inPath.has(field));
  const bodyFields = rest.filter((field) => inBody(field, bodyField));
  assert(
    bodyField === undefined || bodyField === "*" || bodyFields.length === 1,
    `${name} names a body field that it does not have`,
  );
  return {
    name,
    method,
    httpMethod,
    segments,
    hostSegments: toHostSegments(segments),
    bodyField,
    bodyFields,
    queryFields: rest.filter((field) => !bodyFields.includes(field)),
    rule: methodRule,
  };
}

function inBody(field: DescField, bodyField: string | undefined): boolean {
  if (bodyField === "*") return !getOption(field, json).query;
  return field.name === bodyField;
}

function readRoute(name: string, httpRule: HttpRule): { readonly httpMethod: HttpMethod; readonly path: string } {
  const { pattern } = httpRule;
  assert(pattern.case !== undefined && pattern.case !== "custom", `${name} has no route`);
  return { httpMethod: pattern.case.toUpperCase() as HttpMethod, path: pattern.value };
}

/** Reads a template of literal segments and `{field}`s, the only form that our files use of google.api.http's. */
function parseSegments(method: DescMethodUnary | DescMethodServerStreaming, path: string): PathSegment[] {
  assert(path.startsWith("/"), `the path of ${method.name} does not start with /`);
  return path
    .slice(1)
    .split("/")
    .map((part) => {
      if (/^[a-z0-9_]+$/.test(part)) return { kind: "literal", text: part };
      const field = method.input.fields.find((candidate) => `{${candidate.name}}` === part);
      const isString = field?.fieldKind === "scalar" && field.scalar === ScalarType.STRING;
      assert(field !== undefined && isString, `the path of ${method.name} has a part that is no string field: ${part}`);
      return { kind: "field", field };
    });
}

function toHostSegments(segments: readonly PathSegment[]): readonly PathSegment[] | undefined {
  const [version, place, database, ...rest] = segments;
  const isBelowDatabase =
    place?.kind === "literal" && place.text === "db" && database?.kind === "field" && database.field.name === "db";
  return isBelowDatabase && version ? [version, ...rest] : undefined;
}
