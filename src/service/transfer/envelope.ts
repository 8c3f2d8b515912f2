/**
 * The lines of an export that are no records: its header, the marks between its parts, its trailer.
 *
 * Always true: a build refuses a header of a later version by name; the hash is over the records alone, so that exports
 * of equal databases have equal hashes.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { RecordCounts } from "../../model/transfer/transfer.ts";

const format = "palimpsest-export";
const version = 1;
/** The type of an export's text. */
export const exportType = "application/x-ndjson";

export interface ExportHeader {
  readonly database: string;
  readonly branch: string;
  readonly txid: number;
  readonly createdAtMs: number;
}

export function headerLine({ database, branch, txid, createdAtMs }: ExportHeader): string {
  const header = { kind: "header", format, version, database, branch, txid, created_at: createdAtMs };
  return `${JSON.stringify(header)}\n`;
}

export function markLine(cursor: string): string {
  return `${JSON.stringify({ kind: "mark", cursor })}\n`;
}

/** What the trailer says of the records. */
export interface Totals {
  readonly counts: RecordCounts;
  readonly hash: string;
}

export function trailerLine({ counts, hash }: Totals): string {
  const records = sum(counts);
  return `${JSON.stringify({ kind: "trailer", records, counts, hash })}\n`;
}

/** The counts together. */
export function addCounts(one: RecordCounts, other: RecordCounts): RecordCounts {
  const all: Record<string, number> = { ...one };
  for (const [kind, count] of Object.entries(other)) all[kind] = (all[kind] ?? 0) + count;
  return all;
}

function sum(counts: RecordCounts): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/** Refuses a first line that is no header of a version that this build reads. */
export function checkHeader(line: string): void {
  const header = parse(line);
  if (header?.["kind"] !== "header" || header["format"] !== format)
    throw invalid(`line 1: an import begins with the header of an export: {"kind":"header","format":"${format}",…}`);
  if (header["version"] === version) return;
  const isLater = Number.isSafeInteger(header["version"]) && (header["version"] as number) > version;
  throw invalid(
    isLater
      ? `line 1: the export has version ${String(header["version"])}, written by a newer build; this build reads ` +
          `version ${version}: upgrade it`
      : "line 1: version must be 1",
  );
}

/** Refuses a trailer that does not speak of the records that came. */
export function checkTrailer(line: number, text: string, { counts, hash }: Totals): void {
  const trailer = parse(text);
  const records = sum(counts);
  if (trailer === undefined) throw invalid(`line ${line}: the trailer is no JSON object`);
  if (trailer["records"] !== records)
    throw invalid(
      `line ${line}: the trailer speaks of ${String(trailer["records"]).slice(0, 20)} records, and ${records} came`,
    );
  if (trailer["hash"] !== hash)
    throw invalid(`line ${line}: the trailer's hash is not that of the records: lines were changed, lost or moved`);
}

function parse(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
