/**
 * Records that are erased by their names, or by whom they are about: a turn, files, a key, a document, a vector.
 *
 * Always true: what was erased is known afterwards by keyed hashes alone, one of each record: of its names and all of
 * its content, so that the same written again is what was erased, and something else under the name is not. Must not
 * know: memories and sessions, coupons, history.
 */
import { createHmac } from "node:crypto";
import { encodeUtf8 } from "../base/bytes.ts";
import { invalid } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import type { ErasureTarget, RecordTarget } from "../format/erasure/erasure-receipt.ts";
import { recordIdBytes } from "../format/erasure/erasure-coupon.ts";
import type { Tx, View } from "./core/transaction.ts";
import { findDoc, removeDoc } from "./docs/docs.ts";
import { collectionNames, findCollection } from "./docs/docs-index.ts";
import { allVersions, pathsWithVersions, purgePath, unnamePath, versionsOf } from "./files/file-store.ts";
import { kvDelete } from "./kv/kv.ts";
import { removeTurnRows } from "./transcript/turn-removal.ts";
import { removeOperations } from "./transcript/turn-operations.ts";
import { findCollectionVector } from "./vectors/vector-collections.ts";
import { removeVector } from "./vectors/vector-list.ts";
import { windowBytes } from "../format/erasure/traces.ts";
import { subjectRecords } from "./erasure-subject.ts";
import {
  docWindow,
  kvWindow,
  versionWindow,
  windowsOf,
  type DocRow,
  type FoundRecord,
  type KnownRecord,
  type KvRow,
} from "./erasure-windows.ts";

/** How records of a kind are found and removed. */
interface Kind<Target> {
  /** One after the other, as their contents together may be more than there is memory for. */
  readonly find: (view: View, target: Target) => Iterable<FoundRecord>;
  readonly remove: (tx: Tx, target: Target) => void;
  /** The windows that records of other names, which stay, may have in common with those of the target. */
  readonly alike?: (view: View, target: Target) => Iterable<Uint8Array>;
}

type Kinds = { readonly [Name in RecordTarget["kind"]]: Kind<Extract<RecordTarget, { kind: Name }>> };

/** Records that one erasure removes, in one transaction. */
const recordsMax = limits.erasureMemoriesMax;

/** Bytes of content that one erasure removes: more than the transaction's log holds is told before it is written. */
const bytesMax = limits.transactionLogBytesMax;

const kinds: Kinds = {
  turn: {
    find: (view, { sessionId, seq }) =>
      view.connection
        .all<{ row: number; createdAt: number; role: string; content: string }>(
          "SELECT row, created_at AS createdAt, role, content FROM __service_turn WHERE session_id = ? AND seq = ?",
          sessionId,
          seq,
        )
        .map(({ row, ...said }) => ({ said: Object.values(said), vector: { kind: "turn", owner: row } })),
    remove: (tx, { sessionId, seq }) => {
      const rows = tx.connection.all<{ row: number }>(
        "SELECT row FROM __service_turn WHERE session_id = ? AND seq = ?",
        sessionId,
        seq,
      );
      removeTurnRows(
        tx,
        sessionId,
        rows.map(({ row }) => row),
      );
      // Each has a hash of what it was asked to write.
      removeOperations(tx, sessionId);
    },
  },
  path: {
    *find(view, { path }) {
      for (const one of pathsWithVersions(view, path, recordsMax + 1))
        for (const version of versionsOf(view, one))
          yield {
            said: [version.path, version.version, version.txid, version.writtenAt, version.hash],
            window: versionWindow(version),
          };
    },
    remove: (tx, { path }) => {
      for (const one of pathsWithVersions(tx, path, recordsMax)) {
        purgePath(tx, one);
        unnamePath(tx, one);
      }
    },
    *alike(view) {
      yield* versionWindows(view);
    },
  },
  key: {
    find: (view, { ns, key }) =>
      view.connection
        .all<KvRow>(
          `SELECT key, expires_at AS expiresAt, value, octet_length(value) AS valueBytes
           FROM __service_kv WHERE ns = ? AND key = ?`,
          ns,
          key,
        )
        .map((row) => ({ said: [row.value], window: kvWindow(ns, row) })),
    remove: (tx, { ns, key }) => {
      kvDelete(tx, { ns, key });
    },
    *alike(view, { ns }) {
      yield* keyWindows(view, ns);
    },
  },
  document: {
    find: (view, { collection, id }) => {
      const found = findDoc(view, collection, id);
      if (!found) return [];
      const doc = encodeUtf8(found.doc);
      return [{ said: [found.doc], window: docWindow({ id, doc, docBytes: doc.length }) }];
    },
    remove: (tx, { collection, id }) => removeDoc(tx, collection, id),
    *alike(view, { collection }) {
      yield* docWindows(view, collection);
    },
  },
  vector: {
    find: (view, { collection, id }) => {
      const found = findCollectionVector(view, collection, id);
      if (!found) return [];
      return [{ said: [found.embedding, found.metadata], vector: { kind: "collection", owner: found.owner } }];
    },
    remove: (tx, { collection, id }) => {
      removeVector(tx, { collection, id });
    },
  },
  subject: {
    ...subjectRecords,
    *alike(view) {
      yield* keyWindows(view, undefined);
      for (const collection of collectionNames(view)) yield* docWindows(view, collection);
      yield* versionWindows(view);
    },
  },
};

function* versionWindows(view: View): Generator<Uint8Array> {
  for (const version of allVersions(view)) yield* windowsOf(versionWindow(version));
}

/** Of the keys of a namespace, or of all. */
function* keyWindows({ connection }: View, ns: string | undefined): Generator<Uint8Array> {
  const rows = connection
    .prepared(
      `SELECT ns, key, expires_at AS expiresAt, substr(value, 1, ${windowBytes}) AS value,
         octet_length(value) AS valueBytes FROM __service_kv WHERE ns = coalesce(?, ns)`,
    )
    .iterate(ns ?? null) as Iterable<KvRow & { readonly ns: string }>;
  for (const row of rows) yield* windowsOf(kvWindow(row.ns, row));
}

function* docWindows(view: View, collection: string): Generator<Uint8Array> {
  const found = findCollection(view, collection);
  if (!found) return;
  const rows = view.connection
    .prepared(
      `SELECT id, substr(CAST(doc AS BLOB), 1, ${windowBytes}) AS doc, octet_length(doc) AS docBytes
       FROM ${found.table}`,
    )
    .iterate() as Iterable<DocRow>;
  for (const row of rows) yield* windowsOf(docWindow(row));
}

function kindOf<Target extends RecordTarget>(target: Target): Kind<RecordTarget> {
  return kinds[target.kind] as Kind<RecordTarget>;
}

/** Whether the target is records by their names. */
export function isRecordTarget(target: ErasureTarget): target is RecordTarget {
  return Object.hasOwn(kinds, target.kind);
}

/**
 * The records of the target that are there, without their contents. Refuses one of more than one transaction removes.
 */
export function findRecords(view: View, target: RecordTarget, key: Uint8Array): readonly KnownRecord[] {
  const known: KnownRecord[] = [];
  let bytes = 0;
  for (const { said, ...record } of kindOf(target).find(view, target)) {
    bytes += said.reduce<number>((sum, part) => sum + partBytes(part).length, 0);
    if (known.length >= recordsMax)
      throw invalid(`the target has more than ${recordsMax} records; erase it in parts, such as the folders in it`);
    if (bytes > bytesMax)
      throw invalid(
        `the target's records have more than ${bytesMax} bytes; erase it in parts, some of its records by their ` +
          "names first",
      );
    known.push({ ...record, id: recordId(key, target, said) });
  }
  return known;
}

/** Removes the records of the target, and what was derived from them. */
export function removeRecords(tx: Tx, target: RecordTarget): void {
  kindOf(target).remove(tx, target);
}

function partBytes(part: FoundRecord["said"][number] | undefined): Uint8Array {
  return part instanceof Uint8Array ? part : encodeUtf8(JSON.stringify(part ?? null));
}

/** The keyed hash of a record, in hex, by which it is told later whether a state still holds it. */
function recordId(key: Uint8Array, target: RecordTarget, said: FoundRecord["said"]): string {
  const digest = createHmac("sha256", key);
  for (const part of [...Object.values(target), ...said]) {
    const bytes = partBytes(part);
    digest.update(`${typeof part} ${bytes.length} `).update(bytes);
  }
  return digest.digest("hex").slice(0, 2 * recordIdBytes);
}

/** What an erasure of records is known by afterwards. */
export interface ErasedRecords {
  readonly target: RecordTarget;
  readonly ids: readonly string[];
  readonly key: Uint8Array;
}

/** Which of the erased records the state holds, by their ids: unchanged, or written again just as they were. */
export function heldRecords(
  view: View,
  input: { readonly records: readonly ErasedRecords[] },
): { readonly held: readonly string[] } {
  return {
    held: input.records.flatMap(({ target, ids, key }) => {
      const there = new Set<string>();
      for (const { said } of kindOf(target).find(view, target)) there.add(recordId(key, target, said));
      return ids.filter((id) => there.has(id));
    }),
  };
}

/**
 * Windows of records that are there now and may have them in common with the erased ones: what ends and begins like
 * them. The connection can do nothing else until it ends.
 */
export function* recordWindows(view: View, targets: readonly RecordTarget[]): Generator<Uint8Array> {
  for (const target of targets) yield* kindOf(target).alike?.(view, target) ?? [];
}
