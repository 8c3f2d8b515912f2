/**
 * What a handler gets beside its request, and the shape of a handler.
 */
import type { DescService, Message, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { ErrorCode } from "../../base/faults/errors.ts";
import type { Identity, ScopeName } from "../../control/access/identity.ts";
import type { CallerTold, CallOptions } from "../../engine/api/engine-port.ts";
import type { Answer } from "../../engine/api/protocol.ts";
import type { AuditEgress, AuditOutcome } from "../../format/audit/audit-event.ts";
import type { Call } from "./call.ts";
import type { Idempotency } from "./idempotency.ts";

/** What a call let out to a model that writes, or would have. */
export interface EgressTold {
  readonly outcome: AuditOutcome;
  readonly egress: AuditEgress;
  readonly errorCode?: ErrorCode | undefined;
}

/** One call on its way through the pipeline. */
export interface Context {
  readonly call: Call;
  /** The caller; anonymous on a node without authentication, and until the pipeline has identified it. */
  identity: Identity;
  /** The only database that the caller's credential was judged for, where that matters; targets refuse another. */
  judgedUuid: string | undefined;
  /** Whether the caller may make the call. What is forbidden beyond that, a policy forbids. */
  admitted: boolean;
  /**
   * Throws forbidden unless the caller may do on this call's database what needs the scope. For what a path does not
   * tell.
   */
  readonly demand: (scope: ScopeName) => Promise<unknown>;
  /** Throws unless the caller may still make the call: for what lasts long. */
  readonly recheck: () => Promise<void>;
  // What the headers ask for is judged once the caller is admitted; until then it is the node's own.
  /** On world.monotonicMs(): the caller waits no longer than this. Begins when the request has come whole. */
  deadlineMs: number;
  /** The least transaction id that the answer may speak of; 0 when the caller does not mind. */
  minTxid: number;
  /** Whether a write is answered only when object storage covers it: the caller or the node wants it so. */
  durable: boolean;
  consistency: "primary" | "cached" | undefined;
  /** The earlier state that a read is of; undefined for the newest. */
  at: string | undefined;
  /** The keys of the writes that the call makes, where the caller may repeat it. */
  idempotency: Idempotency | undefined;
  /** Set by the part that learns it; becomes the `Service-Txid` header. */
  txid: number | undefined;
  /** How far object storage covers the branch; known from the same answer, and becomes `Service-Durable-Txid`. */
  durableTxid: number | undefined;
  /** The coupon of the erasure that the call has begun; becomes `Service-Erasure-Id`. */
  erasureId: string | undefined;
  /** Whether an earlier call with the same key was answered so; becomes `Idempotency-Replayed`. */
  isRepeat: boolean;
  /** The entity tag of what the answer holds, with its quotes; becomes the `ETag` header. */
  entityTag: string | undefined;
  /** When what the answer holds expires, in Unix milliseconds; becomes the `Service-Expires-At` header. */
  expiresAt: number | undefined;
  /** Whom what the answer holds is about; becomes the `Service-Subject` header. */
  subject: string | undefined;
  /**
   * Set by a call that asks a model, when policy has refused it or it is over; undefined while nothing has left the
   * node.
   */
  egress: EgressTold | undefined;
  /** Set by a call that may change its database or not, once it is known that it would. */
  mutates: boolean;
}

/** One function per rpc of a service, typed by its descriptor. */
export type ServiceHandlers<Service extends DescService> = {
  readonly [Name in keyof Service["method"]]: (
    request: MessageShape<Service["method"][Name]["input"]>,
    context: Context,
  ) => Promise<Result<Service["method"][Name]["methodKind"], MessageInitShape<Service["method"][Name]["output"]>>>;
};

type Result<Kind, Output> = Kind extends "server_streaming" ? AsyncIterable<Output> : Output;

/** A handler whose types have been checked where it was defined. */
export type Handler = (request: Message, context: Context) => Promise<Record<string, unknown> | AsyncIterable<unknown>>;

/** Handlers by endpoint name, such as `MemoryService.Ingest`. */
export type HandlerTable = ReadonlyMap<string, Handler>;

/** Puts a service's handlers under their endpoint names. */
export function handlerEntries<Service extends DescService>(
  service: Service,
  handlers: ServiceHandlers<Service>,
): [string, Handler][] {
  return service.methods.map((method) => [
    `${service.name}.${method.name}`,
    (handlers as unknown as Record<string, Handler>)[method.localName]!,
  ]);
}

/** The engine's options for this call; `bytes` is about how large the input is. */
export function engineOptions(context: Context, bytes = 0): CallOptions {
  const { call, deadlineMs, minTxid, durable, consistency, at, identity, idempotency } = context;
  const caller = callerTold(identity);
  return { deadlineMs, minTxid, durable, consistency, at, bytes, caller, idempotency, trace: call.trace };
}

function callerTold(identity: Identity): CallerTold {
  return {
    kind: identity.kind,
    scope: identity.kind === "token" ? identity.scope : undefined,
    hash: identity.kind === "anonymous" ? undefined : identity.hash,
  };
}

/** The answer of a database that was never written. */
export const unborn: Answer<undefined> = { value: undefined, txid: 0, durableTxid: 0 };

/**
 * Notes which state the answer speaks of, and gives its value with the transaction id in the form of a message field.
 */
export function seen<Value>(context: Context, answer: Answer<Value>): { readonly value: Value; readonly txid: bigint } {
  context.txid = answer.txid;
  context.durableTxid = answer.durableTxid;
  context.isRepeat ||= answer.isRepeat ?? false;
  return { value: answer.value, txid: BigInt(answer.txid) };
}
