/**
 * A store that is only read: what guards a tool that must change nothing against a slip.
 *
 * Always true: nothing that changes an object passes. Must not know: which store is behind it.
 */
import { assert } from "../base/faults/assert.ts";
import {
  listOlderVersions,
  type KeepingStore,
  type ListPage,
  type ObjectStore,
  type ObjectVersion,
  type PutOutcome,
  type StoredObject,
  type VersionPurge,
} from "./port/object-store.ts";

export class ReadOnlyStore implements KeepingStore {
  readonly #store: ObjectStore;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  get(key: string): Promise<StoredObject | undefined>;
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  get(key: string, heldVersion?: ObjectVersion): Promise<StoredObject | "same" | undefined> {
    return this.#store.get(key, heldVersion);
  }

  list(prefix: string, options: { readonly after?: string | undefined; readonly limit: number }): Promise<ListPage> {
    return this.#store.list(prefix, options);
  }

  async olderVersions(key: string): Promise<readonly StoredObject[]> {
    return listOlderVersions(this.#store, key);
  }

  async put(): Promise<PutOutcome> {
    return refused();
  }

  async delete(): Promise<void> {
    refused();
  }

  async purgeVersions(): Promise<VersionPurge> {
    return refused();
  }
}

function refused(): never {
  assert(false, "whoever opens a store to read it changes nothing");
}
