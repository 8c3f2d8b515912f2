/**
 * A call, whatever wire it came by: what the pipeline is given, and what it gives back.
 *
 * Always true: no wire reaches a handler but through a Dispatch. Nothing here knows HTTP or gRPC.
 */
import type { Message } from "@bufbuild/protobuf";
import type { Trace } from "../base/trace.ts";
import type { Identity } from "../control/identity.ts";
import type { Endpoint } from "./methods.ts";

/** The service's own request headers as they were received; the pipeline judges their values. */
export interface CallHeaders {
  readonly branch?: string | undefined;
  readonly minTxid?: string | undefined;
  readonly consistency?: string | undefined;
  readonly durability?: string | undefined;
  readonly internal?: string | undefined;
}

/** The header of each field of CallHeaders, in the lower case in which both HTTP versions give it. */
export const callHeaderNames = {
  branch: "service-branch",
  minTxid: "service-min-txid",
  consistency: "service-consistency",
  durability: "service-durability",
  internal: "service-internal",
} as const satisfies Record<keyof CallHeaders, string>;

/** Reads the service's own headers through `valueOf`, which gives a header by its lower-case name. */
export function callHeadersOf(valueOf: (name: string) => string | undefined): CallHeaders {
  return {
    branch: valueOf(callHeaderNames.branch),
    minTxid: valueOf(callHeaderNames.minTxid),
    consistency: valueOf(callHeaderNames.consistency),
    durability: valueOf(callHeaderNames.durability),
    internal: valueOf(callHeaderNames.internal),
  };
}

export interface Call {
  readonly endpoint: Endpoint;
  /** The request, of the type `endpoint.method.input`; path and query are folded in. */
  readonly message: Message;
  /**
   * Who bears the credential, where the wire asked before it read the body; when it rejects, the body was not read and
   * the message holds the fields of path and query only.
   */
  readonly caller?: Identity | Promise<Identity> | undefined;
  /** The bearer token as received, without `Bearer `. */
  readonly credential: string | undefined;
  readonly remoteAddress: string;
  /** The database, `name` or `name@branch`, that the Host header names when it is `{db}.{suffix}`. */
  readonly hostDatabase: string | undefined;
  readonly headers: CallHeaders;
  /** When the client stops waiting, on `world.monotonicMs()`; undefined when it did not say. */
  readonly deadlineMs: number | undefined;
  /** The trace that the call belongs to. */
  readonly trace?: Trace | undefined;
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal | undefined;
}

export interface CallResult {
  /** The answer, of the type `endpoint.method.output`. */
  readonly message: Message;
  /** Response headers by name, such as `Service-Txid`; on gRPC they are response metadata. */
  readonly headers: readonly (readonly [string, string])[];
}

/** The pipeline's only door. Refusals are thrown as ServiceError. */
export type Dispatch = (call: Call) => Promise<CallResult>;
