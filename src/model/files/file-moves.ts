/**
 * Files and whole folders, moved and deleted in one transaction.
 *
 * Always true: all of them or none; no more than `filesChangedMax` at once. Must not know: HTTP, texts.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { Expected } from "../core/expected.ts";
import type { Tx } from "../core/transaction.ts";
import { checkFilePath } from "./file-path.ts";
import { checkPlace, endFile, filesAt, findFile, pathsWithVersions, purgePath, putMoved } from "./file-store.ts";
import { absent, checkExpectedFile } from "./files.ts";

/** Files that one call moves or deletes: some 50 ms of its database's writer. */
const filesChangedMax = 1_000;

function checkCount(count: number): void {
  if (count > filesChangedMax)
    throw invalid(`the folder has more than ${filesChangedMax} files; take the folders in it one after the other`);
}

export function moveFiles(
  tx: Tx,
  input: { readonly path: string; readonly to: string; readonly overwrite: boolean },
): { readonly moved: number } {
  const path = checkFilePath("path", input.path);
  const to = checkFilePath("to", input.to);
  if (to === path || to.startsWith(`${path}/`) || path.startsWith(`${to}/`))
    throw invalid("to must not be the path itself, nor lie within it or around it");
  const files = filesAt(tx, path, filesChangedMax + 1);
  if (files.length === 0) throw absent();
  checkCount(files.length);
  for (const file of files) {
    // Of a folder what follows its path; of a file nothing.
    const target = checkFilePath("to", to + file.path.slice(path.length));
    const inTheWay = findFile(tx, target);
    if (inTheWay && !input.overwrite)
      throw new ServiceError("already_exists", "there is a file where one is to be moved; overwrite replaces it");
    if (!inTheWay) checkPlace(tx, target);
    endFile(tx, file, "moved_away", target);
    putMoved(tx, target, file);
  }
  return { moved: files.length };
}

export function deleteFiles(
  tx: Tx,
  input: Pick<Expected, "ifMatch"> & { readonly path: string; readonly recursive: boolean; readonly purge: boolean },
): { readonly deleted: number; readonly purgedVersions: number } {
  const path = checkFilePath("path", input.path);
  checkExpectedFile(findFile(tx, path), input);
  const files = filesAt(tx, path, filesChangedMax + 1);
  checkCount(files.length);
  if (!input.recursive && files.some((file) => file.path !== path))
    throw new ServiceError("conflict", "there is a folder at the path; recursive deletes it with all that is in it");
  if (!input.purge) {
    for (const file of files) endFile(tx, file, "deleted");
    return { deleted: files.length, purgedVersions: 0 };
  }
  const paths = input.recursive ? pathsWithVersions(tx, path, filesChangedMax + 1) : [path];
  checkCount(paths.length);
  return { deleted: files.length, purgedVersions: paths.reduce((sum, one) => sum + purgePath(tx, one), 0) };
}
