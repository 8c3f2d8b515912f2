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

interface TurnRow {
  readonly row: number;
  readonly sessionId: string;
  readonly seq: number;
  readonly createdAt: number;
  readonly role: string;
  readonly content: string;
}

/** The subject's turns, session by session. */
export function turnsOf(view: View, subject: string): readonly TurnRow[] {
  return view.connection.all(
    `SELECT t.row, t.session_id AS sessionId, t.seq, t.created_at AS createdAt, t.role, t.content
     FROM json_each(?) AS asked CROSS JOIN __service_turn AS t ON t.row = asked.value ORDER BY t.session_id, t.seq`,
    rowsOf(view, subject, "turn"),
  );
}

function keysOf(view: View, subject: string): readonly (KvRow & { readonly row: number; readonly ns: string })[] {
  return view.connection.all(
    `SELECT k.row, k.ns, k.key, k.expires_at AS expiresAt, k.value, octet_length(k.value) AS valueBytes
     FROM json_each(?) AS asked CROSS JOIN __service_kv AS k ON k.row = asked.value`,
    rowsOf(view, subject, "key"),
  );
}

interface VectorRow extends VectorSpace {
  readonly owner: number;
  readonly name: string;
  readonly id: string;
  readonly embedding: Uint8Array;
}

function vectorsOf(view: View, subject: string): readonly VectorRow[] {
  return view.connection.all(
    `SELECT i.owner, s.space, s.dimension, s.name, i.id, v.embedding FROM json_each(?) AS asked
     CROSS JOIN __service_vector_item AS i ON i.owner = asked.value
     CROSS JOIN __service_vector_space AS s ON s.space = i.space
     CROSS JOIN __service_vector AS v ON v.space = i.space AND v.owner = i.owner`,
    rowsOf(view, subject, "vector"),
  );
}

interface OwnedDoc {
  readonly collection: string;
  readonly id: string;
  readonly doc: string;
}

function docsOf(view: View, subject: string): readonly OwnedDoc[] {
  return ownersOf(view, subject, recordsLookedFor)
    .filter(({ kind }) => kind === "document")
    .flatMap(({ place, owner }) => {
      const collection = collectionName(view, place);
      const doc = view.connection.get<Omit<OwnedDoc, "collection">>(
        `SELECT id, doc FROM __service_doc_${place} WHERE n = ?`,
        owner,
      );
      return doc ? [{ collection, ...doc }] : [];
    });
}

function versionsOfSubject(view: View, subject: string): ReturnType<typeof versionsAt> {
  return hasFiles(view.connection) ? versionsAt(view, rowsOf(view, subject, "file")) : [];
}

function findRecords(view: View, { subject }: SubjectTarget): readonly FoundRecord[] {
  return [
    ...turnsOf(view, subject).map(({ row, ...said }) => ({
      counted: "turns",
      noted: ["turn", said.sessionId, said.seq],
      said: ["turn", ...Object.values(said)],
      vector: { kind: "turn" as const, owner: row },
    })),
    ...keysOf(view, subject).map((row) => ({
      counted: "keys",
      noted: ["kv", row.ns, row.key],
      said: ["key", row.ns, row.key, row.value],
      window: kvWindow(row.ns, row),
    })),
    ...docsOf(view, subject).map(({ collection, id, doc }) => {
      const bytes = encodeUtf8(doc);
      return {
        counted: "documents",
        noted: ["doc", collection, id],
        said: ["document", collection, id, doc],
        window: docWindow({ id, doc: bytes, docBytes: bytes.length }),
      };
    }),
    ...vectorsOf(view, subject).map(({ owner, name, id, embedding }) => ({
      counted: "vectors",
      noted: ["vector", name, id],
      said: ["vector", name, id, embedding],
      vector: { kind: "collection" as const, owner },
    })),
    ...versionsOfSubject(view, subject).map((version) => ({
      counted: "file_versions",
      noted: ["file", version.path],
      said: ["version", version.path, version.version, version.txid, version.writtenAt, version.hash],
      window: versionWindow(version),
    })),
  ];
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
  for (const { row } of keysOf(tx, subject)) tx.connection.run("DELETE FROM __service_kv WHERE row = ?", row);
  for (const { collection, id } of docsOf(tx, subject)) removeDoc(tx, collection, id);
  for (const { owner, space, dimension, name } of vectorsOf(tx, subject))
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
