/**
 * The object-store port: the only truth that outlives a node. Three adapters: file, memory, S3.
 *
 * Always true of an adapter:
 * - a put with a condition is atomic among all clients (one winner of a race)
 * - a get after a put that succeeded sees that put or a later one
 * - an answer that may or may not have been applied is reported as StoreError("unknown_outcome"), never as a failure
 */

/**
 * Opaque, compared for equality only. Differs whenever the bytes do, and may be made of nothing but the bytes (S3's
 * ETag): a writer that must notice that an object was replaced, or which of two puts won, puts a nonce into the bytes.
 */
export type ObjectVersion = string;

export interface StoredObject {
  readonly bytes: Uint8Array;
  readonly version: ObjectVersion;
}

/** What must be true of the key for the put to happen. */
export type PutCondition = { readonly kind: "absent" } | { readonly kind: "version"; readonly version: ObjectVersion };

export type PutOutcome =
  | { readonly kind: "stored"; readonly version: ObjectVersion }
  /** The condition did not hold; nothing was changed. */
  | { readonly kind: "conflict" };

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  /** When the object was last put, in Unix milliseconds of the store's own clock; may be cut to whole seconds. */
  readonly modifiedAtMs: number;
}

export interface ListPage {
  readonly objects: readonly ListedObject[];
  /** Give this back as `after` to go on; undefined at the end. */
  readonly next: string | undefined;
}

/** What a purge of older versions found and did. */
export interface VersionPurge {
  /** Whether the store keeps what was replaced or deleted until it is purged. */
  readonly versioned: boolean;
  /** Older versions and marks of deletions that were removed. */
  readonly removed: number;
  /** Uploads that were begun and never finished, removed. */
  readonly uploadsAborted: number;
  /** Older versions that a retention lock or a legal hold protects: what they hold is still there. */
  readonly locked: number;
}

export interface ObjectStore {
  /** The object, or undefined when there is none. */
  get(key: string): Promise<StoredObject | undefined>;
  /**
   * As above, for a caller that has the object of that version: when it is unchanged, "same" may come instead of it. An
   * adapter may send it all the same.
   */
  get(key: string, heldVersion: ObjectVersion | undefined): Promise<StoredObject | "same" | undefined>;
  /**
   * Stores the bytes if the condition holds. After "unavailable" nothing was stored; only "unknown_outcome" is open.
   */
  put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome>;
  /**
   * Removes the object; an absent one is fine. May be repeated when an answer is lost, and so may remove what was put
   * under the key meanwhile: a key that is deleted for good is never written again.
   */
  delete(key: string): Promise<void>;
  /**
   * Keys under a prefix in ascending bytewise order, at most `limit` of them; a page may be shorter and yet have a
   * next.
   */
  list(prefix: string, options: { readonly after?: string | undefined; readonly limit: number }): Promise<ListPage>;
  /**
   * Removes everything under a prefix that `list` does not show: versions that were replaced or deleted before the
   * call, and uploads that were never finished. Current objects stay as they are, and a deleted one never comes back,
   * whatever interrupts this. Once it has answered with `locked` 0, nothing of those versions is left. May be repeated,
   * and has to be after an error: "unavailable" may have removed some; "misconfigured" names the permission or setting
   * it needs.
   */
  purgeVersions(prefix: string): Promise<VersionPurge>;
}

/** A store that keeps for a while what was replaced or deleted. */
export interface KeepingStore extends ObjectStore {
  /** What is still kept of the object as it was before, newest first, at most `olderVersionsMax` of it. */
  olderVersions(key: string): Promise<readonly StoredObject[]>;
}

/** The same of any store; nothing where nothing is kept. */
export async function listOlderVersions(store: ObjectStore, key: string): Promise<readonly StoredObject[]> {
  return "olderVersions" in store ? (store as KeepingStore).olderVersions(key) : [];
}
