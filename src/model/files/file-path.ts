/**
 * The paths of files: what one may be, and the range of those below a folder.
 *
 * Always true: a path that passed here is in the form NFC, so that two spellings of one name are one file; the files
 * below a folder are one range of the bytewise order. Must not know: what is stored.
 */
import { isWellFormed, utf8Length } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";

/** Bytes of a path in UTF-8, of one of its parts, and the parts of a path. */
export const filePathBytesMax = 1_024;
const filePathPartBytesMax = 255;
const filePathPartsMax = 32;

const control = /\p{Cc}/u;

/** The path in the form in which it is stored. Refuses one that breaks the rule; `field` says which. */
export function checkFilePath(field: string, text: string): string {
  if (text.length > filePathBytesMax) throw invalid(`${field} must be at most ${filePathBytesMax} bytes of UTF-8`);
  const path = text.normalize("NFC");
  const parts = path.split("/");
  if (path === "" || !isWellFormed(path) || utf8Length(path) > filePathBytesMax)
    throw invalid(`${field} must be 1 to ${filePathBytesMax} bytes of valid UTF-8 text`);
  if (control.test(path)) throw invalid(`${field} must not hold control characters`);
  if (path.startsWith("/") || path.endsWith("/"))
    throw invalid(`${field} must begin and end without a slash, such as notes/travel/tokyo.md`);
  if (parts.some((part) => part === "" || part === "." || part === ".."))
    throw invalid(`${field} must not have an empty part, nor . or .. as a part`);
  if (parts.length > filePathPartsMax) throw invalid(`${field} must have at most ${filePathPartsMax} parts`);
  if (parts.some((part) => utf8Length(part) > filePathPartBytesMax))
    throw invalid(`${field} must have parts of at most ${filePathPartBytesMax} bytes`);
  return path;
}

/** A folder in the form of a path; the empty text is the whole tree. */
export function checkFolder(text: string): string {
  return text === "" ? "" : checkFilePath("folder", text);
}

/** Where the paths below the folder begin, and before which they end; no end for the whole tree. */
export function rangeBelow(folder: string): { readonly from: string; readonly end: string | undefined } {
  // "0" is the character after the slash.
  return folder === "" ? { from: "", end: undefined } : { from: `${folder}/`, end: `${folder}0` };
}

/** The folders that a path lies in, the outermost first. */
export function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1))
    folders.push(path.slice(0, slash));
  return folders;
}
