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
import type { Tx, View } from "../core/transaction.ts";
import { type ErasedNames, type Fields, formLine, type Found, plain, type RecordKind } from "./record.ts";

interface KvRow {
  readonly row: number;
  readonly ns: string;
  readonly key: string;
  readonly expiresAt: number | null;
  readonly value: Uint8Array;
}

interface KvRecord {
  readonly ns: string;
  readonly key: string;
  readonly expiresAt: number | undefined;
  readonly value: Uint8Array;
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

  *rows({ connection, nowMs }: View, after) {
    const rows = connection
      .prepared(
        `SELECT row, ns, key, expires_at AS expiresAt, value FROM __service_kv
         WHERE row > ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY row`,
      )
      .iterate(after?.[0] ?? 0, nowMs) as Iterable<KvRow>;
    for (const { row, ns, key, expiresAt, value } of rows)
      yield {
        position: [row],
        line: formLine("kv", { ns: plain(ns), key: plain(key), expires_at: plain(expiresAt), ...formValue(value) }),
      };
  },

  read(fields: Fields) {
    const ns = checkCollectionName("ns", fields.text("ns", limits.nameCharsMax));
    const key = fields.text("key", limits.kvKeyBytesMax);
    const expiresAt = fields.maybeTime("expires_at");
    const text = fields.maybeAnyText("text");
    const bytes = fields.maybeBytes("base64");
    if ((text === undefined) === (bytes === undefined)) throw invalid("give either text or base64");
    return { ns, key, expiresAt, value: bytes ?? encodeUtf8(text!) };
  },

  find({ connection, nowMs }: View, { ns, key, expiresAt, value }): Found {
    const there = connection.get<KvRow>(
      "SELECT row, ns, key, expires_at AS expiresAt, value FROM __service_kv WHERE ns = ? AND key = ?",
      ns,
      key,
    );
    const isLiving = there !== undefined && (there.expiresAt === null || there.expiresAt > nowMs);
    if (isLiving)
      return there.expiresAt === (expiresAt ?? null) && Buffer.compare(there.value, value) === 0 ? "same" : "different";
    return expiresAt !== undefined && expiresAt <= nowMs ? "expired" : "absent";
  },

  write(tx: Tx, { ns, key, expiresAt, value }) {
    note(tx, "kv", "put", ns, key);
    tx.connection.run(
      `INSERT INTO __service_kv (ns, key, expires_at, value) VALUES (?, ?, ?, ?)
       ON CONFLICT (ns, key) DO UPDATE SET expires_at = excluded.expires_at, value = excluded.value`,
      ns,
      key,
      expiresAt ?? null,
      value,
    );
  },

  isErased: ({ ns, key }, { targets }: ErasedNames) =>
    targets.some(({ target }) => target.kind === "key" && target.ns === ns && target.key === key),
};
