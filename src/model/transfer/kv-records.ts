/**
 * Keys and values as records.
 *
 * Always true: a value that is UTF-8 is written as its text, and any other in base64; what has expired is not exported.
 */
import { decodeUtf8, encodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { checkCollectionName } from "../../format/core/names.ts";
import { note } from "../core/change-notes.ts";
import { lives } from "../kv/kv.ts";
import { putSubject, subjectColumn } from "../core/subjects.ts";
import type { Tx, View } from "../core/transaction.ts";
import { isErasedSubject, isTarget } from "./erased.ts";
import { type Fields, formLine, type Found, plain, readSubject, type RecordKind } from "./record.ts";

interface KvRow {
  readonly row: number;
  readonly ns: string;
  readonly key: string;
  readonly expiresAt: number | null;
  readonly value: Uint8Array;
  readonly subject: string | null;
}

interface KvRecord {
  readonly ns: string;
  readonly key: string;
  readonly expiresAt: number | undefined;
  readonly value: Uint8Array;
  readonly subject: string | undefined;
}

/** Keys with their values and subjects. */
function selectKeys(view: View, condition: string): string {
  const subject = subjectColumn(view, "key", "__service_kv.row");
  return `SELECT row, ns, key, expires_at AS expiresAt, value, ${subject} AS subject
    FROM __service_kv WHERE ${condition}`;
}

function formValue(value: Uint8Array): { readonly text?: string; readonly base64?: string } {
  const text = decodeUtf8(value);
  // A decoder may drop a mark of the byte order.
  if (text !== undefined && Buffer.compare(encodeUtf8(text), value) === 0) return { text: JSON.stringify(text) };
  return { base64: `"${Buffer.from(value).toString("base64")}"` };
}

export const kvRecords: RecordKind<KvRecord> = {
  kind: "kv",
  tables: {
    __service_kv: { exported: ["ns", "key", "expires_at", "value"], derived: { row: "given anew" } },
  },

  *rows(view: View, after) {
    const rows = view.connection
      .prepared(selectKeys(view, `row > ? AND ${lives} ORDER BY row`))
      .iterate(after?.[0] ?? 0, view.nowMs) as Iterable<KvRow>;
    for (const { row, ns, key, expiresAt, value, subject } of rows)
      yield {
        position: [row],
        line: formLine("kv", {
          ns: plain(ns),
          key: plain(key),
          expires_at: plain(expiresAt),
          subject: plain(subject),
          ...formValue(value),
        }),
      };
  },

  read(fields: Fields) {
    const ns = checkCollectionName("ns", fields.text("ns", limits.nameCharsMax));
    const key = fields.text("key", limits.kvKeyBytesMax);
    const expiresAt = fields.maybeTime("expires_at");
    const subject = readSubject(fields);
    const text = fields.maybeAnyText("text");
    const bytes = fields.maybeBytes("base64");
    if ((text === undefined) === (bytes === undefined)) throw invalid("give either text or base64");
    return { ns, key, expiresAt, subject, value: bytes ?? encodeUtf8(text!) };
  },

  find(view: View, { ns, key, expiresAt, value, subject }): Found {
    const { connection, nowMs } = view;
    const there = connection.get<KvRow>(selectKeys(view, `ns = ? AND key = ? AND ${lives}`), ns, key, nowMs);
    if (!there) return expiresAt !== undefined && expiresAt <= nowMs ? "expired" : "absent";
    const isSame =
      there.expiresAt === (expiresAt ?? null) &&
      there.subject === (subject ?? null) &&
      Buffer.compare(there.value, value) === 0;
    return isSame ? "same" : "different";
  },

  write(tx: Tx, { ns, key, expiresAt, value, subject }) {
    note(tx, "kv", "put", ns, key);
    const { row } = tx.connection.get<{ row: number }>(
      `INSERT INTO __service_kv (ns, key, expires_at, value) VALUES (?, ?, ?, ?)
       ON CONFLICT (ns, key) DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value RETURNING row`,
      ns,
      key,
      expiresAt ?? null,
      value,
    )!;
    putSubject(tx, { kind: "key", owner: row }, subject ?? "");
  },

  isErased: (_view, { ns, key, subject }, erased) =>
    isErasedSubject(erased, subject) ||
    isTarget(erased, undefined, (target) => target.kind === "key" && target.ns === ns && target.key === key),
};
