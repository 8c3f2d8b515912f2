/**
 * What each command, batch and act is given and gives in practice, with every field that it may have: what a node
 * forwards to another.
 */
import type { PortCall } from "../../src/engine/api/engine-port.ts";
import type { BranchAct, BranchResults } from "../../src/engine/api/protocol.ts";
import type { ReadInput, ReadKind, ReadOutput, WriteInput, WriteKind, WriteOutput } from "../../src/model/commands.ts";
import type { RecordTarget } from "../../src/format/erasure/erasure-receipt.ts";
import type { MemoryRecord } from "../../src/model/memory/memory-record.ts";
import type { SqlOutcome, SqlStatementResult } from "../../src/model/sql/sql.ts";

/** A call, and what came of it. */
export interface CallSample {
  readonly name: string;
  readonly call: PortCall;
  readonly value: unknown;
}

const id = "01JD8Z3K5N0V6W4X2Y1Z0A9B8C";
const couponId = `ers_${id}`;
const embedding = Float32Array.of(0.25, -0, 1e-30, 3.4e38);
const maker = { name: "openai/text-embedding-3-small", floor: 0.2 };
const traces = { key: new Uint8Array(32).fill(9), windows: new Uint8Array(40).fill(1), windowsTotal: 70_000 };
const recordTargets: readonly RecordTarget[] = [
  { kind: "turn", sessionId: "s-1", seq: 3 },
  { kind: "path", path: "notes/tea.md" },
  { kind: "key", ns: "prefs", key: "drink" },
  { kind: "document", collection: "people", id: "ada" },
  { kind: "vector", collection: "faces", id: "ada" },
  { kind: "subject", subject: "user-7" },
];
const recordId = "0123456789abcdef".repeat(2);
const retention = { eventMaxAgeMs: 86_400_000, supersededMaxAgeMs: 0, supersededMaxCount: 3 };
const position = { event: { row: 2 ** 40, id }, topic: { topicKey: "drink", type: "fact" } };
const filters = {
  types: ["fact", "task"],
  sessionId: "s-1",
  source: "chat",
  subject: "user-7",
  includeSuperseded: true,
  includeCompleted: true,
  validAtMs: 1_763_884_867_123,
  states: ["active", "proposed"],
  createdFromMs: 0,
  createdToMs: 1_763_884_867_123,
  filter: '{"tag":"x"}',
};
const listed = {
  ...filters,
  topicKey: "drink",
  derivedFrom: { sessionId: "s-1", seq: 3 },
  order: "asc",
  limit: 10,
  cursor: "YTEyIGlk",
};
const memory: MemoryRecord = {
  id,
  type: "fact",
  topicKey: "drink",
  summary: "Grüße: 茶 \u{1f375}, and a \u0000",
  content: '{"n":12345678901234567890}',
  keywords: null,
  sessionId: null,
  source: "chat",
  createdAt: 1_763_884_867_123,
  supersededBy: null,
};
const turn = { sessionId: "s-1", seq: 3, role: "user", content: '"hello"', createdAt: 1_763_884_867_123 };

type Written = {
  readonly [Kind in WriteKind]: readonly (readonly [input: WriteInput<Kind>, output: WriteOutput<Kind>])[];
};
type Read = { readonly [Kind in ReadKind]: readonly (readonly [input: ReadInput<Kind>, output: ReadOutput<Kind>])[] };
type Acted = {
  readonly [Act in BranchAct["act"]]: readonly (readonly [
    act: Extract<BranchAct, { readonly act: Act }>,
    result: BranchResults[Act],
  ])[];
};

const idempotency = { key: traces.key.subarray(0, 16), request: traces.key };

const importInput = {
  records: [{ line: 2, text: '{"kind":"kv","ns":"prefs","key":"drink","text":"tea"}' }],
  mode: "skip" as const,
  each: true,
  erased: {
    memoryIds: [`mem_${id}`],
    targets: [
      ...recordTargets.map((target) => ({ target, untilMs: 1_763_884_867_123 })),
      { target: { kind: "session" as const, sessionId: "s-1", turns: false }, untilMs: 0 },
    ],
  },
};
const imported = {
  counts: { kv: { created: 1 } },
  left: [{ line: 2, kind: "kv", outcome: "conflict" as const }],
  each: ["created" as const],
};

const written: Written = {
  "memory.ingest": [
    [
      {
        memories: [
          {
            type: "task",
            summary: memory.summary,
            content: memory.content,
            topicKey: "drink",
            keywords: "tea",
            embedding,
            embeddedBy: maker,
            sessionId: "s-1",
            source: "chat",
            ttlSecs: 0,
            metadata: "{}",
            subject: "user-7",
            pinned: true,
            proposed: true,
            validFromMs: -1,
            validUntilMs: 1_763_884_867_123,
            derivedFrom: [{ memoryId: id }, { sessionId: "s-1", turnId: "t" }, { sessionId: "s-1", seq: 3 }],
          },
          { type: "event", summary: "", content: "null" },
        ],
        taskTtlMaxSecs: 60,
      },
      {
        results: [
          { id, status: "created", superseded: [id], embedding: "stored", expiresAt: 1_763_884_867_123 },
          { id, status: "duplicate", superseded: [] },
          { id, status: "proposed", superseded: [] },
        ],
      },
    ],
  ],
  "memory.review": [
    [
      { ids: [id], verdict: "approve" },
      {
        results: [
          { id, status: "approved", superseded: [id] },
          { id, status: "duplicate", duplicateOf: id, superseded: [] },
        ],
      },
    ],
  ],
  "memory.update": [
    [
      { id, pinned: true, metadata: "{}", keywords: "tea", ttlSecs: 60, completed: true, taskTtlMaxSecs: 3_600 },
      { ...memory, pinned: true, supersedes: [] },
    ],
    [{ id: "unknown" }, undefined],
  ],
  "memory.forget": [[{ id }, { forgotten: true }]],
  "memory.forget_many": [
    [listed, { ids: [id], nextCursor: "x" }],
    [{}, { ids: [] }],
  ],
  "memory.erase": [
    [
      { couponId, target: { kind: "memory", memoryId: id }, traceKey: traces.key },
      { found: true, memoryIds: [id], derived: 2, traces },
    ],
    ...recordTargets.map((target): Written["memory.erase"][number] => [
      { couponId, target, traceKey: traces.key },
      {
        found: true,
        memoryIds: [],
        records: [recordId],
        ...(target.kind === "subject" && { kinds: { turns: 1 } }),
        traces,
      },
    ]),
  ],
  "erasure.settled": [[{ couponId }, {}]],
  "embedding.fill": [
    [
      { kind: "memory", embeddedBy: maker, items: [{ row: 7, createdAt: 1_763_884_867_123, embedding }] },
      { filled: 1 },
    ],
  ],
  "embedding.retire": [[{ kind: "turn", embeddedBy: maker.name, rowsMax: 500 }, { more: false }]],
  "embedding.floor": [[{ embeddedBy: maker.name, floor: 0.312 }, { taken: true }]],
  "session.end": [
    [
      { sessionId: "s-1", turns: true },
      { removed: 1, turnsRemoved: 2 },
    ],
  ],
  "turn.append": [
    [
      { sessionId: "s-1", role: "user", content: '"hello"', subject: "user-7", embedding, embeddedBy: maker },
      { seq: 1, embedding: "stored" },
    ],
    [{ sessionId: "s-1", role: "user", content: '"hello"' }, { seq: 2 }],
  ],
  "turn.append_many": [
    [
      {
        sessionId: "s-1",
        turns: [
          {
            role: "user",
            content: '"hello"',
            turnId: "t-1",
            metadata: "{}",
            subject: "u",
            embedding,
            embeddedBy: maker,
          },
          { role: "user", content: "null" },
        ],
        operationId: "op-1",
      },
      {
        turns: [
          { seq: 1, status: "created", embedding: "stored" },
          { seq: 2, status: "duplicate" },
        ],
      },
    ],
  ],
  "turn.delete": [
    [
      { sessionId: "s-1", last: 2, operationId: "op-1" },
      { deleted: 2, more: false },
    ],
    [
      { sessionId: "s-1", fromSeq: 3 },
      { deleted: 10_000, more: true },
    ],
    [
      { sessionId: "s-1", seq: 3 },
      { deleted: 0, more: false },
    ],
    [
      { sessionId: "s-1", turnId: "t-1" },
      { deleted: 1, more: false },
    ],
    [
      { sessionId: "s-1", all: true },
      { deleted: 1, more: false },
    ],
  ],
  "turn.replace": [
    [
      {
        sessionId: "s-1",
        expected: [{ seq: 2, turnId: "t-1", contentSha256: "ab".repeat(32) }],
        turns: [{ role: "user", content: "null" }],
        operationId: "op-1",
      },
      { removed: 1, turns: [{ seq: 3, status: "created", embedding: "skipped_dimension" }] },
    ],
  ],
  "kv.put": [
    [{ ns: "n", key: "k", value: new Uint8Array([0, 255]), ttlSecs: 3_600, subject: "user-7" }, {}],
    [{ ns: "n", key: "a lone \ud800 surrogate", value: new Uint8Array(0) }, {}],
  ],
  "kv.delete": [[{ ns: "n", key: "k" }, { deleted: true }]],
  "kv.put_many": [
    [
      {
        ns: "n",
        items: [
          { key: "k", value: new Uint8Array([0, 255]), ttlSecs: 0, ifMatch: "*", ifAbsent: false, subject: "" },
          { key: "l", value: new Uint8Array(0) },
        ],
      },
      {},
    ],
  ],
  "kv.delete_many": [[{ ns: "n", items: [{ key: "k", ifMatch: "*" }, { key: "l" }] }, { deleted: 2 }]],
  "docs.put": [
    [
      { collection: "c", id: "1", doc: "{}", subject: "user-7", ifMatch: "*", ifAbsent: false },
      { created: false, hash: "0".repeat(64) },
    ],
  ],
  "docs.remove": [[{ collection: "c", id: "1", ifMatch: "*" }, { deleted: true }]],
  "docs.insert": [[{ collection: "c", docs: ['{"a":1}', "{}"], subject: "user-7" }, { ids: ["1", "2"] }]],
  "docs.update": [
    [
      { collection: "c", filter: "{}", update: '{"$set":{"a":2}}', multi: true },
      { matched: 200_000, modified: 0 },
    ],
    [
      { collection: "c", filter: "{}", update: '{"$set":{"a":2}}', multi: false, upsert: true },
      { matched: 0, modified: 0, upsertedId: "1" },
    ],
  ],
  "docs.delete": [[{ collection: "c", filter: "{}", multi: false }, { deleted: 1 }]],
  "docs.unindex": [[{ collection: "c", path: "a.b" }, { dropped: true }]],
  "docs.index": [[{ collection: "c", path: "a.b" }, { indexed: "a.b" }]],
  "vector.upsert": [[{ collection: "c", id: "v", embedding, metadata: "{}", subject: "user-7", metric: "dot" }, {}]],
  "vector.upsert_many": [
    [{ collection: "c", vectors: [{ id: "v", embedding }], field: "vectors", metric: "euclid" }, {}],
  ],
  "vector.delete": [[{ collection: "c", id: "v" }, { deleted: 0 }]],
  "vector.delete_many": [
    [
      { collection: "c", filter: "{}", cursor: "dg" },
      { deleted: 20_000, nextCursor: "dg" },
    ],
    [{ collection: "c", ids: ["v"] }, { deleted: 1 }],
  ],
  "file.put": [
    [
      { path: "notes/é.md", text: "one\ntwo", subject: "user-7", ifMatch: "0".repeat(64), ifAbsent: false },
      { path: "notes/é.md", version: 2, hash: "f".repeat(64), size: 7, created: false },
    ],
  ],
  "file.edit": [
    [
      {
        path: "a",
        edits: [{ oldText: "x", replaceAll: true, afterLine: 0, firstLine: 1, lastLine: 2, text: "" }],
        ifMatch: "*",
      },
      { path: "a", version: 2, hash: "f".repeat(64), size: 0, created: false },
    ],
  ],
  "file.move": [[{ path: "a", to: "b", overwrite: true }, { moved: 1_000 }]],
  "file.delete": [
    [
      { path: "a", recursive: true, purge: true, ifMatch: "*" },
      { deleted: 1, purgedVersions: 100 },
    ],
  ],
  "transfer.import": [[importInput, imported]],
  repeatable: [
    [
      { ...idempotency, command: "memory.forget", input: { id } },
      { value: { supersedes: [] }, txid: 3, isRepeat: false },
    ],
  ],
  sweep: [
    [
      { rowsMax: 500, untilMs: 1_763_884_867_123, retention, position },
      { position, more: false, dueAtMs: undefined },
    ],
    [{ rowsMax: 1 }, { position: {}, more: true, dueAtMs: 1_763_884_867_123.5 }],
  ],
};

const read: Read = {
  "transfer.export": [
    [
      { from: { kind: "doc", after: [3, "x"] }, asOfMs: 1_763_884_867_123, bytesMax: 4_194_304, hash: "0f" },
      { text: "{}\n", counts: { doc: 1 }, hash: "0e", asOfMs: 1_763_884_867_123, next: { kind: "vector" } },
    ],
    [
      { bytesMax: 1, hash: "0f" },
      { text: "", counts: {}, hash: "0f", asOfMs: 0 },
    ],
  ],
  "transfer.plan": [[importInput, imported]],
  "memory.get": [
    [{ id }, { ...memory, supersedes: [id], expiresAt: 1, metadata: "{}" }],
    [{ id: "unknown" }, undefined],
  ],
  "memory.history": [
    [
      { topicKey: "drink", type: "fact", limit: 1, cursor: "YTEyIGlk" },
      {
        states: [
          { id, type: "fact", topicKey: "drink", summary: "tea", activeFrom: 1, supersededAt: 2, supersededBy: id },
        ],
        nextCursor: "x",
      },
    ],
    [{ id }, undefined],
  ],
  "memory.list": [[listed, { memories: [memory], nextCursor: "x" }]],
  "memory.recall": [
    [
      {
        ...filters,
        query: "what does she drink?",
        embedding,
        embeddedBy: maker.name,
        topicKey: "drink",
        k: 10,
        kPerType: { fact: 3, event: 1, instruction: 2, task: 4 },
        preferSessionId: "s-1",
        includeTurns: true,
        searchTurns: false,
        minScore: { keyword: 0.5, vector: -1 },
        explain: true,
      },
      {
        memories: [
          {
            ...memory,
            currentId: id,
            score: 0.016_393_442_622_950_82,
            channels: ["topic", "vector"],
            explain: { channels: [{ channel: "topic", rank: 1, score: 1, approximate: false }], matchedTerms: ["tea"] },
          },
        ],
        turns: [{ ...turn, distance: 2 ** -60 }],
        embedding: "skipped_model",
        nearMisses: [
          {
            id,
            reasons: [{ channel: "vector", reason: "vector_below_floor", value: 0.1, needed: 0.2 }],
            matchedTerms: ["tea"],
          },
        ],
      },
    ],
    [{ query: "tea" }, { memories: [], turns: [], emptyReason: "below_gate" }],
  ],
  "memory.context": [
    [
      {
        query: "what does she drink?",
        embedding,
        embeddedBy: maker.name,
        maxTokens: 800,
        format: "json",
        sections: [{ name: "turns", share: 40, maxLines: 3 }, { name: "memories" }],
        sessionId: "s-1",
        nowMs: 1_763_884_867_123,
      },
      {
        body: "a line\n",
        tokens: 90,
        sections: [{ name: "turns", ids: ["#3"], leftOut: 1, more: true, cut: 1, tokens: 20, sessionId: "s-1" }],
        nowMs: 1_763_884_867_123,
        embedding: "skipped_model",
      },
    ],
    [{}, { body: "", tokens: 81, sections: [], nowMs: 0 }],
  ],
  "memory.held": [[{ memoryIds: [id] }, { held: [] }]],
  "record.held": [
    [{ records: recordTargets.map((target) => ({ target, ids: [recordId], key: traces.key })) }, { held: [recordId] }],
  ],
  "embedding.spaces": [
    [undefined, { memory: { exists: true, embeddedBy: maker.name }, turn: { exists: false, embeddedBy: undefined } }],
  ],
  "embedding.missing": [
    [
      { kind: "memory", embeddedBy: maker.name, after: -1 },
      { items: [{ row: 7, createdAt: 1_763_884_867_123, text: "tea" }], next: undefined },
    ],
  ],
  "embedding.measure": [
    [
      { embeddedBy: maker.name, unrelatedShare: 0.02, seed: 4_294_967_295 },
      {
        memories: 150,
        floorBefore: 0.2,
        floor: 0.312,
        unrelated: { pairs: 10_000, median: 0.1, highest: 0.7, shareBefore: 0.1, share: 0.0199 },
        related: { pairs: 0 },
      },
    ],
    [
      { embeddedBy: maker.name, unrelatedShare: 0.02, seed: 0 },
      { refused: "foreign", embeddedBy: undefined },
    ],
  ],
  "session.list": [
    [{ limit: 5 }, { sessions: [{ id: "s-1", createdAt: 0, lastActiveAt: 1_763_884_867_123 }] }],
    [
      { limit: 5, cursor: "x", includeTurns: true },
      {
        sessions: [{ id: "s-1", createdAt: 0, lastActiveAt: 9, turns: 2, firstTurnAt: 0, lastTurnAt: 9 }],
        nextCursor: "y",
      },
    ],
  ],
  "turn.list": [
    [
      {
        sessionId: "s-1",
        order: "desc",
        limit: 5,
        cursor: "x",
        fromSeq: 1,
        toSeq: 9,
        role: "user",
        subject: "user-7",
        filter: "{}",
      },
      { turns: [{ ...turn, turnId: "t-1", metadata: "{}" }], nextCursor: "y" },
    ],
  ],
  "turn.last": [[{ sessionId: "s-1", last: 2 }, { turns: [turn] }]],
  "turn.search": [[{ sessionId: "s-1", vector: embedding, k: 3 }, { turns: [{ ...turn, distance: 0 }] }]],
  "kv.get": [
    [
      { ns: "n", key: "k" },
      { value: new Uint8Array(70_000).fill(7), expiresAt: 1_763_884_867_123, subject: "user-7" },
    ],
    [{ ns: "n", key: "unknown" }, undefined],
  ],
  "kv.get_many": [
    [
      { ns: "n", keys: ["k", "l"] },
      { entries: [{ key: "k", size: 1, expiresAt: 9, value: new Uint8Array(1) }], remaining: ["l"] },
    ],
  ],
  "kv.list": [
    [
      { ns: "n", prefix: "k", start: "k", end: "l", order: "desc", limit: 1, cursor: "aw", include: "details" },
      { keys: ["k"], entries: [{ key: "k", size: 1 }], nextCursor: "aw" },
    ],
    [{ ns: "n" }, { keys: ["k"] }],
  ],
  "docs.count": [
    [{ collection: "c" }, { count: 2, more: false }],
    [
      { collection: "c", filter: '{"a":1}', limit: 1 },
      { count: 1, more: true },
    ],
  ],
  "docs.group": [
    [
      { collection: "c", path: "a", filter: "{}", limit: 1 },
      { groups: [{ value: "1", count: 2 }], distinct: 3 },
    ],
  ],
  "docs.indexes": [[{ collection: "c" }, { indexes: [{ path: "a.b", multikey: true }] }]],
  "docs.collections": [[{ limit: 5, after: "a" }, { collections: [{ name: "c", count: 2, indexes: 1 }] }]],
  "changes.list": [
    [
      { after: 1, limit: 2 },
      {
        entries: [
          {
            txid: 2,
            afterTxid: 1,
            at: 1_700_000_000_000,
            changes: [
              ["kv", "put", "n", "k"],
              ["turn", "created", "s", 3],
            ],
            isPartial: false,
            isRewind: false,
          },
        ],
        position: 2,
        more: false,
      },
    ],
  ],
  "docs.get": [
    [
      { collection: "c", id: "1" },
      { doc: "{}", hash: "0".repeat(64) },
    ],
    [{ collection: "c", id: "2" }, undefined],
  ],
  "docs.find": [
    [
      { collection: "c", filter: "{}", sort: [{ path: "a", direction: -1 }], limit: 1, skip: 0, projection: '{"a":1}' },
      { docs: ['{"_id":"1"}'] },
    ],
  ],
  "vector.search": [
    [
      { collection: "c", vector: embedding, k: 1, filter: "{}", metric: "dot", includeVectors: true },
      { hits: [{ id: "v", distance: -0, metadata: "{}", embedding }], metric: "dot" },
    ],
    [{ collection: "c", id: "v", includeMetadata: false }, { hits: [] }],
  ],
  "vector.get": [
    [
      { collection: "c", id: "v" },
      { id: "v", embedding, metadata: "{}" },
    ],
  ],
  "vector.list": [
    [
      { collection: "c", limit: 1, cursor: "dg", filter: "{}", includeVectors: true },
      { vectors: [{ id: "v", embedding }], nextCursor: "dg" },
    ],
  ],
  "file.get": [
    [
      { path: "a", version: 1, firstLine: 1, lastLine: 2 },
      { path: "a", text: "x", version: 1, hash: "f".repeat(64), size: 1, lines: 1, updatedAt: 1_763_884_867_123 },
    ],
  ],
  "file.list": [
    [
      { folder: "", recursive: false, limit: 2, cursor: "YQ" },
      {
        entries: [
          { path: "b", kind: "file", version: 1, hash: "f".repeat(64), size: 1, updatedAt: 0 },
          { path: "c", kind: "folder" },
        ],
        nextCursor: "Yy8",
      },
    ],
  ],
  "file.versions": [
    [
      { path: "a" },
      {
        versions: [
          { version: 2, change: "moved_away", otherPath: "b", writtenTxid: 2 ** 50, writtenAt: 0 },
          { version: 1, change: "written", writtenTxid: 3, writtenAt: 0, hash: "f".repeat(64), size: 1 },
        ],
      },
    ],
  ],
  "file.search": [
    [
      { query: "tea", folder: "notes", k: 3 },
      {
        hits: [
          { path: "notes/a", score: 1.5, hash: "f".repeat(64), passage: { firstLine: 1, lastLine: 2, text: "tea" } },
          { path: "notes/tea", score: 0.5, hash: "f".repeat(64) },
        ],
      },
    ],
  ],
  "facets.list": [
    [
      { kind: "topics", limit: 2, cursor: "WyJ0b3BpY3MiXQ" },
      {
        groups: [
          {
            kind: "topics",
            facets: [
              { name: "drink", type: "fact", count: 10_000, isApproximate: true },
              { name: "faces", types: ["null"], indexes: ["a.b"], dimension: 3, metric: "dot" },
            ],
            nextCursor: "x",
            isApproximate: true,
          },
        ],
      },
    ],
    [{}, { groups: [] }],
  ],
  due: [[{ retention, position, isSwept: true }, { dueAtMs: undefined }]],
  excess: [[{ countMax: 3, topic: { topicKey: "drink", type: "fact" } }, { found: false }]],
};

const points = [{ branch: "main", branchId: id, txid: 2 ** 50, ancestors: [{ branchId: id, forkTxid: 4 }] }];
const copies = [{ node: "node-a", copy: id }];

const acted: Acted = {
  fork: [
    [
      { act: "fork", name: "b", at: "12", ttlSecs: 60 },
      { branch: "b", parent: "main", forkTxid: 12, ttlAtMs: 1_763_884_867_123 },
    ],
    [
      { act: "fork", name: "b", at: undefined, ttlSecs: undefined },
      { branch: "b", parent: "main", forkTxid: 12, ttlAtMs: undefined },
    ],
  ],
  list: [
    [
      { act: "list" },
      {
        branches: [
          { name: "main", parent: undefined, forkTxid: undefined, txid: 9, createdAtMs: 1, ttlAtMs: undefined },
        ],
      },
    ],
  ],
  delete: [[{ act: "delete", name: "b" }, undefined]],
  checkpoint: [
    [
      { act: "checkpoint", name: "c" },
      { checkpoint: "c", txid: 9 },
    ],
  ],
  checkpoints: [[{ act: "checkpoints" }, { checkpoints: [{ name: "c", txid: 9, createdAtMs: 1 }] }]],
  "forget-checkpoint": [[{ act: "forget-checkpoint", name: "c" }, undefined]],
  rewind: [[{ act: "rewind", to: "12" }, { rewoundTo: 12 }]],
  sweep: [[{ act: "sweep", branchId: id }, undefined]],
  erase: [
    [
      { act: "erase", couponId, erase: { kind: "topic", topicKey: "drink", type: "fact" }, traceKey: traces.key },
      { found: true, memoryIds: [id], traces, branchId: id, ancestors: points[0]!.ancestors },
    ],
    [
      { act: "erase", couponId, erase: { kind: "session", sessionId: "s-1", turns: true }, traceKey: traces.key },
      { found: false, memoryIds: [], traces, branchId: id },
    ],
  ],
  expunge: [
    [
      {
        act: "expunge",
        coupons: [{ id: couponId, memoryIds: [id], points, traces, awaiting: { branches: [id], copies }, isDue: true }],
      },
      {
        blocked: { [couponId]: { checkpoints: ["main/c"], branches: [] } },
        reasons: { [couponId]: "a checkpoint keeps it" },
        clean: [],
        waitingFor: undefined,
        mayChangeSoon: true,
        evidence: undefined,
        copies: { [couponId]: { awaiting: { branches: [], copies }, holding: copies, purged: [], unattested: ["b"] } },
      },
    ],
    [
      { act: "expunge", coupons: [] },
      {
        blocked: {},
        clean: [couponId],
        waitingFor: undefined,
        mayChangeSoon: false,
        evidence: {
          objects: { listed: 3, live: 3, scanned: 3, bytes: 2 ** 33 },
          heads_checked: 1,
          catalogs_checked: 1,
          pages_scanned: 100,
          traces: { looked_for: 2, hits: 0 },
          states_restored: [{ branch: "main", txid: 9, pages: 3 }],
          // A branch may have this name.
          oldest_restorable_txid: JSON.parse('{"main":9,"__proto__":4,"constructor":5}') as Record<string, number>,
          store: { versioned: false, versions_removed: 0, uploads_aborted: 0 },
          local: [{ node: "a", files_scrubbed: 1, files_removed: 0 }],
        },
      },
    ],
    [
      { act: "expunge", coupons: [] },
      { blocked: {}, clean: [], waitingFor: "a node", mayChangeSoon: false, evidence: undefined },
    ],
  ],
};

const statements = [
  { text: "SELECT ?", paramsJson: "[12345678901234567890]" },
  { text: "SELECT 1", paramsJson: undefined },
];
const results: SqlStatementResult[] = [
  { columns: ["a"], rowsJson: "[[9007199254740993]]", rowsAffected: 0, lastInsertRowid: "9007199254740993" },
  {
    columns: [],
    rowsJson: "[]",
    rowsAffected: 0,
    lastInsertRowid: 7,
    error: { code: "invalid_request", message: "statement 1: no such table" },
  },
];
const outcomes: readonly SqlOutcome[] = [{ kind: "done", results }, { kind: "writes" }];

function samplesOf(
  kind: "write" | "read",
  table: Readonly<Record<string, readonly (readonly [unknown, unknown])[]>>,
): readonly CallSample[] {
  return Object.entries(table).flatMap(([command, samples]) =>
    samples.map(([input, value]) => ({ name: command, call: { kind, command, input } as PortCall, value })),
  );
}

/** Every command and act, and everything else that a call can be, at least once. */
export const callSamples: readonly CallSample[] = [
  ...samplesOf("write", written),
  ...samplesOf("read", read),
  ...Object.values(acted).flatMap((samples) =>
    samples.map(([act, value]) => ({ name: `branch ${act.act}`, call: { kind: "branch" as const, act }, value })),
  ),
  {
    name: "sql-write",
    call: { kind: "sql-write", batch: { statements, atomic: true, mayWrite: true, valuesMax: undefined, idempotency } },
    value: results,
  },
  ...samplesOf("read", read).flatMap(({ name, call, value }) =>
    call.kind === "read" && call.input !== undefined
      ? [{ name: `${name} as it was`, call: { ...call, at: "2026-01-31T12:00:00Z" }, value }]
      : [],
  ),
  {
    name: "sql-read as it was",
    call: { kind: "sql-read", batch: { statements, atomic: true, mayWrite: true, valuesMax: undefined }, at: "12" },
    value: outcomes[0],
  },
  ...outcomes.map((value) => ({
    name: "sql-read",
    call: { kind: "sql-read" as const, batch: { statements, atomic: false, mayWrite: false, valuesMax: 50_000 } },
    value,
  })),
  { name: "sync", call: { kind: "sync" }, value: undefined },
  { name: "drop", call: { kind: "drop" }, value: undefined },
];
