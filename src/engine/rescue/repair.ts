/**
 * The plan that mends a database in object storage, and its execution.
 *
 * Always true: a plan comes out of what is stored and of nothing else, so that the same store gives the same one again;
 * it names what is lost by it. Only the approved plan is carried out: it is made anew, and must have the same digest.
 * Each object is replaced under the condition that it is still what the plan saw. A deleted database and what a newer
 * build has written are left alone.
 */
import { toHex } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import {
  decodeCatalog,
  encodeCatalog,
  compareBranchNames,
  type Catalog,
  type CatalogBranch,
} from "../../format/history/catalog.ts";
import { decodeNameClaim, encodeNameClaim } from "../../format/records/name-claim.ts";
import { mainBranch } from "../../format/core/names.ts";
import { ulidTimeMs } from "../../format/core/ids.ts";
import {
  catalogKey,
  parseNameClaimKey,
  manifestKey,
  nameClaimKey,
  nameClaimPrefix,
  purgeKey,
} from "../../format/keys/object-keys.ts";
import { computeSha256 } from "../../format/core/seal.ts";
import { listed } from "../../store/port/listing.ts";
import { listOlderVersions, type ObjectStore, type PutCondition } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { requireStoreFormat } from "../../store/store-format.ts";
import { proposeManifest } from "./manifest-repair.ts";
import { takeInventory, lookAt, type BranchInventory, type DatabaseInventory, type Looked } from "./inventory.ts";
import { checkNewest } from "../segments/newest-state.ts";
import { indexPool } from "./pool-index.ts";
import type { ProposedManifest } from "./proposed-manifest.ts";
import type { StatePlace } from "../segments/restored-state.ts";

const catalogsSkipped = 2 ** 32;

/** One object that is put. */
export interface RepairAction {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly condition: PutCondition;
  readonly does: string;
  readonly loses: readonly string[];
}

export interface RepairPlan {
  readonly uuid: string;
  /** In the order in which they are carried out. */
  readonly actions: readonly RepairAction[];
  /** What is wrong and cannot be mended, in words. */
  readonly hopeless: readonly string[];
  /** Names the plan. */
  readonly digest: string;
  /** When the newest object was put, by the store's clock. */
  readonly newestMs: number;
}

export interface RepairParts {
  readonly place: StatePlace;
  readonly world: World;
}

export interface RepairOrder {
  /** Only the branch of this name or id. */
  readonly branch: string | undefined;
  /** The database's name: its claim is put back if it is missing. */
  readonly name: string | undefined;
}

const nonceBytes = 16;
const digestDigits = 16;

/** The plan that repairs the database. Throws StoreError: "misconfigured" for one that must be left alone. */
export async function planRepair({ place }: RepairParts, { branch, name }: RepairOrder): Promise<RepairPlan> {
  const { store, uuid } = place.source;
  await requireStoreFormat(store);
  if (await store.get(purgeKey(uuid)))
    throw new StoreError("misconfigured", "the database was deleted: what is left of it is being removed");
  const inventory = await takeInventory(place.source, true);
  refuseNewer(inventory);
  if (inventory.objects === 0)
    throw new StoreError("misconfigured", "object storage holds nothing of the database: restore it from a backup");
  const actions: RepairAction[] = [];
  const hopeless: string[] = [];
  const standing = inventory.catalog.kind === "sound" ? inventory.catalog.value : await olderCatalog(store, uuid);
  const manifests = await repairManifests(place, inventory, standing, branch, hopeless);
  actions.push(...manifests);
  if (inventory.catalog.kind !== "sound" && branch === undefined)
    actions.push(catalogAction(inventory, standing, manifests));
  if (name !== undefined)
    actions.push(...(await claimAction(store, uuid, name, standing?.createdAtMs ?? createdAtMs(inventory))));
  return { uuid, actions, hopeless, digest: computeDigest(actions), newestMs: inventory.newestMs };
}

function computeDigest(actions: readonly RepairAction[]): string {
  const facts = actions.map(({ key, bytes, condition, loses }) => ({
    key,
    condition,
    loses,
    sha256: toHex(computeSha256(bytes)),
  }));
  return Buffer.from(computeSha256(Buffer.from(JSON.stringify(facts))))
    .toString("hex")
    .slice(0, digestDigits);
}

/** A build that does not understand what it would replace must not replace it. */
function refuseNewer({ catalog, branches }: DatabaseInventory): void {
  const isNewer = (looked: Looked<unknown> | undefined): boolean => looked?.kind === "unreadable" && looked.isNewer;
  if ([catalog, ...branches.flatMap(({ manifest, history }) => [manifest, history])].some(isNewer)) {
    throw new StoreError("misconfigured", "a newer build has written some of the database: repair it with that build");
  }
  if (catalog.kind === "sound" && catalog.value.deletedAtMs !== undefined)
    throw new StoreError("misconfigured", "the database was deleted: what is left of it is being removed");
}

async function repairManifests(
  place: StatePlace,
  inventory: DatabaseInventory,
  catalog: Catalog | undefined,
  only: string | undefined,
  hopeless: string[],
): Promise<RepairAction[]> {
  const wanted = branchesIn(inventory, catalog).filter(
    ({ id, listed: named }) => only === undefined || id === only || named?.name === only,
  );
  if (only !== undefined && wanted.length === 0)
    throw new StoreError("misconfigured", `the database has no branch ${only}`);
  const broken: BranchInventory[] = [];
  for (const branch of wanted) if (!(await isSound(place, inventory, branch))) broken.push(branch);
  if (broken.length === 0) return [];
  const pool = await indexPool(place.source);
  const actions: RepairAction[] = [];
  for (const branch of broken) {
    const label = branch.listed?.name ?? branch.id;
    const proposal = await proposeManifest({ place, pool, catalog }, branch);
    if (typeof proposal === "string") hopeless.push(`branch ${label}: ${proposal}`);
    else actions.push(manifestAction(place.source.uuid, branch, label, proposal));
  }
  return actions;
}

/** Branches that ought to have a manifest: those that the catalog lists, else all that have left anything. */
function branchesIn({ branches, catalog: found }: DatabaseInventory, catalog: Catalog | undefined): BranchInventory[] {
  const named = new Map((catalog?.branches ?? []).map((branch) => [branch.id, branch]));
  const known = branches
    .filter(({ id }) => found.kind !== "sound" || named.has(id))
    .map((branch) => ({ ...branch, listed: named.get(branch.id) }));
  const missing = [...(catalog ? named.keys() : [mainBranch])].filter(
    (id) => !branches.some((branch) => branch.id === id),
  );
  return [
    ...known,
    ...missing.map((id): BranchInventory => ({
      id,
      listed: named.get(id),
      manifest: { kind: "missing" },
      history: undefined,
      gaps: [],
    })),
  ];
}

/** Whether nothing is missing of the branch, its past included. */
async function isSound(
  place: StatePlace,
  { faults }: DatabaseInventory,
  { manifest, history, gaps }: BranchInventory,
): Promise<boolean> {
  if (manifest.kind !== "sound" || gaps.length > 0 || (history && history.kind !== "sound")) return false;
  const refs = [
    ...manifest.value.refs,
    ...(history?.kind === "sound" ? history.value.timelines.flatMap((timeline) => timeline.refs) : []),
  ];
  if (refs.some(({ id }) => faults.has(`seg/${id}`))) return false;
  if (manifest.value.refs.length === 0) return true;
  try {
    await checkNewest(place, manifest.value);
    return true;
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
    return false;
  }
}

function toPutCondition(looked: Looked<unknown>): PutCondition {
  return looked.kind === "missing" ? { kind: "absent" } : { kind: "version", version: looked.version };
}

function manifestAction(
  uuid: string,
  { id, manifest }: BranchInventory,
  label: string,
  { bytes, how, loses }: ProposedManifest,
): RepairAction {
  return {
    key: manifestKey(uuid, id),
    bytes,
    condition: toPutCondition(manifest),
    does: `gives branch ${label} a new manifest: ${how}`,
    loses,
  };
}

/** The newest older version of the catalog that can be read, where the store keeps some. */
async function olderCatalog(store: ObjectStore, uuid: string): Promise<Catalog | undefined> {
  const found: Catalog[] = [];
  for (const { bytes } of await listOlderVersions(store, catalogKey(uuid))) {
    try {
      const catalog = decodeCatalog(bytes);
      if (catalog.uuid === uuid) found.push(catalog);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }
  return found.sort((a, b) => b.seq - a.seq)[0];
}

/**
 * A catalog of the branches that there are: with the names that an older one gave them, else with names that say so.
 */
function catalogAction(
  inventory: DatabaseInventory,
  older: Catalog | undefined,
  mended: readonly RepairAction[],
): RepairAction {
  const { uuid } = inventory;
  const { branches, unnamed } = branchesWithManifests(inventory, older, mended);
  const seq = (older?.seq ?? 0) + catalogsSkipped;
  const nonce = computeSha256(Buffer.from(`${uuid} ${seq} ${branches.map(({ id }) => id).join(" ")}`)).subarray(
    0,
    nonceBytes,
  );
  // Nothing is condemned by a catalog that is new: what is garbage will be found to be again.
  const catalog: Catalog = {
    uuid,
    seq,
    nonce,
    createdAtMs: older?.createdAtMs ?? createdAtMs(inventory),
    branches,
    condemned: [],
    deletedAtMs: undefined,
  };
  const loses = [
    ...(unnamed.length > 0
      ? [
          `the names of ${unnamed.length} branches, which are ` +
            `called ${unnamed.map((id) => recovered(inventory, id).name).join(", ")} from now on; among them ` +
            "may be some that were deleted",
        ]
      : []),
    ...(older
      ? ["branches that were made, and deletions of branches, since the catalog's older version"]
      : ["when branches end by themselves, and what they were forked from"]),
  ];
  const does = older
    ? `puts an older version of the catalog back (number ${older.seq}), with every branch that has a manifest`
    : "makes a catalog of the branches that have a manifest";
  return {
    key: catalogKey(uuid),
    bytes: encodeCatalog(catalog),
    condition: toPutCondition(inventory.catalog),
    does,
    loses,
  };
}

/** The branches that a new catalog can name, `main` among them always, and the ids of those whose names are lost. */
function branchesWithManifests(
  inventory: DatabaseInventory,
  older: Catalog | undefined,
  mended: readonly RepairAction[],
): { readonly branches: readonly CatalogBranch[]; readonly unnamed: readonly string[] } {
  const { uuid } = inventory;
  const present = new Set(inventory.branches.map(({ id }) => id));
  const hasManifest = (id: string): boolean =>
    inventory.branches.some((one) => one.id === id && one.manifest.kind === "sound") ||
    mended.some(({ key }) => key === manifestKey(uuid, id));
  const kept = (older?.branches ?? []).filter(({ id }) => hasManifest(id) || id === mainBranch);
  const unnamed = [...present].filter(
    (id) => id !== mainBranch && hasManifest(id) && !kept.some((branch) => branch.id === id),
  );
  const main = kept.find(({ id }) => id === mainBranch) ?? {
    name: mainBranch,
    id: mainBranch,
    createdAtMs: createdAtMs(inventory),
    parent: undefined,
    ttlAtMs: undefined,
  };
  const others = [...kept.filter(({ id }) => id !== mainBranch), ...unnamed.map((id) => recovered(inventory, id))];
  return { branches: [main, ...others].sort((a, b) => compareBranchNames(a.name, b.name)), unnamed };
}

/**
 * A branch whose name is unknown. What it came from is taken for `main` where it begins, which no erasure overlooks.
 */
function recovered({ branches }: DatabaseInventory, id: string): CatalogBranch {
  const { manifest } = branches.find((branch) => branch.id === id)!;
  const forkTxid = manifest.kind === "sound" ? manifest.value.floorTxid : 0;
  return {
    name: `recovered-${id.toLowerCase()}`,
    id,
    createdAtMs: ulidTimeMs(id),
    parent: { name: mainBranch, id: mainBranch, forkTxid },
    ttlAtMs: undefined,
  };
}

/** As old as its oldest fork that is known, or as its newest state. */
function createdAtMs({ branches }: DatabaseInventory): number {
  const times = branches.flatMap(({ id, manifest }) => [
    ...(id === mainBranch ? [] : [ulidTimeMs(id)]),
    ...(manifest.kind === "sound" ? [manifest.value.committedAtMs] : []),
  ]);
  return times.length === 0 ? 0 : Math.min(...times);
}

/** The claim of a name, if no other database has the name. */
async function claimAction(store: ObjectStore, uuid: string, name: string, bornAtMs: number): Promise<RepairAction[]> {
  const key = nameClaimKey(name);
  const looked = await lookAt(store, key, decodeNameClaim);
  if (looked.kind === "unreadable" && looked.isNewer)
    throw new StoreError("misconfigured", `a newer build has written the claim of ${name}`);
  if (looked.kind === "sound") {
    const { uuid: holder, deletedAtMs } = looked.value;
    if (holder === uuid && deletedAtMs === undefined) return [];
    if (deletedAtMs === undefined)
      throw new StoreError("misconfigured", `the name ${name} leads to database ${holder}`);
    if (holder === uuid) throw new StoreError("misconfigured", `the database ${name} was deleted`);
  }
  const other = await findName(store, uuid);
  if (other !== undefined && other !== name) throw new StoreError("misconfigured", `the database has a name: ${other}`);
  const freedAtMs = looked.kind === "sound" ? looked.value.deletedAtMs : undefined;
  const createdAt = Math.max(bornAtMs, (freedAtMs ?? 0) + 1);
  const bytes = encodeNameClaim({ uuid, createdAtMs: createdAt, deletedAtMs: undefined, freedAtMs });
  return [{ key, bytes, condition: toPutCondition(looked), does: `gives the database the name ${name}`, loses: [] }];
}

/** The name that leads to the database, if any does. */
async function findName(store: ObjectStore, uuid: string): Promise<string | undefined> {
  for await (const { key } of listed(store, nameClaimPrefix)) {
    const name = parseNameClaimKey(key);
    if (name === undefined) continue;
    const looked = await lookAt(store, key, decodeNameClaim);
    if (looked.kind === "sound" && looked.value.uuid === uuid && looked.value.deletedAtMs === undefined) return name;
  }
  return undefined;
}

/** Whether nothing was put for long enough that no writer can be under way. */
export function isQuiet({ newestMs }: RepairPlan, world: World): boolean {
  return world.nowMs() - newestMs >= limits.quietMs;
}

/** Carries the plan out. Throws StoreError: "unavailable" when something has changed since, at which it ends. */
export async function applyRepair(
  store: ObjectStore,
  { actions }: RepairPlan,
  done: (action: RepairAction) => void,
): Promise<void> {
  for (const action of actions) {
    const outcome = await surePut(store, action.key, action.bytes, action.condition);
    if (outcome.kind === "lost")
      throw new StoreError("unavailable", `${action.key} has changed since the plan was made: make another plan`);
    done(action);
  }
}
