/**
 * A request of any wire as the pipeline's Call: what its headers and its connection say, read when it is asked for.
 *
 * Always true: nothing is made that nobody asks for. Most calls are over before a client could go away, and a signal
 * costs as much as finding the route. Must not know: how a wire reads a message, what a method does.
 */
import type { Message } from "@bufbuild/protobuf";
import { invalid } from "../../base/faults/errors.ts";
import type { Trace } from "../../base/trace.ts";
import { type Call, type CallHeaders, readCallHeaders, type RestOfCall } from "../../service/call/call.ts";
import type { AnyEndpoint } from "../../service/call/methods.ts";
import { goneSignal, readCredential } from "./call-headers.ts";
import type { Callers } from "./callers.ts";
import type { WireRequest, WireResponse } from "./listener.ts";

/** What a wire has found out of a call. */
export type KnownOfCall = Pick<
  Call,
  "endpoint" | "message" | "rest" | "hostDatabase" | "trace" | "deadlineMs" | "answerValuesMax"
> & {
  /** The header `Service-At`, where the wire has it elsewhere too. */
  readonly at?: string | undefined;
};

/** The call that a request makes. */
export class WireCall implements Call {
  readonly #callers: Callers | undefined;
  readonly #request: WireRequest;
  readonly #response: WireResponse;
  #signal: AbortSignal | undefined;
  readonly endpoint: AnyEndpoint;
  message: Message;
  readonly rest: RestOfCall | undefined;
  readonly hostDatabase: string | undefined;
  readonly trace: Trace | undefined;
  readonly deadlineMs: number | undefined;
  readonly answerValuesMax: number | undefined;
  readonly headers: CallHeaders;
  readonly remoteAddress: string;

  /** `given` are headers that the wire has elsewhere; they stand in the place of the request's own. */
  constructor(
    known: KnownOfCall,
    callers: Callers | undefined,
    request: WireRequest,
    response: WireResponse,
    given?: CallHeaders,
  ) {
    this.#callers = callers;
    this.#request = request;
    this.#response = response;
    this.endpoint = known.endpoint;
    this.message = known.message;
    this.rest = known.rest;
    this.hostDatabase = known.hostDatabase;
    this.trace = known.trace;
    this.deadlineMs = known.deadlineMs;
    this.answerValuesMax = known.answerValuesMax;
    const headers = readCallHeaders((name) => request.headers[name] as string | undefined);
    if (known.at !== undefined && headers.at !== undefined && headers.at !== known.at)
      throw invalid("the state to read is given twice, with different values: as a query and as Service-At");
    this.headers = known.at === undefined && !given ? headers : { ...headers, ...given, at: known.at ?? given?.at };
    this.remoteAddress = readRemoteAddress(request);
  }

  // Asked where its refusal is waited for: what goes wrong before must not leave it behind, unheard.
  get caller(): Call["caller"] {
    return this.#callers?.of(this.#request);
  }

  // Not needed where the caller is known.
  get credential(): string | undefined {
    return readCredential(this.#request);
  }

  get signal(): AbortSignal {
    this.#signal ??= goneSignal(this.#response);
    return this.#signal;
  }
}

function readRemoteAddress(request: WireRequest): string {
  // A stream's own socket is made for each stream when it is asked for; the session's is there.
  const socket = "stream" in request ? request.stream.session?.socket : request.socket;
  return socket?.remoteAddress ?? "";
}
