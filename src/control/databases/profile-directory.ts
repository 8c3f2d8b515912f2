/**
 * The profiles of a namespace page by page, when they were last written, and what they take in object storage.
 *
 * Always true: nothing is opened and nothing is written; all of it is read from names, manifests and listings of object
 * storage, a bounded number of them for each page. Must not know: engines, tokens, wires.
 */
import { decodeUtf8, encodeUtf8 } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isNamePart, mainBranch, parseProfileDatabaseName, profileDatabaseName } from "../../format/core/names.ts";
import { pageBytes } from "../../format/history/pages.ts";
import { decodeManifest } from "../../format/history/manifest.ts";
import { databasePrefix, manifestKey, nameClaimPrefix, parseNameClaimKey } from "../../format/keys/object-keys.ts";
import { listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import type { DatabaseRecord, Databases } from "./databases.ts";

/** Claims of names, deleted ones among them, that one page reads. */
const claimsReadMax = 2_000;
/** Objects of one database that are counted. */
const objectsCountedMax = 20_000;
const readsAtOnce = 16;

/** A profile that exists. */
interface ProfileRecord {
  readonly profile: string;
  readonly record: DatabaseRecord;
}

/** The newest state of branch `main` that object storage has. */
export interface ProfileActivity {
  readonly lastActiveAtMs: number;
  /** Of the database file. */
  readonly bytes: number;
}

/** What a database takes in object storage. */
export interface StoredBytes {
  readonly objects: number;
  readonly bytes: number;
  /** There are more. */
  readonly isApproximate: boolean;
}

interface ProfilePage {
  readonly profiles: readonly ProfileRecord[];
  readonly nextCursor?: string;
}

/** Which page of a namespace's profiles. */
export interface ProfileQuery {
  readonly namespace: string;
  readonly prefix?: string;
  readonly order?: string;
  readonly cursor?: string;
  readonly limit: number;
}

/** Runs the act for each item, some at a time, and gives the results in order. */
export async function eachOf<Item, Result>(
  items: readonly Item[],
  act: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += readsAtOnce)
    results.push(...(await Promise.all(items.slice(at, at + readsAtOnce).map(act))));
  return results;
}

/** Where a page goes on that ended with this profile. */
export function cursorAfterProfile(profile: string): string {
  return Buffer.from(encodeUtf8(profile)).toString("base64url");
}

function decodeCursor(cursor: string): string {
  const bytes = Buffer.from(cursor, "base64url");
  const profile = decodeUtf8(bytes);
  if (profile === undefined || !isNamePart(profile) || bytes.toString("base64url") !== cursor)
    throw invalid("cursor must be the next_cursor of an earlier page of the namespace");
  return profile;
}

/** Refuses a prefix that no profile can have. */
export function checkProfilePrefix(prefix: string): string {
  if (/^[a-z0-9_-]*$/.test(prefix) && prefix.length <= limits.nameCharsMax) return prefix;
  throw invalid(`prefix must be at most ${limits.nameCharsMax} characters of a-z, 0-9, _ and -`);
}

/** Whether names go up; refuses what is no order. */
export function isAscending(order: string | undefined): boolean {
  if (order !== undefined && order !== "asc" && order !== "desc") throw invalid("order must be asc or desc");
  return order !== "desc";
}

export class ProfileDirectory {
  readonly #store: ObjectStore;
  readonly #databases: Databases;

  constructor(store: ObjectStore, databases: Databases) {
    this.#store = store;
    this.#databases = databases;
  }

  /** A page of the profiles by name. It may be short and yet have a next. */
  async page({ namespace, prefix = "", order, cursor, limit }: ProfileQuery): Promise<ProfilePage> {
    const isUp = isAscending(order);
    const after = cursor === undefined ? undefined : decodeCursor(cursor);
    const names = await this.#names(namespace, checkProfilePrefix(prefix));
    const sorted = isUp ? names.toSorted() : names.toSorted().reverse();
    const rest = sorted.filter((name) => after === undefined || (isUp ? name > after : name < after));
    const profiles: ProfileRecord[] = [];
    let read = 0;
    while (read < rest.length && read < claimsReadMax && profiles.length < limit) {
      const some = rest.slice(read, read + Math.min(readsAtOnce, limit - profiles.length));
      read += some.length;
      const found = await eachOf(some, (profile) => this.#databases.find(profileDatabaseName(namespace, profile)));
      for (const [at, record] of found.entries()) if (record) profiles.push({ profile: some[at]!, record });
    }
    return { profiles, ...(read < rest.length && { nextCursor: cursorAfterProfile(rest[read - 1]!) }) };
  }

  /** Names that were ever claimed, deleted ones among them. */
  async #names(namespace: string, prefix: string): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const { key } of listed(this.#store, `${nameClaimPrefix}${namespace}--${prefix}`)) {
      const parts = parseProfileDatabaseName(parseNameClaimKey(key) ?? "");
      if (parts?.namespace === namespace) names.push(parts.profile);
      if (names.length >= limits.databasesListMax) break;
    }
    return names;
  }

  /** When branch `main` was last written; undefined while object storage has nothing of it. */
  async activity(uuid: string): Promise<ProfileActivity | undefined> {
    const stored = await this.#store.get(manifestKey(uuid, mainBranch));
    if (!stored) return undefined;
    const { committedAtMs, pages } = decodeManifest(stored.bytes);
    return committedAtMs === 0 ? undefined : { lastActiveAtMs: committedAtMs, bytes: pages * pageBytes };
  }

  /** What all branches of the database take, their history and what waits to be collected among it. */
  async storedBytes(uuid: string): Promise<StoredBytes> {
    let objects = 0;
    let bytes = 0;
    for await (const object of listed(this.#store, databasePrefix(uuid))) {
      if (objects === objectsCountedMax) return { objects, bytes, isApproximate: true };
      objects++;
      bytes += object.bytes;
    }
    return { objects, bytes, isApproximate: false };
  }
}
