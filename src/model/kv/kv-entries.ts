/**
 * Keys with what is shown of them: in listings and where many are got at once, a bounded number of bytes at a time.
 *
 * Always true: a value is read only where it is asked for and there is room for it; one that is larger than all the
 * room is given alone. Must not know: which keys are wanted, and in which order.
 */
import { subjectColumn } from "../core/subjects.ts";
import type { View } from "../core/transaction.ts";

/** Of keys and values in one answer, unless the first value alone has more. */
const kvPageBytesMax = 4 * 1024 * 1024;

/** A key, and what is asked to be shown of it. */
export interface KvEntry {
  readonly key: string;
  /** Bytes of the value. */
  readonly size: number;
  /** Unix milliseconds; absent where it stays. */
  readonly expiresAt?: number;
  readonly value?: Uint8Array;
  /** Whom it is about; absent where that was not said. */
  readonly subject?: string;
}

/** A row of `__service_kv` without its value. */
export interface KvRow {
  readonly row: number;
  readonly key: string;
  readonly size: number;
  readonly expiresAt: number | null;
  readonly subject: string | null;
}

/** The columns of a KvRow. The size is read from the row's header, not by walking through the value. */
export function kvRowColumns(view: View): string {
  const subject = subjectColumn(view, "key", "__service_kv.row");
  return `row, key, octet_length(value) AS size, expires_at AS expiresAt, ${subject} AS subject`;
}

/** As many of the rows, in their order, as there is room for; at least one. */
export function readEntries(view: View, rows: Iterable<KvRow>, withValues: boolean): readonly KvEntry[] {
  const entries: KvEntry[] = [];
  let bytes = 0;
  for (const { row, key, size, expiresAt, subject } of rows) {
    bytes += key.length + (withValues ? size : 0);
    if (entries.length > 0 && bytes > kvPageBytesMax) break;
    entries.push({
      key,
      size,
      ...(expiresAt !== null && { expiresAt }),
      ...(subject !== null && { subject }),
      ...(withValues && {
        value: view.connection.get<{ value: Uint8Array }>("SELECT value FROM __service_kv WHERE row = ?", row)!.value,
      }),
    });
  }
  return entries;
}
