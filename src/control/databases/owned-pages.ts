/**
 * Listings of what lies in some shards only.
 *
 * Always true: what lies in an owned shard is listed, in the order of its key; pages pass over the shards between, so
 * that a listing takes no more requests than it has full pages of its own and owned shards, and no more than a listing
 * of everything. While there is little, one page holds it all. Must not know: who owns which shard, what the objects
 * are.
 */
import { limits } from "../../base/limits.ts";
import { shardAt, computeShard, shardText } from "../../format/core/shards.ts";
import type { ListPage, ObjectStore } from "../../store/port/object-store.ts";

/** The shards that have an owner. */
export interface OwnedShards {
  has(shard: number): boolean;
  /** The first one from there on; undefined when there is none. */
  from(shard: number): number | undefined;
}

/** Whether what has this name is looked after. */
export function owns(shards: OwnedShards, name: string): boolean {
  return shards.has(computeShard(name));
}

/**
 * A page of the objects under the prefix, in whose keys a uuid begins at `uuidAt`, those of owned shards only. What
 * lies between prefix and uuid divides the keys into groups, of which each has all shards. `next` is no object's key.
 */
export async function ownedPage(
  store: ObjectStore,
  prefix: string,
  uuidAt: number,
  shards: OwnedShards,
  after: string | undefined,
): Promise<ListPage> {
  const first = shards.from(0);
  if (first === undefined) return { objects: [], next: undefined };
  const from = after ?? (uuidAt === prefix.length ? prefix + shardText(first) : undefined);
  const page = await store.list(prefix, { after: from, limit: limits.storeListMax });
  const objects = page.objects.filter(({ key }) => {
    const shard = shardAt(key, uuidAt);
    return shard !== undefined && shards.has(shard);
  });
  return { objects, next: page.next && nextOwned(page.next, prefix, uuidAt, shards) };
}

/** Where what is owned goes on behind the last key of a page. */
function nextOwned(last: string, prefix: string, uuidAt: number, shards: OwnedShards): string | undefined {
  const shard = shardAt(last, uuidAt);
  if (shard === undefined) return last;
  const next = shards.from(shard);
  if (next === shard) return last;
  const group = last.slice(0, uuidAt);
  if (next !== undefined) return group + shardText(next);
  // No digit of a uuid comes so late.
  return uuidAt === prefix.length ? undefined : `${group}g`;
}
