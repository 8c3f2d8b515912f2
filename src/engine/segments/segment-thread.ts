/**
 * Entry of a thread that makes segments, of logs and of files, one at a time, and restores files beside that, for one
 * engine thread.
 */
import { constants, platform, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import { assert } from "../../base/faults/assert.ts";
import { getErrorCode, StoreError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { inlinePress, threadedPress } from "../../format/core/compression.ts";
import { IdleMemory } from "../../sqlite/idle-memory.ts";
import { WalChanged } from "../../sqlite/wal/wal-reader.ts";
import { inlineMaker } from "./inline-maker.ts";
import { objectsThrough } from "./objects-through.ts";
import type { Made, MadeMessage, MakingFault, Order, OrderMessage } from "./threaded-maker.ts";

assert(parentPort, "this file is the entry of a worker thread");
const port = parentPort;
// What callers wait for comes first; what is made here keeps a share of a busy processor. Elsewhere than on Linux a
// priority is the whole process's.
if (platform() === "linux") setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

function toMakingFault(error: unknown): MakingFault {
  const storeKind = error instanceof StoreError ? error.kind : undefined;
  return {
    storeKind,
    isChanged: error instanceof WalChanged,
    code: getErrorCode(error),
    message: error instanceof Error ? error.message : String(error),
  };
}

// Nothing else happens on this thread, so the press is its own.
const maker = inlineMaker(inlinePress);
// But for restores: between two frames an order has its turn.
const restorer = inlineMaker(threadedPress);

/** What comes of an order, and which memory of it is the receiver's alone from then on. */
async function make(order: Order): Promise<{ readonly made: Made; readonly given: readonly Uint8Array[] }> {
  switch (order.kind) {
    case "segment": {
      const made = await maker.make(order.order);
      return { made, given: made ? [made.segment.bytes, ...(made.start ? [made.start.images] : [])] : [] };
    }
    case "image": {
      const made = await maker.image(order.order);
      return { made, given: [made.bytes] };
    }
    case "state":
      return { made: await maker.state(order.path, order.check), given: [] };
    case "restore":
      return { made: await restorer.restore(order.order, objectsThrough(order.objects)), given: [] };
    case "remove":
      await maker.remove(order.path);
      return { made: undefined, given: [] };
  }
}

async function run({ id, order }: OrderMessage): Promise<void> {
  try {
    const { made, given } = await make(order);
    port.postMessage(
      { id, made } satisfies MadeMessage,
      given.map(({ buffer }) => buffer as ArrayBuffer),
    );
  } catch (error) {
    port.postMessage({ id, made: undefined, fault: toMakingFault(error) } satisfies MadeMessage);
  }
}

// Ends with the thread.
new IdleMemory(realWorld());

let turn = Promise.resolve();
port.on("message", (message: OrderMessage) => {
  if (message.order.kind === "restore") void run(message);
  else turn = turn.then(() => run(message));
});
