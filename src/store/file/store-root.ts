/**
 * Whether a file store's own directory is still the one that was opened.
 *
 * Why: of a directory that is gone, or of the bare mount point that is left when a file system is unmounted, every look
 * says that there is no such object. If that were believed, databases would not exist, and new ones would be made in
 * their place. So "nothing is there" is believed only while the directory is.
 *
 * Always true: a directory that is the same place, or that holds a store's own mark, is a store; anything else is an
 * outage, which ends when the directory is back. Must not know: keys, versions.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { FileSystem } from "./file-system.ts";

/** What is in every store that a node has opened once: its format's object (store/store-format). */
const mark = "format.json~";

export class StoreRoot {
  readonly #path: string;
  readonly #files: FileSystem;
  #place: string | undefined;

  constructor(path: string, files: FileSystem) {
    this.#path = path;
    this.#files = files;
  }

  /** From now on the directory as it is now is the store's. */
  async open(): Promise<void> {
    this.#place = (await this.#files.stat(this.#path)).place;
  }

  /** Throws StoreError("unavailable") when the directory is not there, or is another one. */
  async require(): Promise<void> {
    if (this.#place === undefined) return;
    const place = await this.#placeNow();
    if (place === this.#place) return;
    // Some file systems number a directory anew.
    if (place === undefined || !(await this.#isMarked())) {
      const reason = "the store's directory is gone, or another one is in its place";
      throw new StoreError("unavailable", `file store: ${reason}`, { reason });
    }
    this.#place = place;
  }

  async #placeNow(): Promise<string | undefined> {
    try {
      return (await this.#files.stat(this.#path)).place;
    } catch {
      return undefined;
    }
  }

  async #isMarked(): Promise<boolean> {
    try {
      return (await this.#files.readdir(this.#path)).includes(mark);
    } catch {
      return false;
    }
  }
}
