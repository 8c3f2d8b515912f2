/**
 * The REST wire: an HTTP request becomes a Call, its result an HTTP response.
 *
 * Always true: every answer is JSON with the envelope on refusal (raw bytes for a stored value, text for a page), and
 * nothing reaches a handler but through the pipeline's Dispatch. It must not know what a method does.
 */
import { create, type Message } from "@bufbuild/protobuf";
import { type HttpBody, HttpBodySchema } from "../../../gen/google/api/httpbody_pb.ts";
import { assert } from "../../base/faults/assert.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { Trace } from "../../base/trace.ts";
import type { World } from "../../base/world.ts";
import { type CallResult, ClientGone, type Dispatch } from "../../service/call/call.ts";
import { type AnyEndpoint, BodyCap, isStream, type PathSegment } from "../../service/call/methods.ts";
import { type BodyRoom, type Discards, readBody } from "../wire/body.ts";
import { decodeJson, type JsonForm } from "../wire/message-decoder.ts";
import type { Callers } from "../wire/callers.ts";
import { readCredential, readHost, jsonLine, type ResponseHeaders, send, sendRefusal } from "../wire/call-headers.ts";
import { paced } from "../wire/message-stream.ts";
import { refusalFor } from "../wire/refusal.ts";
import { compileBody } from "../wire/json-decoder.ts";
import type { RequestHandler, WireRequest, WireResponse } from "../wire/listener.ts";
import { requireEventStream, sendEvents } from "./event-stream.ts";
import { compileWriter, type WriteMessage } from "./rest-encoder.ts";
import {
  parseHostDatabase,
  type Match,
  methodNotAllowed,
  QueryReader,
  readAtParameter,
  Router,
} from "./rest-router.ts";
import type { MeasuredRequest, RequestMetrics } from "../wire/request-metrics.ts";
import { WireCall } from "../wire/wire-call.ts";

/** What a page answers. */
export interface PageContent {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** A plain GET that is no method of a service: health, metrics, documents. */
export interface Page {
  /** Answers; `credential` is the bearer token as received. Refusals are thrown as ServiceError. */
  answer(credential: string | undefined): PageContent | Promise<PageContent>;
}

export interface RestOptions {
  readonly endpoints: readonly AnyEndpoint[];
  readonly dispatch: Dispatch;
  /** By path, at every address. */
  readonly pages: ReadonlyMap<string, Page>;
  /** Tells who makes a request, or refuses the caller before the body is read; absent where authentication is off. */
  readonly callers?: Callers | undefined;
  /** The room of all bodies, of every wire. */
  readonly room: BodyRoom;
  /** Takes what is left of refused requests. */
  readonly discards: Discards;
  /** The cap of bodies that carry data; the others have limits.controlBodyBytesMax. */
  readonly dataBodyBytesMax: number;
  /** `{db}.{databaseHostSuffix}` is the address of one database. */
  readonly databaseHostSuffix: string;
  /** Sees every request for an endpoint. */
  readonly requestMetrics: RequestMetrics;
  /** Aborted when the node leaves: streams end. */
  readonly leaving: AbortSignal;
  readonly world: World;
  readonly log: Log;
}

/** An endpoint at one of its addresses, with its codecs. */
interface Route {
  readonly endpoint: AnyEndpoint;
  /** The properties that the path's fields go to, in order. */
  readonly pathFields: readonly string[];
  /** The property that the Host's database goes to, at a database's own address. */
  readonly hostField: string | undefined;
  readonly query: QueryReader;
  readonly body: JsonBody | RawBody | undefined;
  readonly bodyBytesMax: number;
  readonly write: WriteMessage | undefined;
}

interface JsonBody extends JsonForm {
  readonly kind: "json";
}

interface RawBody {
  readonly kind: "raw";
  readonly field: string;
}

type Properties = Message & Record<string, unknown>;

/** Makes the handler of everything that is not a gRPC or Connect call. */
export function createRest(options: RestOptions): RequestHandler {
  const rest = new Rest(options);
  return (request, response) => void rest.serve(request, response);
}

class Rest {
  readonly #options: RestOptions;
  readonly #routes = new Router<Route>();
  readonly #hostRoutes = new Router<Route>();

  constructor(options: RestOptions) {
    this.#options = options;
    for (const endpoint of options.endpoints) {
      const { httpMethod, segments, hostSegments } = endpoint;
      this.#routes.add(httpMethod, segments, this.#compile(endpoint, segments));
      if (hostSegments) this.#hostRoutes.add(httpMethod, hostSegments, this.#compile(endpoint, hostSegments));
    }
    this.#routes.seal();
    this.#hostRoutes.seal();
  }

  /** Answers one request. Never rejects. */
  async serve(request: WireRequest, response: WireResponse): Promise<void> {
    const url = request.url ?? "";
    const mark = url.indexOf("?");
    const path = mark < 0 ? url : url.slice(0, mark);
    const { requestMetrics, world, log } = this.#options;
    let visit: MeasuredRequest | undefined;
    try {
      const page = this.#options.pages.get(path);
      if (page) return await this.#servePage(page, request, response);
      const hostDatabase = parseHostDatabase(readHost(request), this.#options.databaseHostSuffix);
      const router = hostDatabase === undefined ? this.#routes : this.#hostRoutes;
      const match = router.match(request.method ?? "", path);
      visit = requestMetrics.begin(match.route.endpoint, "rest", request.headers["traceparent"] as string | undefined);
      const query = mark < 0 ? "" : url.slice(mark + 1);
      if (isStream(match.route.endpoint)) requireEventStream(request);
      const { callers, dispatch } = this.#options;
      const rest =
        query === "" && match.route.body === undefined
          ? undefined
          : { isAddressed: true, receive: () => this.#receive(match, query, hostDatabase, request) };
      const known = {
        endpoint: match.route.endpoint,
        message: buildMessage(match, hostDatabase),
        rest,
        hostDatabase,
        at: query !== "" && match.route.endpoint.rule.at ? readAtParameter(query) : undefined,
        trace: visit.trace,
        deadlineMs: undefined,
      };
      const result = await dispatch(new WireCall(known, callers, request, response));
      if (result.messages) this.#sendStream(match.route, result.messages, result, response, visit.trace);
      else sendResult(match.route, result, request, response);
      visit.end("ok");
    } catch (error) {
      if (error instanceof ClientGone) return visit?.end("gone");
      const refusal = refusalFor(error, `${request.method} ${path.split("/", 3).join("/")}`, world, log, visit?.trace);
      if (visit) visit.end(refusal);
      else requestMetrics.strayed(refusal);
      sendRefusal(refusal, response);
      this.#options.discards.take(request);
    }
  }

  /** A stream has no answer that could be refused any more: it ends by itself. */
  #sendStream(
    { endpoint, write }: Route,
    messages: AsyncIterable<Message>,
    { headers }: CallResult,
    response: WireResponse,
    trace: Trace,
  ): void {
    const { world, log, leaving } = this.#options;
    const events = paced(messages, { world, leaving, cut: () => response.destroy() });
    sendEvents(events, write!, Object.fromEntries(headers), response, (error) =>
      refusalFor(error, endpoint.name, world, log, trace),
    ).catch((error: unknown) => {
      log.error("a stream could not be written", error, { where: endpoint.name });
      response.destroy();
    });
  }

  async #servePage(page: Page, request: WireRequest, response: WireResponse): Promise<void> {
    if (request.method !== "GET" && request.method !== "HEAD") throw methodNotAllowed(["GET", "HEAD"]);
    const { status, contentType, body } = await page.answer(readCredential(request));
    const text = contentType === "application/json" && typeof body === "string" ? jsonLine(body) : body;
    send(response, status, { "content-type": contentType, "x-content-type-options": "nosniff" }, text);
  }

  #compile(endpoint: AnyEndpoint, segments: readonly PathSegment[]): Route {
    const { method, bodyField, bodyFields, rule } = endpoint;
    const pathFields = segments.flatMap((segment) => (segment.kind === "field" ? [segment.field.localName] : []));
    return {
      endpoint,
      pathFields,
      hostField: segments === endpoint.hostSegments ? "db" : undefined,
      query: new QueryReader(endpoint),
      body: bodyField === undefined ? undefined : compileRequestBody(endpoint, bodyField, bodyFields),
      bodyBytesMax: rule.body === BodyCap.DATA ? this.#options.dataBodyBytesMax : limits.controlBodyBytesMax,
      write: method.output.typeName === HttpBodySchema.typeName ? undefined : compileWriter(method.output),
    };
  }

  /** The whole message. The query is judged before a body is read. */
  async #receive(
    match: Match<Route>,
    query: string,
    hostDatabase: string | undefined,
    request: WireRequest,
  ): Promise<Message> {
    const { room, world } = this.#options;
    const { body, bodyBytesMax, query: reader } = match.route;
    const make = (): Properties => {
      const message = buildMessage(match, hostDatabase);
      if (query !== "") reader.read(message, query);
      return message;
    };
    const message = make();
    if (body === undefined) return message;
    if (body.kind === "raw") {
      using held = await readBody(request, bodyBytesMax, room);
      message[body.field] = create(HttpBodySchema, {
        contentType: request.headers["content-type"] ?? "",
        data: held.bytes,
      });
      return message;
    }
    requireJsonType(request);
    using held = await readBody(request, bodyBytesMax, room);
    if (held.bytes.length > 0 && request.headers["content-type"] === undefined) throw unsupportedType();
    return await decodeJson(held.bytes, body, make, world);
  }
}

/** The message as far as the path tells it, and at a database's own address the Host. */
function buildMessage({ route, values }: Match<Route>, hostDatabase: string | undefined): Properties {
  const message = create(route.endpoint.method.input) as Properties;
  for (let i = 0; i < route.pathFields.length; i++) message[route.pathFields[i]!] = values[i];
  if (route.hostField !== undefined) message[route.hostField] = hostDatabase;
  return message;
}

function compileRequestBody(
  endpoint: AnyEndpoint,
  bodyField: string,
  bodyFields: AnyEndpoint["bodyFields"],
): JsonBody | RawBody {
  if (bodyField === "*")
    return { kind: "json", decoder: compileBody(bodyFields), frameBytesMax: limits.elementBytesMax };
  const [field] = bodyFields;
  assert(field?.message?.typeName === HttpBodySchema.typeName, `the body field of ${endpoint.name} is raw bytes`);
  return { kind: "raw", field: field.localName };
}

/** Whether the client holds what has this entity tag already. */
function isHeld(held: string | undefined, entityTag: string | number | undefined): boolean {
  if (held === undefined || entityTag === undefined) return false;
  return held.split(",").some((tag) => tag.trim() === "*" || tag.trim().replace(/^W\//, "") === entityTag);
}

/** Why so strict: a browser's form can send every other type across sites, and a node without auth would obey it. */
function requireJsonType(request: WireRequest): void {
  const type = request.headers["content-type"];
  if (type !== undefined && type !== "application/json" && !jsonType.test(type)) throw unsupportedType();
  const encoding = request.headers["content-encoding"];
  if (encoding === undefined || encoding === "identity") return;
  throw new ServiceError("invalid_request", "content-encoding must be identity", { httpStatus: 415 });
}

const jsonType = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?;?\s*$/i;

function unsupportedType(): ServiceError {
  return new ServiceError("invalid_request", "content-type must be application/json in UTF-8", { httpStatus: 415 });
}

function sendResult(
  { endpoint, write }: Route,
  result: CallResult,
  request: WireRequest,
  response: WireResponse,
): void {
  const headers: ResponseHeaders = {};
  for (const [name, value] of result.headers) headers[name] = value;
  const { status } = endpoint.rule;
  if (request.method === "GET" && isHeld(request.headers["if-none-match"], headers["ETag"]))
    return send(response, 304, headers, undefined);
  if (status === 204) return send(response, status, headers, undefined);
  if (write !== undefined) {
    headers["content-type"] = "application/json";
    return send(response, status, headers, jsonLine(write(result.message)));
  }
  const { contentType, data } = result.message as HttpBody;
  headers["content-type"] = contentType || "application/octet-stream";
  // The bytes are whatever a client stored: no browser must guess that they are a script.
  headers["x-content-type-options"] = "nosniff";
  send(response, status, headers, data);
}
