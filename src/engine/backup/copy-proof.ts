/**
 * The proof that what was copied into a store is there and can be restored: every reference by name and length, and the
 * newest states of some branches, or of all together with the SHA-256 of every object.
 *
 * Always true: it only reads.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import type { BackupProof } from "../../format/records/backup-manifest.ts";
import { databasePrefix, segmentKey } from "../../format/keys/object-keys.ts";
import { reportDatabase } from "../rescue/database-report.ts";
import { findingKinds, Findings } from "../rescue/findings.ts";
import { takeInventory, type DatabaseInventory } from "../rescue/inventory.ts";
import { checkNewest } from "../segments/newest-state.ts";
import { RottenObject, type PageSource } from "../segments/pool-objects.ts";

/** Branches whose newest state a backup restores when it is not asked for all. */
const backupSampleMax = 8;

export interface CopyProofParts {
  readonly world: World;
  readonly source: (uuid: string) => PageSource;
  readonly scratchDirectory: string;
}

/** What the proof has looked at. */
export interface Proven {
  /** Objects whose SHA-256 was read. */
  readonly read: number;
  /** Newest states that were restored and checked. */
  readonly restored: number;
  /** What is wrong, in words; nothing when all is proven. */
  readonly faults: readonly string[];
  /** Keys of objects that are there and not what was written. Away with them, the next run copies them anew. */
  readonly rotten: readonly string[];
}

/**
 * Looks at the databases, each with the ids of its branches that have a manifest. Throws StoreError when the store does
 * not answer.
 */
export async function proveCopy(
  parts: CopyProofParts,
  present: ReadonlyMap<string, readonly string[]>,
  depth: BackupProof,
): Promise<Proven> {
  const wanted = depth === "restore" ? undefined : sampled(parts.world, present);
  const findings = new Findings();
  const rotten: string[] = [];
  let [read, restored] = [0, 0];
  for (const uuid of present.keys()) {
    const inventory = await takeInventory(parts.source(uuid), depth === "restore");
    read += inventory.proven;
    reportDatabase(findings, inventory, { uuid });
    for (const [key, { kind }] of inventory.faults) if (kind !== "missing") rotten.push(databasePrefix(uuid) + key);
    restored += await restoreBranches(parts, inventory, wanted, findings, rotten);
  }
  return {
    read,
    restored,
    rotten,
    faults: findings.all
      .filter(({ kind }) => findingKinds[kind].severity !== "note")
      .map(({ uuid, branch, what }) => `${uuid}${branch === undefined ? "" : `@${branch}`}: ${what}`),
  };
}

async function restoreBranches(
  parts: CopyProofParts,
  { uuid, branches, faults }: DatabaseInventory,
  wanted: ReadonlySet<string> | undefined,
  findings: Findings,
  rotten: string[],
): Promise<number> {
  let restored = 0;
  for (const { id, manifest } of branches) {
    if (manifest.kind !== "sound" || manifest.value.refs.length === 0 || (wanted && !wanted.has(`${uuid}/${id}`)))
      continue;
    if (manifest.value.refs.some((ref) => faults.has(`seg/${ref.id}`))) continue;
    try {
      await checkNewest({ ...parts, source: parts.source(uuid) }, manifest.value);
      restored++;
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
      if (error instanceof RottenObject) rotten.push(segmentKey(uuid, error.id));
      findings.add("state_unsound", { uuid, branch: id }, error.message);
    }
  }
  return restored;
}

/** Some branches, each as likely as any other. */
function sampled(world: World, present: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const chosen: string[] = [];
  let seen = 0;
  for (const [uuid, branchIds] of present) {
    for (const id of branchIds) {
      seen++;
      const place =
        chosen.length < backupSampleMax
          ? chosen.length
          : Math.floor((Buffer.from(world.randomBytes(4)).readUInt32LE() / 2 ** 32) * seen);
      if (place < backupSampleMax) chosen[place] = `${uuid}/${id}`;
    }
  }
  return new Set(chosen);
}
