/**
 * The one way in: every call of every wire passes here, in this order.
 *
 * deadline, headers, room (control rate, concurrency), handler, stamp. A wire cannot reach a handler but through
 * `dispatch`, so what is checked here is checked on all of them.
 */
import { create } from "@bufbuild/protobuf";
import { invalid, ServiceError } from "../base/errors.ts";
import type { World } from "../base/world.ts";
import { Concurrency, Rate } from "./admission.ts";
import type { Call, CallResult, Dispatch } from "./call.ts";
import type { Context, HandlerTable } from "./context.ts";

export interface PipelineOptions {
  readonly handlers: HandlerTable;
  readonly world: World;
  readonly requestTimeoutMs: number;
  readonly concurrencyMax: number;
  readonly controlPerSecond: number;
  /** What a write waits for before it is answered; a call can ask for more, never for less. */
  readonly durability: "standard" | "durable";
}

const txidHeader = "Service-Txid";
const durableTxidHeader = "Service-Durable-Txid";

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
    return { message: create(call.endpoint.method.output, message), headers: headersOf(context) };
  } catch (error) {
    throw stamped(error, context);
  }
}

function headersOf({ txid, durableTxid }: Context): readonly (readonly [string, string])[] {
  const headers: [string, string][] = [];
  if (txid !== undefined) headers.push([txidHeader, String(txid)]);
  if (durableTxid !== undefined) headers.push([durableTxidHeader, String(durableTxid)]);
  return headers;
}

/** A refusal after the database was resolved tells its transaction ids too, where they are known. */
function stamped(error: unknown, context: Context): unknown {
  if (!(error instanceof ServiceError)) return error;
  const txid = error.detail.txid ?? context.txid;
  if (txid === undefined) return error;
  const { durableTxid } = context;
  const headers = durableTxid === undefined ? {} : { headers: { ...error.detail.headers, [durableTxidHeader]: String(durableTxid) } };
  return new ServiceError(error.code, error.message, { ...error.detail, txid, ...headers });
}

function openContext(call: Call, options: PipelineOptions): Context {
  const nodeDeadlineMs = options.world.monotonicMs() + options.requestTimeoutMs;
  return {
    call,
    deadlineMs: Math.min(nodeDeadlineMs, call.deadlineMs ?? Infinity),
    minTxid: minTxidOf(call.headers.minTxid),
    txid: undefined,
    durableTxid: undefined,
    ...checkedHeaders(call, options.durability),
  };
}

function minTxidOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const txid = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(txid)) throw invalid("Service-Min-Txid must be a transaction id, a non-negative integer");
  return txid;
}

function checkedHeaders(call: Call, nodeDurability: "standard" | "durable"): Pick<Context, "consistency" | "durable"> {
  const { consistency, durability } = call.headers;
  if (consistency !== undefined && consistency !== "primary" && consistency !== "cached") {
    throw invalid("Service-Consistency must be primary or cached");
  }
  if (durability !== undefined && durability !== "standard" && durability !== "durable") {
    throw invalid("Service-Durability must be standard or durable");
  }
  return { consistency, durable: durability === "durable" || nodeDurability === "durable" };
}
