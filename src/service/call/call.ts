/**
 * A call, whatever wire it came by: what the pipeline is given, and what it gives back.
 *
 * Always true: no wire reaches a handler but through a Dispatch. Nothing here knows HTTP or gRPC.
 */
import type { Message } from "@bufbuild/protobuf";
import type { ServiceError } from "../../base/faults/errors.ts";
import type { Trace } from "../../base/trace.ts";
import type { Identity } from "../../control/access/identity.ts";
import type { AnyEndpoint } from "./methods.ts";

/**
 * The service's own request headers, and HTTP's conditions, as they were received; the pipeline and the handlers judge
 * their values.
 */
export interface CallHeaders {
  readonly branch?: string | undefined;
  readonly minTxid?: string | undefined;
  readonly consistency?: string | undefined;
  readonly durability?: string | undefined;
  readonly internal?: string | undefined;
  readonly ifMatch?: string | undefined;
  readonly ifNoneMatch?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** On REST also given as a query parameter. */
  readonly at?: string | undefined;
  readonly lastEventId?: string | undefined;
}

/** The header of each field of CallHeaders, in the lower case in which both HTTP versions give it. */
export const callHeaderNames = {
  branch: "service-branch",
  minTxid: "service-min-txid",
  consistency: "service-consistency",
  durability: "service-durability",
  internal: "service-internal",
  ifMatch: "if-match",
  ifNoneMatch: "if-none-match",
  idempotencyKey: "idempotency-key",
  at: "service-at",
  lastEventId: "last-event-id",
} as const satisfies Record<keyof CallHeaders, string>;

/** Reads the service's own headers through `getHeader`, which gives a header by its lower-case name. */
export function readCallHeaders(getHeader: (name: string) => string | undefined): CallHeaders {
  return {
    branch: getHeader(callHeaderNames.branch),
    minTxid: getHeader(callHeaderNames.minTxid),
    consistency: getHeader(callHeaderNames.consistency),
    durability: getHeader(callHeaderNames.durability),
    internal: getHeader(callHeaderNames.internal),
    ifMatch: getHeader(callHeaderNames.ifMatch),
    ifNoneMatch: getHeader(callHeaderNames.ifNoneMatch),
    idempotencyKey: getHeader(callHeaderNames.idempotencyKey),
    at: getHeader(callHeaderNames.at),
    lastEventId: getHeader(callHeaderNames.lastEventId),
  };
}

/** The part of a request that is not looked at before its caller is known. */
export interface RestOfCall {
  /** Whether the message says without it what the call is about. */
  readonly isAddressed: boolean;
  /**
   * Reads it and gives the whole message. To be called once.
   * @throws ServiceError, or Unread where it may still be known what the call is about; ClientGone.
   */
  receive(): Promise<Message>;
}

export interface Call {
  readonly endpoint: AnyEndpoint;
  /** The request, of the type `endpoint.method.input`: what is known of it while there is a rest, and then whole. */
  message: Message;
  /** What of the request has not been read yet; absent where `message` is whole. */
  readonly rest?: RestOfCall | undefined;
  /** Who bears the credential, where the wire has asked already. */
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
  /** How many values of any JSON the wire carries in one answer; undefined where it has no such bound. */
  readonly answerValuesMax?: number | undefined;
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal | undefined;
}

/** The client went away before its request was whole: there is no one to answer, and nothing to report. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}

/**
 * The refusal of a request that cannot be read, and what it is about nevertheless: a caller without permission for that
 * is told so first.
 */
export class Unread extends Error {
  override readonly name = "Unread";
  readonly refusal: ServiceError;
  /** Holds the fields that say what the request is about; undefined where they cannot be told. */
  readonly address: Message | undefined;

  constructor(refusal: ServiceError, address: Message | undefined) {
    super(refusal.message);
    this.refusal = refusal;
    this.address = address;
  }
}

export interface CallResult {
  /** The answer, of the type `endpoint.method.output`. */
  readonly message: Message;
  /** Of a method that gives a stream: its messages, in the place of `message`; it ends by itself or with a refusal. */
  readonly messages?: AsyncIterable<Message> | undefined;
  /** Response headers by name, such as `Service-Txid`; on gRPC they are response metadata. */
  readonly headers: readonly (readonly [string, string])[];
}

/** The pipeline's only door. Refusals are thrown as ServiceError. */
export type Dispatch = (call: Call) => Promise<CallResult>;
