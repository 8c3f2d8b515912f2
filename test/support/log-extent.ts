/** What a simulated disk must know of a write-ahead log: which log it is, and how far that one reaches in its file. */
import { frameBytes, headerBytes } from "../../src/sqlite/wal-reader.ts";

/** Salts of a log: they change when it is begun anew, and what was synced before says nothing about it. */
export function generationOf(log: Uint8Array): string {
  return Buffer.from(log.subarray(16, 24)).toString("hex");
}

/** Where the log's last commit ends: behind it may lie what was rolled back, and frames of an older log, which it has yet to write over. */
export function extentOf(log: Uint8Array): number {
  if (log.length < headerBytes) return log.length;
  const generation = generationOf(log);
  const view = new DataView(log.buffer, log.byteOffset, log.byteLength);
  let end = headerBytes;
  for (let at = headerBytes; at + frameBytes <= log.length; at += frameBytes) {
    const salts = Buffer.from(log.subarray(at + 8, at + 16)).toString("hex");
    if (salts !== generation) break;
    const endsCommit = view.getUint32(at + 4) > 0;
    if (endsCommit) end = at + frameBytes;
  }
  return end;
}
