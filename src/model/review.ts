/**
 * Proposals reviewed: approved ones are taken in, rejected ones removed.
 *
 * Always true: an approved proposal comes in as if it were ingested now, with its id, by the rules for duplicates and
 * supersession that hold then; each of a call comes in after the ones before it. Must not know: who may review, and why
 * something was proposed.
 */
import { invalid } from "../base/faults/errors.ts";
import type { Tx } from "./core/transaction.ts";
import { addProvenance, takeIn, type IngestResult, type MemoryInput } from "./memory/memory-ingest.ts";
import { loadMemories } from "./memory/memory-record.ts";
import { removeMemories } from "./memory/memory-removal.ts";
import { memoryVector } from "./memory/memory-vectors.ts";
import { findRow } from "./memory/stored-memories.ts";

/** Proposals that one call reviews. */
export const reviewIdsMax = 100;

const verdicts = ["approve", "reject"] as const;

export interface ReviewInput {
  readonly ids: readonly string[];
  readonly verdict: string;
}

/** What became of a proposal; `unknown` where none of this id waits for a review. */
export interface Reviewed extends Pick<IngestResult, "superseded"> {
  /** Of the proposal. */
  id: string;
  status: "approved" | "duplicate" | "rejected" | "unknown";
  /** The active memory that it is the same as. */
  duplicateOf?: string;
}

/** Refuses a review that could not be carried out in any state. Reads nothing. */
export function checkReview({ ids, verdict }: ReviewInput): void {
  if (!verdicts.includes(verdict as (typeof verdicts)[number]))
    throw invalid(`verdict must be one of ${verdicts.join(", ")}`);
  if (ids.length === 0 || ids.length > reviewIdsMax) throw invalid(`ids must hold 1 to ${reviewIdsMax} ids`);
  if (new Set(ids).size < ids.length) throw invalid("ids must hold each id once");
}

/** Reviews proposals in the order of their ids; the input has passed `checkReview`. */
export function review(tx: Tx, { ids, verdict }: ReviewInput): { results: Reviewed[] } {
  return {
    results: ids.map((id) => {
      const row = findRow(tx, id, ["proposed"]);
      if (row === undefined) return { id, status: "unknown", superseded: [] };
      if (verdict === "approve") return approve(tx, id, row);
      removeMemories(tx, [row], "reviewed");
      return { id, status: "rejected", superseded: [] };
    }),
  };
}

/**
 * Takes the proposal out, and in again as a memory: so there is one way in, and rows are in the order of their times.
 */
function approve(tx: Tx, id: string, row: number): Reviewed {
  const { memory, expiresAt } = readProposal(tx, row);
  const origins = tx.connection.all<{ sessionId: string; source: string }>(
    "SELECT session_id AS sessionId, source FROM __service_memory_provenance WHERE memory = ?",
    row,
  );
  removeMemories(tx, [row], "reviewed");
  const { result, row: taken } = takeIn(tx, memory, { id, expiresAt });
  for (const origin of origins) addProvenance(tx, taken, origin);
  const { status, superseded } = result;
  return status === "duplicate"
    ? { id, status, duplicateOf: result.id, superseded }
    : { id, status: "approved", superseded };
}

/** What was proposed, as it would be ingested. */
function readProposal(tx: Tx, row: number): { readonly memory: MemoryInput; readonly expiresAt: number | null } {
  const [record] = loadMemories(tx, [row]);
  const { type, summary, content, topicKey, keywords, sessionId, source, metadata, pinned, expiresAt } = record!;
  return {
    memory: {
      type,
      summary,
      content,
      ...(topicKey !== null && { topicKey }),
      ...(keywords !== null && { keywords }),
      ...(sessionId !== null && { sessionId }),
      ...(source !== null && { source }),
      ...(metadata !== undefined && { metadata }),
      ...(pinned && { pinned }),
      ...memoryVector(tx, row),
    },
    expiresAt: expiresAt ?? null,
  };
}
