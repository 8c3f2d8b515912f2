/**
 * Which nodes may have a copy of a database on their disk, and the orders to purge one.
 *
 * Why: an erasure is complete only when no disk has the data any more, and a node that is down cannot be asked. So
 * every node writes down each copy before its first file exists, and says so when the last one is gone.
 *
 * Always true: no key is written again once it was deleted; a copy that a coupon awaits is taken for gone only when its
 * node has said so, or an operator has said that the node never comes back, which is not the same and is kept apart.
 * Any node may do any of this at the same time as another. Must not know: files, engines, what an erasure is.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import type { World } from "../../base/world.ts";
import { decodeCopyRecord, encodeCopyRecord, isStanding, type CopyRecord } from "../../format/records/copy-record.ts";
import {
  copiesPrefix,
  copyKey,
  copyOrderKey,
  copyOrderPrefix,
  copyPrefix,
  forgottenNodeKey,
  parseCopyKey,
  parseCopyOrderKey,
  type CopyPlace,
} from "../../format/keys/node-keys.ts";
import { erasureMarkerPrefix } from "../../format/keys/object-keys.ts";
import type { ObjectStore, StoredObject } from "../../store/port/object-store.ts";
import { putImmutable, surePut } from "../../store/port/sure-put.ts";

/** A node, as its copies tell. */
export interface CopyOwner {
  /** The node's identity. */
  readonly node: string;
  /** Its name, for people. */
  readonly name: string;
}

/** On which nodes' disks the copies are, for people; undefined for none. */
export function copiesInWords(copies: readonly CopyOwner[]): string | undefined {
  const nodes = new Map(
    copies.map(({ node, name }) => [node, name === node || name === "" ? node : `${name} (${node})`]),
  );
  const [first] = nodes.values();
  return first === undefined
    ? undefined
    : `a copy on node ${first}${nodes.size === 1 ? "" : ` and on ${nodes.size - 1} more`}`;
}

export class CopyRecords {
  readonly #store: ObjectStore;
  readonly #world: World;

  constructor(store: ObjectStore, world: World) {
    this.#store = store;
    this.#world = world;
  }

  /** Writes down that the node may have files of the database from now on, and gives the copy's id. */
  async register(uuid: string, { node, name }: CopyOwner): Promise<string> {
    const record: CopyRecord = {
      uuid,
      node,
      name,
      copy: this.#world.ulid(),
      createdAtMs: this.#world.nowMs(),
      purged: undefined,
    };
    await putImmutable(this.#store, copyKey(record), encodeCopyRecord(record));
    return record.copy;
  }

  /** The copies of the database on all nodes, those that are purged too. Throws StoreError. */
  async list(uuid: string): Promise<CopyRecord[]> {
    const found: CopyRecord[] = [];
    for await (const places of this.#places(copiesPrefix(uuid))) {
      if (found.length + places.length > limits.copiesMax) {
        throw new StoreError(
          "misconfigured",
          `a database has more than ${limits.copiesMax} copies on record, the most that can be looked through: ` +
            `remove those of nodes that are gone below ${copiesPrefix(uuid)}; receipts name such nodes as unattested`,
        );
      }
      for (const read of await this.#atOnce(places, (place) => this.#read(place))) if (read) found.push(read.record);
    }
    return found;
  }

  /** The node has removed every file of the database, whatever copies it had, but for the one of this id. */
  async purged(uuid: string, node: string, filesRemoved: number, except: string | undefined): Promise<void> {
    for await (const places of this.#places(copiesPrefix(uuid, node))) {
      const mark = { purged: { atMs: this.#world.nowMs(), filesRemoved } };
      await this.#atOnce(
        places.filter(({ copy }) => copy !== except),
        (place) => this.#mark(place, mark),
      );
    }
  }

  /** Records that an existing copy is gone; false when that was recorded before. */
  async #mark(
    place: CopyPlace,
    mark: Pick<CopyRecord, "purged"> | Pick<CopyRecord, "forgottenAtMs">,
  ): Promise<boolean> {
    const read = await this.#read(place);
    if (!read || !isStanding(read.record)) return false;
    // A race is lost to another node that has said either: both will do.
    return (
      (
        await surePut(this.#store, copyKey(place), encodeCopyRecord({ ...read.record, ...mark }), {
          kind: "version",
          version: read.stored.version,
        })
      ).kind === "landed"
    );
  }

  /**
   * Removes what nodes have said of purged copies, once no erasure of the database is unfinished. One that begins later
   * takes none of these for a copy, so that none is missed.
   */
  async clear(uuid: string): Promise<void> {
    await this.#clear(uuid, ({ purged }) => purged !== undefined);
  }

  /**
   * As clear, for a database that is deleted: what is known of nodes that never come back goes too. Gives the obstacle
   * in words; undefined when all is gone.
   */
  async end(uuid: string): Promise<string | undefined> {
    return this.#clear(uuid, (record) => !isStanding(record));
  }

  async #clear(uuid: string, isOver: (record: CopyRecord) => boolean): Promise<string | undefined> {
    const records = await this.list(uuid);
    const { objects } = await this.#store.list(erasureMarkerPrefix(uuid), { limit: 1 });
    if (objects.length > 0) return "an erasure that is not completed";
    await this.#atOnce(records.filter(isOver), (record) => this.#store.delete(copyKey(record)));
    return copiesInWords(records.filter((record) => !isOver(record)));
  }

  /** Has the copy's node purge it when it looks next, or starts again. */
  async order(place: CopyPlace): Promise<void> {
    // The bytes do not matter: the first to put them has ordered the same.
    await surePut(this.#store, copyOrderKey(place), encodeUtf8(place.copy), { kind: "absent" });
  }

  /** The copies that the node is to purge, some at a time. */
  async *orders(node: string): AsyncGenerator<CopyPlace, void> {
    for await (const keys of this.#keys(copyOrderPrefix(node)))
      for (const key of keys) {
        const place = parseCopyOrderKey(key);
        if (place) yield place;
      }
  }

  /** The order is carried out. */
  async fulfilled(place: CopyPlace): Promise<void> {
    await this.#store.delete(copyOrderKey(place));
  }

  /** Whether an operator has said that the node never comes back. */
  async isForgotten(node: string): Promise<boolean> {
    return (await this.#store.get(forgottenNodeKey(node))) !== undefined;
  }

  /**
   * The node never comes back, and its disk is destroyed: nothing waits for it any more, and it is not let in again.
   * Gives the number of copies that this ends. May be repeated when it could not be completed.
   */
  async forget(node: string): Promise<number> {
    await surePut(this.#store, forgottenNodeKey(node), encodeUtf8(node), { kind: "absent" });
    let copies = 0;
    for await (const places of this.#places(copyPrefix)) {
      const own = places.filter((place) => place.node === node);
      // What it has said of purged copies stays: that is true whatever became of it.
      const marked = await this.#atOnce(own, (place) => this.#mark(place, { forgottenAtMs: this.#world.nowMs() }));
      copies += marked.filter(Boolean).length;
    }
    for await (const place of this.orders(node)) await this.fulfilled(place);
    return copies;
  }

  async #read(place: CopyPlace): Promise<{ readonly record: CopyRecord; readonly stored: StoredObject } | undefined> {
    const stored = await this.#store.get(copyKey(place));
    if (!stored) return undefined;
    const record = decodeCopyRecord(stored.bytes);
    if (record.uuid !== place.uuid || record.node !== place.node || record.copy !== place.copy)
      throw new StoreError("corrupt", "the record of a node's copy lies under the key of another one");
    return { record, stored };
  }

  async *#places(prefix: string): AsyncGenerator<CopyPlace[], void> {
    for await (const keys of this.#keys(prefix)) yield keys.flatMap((key) => parseCopyKey(key) ?? []);
  }

  async *#keys(prefix: string): AsyncGenerator<string[], void> {
    for (let after: string | undefined; ;) {
      const page = await this.#store.list(prefix, { after, limit: limits.storeListMax });
      yield page.objects.map(({ key }) => key);
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  async #atOnce<Item, Value>(items: readonly Item[], act: (item: Item) => Promise<Value>): Promise<Value[]> {
    const permits = new Semaphore(limits.copyReadsAtOnceMax);
    return Promise.all(items.map((item) => permits.run(() => act(item))));
  }
}
