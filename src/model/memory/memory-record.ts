/** A memory as it is given out. */
import { joinedMetadata } from "../docs/memory-metadata.ts";
import { joinedPins } from "./memory-pins.ts";
import { subjectColumn } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";
import { stateOf } from "../standing/states.ts";

export const memoryTypes = ["fact", "event", "instruction", "task"] as const;
export type MemoryType = (typeof memoryTypes)[number];

/** How one channel of a recall saw a memory. */
interface ChannelExplanation {
  channel: string;
  /** From 1; equals share a rank. */
  rank: number;
  /** For words that of their ranking (larger is better), cosine similarity for vectors, 1 for a topic. */
  score: number;
  /** Whether the channel's search was approximate, so that another node may rank differently. */
  approximate: boolean;
}

/** Why a recall found a memory. */
interface MemoryExplanation {
  /** In the order of the memory's `channels`. */
  channels: ChannelExplanation[];
  /** The words of the query that it holds. */
  matchedTerms: string[];
  /** The share of the query's words that one passage of it covers, weighted by rarity, 0 to 1; on keyword hits only. */
  coverage?: number;
}

/** A memory (spec: Memory). Times are Unix milliseconds; session and source are those that it first came from. */
export interface MemoryRecord {
  id: string;
  type: MemoryType;
  topicKey: string | null;
  summary: string;
  /** JSON text. */
  content: string;
  keywords: string | null;
  sessionId: string | null;
  source: string | null;
  createdAt: number;
  supersededBy: string | null;
  /** Absent where `supersededBy` says all: active or superseded. */
  status?: "proposed" | "completed";
  /** Of a completed task. */
  completedAt?: number;
  /** On tasks only. */
  expiresAt?: number;
  /** JSON text of an object; absent when it was stored with none. */
  metadata?: string;
  /** Whom it is about; absent where that was not said. */
  subject?: string;
  /** Where it is pinned only. */
  pinned?: true;
  /** On a recall only: fused relevance. */
  score?: number;
  /** On a recall only: which channels found it, in the order topic, keyword, vector. */
  channels?: string[];
  /** On a recall of superseded memories only: the id of the one that holds now on its topic, if any does. */
  currentId?: string;
  /** On a single get only: the ids that it superseded itself, oldest first. */
  supersedes?: string[];
  /** On a recall with `explain` only. */
  explain?: MemoryExplanation;
}

/** A record as SQL gives it. */
type FoundRecord = Omit<MemoryRecord, "expiresAt" | "metadata" | "pinned" | "subject" | "status" | "completedAt"> & {
  readonly subject: string | null;
  readonly supersededAt: number | null;
  readonly expiresAt: number | null;
  readonly metadata: string | null;
  readonly pinned: number;
};

/** The memories of these rows, in the order of the rows; every row must exist. */
export function loadMemories(view: View, rows: readonly number[]): MemoryRecord[] {
  const { join, column } = joinedMetadata(view);
  const pins = joinedPins(view);
  const found = view.connection.all<FoundRecord>(
    `SELECT m.id, m.type, m.topic_key AS topicKey, m.summary, m.content,
       m.keywords, m.session_id AS sessionId, m.source,
            m.created_at AS createdAt, m.superseded_by AS supersededBy,
            m.superseded_at AS supersededAt, m.expires_at AS expiresAt,
            ${column} AS metadata, ${pins.column} AS pinned,
            ${subjectColumn(view, "memory", "m.row")} AS subject
     FROM json_each(?) AS wanted CROSS JOIN __service_memory AS m ON m.row = wanted.value
       ${join} ${pins.join} ORDER BY wanted.key`,
    JSON.stringify(rows),
  );
  return found.map(({ expiresAt, metadata, pinned, subject, supersededBy, supersededAt, ...record }) => ({
    ...record,
    ...standing(supersededBy, supersededAt),
    ...(expiresAt !== null && { expiresAt }),
    ...(metadata !== null && { metadata }),
    ...(subject !== null && { subject }),
    ...(pinned === 1 && { pinned: true as const }),
  }));
}

/** The state of a row, as a record tells it. */
function standing(
  supersededBy: string | null,
  supersededAt: number | null,
): Pick<MemoryRecord, "supersededBy" | "status" | "completedAt"> {
  const state = stateOf(supersededBy);
  if (state === "active" || state === "superseded") return { supersededBy };
  return { supersededBy: null, status: state, ...(state === "completed" && { completedAt: supersededAt! }) };
}
