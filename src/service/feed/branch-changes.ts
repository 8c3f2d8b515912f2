/**
 * The changes of one branch in their order, from a transaction on, for as long as somebody asks for more.
 *
 * Always true: each transaction is given once, after the one that it followed, and only when it is on disk; what is
 * read names the transaction before it as the least that the answer may speak of, so that a state that was lost is a
 * conflict and never passed over. Must not know: wires, credentials.
 */
import { invalid, ServiceError, StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import type { CallOptions, EnginePort } from "../../engine/api/engine-port.ts";
import type { Answer, Target } from "../../engine/api/protocol.ts";
import type { ChangeEntry, ChangesPage } from "../../model/core/change-log.ts";
import { BranchSignals } from "./branch-signals.ts";

/** One reading has so long, */
const readMs = 10_000;
/** and so long may all fail before what reads them is told: a failover takes less. */
const troubleMs = 30_000;

export interface BranchChangesParts {
  readonly world: World;
  readonly engine: EnginePort;
  readonly signals: BranchSignals;
}

/** A transaction, or how far the branch is when nothing came for some time. */
export type Told = { readonly entry: ChangeEntry } | { readonly position: number };

/** Reads the changes after the transaction. Refuses one that the branch has never given. */
export async function readChanges(
  { world, engine }: Pick<BranchChangesParts, "world" | "engine">,
  target: Target,
  after: number | undefined,
  options: Pick<CallOptions, "minTxid" | "consistency" | "caller">,
): Promise<Answer<ChangesPage>> {
  const { minTxid: asked = 0 } = options;
  const minTxid = Math.max(after ?? 0, asked);
  const deadlineMs = world.monotonicMs() + readMs;
  const request = after === undefined ? {} : { after };
  try {
    return await engine.read(target, "changes.list", request, { ...options, minTxid, deadlineMs });
  } catch (error) {
    // The engine names the header that asks for the same, which nobody has sent.
    const isUnknown = minTxid > asked && error instanceof ServiceError && error.code === "invalid_request";
    throw isUnknown ? invalid("after must be a transaction that the branch has given, or 0") : error;
  }
}

export interface Following extends Pick<CallOptions, "consistency" | "caller"> {
  /** What was read first. */
  readonly page: ChangesPage;
  /** After so long without a transaction the position is given. */
  readonly quietMs: number;
  readonly gone: AbortSignal | undefined;
  /** Asked before each reading, so that whoever may no longer read is refused. */
  readonly mayRead: () => Promise<void>;
}

/** All that follows, until the caller goes. Throws what a reading was refused with. */
export async function* followChanges(
  parts: BranchChangesParts,
  target: Target,
  { page: first, quietMs, gone, mayRead, ...options }: Following,
): AsyncGenerator<Told> {
  const { world, signals } = parts;
  let page = first;
  let toldMs = world.monotonicMs();
  let soundMs = toldMs;
  for (let pauseMs = 0; ;) {
    for (const entry of page.entries) yield { entry };
    if (gone?.aborted) return;
    const { position } = page;
    if (page.entries.length > 0) {
      toldMs = world.monotonicMs();
      pauseMs = 0;
    } else if (world.monotonicMs() - toldMs >= quietMs) {
      yield { position };
      toldMs = world.monotonicMs();
    }
    if (!page.more) {
      pauseMs = BranchSignals.longer(pauseMs);
      if (await signals.next(target.uuid, pauseMs, gone)) pauseMs = 0;
      if (gone?.aborted) return;
    }
    await mayRead();
    try {
      ({ value: page } = await readChanges(parts, target, position, options));
      soundMs = world.monotonicMs();
    } catch (error) {
      if (!isPassing(error) || world.monotonicMs() - soundMs > troubleMs) throw error;
      page = { entries: [], position, more: false };
    }
  }
}

function isPassing(error: unknown): boolean {
  if (error instanceof StoreError) return error.kind === "unavailable";
  return error instanceof ServiceError && ["unavailable", "overloaded", "request_timeout"].includes(error.code);
}
