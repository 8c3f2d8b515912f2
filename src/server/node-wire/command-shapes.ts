/**
 * The shape of the input of every command, batch and act of a forwarded call: checked before anything runs.
 *
 * The names here are those on the wire: if a field of a command is renamed, builds with the other name refuse its
 * calls. An added field has to be `maybe` while builds without it may call; they refuse calls that give it until they
 * are upgraded. Always true: the compiler holds each shape against the command's own declaration. Must not know how
 * payloads are written.
 */
import type { BranchAct, ErasedCoupon } from "../../engine/api/protocol.ts";
import type { Traces } from "../../format/erasure/erasure-coupon.ts";
import type { ErasureTarget, RecordTarget } from "../../format/erasure/erasure-receipt.ts";
import type { ErasedRecords } from "../../model/erasure-records.ts";
import {
  isWriteKind,
  type ReadInput,
  type ReadKind,
  type RepeatableWrite,
  type WriteInput,
  type WriteKind,
} from "../../model/commands.ts";
import type { IdempotencyKey } from "../../model/core/idempotency.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import type { AgingPosition } from "../../model/memory/memory-aging.ts";
import type { RecallInput } from "../../model/recall.ts";
import type { SqlBatch } from "../../model/sql/sql.ts";
import {
  anything,
  boolean,
  bytes,
  list,
  maybe,
  nothing,
  number,
  oneOf,
  record,
  type Shape,
  text,
  variants,
  vector,
} from "./payload-shapes.ts";
import { exportInput, importInput, recordTargets } from "./transfer-shapes.ts";

const maker = record<WriteInput<"embedding.fill">["embeddedBy"]>({ name: text, floor: number });
const embeddedKind = oneOf("memory", "turn");

const filters = {
  types: maybe(list(text)),
  sessionId: maybe(text),
  source: maybe(text),
  subject: maybe(text),
  includeSuperseded: maybe(boolean),
  includeCompleted: maybe(boolean),
  validAtMs: maybe(number),
  states: maybe(list(text)),
  createdFromMs: maybe(number),
  createdToMs: maybe(number),
  filter: maybe(text),
};

const link = { memoryId: maybe(text), sessionId: maybe(text), seq: maybe(number) };

const listInput = {
  ...filters,
  topicKey: maybe(text),
  derivedFrom: maybe(record(link)),
  order: maybe(text),
  limit: maybe(number),
  cursor: maybe(text),
};

const memory = record<WriteInput<"memory.ingest">["memories"][number]>({
  type: text,
  summary: text,
  content: text,
  topicKey: maybe(text),
  keywords: maybe(text),
  embedding: maybe(vector),
  embeddedBy: maybe(maker),
  sessionId: maybe(text),
  source: maybe(text),
  ttlSecs: maybe(number),
  metadata: maybe(text),
  subject: maybe(text),
  pinned: maybe(boolean),
  proposed: maybe(boolean),
  validFromMs: maybe(number),
  validUntilMs: maybe(number),
  derivedFrom: maybe(list(record({ ...link, turnId: maybe(text) }))),
});

const newTurn = record<WriteInput<"turn.append_many">["turns"][number]>({
  role: text,
  content: text,
  turnId: maybe(text),
  metadata: maybe(text),
  subject: maybe(text),
  embedding: maybe(vector),
  embeddedBy: maybe(maker),
});

const vectorItem = { id: text, embedding: vector, metadata: maybe(text), subject: maybe(text) };

const fileEdit = record<WriteInput<"file.edit">["edits"][number]>({
  oldText: maybe(text),
  replaceAll: maybe(boolean),
  afterLine: maybe(number),
  firstLine: maybe(number),
  lastLine: maybe(number),
  text,
});

const erasedRecords = record<ErasedRecords>({
  target: variants<"kind", RecordTarget>("kind", recordTargets),
  ids: list(text),
  key: bytes,
});

const erasureTarget = variants<"kind", ErasureTarget>("kind", {
  memory: record({ kind: oneOf("memory"), memoryId: text }),
  topic: record({ kind: oneOf("topic"), topicKey: text, type: text }),
  session: record({ kind: oneOf("session"), sessionId: text, turns: boolean }),
  ...recordTargets,
});

const kvWrite = { key: text, value: bytes, ttlSecs: maybe(number), subject: maybe(text) };

/** Of a write on a condition. */
const expected = { ifMatch: maybe(text), ifAbsent: maybe(boolean) };

const retention = record<MemoryRetention>({
  eventMaxAgeMs: maybe(number),
  supersededMaxAgeMs: maybe(number),
  supersededMaxCount: maybe(number),
});

const topic = record<NonNullable<AgingPosition["topic"]>>({ topicKey: text, type: text });

const agingPosition = record<AgingPosition>({
  event: maybe(record({ row: number, id: text })),
  topic: maybe(topic),
});

export const writeShapes: { readonly [Kind in WriteKind]: Shape<WriteInput<Kind>> } = {
  "memory.ingest": record({ memories: list(memory), taskTtlMaxSecs: maybe(number) }),
  "memory.update": record({
    id: text,
    pinned: maybe(boolean),
    metadata: maybe(text),
    keywords: maybe(text),
    ttlSecs: maybe(number),
    completed: maybe(boolean),
    taskTtlMaxSecs: maybe(number),
  }),
  "memory.review": record({ ids: list(text), verdict: text }),
  "memory.forget": record({ id: text }),
  "memory.forget_many": record(listInput),
  "memory.erase": record({ couponId: text, target: erasureTarget, traceKey: bytes }),
  "erasure.settled": record({ couponId: text }),
  "embedding.fill": record({
    kind: embeddedKind,
    embeddedBy: maker,
    items: list(record({ row: number, createdAt: number, embedding: vector })),
  }),
  "embedding.retire": record({ kind: embeddedKind, embeddedBy: text, rowsMax: number }),
  "embedding.floor": record({ embeddedBy: text, floor: number }),
  "session.end": record({ sessionId: text, turns: boolean }),
  "turn.append": record({
    sessionId: text,
    role: text,
    content: text,
    subject: maybe(text),
    embedding: maybe(vector),
    embeddedBy: maybe(maker),
  }),
  "turn.append_many": record({ sessionId: text, turns: list(newTurn), operationId: maybe(text) }),
  "turn.delete": record({
    sessionId: text,
    last: maybe(number),
    fromSeq: maybe(number),
    seq: maybe(number),
    turnId: maybe(text),
    all: maybe(boolean),
    operationId: maybe(text),
  }),
  "turn.replace": record({
    sessionId: text,
    expected: list(record({ seq: maybe(number), turnId: maybe(text), contentSha256: maybe(text) })),
    turns: list(newTurn),
    operationId: maybe(text),
  }),
  "kv.put": record({ ns: text, ...kvWrite, ...expected }),
  "kv.delete": record({ ns: text, key: text, ifMatch: maybe(text) }),
  "kv.put_many": record({ ns: text, items: list(record({ ...kvWrite, ...expected })) }),
  "kv.delete_many": record({ ns: text, items: list(record({ key: text, ifMatch: maybe(text) })) }),
  "docs.insert": record({ collection: text, docs: list(text), subject: maybe(text) }),
  "docs.update": record({ collection: text, filter: text, update: text, multi: boolean, upsert: maybe(boolean) }),
  "docs.delete": record({ collection: text, filter: text, multi: boolean }),
  "docs.put": record({ collection: text, id: text, doc: text, subject: maybe(text), ...expected }),
  "docs.remove": record({ collection: text, id: text, ...expected }),
  "docs.index": record({ collection: text, path: text }),
  "docs.unindex": record({ collection: text, path: text }),
  "vector.upsert": record({ collection: text, ...vectorItem, metric: maybe(text) }),
  "vector.upsert_many": record({
    collection: text,
    vectors: list(record(vectorItem)),
    field: maybe(text),
    metric: maybe(text),
  }),
  "vector.delete": record({ collection: text, id: text }),
  "vector.delete_many": record({
    collection: text,
    ids: maybe(list(text)),
    filter: maybe(text),
    cursor: maybe(text),
  }),
  "file.put": record({ path: text, text, subject: maybe(text), ...expected }),
  "file.edit": record({ path: text, edits: list(fileEdit), ifMatch: maybe(text) }),
  "file.move": record({ path: text, to: text, overwrite: boolean }),
  "file.delete": record({ path: text, recursive: boolean, purge: boolean, ifMatch: maybe(text) }),
  "transfer.import": importInput,
  repeatable: { findFault: (value, path) => repeatable.findFault(value, path) ?? findWriteFault(value, path) },
  sweep: record({
    rowsMax: number,
    untilMs: maybe(number),
    retention: maybe(retention),
    position: maybe(agingPosition),
  }),
};

export const readShapes: { readonly [Kind in ReadKind]: Shape<ReadInput<Kind>> } = {
  "memory.get": record({ id: text }),
  "memory.list": record(listInput),
  "memory.history": record({
    topicKey: maybe(text),
    type: maybe(text),
    id: maybe(text),
    limit: maybe(number),
    cursor: maybe(text),
  }),
  "memory.recall": record({
    ...filters,
    query: maybe(text),
    embedding: maybe(vector),
    embeddedBy: maybe(text),
    topicKey: maybe(text),
    k: maybe(number),
    kPerType: maybe(
      record<NonNullable<RecallInput["kPerType"]>>({
        fact: maybe(number),
        event: maybe(number),
        instruction: maybe(number),
        task: maybe(number),
      }),
    ),
    preferSessionId: maybe(text),
    includeTurns: maybe(boolean),
    searchTurns: maybe(boolean),
    minScore: maybe(record({ keyword: maybe(number), vector: maybe(number) })),
    explain: maybe(boolean),
    includeInvalid: maybe(boolean),
  }),
  "memory.context": record({
    query: maybe(text),
    embedding: maybe(vector),
    embeddedBy: maybe(text),
    maxTokens: maybe(number),
    format: maybe(text),
    sections: maybe(list(record({ name: text, share: maybe(number), maxLines: maybe(number) }))),
    sessionId: maybe(text),
    nowMs: maybe(number),
  }),
  "memory.held": record({ memoryIds: list(text) }),
  "record.held": record({ records: list(erasedRecords) }),
  "embedding.spaces": nothing,
  "embedding.missing": record({ kind: embeddedKind, embeddedBy: text, after: number }),
  "embedding.measure": record({ embeddedBy: text, unrelatedShare: number, seed: number }),
  "session.list": record({ limit: maybe(number), cursor: maybe(text), includeTurns: maybe(boolean) }),
  "turn.last": record({ sessionId: text, last: maybe(number) }),
  "turn.list": record({
    sessionId: text,
    order: maybe(text),
    limit: maybe(number),
    cursor: maybe(text),
    fromSeq: maybe(number),
    toSeq: maybe(number),
    role: maybe(text),
    subject: maybe(text),
    filter: maybe(text),
  }),
  "turn.search": record({ sessionId: maybe(text), vector, k: maybe(number) }),
  "kv.get": record({ ns: text, key: text }),
  "kv.get_many": record({ ns: text, keys: list(text) }),
  "kv.list": record({
    ns: text,
    prefix: maybe(text),
    start: maybe(text),
    end: maybe(text),
    order: maybe(text),
    limit: maybe(number),
    cursor: maybe(text),
    include: maybe(text),
  }),
  "changes.list": record({ after: maybe(number), limit: maybe(number) }),
  "docs.find": record({
    collection: text,
    filter: maybe(text),
    sort: maybe(list(record({ path: text, direction: number }))),
    limit: maybe(number),
    skip: maybe(number),
    projection: maybe(text),
  }),
  "docs.count": record({ collection: text, filter: maybe(text), limit: maybe(number) }),
  "docs.group": record({ collection: text, path: text, filter: maybe(text), limit: maybe(number) }),
  "docs.indexes": record({ collection: text }),
  "docs.collections": record({ limit: maybe(number), after: maybe(text) }),
  "docs.get": record({ collection: text, id: text }),
  "vector.search": record({
    collection: text,
    vector: maybe(vector),
    id: maybe(text),
    k: maybe(number),
    filter: maybe(text),
    metric: maybe(text),
    includeVectors: maybe(boolean),
    includeMetadata: maybe(boolean),
  }),
  "vector.get": record({ collection: text, id: text }),
  "vector.list": record({
    collection: text,
    limit: maybe(number),
    cursor: maybe(text),
    filter: maybe(text),
    includeVectors: maybe(boolean),
  }),
  "file.get": record({ path: text, version: maybe(number), firstLine: maybe(number), lastLine: maybe(number) }),
  "file.list": record({ folder: text, recursive: boolean, limit: number, cursor: maybe(text) }),
  "file.versions": record({ path: text }),
  "file.search": record({ query: text, folder: text, k: number }),
  "transfer.export": exportInput,
  "transfer.plan": importInput,
  "facets.list": record({ kind: maybe(text), limit: maybe(number), cursor: maybe(text) }),
  due: record({ retention: maybe(retention), position: maybe(agingPosition), isSwept: boolean }),
  excess: record({ countMax: number, topic: maybe(topic) }),
};

const idempotencyKey = { key: bytes, request: bytes };

const repeatable = record<RepeatableWrite>({ ...idempotencyKey, command: text, input: anything });

/** What is wrong with the input of the write that may be repeated. */
function findWriteFault(value: unknown, path: string): ReturnType<Shape<unknown>["findFault"]> {
  const { command, input } = value as RepeatableWrite;
  if (!isWriteKind(command) || command === "repeatable") return { what: `${path}.command`, isUnknown: true };
  return writeShapes[command].findFault(input, `${path}.input`);
}

export const batchShape: Shape<SqlBatch> = record({
  statements: list(record({ text, paramsJson: maybe(text) })),
  atomic: boolean,
  mayWrite: boolean,
  valuesMax: maybe(number),
  idempotency: maybe(record<IdempotencyKey>(idempotencyKey)),
});

const coupon = record<ErasedCoupon>({
  id: text,
  memoryIds: list(text),
  records: maybe(erasedRecords),
  points: list(
    record({
      branch: text,
      branchId: text,
      txid: number,
      ancestors: maybe(list(record({ branchId: text, forkTxid: number }))),
    }),
  ),
  traces: record<Traces>({ key: bytes, windows: bytes, windowsTotal: number }),
  awaiting: maybe(record({ branches: list(text), copies: list(record({ node: text, copy: text })) })),
  isDue: boolean,
});

export const actShape: Shape<BranchAct> = variants<"act", BranchAct>("act", {
  fork: record({ act: oneOf("fork"), name: text, at: maybe(text), ttlSecs: maybe(number) }),
  list: record({ act: oneOf("list") }),
  delete: record({ act: oneOf("delete"), name: text }),
  checkpoint: record({ act: oneOf("checkpoint"), name: text }),
  checkpoints: record({ act: oneOf("checkpoints") }),
  "forget-checkpoint": record({ act: oneOf("forget-checkpoint"), name: text }),
  rewind: record({ act: oneOf("rewind"), to: text }),
  sweep: record({ act: oneOf("sweep"), branchId: text }),
  erase: record({ act: oneOf("erase"), couponId: text, erase: erasureTarget, traceKey: bytes }),
  expunge: record({ act: oneOf("expunge"), coupons: list(coupon) }),
});
