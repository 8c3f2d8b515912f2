/** What a made-up branch is kept in: a source in memory, ids in order, and a manifest with nothing in it. */
import type { Manifest } from "../../src/format/history/manifest.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import type { PageSource } from "../../src/engine/segments/pool-objects.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { realWorld } from "../../src/base/world.ts";
import { soundDisk } from "./sound-disk.ts";

export const modelUuid = "0198c0de-0000-7000-8000-000000000001";

/** A page source over a fresh store in memory, on a disk that is always in sync. */
export function memorySource(): PageSource {
  return { store: new MemoryStore(realWorld()), uuid: modelUuid, press: inlinePress, disk: soundDisk };
}

/** The source over its store with some of the store's doors replaced. */
export function withStore(source: PageSource, doors: Partial<ObjectStore>): PageSource {
  const { store } = source;
  const own: ObjectStore = {
    get: (key) => store.get(key),
    put: (...put) => store.put(...put),
    delete: (key) => store.delete(key),
    list: (...list) => store.list(...list),
    purgeVersions: (prefix) => store.purgeVersions(prefix),
  };
  return { ...source, store: { ...own, ...doors } };
}

/** Ids in the order in which they are made, the same in every run. */
export class Ulids {
  #made = 0;

  next(): string {
    return `01J${String(++this.#made).padStart(23, "0")}`;
  }
}

/** The first manifest of a branch whose database is empty and not shipped yet. */
export function emptyManifest(branchId: string): Manifest {
  return {
    uuid: modelUuid,
    branchId,
    epoch: 1,
    seq: 1,
    nonce: new Uint8Array(16),
    prevHash: new Uint8Array(32),
    node: "node",
    writerEpochs: [{ epoch: 1, id: new Uint8Array(16).fill(1), firstTxid: 1, lastTxid: 0 }],
    lost: [],
    txid: 0,
    committedAtMs: 0,
    reservedTo: 100,
    pages: 0,
    fromTxid: 0,
    floorTxid: 0,
    refs: [],
    tail: [],
    history: undefined,
    garbageBelowUlid: "",
  };
}
