/**
 * What an evaluation fills and asks: a node through its public REST interface, the same modules in this process, or
 * plain BM25.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { ingest, type MemoryInput } from "../../src/model/memory/memory-ingest.ts";
import { memoryText, turnText } from "../../src/model/embedding.ts";
import { recall } from "../../src/model/recall.ts";
import { queryTerms } from "../../src/model/text/words.ts";
import { appendTurn } from "../../src/model/transcript/transcript.ts";
import { ModelDatabase } from "../support/model-database.ts";
import { startNodeProcess } from "../support/node-process.ts";
import type { KeptEmbedder } from "./embeddings.ts";

/** A memory as REST takes it. */
export interface Draft {
  readonly type: "fact" | "event" | "instruction" | "task";
  readonly summary: string;
  readonly content: unknown;
  readonly source?: string;
  readonly session_id?: string;
  readonly keywords?: string;
  readonly topic_key?: string;
  readonly metadata?: object;
  readonly ttl?: number;
}

interface Question {
  readonly query: string;
  readonly k: number;
  /** Turns of the transcript instead of memories. */
  readonly turns?: boolean;
  /** Instead of the gate. */
  readonly keywordMin?: number;
  readonly filter?: object;
}

/** Keys are distinct within a profile. */
export interface Target {
  /** The keys of the memories, in their order. */
  ingest(profile: string, drafts: readonly Draft[]): Promise<readonly string[]>;
  /** The key of the turn. */
  append(profile: string, session: string, role: string, content: unknown): Promise<string>;
  /** The keys of what was found, best first. */
  recall(profile: string, question: Question): Promise<readonly string[]>;
  /** Lets so many seconds pass. */
  wait(seconds: number): Promise<void>;
  close(): Promise<void>;
}

const turnKey = (session: string, seq: number): string => `${session}#${seq}`;
const batchBytesMax = 4 * 1024 * 1024;
const batchMax = 500;
const namespace = "eval";

/** So few that their vectors are made before the write is answered. */
const embeddedBatchMax = 50;

/** A node of its own, over REST; `embedder` is that of SERVICE_EMBED_PROVIDER. */
export async function restTarget(embedder?: string): Promise<Target> {
  const directory = mkdtempSync(join(tmpdir(), "palimpsest-eval-"));
  const node = await startNodeProcess(directory, {
    ...(embedder !== undefined && { SERVICE_EMBED_PROVIDER: embedder }),
    SERVICE_CONTROL_RATE: "100000",
    SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024),
  });
  const call = async (method: string, path: string, body: unknown): Promise<any> => {
    const { status, text, json } = await node.call(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return json;
  };
  const address = (profile: string): string => `/v1/memory/${namespace}/${profile}`;
  const send = async (profile: string, memories: readonly Draft[]): Promise<string[]> =>
    (await call("POST", `${address(profile)}/memories`, { memories })).results.map(({ id }: { id: string }) => id);
  const known = new Set<string>();
  const most = embedder === undefined ? batchMax : embeddedBatchMax;
  return {
    async ingest(profile, drafts) {
      const ids: string[] = [];
      let batch: Draft[] = [];
      let bytes = 0;
      for (const draft of drafts) {
        const size = JSON.stringify(draft).length;
        if (batch.length === most || bytes + size > batchBytesMax) {
          ids.push(...(await send(profile, batch)));
          batch = [];
          bytes = 0;
        }
        batch.push(draft);
        bytes += size;
      }
      return batch.length === 0 ? ids : [...ids, ...(await send(profile, batch))];
    },
    async append(profile, session, role, content) {
      // A profile is made by its first memory.
      if (!known.has(profile)) await send(profile, [{ type: "event", summary: "-", content: null }]);
      known.add(profile);
      const path = `/v1/db/${namespace}--${profile}/memory/${encodeURIComponent(session)}/turns`;
      const { seq } = await call("POST", path, { role, content });
      return turnKey(session, seq);
    },
    async recall(profile, { query, k, turns, keywordMin, filter }) {
      const answer = await call("POST", `${address(profile)}/recall`, {
        query,
        k,
        ...(turns && { search_turns: true, include_turns: embedder !== undefined }),
        ...(keywordMin === undefined ? {} : { min_score: { keyword: keywordMin } }),
        ...(filter && { filter }),
      });
      return turns
        ? answer.turns.map((turn: { session_id: string; seq: number }) => turnKey(turn.session_id, turn.seq))
        : answer.memories.map(({ id }: { id: string }) => id);
    },
    wait: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    async close() {
      await node.end("SIGTERM");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The modules of recall over a bare database in this process: the same answers, sooner. */
export function directTarget(embedder?: KeptEmbedder): Target {
  const embedded = async (text: string) =>
    embedder && text !== "" ? { embedding: await embedder.embed(text), embeddedBy: embedder.maker } : {};
  const profiles = new Map<string, ModelDatabase>();
  const open = (profile: string): ModelDatabase => {
    const known = profiles.get(profile);
    if (known) return known;
    const made = new ModelDatabase();
    made.connection.exec("PRAGMA synchronous = OFF");
    profiles.set(profile, made);
    return made;
  };
  return {
    async ingest(profile, drafts) {
      const given = drafts.map(({ content, session_id, topic_key, metadata, ttl, ...same }): MemoryInput => ({
        ...same,
        content: JSON.stringify(content),
        ...(session_id === undefined ? {} : { sessionId: session_id }),
        ...(topic_key === undefined ? {} : { topicKey: topic_key }),
        ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
        ...(ttl === undefined ? {} : { ttlSecs: ttl }),
      }));
      const memories: MemoryInput[] = [];
      for (const one of given)
        memories.push({ ...one, ...(one.type === "task" ? {} : await embedded(memoryText(one))) });
      return open(profile)
        .write((tx) => ingest(tx, { memories }))
        .results.map(({ id }) => id);
    },
    async append(profile, sessionId, role, content) {
      const said = { sessionId, role, content: JSON.stringify(content) };
      const turn = { ...said, ...(await embedded(turnText(said))) };
      return turnKey(sessionId, open(profile).write((tx) => appendTurn(tx, turn)).seq);
    },
    async recall(profile, { query, k, turns = false, keywordMin, filter }) {
      const answer = recall(open(profile).view(), {
        query,
        k,
        ...(embedder && { embedding: await embedder.embed(query), embeddedBy: embedder.maker.name }),
        searchTurns: turns,
        includeTurns: turns && embedder !== undefined,
        ...(keywordMin === undefined ? {} : { minScore: { keyword: keywordMin } }),
        ...(filter && { filter: JSON.stringify(filter) }),
      });
      return turns
        ? answer.turns.map(({ sessionId, seq }) => turnKey(sessionId, seq))
        : answer.memories.map(({ id }) => id);
    },
    async wait(seconds) {
      for (const database of profiles.values()) database.nowMs += seconds * 1000;
    },
    async close() {
      for (const database of profiles.values()) database.close();
    },
  };
}

const texts = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Object.values((value ?? {}) as object)
        .map(texts)
        .join("\n");

/** What SQLite's full-text search finds by itself: any word of the question, stemmed, stop words dropped, no floor. */
export function plainTarget(): Target {
  const database = new Database(":memory:");
  database.exec(`CREATE VIRTUAL TABLE text USING fts5 (profile UNINDEXED, key UNINDEXED, body,
    tokenize = 'porter unicode61')`);
  const insert = database.prepare("INSERT INTO text (profile, key, body) VALUES (?, ?, ?)");
  const search = database
    .prepare("SELECT key FROM text WHERE text MATCH ? AND profile = ? ORDER BY bm25(text), rowid LIMIT ?")
    .pluck();
  const seqs = new Map<string, number>();
  const add = (profile: string, key: string, body: string): string => {
    insert.run(profile, key, body);
    return key;
  };
  let added = 0;
  return {
    async ingest(profile, drafts) {
      return drafts.map(({ summary, content, keywords = "", topic_key = "", source = "" }) =>
        add(profile, `m${added++}`, [topic_key, keywords, summary, texts(content), source].join("\n")),
      );
    },
    async append(profile, session, role, content) {
      const seq = (seqs.get(profile + session) ?? 0) + 1;
      seqs.set(profile + session, seq);
      return add(profile, turnKey(session, seq), `${texts(content)}\n${role}`);
    },
    async recall(profile, { query, k }) {
      const match = queryTerms(query)
        .map((term) => term.match)
        .join(" OR ");
      return match === "" ? [] : (search.all(match, profile, k) as string[]);
    },
    async wait() {},
    async close() {
      database.close();
    },
  };
}
