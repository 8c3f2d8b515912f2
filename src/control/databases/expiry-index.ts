/**
 * What is due in databases that need not be open anywhere: `due/<hour>/<uuid>/<branch>`.
 *
 * An entry says that by that hour something of the branch has expired: rows, states that the window has left, or the
 * branch itself. It holds the database's name, by which its policy is found. Always true: an entry may be there twice,
 * too early or for nothing, and costs a look then; what expires in its hour is due at the end of it, so that a look
 * never finds an entry that has nothing to do yet. Must not know: engines, policies, what expires.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import {
  dueKey,
  dueKeysUntil,
  duePrefix,
  dueUuidAt,
  parseDueKey,
  type DuePlace,
} from "../../format/keys/expiry-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { ownedPage, type OwnedShards } from "./owned-pages.ts";

/** Some entries that are due, oldest first. */
export interface DuePage {
  readonly entries: readonly DuePlace[];
  /** Where the next page begins; undefined when nothing more is due. */
  readonly next: string | undefined;
}

/** Makes an entry, unless there is one for the same hour. */
export async function putDue(store: ObjectStore, place: DuePlace, databaseName: string | undefined): Promise<void> {
  try {
    await store.put(dueKey(place), encodeUtf8(databaseName ?? ""), { kind: "absent" });
  } catch (error) {
    // It may be there, and it may be put twice.
    if (!(error instanceof StoreError) || error.kind !== "unknown_outcome") throw error;
    await store.put(dueKey(place), encodeUtf8(databaseName ?? ""), { kind: "absent" });
  }
}

/** Entries whose hour has come, a page at a time; those of some shards only, when they are given. */
export async function listDue(
  store: ObjectStore,
  nowMs: number,
  after: string | undefined,
  shards?: OwnedShards,
): Promise<DuePage> {
  const page = shards
    ? await ownedPage(store, duePrefix, dueUuidAt, shards, after)
    : await store.list(duePrefix, { after, limit: limits.storeListMax });
  const places = page.objects.map(({ key }) => parseDueKey(key));
  const entries = places.filter((place) => place !== undefined && place.atMs <= nowMs) as DuePlace[];
  // Keys come in the order of their hours. Whatever the next page holds, it is not due when it begins in an hour to
  // come.
  const isLast =
    places.some((place) => place !== undefined && place.atMs > nowMs) ||
    (page.next !== undefined && page.next > dueKeysUntil(nowMs));
  return { entries, next: isLast ? undefined : page.next };
}

/** The name of the database that the entry is of; undefined when it was not known. */
export async function readDueName(store: ObjectStore, place: DuePlace): Promise<string | undefined> {
  const stored = await store.get(dueKey(place));
  const name = stored && decodeUtf8(stored.bytes);
  return name !== undefined && isDatabaseName(name) ? name : undefined;
}

/** What was due is done. */
export async function removeDue(store: ObjectStore, place: DuePlace): Promise<void> {
  await store.delete(dueKey(place));
}
