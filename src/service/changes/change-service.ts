/** The change feed over the wires, and the undo of what it tells. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ChangeService, WatchResponseSchema } from "../../../gen/palimpsest/v1/change_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { Target } from "../../engine/api/protocol.ts";
import { getTenant } from "../../engine/api/tenants.ts";
import type { ChangeEntry, ChangesPage } from "../../model/core/change-log.ts";
import { type Context, engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { databaseTarget } from "../handlers/targets.ts";
import { followChanges, readChanges, type Told } from "../feed/branch-changes.ts";
import { StreamPlaces } from "../feed/stream-places.ts";
import { changeMessage } from "./change-messages.ts";
import { undoTransaction } from "./undo.ts";

/** After so long without a transaction a stream says how far the branch is: proxies cut what says nothing. */
const quietMs = 15_000;
/** A client that takes an event so late is told to come again. */
const slowMs = 30_000;
/** How often is looked whether the caller may still read. */
const recheckMs = 10_000;

type WatchEvent = MessageInitShape<typeof WatchResponseSchema>;

/** The handlers of the change service. */
export function changeHandlers(node: NodeParts): ServiceHandlers<typeof ChangeService> {
  const places = new StreamPlaces();
  return {
    undo: (request, context) => undoTransaction(node, request, context),

    async watch(request, context) {
      const after = readAfter(request.after, context.call.headers.lastEventId);
      const target = await databaseTarget(node, context, request.db);
      const leave = places.enter({ uuid: target.uuid, tenant: getTenant(target) });
      // A stream of which nothing was ever taken ends with its connection alone.
      context.call.signal?.addEventListener("abort", leave);
      try {
        const { value: page } = seen(context, await readChanges(node, target, after, engineOptions(context)));
        return watchBranch(node, context, target, page, after, leave);
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

/** A client of server-sent events that comes again repeats its query: where it has come to, the header says. */
function readAfter(after: bigint | undefined, lastEventId: string | undefined): number | undefined {
  const text = lastEventId || after?.toString();
  if (text === undefined) return undefined;
  const txid = Number(text);
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(txid)) return txid;
  throw invalid(`${lastEventId ? "Last-Event-ID" : "after"} must be a transaction id, a non-negative integer`);
}

async function* watchBranch(
  node: NodeParts,
  context: Context,
  target: Target,
  page: ChangesPage,
  after: number | undefined,
  leave: () => void,
): AsyncGenerator<WatchEvent> {
  const { world } = node;
  const { call, consistency } = context;
  const { caller } = engineOptions(context);
  let checkedMs = world.monotonicMs();
  const mayRead = async (): Promise<void> => {
    if (world.monotonicMs() - checkedMs < recheckMs) return;
    await context.recheck();
    checkedMs = world.monotonicMs();
  };
  try {
    yield toPosition(after ?? page.position);
    const following = { page, quietMs, gone: call.signal, mayRead, consistency, caller };
    for await (const told of followChanges(node, target, following)) {
      const givenMs = world.monotonicMs();
      yield toEvent(told);
      if (world.monotonicMs() - givenMs > slowMs) throw tooSlow(told);
    }
  } finally {
    leave();
  }
}

function tooSlow(told: Told): ServiceError {
  const txid = "entry" in told ? told.entry.txid : told.position;
  return new ServiceError("overloaded", `the client took no event for ${slowMs / 1_000} s: go on after ${txid}`, {
    txid,
    retryAfterSecs: 1,
  });
}

function toPosition(position: number): WatchEvent {
  return { kind: "position", txid: BigInt(position), afterTxid: BigInt(position) };
}

function toEvent(told: Told): WatchEvent {
  return "entry" in told ? toTransaction(told.entry) : toPosition(told.position);
}

function toTransaction({ txid, afterTxid, at, changes, isPartial, isRewind }: ChangeEntry): WatchEvent {
  return {
    kind: isRewind ? "rewound" : "changes",
    txid: BigInt(txid),
    afterTxid: BigInt(afterTxid),
    at: BigInt(at),
    changes: changes.map(changeMessage),
    partial: isPartial,
  };
}
