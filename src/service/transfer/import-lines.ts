/**
 * The lines of an import as they come: which of them are records, whether header and trailer are right, and where the
 * next ones go on.
 *
 * Always true: a line is looked at once, in order; what is wrong with one is said with its number, the header being
 * line 1. Must not know: what a record means.
 */
import { decodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { chainHash, emptyChain } from "../../model/transfer/hash-chain.ts";
import type { RecordCounts } from "../../model/transfer/transfer.ts";
import { checkHeader, checkTrailer } from "./envelope.ts";

/** One record: a memory, a document or a turn has a MiB at most; a value or a text of a file may have more. */
const recordBytesMax = 64 * 1024 * 1024;

/** How far an import has come. */
export interface LineState {
  /** The next line. */
  line: number;
  counts: RecordCounts;
  hash: string;
  /** Some digits of the header's own hash; empty before it was read. */
  header: string;
  /** Whether the trailer was there. */
  isWhole: boolean;
}

export function firstState(): LineState {
  return { line: 1, counts: {}, hash: emptyChain, header: "", isWhole: false };
}

/** A line that is a record. */
export interface RecordLine {
  readonly line: number;
  readonly kind: string;
  readonly text: string;
}

const kindForm = /^\s*\{\s*"kind"\s*:\s*"([a-z_]{1,32})"/;
const lineFeed = 10;

/**
 * Reads lines of the bytes, some megabytes at a time, and moves the state along. Throws invalid_request; the records of
 * the windows before were given by then.
 */
export function* recordWindows(
  bytes: Uint8Array,
  state: LineState,
  windowBytes: number,
): Generator<readonly RecordLine[]> {
  let window: RecordLine[] = [];
  let held = 0;
  for (let from = 0; from < bytes.length;) {
    const found = bytes.indexOf(lineFeed, from);
    const end = found < 0 ? bytes.length : found;
    const record = readLine(bytes.subarray(from, end), state);
    if (record) window.push(record);
    held += end - from;
    from = end + 1;
    if (held < windowBytes) continue;
    yield window;
    window = [];
    held = 0;
  }
  yield window;
}

/** Refuses bytes that do not begin as an export does. Throws invalid_request. */
export function checkBeginning(bytes: Uint8Array): void {
  const end = bytes.indexOf(lineFeed);
  readLine(end < 0 ? bytes : bytes.subarray(0, end), firstState());
}

/** The record of the line, if it is one. */
function readLine(bytes: Uint8Array, state: LineState): RecordLine | undefined {
  const { line } = state;
  if (bytes.length > recordBytesMax)
    throw invalid(`line ${line} has ${bytes.length} bytes; a record may have ${recordBytesMax}`);
  const text = decodeUtf8(bytes.at(-1) === 13 ? bytes.subarray(0, -1) : bytes);
  if (text === undefined) throw invalid(`line ${line} is not valid UTF-8`);
  if (line === 1) {
    checkHeader(text);
    state.header = chainHash(emptyChain, text).slice(0, 16);
  } else if (state.isWhole) throw invalid(`line ${line} comes after the trailer, which is the last line`);
  state.line++;
  if (line === 1) return undefined;
  const kind = kindForm.exec(text)?.[1];
  if (kind === undefined)
    throw invalid(`line ${line} must be a JSON object whose first member is its kind, such as {"kind":"memory",…}`);
  if (kind === "mark") return undefined;
  if (kind === "header") throw invalid(`line ${line} is a second header; an import is one export`);
  if (kind === "trailer") {
    checkTrailer(line, text, state);
    state.isWhole = true;
    return undefined;
  }
  state.counts = { ...state.counts, [kind]: (state.counts[kind] ?? 0) + 1 };
  state.hash = chainHash(state.hash, text);
  return { line, kind, text };
}
