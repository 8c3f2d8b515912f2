/**
 * What was held on a topic, one memory after the other, or of one memory that has none.
 *
 * Always true: the order is that in which they were taken in; what was forgotten or erased, and what waits for a
 * review, is not there. Must not know: what is recalled.
 */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkText } from "../../format/core/names.ts";
import type { View } from "../core/transaction.ts";
import { cursorAfter, decodeCursor, firstRowAfter } from "../memory/memory-list.ts";
import { presence } from "../memory/memory-presence.ts";
import { memoryTypes, type MemoryType } from "../memory/memory-record.ts";
import { findRow } from "../memory/stored-memories.ts";
import { stateOf, takenIn } from "../standing/states.ts";
import { joinedValidity } from "../standing/validity.ts";

const historyDefault = 50;
const historyMax = 200;

/** Whose history: of a topic, or of the topic of a memory. */
export interface HistoryInput {
  readonly topicKey?: string;
  readonly type?: string;
  readonly id?: string;
  readonly limit?: number;
  /** `nextCursor` of the page before. */
  readonly cursor?: string;
}

/** A memory as one of what was held; times are Unix milliseconds. */
export interface HeldState {
  id: string;
  type: MemoryType;
  topicKey?: string;
  summary: string;
  /** Those that it first came from. */
  source?: string;
  sessionId?: string;
  activeFrom: number;
  supersededAt?: number;
  supersededBy?: string;
  completedAt?: number;
  validFrom?: number;
  validUntil?: number;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkHistory({ topicKey, type, id, limit, cursor }: HistoryInput): void {
  if ((id === undefined) === (topicKey === undefined)) throw invalid("give either id, or topic_key with type");
  if ((topicKey === undefined) !== (type === undefined)) throw invalid("topic_key and type go together");
  if (topicKey !== undefined) checkText("topic_key", topicKey, limits.topicKeyBytesMax);
  if (type !== undefined && !memoryTypes.includes(type as MemoryType))
    throw invalid(`type must be one of ${memoryTypes.join(", ")}`);
  if (limit !== undefined && (!Number.isInteger(limit) || limit < 1))
    throw invalid(`limit must be a whole number from 1; at most ${historyMax} states are on a page`);
  if (cursor !== undefined) decodeCursor(cursor, true);
}

/** A page of what was held, the oldest first; undefined where no memory has the id. The input passed `checkHistory`. */
export function listHistory(
  view: View,
  input: HistoryInput,
): { readonly states: HeldState[]; readonly nextCursor?: string } | undefined {
  const place = findPlace(view, input);
  if (!place) return undefined;
  const want = Math.min(input.limit ?? historyDefault, historyMax);
  const after = input.cursor === undefined ? 1 : firstRowAfter(view, decodeCursor(input.cursor, true));
  const present = presence(view, takenIn);
  const validity = joinedValidity(view);
  const found = view.connection.all<FoundState>(
    `SELECT m.row, m.id, m.type, m.topic_key AS topicKey, m.summary, m.source, m.session_id AS sessionId,
       m.created_at AS activeFrom, m.superseded_at AS supersededAt, m.superseded_by AS supersededBy, ${validity.columns}
     FROM __service_memory AS m ${validity.join} WHERE ${place.sql} AND m.row >= ? AND ${present.sql}
       ORDER BY m.row LIMIT ?`,
    ...place.params,
    after,
    ...present.params,
    want + 1,
  );
  const page = found.slice(0, want);
  return {
    states: page.map(tell),
    ...(found.length > want && { nextCursor: cursorAfter(page.at(-1)!, true) }),
  };
}

type Nullable<Record> = { readonly [Field in keyof Record]-?: Record[Field] | null };
type FoundState = Nullable<Omit<HeldState, "id" | "type" | "summary" | "activeFrom" | "completedAt">> &
  Pick<HeldState, "id" | "type" | "summary" | "activeFrom"> & { readonly row: number };

function tell({ row: _, supersededBy, supersededAt, ...found }: FoundState): HeldState {
  const state = stateOf(supersededBy);
  const said = Object.entries(found).filter(([, value]) => value !== null);
  return {
    ...(Object.fromEntries(said) as unknown as HeldState),
    ...(state === "superseded" && { supersededBy: supersededBy!, supersededAt: supersededAt! }),
    ...(state === "completed" && { completedAt: supersededAt! }),
  };
}

function findPlace(
  view: View,
  { id, topicKey, type }: HistoryInput,
): { readonly sql: string; readonly params: readonly (string | number)[] } | undefined {
  const ofTopic = (key: string, kind: string) => ({ sql: "m.topic_key = ? AND m.type = ?", params: [key, kind] });
  if (id === undefined) return ofTopic(topicKey!, type!);
  const row = findRow(view, id, takenIn);
  if (row === undefined) return undefined;
  const memory = view.connection.get<{ topicKey: string | null; type: string }>(
    "SELECT topic_key AS topicKey, type FROM __service_memory WHERE row = ?",
    row,
  )!;
  return memory.topicKey === null ? { sql: "m.row = ?", params: [row] } : ofTopic(memory.topicKey, memory.type);
}
