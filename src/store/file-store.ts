/**
 * Object storage in a local directory, with the same compare-and-set across processes as S3 gives.
 *
 * Each key is a directory `<key>~` of numbered version files; the highest number is the object. A put writes and syncs
 * a temporary file and link(2)s it onto the next number: link fails when the name exists, so of any number of racing
 * writers exactly one wins. An empty version file is a tombstone; the byte 2 alone is what a superseded version was
 * purged to; every other file is the byte 1 and then the object.
 *
 * The sleeping writer: one that read version n, slept while others moved on and old versions were removed, could link
 * n+1 anew. It is never read (the highest wins), but must not believe it has won: after the link the directory is read
 * again, and if n+1 is old enough to have been removed before, the outcome is reported as unknown. This is why a purge
 * leaves the names of the versions that it empties.
 */
import { constants } from "node:fs";
import { link, mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { StoreError } from "../base/errors.ts";
import type { World } from "../base/world.ts";
import type { KeepingStore, ListedObject, ListPage, ObjectVersion, PutCondition, PutOutcome, StoredObject, VersionPurge } from "./object-store.ts";

/** Superseded versions that stay, so that a reader who has just listed still finds what it saw. */
const versionsKept = 16;
const objectSuffix = "~";
const temporaryDirectory = ".tmp";
const dataMark = Buffer.from([1]);
const purgedMark = Buffer.from([2]);

/** Keys are ours alone (format/object-keys), but a store checks what becomes a path. */
const keyPattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

function fault(what: string, error: unknown): StoreError {
  const code = (error as NodeJS.ErrnoException).code ?? "fault";
  return new StoreError("unavailable", `file store: ${what} failed (${code})`, { cause: error });
}

/** The folder that holds every key with the prefix. */
function folderOf(prefix: string): string {
  return prefix.slice(0, prefix.lastIndexOf("/") + 1);
}

/** Whether the name was free and is the file's now. */
async function linkedAnew(file: string, name: string): Promise<boolean> {
  try {
    await link(file, name);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function removeIfThere(path: string): Promise<void> {
  await unlink(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}

/** Whether there is such a file and it has more bytes. */
async function isLonger(path: string, bytes: number): Promise<boolean> {
  try {
    return (await stat(path)).size > bytes;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Makes the directory's entries survive a power loss. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export class FileStore implements KeepingStore {
  readonly #root: string;
  readonly #world: World;

  private constructor(root: string, world: World) {
    this.#root = root;
    this.#world = world;
  }

  /** Opens the directory, creating it when it is not there. */
  static async open(root: string, world: World): Promise<FileStore> {
    try {
      await mkdir(join(root, temporaryDirectory), { recursive: true });
      await syncDirectory(root);
    } catch (error) {
      throw fault("opening", error);
    }
    return new FileStore(root, world);
  }

  /** The directory as it is, for whoever only reads: nothing is made in it. */
  static at(root: string, world: World): FileStore {
    return new FileStore(root, world);
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    const directory = this.#directory(key);
    // A version that vanishes or is purged between listing and reading was superseded meanwhile: look again.
    for (;;) {
      const newest = (await this.#versions(directory)).at(-1);
      if (newest === undefined) return undefined;
      // The version of a tombstone is nobody's.
      if (String(newest) === heldVersion) return "same";
      try {
        const bytes = await readFile(join(directory, String(newest)));
        if (bytes[0] === purgedMark[0]) continue;
        return bytes.length === 0 ? undefined : { bytes: bytes.subarray(dataMark.length), version: String(newest) };
      } catch (error) {
        if (!isMissing(error)) throw fault("reading", error);
      }
    }
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const directory = this.#directory(key);
    const newest = (await this.#versions(directory)).at(-1) ?? 0;
    // Nobody is ever given the version of a tombstone.
    const holds = condition.kind === "absent" ? newest === 0 || (await this.#isTombstone(directory, newest)) : condition.version === String(newest);
    if (!holds) return { kind: "conflict" };
    return this.#append(directory, newest + 1, [dataMark, bytes]);
  }

  async delete(key: string): Promise<void> {
    const directory = this.#directory(key);
    for (;;) {
      const newest = (await this.#versions(directory)).at(-1);
      if (newest === undefined) return;
      const isGone = (await this.#isTombstone(directory, newest)) || (await this.#append(directory, newest + 1, [])).kind === "stored";
      if (isGone) break;
    }
    // Also when the tombstone was there: whoever set it may not have come this far.
    await this.#purge(directory);
  }

  async list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    const objects: ListedObject[] = [];
    for await (const key of this.#keys(folderOf(prefix), prefix, options.after)) {
      const object = await this.#liveObject(key);
      if (object === undefined) continue;
      if (objects.length === options.limit) return { objects, next: objects.at(-1)?.key };
      objects.push(object);
    }
    return { objects, next: undefined };
  }

  async purgeVersions(prefix: string): Promise<VersionPurge> {
    let removed = 0;
    for await (const key of this.#keys(folderOf(prefix), prefix, undefined)) removed += await this.#purge(this.#directory(key));
    return { versioned: true, removed, uploadsAborted: await this.#removeTemporaries(), locked: 0 };
  }

  /** What superseded versions still hold, newest first. */
  async olderVersions(key: string): Promise<readonly StoredObject[]> {
    const directory = this.#directory(key);
    const older: StoredObject[] = [];
    for (const version of (await this.#versions(directory)).slice(0, -1).reverse()) {
      const bytes = await readFile(join(directory, String(version))).catch((error: unknown) => {
        if (isMissing(error)) return undefined;
        throw fault("reading", error);
      });
      if (bytes?.[0] === dataMark[0]) older.push({ bytes: bytes!.subarray(dataMark.length), version: String(version) });
    }
    return older;
  }

  /** Keys below `folder` in ascending order, those of deleted objects too. */
  async *#keys(folder: string, prefix: string, after: string | undefined): AsyncGenerator<string> {
    let names: string[];
    try {
      names = await readdir(join(this.#root, folder));
    } catch (error) {
      if (isMissing(error)) return;
      throw fault("listing", error);
    }
    const keys = names
      .filter((name) => name !== temporaryDirectory)
      .map((name) => folder + (name.endsWith(objectSuffix) ? name.slice(0, -objectSuffix.length) : `${name}/`))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    for (const key of keys) {
      const isFolder = key.endsWith("/");
      if (!key.startsWith(prefix) && !(isFolder && prefix.startsWith(key))) continue;
      // A folder that lies wholly before the place is not gone through again for every page.
      if (isFolder && after !== undefined && !after.startsWith(key) && Buffer.compare(Buffer.from(key), Buffer.from(after)) < 0) continue;
      if (isFolder) yield* this.#keys(key, prefix, after);
      else if (after === undefined || Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0) yield key;
    }
  }

  async #liveObject(key: string): Promise<ListedObject | undefined> {
    const directory = this.#directory(key);
    const newest = (await this.#versions(directory)).at(-1);
    if (newest === undefined) return undefined;
    try {
      const { size, mtimeMs } = await stat(join(directory, String(newest)));
      // As long as the empty object is what a purge leaves, which is never the newest for long.
      if (size === purgedMark.length && (await this.#versions(directory)).at(-1) !== newest) return await this.#liveObject(key);
      return size === 0 ? undefined : { key, bytes: size - dataMark.length, modifiedAtMs: Math.floor(mtimeMs) };
    } catch (error) {
      if (isMissing(error)) return this.#liveObject(key);
      throw fault("listing", error);
    }
  }

  #directory(key: string): string {
    if (!keyPattern.test(key)) throw new StoreError("misconfigured", "an object key has a form that no file can have");
    return join(this.#root, key + objectSuffix);
  }

  /** Version numbers in ascending order; none when the key was never written. */
  async #versions(directory: string): Promise<number[]> {
    try {
      return (await readdir(directory)).map(Number).sort((a, b) => a - b);
    } catch (error) {
      if (isMissing(error)) return [];
      throw fault("listing", error);
    }
  }

  async #isTombstone(directory: string, version: number): Promise<boolean> {
    try {
      return (await stat(join(directory, String(version)))).size === 0;
    } catch (error) {
      // Superseded since we listed: whatever the caller wanted, its condition no longer holds.
      if (isMissing(error)) return true;
      throw fault("reading", error);
    }
  }

  async #append(directory: string, version: number, parts: readonly Uint8Array[]): Promise<PutOutcome> {
    // Neither needs the other, and two fsyncs at once cost little more than one.
    const ready = version === 1 ? this.#makeDirectory(directory) : undefined;
    const linked = async (temporary: string): Promise<boolean> => {
      await ready;
      return linkedAnew(temporary, join(directory, String(version)));
    };
    try {
      const [isFirst] = await Promise.all([this.#place(parts, linked), ready]);
      if (!isFirst) return { kind: "conflict" };
    } catch (error) {
      throw error instanceof StoreError ? error : fault("writing", error);
    }
    return this.#settle(directory, version);
  }

  /** Writes and syncs a temporary file and has it put where it belongs. A purge may sweep it away first, so it is written twice if need be. */
  async #place<Outcome>(parts: readonly Uint8Array[], put: (temporary: string) => Promise<Outcome>): Promise<Outcome> {
    for (let attempt = 1; ; attempt++) {
      const temporary = join(this.#root, temporaryDirectory, this.#world.ulid());
      try {
        await this.#writeSynced(temporary, parts);
        return await put(temporary);
      } catch (error) {
        if (attempt > 1 || !isMissing(error)) throw error;
      } finally {
        // What stays behind when this fails is garbage under a name that is never used again, until a purge.
        await unlink(temporary).catch(() => {});
      }
    }
  }

  /** After the link: the version may be seen by others, so nothing from here on may be called a failure of the put. */
  async #settle(directory: string, version: number): Promise<PutOutcome> {
    try {
      await syncDirectory(directory);
      const versions = await this.#versions(directory);
      if (versions.at(-1)! < version + versionsKept) {
        await this.#removeOld(directory, versions, version);
        return { kind: "stored", version: String(version) };
      }
    } catch (error) {
      throw new StoreError("unknown_outcome", "file store: the put was written but not settled; read the object back", { cause: error });
    }
    throw new StoreError("unknown_outcome", "file store: others moved far on during this put; read the object back");
  }

  async #writeSynced(path: string, parts: readonly Uint8Array[]): Promise<void> {
    const handle = await open(path, "wx", 0o600);
    try {
      await handle.writev(parts.length > 0 ? [...parts] : [new Uint8Array(0)]);
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  /** Creates the directory and makes every new link of its path durable. */
  async #makeDirectory(directory: string): Promise<void> {
    const first = await mkdir(directory, { recursive: true });
    if (first === undefined) return;
    for (let path = directory; path.length >= first.length; path = dirname(path)) await syncDirectory(dirname(path));
  }

  /** Removes superseded versions, oldest first: the sleeping-writer rule rests on that order. */
  async #removeOld(directory: string, versions: readonly number[], written: number): Promise<void> {
    for (const version of versions) {
      if (version > written - versionsKept) return;
      await removeIfThere(join(directory, String(version)));
    }
  }

  /** Empties the superseded versions of one key, under their names; answers how many held anything. */
  async #purge(directory: string): Promise<number> {
    try {
      const full: string[] = [];
      for (const version of (await this.#versions(directory)).slice(0, -1)) {
        const path = join(directory, String(version));
        if (await isLonger(path, purgedMark.length)) full.push(path);
      }
      if (full.length === 0) return 0;
      // What has superseded them outlives a power loss from here on, as their being empty does at the end.
      await syncDirectory(directory);
      for (const path of full) await this.#place([purgedMark], (temporary) => rename(temporary, path));
      await syncDirectory(directory);
      return full.length;
    } catch (error) {
      throw error instanceof StoreError ? error : fault("purging", error);
    }
  }

  /** Removes what puts have left behind that a crash interrupted; a put that is under way writes its file again. */
  async #removeTemporaries(): Promise<number> {
    const directory = join(this.#root, temporaryDirectory);
    try {
      const names = await readdir(directory);
      for (const name of names) await removeIfThere(join(directory, name));
      await syncDirectory(directory);
      return names.length;
    } catch (error) {
      throw fault("purging", error);
    }
  }
}
