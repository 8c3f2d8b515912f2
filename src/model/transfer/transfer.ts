/**
 * Records of a database out of it and into it, some at a time.
 *
 * Always true: what an export gives of a state is the same however it is cut into parts; the same records again change
 * nothing; a record of an import has one outcome, and none is half written. Must not know: streams, headers and
 * trailers, user SQL, who asks.
 */
import { utf8Length } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { Tx, View } from "../core/transaction.ts";
import { chainHash } from "./hash-chain.ts";
import { findKind, recordKinds } from "./kinds.ts";
import type { ErasedNames } from "./erased.ts";
import { Fields, type Found, type Position } from "./record.ts";

/** Where an export goes on: in which kind, and behind which of its rows. */
export interface ExportPlace {
  readonly kind: string;
  readonly after?: Position;
}

/** How many lines of each kind. */
export type RecordCounts = Readonly<Record<string, number>>;

export interface ExportInput {
  /** Absent: from the beginning. */
  readonly from?: ExportPlace;
  /** What expires at or before this instant is left out, the same for all parts of an export. Absent: now. */
  readonly asOfMs?: number;
  /** Of the lines together: the line that reaches it is the last. */
  readonly bytesMax: number;
  /** The hash of the lines before, in hexadecimal. */
  readonly hash: string;
}

export interface ExportedPart {
  /** Lines, each with its line break. */
  readonly text: string;
  readonly counts: RecordCounts;
  readonly hash: string;
  /** The instant that was asked for, or was now. */
  readonly asOfMs: number;
  /** Absent at the end. */
  readonly next?: ExportPlace;
}

/** The next lines of an export. */
export function exportRecords(view: View, { from, asOfMs = view.nowMs, bytesMax, hash }: ExportInput): ExportedPart {
  const seen = { ...view, nowMs: asOfMs };
  const first = from === undefined ? 0 : recordKinds.findIndex(({ kind }) => kind === from.kind);
  if (first < 0) throw invalid("cursor must be one that an export of this database gave");
  const lines: string[] = [];
  const counts: Record<string, number> = {};
  let bytes = 0;
  let chain = hash;
  for (const { kind, rows } of recordKinds.slice(first)) {
    for (const { line, position } of rows(seen, kind === from?.kind ? from.after : undefined)) {
      lines.push(line, "\n");
      chain = chainHash(chain, line);
      counts[kind] = (counts[kind] ?? 0) + 1;
      bytes += utf8Length(line);
      if (bytes >= bytesMax)
        return { text: lines.join(""), counts, hash: chain, asOfMs, next: { kind, after: position } };
      view.connection.look();
    }
  }
  return { text: lines.join(""), counts, hash: chain, asOfMs };
}

/** What is done with a record of whose names something else is there: it stays, it gives way, or nothing is written. */
export const importModes = ["skip", "replace", "fail"] as const;
export type ImportMode = (typeof importModes)[number];

/** What became of a record. */
export type Outcome =
  | "created"
  | "replaced"
  /** The same is there. */
  | "unchanged"
  /** Something else is there, and stays. */
  | "conflict"
  /** An active memory says the same under another id. */
  | "duplicate"
  /** Its time is over. */
  | "expired"
  /** It was erased for good, and stays so. */
  | "erased";

/** How many records of each kind came to each outcome. */
export type OutcomeCounts = Readonly<Record<string, Readonly<Partial<Record<Outcome, number>>>>>;

export interface ImportInput {
  readonly records: readonly { readonly line: number; readonly text: string }[];
  readonly mode: ImportMode;
  readonly erased: ErasedNames;
  /** Whether the outcome of each record is wanted. */
  readonly each?: boolean;
}

export interface Imported {
  /** In the order of the records; where it was asked for. */
  readonly each?: readonly Outcome[];
  readonly counts: OutcomeCounts;
  /** The first lines that were not taken over though they were not there. */
  readonly left: readonly { readonly line: number; readonly kind: string; readonly outcome: Outcome }[];
}

/** Lines that an answer names; the others it counts. */
const leftMax = 20;

/** Reads and checks a line. Throws invalid_request, which names the line. */
export function readRecord(line: number, text: string): { readonly kind: string; readonly parsed: unknown } {
  return atLine(line, () => {
    const fields = Fields.parse(text);
    const kind = findKind(fields.kind);
    if (!kind) throw invalid(`kind ${JSON.stringify(fields.kind.slice(0, 64))} is unknown to this build`);
    const parsed = kind.read(fields);
    fields.close();
    return { kind: kind.kind, parsed };
  });
}

/** What would become of the records, each for itself: two of them that say the same are both `created`. */
export function planImport(view: View, input: ImportInput): Imported {
  return settle(view, input, () => {});
}

/** Takes the records over, all or none. Throws conflict in mode `fail`. */
export function importRecords(tx: Tx, input: ImportInput): Imported {
  return settle(tx, input, (kind, parsed) => findKind(kind)!.write(tx, parsed));
}

function settle(view: View, input: ImportInput, write: (kind: string, parsed: unknown) => void): Imported {
  const counts: Record<string, Partial<Record<Outcome, number>>> = {};
  const left: { line: number; kind: string; outcome: Outcome }[] = [];
  const each: Outcome[] = [];
  for (const { line, text } of input.records) {
    const { kind, parsed } = readRecord(line, text);
    const { outcome, taken } = atLine(line, () => decide(view, kind, parsed, input));
    if (outcome === "created" || outcome === "replaced") atLine(line, () => write(kind, taken));
    else if (outcome !== "unchanged" && left.length < leftMax) left.push({ line, kind, outcome });
    const ofKind = (counts[kind] ??= {});
    ofKind[outcome] = (ofKind[outcome] ?? 0) + 1;
    if (input.each) each.push(outcome);
    view.connection.look();
  }
  return { counts, left, ...(input.each && { each }) };
}

/** What becomes of the record, and what of it is taken over. */
function decide(
  view: View,
  kind: string,
  parsed: unknown,
  { mode, erased }: ImportInput,
): { readonly outcome: Outcome; readonly taken?: unknown } {
  const { find, isErased, withoutErased } = findKind(kind)!;
  const found = find(view, parsed);
  if (found === "same") return { outcome: "unchanged" };
  if (isErased?.(view, parsed, erased)) return { outcome: "erased" };
  const taken = withoutErased ? withoutErased(view, parsed, erased) : parsed;
  return { outcome: outcomeOf(taken === parsed ? found : find(view, taken), mode), taken };
}

function outcomeOf(found: Found, mode: ImportMode): Outcome {
  if (found === "same") return "unchanged";
  if (found === "absent") return "created";
  if (found === "duplicate" || found === "expired") return found;
  if (mode === "fail")
    throw new ServiceError("conflict", "something else is there under the names of this record; nothing was written");
  return found === "different" && mode === "replace" ? "replaced" : "conflict";
}

/** A refusal that names the line. */
function atLine<Value>(line: number, act: () => Value): Value {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.message.startsWith("line ")) throw error;
    throw new ServiceError(error.code, `line ${line}: ${error.message}`, error.detail);
  }
}
