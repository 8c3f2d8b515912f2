/**
 * What a memory was derived from: turns and other memories.
 *
 * Owns its table, which is made by the first link: earlier files stay as they are. Always true: a link belongs to a
 * memory that is there, which a trigger of the file sees to, so that a build that knows nothing of the table leaves
 * none behind either. It is a fact about the past: what it names may have been forgotten since; when that is erased, so
 * is the link. Each has an id of its own, so that a copy of it can be looked for (erasure-traces). Must not know:
 * whether what a link names is there, who erases.
 */
import { invalid } from "../../base/faults/errors.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { checkSessionId, checkText } from "../../format/core/names.ts";
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import { encodeRecord, integer, text } from "../core/record-bytes.ts";
import type { Tx, View } from "../core/transaction.ts";

/** Links of one memory. */
export const linksMax = 32;
export const memoryIdBytesMax = 64;

const table = "__service_memory_link";

const schema = `
CREATE TABLE ${table} (
  link TEXT NOT NULL PRIMARY KEY,
  id TEXT NOT NULL,
  memory INTEGER NOT NULL,
  from_memory TEXT,
  session_id TEXT,
  seq INTEGER CHECK ((seq IS NULL) = (session_id IS NULL) AND (from_memory IS NULL) <> (session_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX __service_memory_link_owner ON ${table} (memory);
CREATE INDEX __service_memory_link_memory ON ${table} (from_memory, memory) WHERE from_memory IS NOT NULL;
CREATE INDEX __service_memory_link_turn ON ${table} (session_id, memory, seq) WHERE session_id IS NOT NULL;
CREATE TRIGGER __service_memory_links_gone AFTER DELETE ON __service_memory
BEGIN DELETE FROM ${table} WHERE memory = old.row; END;
`;

/** What a memory was derived from: another one, or the turn of this number of a session. */
export interface MemoryLink {
  readonly memoryId?: string;
  readonly sessionId?: string;
  readonly seq?: number;
}

/** Which links: to a memory, to a turn, or to any turn of a session. */
export type LinkTarget = MemoryLink;

/** SQL that finds links without their memory; undefined while there are none at all. */
export function strayLinks(connection: Connection): string | undefined {
  return connection.hasTable(table)
    ? `SELECT 1 FROM ${table} WHERE memory NOT IN (SELECT row FROM __service_memory) LIMIT 1`
    : undefined;
}

/** Refuses what no link can be; `field` is its place. */
export function checkLink(field: string, { memoryId, sessionId, seq }: MemoryLink): void {
  if ((memoryId === undefined) === (sessionId === undefined))
    throw invalid(`${field} must have either memory_id or session_id`);
  if (memoryId !== undefined) {
    checkText(`${field}.memory_id`, memoryId, memoryIdBytesMax);
    if (seq !== undefined) throw invalid(`${field}.seq belongs to a session_id`);
    return;
  }
  checkSessionId(sessionId!);
  checkTurnNumber(`${field}.seq`, seq);
}

/** Refuses what numbers no turn. */
export function checkTurnNumber(field: string, seq: number | undefined): void {
  if (!Number.isSafeInteger(seq) || seq! < 1) throw invalid(`${field} must be the number of a turn, from 1`);
}

/** Gives the memory links that it does not have yet, as far as there is room for them; says whether there were any. */
export function addLinks(
  tx: Tx,
  memory: { readonly row: number; readonly id: string },
  links: readonly MemoryLink[],
): boolean {
  if (links.length === 0) return false;
  const has = new Set(readLinks(tx, memory.row).map(formatLink));
  const news = [...new Map(links.map((link) => [formatLink(link), link]))].filter(([key]) => !has.has(key));
  if (news.length > 0 && !tx.connection.hasTable(table)) tx.connection.exec(schema);
  const added = news.slice(0, Math.max(0, linksMax - has.size));
  for (const [, { memoryId, sessionId, seq }] of added)
    tx.connection.run(
      `INSERT INTO ${table} (link, id, memory, from_memory, session_id, seq) VALUES (?, ?, ?, ?, ?, ?)`,
      tx.newId(),
      memory.id,
      memory.row,
      memoryId ?? null,
      sessionId ?? null,
      seq ?? null,
    );
  return added.length > 0;
}

function formatLink({ memoryId, sessionId, seq }: MemoryLink): string {
  return JSON.stringify([memoryId ?? null, sessionId ?? null, seq ?? null]);
}

/** What the memory of this row was derived from, in the order in which it was said. */
export function readLinks({ connection }: View, row: number): MemoryLink[] {
  if (!connection.hasTable(table)) return [];
  return connection
    .all<LinkRow>(
      `SELECT from_memory AS memoryId, session_id AS sessionId, seq FROM ${table} WHERE memory = ? ORDER BY link`,
      row,
    )
    .map(({ memoryId, sessionId, seq }) => (memoryId === null ? { sessionId: sessionId!, seq: seq! } : { memoryId }));
}

/** SQL that gives the links of the row that the expression numbers as JSON, in the names of the wire. */
export function linksColumn({ connection }: View, memory: string): string {
  if (!connection.hasTable(table)) return "'[]'";
  return `(SELECT json_group_array(json(CASE WHEN l.from_memory IS NULL
      THEN json_object('session_id', l.session_id, 'seq', l.seq) ELSE json_object('memory_id', l.from_memory) END)
      ORDER BY l.link) FROM ${table} AS l WHERE l.memory = ${memory})`;
}

interface LinkRow {
  readonly memoryId: string | null;
  readonly sessionId: string | null;
  readonly seq: number | null;
}

/** SQL and parameters for the links to the target, on the table as `l`. */
function targetSql({ memoryId, sessionId, seq }: LinkTarget): { sql: string; params: readonly SqlParameter[] } {
  if (memoryId !== undefined) return { sql: "l.from_memory = ?", params: [memoryId] };
  const sql = "l.session_id = ?";
  return seq === undefined ? { sql, params: [sessionId!] } : { sql: `${sql} AND l.seq = ?`, params: [sessionId!, seq] };
}

/**
 * SQL for the rows of the memories that were derived from the target, in a column `memory` that can be narrowed;
 * undefined where there is no link at all.
 */
export function derivedRows(
  { connection }: View,
  target: LinkTarget,
): { readonly sql: string; readonly params: readonly SqlParameter[] } | undefined {
  if (!connection.hasTable(table)) return undefined;
  const { sql, params } = targetSql(target);
  return { sql: `SELECT DISTINCT l.memory FROM ${table} AS l WHERE ${sql}`, params };
}

/** A link with what its copies are found by. */
export interface FoundLink {
  readonly link: string;
  readonly memory: number;
  readonly windows: readonly Uint8Array[];
}

interface WholeLink extends LinkRow {
  readonly link: string;
  readonly id: string;
  readonly memory: number;
}

function findLinks({ connection }: View, where: string, params: readonly SqlParameter[]): readonly FoundLink[] {
  if (!connection.hasTable(table)) return [];
  return connection
    .all<WholeLink>(
      `SELECT l.link, l.id, l.memory, l.from_memory AS memoryId, l.session_id AS sessionId, l.seq
       FROM ${table} AS l WHERE ${where}`,
      ...params,
    )
    .map(({ link, id, memory, memoryId, sessionId, seq }) => {
      const own = text(encodeUtf8(link));
      const entry =
        memoryId === null
          ? encodeRecord(text(encodeUtf8(sessionId!)), integer(memory), integer(seq!), own)
          : encodeRecord(text(encodeUtf8(memoryId)), integer(memory), own);
      return { link, memory, windows: [encodeUtf8(link + id), entry] };
    });
}

/** The links of the memory of this row, for their windows: the beginning of the first, the end of the second. */
export function linksOf(view: View, row: number): readonly FoundLink[] {
  return findLinks(view, "l.memory = ?", [row]);
}

/** The links to the target, likewise. */
export function linksTo(view: View, target: LinkTarget): readonly FoundLink[] {
  const { sql, params } = targetSql(target);
  return findLinks(view, sql, params);
}

/** Removes these links, and says of how many memories they were. */
export function removeLinks({ connection }: Tx, links: readonly FoundLink[]): number {
  const memories = new Set<number>();
  for (const { link, memory } of links)
    if (connection.run(`DELETE FROM ${table} WHERE link = ?`, link).changes > 0) memories.add(memory);
  return memories.size;
}
