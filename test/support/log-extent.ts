/** What a simulated disk must know of a write-ahead log: which log it is, and how far that one reaches in its file. */
import { frameBytes, headerBytes } from "../../src/sqlite/wal-reader.ts";

/** Salts of a log: they change when it is begun anew, and what was synced before says nothing about it. */
export function generationOf(log: Uint8Array): string {
  return Buffer.from(log.subarray(16, 24)).toString("hex");
}

/** Where the log's own frames end: behind them may lie those of an older one, which it has yet to write over. */
export function extentOf(log: Uint8Array): number {
  if (log.length < headerBytes) return log.length;
  const isOwn = (at: number): boolean => generationOf(log.subarray(at - 8)) === generationOf(log);
  let end = headerBytes;
  while (end + frameBytes <= log.length && isOwn(end)) end += frameBytes;
  return end;
}
