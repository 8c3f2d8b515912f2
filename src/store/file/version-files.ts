/**
 * The versions of the keys of a file store: how one is added, how those go that it supersedes, how a key goes wholly.
 *
 * Each key is a directory `<key>~` of numbered version files; the highest number is the object. An empty file is a
 * tombstone, every other one is the byte 1 and then the object. (The byte 2 alone is what earlier builds left of a
 * superseded version.) All of it is written whole and synced (`drafts`) before it gets its name:
 * - A replacement link(2)s its file onto the next number. Link fails when the name exists: one of the racing writers
 *   wins.
 * - The first version comes as a directory that holds it: rename(2) fails when the key has a directory that is not
 *   empty. Its number is one that no earlier life of the key had, so that a new object is never taken for an older one.
 * - A delete links a tombstone and then removes the directory, and the folders above it that are empty. No link is made
 *   behind a tombstone: a writer that finds one removes what it ended, and begins with a first version.
 *
 * The sleeping writer has looked, and links when the world has moved on: its number may be free again. Two rules keep
 * it from believing that it has won, and from bringing back what was deleted:
 * - Replacements remove only versions that are `versionsKept` numbers below their own. A writer that finds after its
 *   link that others are as far ahead, or its own name gone, reports the outcome as unknown. It is never read: the
 *   highest wins.
 * - A process that removes any other name first links or finds what supersedes it, and then takes away the temporaries
 *   of that key. A writer makes its temporary before it looks. If it looked before the superseding version was linked,
 *   its temporary was there to be taken, its link fails, and it looks again; if it looked later, it has seen that
 *   version, and links behind it, or not at all when it is a tombstone. So no link is left to come when a name is free
 *   again, nor when the directory is empty and another one may take its place. This needs no clock, and holds across
 *   processes.
 *
 * Power: a version's temporary is unlinked only after the entries above the version were synced. A version that has two
 * names is therefore not known to be durable, whatever wrote it and however that ended; a reader syncs the entries
 * first. So nothing that was answered, to a put or to a get, is lost. What supersedes is on disk before what it
 * supersedes goes.
 *
 * All of this takes a file system that shows all processes the same at once: a local one, or one whose clients cache no
 * names.
 */
import { dirname, join } from "node:path";
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { Drafts, namesIn, removeIfThere, type Temporary } from "./drafts.ts";
import { DurableFolders } from "./durable-folders.ts";
import { allDone, doubt, fault, isCertain, isMissing, isTaken } from "./file-faults.ts";
import { writeDraft, type FileFacts, type FileSystem } from "./file-system.ts";
import type { PutOutcome } from "../port/object-store.ts";

/** Superseded versions that stay, so that a reader who has just listed still finds what it saw. */
const versionsKept = 16;
/** A temporary this old was left behind by a process that died; if its writer only sleeps, it begins anew. */
const abandonedMs = 3_600_000;
const dataMark = Buffer.from([1]);
const purgedMark = Buffer.from([2]);
const versionPattern = /^[1-9][0-9]{0,15}$/;

/** A key, and where its versions are. */
export interface Place {
  readonly key: string;
  readonly directory: string;
}

/**
 * The outcome of one try to add a version; `again` when others have removed what it needs, so that another look must
 * decide.
 */
type Try = PutOutcome | { readonly kind: "again" };

/** Whether a version may be added behind those that are there; `again` when that cannot be told any more. */
type Decision = (versions: readonly number[]) => Promise<boolean | "again">;

/** What there is of a key: its versions in ascending order, and whether they belong to an object. */
interface Survey {
  readonly versions: readonly number[];
  readonly isDead: boolean;
}

/** What is in a version file. */
export type VersionContent = "gone" | "tombstone" | "purged" | { readonly bytes: Buffer; readonly facts: FileFacts };

/** Whether a file of this name is a version. */
export function isVersionName(name: string): boolean {
  return versionPattern.test(name);
}

/** What the file of a version holds. */
export function readVersionContent(file: Buffer): "tombstone" | "purged" | Buffer {
  if (file.length === 0) return "tombstone";
  return file[0] === purgedMark[0] ? "purged" : file.subarray(dataMark.length);
}

/**
 * A number for the first version of a life of a key. The millisecond decides, in which no life ends and another begins,
 * so that later lives have higher numbers; chance makes up for a clock that was put back. Exact in a number until 2109.
 */
function firstVersion(world: World): number {
  const [a, b] = world.randomBytes(2);
  const chance = ((a! & 0x07) << 8) | b!;
  return (Math.floor(world.nowMs()) % 2 ** 42) * 2 ** 11 + chance + 1;
}

export class VersionFiles {
  readonly #root: string;
  readonly #world: World;
  readonly #files: FileSystem;
  readonly #folders: DurableFolders;
  readonly #drafts: Drafts;

  constructor(root: string, world: World, files: FileSystem) {
    this.#root = root;
    this.#world = world;
    this.#files = files;
    this.#folders = new DurableFolders(files, root);
    this.#drafts = new Drafts(root, world, files);
  }

  /** Makes what is not there of the store's own directories. */
  async open(): Promise<void> {
    await this.#folders.makeRoot();
    await this.#drafts.open();
    // What cannot be removed now is removed by another start: it takes room and does nothing else.
    await this.#drafts.removeBefore(this.#world.nowMs() - abandonedMs).catch(() => {});
  }

  /** Version numbers in ascending order; none when there is nothing of the key. */
  async list({ directory }: Place): Promise<number[]> {
    return (await namesIn(this.#files, directory))
      .filter(isVersionName)
      .map(Number)
      .sort((a, b) => a - b);
  }

  /** What the version's file holds; of the newest one, once it is durable. */
  async read(place: Place, version: number): Promise<VersionContent> {
    try {
      const { content, ...facts } = await this.#files.read(join(place.directory, String(version)));
      if (facts.links > 1) await this.#makeDurable(place, facts);
      const found = readVersionContent(content);
      return typeof found === "string" ? found : { bytes: found, facts };
    } catch (error) {
      if (isMissing(error)) return "gone";
      throw error;
    }
  }

  /**
   * The size of the object and the time of its put; "tombstone" for none, "gone" when the version was superseded and
   * removed.
   */
  async look(
    place: Place,
    version: number,
  ): Promise<"gone" | "tombstone" | { readonly bytes: number; readonly modifiedAtMs: number }> {
    try {
      const { bytes, modifiedAtMs } = await this.#files.stat(join(place.directory, String(version)));
      return bytes === 0 ? "tombstone" : { bytes: bytes - dataMark.length, modifiedAtMs };
    } catch (error) {
      if (isMissing(error)) return "gone";
      throw error;
    }
  }

  /** Whether there is no object; `again` when the newest version was superseded after it was listed. */
  async isDead(place: Place, versions: readonly number[]): Promise<boolean | "again"> {
    const newest = versions.at(-1);
    if (newest === undefined) return true;
    const found = await this.look(place, newest);
    return found === "gone" ? "again" : found === "tombstone";
  }

  async survey(place: Place): Promise<Survey> {
    // A process that removes the newest version has superseded it, or removes the whole key: it has made progress.
    for (;;) {
      const versions = await this.list(place);
      const isDead = await this.isDead(place, versions);
      if (isDead !== "again") return { versions, isDead };
    }
  }

  /** One try to store an object behind the versions that are there, if `mayAdd` says so of them. */
  tryPut(place: Place, bytes: Uint8Array, mayAdd: Decision): Promise<Try> {
    return this.#tryAdd(place, [dataMark, bytes], mayAdd);
  }

  /** One try to add a tombstone; whether it is there. */
  async entomb(place: Place): Promise<boolean> {
    try {
      return (
        (await this.#tryAdd(place, [], async (versions) => (await this.isDead(place, versions)) === false)).kind ===
        "stored"
      );
    } catch (error) {
      // Another one has found the tombstone and removed it with all that it ended.
      if (isMissing((error as StoreError).cause)) return true;
      throw error;
    }
  }

  async #tryAdd(place: Place, parts: readonly Uint8Array[], mayAdd: Decision): Promise<Try> {
    // Before the look: a process that removes a name that the look shows takes this away first.
    const temporary = await this.#drafts.begin(place.key);
    let isInDoubt = false;
    try {
      const versions = await this.list(place);
      const decided = await mayAdd(versions);
      if (decided === "again") return { kind: "again" };
      if (!decided) return { kind: "conflict" };
      return await (versions.length === 0
        ? this.#found(place, temporary, parts)
        : this.#append(place, temporary, parts, versions));
    } catch (error) {
      if (isMissing(error)) return { kind: "again" };
      const told = fault("writing", error);
      isInDoubt = told.kind === "unknown_outcome";
      throw told;
    } finally {
      // In doubt the version is to keep its second name.
      await temporary.end(isInDoubt);
    }
  }

  /** Writes the next version of a key that has some. */
  async #append(
    place: Place,
    temporary: Temporary,
    parts: readonly Uint8Array[],
    versions: readonly number[],
  ): Promise<Try> {
    const { path, draft } = temporary;
    const version = versions.at(-1)! + 1;
    // The writer of the second version has synced what the directory lies in. Of the first one's writer that is not
    // known.
    await allDone([
      writeDraft(draft, parts),
      ...(versions.length > 1 ? [] : [this.#folders.sync(dirname(place.directory))]),
    ]);
    try {
      await this.#files.link(path, join(place.directory, String(version)));
    } catch (error) {
      if (isTaken(error)) return { kind: "conflict" };
      throw isCertain(error) ? error : doubt(error);
    }
    return this.#finishPut(place, temporary, version);
  }

  /** After the link: the version may be seen by others, so nothing from here on may be called a failure of the put. */
  async #finishPut(place: Place, temporary: Temporary, version: number): Promise<PutOutcome> {
    try {
      // What is looked for after the link does not wait for the fsync of it; what it supersedes does, to go.
      const [versions] = await Promise.all([this.list(place), this.#files.syncDirectory(place.directory)]);
      if (versions.includes(version) && versions.at(-1)! < version + versionsKept) {
        await Promise.all([this.#removeOld(place, versions, version), temporary.end(false)]);
        return { kind: "stored", version: String(version) };
      }
    } catch (error) {
      throw doubt(error);
    }
    throw new StoreError("unknown_outcome", "file store: others moved far on during this put; read the object back");
  }

  /** Removes superseded versions, oldest first: the sleeping-writer rule depends on that order. */
  async #removeOld(place: Place, versions: readonly number[], written: number): Promise<void> {
    for (const version of versions) {
      if (version > written - versionsKept) return;
      await removeIfThere(this.#files, join(place.directory, String(version)));
    }
  }

  /** Makes the key's directory, with a first version in it. */
  async #found(place: Place, { path, draft }: Temporary, parts: readonly Uint8Array[]): Promise<Try> {
    const made = this.#drafts.newDirectory();
    const version = firstVersion(this.#world);
    let isNamed = false;
    try {
      // Neither needs the other, and two fsyncs at once cost little more than one.
      await allDone([writeDraft(draft, parts), this.#prepare(made, path, version)]);
      isNamed = await this.#nameDirectory(made, place);
    } finally {
      if (!isNamed) await this.#drafts.removeMade(made);
    }
    if (!isNamed) return { kind: "again" };
    try {
      await this.#folders.sync(dirname(place.directory));
      return { kind: "stored", version: String(version) };
    } catch (error) {
      throw doubt(error);
    }
  }

  async #prepare(made: string, file: string, version: number): Promise<void> {
    await this.#files.mkdir(made, this.#root);
    await this.#files.link(file, join(made, String(version)));
    await this.#files.syncDirectory(made);
  }

  /** Gives a directory the key's name; false when there is one that holds something. */
  async #nameDirectory(made: string, place: Place): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      try {
        await this.#files.rename(made, place.directory);
        return true;
      } catch (error) {
        if (isTaken(error)) return false;
        if (!isCertain(error)) throw doubt(error);
        if (!isMissing(error) || tries > 0) throw error;
        await this.#files.mkdir(dirname(place.directory), this.#root);
      }
    }
  }

  /**
   * A put may have been cut short before what it stored was durable: makes it so, for the readers that are told of it.
   */
  async #makeDurable(place: Place, { identity }: FileFacts): Promise<void> {
    await this.#files.syncDirectory(place.directory);
    await this.#folders.sync(dirname(place.directory));
    // Where the mark cannot be taken away, the next reader syncs once more.
    await this.#drafts.unmark(place.key, identity).catch(() => {});
  }

  /**
   * Removes what is left of a key whose newest version is a tombstone, or which has none, and the folders that are
   * empty then.
   */
  async bury(place: Place, versions: readonly number[]): Promise<void> {
    const tombstone = versions.at(-1);
    try {
      if (tombstone !== undefined) {
        await this.#removeOlder(place, versions);
        await removeIfThere(this.#files, join(place.directory, String(tombstone)));
        // What a crash left with two names has lost one of them.
        await this.#drafts.revoke(place.key);
      }
      for (let path = place.directory; path !== this.#root; path = dirname(path)) await this.#files.rmdir(path);
    } catch (error) {
      // Another one was faster, or the name is used again.
      if (!isMissing(error) && !isTaken(error)) throw error;
    }
  }

  /** Removes the superseded versions of one key, or all of a deleted one; answers how many there were. */
  async purge(place: Place): Promise<number> {
    const { versions, isDead } = await this.survey(place);
    if (isDead) {
      await this.bury(place, versions);
      return versions.length;
    }
    if (versions.length === 1) return 0;
    try {
      await this.#removeOlder(place, versions);
    } catch (error) {
      // Deleted meanwhile, by a process that removes all of it.
      if (!isMissing(error)) throw error;
    }
    return versions.length - 1;
  }

  /** Removes what interrupted puts have left, and gives how many there were; a put that is under way begins anew. */
  removeDrafts(): Promise<number> {
    return this.#drafts.removeBefore(Infinity);
  }

  /** Removes every version but the last of `versions`, durably. */
  async #removeOlder(place: Place, versions: readonly number[]): Promise<void> {
    // What has superseded them outlives a power loss from here on, as their being gone does at the end.
    await this.#files.syncDirectory(place.directory);
    await this.#drafts.revoke(place.key);
    for (const version of versions.slice(0, -1))
      await removeIfThere(this.#files, join(place.directory, String(version)));
    if (versions.length > 1) await this.#files.syncDirectory(place.directory);
  }
}
