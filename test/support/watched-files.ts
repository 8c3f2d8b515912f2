/**
 * Stands under node:fs: what our own code does to files below a watched folder is told to whoever watches it, before it
 * happens. Everything else passes, and so do all calls when nothing is watched.
 *
 * Only the synchronous calls: they are all that writes to a data directory (a sync that takes its time is asked of the
 * Disk, behind which tests stand anyway). Named imports of a built-in module follow its default export.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { dirname } from "node:path";

/** node:fs as it was. */
const untouched = { ...fs };

/** node:fs as it is without anybody watching. */
export const real = {
  ...untouched,
  readFileSync: (path: string): Buffer => inside(() => untouched.readFileSync(path)),
  writeFileSync: (
    path: fs.PathOrFileDescriptor,
    data: string | NodeJS.ArrayBufferView,
    options?: fs.WriteFileOptions,
  ): void => inside(() => untouched.writeFileSync(path, data, options)),
};

/** Who is told; each call comes before the deed. */
export interface FileWatcher {
  mark(): number;
  synced(ino: number, mark: number): void;
  wrote(ino: number, offset: number, length: number, sizeBefore: number, before: Buffer): void;
  cut(ino: number, size: number, sizeBefore: number, before: Buffer): void;
  naming(
    renamings: readonly { readonly path: string; readonly was: number | undefined }[],
    bury: readonly string[],
  ): void;
  folderSynced(path: string, mark: number): void;
  folderGone(path: string): void;
  onRead(path: string): void;
}

const watched = new Map<string, FileWatcher>();
const open = new Map<
  number,
  { readonly watcher: FileWatcher; readonly path: string; readonly ino: number; readonly isFolder: boolean }
>();
let isPatched = false;
/** Set while a call of node:fs is under way that may use others of them. */
let isInside = false;

/**
 * From now on the watcher is told of what happens below the folder; undefined: nobody is, and what a process that died
 * there had open is closed.
 */
export function watchFiles(root: string, watcher: FileWatcher | undefined): void {
  if (!isPatched) patch();
  isPatched = true;
  const last = watched.get(`${root}/`);
  if (watcher) watched.set(`${root}/`, watcher);
  else watched.delete(`${root}/`);
  if (watcher) return;
  for (const [descriptor, file] of open) {
    if (file.watcher !== last) continue;
    open.delete(descriptor);
    real.closeSync(descriptor);
  }
}

function findWatcher(path: unknown): FileWatcher | undefined {
  if (typeof path !== "string" || isInside) return undefined;
  for (const [root, watcher] of watched) if (`${path}/`.startsWith(root)) return watcher;
  return undefined;
}

function findIno(path: string): number | undefined {
  return real.statSync(path, { throwIfNoEntry: false })?.ino;
}

function tellOfCut(watcher: FileWatcher, path: string, size: number): void {
  const bytes = real.readFileSync(path);
  if (bytes.length !== size)
    watcher.cut(findIno(path)!, size, bytes.length, bytes.subarray(Math.min(size, bytes.length)));
}

/** What stands in a file where something is about to be written. */
function standing(descriptor: number, offset: number, length: number): Buffer {
  const before = Buffer.alloc(length);
  return before.subarray(0, real.readSync(descriptor, before, 0, length, offset));
}

/** A file comes into being, or is cut, as it is opened for writing. */
function tellOfOpening(watcher: FileWatcher, path: string, flags: string | number): void {
  if (typeof flags !== "string" || flags === "r" || flags === "r+") return;
  if (!real.existsSync(path)) watcher.naming([{ path, was: undefined }], []);
  else if (flags.startsWith("w") && !flags.includes("x")) tellOfCut(watcher, path, 0);
}

/** node:fs calls itself by its exports. */
function inside<Value>(act: () => Value): Value {
  const was = isInside;
  isInside = true;
  try {
    return act();
  } finally {
    isInside = was;
  }
}

type Any = (...args: never[]) => unknown;

/** Puts a call in the place of one of node:fs. */
function replace<Name extends keyof typeof fs>(
  name: Name,
  call: (typeof fs)[Name] extends Any
    ? (...args: Parameters<(typeof fs)[Name]>) => ReturnType<(typeof fs)[Name]>
    : never,
): void {
  (fs as Record<Name, unknown>)[name] = call;
}

function patch(): void {
  patchFiles();
  patchNames();
  syncBuiltinESMExports();
}

function patchFiles(): void {
  replace("openSync", (path, flags, mode) => {
    const watcher = findWatcher(path);
    if (watcher) tellOfOpening(watcher, path as string, flags);
    const descriptor = real.openSync(path, flags, mode);
    const stat = watcher && real.fstatSync(descriptor);
    if (stat) open.set(descriptor, { watcher, path: path as string, ino: stat.ino, isFolder: stat.isDirectory() });
    return descriptor;
  });
  replace("closeSync", (descriptor) => {
    open.delete(descriptor);
    real.closeSync(descriptor);
  });
  (fs as { writeSync: unknown }).writeSync = (
    descriptor: number,
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): number => {
    const found = open.get(descriptor);
    if (found) {
      const before = real.openSync(found.path, "r");
      try {
        found.watcher.wrote(
          found.ino,
          position,
          length,
          real.fstatSync(before).size,
          standing(before, position, length),
        );
      } finally {
        real.closeSync(before);
      }
    }
    return real.writeSync(descriptor, bytes, offset, length, position);
  };
  replace("ftruncateSync", (descriptor, size) => {
    const found = open.get(descriptor);
    if (found) tellOfCut(found.watcher, found.path, size ?? 0);
    real.ftruncateSync(descriptor, size);
  });
  for (const name of ["fdatasyncSync", "fsyncSync"] as const) {
    replace(name, (descriptor) => {
      const found = open.get(descriptor);
      real[name](descriptor);
      if (found?.isFolder) found.watcher.folderSynced(found.path, found.watcher.mark());
      else if (found) found.watcher.synced(found.ino, found.watcher.mark());
    });
  }
  (fs as { readSync: unknown }).readSync = (descriptor: number, ...rest: [Buffer, number, number, number]): number => {
    const found = open.get(descriptor);
    if (found) found.watcher.onRead(found.path);
    return real.readSync(descriptor, ...rest);
  };
  (fs as { readFileSync: unknown }).readFileSync = (path: string, options?: undefined): unknown => {
    findWatcher(path)?.onRead(path);
    return inside(() => untouched.readFileSync(path, options));
  };
  replace("writeFileSync", (path, data, options) => {
    const watcher = findWatcher(path);
    if (!watcher) return real.writeFileSync(path, data, options);
    tellOfOpening(watcher, path as string, "w");
    real.writeFileSync(path, data, options);
    const { ino, size } = real.statSync(path as string);
    if ((options as { flush?: boolean } | undefined)?.flush !== true) watcher.wrote(ino, 0, size, 0, Buffer.alloc(0));
  });
}

function patchNames(): void {
  replace("renameSync", (from, to) => {
    const watcher = findWatcher(from);
    if (watcher) {
      const was = findIno(to as string);
      watcher.naming(
        [
          { path: to as string, was },
          { path: from as string, was: findIno(from as string) },
        ],
        was === undefined ? [] : [to as string],
      );
    }
    real.renameSync(from, to);
  });
  replace("rmSync", (path, options) => {
    const watcher = findWatcher(path);
    const stat = watcher && real.statSync(path, { throwIfNoEntry: false });
    if (stat?.isDirectory()) watcher!.folderGone(path as string);
    else if (stat) watcher!.naming([{ path: path as string, was: stat.ino }], [path as string]);
    real.rmSync(path, options);
  });
  (fs as { mkdirSync: unknown }).mkdirSync = (path: string, options?: fs.MakeDirectoryOptions): string | undefined => {
    const watcher = findWatcher(path);
    if (watcher) {
      const made: string[] = [];
      for (let at = path; findWatcher(at) === watcher && !real.existsSync(at); at = dirname(at)) made.unshift(at);
      for (const folder of made) watcher.naming([{ path: folder, was: undefined }], []);
    }
    return real.mkdirSync(path, options);
  };
}
