/**
 * The file system as the file store sees it: single steps, each of which may fail, be carried out in part, or be lost
 * when the power goes before it is synced.
 *
 * Why a port: what the file store promises rests on the order of these steps. Tests replace it and let every one of
 * them fail, or cut the power there (test/support/faulty-files). Must not know: objects, keys, versions.
 */
import { constants, fstatSync, type Stats } from "node:fs";
import { link, mkdir, open, readdir, rename, rmdir, stat, unlink, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";

/** What is known of a file or directory without reading it. */
export interface FileFacts {
  readonly bytes: number;
  /** How many names the file has. */
  readonly links: number;
  /** Unix milliseconds. */
  readonly modifiedAtMs: number;
  /** Tells it from every other one, also from a later one that has its name, as far as the file system can. */
  readonly identity: string;
  /** Where it lies on its file system: the same for as long as it is there, whatever is done to it. */
  readonly place: string;
}

/** A file that is being written. */
export interface Draft {
  /**
   * Appends some of the bytes, and gives how many: a full disk may take a part of them. `writeDraft` is what callers
   * want.
   */
  write(parts: readonly Uint8Array[]): Promise<number>;
  /** Resolves when what was written is on stable storage. */
  sync(): Promise<void>;
  stat(): Promise<FileFacts>;
  close(): Promise<void>;
}

/** Every step throws what the system throws: an error with its `code`. */
export interface FileSystem {
  /** Creates a file; EEXIST when there is one. */
  create(path: string): Promise<Draft>;
  /** The file whole, with what is known of it. */
  read(path: string): Promise<FileFacts & { readonly content: Buffer }>;
  stat(path: string): Promise<FileFacts>;
  link(file: string, name: string): Promise<void>;
  /**
   * Moves a file or a directory; a directory onto a name that is free or an empty directory's, else ENOTEMPTY or
   * EEXIST.
   */
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /**
   * Makes the directory and those above it; gives the topmost that was new, undefined when none was. Of those that lie
   * above `below`, or are it, none is made: ENOENT when one is missing.
   */
  mkdir(path: string, below?: string): Promise<string | undefined>;
  /** Removes an empty directory; ENOTEMPTY or EEXIST when it is not. */
  rmdir(path: string): Promise<void>;
  readdir(path: string): Promise<string[]>;
  /** Makes the directory's entries survive a power loss; gives its identity. */
  syncDirectory(path: string): Promise<string>;
}

/**
 * Writes all the bytes and makes them durable, or throws; so the file is known to be whole when it is put in its place.
 */
export async function writeDraft(draft: Draft, parts: readonly Uint8Array[]): Promise<void> {
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  let left = parts;
  for (let done = 0; done < total;) {
    const written = await draft.write(left);
    // A disk that takes nothing and says nothing would be asked for ever.
    if (written <= 0) throw new StoreError("unavailable", "file store: the disk takes no more bytes of a file");
    done += written;
    left = after(left, written);
  }
  // An empty file has nothing that could be lost but its name.
  if (total === 0) return;
  await draft.sync();
  const { bytes } = await draft.stat();
  if (bytes !== total)
    throw new StoreError("unavailable", `file store: of ${total} bytes that were written the disk has ${bytes}`);
}

/** What follows the first `count` bytes. */
function after(parts: readonly Uint8Array[], count: number): readonly Uint8Array[] {
  let skipped = count;
  let index = 0;
  while (index < parts.length && skipped >= parts[index]!.length) skipped -= parts[index++]!.length;
  return index === parts.length ? [] : [parts[index]!.subarray(skipped), ...parts.slice(index + 1)];
}

function toFacts({ size, nlink, mtimeMs, dev, ino, birthtimeMs }: Stats): FileFacts {
  // A number is given again when its former file is gone; the time of birth then differs.
  return {
    bytes: size,
    links: nlink,
    modifiedAtMs: Math.floor(mtimeMs),
    identity: `${dev}-${ino}-${birthtimeMs}`,
    place: `${dev}-${ino}`,
  };
}

/** What is known of an open file is in memory: asking on the spot costs far less than handing it to a thread. */
function readOpenFacts(handle: FileHandle): FileFacts {
  return toFacts(fstatSync(handle.fd));
}

async function readWhole(handle: FileHandle, bytes: number): Promise<Buffer> {
  const content = Buffer.allocUnsafe(bytes);
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await handle.read(content, done, bytes - done, done);
    if (bytesRead === 0) throw new StoreError("unavailable", "file store: a file ended while it was read");
    done += bytesRead;
  }
  return content;
}

async function makeBelow(root: string, path: string): Promise<string | undefined> {
  try {
    await mkdir(path);
    return path;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return undefined;
    if (code !== "ENOENT" || dirname(path) === root) throw error;
  }
  const first = await makeBelow(root, dirname(path));
  const own = await makeBelow(root, path);
  return first ?? own;
}

/** The machine's. */
export const realFileSystem: FileSystem = {
  async create(path) {
    const handle = await open(path, "wx", 0o600);
    return {
      write: async (parts) => (await handle.writev([...parts])).bytesWritten,
      sync: () => handle.sync(),
      stat: async () => readOpenFacts(handle),
      close: () => handle.close(),
    };
  },
  async read(path) {
    const handle = await open(path, "r");
    try {
      const facts = readOpenFacts(handle);
      return { ...facts, content: await readWhole(handle, facts.bytes) };
    } finally {
      await handle.close();
    }
  },
  stat: async (path) => toFacts(await stat(path)),
  link,
  rename,
  unlink,
  mkdir: (path, below) => (below === undefined ? mkdir(path, { recursive: true }) : makeBelow(below, path)),
  rmdir,
  readdir: (path) => readdir(path),
  async syncDirectory(path) {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await handle.sync();
      return readOpenFacts(handle).identity;
    } finally {
      await handle.close();
    }
  },
};

/** The same for readers only: whatever would change something fails, as on a disk that is mounted read-only. */
export function readingOnly(files: FileSystem): FileSystem {
  const refused = (): Promise<never> => Promise.reject(Object.assign(new Error("only read here"), { code: "EROFS" }));
  return { ...files, create: refused, link: refused, rename: refused, unlink: refused, mkdir: refused, rmdir: refused };
}
