/**
 * Whom records are about: a name of the caller's that a record of any kind may carry, by which all of them are found.
 *
 * Owns its table, which is made when the first subject is given: earlier files stay as they are. Always true: a row
 * belongs to a record that is there, which triggers of the file see to, whatever removes the record and whichever
 * build; a record has one subject at most. Must not know: what a record holds, how one is removed.
 */
import type { Connection, SqlParameter } from "../../sqlite/connection/connection.ts";
import { checkText } from "../../format/core/names.ts";
import type { Tx, View } from "./transaction.ts";

export const subjectBytesMax = 256;

const table = "__service_subject";
const schema = `
CREATE TABLE ${table} (
  row INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  place INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  subject TEXT NOT NULL,
  UNIQUE (kind, place, owner)
) STRICT;
CREATE INDEX __service_subject_named ON ${table} (subject, kind, place, owner);
`;

/** The table whose rows a kind's records are, and the column that numbers them. */
const owners = {
  memory: ["__service_memory", "row"],
  turn: ["__service_turn", "row"],
  key: ["__service_kv", "row"],
  vector: ["__service_vector_item", "owner"],
  file: ["__service_file_version", "row"],
  /** One table for each collection, whose number is the place. */
  document: ["__service_doc_", "n"],
} as const;

export type SubjectKind = keyof typeof owners;

/** A record that may have a subject. */
export interface Owner {
  readonly kind: SubjectKind;
  /** The number of a document's collection; 0 of every other kind. */
  readonly place?: number;
  readonly owner: number;
}

/** Refuses what is no subject. */
export function checkSubject(field: string, subject: string): string {
  return checkText(field, subject, subjectBytesMax);
}

/** Gives the record the subject: absent, it keeps what it has; empty, it has none. The same again changes nothing. */
export function putSubject(
  { connection }: Tx,
  { kind, place = 0, owner }: Owner,
  subject: string | undefined,
  field = "subject",
): void {
  if (subject === undefined) return;
  const isMade = connection.hasTable(table);
  if (subject === "") {
    if (isMade) connection.run(`DELETE FROM ${table} WHERE kind = ? AND place = ? AND owner = ?`, kind, place, owner);
    return;
  }
  checkSubject(field, subject);
  if (!isMade) connection.exec(schema);
  ensureTrigger(connection, kind, place);
  connection.run(
    `INSERT INTO ${table} (kind, place, owner, subject) VALUES (?, ?, ?, ?)
     ON CONFLICT (kind, place, owner) DO UPDATE SET subject = excluded.subject WHERE subject <> excluded.subject`,
    kind,
    place,
    owner,
    subject,
  );
}

/** Sees to it that a subject goes with its record. */
function ensureTrigger(connection: Connection, kind: SubjectKind, place: number): void {
  const name = `${table}_of_${kind}_${place}`;
  if (connection.get("SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = ?", name)) return;
  const [ownTable, column] = owners[kind];
  connection.exec(
    `CREATE TRIGGER ${name} AFTER DELETE ON ${kind === "document" ? `${ownTable}${place}` : ownTable} BEGIN
       DELETE FROM ${table} WHERE kind = '${kind}' AND place = ${place} AND owner = old.${column}; END`,
  );
}

/** SQL that gives the subject of the row that the expression numbers, or NULL. */
export function subjectColumn({ connection }: View, kind: SubjectKind, owner: string, place = 0): string {
  if (!connection.hasTable(table)) return "NULL";
  return `(SELECT s.subject FROM ${table} AS s WHERE s.kind = '${kind}' AND s.place = ${place} AND s.owner = ${owner})`;
}

/** SQL that holds where the row that the expression numbers has the subject. */
export function subjectCondition(
  { connection }: View,
  kind: SubjectKind,
  owner: string,
  subject: string,
): { readonly sql: string; readonly params: readonly SqlParameter[] } {
  if (!connection.hasTable(table)) return { sql: "0", params: [] };
  return {
    sql: `EXISTS (SELECT 1 FROM ${table} AS s WHERE s.kind = '${kind}' AND s.place = 0 AND s.owner = ${owner}
      AND s.subject = ?)`,
    params: [subject],
  };
}

/** The subject of a record, or undefined. */
export function subjectOf({ connection }: View, { kind, place = 0, owner }: Owner): string | undefined {
  if (!connection.hasTable(table)) return undefined;
  return connection.get<{ subject: string }>(
    `SELECT subject FROM ${table} WHERE kind = ? AND place = ? AND owner = ?`,
    kind,
    place,
    owner,
  )?.subject;
}

/** The records of a subject, at most `most` of them, by kind. */
export function ownersOf({ connection }: View, subject: string, most: number): readonly Required<Owner>[] {
  if (!connection.hasTable(table)) return [];
  return connection.all(
    `SELECT kind, place, owner FROM ${table} WHERE subject = ? ORDER BY kind, place, owner LIMIT ?`,
    subject,
    most,
  );
}

/** The first subjects behind a name, in the order of their bytes. */
export function subjectsAfter({ connection }: View, after: string, most: number): readonly string[] {
  const names: string[] = [];
  if (!connection.hasTable(table)) return names;
  // One look into the index for each: subjects are kept nowhere else.
  for (let last = after; names.length < most;) {
    const next = connection.get<{ subject: string }>(
      `SELECT subject FROM ${table} WHERE subject > ? ORDER BY subject LIMIT 1`,
      last,
    );
    if (!next) break;
    names.push(next.subject);
    last = next.subject;
  }
  return names;
}

/** What counts the records of a subject: `FROM …` with the subject as its parameter. */
export const fromSubject = `FROM ${table} WHERE subject = ?`;

/** SQL that finds a subject of a record that is not there; undefined while there are no subjects. */
export function straySubjects(connection: Connection): string | undefined {
  if (!connection.hasTable(table)) return undefined;
  const kinds = Object.entries(owners).filter(([kind, [name]]) => kind !== "document" && connection.hasTable(name));
  const collections = connection.all<{ place: number }>(`SELECT DISTINCT place FROM ${table} WHERE kind = 'document'`);
  return [
    ...kinds.map(([kind, [name, column]]) => [kind, 0, name, column] as const),
    ...collections.map(({ place }) => ["document", place, `${owners.document[0]}${place}`, "n"] as const),
  ]
    .map(
      ([kind, place, name, column]) =>
        `SELECT 1 FROM ${table} WHERE kind = '${kind}' AND place = ${place}
           AND owner NOT IN (SELECT ${column} FROM ${name})`,
    )
    .join(" UNION ALL ")
    .concat(" LIMIT 1");
}
