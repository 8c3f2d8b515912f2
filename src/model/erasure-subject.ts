/**
 * Records of one subject, of every kind but memories: how they are found, and removed with what was derived from them.
 *
 * Always true: what a record is known by afterwards begins with its kind and its names; a session in which nothing is
 * left goes too, as its id may tell whom it was with. Must not know: memories, coupons, history.
 */
import { limits } from "../base/limits.ts";
import type { RecordTarget } from "../format/erasure/erasure-receipt.ts";
import { encodeUtf8 } from "../base/bytes.ts";
import { isSessionUsed, removeSession } from "./core/session-row.ts";
import { ownersOf, type SubjectKind } from "./core/subjects.ts";
import type { Tx, View } from "./core/transaction.ts";
import { removeDoc } from "./docs/docs.ts";
import { collectionName } from "./docs/docs-index.ts";
import { docWindow, kvWindow, versionWindow, type FoundRecord, type KvRow } from "./erasure-windows.ts";
import { hasFiles, removeVersions, versionsAt } from "./files/file-store.ts";
import { removeTurnRows } from "./transcript/turn-removal.ts";
import { removeOperations } from "./transcript/turn-operations.ts";
import { removeOwner } from "./vectors/vector-collections.ts";
import type { VectorSpace } from "./vectors/vectors.ts";

type SubjectTarget = Extract<RecordTarget, { kind: "subject" }>;

/** One more than an erasure may remove, so that more can be told. */
const recordsLookedFor = limits.erasureMemoriesMax + 1;

/** The rows of the subject's records of a kind. */
function rowsOf(view: View, subject: string, kind: SubjectKind): string {
  const owners = ownersOf(view, subject, recordsLookedFor).filter((one) => one.kind === kind);
  return JSON.stringify(owners.map(({ owner }) => owner));
}

/** Where a turn is. */
interface TurnPlace {
  readonly row: number;
  readonly sessionId: string;
  readonly seq: number;
}

const turnPlaces = "t.row, t.session_id AS sessionId, t.seq";
const turnsNamed =
  "FROM json_each(?) AS asked CROSS JOIN __service_turn AS t ON t.row = asked.value ORDER BY t.session_id, t.seq";

/** The places of the subject's turns, session by session. */
export function turnsOf(view: View, subject: string): readonly TurnPlace[] {
  return view.connection.all(`SELECT ${turnPlaces} ${turnsNamed}`, rowsOf(view, subject, "turn"));
}

interface SaidTurn extends TurnPlace {
  readonly createdAt: number;
  readonly role: string;
  readonly content: string;
}

function saidTurnsOf(view: View, subject: string): Iterable<SaidTurn> {
  return each(
    view,
    `SELECT ${turnPlaces}, t.created_at AS createdAt, t.role, t.content ${turnsNamed}`,
    rowsOf(view, subject, "turn"),
  );
}

/** The rows one after the other: their contents together may be more than there is memory for. */
function each<Row>({ connection }: View, sql: string, rows: string): Iterable<Row> {
  return connection.prepared(sql).iterate(rows) as Iterable<Row>;
}

function keysOf(view: View, subject: string): Iterable<KvRow & { readonly ns: string }> {
  return each(
    view,
    `SELECT k.ns, k.key, k.expires_at AS expiresAt, k.value, octet_length(k.value) AS valueBytes
     FROM json_each(?) AS asked CROSS JOIN __service_kv AS k ON k.row = asked.value`,
    rowsOf(view, subject, "key"),
  );
}

interface VectorPlace extends VectorSpace {
  readonly owner: number;
  readonly name: string;
}

const vectorsNamed = `FROM json_each(?) AS asked
  CROSS JOIN __service_vector_item AS i ON i.owner = asked.value
  CROSS JOIN __service_vector_space AS s ON s.space = i.space`;

function vectorPlacesOf(view: View, subject: string): readonly VectorPlace[] {
  return view.connection.all(
    `SELECT i.owner, s.space, s.dimension, s.name ${vectorsNamed}`,
    rowsOf(view, subject, "vector"),
  );
}

interface OwnedVector {
  readonly owner: number;
  readonly name: string;
  readonly id: string;
  readonly embedding: Uint8Array;
}

function vectorsOf(view: View, subject: string): Iterable<OwnedVector> {
  return each(
    view,
    `SELECT i.owner, s.name, i.id, v.embedding ${vectorsNamed}
     CROSS JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner`,
    rowsOf(view, subject, "vector"),
  );
}

interface DocPlace {
  readonly collection: string;
  readonly table: string;
  readonly n: number;
}

function docPlacesOf(view: View, subject: string): readonly DocPlace[] {
  return ownersOf(view, subject, recordsLookedFor)
    .filter(({ kind }) => kind === "document")
    .map(({ place, owner }) => ({
      collection: collectionName(view, place),
      table: `__service_doc_${place}`,
      n: owner,
    }));
}

function versionsOfSubject(view: View, subject: string): ReturnType<typeof versionsAt> {
  return hasFiles(view.connection) ? versionsAt(view, rowsOf(view, subject, "file")) : [];
}

function* findRecords(view: View, { subject }: SubjectTarget): Generator<FoundRecord> {
  for (const { row, sessionId, seq, createdAt, role, content } of saidTurnsOf(view, subject))
    yield {
      counted: "turns",
      noted: ["turn", sessionId, seq],
      said: ["turn", sessionId, seq, createdAt, role, content],
      vector: { kind: "turn", owner: row },
    };
  for (const row of keysOf(view, subject))
    yield {
      counted: "keys",
      noted: ["kv", row.ns, row.key],
      said: ["key", row.ns, row.key, row.value],
      window: kvWindow(row.ns, row),
    };
  for (const { collection, table, n } of docPlacesOf(view, subject)) {
    const found = view.connection.get<{ id: string; doc: string }>(`SELECT id, doc FROM ${table} WHERE n = ?`, n);
    if (!found) continue;
    const { id, doc } = found;
    const bytes = encodeUtf8(doc);
    yield {
      counted: "documents",
      noted: ["doc", collection, id],
      said: ["document", collection, id, doc],
      window: docWindow({ id, doc: bytes, docBytes: bytes.length }),
    };
  }
  for (const { owner, name, id, embedding } of vectorsOf(view, subject))
    yield {
      counted: "vectors",
      noted: ["vector", name, id],
      said: ["vector", name, id, embedding],
      vector: { kind: "collection", owner },
    };
  for (const version of versionsOfSubject(view, subject))
    yield {
      counted: "file_versions",
      noted: ["file", version.path],
      said: ["version", version.path, version.version, version.txid, version.writtenAt, version.hash],
      window: versionWindow(version),
    };
}

function removeRecords(tx: Tx, { subject }: SubjectTarget): void {
  for (const [sessionId, turns] of Map.groupBy(turnsOf(tx, subject), (turn) => turn.sessionId)) {
    removeTurnRows(
      tx,
      sessionId,
      turns.map(({ row }) => row),
    );
    // Each has a hash of what it was asked to write.
    removeOperations(tx, sessionId);
    removeEmptySession(tx, sessionId);
  }
  const keys = rowsOf(tx, subject, "key");
  tx.connection.run("DELETE FROM __service_kv WHERE row IN (SELECT value FROM json_each(?))", keys);
  for (const { collection, table, n } of docPlacesOf(tx, subject)) {
    const found = tx.connection.get<{ id: string }>(`SELECT id FROM ${table} WHERE n = ?`, n);
    if (found) removeDoc(tx, collection, found.id);
  }
  for (const { owner, space, dimension, name } of vectorPlacesOf(tx, subject))
    removeOwner(tx, { space: { space, dimension }, collection: name }, owner);
  removeVersions(tx, versionsOfSubject(tx, subject));
}

/** A session of which nothing is left, with the last number that was given in it. */
export function removeEmptySession(tx: Tx, sessionId: string): void {
  if (isSessionUsed(tx, sessionId)) return;
  removeSession(tx, sessionId);
  tx.connection.run("DELETE FROM __service_turn_floor WHERE session_id = ?", sessionId);
}

/** Records of a subject, as those of a name are. */
export const subjectRecords = { find: findRecords, remove: removeRecords };
