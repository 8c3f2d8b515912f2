/** The reserved tables of memories, sessions and turns. */
import { fingerprintSchema } from "./fingerprint-index.ts";
import { wordSchema } from "../text/word-batches.ts";
import { memoryWords } from "./keyword.ts";

/**
 * The tables of typed memory. Always true of them: at most one active memory per fingerprint and per (type, topic); a
 * memory's row number is the one of its indexed text and the owner of its vector. `content` comes last, so that no
 * filter walks through the overflow pages of a large one. Provenance says who said it, once for each (session, source),
 * absent ones as empty text; the memory's own session and source are the first one's, and when it has neither,
 * provenance need not say so again. A superseder may be gone: `superseded_by` is a fact about the past, not a
 * reference.
 */
const memoryTables = `
CREATE TABLE __service_memory (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL CHECK (type IN ('fact', 'event', 'instruction', 'task')),
  created_at INTEGER NOT NULL,
  expires_at INTEGER CHECK ((expires_at IS NOT NULL) = (type = 'task')),
  superseded_by TEXT,
  superseded_at INTEGER CHECK ((superseded_at IS NULL) = (superseded_by IS NULL)),
  topic_key TEXT CHECK (topic_key IS NULL OR type IN ('fact', 'instruction')),
  session_id TEXT,
  source TEXT,
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  keywords TEXT,
  summary TEXT NOT NULL,
  content TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX __service_memory_current ON __service_memory (topic_key, type) \
WHERE topic_key IS NOT NULL AND superseded_by IS NULL;
CREATE INDEX __service_memory_chain ON __service_memory (topic_key, type) WHERE topic_key IS NOT NULL;
CREATE INDEX __service_memory_superseder ON __service_memory (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX __service_memory_expiry ON __service_memory (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX __service_memory_task ON __service_memory (session_id) WHERE type = 'task';
CREATE TABLE __service_memory_provenance (
  memory INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  source TEXT NOT NULL,
  PRIMARY KEY (memory, session_id, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX __service_memory_session ON __service_memory_provenance (session_id) WHERE session_id <> '';
`;

/** How a memory is found by its fingerprint in the first format. */
const identityIndex =
  "CREATE UNIQUE INDEX __service_memory_identity ON __service_memory (fingerprint) WHERE superseded_by IS NULL;";

/**
 * Sessions and transcripts. A session's row exists from its first memory or turn until it is ended. A turn's row number
 * is the owner of its vector. The turn floor keeps the last number of a transcript that was dropped, so that a number
 * is never given twice within a branch's history.
 */
const sessionTables = `
CREATE TABLE __service_session (
  id TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  last_active_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX __service_session_activity ON __service_session (last_active_at, id);
CREATE TABLE __service_turn (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq >= 1),
  created_at INTEGER NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  UNIQUE (session_id, seq)
) STRICT;
CREATE TABLE __service_turn_floor (
  session_id TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`;

/** Everything that memory, recall and transcript keep in a file of that format. Runs once, in an empty database. */
export function memorySchema(format: number): string {
  const identity = format === 1 ? identityIndex : fingerprintSchema;
  return `${memoryTables}${identity}${sessionTables}${wordSchema(memoryWords)}`;
}
