/**
 * Records that are erased by their names: a turn, files, a key, a document, a vector.
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
import { encodeRecord, integer, nothing, text, unread, type Stored } from "./core/record-bytes.ts";
import type { Tx, View } from "./core/transaction.ts";
import { findDoc, removeDoc } from "./docs/docs.ts";
import { findCollection } from "./docs/docs-index.ts";
import {
  allVersions,
  pathsWithVersions,
  purgePath,
  unnamePath,
  versionsOf,
  type VersionRow,
} from "./files/file-store.ts";
import { kvDelete } from "./kv/kv.ts";
import { removeTurnRows } from "./transcript/turn-removal.ts";
import { removeOperations } from "./transcript/turn-operations.ts";
import { findCollectionVector } from "./vectors/vector-collections.ts";
import { removeVector } from "./vectors/vector-list.ts";
import { windowBytes } from "../format/erasure/traces.ts";

/** A record of the target while it is there. */
export interface FoundRecord {
  /** Its content, beside the names that the target has. */
  readonly said: readonly (string | number | null | Uint8Array)[];
  /** 32 bytes by which a copy of it is found on pages; absent where it is too short for them. */
  readonly window?: Uint8Array | undefined;
  /** The owner of its vector. */
  readonly vector?: { readonly kind: "turn" | "collection"; readonly owner: number } | undefined;
}

/** How records of a kind are found and removed. */
interface Kind<Target> {
  readonly find: (view: View, target: Target) => readonly FoundRecord[];
  readonly remove: (tx: Tx, target: Target) => void;
  /** The windows that records of other names, which stay, may have in common with those of the target. */
  readonly alike?: (view: View, target: Target) => Iterable<Uint8Array>;
}

type Kinds = { readonly [Name in RecordTarget["kind"]]: Kind<Extract<RecordTarget, { kind: Name }>> };

/** Records that one erasure removes, in one transaction. */
const recordsMax = limits.erasureMemoriesMax;
/** Bytes of a value that a window ends with, or more where its name is short: before them is the end of the name. */
const valueStartBytes = 16;

/** The last bytes of a record's beginning, if there are enough. */
function endOf(record: Uint8Array): Uint8Array | undefined {
  return record.length < windowBytes ? undefined : record.subarray(-windowBytes);
}

/** Of a record's names and the beginning of its value. */
function windowInto(value: Stored, ...names: readonly Stored[]): Uint8Array | undefined {
  const { length } = encodeRecord(nothing, ...names, { ...value, bytes: new Uint8Array() });
  const start = value.bytes.subarray(0, Math.max(valueStartBytes, windowBytes - length));
  return endOf(encodeRecord(nothing, ...names, { ...value, bytes: start }));
}

function windowsOf(window: Uint8Array | undefined): readonly Uint8Array[] {
  return window ? [window] : [];
}

function asText(value: string): Stored {
  return text(encodeUtf8(value));
}

interface KvRow {
  readonly key: string;
  readonly expiresAt: number | null;
  readonly value: Uint8Array;
  readonly valueBytes: number;
}

function kvWindow(ns: string, { key, expiresAt, value, valueBytes }: KvRow): Uint8Array | undefined {
  const time = expiresAt === null ? nothing : integer(expiresAt);
  return windowInto({ ...unread(12, valueBytes), bytes: value }, asText(ns), asText(key), time);
}

interface DocRow {
  readonly id: string;
  readonly doc: Uint8Array;
  readonly docBytes: number;
}

function docWindow({ id, doc, docBytes }: DocRow): Uint8Array | undefined {
  return windowInto({ ...unread(13, docBytes), bytes: doc }, asText(id));
}

/** A version by what made it and when; its path comes before that, and what follows is the same for the same text. */
function versionWindow({ path, version, change, otherPath, txid, writtenAt, ...rest }: VersionRow) {
  const values = [nothing, asText(path), integer(version), asText(change)];
  const other = otherPath === null ? nothing : asText(otherPath);
  const known = [...values, other, integer(txid), integer(writtenAt)];
  const hash = rest.hash === null ? nothing : unread(13, rest.hash.length);
  const more = [hash, ...[rest.size, rest.text].map((one) => (one === null ? nothing : typeOnly(integer(one))))];
  return endOf(encodeRecord(...known, ...more));
}

function typeOnly({ serialType }: Stored): Stored {
  return { serialType, bytes: new Uint8Array() };
}

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
    find: (view, { path }) =>
      pathsWithVersions(view, path, recordsMax + 1)
        .flatMap((one) => versionsOf(view, one))
        .map((version) => ({
          said: [version.path, version.version, version.txid, version.writtenAt, version.hash],
          window: versionWindow(version),
        })),
    remove: (tx, { path }) => {
      for (const one of pathsWithVersions(tx, path, recordsMax)) {
        purgePath(tx, one);
        unnamePath(tx, one);
      }
    },
    *alike(view) {
      for (const version of allVersions(view)) yield* windowsOf(versionWindow(version));
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
      const rows = view.connection
        .prepared(
          `SELECT key, expires_at AS expiresAt, substr(value, 1, ${windowBytes}) AS value,
             octet_length(value) AS valueBytes FROM __service_kv WHERE ns = ?`,
        )
        .iterate(ns) as Iterable<KvRow>;
      for (const row of rows) yield* windowsOf(kvWindow(ns, row));
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
      const found = findCollection(view, collection);
      if (!found) return;
      const rows = view.connection
        .prepared(
          `SELECT id, substr(CAST(doc AS BLOB), 1, ${windowBytes}) AS doc, octet_length(doc) AS docBytes
           FROM ${found.table}`,
        )
        .iterate() as Iterable<DocRow>;
      for (const row of rows) yield* windowsOf(docWindow(row));
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
};

function kindOf<Target extends RecordTarget>(target: Target): Kind<RecordTarget> {
  return kinds[target.kind] as Kind<RecordTarget>;
}

/** Whether the target is records by their names. */
export function isRecordTarget(target: ErasureTarget): target is RecordTarget {
  return Object.hasOwn(kinds, target.kind);
}

/** The records of the target that are there. Refuses one of more than one transaction removes. */
export function findRecords(view: View, target: RecordTarget): readonly FoundRecord[] {
  const found = kindOf(target).find(view, target);
  if (found.length > recordsMax)
    throw invalid(`the target has more than ${recordsMax} records; erase it in parts, such as the folders in it`);
  return found;
}

/** Removes the records of the target, and what was derived from them. */
export function removeRecords(tx: Tx, target: RecordTarget): void {
  kindOf(target).remove(tx, target);
}

/** The keyed hashes of records, in hex, by which it is told later whether a state still holds them. */
export function recordIds(key: Uint8Array, target: RecordTarget, records: readonly FoundRecord[]): readonly string[] {
  return records.map(({ said }) => {
    const digest = createHmac("sha256", key);
    for (const part of [...Object.values(target), ...said]) {
      const bytes = part instanceof Uint8Array ? part : encodeUtf8(JSON.stringify(part ?? null));
      digest.update(`${typeof part} ${bytes.length} `).update(bytes);
    }
    return digest.digest("hex").slice(0, 2 * recordIdBytes);
  });
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
      const there = new Set(recordIds(key, target, kindOf(target).find(view, target)));
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
