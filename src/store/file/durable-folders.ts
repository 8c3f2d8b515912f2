/**
 * Which folders of a file store are known to survive a power loss.
 *
 * A new folder's name is an entry of the folder above it, and so on up to the root: what is in it is safe only when all
 * of them were synced. The maker of a folder may die before it syncs it, and others find it there; so no process relies
 * on another, but each syncs once what it has not synced itself. A folder may be removed when it is empty and be made
 * anew by another process: its identity tells. Must not know: keys, versions.
 */
import { dirname } from "node:path";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { FileSystem } from "./file-system.ts";

/** Folders that are remembered; one that was forgotten is synced once more. */
const rememberedMax = 10_000;

export class DurableFolders {
  readonly #files: FileSystem;
  readonly #root: string;
  /** The identity under which a folder's own entry was synced. */
  readonly #known = new LruMap<string, string>(rememberedMax);

  constructor(files: FileSystem, root: string) {
    this.#files = files;
    this.#root = root;
  }

  /** Makes the root and the folders above it that are new, durably. */
  async makeRoot(): Promise<void> {
    const first = await this.#files.mkdir(this.#root);
    if (first !== undefined)
      for (let path = this.#root; path.length >= first.length; path = dirname(path))
        await this.#files.syncDirectory(dirname(path));
    await this.#files.syncDirectory(this.#root);
  }

  /**
   * Makes the folder's entries, and the folder itself, survive a power loss. Call while something is in it, which keeps
   * it there.
   */
  async sync(folder: string): Promise<void> {
    const seen: [path: string, identity: string][] = [];
    for (let path = folder; ; path = dirname(path)) {
      const identity = await this.#files.syncDirectory(path);
      if (path === this.#root || this.#known.get(path) === identity) break;
      seen.push([path, identity]);
    }
    for (const [path, identity] of seen) this.#known.set(path, identity);
  }
}
