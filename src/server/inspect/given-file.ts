/**
 * A local file that somebody names: an object as it is, the file of one of its versions in a file store, the folder of
 * all its versions, or a SQLite file.
 *
 * Always true: files are opened for reading only, and no more of one is held than an object may have.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";
import { objectSuffix } from "../../store/file/file-store.ts";
import { readVersionContent, isVersionName } from "../../store/file/version-files.ts";
import { databaseMagic } from "../../format/history/pages.ts";
import { findKindByBytes, findKindByKey, toldKinds, type KindName } from "./kinds.ts";

/** Larger files are no objects of ours: a pack has 64 MiB, an image of a large database some hundred. */
const inspectFileBytesMax = 1024 * 1024 * 1024;

/** What the file turned out to be. */
export type GivenFile =
  | { readonly is: "database"; readonly path: string }
  | { readonly is: "object"; readonly path: string; readonly kind: KindName; readonly bytes: Uint8Array };

/** Throws StoreError("corrupt") for what is nothing that can be told of, and what the file system throws. */
export function readGivenFile(named: string): GivenFile {
  const path = statSync(named).isDirectory() ? newestVersionIn(named) : named;
  if (readFileStart(path) === databaseMagic) return { is: "database", path };
  if (statSync(path).size > inspectFileBytesMax)
    throw new StoreError("corrupt", `it has more than ${inspectFileBytesMax} bytes, which no object has`);
  const file = readFileSync(path);
  const isVersion = isVersionFile(path);
  const bytes = isVersion ? readVersionContent(file) : file;
  if (typeof bytes === "string")
    throw new StoreError("corrupt", bytes === "tombstone" ? "it marks a deletion" : "what it held was purged");
  const kind = (isVersion ? findKindByFolder(dirname(resolve(path))) : undefined) ?? findKindByBytes(bytes);
  if (kind === undefined)
    throw new StoreError("corrupt", `it is nothing that can be told of: ${toldKinds.join(", ")}, or a SQLite file`);
  return { is: "object", path, kind, bytes };
}

function newestVersionIn(folder: string): string {
  const versions = readdirSync(folder).filter(isVersionName).map(Number);
  if (versions.length > 0 && folder.replace(/\/+$/, "").endsWith(objectSuffix))
    return join(folder, String(Math.max(...versions)));
  throw new StoreError("corrupt", `it is a folder, and none of an object's versions (<key>${objectSuffix})`);
}

function isVersionFile(path: string): boolean {
  return isVersionName(basename(path)) && dirname(resolve(path)).endsWith(objectSuffix);
}

/** The kind that the object in this folder must be: the end of the path is its key, wherever the store begins. */
function findKindByFolder(folder: string): KindName | undefined {
  const parts = folder.slice(0, -objectSuffix.length).split("/");
  for (let from = 1; from < parts.length; from++) {
    const kind = findKindByKey(parts.slice(from).join("/"));
    if (kind !== undefined) return kind;
  }
  return undefined;
}

function readFileStart(path: string): string {
  const start = Buffer.alloc(databaseMagic.length);
  const descriptor = openSync(path, "r");
  try {
    return start.toString("latin1", 0, readSync(descriptor, start, 0, start.length, 0));
  } finally {
    closeSync(descriptor);
  }
}
