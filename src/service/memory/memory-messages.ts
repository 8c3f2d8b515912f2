/** Memories as messages and as what the model layer takes: one translation for every call that carries them. */
import { create } from "@bufbuild/protobuf";
import {
  MemoryInputSchema,
  MemorySchema,
  type Memory,
  type MemoryInput as MemoryInputMessage,
} from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import type { MemoryInput } from "../../model/memory/memory-ingest.ts";
import type { MemoryRecord } from "../../model/memory/memory-record.ts";
import { toEmbedding, present } from "../call/data-messages.ts";
import { jsonText, setJson } from "../call/exact-json.ts";
import { parseProposed } from "./review.ts";

/** What the model layer takes in of a message, which is at the place; only its content is checked so far. */
export function parseMemoryInput(place: string, message: MemoryInputMessage): MemoryInput {
  const content = jsonText(message, "content");
  if (content === undefined) throw invalid(`${place}.content is required: any JSON; null is a value`);
  return {
    type: message.type,
    summary: message.summary,
    content,
    ...present({
      topicKey: message.topicKey,
      keywords: message.keywords,
      embedding: toEmbedding(message.embedding),
      sessionId: message.sessionId,
      source: message.source,
      ttlSecs: message.ttl,
      metadata: jsonText(message, "metadata"),
      subject: message.subject,
      pinned: message.pinned || undefined,
      proposed: parseProposed(`${place}.status`, message.status),
    }),
  };
}

/** The same the other way: a memory that could be ingested, as clients would send it. */
export function inputMessage({
  type,
  summary,
  content,
  topicKey,
  keywords,
  sessionId,
  source,
  proposed,
}: MemoryInput): MemoryInputMessage {
  const status = proposed ? "proposed" : undefined;
  const message = create(MemoryInputSchema, {
    type,
    summary,
    ...present({ topicKey, keywords, sessionId, source, status }),
  });
  setJson(message, "content", content);
  return message;
}

/** About how much an ingest adds to a commit group. */
export function inputBytes(memories: readonly MemoryInput[]): number {
  let bytes = 0;
  for (const memory of memories)
    bytes +=
      memory.content.length +
      memory.summary.length +
      (memory.metadata?.length ?? 0) +
      (memory.embedding?.byteLength ?? 0) +
      256;
  return bytes;
}

/** A memory as clients see it. */
export function memoryMessage(record: MemoryRecord): Memory {
  const message = create(MemorySchema, {
    id: record.id,
    type: record.type,
    summary: record.summary,
    createdAt: BigInt(record.createdAt),
    ...present({
      topicKey: record.topicKey ?? undefined,
      keywords: record.keywords ?? undefined,
      sessionId: record.sessionId ?? undefined,
      source: record.source ?? undefined,
      supersededBy: record.supersededBy ?? undefined,
      expiresAt: record.expiresAt === undefined ? undefined : BigInt(record.expiresAt),
      score: record.score,
      channels: record.channels && { values: record.channels },
      supersedes: record.supersedes && { values: record.supersedes },
      explain: record.explain,
      currentId: record.currentId,
      subject: record.subject,
      pinned: record.pinned,
      status: record.status,
      completedAt: record.completedAt === undefined ? undefined : BigInt(record.completedAt),
    }),
  });
  setJson(message, "content", record.content);
  if (record.metadata !== undefined) setJson(message, "metadata", record.metadata);
  return message;
}
