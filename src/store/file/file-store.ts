/**
 * Object storage in a local directory, with the same compare-and-set across processes as S3 gives.
 *
 * Owns what the port promises: conditions, deletes, listings, purges. How a version gets its name and loses it, so that
 * neither a race nor a full disk nor a power loss breaks a promise, is `version-files`, which says how the files lie. A
 * deleted key leaves nothing, nor does an empty folder; listings remove what a crash or an earlier build has left.
 */
import { join } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { fault, isMissing } from "./file-faults.ts";
import { readingOnly, realFileSystem, type FileSystem } from "./file-system.ts";
import type {
  KeepingStore,
  ListedObject,
  ListPage,
  ObjectVersion,
  PutCondition,
  PutOutcome,
  StoredObject,
  VersionPurge,
} from "../port/object-store.ts";
import { StoreRoot } from "./store-root.ts";
import { VersionFiles, type Place } from "./version-files.ts";

/** How often a put begins anew because others remove what it has begun: each time they have got on. */
const triesMax = 32;
/**
 * Keys of deleted objects that one listing removes: an earlier build leaves thousands, and the listing waits for this.
 */
const buriedPerListMax = 32;
export const objectSuffix = "~";

/** Keys are ours alone (format/keys/object-keys), but a store checks what becomes a path. */
const keyPattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** A version that another one has superseded. */
export interface OlderVersion extends StoredObject {
  /** When it was put, in Unix milliseconds. */
  readonly modifiedAtMs: number;
}

/** The folder that holds every key with the prefix. */
function getFolder(prefix: string): string {
  return prefix.slice(0, prefix.lastIndexOf("/") + 1);
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Runs it; what the file system throws comes out as a StoreError. */
async function told<Value>(what: string, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    throw fault(what, error);
  }
}

export class FileStore implements KeepingStore {
  readonly #root: string;
  readonly #files: FileSystem;
  readonly #versions: VersionFiles;
  readonly #home: StoreRoot;

  private constructor(root: string, files: FileSystem, versions: VersionFiles, home: StoreRoot) {
    this.#root = root;
    this.#home = home;
    this.#files = files;
    this.#versions = versions;
  }

  /** Opens the directory, creating it when it is not there. */
  static async open(root: string, world: World, files: FileSystem = realFileSystem): Promise<FileStore> {
    const versions = new VersionFiles(root, world, files);
    const home = new StoreRoot(root, files);
    await told("opening", async () => {
      await versions.open();
      await home.open();
    });
    return new FileStore(root, files, versions, home);
  }

  /** The directory as it is, for readers only: nothing is made in it, and nothing removed. */
  static at(root: string, world: World): FileStore {
    const files = readingOnly(realFileSystem);
    return new FileStore(root, files, new VersionFiles(root, world, files), new StoreRoot(root, files));
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  async get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    const place = this.#buildPlace(key);
    return told("reading", async () => {
      // A version that is gone or purged when it is read was superseded after it was listed: look again.
      for (;;) {
        const newest = (await this.#versions.list(place)).at(-1);
        if (newest === undefined) return void (await this.#home.require());
        // The version of a tombstone is no object's.
        if (String(newest) === heldVersion) return "same";
        const content = await this.#versions.read(place, newest);
        if (content === "tombstone") return undefined;
        if (typeof content === "object") return { bytes: content.bytes, version: String(newest) };
      }
    });
  }

  async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const place = this.#buildPlace(key);
    const mayAdd = async (versions: readonly number[]): Promise<boolean | "again"> => {
      if (condition.kind === "version") return versions.length > 0 && condition.version === String(versions.at(-1));
      const isDead = await this.#versions.isDead(place, versions);
      if (isDead !== true || versions.length === 0) return isDead;
      // No link is made behind a tombstone: what it ended goes first.
      await this.#versions.bury(place, versions);
      return "again";
    };
    // What is not there would be made, and a version that is not there would be lost to another.
    await this.#home.require();
    for (let tries = 0; tries < triesMax; tries++) {
      const outcome = await this.#versions.tryPut(place, bytes, mayAdd);
      if (outcome.kind !== "again") return outcome;
    }
    throw new StoreError(
      "unavailable",
      "file store: others have removed again and again what a put had begun; nothing was stored",
    );
  }

  async delete(key: string): Promise<void> {
    const place = this.#buildPlace(key);
    return told("deleting", async () => {
      for (let isDone = false; ;) {
        const { versions, isDead } = await this.#versions.survey(place);
        // Also where there was no object: an earlier delete may not have come to the end.
        if (isDead) return this.#versions.bury(place, versions);
        // What is there was put after the key was deleted.
        if (isDone) return;
        isDone = await this.#versions.entomb(place);
      }
    });
  }

  async list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    const objects: ListedObject[] = [];
    const dead: string[] = [];
    let next: string | undefined;
    await told("listing", async () => {
      await this.#home.require();
      for await (const key of this.#keys(getFolder(prefix), prefix, options.after)) {
        const object = await this.#liveObject(key);
        if (object === undefined) {
          if (dead.length < buriedPerListMax) dead.push(key);
        } else if (objects.length < options.limit) {
          objects.push(object);
        } else {
          next = objects.at(-1)?.key;
          return;
        }
      }
    });
    // Where nothing can be removed now, a later listing does it.
    await Promise.allSettled(dead.map((key) => this.#buryDead(this.#buildPlace(key))));
    return { objects, next };
  }

  purgeVersions(prefix: string): Promise<VersionPurge> {
    return told("purging", async () => {
      let removed = 0;
      for await (const key of this.#keys(getFolder(prefix), prefix, undefined))
        removed += await this.#versions.purge(this.#buildPlace(key));
      return { versioned: true, removed, uploadsAborted: await this.#versions.removeDrafts(), locked: 0 };
    });
  }

  /**
   * What the key's newest version has superseded and is still there, newest first: for tools, when the newest is an
   * object that its reader cannot use. What was purged is not among it, nor what was deleted.
   */
  olderVersions(key: string): Promise<readonly OlderVersion[]> {
    const place = this.#buildPlace(key);
    return told("reading", async () => {
      const { versions, isDead } = await this.#versions.survey(place);
      if (isDead) return [];
      const found: OlderVersion[] = [];
      for (const version of versions.slice(0, -1).reverse()) {
        const content = await this.#versions.read(place, version);
        // What is below a deletion belongs to another life of the key.
        if (content === "tombstone") break;
        if (typeof content === "object")
          found.push({ bytes: content.bytes, version: String(version), modifiedAtMs: content.facts.modifiedAtMs });
      }
      return found;
    });
  }

  /** Keys below `folder` in ascending order, those of deleted objects too. */
  async *#keys(folder: string, prefix: string, after: string | undefined): AsyncGenerator<string> {
    let names: string[];
    try {
      names = await this.#files.readdir(join(this.#root, folder));
    } catch (error) {
      if (isMissing(error)) return;
      throw error;
    }
    // Left by a crash or by an earlier build. A put that has just made it makes it again.
    if (names.length === 0) await this.#files.rmdir(join(this.#root, folder)).catch(() => {});
    const keys = names
      .filter((name) => !name.startsWith("."))
      .map((name) => folder + (name.endsWith(objectSuffix) ? name.slice(0, -objectSuffix.length) : `${name}/`))
      .sort(byBytes);
    for (const key of keys) {
      const isFolder = key.endsWith("/");
      if (!key.startsWith(prefix) && !(isFolder && prefix.startsWith(key))) continue;
      // A folder that lies wholly before the place is not gone through again for every page.
      if (isFolder && after !== undefined && !after.startsWith(key) && byBytes(key, after) < 0) continue;
      if (isFolder) yield* this.#keys(key, prefix, after);
      else if (after === undefined || byBytes(key, after) > 0) yield key;
    }
  }

  async #liveObject(key: string): Promise<ListedObject | undefined> {
    const place = this.#buildPlace(key);
    for (;;) {
      const newest = (await this.#versions.list(place)).at(-1);
      if (newest === undefined) return undefined;
      const found = await this.#versions.look(place, newest);
      if (found === "tombstone") return undefined;
      if (found !== "gone") return { key, ...found };
    }
  }

  async #buryDead(place: Place): Promise<void> {
    const { versions, isDead } = await this.#versions.survey(place);
    if (isDead) await this.#versions.bury(place, versions);
  }

  #buildPlace(key: string): Place {
    if (!keyPattern.test(key)) throw new StoreError("misconfigured", "an object key has a form that no file can have");
    return { key, directory: join(this.#root, key + objectSuffix) };
  }
}
