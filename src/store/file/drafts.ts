/**
 * What a file store has begun and not named yet: temporaries under `.tmp`, unfinished directories under `.new`.
 *
 * Always true: a temporary's name begins with what tells its key, so that those of one key can be taken away from their
 * writers (`revoke`). One that has two names has its link behind it and is not linked again: it stays as the mark of a
 * version that is not known to be durable, until a writer that knows better takes it. Must not know: versions, what is
 * in them.
 */
import { hash } from "node:crypto";
import { join } from "node:path";
import type { World } from "../../base/world.ts";
import { fault, isMissing } from "./file-faults.ts";
import type { Draft, FileFacts, FileSystem } from "./file-system.ts";

const temporaryDirectory = ".tmp";
const newDirectory = ".new";

/** A temporary under way. */
export interface Temporary {
  readonly path: string;
  readonly draft: Draft;
  /** Releases it once, however often it is called; the first call decides whether its file stays. Never rejects. */
  end(keepsFile: boolean): Promise<unknown>;
}

function computePrefix(key: string): string {
  return `${hash("sha256", key, "hex").slice(0, 16)}-`;
}

/** The names in a directory; none when it is not there. */
export async function namesIn(files: FileSystem, directory: string): Promise<string[]> {
  try {
    return await files.readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

export async function removeIfThere(files: FileSystem, path: string): Promise<void> {
  await files.unlink(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}

export class Drafts {
  readonly #temporaries: string;
  readonly #made: string;
  readonly #world: World;
  readonly #files: FileSystem;

  constructor(root: string, world: World, files: FileSystem) {
    this.#temporaries = join(root, temporaryDirectory);
    this.#made = join(root, newDirectory);
    this.#world = world;
    this.#files = files;
  }

  /** Makes the directory that temporaries lie in. */
  async open(): Promise<void> {
    await this.#files.mkdir(this.#temporaries);
  }

  /** Creates a temporary for the key. Throws StoreError. */
  async begin(key: string): Promise<Temporary> {
    const path = join(this.#temporaries, computePrefix(key) + this.#world.ulid());
    try {
      const draft = await this.#files.create(path);
      let ended: Promise<unknown> | undefined;
      // What stays behind when this fails is garbage under a name that is never used again, and is removed at a later
      // start.
      return {
        path,
        draft,
        end: (keepsFile) =>
          (ended ??= Promise.allSettled([draft.close(), ...(keepsFile ? [] : [this.#files.unlink(path)])])),
      };
    } catch (error) {
      throw fault("writing", error);
    }
  }

  /** A path for an unfinished directory. */
  newDirectory(): string {
    return join(this.#made, this.#world.ulid());
  }

  /** Removes a directory that has not got its name. */
  async removeMade(made: string): Promise<void> {
    try {
      // Out of its maker's reach first: it must not get its name when it is empty.
      const removed = this.newDirectory();
      await this.#files.rename(made, removed);
      for (const name of await namesIn(this.#files, removed)) await removeIfThere(this.#files, join(removed, name));
      await this.#files.rmdir(removed);
    } catch {
      // It is removed at a later start; its maker has another fault to report.
    }
  }

  /** Takes away what writers have begun for the key and not linked: they look again. */
  async revoke(key: string): Promise<void> {
    for (const path of await this.#paths(computePrefix(key)))
      if ((await this.#facts(path))?.links === 1) await removeIfThere(this.#files, path);
  }

  /** The key's version of that identity is durable: its mark is removed. */
  async unmark(key: string, identity: string): Promise<void> {
    for (const path of await this.#paths(computePrefix(key)))
      if ((await this.#facts(path))?.identity === identity) await removeIfThere(this.#files, path);
  }

  /**
   * Removes what was begun before the time, for whatever key, and gives how many files there were; a writer that is at
   * work begins anew.
   */
  async removeBefore(beforeMs: number): Promise<number> {
    let removed = 0;
    for (const name of await namesIn(this.#files, this.#made)) {
      const facts = await this.#facts(join(this.#made, name));
      if (facts && facts.modifiedAtMs < beforeMs) await this.removeMade(join(this.#made, name));
    }
    for (const path of await this.#paths("")) {
      const facts = await this.#facts(path);
      if (facts?.links !== 1 || facts.modifiedAtMs >= beforeMs) continue;
      await removeIfThere(this.#files, path);
      removed++;
    }
    await this.#files.syncDirectory(this.#temporaries);
    await this.#files.syncDirectory(this.#made).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    return removed;
  }

  async #paths(prefix: string): Promise<string[]> {
    return (await namesIn(this.#files, this.#temporaries))
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(this.#temporaries, name));
  }

  async #facts(path: string): Promise<FileFacts | undefined> {
    try {
      return await this.#files.stat(path);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
}
