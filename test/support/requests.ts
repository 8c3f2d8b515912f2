/** One good request of every method, for tests that go over the whole endpoint table. */
import { endpoints } from "../../src/service/call/methods.ts";

export type Request = Readonly<Record<string, unknown>>;

/** Methods that a node answers with 503 when no model is configured. */
export const unserved: ReadonlySet<string> = new Set([
  "MemoryService.Ask",
  "MemoryService.Extract",
  "MemoryService.Reembed",
  "MemoryService.Calibrate",
]);

interface Profile {
  readonly ns: string;
  readonly profile: string;
}

/** A request that the method takes, in the specification's JSON, by the endpoint's name; every body field is given. */
export function sampleRequests(db: string, at: Profile): ReadonlyMap<string, Request> {
  const samples = new Map<string, Request>([
    ...controlSamples(db, at),
    ...memorySamples(at),
    ...dataSamples(db),
    ...fileSamples(db),
    ...branchSamples(db),
    ...transferSamples(db),
    ...webhookSamples(db),
  ]);
  const missing = endpoints.filter(({ name }) => !samples.has(name));
  if (missing.length > 0) throw new Error(`no sample request for ${missing.map(({ name }) => name).join(", ")}`);
  return samples;
}

function controlSamples(db: string, { ns }: Profile): [string, Request][] {
  return [
    ["ControlService.CreateDatabase", { name: "sample" }],
    ["ControlService.ListDatabases", {}],
    ["ControlService.DeleteDatabase", { db: "sample" }],
    ["ControlService.MintDatabaseToken", { db, scope: "read", expires_in: 60 }],
    ["ControlService.MintNamespaceToken", { ns, scope: "read", expires_in: 60 }],
    ["ControlService.RevokeDatabaseToken", { db, jti: "01HF7YAT00000000000000000J" }],
    ["ControlService.RevokeNamespaceToken", { ns, jti: "01HF7YAT00000000000000000J" }],
    ["ControlService.GetNamespacePolicy", { ns }],
    ["ControlService.PutNamespacePolicy", { ns, policy: {} }],
    ["ControlService.ReadAudit", { ns }],
    ["ControlService.GetNamespaceUsage", { ns }],
  ];
}

function transferSamples(db: string): [string, Request][] {
  const header = { kind: "header", format: "palimpsest-export", version: 1 };
  const records = Buffer.from(`${JSON.stringify(header)}\n`);
  return [
    ["TransferService.Export", { db }],
    ["TransferService.Import", { db, records, mode: "skip", dry_run: true, checkpoint: "before" }],
  ];
}

function webhookSamples(db: string): [string, Request][] {
  const one = { db, id: "whk_01HF7YAT00000000000000000J" };
  const given = { url: "https://example.org/hooks/x", kinds: ["kv"], description: "d" };
  return [
    ["WebhookService.CreateWebhook", { db, ...given, after: 0 }],
    ["WebhookService.ListWebhooks", { db }],
    ["WebhookService.UpdateWebhook", { ...one, ...given, paused: true }],
    ["WebhookService.DeleteWebhook", one],
    ["WebhookService.TestWebhook", one],
    ["WebhookService.ListWebhookFailures", one],
    ["WebhookService.RedeliverWebhook", { ...one, txids: [1], drop: true }],
  ];
}

function memorySamples(at: Profile): [string, Request][] {
  const narrowed = { types: ["fact"], session_id: "s", source: "me", k: 5, include_superseded: false };
  return [
    ["MemoryService.ListProfiles", { ns: at.ns }],
    [
      "MemoryService.Ingest",
      {
        ...at,
        memories: [
          {
            type: "fact",
            summary: "a fact",
            content: { a: 1 },
            metadata: { a: 1 },
            pinned: true,
            status: "proposed",
            valid_from: 1,
            valid_until: 2,
            subject: "u",
          },
        ],
      },
    ],
    ["MemoryService.ListMemories", { ...at }],
    [
      "MemoryService.ForgetMemories",
      {
        ...at,
        types: ["fact"],
        topic_key: "none",
        session_id: "s",
        source: "me",
        subject: "u",
        since: 0,
        until: 1,
        filter: { a: 1 },
        include_superseded: false,
        include_completed: false,
        status: "active",
        valid_at: 1,
        derived_from_session: "s",
        derived_from_seq: 1,
        limit: 5,
      },
    ],
    ["MemoryService.GetHistory", { ...at, topic_key: "t", type: "fact" }],
    ["MemoryService.GetMemory", { ...at, id: "mem_none" }],
    [
      "MemoryService.UpdateMemory",
      { ...at, id: "mem_none", pinned: true, metadata: { a: 1 }, keywords: "k", ttl: 60, completed: true },
    ],
    ["MemoryService.ReviewMemory", { ...at, ids: ["mem_none"], verdict: "approve" }],
    ["MemoryService.ForgetMemory", { ...at, id: "mem_none" }],
    [
      "MemoryService.Recall",
      {
        ...at,
        query: "fact",
        embedding: [1, 0],
        topic_key: "t",
        ...narrowed,
        include_turns: false,
        search_turns: false,
        explain: false,
        min_score: { keyword: 0.5 },
        filter: { a: 1 },
        since: 0,
        until: 1,
        subject: "u",
        prefer_session_id: "s",
        k_per_type: { fact: 1, event: 1, instruction: 1, task: 1 },
        include_completed: false,
        valid_at: 1,
        include_invalid: false,
      },
    ],
    [
      "MemoryService.GetContext",
      {
        ...at,
        query: "fact",
        embedding: [1, 0],
        max_tokens: 800,
        format: "json",
        sections: [{ name: "facts", share: 5, max_lines: 3 }],
        session_id: "s",
        now: 1,
      },
    ],
    ["MemoryService.Ask", { ...at, question: "who?", ...narrowed, valid_at: 1 }],
    [
      "MemoryService.Extract",
      {
        ...at,
        turns: [{ role: "user", content: "x" }],
        session_id: "s",
        source: "me",
        status: "proposed",
        dry_run: true,
      },
    ],
    ["MemoryService.Reembed", { ...at, cursor: "memory-0" }],
    ["MemoryService.Calibrate", { ...at, unrelated_share: 0.02, seed: 1, dry_run: false }],
    ["MemoryService.ListSessions", { ...at }],
    ["MemoryService.EndSession", { ...at, sid: "s" }],
    ["MemoryService.CreateErasure", { ...at, memory_id: "mem_none" }],
    ["MemoryService.ListErasures", { ...at }],
    ["MemoryService.GetErasure", { ...at, id: "ers_none" }],
    ["MemoryService.GetProfilePolicy", { ...at }],
    ["MemoryService.PutProfilePolicy", { ...at, policy: null }],
  ];
}

function dataSamples(db: string): [string, Request][] {
  const docs = { db, coll: "c" };
  return [
    ["DataService.AppendTurn", { db, session: "s", role: "user", content: "x", embedding: [1, 2], subject: "u" }],
    [
      "DataService.AppendTurns",
      {
        db,
        session: "s",
        turns: [{ role: "user", content: "x", turn_id: "t", metadata: { a: 1 }, embedding: [1, 2] }],
        operation_id: "o-1",
      },
    ],
    ["DataService.ListTurns", { db, session: "s" }],
    ["DataService.DeleteTurns", { db, session: "s", seq: 1, operation_id: "o-2" }],
    [
      "DataService.ReplaceTurns",
      { db, session: "s", expected: [], turns: [{ role: "user", content: "x" }], operation_id: "o-3" },
    ],
    ["DataService.SearchTurns", { db, session: "s", vector: [1, 2], k: 3 }],
    ["DataService.ExecuteSql", { db, stmts: [{ q: "SELECT ?", params: [1] }], txn: true }],
    ["DataService.Sync", { db }],
    ["DataService.ListFacets", { db }],
    ["DataService.ListKeys", { db, ns: "n" }],
    ["DataService.GetValue", { db, ns: "n", key: "k" }],
    ["DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("v") }],
    ["DataService.DeleteValue", { db, ns: "n", key: "k" }],
    ["DataService.GetValues", { db, ns: "n", keys: ["k"] }],
    ["DataService.PutValues", { db, ns: "n", items: [{ key: "k", text: "v", ttl: 60, if_absent: false }] }],
    ["DataService.DeleteValues", { db, ns: "n", items: [{ key: "k" }] }],
    ["DataService.InsertDocs", { ...docs, docs: [{ a: 1 }], subject: "u" }],
    ["DataService.FindDocs", { ...docs, filter: { a: 1 }, sort: { a: 1 }, limit: 5, skip: 0, projection: { a: 1 } }],
    ["DataService.UpdateDocs", { ...docs, filter: {}, update: { $set: { a: 2 } }, multi: false, upsert: false }],
    ["DataService.DeleteDocs", { ...docs, filter: {}, multi: false }],
    ["DataService.PutDoc", { ...docs, id: "d", doc: { a: 1 }, if_absent: false, subject: "u" }],
    ["DataService.GetDoc", { ...docs, id: "d" }],
    ["DataService.DeleteDoc", { ...docs, id: "d" }],
    ["DataService.CreateDocIndex", { ...docs, path: "a" }],
    ["DataService.ListDocIndexes", { ...docs }],
    ["DataService.DropDocIndex", { ...docs, path: "a" }],
    ["DataService.ListDocCollections", { db, limit: 5, after: "a" }],
    ["DataService.CountDocs", { ...docs, filter: { a: 1 }, limit: 5 }],
    ["DataService.GroupDocs", { ...docs, filter: { a: 1 }, path: "a", limit: 5 }],
    [
      "DataService.UpsertVector",
      { ...docs, id: "v", embedding: [1, 2], metadata: { a: 1 }, metric: "cosine", subject: "u" },
    ],
    [
      "DataService.UpsertVectors",
      { ...docs, vectors: [{ id: "v", embedding: [1, 2], metadata: { a: 1 } }], metric: "cosine" },
    ],
    ["DataService.ListVectors", { ...docs }],
    ["DataService.GetVector", { ...docs, id: "v" }],
    ["DataService.DeleteVector", { ...docs, id: "v" }],
    ["DataService.DeleteVectors", { ...docs, filter: { a: 1 } }],
    [
      "DataService.SearchVectors",
      {
        ...docs,
        vector: [1, 2],
        k: 5,
        filter: { a: 1 },
        metric: "cosine",
        include_vectors: true,
        include_metadata: true,
      },
    ],
  ];
}

function fileSamples(db: string): [string, Request][] {
  const at = { db, path: "notes/a.md" };
  return [
    ["FileService.PutFile", { ...at, text: "one\n", if_absent: false, subject: "u" }],
    ["FileService.GetFile", at],
    ["FileService.EditFile", { ...at, edits: [{ after_line: 0, text: "two" }] }],
    ["FileService.ListFiles", { db }],
    ["FileService.MoveFiles", { ...at, to: "notes/b.md", overwrite: true }],
    ["FileService.DeleteFiles", at],
    ["FileService.ListFileVersions", at],
    ["FileService.SearchFiles", { db, query: "two", folder: "notes", k: 3 }],
  ];
}

function branchSamples(db: string): [string, Request][] {
  const main = { db, branch: "main" };
  return [
    ["BranchService.CreateBranch", { db, name: "side", from: "main", ttl: 60, at: "0" }],
    ["BranchService.ListBranches", { db }],
    ["BranchService.DeleteBranch", { db, branch: "side" }],
    ["BranchService.CreateCheckpoint", { ...main, name: "c" }],
    ["BranchService.ListCheckpoints", main],
    ["BranchService.DiffStates", { db, from: "1" }],
    ["ChangeService.Undo", { db, txid: 1_000_000, dry_run: true }],
    ["BranchService.DeleteCheckpoint", { ...main, name: "c" }],
    ["BranchService.RewindBranch", { ...main, to: "1" }],
  ];
}
