/**
 * One way to call the service over each of its wires, so that a test's body is the same for both.
 *
 * Requests and answers are in the specification's JSON. Over gRPC they are translated through the runtime's own
 * ProtoJSON, so that nothing of the product's REST translation is used to check it. What every answer must have, the
 * status, the envelope and the transaction id's header, is checked here, for every call of every test.
 */
import {
  type DescField,
  type DescMessage,
  fromJson,
  getOption,
  type JsonObject,
  type JsonValue,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { assert } from "../../src/base/faults/assert.ts";
import { type ErrorCode, errorCodes } from "../../src/base/faults/errors.ts";
import { type Endpoint, endpoints } from "../../src/service/call/methods.ts";
import { ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { json } from "../../gen/palimpsest/v1/options_pb.ts";

/** An answer, whatever wire it came by. */
export interface Reply {
  readonly code: "ok" | ErrorCode;
  /** The answer in the specification's JSON; a raw value's bytes; undefined where there is none. */
  readonly body: any;
  /** A refusal's text; empty on success. */
  readonly message: string;
  /** The `Service-Txid` header. */
  readonly txid: number | undefined;
  /** The `Service-Durable-Txid` header. */
  readonly durableTxid: number | undefined;
  readonly retryAfterSecs: number | undefined;
  /** The `ETag` header, where there is one. */
  readonly entityTag?: string;
  /** There where the header `Idempotency-Replayed` is. */
  readonly isRepeat?: boolean;
}

/** The headers of transaction ids, and those that are there now and then. */
type Txids = Pick<Reply, "txid" | "durableTxid" | "entityTag" | "isRepeat">;

export interface Wire<Name extends string = WireName> {
  readonly name: Name;
  /** Calls a method by its endpoint's name, such as `MemoryService.Ingest`. */
  call(method: string, request: object, headers?: Record<string, string>): Promise<Reply>;
  close(): void;
}

export type WireName = "rest" | "grpc";
export const wireNames: readonly WireName[] = ["rest", "grpc"];

/** The row of the endpoint table with this name. */
export function endpointNamed(name: string): Endpoint {
  const found = endpoints.find((endpoint) => endpoint.name === name);
  assert(found, `there is no method ${name}`);
  return found;
}

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

function readTxids(headers: Headers): Txids {
  const readNumber = (name: string): number | undefined => {
    const text = headers.get(name);
    check(text === null || /^\d+$/.test(text), `${name} is ${text}`);
    return text === null ? undefined : Number(text);
  };
  const [entityTag, replayed] = [headers.get("etag"), headers.get("idempotency-replayed")];
  check(replayed === null || replayed === "true", `Idempotency-Replayed is ${replayed}`);
  return {
    txid: readNumber("Service-Txid"),
    durableTxid: readNumber("Service-Durable-Txid"),
    ...(entityTag !== null && { entityTag }),
    ...(replayed !== null && { isRepeat: true }),
  };
}

/** What holds of every success: the headers where the method promises them, and no other number in the body. */
function checkSuccess({ name, rule }: Endpoint, { txid, durableTxid }: Txids, body: unknown): void {
  check(!rule.txid || txid !== undefined, `${name} answered without Service-Txid`);
  check(!rule.txid || durableTxid !== undefined, `${name} answered without Service-Durable-Txid`);
  const inBody = (body as { txid?: unknown } | undefined)?.txid;
  check(
    inBody === undefined || inBody === txid,
    `${name} answered txid ${String(inBody)} in the body and ${String(txid)} in the header`,
  );
}

/** The REST path, query and body of a request. */
export function restRequest(
  endpoint: Endpoint,
  request: Readonly<Record<string, unknown>>,
): { readonly path: string; readonly body: Uint8Array | string | undefined } {
  const path = endpoint.segments
    .map(
      (segment) =>
        `/${segment.kind === "literal" ? segment.text : encodeURIComponent(String(request[segment.field.name]))}`,
    )
    .join("");
  const query = new URLSearchParams();
  for (const { name } of endpoint.queryFields) if (request[name] !== undefined) query.set(name, String(request[name]));
  const pathAndQuery = query.size > 0 ? `${path}?${query.toString()}` : path;
  if (endpoint.bodyField === undefined) return { path: pathAndQuery, body: undefined };
  if (endpoint.bodyField !== "*") return { path: pathAndQuery, body: request[endpoint.bodyField] as Uint8Array };
  const inBody = new Set(endpoint.bodyFields.map(({ name }) => name));
  return {
    path: pathAndQuery,
    body: JSON.stringify(Object.fromEntries(Object.entries(request).filter(([name]) => inBody.has(name)))),
  };
}

/** Calls over HTTP/1.1 REST. */
export function restWire(address: string): Wire {
  return {
    name: "rest",
    async call(method, request, headers = {}) {
      const endpoint = endpointNamed(method);
      const { path, body } = restRequest(endpoint, request as Record<string, unknown>);
      const type: Record<string, string> =
        body === undefined ? {} : { "content-type": typeof body === "string" ? "application/json" : "text/plain" };
      const response = await fetch(`${address}${path}`, {
        method: endpoint.httpMethod,
        headers: { ...type, ...headers },
        ...(body === undefined ? {} : { body: body as NonNullable<RequestInit["body"]> }),
      });
      return readReply(endpoint, response);
    },
    close() {},
  };
}

async function readReply(endpoint: Endpoint, response: Response): Promise<Reply> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const txids = readTxids(response.headers);
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  const retryAfter = response.headers.get("retry-after");
  check(retryAfter === null || /^[1-9]\d*$/.test(retryAfter), `Retry-After is ${retryAfter}`);
  const retryAfterSecs = retryAfter === null ? undefined : Number(retryAfter);
  if (response.ok) {
    check(response.status === endpoint.rule.status, `${endpoint.name} answered ${response.status}`);
    check(response.status !== 204 || bytes.length === 0, `${endpoint.name} answered 204 with a body`);
    const isRaw = endpoint.method.output.typeName === "google.api.HttpBody";
    check(
      isRaw || isJson === bytes.length > 0,
      `${endpoint.name} answered with the type ${response.headers.get("content-type")}`,
    );
    let body: unknown = isRaw ? bytes : undefined;
    if (!isRaw && bytes.length > 0) body = JSON.parse(bytes.toString());
    checkSuccess(endpoint, txids, isRaw ? undefined : body);
    return { code: "ok", body, message: "", ...txids, retryAfterSecs };
  }
  check(isJson, `${endpoint.name} answered ${response.status} without an envelope`);
  const body = JSON.parse(bytes.toString()) as { readonly error: string; readonly code: ErrorCode };
  checkEnvelope(body, response.status);
  return { code: body.code, body, message: body.error, ...txids, retryAfterSecs };
}

/** The envelope has exactly its two members, and its code goes with the status. */
export function checkEnvelope(body: { readonly error: string; readonly code: ErrorCode }, status: number): void {
  check(
    Object.keys(body).sort().join() === "code,error" && typeof body.error === "string" && body.error !== "",
    `an envelope is ${JSON.stringify(body)}`,
  );
  const table = errorCodes[body.code];
  check(table !== undefined, `the code ${body.code} is not in the table`);
  // HTTP itself demands these two, whatever the code.
  check(
    status === table.http || status === 405 || status === 415 || (body.code === "conflict" && status === 412),
    `${body.code} came with status ${status}`,
  );
}

/** Calls over gRPC, all on one HTTP/2 connection. */
export function grpcWire(address: string): Wire {
  const sessionManager = new Http2SessionManager(address);
  const transport = createGrpcTransport({ baseUrl: address, sessionManager });
  return rpcWire("grpc", transport, () => sessionManager.abort());
}

/** Calls over Connect in JSON, all on one HTTP/2 connection. */
export function connectWire(address: string): Wire<"connect"> {
  const sessionManager = new Http2SessionManager(address);
  const transport = createConnectTransport({ baseUrl: address, httpVersion: "2", sessionManager });
  return rpcWire("connect", transport, () => sessionManager.abort());
}

function rpcWire<Name extends string>(name: Name, transport: Transport, close: () => void): Wire<Name> {
  return {
    name,
    async call(method, request, headers = {}) {
      const endpoint = endpointNamed(method);
      const input = fromJson(endpoint.method.input, protoJson(endpoint.method.input, request as JsonObject));
      try {
        const response = await transport.unary(endpoint.method, undefined, undefined, headers, input, undefined);
        const body = specBody(
          endpoint,
          toJson(endpoint.method.output, response.message, {
            useProtoFieldName: true,
            alwaysEmitImplicit: true,
          }) as JsonObject,
        );
        const txids = readTxids(response.header);
        checkSuccess(endpoint, txids, Buffer.isBuffer(body) ? undefined : body);
        return { code: "ok", body, message: "", ...txids, retryAfterSecs: undefined };
      } catch (error) {
        if (!(error instanceof ConnectError)) throw error;
        return refusalReply(endpoint, error);
      }
    },
    close,
  };
}

function refusalReply(endpoint: Endpoint, error: ConnectError): Reply {
  const code = error.findDetails(ErrorInfoSchema)[0]?.reason as ErrorCode | undefined;
  check(
    code !== undefined && errorCodes[code] !== undefined,
    `${endpoint.name} was refused without an ErrorInfo: ${error.message}`,
  );
  check(error.code === (errorCodes[code].connect as Code), `${code} came as ${Code[error.code]}`);
  const seconds = error.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds;
  return {
    code,
    body: { error: error.rawMessage, code },
    message: error.rawMessage,
    ...readTxids(error.metadata),
    retryAfterSecs: seconds === undefined ? undefined : Number(seconds),
  };
}

function isWellKnown({ typeName }: DescMessage): boolean {
  return typeName.startsWith("google.protobuf.");
}

/** The specification's JSON as ProtoJSON. Absent and null members are left out, but for a null that is a value. */
function protoJson(desc: DescMessage, from: JsonObject): JsonObject {
  const to: JsonObject = {};
  for (const [name, value] of Object.entries(from)) {
    const field = desc.fields.find((candidate) => candidate.name === name);
    assert(field, `${desc.name} has no field ${name}`);
    const isValue = field.message?.typeName === "google.protobuf.Value" && field.fieldKind === "message";
    if (value === undefined || (value === null && !isValue)) continue;
    to[name] = protoField(field, value);
  }
  return to;
}

function protoField(field: DescField, value: JsonValue): JsonValue {
  const form = getOption(field, json);
  if (form.bareList) return { values: value };
  if (form.orderedObject) {
    const [key, inner] = field.message!.fields;
    return Object.entries(value as JsonObject).map(([path, direction]) => ({
      [key!.name]: path,
      [inner!.name]: direction,
    }));
  }
  if (field.message?.typeName === "google.api.HttpBody")
    return { data: Buffer.from(value as unknown as Uint8Array).toString("base64") };
  if (!field.message || isWellKnown(field.message)) return value;
  const inner = field.message;
  return field.fieldKind === "list"
    ? (value as JsonObject[]).map((item) => protoJson(inner, item))
    : protoJson(inner, value as JsonObject);
}

/** The answer's ProtoJSON as the specification's JSON; what REST gives in no body is left out here too. */
function specBody(endpoint: Endpoint, from: JsonObject): unknown {
  if (endpoint.method.output.typeName === "google.api.HttpBody")
    return Buffer.from((from["data"] as string | undefined) ?? "", "base64");
  return endpoint.rule.status === 204 ? undefined : specJson(endpoint.method.output, from);
}

function specJson(desc: DescMessage, from: JsonObject): JsonObject {
  const to: JsonObject = {};
  for (const field of desc.fields) {
    const value = from[field.name];
    if (value !== undefined) to[field.name] = specField(field, value);
    else if (getOption(field, json).nullWhenAbsent) to[field.name] = null;
  }
  return to;
}

function specField(field: DescField, value: JsonValue): JsonValue {
  if (field.fieldKind === "scalar") return field.scalar === ScalarType.INT64 ? Number(value) : value;
  if (field.fieldKind === "map" && field.scalar === ScalarType.INT64)
    return Object.fromEntries(Object.entries(value as JsonObject).map(([key, number]) => [key, Number(number)]));
  const { message } = field;
  if (field.fieldKind === "map" || !message || isWellKnown(message)) return value;
  if (getOption(field, json).bareList) return specField(message.fields[0]!, (value as JsonObject)["values"]!);
  return field.fieldKind === "list"
    ? (value as JsonObject[]).map((item) => specJson(message, item))
    : specJson(message, value as JsonObject);
}
