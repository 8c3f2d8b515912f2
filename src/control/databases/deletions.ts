/**
 * Whether a database was deleted, for a reader that finds nothing of it in object storage.
 *
 * Always true: its marker says that it was deleted, and so does the claim of its name, which outlives it; missing
 * objects say nothing, as they may have been lost. Must not know: engines, catalogs.
 */
import { decodeUtf8 } from "../../base/bytes.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import { nameClaimKey, purgeKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";

/**
 * Whether the database was deleted. Its marker stays for as long as a node may have a copy or an erasure is unfinished;
 * one whose name still holds the database, or has no claim at all, belongs to a deletion that did not come to pass.
 */
export async function wasDeleted(store: ObjectStore, uuid: string): Promise<boolean> {
  const marker = await store.get(purgeKey(uuid));
  const name = marker && decodeUtf8(marker.bytes);
  if (name === undefined || !isDatabaseName(name)) return false;
  const stored = await store.get(nameClaimKey(name));
  if (!stored) return false;
  const claim = decodeNameClaim(stored.bytes);
  return claim.uuid !== uuid || claim.deletedAtMs !== undefined;
}
