/**
 * The gRPC, gRPC-Web and Connect wires: one handler for every endpoint, made from the table.
 *
 * Calls by gRPC have a way of their own (grpc-unary). For the others the library negotiates, frames and answers. We
 * tell the caller and read the request: the library would read, inflate and decode it before the caller is known. It is
 * handed an empty message in place of each. Always true: nothing reaches a handler but through the pipeline's Dispatch,
 * nothing of a body is read but when the pipeline asks for it, and every refusal of ours carries google.rpc.ErrorInfo
 * with our stable code. It must not know what a method does.
 */
import type { Message } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Idempotency } from "@bufbuild/protobuf/wkt";
import {
  Code,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import { compressionGzip, connectNodeAdapter, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import { createAsyncIterable, encodeEnvelope, type UniversalHandler } from "@connectrpc/connect/protocol";
import { Health } from "../../../gen/grpc/health/v1/health_pb.ts";
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { type AnyEndpoint, isStream, type StreamEndpoint } from "../../service/call/methods.ts";
import type { Discards } from "../wire/body.ts";
import { goneSignal, readHost } from "../wire/call-headers.ts";
import { paced } from "../wire/message-stream.ts";
import { refusalFor } from "../wire/refusal.ts";
import type { RequestHandler, WireRequest, WireResponse } from "../wire/listener.ts";
import { parseHostDatabase } from "../rest/rest-router.ts";
import { serveGrpc } from "./grpc-unary.ts";
import { type RpcCall, RpcEndpoint, type RpcOptions } from "./rpc-endpoint.ts";
import {
  toConnectError,
  connectForms,
  isEnveloped,
  isMethodPath,
  refuseRequest,
  findRpcForm,
  rpcTypes,
} from "./rpc-protocols.ts";

/** Messages of the services that are open to all, such as health: they hold a name. */
const openMessageBytesMax = 4 * 1024;

export interface ConnectOptions extends RpcOptions {
  readonly endpoints: readonly AnyEndpoint[];
  /** Takes what is left of refused requests. */
  readonly discards: Discards;
  /** Adds what is no endpoint: health, reflection, the node-internal service. */
  readonly addServices: (router: ConnectRouter) => void;
  /** Gets every request whose path is no method's. */
  readonly fallback: RequestHandler;
  readonly databaseHostSuffix: string;
  /** Aborted when the node leaves: streams end. */
  readonly leaving: AbortSignal;
}

/** The call that is on its way through the library. */
const callKey = createContextKey<RpcCall | undefined>(undefined);

/** An endpoint on these wires. */
interface Route {
  readonly calls: RpcEndpoint;
  /** Of gRPC-Web and Connect, and of gRPC where the method gives a stream. */
  readonly handler: UniversalHandler;
}

/** Makes the handler of gRPC, gRPC-Web and Connect calls. */
export function createConnect(options: ConnectOptions): RequestHandler {
  const { fallback, discards, world } = options;
  const routes = new Map(options.endpoints.map((endpoint) => [buildPath(endpoint), buildRoute(endpoint, options)]));
  const services = connectNodeAdapter({
    routes: options.addServices,
    fallback: (request, response) => answerUnknownPath(request as WireRequest, response as WireResponse, fallback),
    // These services are open to all, and are asked little.
    readMaxBytes: openMessageBytesMax,
    acceptCompression: [compressionGzip],
  });
  return (request, response) => {
    const url = request.url ?? "";
    const mark = url.indexOf("?");
    const route = routes.get(mark < 0 ? url : url.slice(0, mark));
    try {
      if (route) serve(route, mark < 0 ? "" : url.slice(mark + 1), request, response, options);
      else {
        keepUnread(request, response, discards);
        if (url.startsWith(healthPath)) hurry(request, world);
        services(request, response);
      }
    } catch {
      // The library builds a URL from the Host header and throws on one that is none; uncaught, it would end the node.
      refuseRequest(invalid("the Host header is malformed"), request, response);
    }
  };
}

const healthPath = `/${Health.typeName}/`;

/**
 * A caller need not identify itself to ask for health: it gets no more time for its question than others have for their
 * headers.
 */
function hurry(request: WireRequest, world: World): void {
  const cancel = world.after(limits.headersTimeoutMs, () => request.complete || request.destroy());
  request.once("end", cancel);
  request.once("close", cancel);
}

function buildPath({ method }: AnyEndpoint): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/**
 * The library stops reading a message that is too large, and destroys a stream left so together with its connection,
 * before or after the answer was written, as chance has it: the client then sees a reset, or waits for ever (tried). So
 * the rest is left unread until the answer is out, and discarded then.
 */
function keepUnread(request: WireRequest, response: WireResponse, discards: Discards): void {
  request[Symbol.asyncIterator] = () => request.iterator({ destroyOnReturn: false }) as NodeJS.AsyncIterator<unknown>;
  discards.takeAfter(request, response);
}

/** What no path is there for: a method that does not exist says so in its own form, the rest is REST's. */
function answerUnknownPath(request: WireRequest, response: WireResponse, fallback: RequestHandler): void {
  const path = (request.url ?? "").split("?", 1)[0]!;
  const form = request.method === "POST" ? findRpcForm(request.headers["content-type"]) : undefined;
  const isCall = form !== undefined && (form.protocol !== "connect" || isMethodPath(path));
  if (!isCall) return fallback(request, response);
  refuseRequest(
    new ServiceError("not_found", "no such method: the proto files name those that there are"),
    request,
    response,
    Code.Unimplemented,
  );
}

function buildRoute(endpoint: AnyEndpoint, options: ConnectOptions): Route {
  const calls = new RpcEndpoint(endpoint, options);
  if (isStream(endpoint)) return { calls, handler: buildStreamHandler(calls, endpoint, options) };
  const answer = async (_empty: Message, context: HandlerContext): Promise<Message> => {
    const call = context.values.get(callKey);
    assert(call !== undefined, "a call of an endpoint comes through serve");
    try {
      return await calls.answer(call, ({ message, headers }) => {
        for (const [name, value] of headers) context.responseHeader.append(name, value);
        return message;
      });
    } catch (error) {
      throw toConnectError(error as ServiceError);
    }
  };
  const [handler] = createConnectRouter({ grpc: false }).rpc(endpoint.method, answer).handlers;
  return { calls, handler: handler! };
}

function buildStreamHandler(
  calls: RpcEndpoint,
  { name, method }: StreamEndpoint,
  { world, log, leaving }: ConnectOptions,
): UniversalHandler {
  async function* answer(_empty: Message, context: HandlerContext): AsyncGenerator<Message> {
    const call = context.values.get(callKey);
    assert(call !== undefined, "a call of an endpoint comes through serve");
    const { response } = call;
    try {
      const { messages, headers } = await calls.answer(call, (result) => result);
      for (const [header, value] of headers) context.responseHeader.append(header, value);
      yield* paced(messages!, { world, leaving, cut: () => response.destroy() });
    } catch (error) {
      throw toConnectError(refusalFor(error, name, world, log));
    }
  }
  const [handler] = createConnectRouter().rpc(method, answer).handlers;
  return handler!;
}

/** Answers a request for an endpoint, whatever its form, or refuses one of none. */
function serve(
  route: Route,
  query: string,
  request: WireRequest,
  response: WireResponse,
  options: ConnectOptions,
): void {
  const { endpoint } = route.calls;
  const isGet =
    !isStream(endpoint) && request.method === "GET" && endpoint.method.idempotency === Idempotency.NO_SIDE_EFFECTS;
  const form = isGet ? parseQueryForm(query) : findRpcForm(request.headers["content-type"]);
  const isGrpc = request.method === "POST" && form?.protocol === "grpc" && !isStream(endpoint);
  if (!isGrpc) keepUnread(request, response, options.discards);
  if (request.method !== "POST" && !isGet) return refuseMethod(endpoint, request, response);
  if (form === undefined || (form.protocol === "connect" && form.isStream !== isStream(endpoint)))
    return refuseType(isGet, endpoint, request, response);
  const call: RpcCall = {
    form,
    request,
    response,
    query: isGet ? query : undefined,
    hostDatabase: parseHostDatabase(readHost(request), options.databaseHostSuffix),
  };
  if (isGrpc) void serveGrpc(route.calls, call, options.discards);
  else passOn(route, call, options);
}

/** Hands a call to the library, with an empty message in place of its own. */
function passOn({ calls, handler }: Route, call: RpcCall, options: ConnectOptions): void {
  const { form, request, response } = call;
  handler({
    httpVersion: request.httpVersion,
    method: "POST",
    url: `http://node${handler.requestPath}`,
    header: new Headers({ "content-type": form.contentType }),
    body: createAsyncIterable([emptyMessages[form.codec][isEnveloped(form) ? "enveloped" : "bare"]]),
    signal: goneSignal(response),
    contextValues: createContextValues().set(callKey, call),
  })
    .then((answer) => universalResponseToNodeResponse(answer, response))
    .catch((error: unknown) => failCall(error, calls.endpoint, request, response, options));
}

/** A message without fields, in each codec, as Connect sends it and as the others do. */
const emptyMessages = {
  proto: { bare: new Uint8Array(0), enveloped: encodeEnvelope(0, new Uint8Array(0)) },
  json: { bare: encodeUtf8("{}"), enveloped: encodeEnvelope(0, encodeUtf8("{}")) },
} as const;

/** The library could not answer: the client is gone, or there is a fault of ours. */
function failCall(
  error: unknown,
  endpoint: AnyEndpoint,
  request: WireRequest,
  response: WireResponse,
  { world, log }: ConnectOptions,
): void {
  if (response.destroyed || response.headersSent) return void response.destroy();
  refuseRequest(refusalFor(error, endpoint.name, world, log), request, response);
}

function parseQueryForm(query: string): (typeof connectForms)[keyof typeof connectForms] | undefined {
  const encoding = new URLSearchParams(query).get("encoding");
  return encoding === "json" || encoding === "proto" ? connectForms[encoding] : undefined;
}

function refuseMethod(endpoint: AnyEndpoint, request: WireRequest, response: WireResponse): void {
  const isRead = endpoint.method.idempotency === Idempotency.NO_SIDE_EFFECTS;
  const Allow = isRead && !isStream(endpoint) ? "GET, POST" : "POST";
  refuseRequest(
    new ServiceError("invalid_request", `this path takes ${Allow}`, { httpStatus: 405, headers: { Allow } }),
    request,
    response,
  );
}

function refuseType(isGet: boolean, endpoint: AnyEndpoint, request: WireRequest, response: WireResponse): void {
  const types = rpcTypes(isStream(endpoint)).join(", ");
  const message = isGet ? "encoding must be json or proto" : `content-type must be one of ${types}`;
  refuseRequest(
    new ServiceError("invalid_request", message, { httpStatus: 415, headers: { "Accept-Post": types } }),
    request,
    response,
  );
}
