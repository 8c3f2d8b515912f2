/**
 * Changes of a text: a piece replaced, lines inserted, replaced or deleted.
 *
 * Always true: an edit that does not fit exactly is refused with what it met, so that nobody edits a text that is not
 * the one they have seen; no text grows beyond its bound on the way. Must not know: where texts are kept.
 */
import { utf8Length } from "../../base/bytes.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { countLines, offsetAfter } from "./file-lines.ts";

/** Bytes of one file in UTF-8: what a model can read at all, and a transaction writes without a thought. */
export const fileBytesMax = 1024 * 1024;
/** Edits of one call. Each reads the whole text: milliseconds for the largest. */
export const fileEditsMax = 100;

export interface FileEdit {
  readonly oldText?: string;
  readonly replaceAll?: boolean;
  readonly afterLine?: number;
  readonly firstLine?: number;
  readonly lastLine?: number;
  readonly text: string;
}

/** Refuses a text that a file cannot hold. */
export function checkFileText(field: string, text: string): void {
  if (text.length > fileBytesMax || utf8Length(text) > fileBytesMax)
    throw invalid(`${field} must be at most ${fileBytesMax} bytes of UTF-8`);
  if (!text.isWellFormed() || text.includes("\0")) throw invalid(`${field} must be valid UTF-8 without U+0000`);
}

/**
 * The text after all edits; `look` is called before each of them, as one may take some milliseconds. Throws
 * invalid_request for one that is none, conflict for one that does not fit.
 */
export function applyEdits(text: string, edits: readonly FileEdit[], look: () => void): string {
  if (edits.length === 0 || edits.length > fileEditsMax) throw invalid(`edits must hold 1 to ${fileEditsMax} edits`);
  return edits.reduce((before, edit, at) => {
    look();
    const after = applyEdit(`edits[${at}]`, before, edit);
    checkFileText("the text after the edits", after);
    return after;
  }, text);
}

function applyEdit(place: string, before: string, edit: FileEdit): string {
  const { oldText, afterLine, firstLine, lastLine, replaceAll = false } = edit;
  const isLines = firstLine !== undefined && lastLine !== undefined;
  const ways = [oldText !== undefined, afterLine !== undefined, isLines].filter(Boolean).length;
  const isHalf = (firstLine === undefined) !== (lastLine === undefined);
  if (ways !== 1 || isHalf || (replaceAll && oldText === undefined))
    throw invalid(`${place} must have old_text, after_line, or first_line and last_line; replace_all is of old_text`);
  if (oldText !== undefined) return replaceText(place, before, oldText, edit.text, replaceAll);
  if (afterLine !== undefined) return insertLines(place, before, afterLine, edit.text);
  return replaceLines(place, before, firstLine!, lastLine!, edit.text);
}

function replaceText(place: string, before: string, old: string, text: string, all: boolean): string {
  if (old === "") throw invalid(`${place}.old_text must not be empty`);
  const parts = before.split(old);
  const count = parts.length - 1;
  if (count === 0) throw unfit(`${place}.old_text does not occur in the file`);
  // Occurrences that overlap are several places too.
  const isOnce = count === 1 && before.indexOf(old, before.indexOf(old) + 1) < 0;
  if (!all && !isOnce)
    throw unfit(`${place}.old_text occurs ${Math.max(2, count)} times in the file; give more of what surrounds it`);
  if (before.length + count * (text.length - old.length) > fileBytesMax)
    throw invalid(`the text after the edits must be at most ${fileBytesMax} bytes of UTF-8`);
  return parts.join(text);
}

function insertLines(place: string, before: string, after: number, text: string): string {
  const count = countLines(before);
  if (after > count) throw outside(`${place}.after_line`, count);
  const head = before.slice(0, offsetAfter(before, after));
  const whole = head === "" || head.endsWith("\n") ? head : `${head}\n`;
  return whole + asLines(text) + before.slice(head.length);
}

function replaceLines(place: string, before: string, first: number, last: number, text: string): string {
  if (first < 1 || last < first) throw invalid(`${place} must have a first_line from 1 and a last_line not before it`);
  const count = countLines(before);
  if (last > count) throw outside(`${place}.last_line`, count);
  const isOpenEnd = last === count && !before.endsWith("\n");
  const tail = before.slice(offsetAfter(before, last));
  return before.slice(0, offsetAfter(before, first - 1)) + (isOpenEnd ? text : asLines(text)) + tail;
}

function asLines(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function outside(place: string, count: number): ServiceError {
  return unfit(`${place} is behind the end: the file has ${count} lines`);
}

function unfit(message: string): ServiceError {
  return new ServiceError("conflict", message);
}
