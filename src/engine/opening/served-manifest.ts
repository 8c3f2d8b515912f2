/**
 * The newest manifest of a branch, as this node may serve from it.
 *
 * Always true: a manifest that is older than one this node has seen is asked for again, as it may come from a cache
 * that lags, and then refused, unless an operator accepts it. Must not know: local files.
 */
import { limits } from "../../base/limits.ts";
import { sleep, type World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { manifestKey } from "../../format/keys/object-keys.ts";
import type { DatabaseState } from "../../model/schema.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { ManifestWriter } from "../history/manifest-writer.ts";
import type { SeenManifests } from "../local/seen-manifests.ts";
import { lostManifest, wentBack, type StoreWentBack } from "../api/missing-objects.ts";

/** What a manifest is read with. */
export interface ManifestReadingParts {
  readonly world: World;
  readonly store: ObjectStore;
  readonly nodeId: string;
  /** A manifest of the branch, of this many bytes, has landed. */
  readonly manifestLanded: (bytes: number) => void;
  /** What this node has seen of each branch. */
  readonly places: SeenManifests;
  /** Whether an operator accepts that object storage was put back, and loses what was newer. */
  readonly acceptsRollback: boolean;
}

/** A manifest, and whether it is older than one that this node has seen, which an operator accepts. */
export interface ReadManifest {
  readonly manifest: ManifestWriter;
  readonly isOlder: boolean;
}

/** From now on this node serves from the manifest; what the file has that the manifest covers was shipped. */
export function noteSeen(
  { places }: Pick<ManifestReadingParts, "places">,
  { manifest: { now }, isOlder }: ReadManifest,
  state: DatabaseState,
): void {
  const covered = state.txid <= now.txid ? state : undefined;
  if (isOlder) return places.accept(now, covered);
  places.note(now, covered);
  places.save(now.uuid, now.branchId);
}

/**
 * The newest manifest. One that is older than what was served from may come from a cache that lags, and is asked for
 * again before it is refused, or accepted.
 */
export async function readManifest(parts: ManifestReadingParts, uuid: string, branchId: string): Promise<ReadManifest> {
  const { store, world, nodeId, manifestLanded, places, acceptsRollback } = parts;
  for (let attempt = 1; ; attempt++) {
    const manifest = await ManifestWriter.read({ store, world, nodeId, uuid, branchId, landed: manifestLanded });
    if (!places.isPast(manifest.now)) return { manifest, isOlder: false };
    if (attempt >= limits.pastManifestLooksMax) {
      if (!manifest.exists) throw lostManifest(uuid, branchId);
      if (acceptsRollback) return { manifest, isOlder: true };
      throw olderThanSeen(parts, manifest.now);
    }
    await sleep(world, limits.pastManifestPauseMs);
  }
}

/**
 * Why the manifest is refused: this node has seen a newer one, or its file has more than the manifest's timeline can.
 */
export function olderThanSeen(
  { places }: Pick<ManifestReadingParts, "places">,
  { uuid, branchId, epoch, seq, txid, reservedTo }: Manifest,
  state?: DatabaseState,
): StoreWentBack {
  const newest = places.newest(uuid, branchId);
  const seen = state
    ? `transaction ${state.txid} in the local file, where the manifest has ${txid} and has reserved up to ${reservedTo}`
    : `epoch ${newest?.epoch}, number ${newest?.seq}`;
  return wentBack(uuid, manifestKey(uuid, branchId), `epoch ${epoch}, number ${seq}`, seen);
}
