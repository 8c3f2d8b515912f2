/**
 * From a tool to a method of the service: a call through the pipeline, in this process.
 *
 * Always true: it is judged, bounded, audited, counted and forwarded as the same call by REST would be, as it is made
 * with the visitor's own identity, address and headers; what a tool gives is decoded by the decoders of REST, and
 * refused with their words. Must not know: tools, the protocol.
 */
import { create, type Message } from "@bufbuild/protobuf";
import { type HttpBody, HttpBodySchema } from "../../../gen/google/api/httpbody_pb.ts";
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { callHeaderNames, ClientGone, type Dispatch } from "../../service/call/call.ts";
import { type AnyEndpoint, isStream } from "../../service/call/methods.ts";
import type { Callers } from "../wire/callers.ts";
import { type BodyDecoder, compileBody } from "../wire/json-decoder.ts";
import type { WireRequest, WireResponse } from "../wire/listener.ts";
import { refusalFor } from "../wire/refusal.ts";
import type { RequestMetrics } from "../wire/request-metrics.ts";
import { WireCall } from "../wire/wire-call.ts";
import { compileWriter } from "../rest/rest-encoder.ts";
import type { JsonObject, ServiceAnswer, ToolHeaders } from "./visit.ts";

export interface ServiceCallsOptions {
  readonly endpoints: readonly AnyEndpoint[];
  readonly dispatch: Dispatch;
  readonly callers?: Callers | undefined;
  readonly requestMetrics: RequestMetrics;
  readonly world: World;
  readonly log: Log;
}

/**
 * What a tool reads unless its client asks for less: a model that has remembered something is to find it in its next
 * call, at whatever node, and no client of the protocol carries the id of a transaction from one call to the next.
 */
const consistencyDefault = "primary";

/** A method with its decoder. */
interface Route {
  readonly endpoint: AnyEndpoint;
  readonly decoder: BodyDecoder;
}

/** The request that calls are made for. */
export interface Origin {
  readonly request: WireRequest;
  readonly response: WireResponse;
}

export class ServiceCalls {
  readonly #options: ServiceCallsOptions;
  readonly #routes = new Map<string, Route>();

  constructor(options: ServiceCallsOptions) {
    this.#options = options;
  }

  /** Calls a method for a request. @throws ServiceError; ClientGone. */
  async call<Body>(
    { request, response }: Origin,
    method: string,
    fields: JsonObject,
    headers: ToolHeaders = {},
  ): Promise<ServiceAnswer<Body>> {
    const { callers, dispatch, requestMetrics, world, log } = this.#options;
    const { endpoint, decoder } = this.#routeOf(method);
    const visit = requestMetrics.begin(endpoint, "mcp", request.headers["traceparent"] as string | undefined);
    try {
      const message = create(endpoint.method.input);
      if (!decoder.decode(message, fields)) throw invalid("an integer is beyond 2^53: send it as a string");
      const known = {
        endpoint,
        message,
        rest: undefined,
        hostDatabase: undefined,
        trace: visit.trace,
        deadlineMs: undefined,
      };
      const consistency = (request.headers[callHeaderNames.consistency] as string | undefined) ?? consistencyDefault;
      const given = { consistency, ...headers };
      const result = await dispatch(new WireCall(known, callers, request, response, given));
      visit.end("ok");
      return { body: readBody(endpoint, result.message) as Body, headers: new Map(result.headers) };
    } catch (error) {
      if (error instanceof ClientGone) {
        visit.end("gone");
        throw error;
      }
      const refusal = refusalFor(error, method, world, log, visit.trace);
      visit.end(refusal);
      throw refusal;
    }
  }

  #routeOf(method: string): Route {
    const known = this.#routes.get(method);
    if (known) return known;
    const endpoint = this.#options.endpoints.find(({ name }) => name === method);
    assert(endpoint && !isStream(endpoint), `${method} is a method that gives one message`);
    const route = { endpoint, decoder: compileBody(endpoint.method.input.fields) };
    this.#routes.set(method, route);
    return route;
  }
}

function readBody({ method: { output } }: AnyEndpoint, message: Message): unknown {
  if (output.typeName !== HttpBodySchema.typeName) return JSON.parse(compileWriter(output)(message));
  const { contentType, data } = message as HttpBody;
  return { content_type: contentType, bytes: data };
}
