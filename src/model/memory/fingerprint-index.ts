/**
 * Which memories have a fingerprint: an index that takes new entries in batches, for databases of format 2.
 *
 * A fingerprint is a hash, so in an ordered index each new one lies on another page: that page goes into the log, and
 * its bytes, which do not compress, to object storage. Here the newest memories are looked through as they are, the
 * others are entries of a log-structured merge tree (O'Neil et al. 1996, "rolling merge"): a batch goes into the first
 * level, a few pages, and with each batch one slice of every level moves to the next, larger one. An ingest changes .4
 * pages for it instead of one, however many memories there are, and none ever waits for a large merge.
 *
 * Always true: each memory whose row number is not above the last multiple of `batchRows` up to the highest row has its
 * entry, active or superseded; rows above it need none. It is so because a row number is given when it is one more than
 * the highest, so each multiple is inserted after all rows below it, and they are entered with it. An entry of a
 * memory goes with it. Must not know: what makes two memories the same.
 */
import type { Tx } from "../core/transaction.ts";

/** Rows that are entered together; half of them on average are looked through by each ingest, some 5 µs. */
const batchRows = 32;

/** For each level but the last, how many batches it takes for all of its slices to have moved to the next. */
const slicesPerLevel = [32, 512, 8_192] as const;

/** Of the fingerprint, as an entry holds them: two memories share them by chance once in 2^48 pairs. */
const prefixBytes = 6;

export const fingerprintSchema = `
CREATE TABLE __service_memory_fingerprint (
  level INTEGER NOT NULL,
  prefix INTEGER NOT NULL,
  memory INTEGER NOT NULL,
  PRIMARY KEY (level, prefix, memory)
) STRICT, WITHOUT ROWID;
`;

const levels = Array.from({ length: slicesPerLevel.length + 1 }, (_, at) => at + 1).join(", ");

/** SQL for the rows that may have a fingerprint, given `fingerprintParameters` of it. */
export const fingerprintRows = `
  SELECT memory FROM __service_memory_fingerprint WHERE level IN (${levels}) AND prefix = ?
  UNION ALL SELECT row FROM __service_memory
    WHERE row > (SELECT max(row) FROM __service_memory) / ${batchRows} * ${batchRows} AND fingerprint = ?`;

/** What `fingerprintRows` is asked with. */
export function fingerprintParameters(fingerprint: Uint8Array): [number, Uint8Array] {
  return [computePrefix(fingerprint), fingerprint];
}

function computePrefix(fingerprint: Uint8Array): number {
  return Buffer.from(fingerprint.buffer, fingerprint.byteOffset, prefixBytes).readUIntBE(0, prefixBytes);
}

/** Notes that a memory of this row was stored: when that makes a batch full, it is entered. */
export function noteFingerprint(tx: Tx, row: number): void {
  if (row % batchRows === 0) enterBatch(tx, row);
}

/** Notes that a memory was stored under a row that it had before, which need not be the highest. */
export function enterFingerprints({ connection }: Tx, row: number): void {
  const { last, before } = connection.get<{ last: number; before: number | null }>(
    "SELECT max(row) AS last, (SELECT max(row) FROM __service_memory WHERE row < ?) AS before FROM __service_memory",
    row,
  )!;
  const isHighest = last === row;
  const upTo = Math.floor(last / batchRows) * batchRows;
  // A new highest row may be past several multiples at once: what lies below them has waited.
  const above = isHighest ? Math.floor((before ?? 0) / batchRows) * batchRows : row - 1;
  enterRows({ connection }, above, isHighest ? upTo : Math.min(row, upTo));
}

function enterRows({ connection }: Pick<Tx, "connection">, above: number, upTo: number): void {
  const rows = connection.all<{ row: number; fingerprint: Uint8Array }>(
    "SELECT row, fingerprint FROM __service_memory WHERE row > ? AND row <= ?",
    above,
    upTo,
  );
  for (const { row, fingerprint } of rows)
    connection.run(
      "INSERT INTO __service_memory_fingerprint (level, prefix, memory) VALUES (1, ?, ?) ON CONFLICT DO NOTHING",
      computePrefix(fingerprint),
      row,
    );
}

function enterBatch({ connection }: Tx, lastRow: number): void {
  enterRows({ connection }, lastRow - batchRows, lastRow);
  for (const [at, slices] of slicesPerLevel.entries()) moveSlice({ connection }, at + 1, slices, lastRow / batchRows);
}

/**
 * Moves the slice of a level whose turn it is, a range of prefixes, to the next one. A memory that was entered before
 * the highest rows were removed, and with them again, may have an entry in both: they become one.
 */
function moveSlice({ connection }: Pick<Tx, "connection">, level: number, slices: number, batchNumber: number): void {
  const width = 2 ** (8 * prefixBytes) / slices;
  const first = (batchNumber % slices) * width;
  connection.run(
    "UPDATE OR REPLACE __service_memory_fingerprint SET level = level + 1 " +
      "WHERE level = ? AND prefix >= ? AND prefix < ?",
    level,
    first,
    first + width,
  );
}

/** Removes the entry of a memory that is about to be removed, if it has one. */
export function removeFingerprint({ connection }: Tx, row: number): void {
  const memory = connection.get<{ fingerprint: Uint8Array }>(
    "SELECT fingerprint FROM __service_memory WHERE row = ?",
    row,
  );
  if (memory)
    connection.run(
      `DELETE FROM __service_memory_fingerprint WHERE level IN (${levels}) AND prefix = ? AND memory = ?`,
      computePrefix(memory.fingerprint),
      row,
    );
}

/** SQL that finds an entry without its memory. */
export const strayFingerprint =
  "SELECT 1 FROM __service_memory_fingerprint WHERE memory NOT IN (SELECT row FROM __service_memory) LIMIT 1";
