/**
 * A backup: a copy of a fleet's objects in a store of its own that says when it was made, of what, and whether it is
 * whole.
 *
 * Always true: the other store says `copying` before its first object changes, and `complete` only after everything was
 * copied and proven; a store that holds something and no manifest is never written to. Nothing in the first store
 * changes.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import {
  decodeBackupManifest,
  encodeBackupManifest,
  type BackupManifest,
  type BackupProof,
} from "../../format/records/backup-manifest.ts";
import { backupManifestKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { requireStoreFormat } from "../../store/store-format.ts";
import { proveCopy, type CopyProofParts, type Proven } from "./copy-proof.ts";
import { isEmptyStore, StoreCopy, type LeftOut, type StoreCopyCounts, type StoreCopyParts } from "./store-copy.ts";

export interface BackupParts extends Pick<StoreCopyParts, "from" | "to" | "press" | "notice"> {
  readonly world: World;
  /** How the proof reads the other store. */
  readonly proof: Omit<CopyProofParts, "world">;
}

export interface BackupOrder {
  /** The first store as people name it, without credentials. */
  readonly fromName: string;
  /** Names of databases; undefined for all. */
  readonly scope: readonly string[] | undefined;
  readonly withSigningKey: boolean;
  readonly verify: BackupProof;
  /** Whether databases that do not fit together may be left out of a complete backup. */
  readonly skipDamaged: boolean;
}

/** How it ended: complete, or with the reason why not. */
export interface BackupOutcome {
  readonly isComplete: boolean;
  readonly counts: StoreCopyCounts;
  readonly leftOut: readonly LeftOut[];
  readonly proven: Proven | undefined;
}

/**
 * Makes the backup, or brings it up to date. Throws StoreError: "misconfigured" for a place that no backup may be made
 * in.
 */
export async function makeBackup(parts: BackupParts, order: BackupOrder): Promise<BackupOutcome> {
  const { from, to, press, notice, world, proof } = parts;
  await requireStoreFormat(from);
  await refuseSource(from);
  const manifest = await begin(parts, order);
  const copy = new StoreCopy({
    from,
    to,
    press,
    notice,
    withSigningKey: order.withSigningKey,
    manifestFor: (_, bytes) => bytes,
  });
  await copy.run(order.scope);
  const { counts, leftOut } = copy;
  if (leftOut.length > 0 && !order.skipDamaged) return { isComplete: false, counts, leftOut, proven: undefined };
  notice(`copied; proving what is there (--verify ${order.verify})`);
  const proven = await proveCopy({ ...proof, world }, copy.present, order.verify);
  if (proven.faults.length > 0) {
    await removeRotten(to, proven);
    return { isComplete: false, counts, leftOut, proven };
  }
  const { databases, branches, objects, bytes } = counts;
  const done = { databases, branches, objects, bytes, completedAtMs: world.nowMs(), verified: order.verify };
  await replaceManifest(to, manifest, { ...manifest.value, state: "complete", done });
  return { isComplete: true, counts, leftOut, proven };
}

/** Takes what is not what was written out of a copy, so that the next run copies it anew. */
export async function removeRotten(to: ObjectStore, { rotten }: Proven): Promise<void> {
  for (const key of rotten) await to.delete(key);
}

async function refuseSource(from: ObjectStore): Promise<void> {
  if (await readManifest(from))
    throw new StoreError(
      "misconfigured",
      "what is to be copied is a backup itself, or is being restored: a copy of a backup is made by any tool " +
        "that copies files",
    );
}

/** A manifest and its place. */
export interface StandingManifest {
  readonly value: BackupManifest;
  readonly version: string;
}

export async function readManifest(store: ObjectStore): Promise<StandingManifest | undefined> {
  const stored = await store.get(backupManifestKey);
  return stored && { value: decodeBackupManifest(stored.bytes), version: stored.version };
}

/** Replaces the manifest, or removes it if it is our own. Throws StoreError when another writer has replaced it. */
export async function replaceManifest(
  store: ObjectStore,
  standing: StandingManifest | undefined,
  value: BackupManifest,
): Promise<StandingManifest> {
  const condition = standing
    ? ({ kind: "version", version: standing.version } as const)
    : ({ kind: "absent" } as const);
  const outcome = await surePut(store, backupManifestKey, encodeBackupManifest(value), condition);
  if (outcome.kind === "lost")
    throw new StoreError("unavailable", "another backup or restore into the same place has begun");
  return { value, version: outcome.version };
}

/** Refuses a store that a node must not serve from: what it wrote there, the next backup would take away. */
export async function refuseBackup(store: ObjectStore): Promise<void> {
  const standing = await readManifest(store);
  if (!standing) return;
  const { state, from } = standing.value;
  if (state === "restoring")
    throw new StoreError(
      "misconfigured",
      `the object store is being filled from the backup ${from}, and is not whole: give \`palimpsest restore ` +
        `--all\` again`,
    );
  throw new StoreError(
    "misconfigured",
    `the object store is a backup of ${from}: restore it into an empty store with \`palimpsest restore --all\``,
  );
}

/** Says that the place is being written, once it is certain that it may be. */
async function begin(
  { to, world }: BackupParts,
  { fromName, scope, withSigningKey }: BackupOrder,
): Promise<StandingManifest> {
  const standing = await readManifest(to);
  if (!standing && !(await isEmptyStore(to)))
    throw new StoreError("misconfigured", "the place of the backup holds objects and no backup: give an empty prefix");
  if (standing?.value.state === "restoring")
    throw new StoreError("misconfigured", "the place of the backup is being restored into");
  if (standing && standing.value.from !== fromName)
    throw new StoreError("misconfigured", `the place holds a backup of ${standing.value.from}: give another`);
  if (standing && String(standing.value.scope) !== String(scope))
    throw new StoreError("misconfigured", "the place holds a backup of other databases: give another");
  return replaceManifest(to, standing, {
    id: world.ulid(),
    state: "copying",
    from: fromName,
    scope,
    startedAtMs: world.nowMs(),
    signingKey: withSigningKey,
  });
}
