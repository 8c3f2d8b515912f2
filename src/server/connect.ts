/**
 * The gRPC, gRPC-Web and Connect wires: one handler for every endpoint, made from the table.
 *
 * Always true: nothing reaches a handler but through the pipeline's Dispatch, and every refusal of ours carries
 * google.rpc.ErrorInfo with our stable code. It must not know what a method does.
 */
import { create, type DescField, type Message } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import {
  type Code,
  ConnectError,
  type ConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { errorCodes, invalid, type ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import type { Trace } from "../base/trace.ts";
import type { World } from "../base/world.ts";
import { type Call, callHeadersOf, type Dispatch } from "../service/call.ts";
import { BodyCap, type Endpoint } from "../service/methods.ts";
import type { Callers } from "./callers.ts";
import { credentialOf, hostOf, sendRefusal } from "./exchange.ts";
import { refusalFor, refusalHeaders, retryAfterSecsOf } from "./failure.ts";
import type { RequestHandler, WireRequest, WireResponse } from "./listener.ts";
import { discardBody } from "./rest-body.ts";
import { isRequired } from "./rest-decoder.ts";
import { hostDatabaseOf } from "./rest-router.ts";
import type { VisitProtocol, Visits } from "./visits.ts";

export interface ConnectOptions {
  readonly endpoints: readonly Endpoint[];
  readonly dispatch: Dispatch;
  /** Tells who makes a request; absent where authentication is off. */
  readonly callers?: Callers | undefined;
  /** Adds what is no endpoint: health, reflection, the node-internal service. */
  readonly addServices: (router: ConnectRouter) => void;
  /** Why a request is not let in, whatever it says. */
  readonly refusalOf: (request: WireRequest) => ServiceError | undefined;
  /** Gets every request whose path is no method's. */
  readonly fallback: RequestHandler;
  /** The cap of messages that carry data; the others have limits.controlBodyBytesMax. */
  readonly dataBodyBytesMax: number;
  readonly databaseHostSuffix: string;
  /** Sees every request for an endpoint. */
  readonly visits: Visits;
  readonly world: World;
  readonly log: Log;
}

/** What the HTTP request says beyond what Connect hands on. */
interface Origin {
  readonly request: WireRequest | undefined;
  readonly remoteAddress: string;
  readonly host: string | undefined;
}

const originKey = createContextKey<Origin>({ request: undefined, remoteAddress: "", host: undefined });

type Properties = Message & Record<string, unknown>;

/** Makes the handler of gRPC, gRPC-Web and Connect calls. */
export function createConnect(options: ConnectOptions): RequestHandler {
  const adapter = connectNodeAdapter({
    routes: (router) => {
      for (const endpoint of options.endpoints) addEndpoint(router, endpoint, options);
      options.addServices(router);
    },
    fallback: (request, response) => options.fallback(request as WireRequest, response as WireResponse),
    contextValues: (request: WireRequest) =>
      createContextValues().set(originKey, { request, remoteAddress: request.socket.remoteAddress ?? "", host: hostOf(request) }),
    readMaxBytes: limits.controlBodyBytesMax,
    // The library's 100 are fewer than JSON of the depth that we take.
    binaryOptions: { recursionLimit: limits.messageDepthMax },
  });
  return (request, response) => {
    keepUnread(request, response);
    const refusal = options.refusalOf(request);
    if (refusal) return sendRefusal(refusal, response);
    try {
      adapter(request, response);
    } catch {
      // The adapter builds a URL from the Host header and throws on one that is none; uncaught, it would end the node.
      sendRefusal(invalid("the Host header is malformed"), response);
    }
  };
}

/**
 * The adapter stops reading a message that is too large, and a stream that is left so is destroyed together with its
 * connection, before or after the answer was written, as chance has it: the client then sees a reset, or waits for
 * ever (tried). So the rest is left unread until the answer is out, and discarded then.
 */
function keepUnread(request: WireRequest, response: WireResponse): void {
  request[Symbol.asyncIterator] = () => request.iterator({ destroyOnReturn: false }) as NodeJS.AsyncIterator<unknown>;
  response.once("finish", () => {
    if (!request.complete) discardBody(request);
  });
}

function addEndpoint(router: ConnectRouter, endpoint: Endpoint, options: ConnectOptions): void {
  const { method, rule } = endpoint;
  const mustHave = method.input.fields.filter((field) => field.fieldKind === "message" && isRequired(field));
  const readMaxBytes = rule.body === BodyCap.DATA ? options.dataBodyBytesMax : limits.controlBodyBytesMax;
  const answer = async (message: Message, context: HandlerContext): Promise<Message> => {
    const visit = options.visits.begin(endpoint, context.protocolName as VisitProtocol, context.requestHeader.get("traceparent") ?? undefined);
    try {
      const result = await options.dispatch(callOf(endpoint, mustHave, message, context, options, visit.trace));
      for (const [name, value] of result.headers) context.responseHeader.append(name, value);
      visit.end("ok");
      return result.message;
    } catch (error) {
      const refusal = refusalFor(error, endpoint.name, options.world, options.log, visit.trace);
      visit.end(refusal);
      throw connectErrorOf(refusal);
    }
  };
  router.rpc(method, answer, { readMaxBytes });
}

function callOf(
  endpoint: Endpoint,
  mustHave: readonly DescField[],
  message: Message,
  context: HandlerContext,
  { callers, world, databaseHostSuffix }: ConnectOptions,
  trace: Trace,
): Call {
  const { request, remoteAddress, host } = context.values.get(originKey);
  const hostDatabase = hostDatabaseOf(host, databaseHostSuffix);
  const properties = message as Properties;
  if (hostDatabase !== undefined && endpoint.hostSegments && properties["db"] === "") properties["db"] = hostDatabase;
  for (const field of mustHave) if (properties[field.localName] === undefined) throw invalid(`${field.name} is required`);
  const timeoutMs = context.timeoutMs();
  return {
    endpoint,
    message,
    // Asked where its refusal is waited for: what goes wrong before must not leave it behind, unheard.
    get caller(): Call["caller"] {
      return request && callers?.of(request);
    },
    get credential(): string | undefined {
      return request && credentialOf(request);
    },
    remoteAddress,
    hostDatabase,
    headers: callHeadersOf((name) => context.requestHeader.get(name) ?? undefined),
    deadlineMs: timeoutMs === undefined ? undefined : world.monotonicMs() + timeoutMs,
    trace,
    signal: context.signal,
  };
}

/** The refusal on these wires: its code, google.rpc.ErrorInfo, RetryInfo when a retry can help, and its headers. */
export function connectErrorOf(refusal: ServiceError): ConnectError {
  const { connect, retryable } = errorCodes[refusal.code];
  const error = new ConnectError(refusal.message, connect as Code, refusalHeaders(refusal));
  error.details.push({ desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { reason: refusal.code, domain: "palimpsest" }) });
  const seconds = retryable ? retryAfterSecsOf(refusal) : undefined;
  if (seconds !== undefined) {
    const retryDelay = create(DurationSchema, { seconds: BigInt(seconds) });
    error.details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return error;
}
