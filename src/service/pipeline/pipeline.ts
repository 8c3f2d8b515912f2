/**
 * The one way in: every call of every wire passes here, in this order.
 *
 * deadline, who, may (which database, scope, coverage, revocation), the rest of the request, headers, what the proto
 * file allows of it, room (control rate, concurrency), handler, stamp. Where only the rest of the request says what the
 * call is about, it is read once it is known who calls, and a caller without permission is told that before what is
 * wrong with the request: 401, 403, 413, 400, on every wire. A wire cannot reach a handler but through `dispatch`, so
 * what is checked here is checked on all of them.
 */
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type ErrorCode, invalid, ServiceError, StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { anonymous } from "../../control/access/identity.ts";
import { Rate, Shares, type Concurrency } from "./admission.ts";
import type { Authorization } from "./caller-check.ts";
import { type Call, type CallResult, ClientGone, type Dispatch, type RestOfCall, Unread } from "../call/call.ts";
import { checkState } from "../../format/core/state-names.ts";
import { checkConditions } from "../call/conditions.ts";
import { readIdempotency } from "../call/idempotency.ts";
import type { Context, HandlerTable } from "../call/context.ts";
import { compileCheck } from "../call/message-checks.ts";
import { allEndpoints, isStream } from "../call/methods.ts";

export interface PipelineOptions {
  readonly handlers: HandlerTable;
  readonly world: World;
  readonly requestTimeoutMs: number;
  /** The places that calls take while they run. */
  readonly concurrency: Concurrency;
  readonly controlPerSecond: number;
  /**
   * What one credential, or one address where authentication is off, may take of this node beside the control plane;
   * absent: no bound.
   */
  readonly callerPerSecond?: number | undefined;
  readonly callerConcurrency?: number | undefined;
  /** What a write waits for before it is answered; a call can ask for more, never for less. */
  readonly durability: "standard" | "durable";
  /** Absent on a node without authentication: every caller may do everything. */
  readonly authorization?: Authorization | undefined;
  /** Told of every call when it is over, however it ended. Must neither throw nor take long. */
  readonly audit?: ((context: Context, result: Outcome) => void) | undefined;
}

/** By endpoint: refuses a request whose fields hold what the proto file does not allow. */
const checks = new Map(allEndpoints.map((endpoint) => [endpoint, compileCheck(endpoint.method.input)]));

/** How a call ended. */
export type Outcome =
  | { readonly outcome: "ok"; readonly message: Message }
  | { readonly outcome: "denied" | "error"; readonly code: ErrorCode };

const txidHeader = "Service-Txid";
const durableTxidHeader = "Service-Durable-Txid";
const erasureIdHeader = "Service-Erasure-Id";
const entityTagHeader = "ETag";
const expiresAtHeader = "Service-Expires-At";
const subjectHeader = "Service-Subject";
const repeatHeader = "Idempotency-Replayed";

/** Builds the pipeline over a table of handlers. */
export function createPipeline(options: PipelineOptions): Dispatch {
  const rate = new Rate(options.controlPerSecond, options.world);
  const { authorization, audit, concurrency, callerPerSecond, callerConcurrency } = options;
  const callerRate =
    callerPerSecond === undefined ? undefined : new Rate(callerPerSecond, options.world, "requests of this credential");
  const shares = callerConcurrency === undefined ? undefined : new Shares(callerConcurrency);

  async function answer(call: Call, context: Context): Promise<CallResult> {
    if (authorization) context.identity = await (call.caller ?? authorization.identify(call.credential));
    const isAddressed = call.rest === undefined || call.rest.isAddressed;
    if (authorization && isAddressed) context.judgedUuid = await authorization.check(call, context.identity);
    if (call.rest) call.message = await receive(call, call.rest, context, authorization);
    if (authorization && !isAddressed) context.judgedUuid = await authorization.check(call, context.identity);
    context.admitted = true;
    readHeaders(call, context);
    const checked = checks.get(call.endpoint)?.(call.message, options.world);
    if (checked) await checked;
    context.deadlineMs = Math.min(options.world.monotonicMs() + options.requestTimeoutMs, call.deadlineMs ?? Infinity);
    if (call.endpoint.rule.control) rate.take(getCaller(context));
    else callerRate?.take(getCaller(context));
    if (!shares) return placed(call, context);
    const caller = getCaller(context);
    shares.enter(caller);
    try {
      return await placed(call, context);
    } finally {
      shares.leave(caller);
    }
  }

  async function placed(call: Call, context: Context): Promise<CallResult> {
    const place = concurrency.enter();
    if (place) await place;
    try {
      return await run(call, context, options.handlers);
    } finally {
      concurrency.leave();
    }
  }

  return async (call) => {
    const context = openContext(call, options);
    try {
      const result = await answer(call, context);
      audit?.(context, { outcome: "ok", message: result.message });
      return result;
    } catch (error) {
      if (!(error instanceof ClientGone)) audit?.(context, toFailure(error));
      throw error;
    }
  };
}

/** Reads the rest of the request. Only a caller that may do what it is about is told what is wrong with it. */
async function receive(
  { endpoint }: Call,
  rest: RestOfCall,
  context: Context,
  authorization: Authorization | undefined,
): Promise<Message> {
  try {
    return await rest.receive();
  } catch (error) {
    if (!(error instanceof Unread)) throw error;
    if (authorization && !rest.isAddressed) authorization.checkUnread(endpoint, error.address, context.identity);
    throw error.refusal;
  }
}

/** Whose share of the control rate a call takes. */
function getCaller({ call, identity }: Context): string {
  return identity.kind === "anonymous" ? call.remoteAddress : identity.hash;
}

function toFailure(error: unknown): Outcome {
  const isPassing = error instanceof StoreError && (error.kind === "unavailable" || error.kind === "unknown_outcome");
  const code = error instanceof ServiceError ? error.code : isPassing ? "unavailable" : "internal";
  return { outcome: code === "forbidden" || code === "unauthorized" ? "denied" : "error", code };
}

async function run(call: Call, context: Context, handlers: HandlerTable): Promise<CallResult> {
  const handler = handlers.get(call.endpoint.name);
  if (!handler) throw new Error(`no handler for ${call.endpoint.name}`);
  try {
    const given = await handler(call.message, context);
    const { output } = call.endpoint.method;
    const headers = listHeaders(context);
    if (!isStream(call.endpoint)) return { message: create(output, given as Record<string, unknown>), headers };
    return { message: create(output), messages: eachAs(output, given as AsyncIterable<MessageInit>), headers };
  } catch (error) {
    throw stamped(error, context);
  }
}

type MessageInit = Record<string, unknown>;

async function* eachAs(output: DescMessage, given: AsyncIterable<MessageInit>): AsyncGenerator<Message> {
  for await (const message of given) yield create(output, message);
}

function listHeaders({
  txid,
  durableTxid,
  erasureId,
  entityTag,
  expiresAt,
  subject,
  isRepeat,
}: Context): readonly (readonly [string, string])[] {
  const headers: [string, string][] = [];
  if (txid !== undefined) headers.push([txidHeader, String(txid)]);
  if (durableTxid !== undefined) headers.push([durableTxidHeader, String(durableTxid)]);
  if (erasureId !== undefined) headers.push([erasureIdHeader, erasureId]);
  if (entityTag !== undefined) headers.push([entityTagHeader, entityTag]);
  if (expiresAt !== undefined) headers.push([expiresAtHeader, String(expiresAt)]);
  if (subject !== undefined) headers.push([subjectHeader, encodeURIComponent(subject)]);
  if (isRepeat) headers.push([repeatHeader, "true"]);
  return headers;
}

/** A refusal after the database was resolved carries its transaction ids too, where they are known. */
function stamped(error: unknown, context: Context): unknown {
  if (!(error instanceof ServiceError)) return error;
  const txid = error.detail.txid ?? context.txid;
  if (txid === undefined) return error;
  const { durableTxid } = context;
  const headers =
    durableTxid === undefined ? {} : { headers: { ...error.detail.headers, [durableTxidHeader]: String(durableTxid) } };
  return new ServiceError(error.code, error.message, { ...error.detail, txid, ...headers });
}

function openContext(call: Call, options: PipelineOptions): Context {
  const context: Context = {
    call,
    identity: anonymous,
    judgedUuid: undefined,
    admitted: false,
    demand: async (scope) => options.authorization?.check(call, context.identity, scope),
    recheck: async () => {
      const { authorization } = options;
      await authorization?.check(call, await authorization.identify(call.credential));
    },
    deadlineMs: 0,
    minTxid: 0,
    consistency: undefined,
    at: undefined,
    idempotency: undefined,
    isRepeat: false,
    durable: options.durability === "durable",
    txid: undefined,
    durableTxid: undefined,
    erasureId: undefined,
    entityTag: undefined,
    expiresAt: undefined,
    subject: undefined,
    egress: undefined,
    mutates: false,
  };
  return context;
}

function parseMinTxid(text: string | undefined): number {
  if (text === undefined) return 0;
  const txid = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(txid))
    throw invalid("Service-Min-Txid must be a transaction id, a non-negative integer");
  return txid;
}

/** The earlier state that a read is asked to be of. A call that is no read of a database refuses it. */
function readAt({ headers: { at }, endpoint: { rule } }: Call): string | undefined {
  if (at === undefined) return undefined;
  if (!rule.at) throw invalid("Service-At is for reads of a database: this call takes none");
  return checkState("Service-At", at);
}

/** Judges what the headers ask for, and notes it. */
function readHeaders(call: Call, context: Context): void {
  const { minTxid, consistency, durability } = call.headers;
  context.minTxid = parseMinTxid(minTxid);
  if (consistency !== undefined && consistency !== "primary" && consistency !== "cached") {
    throw invalid("Service-Consistency must be primary or cached");
  }
  if (durability !== undefined && durability !== "standard" && durability !== "durable") {
    throw invalid("Service-Durability must be standard or durable");
  }
  context.consistency = consistency;
  context.durable ||= durability === "durable";
  checkConditions(call);
  context.idempotency = readIdempotency(call);
  context.at = readAt(call);
}
