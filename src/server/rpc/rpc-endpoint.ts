/**
 * What a call of an endpoint is on each of gRPC, gRPC-Web and Connect: read when the pipeline asks for it, dispatched,
 * counted, and refused in one way.
 *
 * Always true: nothing reaches a handler but through the pipeline's Dispatch, and nothing of a body is read but when
 * the pipeline asks for it. Must not know: how an answer is written, what a method does.
 */
import { create } from "@bufbuild/protobuf";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { Trace } from "../../base/trace.ts";
import type { World } from "../../base/world.ts";
import { type Call, type CallResult, ClientGone, type Dispatch } from "../../service/call/call.ts";
import type { AnyEndpoint } from "../../service/call/methods.ts";
import type { Callers } from "../wire/callers.ts";
import type { WireResponse } from "../wire/listener.ts";
import { refusalFor } from "../wire/refusal.ts";
import type { RequestMetrics } from "../wire/request-metrics.ts";
import { WireCall } from "../wire/wire-call.ts";
import { prepareAnswer } from "./rpc-answer.ts";
import { parseTimeoutMs, RpcReader, type RpcReaderOptions, type RpcRequest } from "./rpc-request.ts";

export interface RpcOptions extends RpcReaderOptions {
  readonly dispatch: Dispatch;
  /** Tells who makes a request; absent where authentication is off. */
  readonly callers?: Callers | undefined;
  /** Sees every request for an endpoint. */
  readonly requestMetrics: RequestMetrics;
  readonly world: World;
  readonly log: Log;
}

/** A request whose form is known, and where its answer goes. */
export interface RpcCall extends RpcRequest {
  readonly response: WireResponse;
}

/** Answers the calls of one endpoint. */
export class RpcEndpoint {
  readonly endpoint: AnyEndpoint;
  readonly #options: RpcOptions;
  readonly #reader: RpcReader;

  constructor(endpoint: AnyEndpoint, options: RpcOptions) {
    this.endpoint = endpoint;
    this.#options = options;
    this.#reader = new RpcReader(endpoint, options);
  }

  /**
   * Has the call answered; `write` writes the answer out, and what goes wrong there is a fault like any other.
   * @throws ServiceError
   */
  async answer<Written>(rpc: RpcCall, write: (result: CallResult) => Written): Promise<Written> {
    const { endpoint } = this;
    const { requestMetrics, dispatch, world, log } = this.#options;
    const { form, request } = rpc;
    const visit = requestMetrics.begin(endpoint, form.protocol, request.headers["traceparent"] as string | undefined);
    try {
      const result = await dispatch(this.#buildCall(rpc, visit.trace));
      await prepareAnswer(result.message, world);
      const written = write(result);
      visit.end("ok");
      return written;
    } catch (error) {
      if (error instanceof ClientGone) {
        visit.end("gone");
        throw new ServiceError("unavailable", "the client went away");
      }
      const refusal = refusalFor(error, endpoint.name, world, log, visit.trace);
      visit.end(refusal);
      throw refusal;
    }
  }

  #buildCall(rpc: RpcCall, trace: Trace): Call {
    const { callers, world } = this.#options;
    const { form, request, response, hostDatabase } = rpc;
    // One that is malformed is refused when the call is read: who calls comes first.
    const timeoutMs = parseTimeoutMs(form, request);
    const known = {
      endpoint: this.endpoint,
      message: create(this.endpoint.method.input),
      rest: { isAddressed: false, receive: () => this.#reader.read(rpc) },
      hostDatabase,
      trace,
      deadlineMs: timeoutMs === undefined ? undefined : world.monotonicMs() + timeoutMs,
      answerValuesMax: limits.encodedValuesMax,
    };
    return new WireCall(known, callers, request, response);
  }
}
