/** Entry of a thread that makes segments from logs, one at a time, for one engine thread. */
import { parentPort } from "node:worker_threads";
import { assert } from "../base/assert.ts";
import { codeOf, StoreError } from "../base/errors.ts";
import { inlinePress } from "../format/press.ts";
import { WalChanged } from "../sqlite/wal-reader.ts";
import { makeSegment } from "./segment-maker.ts";
import type { MadeMessage, MakingFault, OrderMessage } from "./threaded-maker.ts";

assert(parentPort, "this file is the entry of a worker thread");
const port = parentPort;

function faultOf(error: unknown): MakingFault {
  const storeKind = error instanceof StoreError ? error.kind : undefined;
  return { storeKind, isChanged: error instanceof WalChanged, code: codeOf(error), message: error instanceof Error ? error.message : String(error) };
}

async function run({ id, order }: OrderMessage): Promise<void> {
  try {
    // Nothing else happens on this thread, so the press is its own.
    const made = await makeSegment(order, inlinePress);
    const given = made ? [made.segment.bytes, ...(made.start ? [made.start.images] : [])] : [];
    port.postMessage({ id, made } satisfies MadeMessage, given.map(({ buffer }) => buffer as ArrayBuffer));
  } catch (error) {
    port.postMessage({ id, made: undefined, fault: faultOf(error) } satisfies MadeMessage);
  }
}

let turn = Promise.resolve();
port.on("message", (message: OrderMessage) => void (turn = turn.then(() => run(message))));
