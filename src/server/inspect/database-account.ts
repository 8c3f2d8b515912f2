/**
 * What is said of a whole database in object storage: its catalog, its branches, and each manifest in a line.
 *
 * Always true: branches that only the catalog or only a manifest tells of are told too, and what cannot be read is told
 * with why. Of a database that is written meanwhile each object is a moment's. Must not know: how an account is
 * written.
 */
import { isWritten } from "../../engine/history/catalogs.ts";
import { lookAt, ownManifest, type Looked } from "../../engine/rescue/inventory.ts";
import { isUuid } from "../../format/core/binary.ts";
import { decodeCatalog, type Catalog } from "../../format/history/catalog.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { decodeNameClaim } from "../../format/records/name-claim.ts";
import { catalogKey, databasePrefix, manifestKey, nameClaimKey } from "../../format/keys/object-keys.ts";
import { listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { plain, size, buildTable, time, type Account } from "./account.ts";

/** Branches of one database that are looked at: a catalog names a thousand, and manifests of deleted ones linger. */
const inspectedBranchesMax = 10_000;

/** A branch as its catalog and its manifest tell of it. */
interface BranchLook {
  readonly id: string;
  readonly name: string | undefined;
  readonly key: string;
  readonly manifest: Looked<Manifest>;
}

export interface DatabaseAccount extends Account {
  readonly uuid: string;
  /** Keys of objects that can be told of one by one. */
  readonly keys: readonly string[];
}

/**
 * The database of that name or identity; undefined when object storage has nothing of it. A name that looks like an
 * identity is taken for the name when it is claimed. Throws StoreError("corrupt") for a claim that cannot be read.
 */
export async function buildDatabaseAccount(store: ObjectStore, named: string): Promise<DatabaseAccount | undefined> {
  const claim = await store.get(nameClaimKey(named));
  const claimed = claim && decodeNameClaim(claim.bytes);
  const uuid = claimed?.uuid ?? (isUuid(named) ? named : undefined);
  if (uuid === undefined) return undefined;
  const catalog = await lookAt(store, catalogKey(uuid), decodeCatalog);
  const branches = await readBranches(store, uuid, catalog);
  if (!claimed && catalog.kind === "missing" && branches.length === 0) return undefined;
  return {
    uuid,
    keys: [
      ...(claimed ? [nameClaimKey(named)] : []),
      ...(catalog.kind === "missing" ? [] : [catalogKey(uuid)]),
      ...branches.filter(({ manifest }) => manifest.kind !== "missing").map(({ key }) => key),
    ],
    fields: {
      database: plain(uuid),
      name: plain(claimed && named),
      claimed_at: time(claimed?.createdAtMs),
      unclaimed_at: time(claimed?.deletedAtMs),
      ...buildCatalogFields(catalog),
      all_branches: plain(branches.length < inspectedBranchesMax),
    },
    tables: { branches: buildBranchTable(branches, catalog) },
    damage: findDamage(catalog, catalogKey(uuid), branches),
  };
}

/** Those of the catalog in its order, then those that only have a manifest, up to the bound. */
async function readBranches(
  store: ObjectStore,
  uuid: string,
  catalog: Looked<Catalog>,
): Promise<readonly BranchLook[]> {
  const names = new Map<string, string | undefined>();
  if (catalog.kind === "sound") for (const { id, name } of catalog.value.branches) names.set(id, name);
  const prefix = `${databasePrefix(uuid)}head/`;
  for await (const { key } of listed(store, prefix)) {
    const id = key.slice(prefix.length);
    if (!names.has(id)) names.set(id, undefined);
    if (names.size >= inspectedBranchesMax) break;
  }
  const looks: BranchLook[] = [];
  for (const [id, name] of names) {
    const key = manifestKey(uuid, id);
    looks.push({ id, name, key, manifest: await lookAt(store, key, (bytes) => ownManifest(bytes, uuid, id)) });
  }
  return looks;
}

function buildCatalogFields(catalog: Looked<Catalog>): Account["fields"] {
  if (catalog.kind !== "sound") return { catalog: plain(catalog.kind) };
  const { seq, createdAtMs, deletedAtMs, condemned } = catalog.value;
  return {
    catalog: plain(catalog.kind),
    catalog_seq: plain(seq),
    created_at: time(createdAtMs),
    deleted_at: time(deletedAtMs),
    condemned: plain(condemned.length),
  };
}

function buildBranchTable(branches: readonly BranchLook[], catalog: Looked<Catalog>): Account["tables"][string] {
  const named = new Map(catalog.kind === "sound" ? catalog.value.branches.map((branch) => [branch.id, branch]) : []);
  const told = branches.map(({ manifest, ...branch }) => ({
    ...branch,
    state: manifest.kind,
    manifest: manifest.kind === "sound" ? manifest.value : undefined,
    listed: named.get(branch.id),
  }));
  return buildTable(told, {
    name: ({ name }) => plain(name),
    txid: ({ manifest }) => plain(manifest?.txid),
    writer_epoch: ({ manifest }) => plain(manifest?.epoch),
    seq: ({ manifest }) => plain(manifest?.seq),
    pages: ({ manifest }) => plain(manifest?.pages),
    references: ({ manifest }) => plain(manifest?.refs.length),
    referred_bytes: ({ manifest }) => size(manifest?.refs.reduce((sum, { bytes }) => sum + bytes, 0)),
    tail: ({ manifest }) => plain(manifest?.tail.length),
    parent: ({ listed: branch }) => plain(branch?.parent?.name),
    fork_txid: ({ listed: branch }) => plain(branch?.parent?.forkTxid),
    committed_at: ({ manifest }) => time(manifest?.committedAtMs),
    ends_at: ({ listed: branch }) => time(branch?.ttlAtMs),
    node: ({ manifest }) => plain(manifest?.node),
    manifest: ({ state }) => plain(state),
    key: ({ key }) => plain(key),
  });
}

/** A database that was begun and not written, or deleted, may be without manifests. */
function findDamage(catalog: Looked<Catalog>, key: string, branches: readonly BranchLook[]): readonly string[] {
  const mayLackManifests =
    catalog.kind === "sound" && (!isWritten(catalog.value) || catalog.value.deletedAtMs !== undefined);
  return [
    ...(catalog.kind === "unreadable" ? [`${key}: ${catalog.why}`] : []),
    ...(catalog.kind === "missing" && branches.length > 0 ? [`${key}: the catalog is missing`] : []),
    ...branches.flatMap(({ key: at, manifest, name }) => {
      if (manifest.kind === "unreadable") return [`${at}: ${manifest.why}`];
      if (manifest.kind === "missing" && !mayLackManifests) return [`${at}: the manifest of branch ${name} is missing`];
      return [];
    }),
  ];
}
