/**
 * This node's copies of databases, as object storage is to know of them.
 *
 * Always true where there are other nodes: a copy is registered before its first file exists, and its record says that
 * it is purged only after the last one is gone. What a process finds on its disk was registered before that process
 * began (`registerCopies`). A node that is alone registers nothing: no other node would have to ask. Must not know:
 * what is in the files, who has a copy purged.
 */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { placeFile, realDisk } from "../../base/disk.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { KeyedMutex } from "../../base/collections/keyed-mutex.ts";
import type { CopyOwner, CopyRecords } from "../../control/databases/copy-records.ts";
import { countFiles, listDatabasesOnDisk } from "./database-files.ts";

export interface CopiesOptions {
  readonly records: CopyRecords;
  readonly owner: CopyOwner;
  /** Whether there are other nodes. */
  readonly coordinated: boolean;
  readonly databasesDirectory: string;
}

export class Copies {
  readonly #options: CopiesOptions;
  /** Registered, though there may be no file yet. */
  readonly #registered = new LruMap<string, true>(limits.copiesRememberedMax);
  /** How many acts that may make files are under way. */
  readonly #making = new Map<string, number>();
  /** For changes of a database's registration. */
  readonly #turns = new KeyedMutex();

  constructor(options: CopiesOptions) {
    this.#options = options;
  }

  /**
   * Runs an act that may make files of the database. `registered` resolves when it may: to whether the copy was not
   * registered yet when the act began, so that it must read the database's objects anew. An erasure counts the copies
   * once history has been cut: a copy that registers later must not be restored from earlier reads.
   */
  async making<Value>(uuid: string, act: (registered: Promise<boolean>) => Promise<Value>): Promise<Value> {
    if (!this.#options.coordinated) return act(Promise.resolve(false));
    this.#making.set(uuid, (this.#making.get(uuid) ?? 0) + 1);
    try {
      const isNew = !this.#isRegistered(uuid);
      const registered = this.#turns.take(uuid, () => this.#register(uuid)).then(() => isNew);
      // A caller that never makes a file never asks.
      registered.catch(() => {});
      return await act(registered);
    } finally {
      const left = this.#making.get(uuid)! - 1;
      if (left > 0) this.#making.set(uuid, left);
      else this.#making.delete(uuid);
    }
  }

  /**
   * Every file that the node had of the database is gone; the value is their number. There may be new ones already,
   * which are another copy.
   */
  purged(uuid: string, filesRemoved: number): Promise<void> {
    const { records, owner, databasesDirectory, coordinated } = this.#options;
    return this.#turns.take(uuid, async () => {
      const isMade = this.#making.has(uuid) || countFiles(databasesDirectory, uuid) > 0;
      const next = isMade && coordinated ? await records.register(uuid, owner) : undefined;
      // From now on, making a file registers first.
      this.#registered.delete(uuid);
      if (next !== undefined) this.#registered.set(uuid, true);
      await records.purged(uuid, owner.node, filesRemoved, next);
    });
  }

  #isRegistered(uuid: string): boolean {
    return this.#registered.has(uuid) || countFiles(this.#options.databasesDirectory, uuid) > 0;
  }

  async #register(uuid: string): Promise<void> {
    if (this.#isRegistered(uuid)) return;
    await this.#options.records.register(uuid, this.#options.owner);
    this.#registered.set(uuid, true);
  }
}

/**
 * Before the first engine thread begins: registers what this disk has from a time when its node was alone. A node that
 * is alone again must call `unregisterCopies` instead. Throws StoreError.
 */
export async function registerCopies({
  records,
  owner,
  databasesDirectory,
}: Omit<CopiesOptions, "coordinated">): Promise<void> {
  const marker = getMarkerPath(databasesDirectory);
  if (existsSync(marker)) return;
  const permits = new Semaphore(limits.copyReadsAtOnceMax);
  // One that was registered by a start that did not come to its end is registered twice, and purged twice.
  await Promise.all(
    listDatabasesOnDisk(databasesDirectory).map((uuid) => permits.run(() => records.register(uuid, owner))),
  );
  await placeFile(realDisk, marker, new Uint8Array());
}

/** The node is alone: from now on its disk may have copies that are not registered. */
export function unregisterCopies(databasesDirectory: string): void {
  rmSync(getMarkerPath(databasesDirectory), { force: true });
}

/** Marks a disk whose copies are all registered. */
function getMarkerPath(databasesDirectory: string): string {
  return join(databasesDirectory, "..", "copies-registered");
}
