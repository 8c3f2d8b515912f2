/**
 * A fleet out of a backup into an empty store.
 *
 * Always true: the store says `restoring`, which no node serves from, from before its first object until everything is
 * there and proven. Each manifest goes on from the backup's under a node name that no node has, and skips so many
 * transaction ids that none given after the backup is ever given again: a client that holds one is told that it is
 * lost. Nothing in the backup changes.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { BackupProof } from "../../format/records/backup-manifest.ts";
import { encodeManifest, computeSha256, type Manifest } from "../../format/history/manifest.ts";
import { backupManifestKey } from "../../format/keys/object-keys.ts";
import { requireStoreFormat } from "../../store/store-format.ts";
import { readManifest, removeRotten, replaceManifest, type StandingManifest } from "./backup.ts";
import { proveCopy, type CopyProofParts, type Proven } from "./copy-proof.ts";
import { isEmptyStore, StoreCopy, type LeftOut, type StoreCopyCounts, type StoreCopyParts } from "./store-copy.ts";

export interface RestoreAllParts extends Pick<StoreCopyParts, "from" | "to" | "press" | "notice"> {
  readonly world: World;
  readonly proof: Omit<CopyProofParts, "world">;
}

export interface RestoreAllOrder {
  /** The backup as people name it, without credentials. */
  readonly fromName: string;
  readonly verify: BackupProof;
  /** Whether a backup that does not call itself complete will do. */
  readonly force: boolean;
}

export interface RestoreAllOutcome {
  readonly isComplete: boolean;
  /** When the backup that was restored had been begun; undefined for one that does not say. */
  readonly asOfMs: number | undefined;
  readonly counts: StoreCopyCounts;
  readonly leftOut: readonly LeftOut[];
  readonly proven: Proven;
}

/** The writer in a restored manifest: no node's name, so that no node takes the branch for its own. */
const restorer = "palimpsest-restore";
const nonceBytes = 16;

/** Fills the store. Throws StoreError: "misconfigured" for a backup or a place that must not be used so. */
export async function restoreAll(
  parts: RestoreAllParts,
  { fromName, verify, force }: RestoreAllOrder,
): Promise<RestoreAllOutcome> {
  const { from, to, press, notice, world, proof } = parts;
  await requireStoreFormat(from);
  const backup = (await readManifest(from))?.value;
  if (!backup && !force)
    throw new StoreError(
      "misconfigured",
      "this is no backup that palimpsest has made: a plain copy of a store that was in use may not fit " +
        "together; doctor --deep tells, and --force restores it all the same",
    );
  if (backup && backup.state !== "complete" && !force)
    throw new StoreError(
      "misconfigured",
      "the backup was not completed: complete it, or restore what there is with --force",
    );
  const standing = await begin(parts, fromName);
  const copy = new StoreCopy({ from, to, press, notice, withSigningKey: true, manifestFor: buildSuccessor });
  await copy.run(undefined);
  notice(`copied; proving what is there (--verify ${verify})`);
  const proven = await proveCopy({ ...proof, world }, copy.present, verify);
  const isComplete = proven.faults.length === 0 && (copy.leftOut.length === 0 || force);
  if (isComplete) await end(parts, standing);
  else await removeRotten(to, proven);
  return { isComplete, asOfMs: backup?.startedAtMs, counts: copy.counts, leftOut: copy.leftOut, proven };
}

/** The manifest that follows the backup's: the same state. It is the same bytes however often it is asked for. */
function buildSuccessor(manifest: Manifest, bytes: Uint8Array): Uint8Array {
  const prevHash = computeSha256(bytes);
  return encodeManifest({
    ...manifest,
    seq: manifest.seq + 1,
    prevHash,
    nonce: computeSha256(prevHash).subarray(0, nonceBytes),
    node: restorer,
    reservedTo: Math.max(manifest.reservedTo, manifest.txid) + limits.txidsSkipped,
  });
}

/** Says that the store is being filled. A restore that was begun from the same backup goes on. */
async function begin({ to, world }: RestoreAllParts, fromName: string): Promise<StandingManifest> {
  const standing = await readManifest(to);
  const isOurs = standing?.value.state === "restoring" && standing.value.from === fromName;
  if (standing && !isOurs)
    throw new StoreError("misconfigured", "the store to fill holds a backup, or is being filled from another one");
  if (!standing && !(await isEmptyStore(to)))
    throw new StoreError("misconfigured", "the store to fill is not empty: a fleet is restored into an empty one only");
  return replaceManifest(to, standing, {
    id: world.ulid(),
    state: "restoring",
    from: fromName,
    scope: undefined,
    startedAtMs: world.nowMs(),
    signingKey: false,
  });
}

async function end({ to }: RestoreAllParts, { version }: StandingManifest): Promise<void> {
  const now = await to.get(backupManifestKey);
  if (now?.version !== version) throw new StoreError("unavailable", "another restore into the same store has begun");
  await to.delete(backupManifestKey);
}
