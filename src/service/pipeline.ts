/**
 * The one way in: every call of every wire passes here, in this order.
 *
 * deadline, headers, room (control rate, concurrency), handler, stamp. A wire cannot reach a handler but through
 * `dispatch`, so what is checked here is checked on all of them.
 */
import { create } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { Scope } from "../../gen/palimpsest/v1/options_pb.ts";
import { invalid, ServiceError } from "../base/errors.ts";
import type { World } from "../base/world.ts";
import { Concurrency, Rate } from "./admission.ts";
import type { Call, CallResult, Dispatch } from "./call.ts";
import type { Context, HandlerTable } from "./context.ts";
import type { Endpoint } from "./methods.ts";

export interface PipelineOptions {
  readonly handlers: HandlerTable;
  readonly world: World;
  readonly requestTimeoutMs: number;
  readonly concurrencyMax: number;
  readonly controlPerSecond: number;
}

const txidHeader = "Service-Txid";

/** Builds the pipeline over a table of handlers. */
export function createPipeline(options: PipelineOptions): Dispatch {
  const concurrency = new Concurrency(options.concurrencyMax);
  const rate = new Rate(options.controlPerSecond, options.world);

  async function dispatch(call: Call): Promise<CallResult> {
    const context = openContext(call, options);
    if (call.endpoint.rule.control) rate.take(call.remoteAddress);
    const place = concurrency.enter();
    if (place) await place;
    try {
      return await run(call, context, options.handlers);
    } finally {
      concurrency.leave();
    }
  }
  return dispatch;
}

async function run(call: Call, context: Context, handlers: HandlerTable): Promise<CallResult> {
  const handler = handlers.get(call.endpoint.name);
  if (!handler) throw new Error(`no handler for ${call.endpoint.name}`);
  try {
    const message = await handler(call.message, context);
    return { message: create(call.endpoint.method.output, message), headers: headersOf(context.txid) };
  } catch (error) {
    throw stamped(error, context.txid);
  }
}

function headersOf(txid: number | undefined): readonly (readonly [string, string])[] {
  return txid === undefined ? [] : [[txidHeader, String(txid)]];
}

/** A refusal after the database was resolved tells its transaction id too; the wire makes the header of it. */
function stamped(error: unknown, seenTxid: number | undefined): unknown {
  if (!(error instanceof ServiceError)) return error;
  const txid = error.detail.txid ?? seenTxid;
  if (txid === undefined) return error;
  return new ServiceError(error.code, error.message, { ...error.detail, txid });
}

function openContext(call: Call, options: PipelineOptions): Context {
  const nodeDeadlineMs = options.world.monotonicMs() + options.requestTimeoutMs;
  return {
    call,
    deadlineMs: Math.min(nodeDeadlineMs, call.deadlineMs ?? Infinity),
    minTxid: minTxidOf(call.headers.minTxid),
    txid: undefined,
    ...checkedHeaders(call),
  };
}

function minTxidOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const txid = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(txid)) throw invalid("Service-Min-Txid must be a transaction id, a non-negative integer");
  return txid;
}

function checkedHeaders(call: Call): Pick<Context, "consistency" | "durable"> {
  const { consistency, durability } = call.headers;
  if (consistency !== undefined && consistency !== "primary" && consistency !== "cached") {
    throw invalid("Service-Consistency must be primary or cached");
  }
  if (durability !== undefined && durability !== "standard" && durability !== "durable") {
    throw invalid("Service-Durability must be standard or durable");
  }
  const durable = durability === "durable";
  if (durable && writes(call.endpoint)) throw notDurable();
  return { consistency, durable };
}

/** The refusal of a durable acknowledgement, which needs shipping to object storage. */
export function notDurable(): ServiceError {
  const message = "this build keeps databases on the node's disk alone and cannot give durable acknowledgements";
  return new ServiceError("unavailable", message, { retryAfterSecs: 60 });
}

/** Whether every success of the endpoint may change a database; user SQL decides for itself. */
function writes(endpoint: Endpoint): boolean {
  return endpoint.rule.scope >= Scope.WRITE && endpoint.method.idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
}
