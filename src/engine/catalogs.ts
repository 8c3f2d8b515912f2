/**
 * The catalogs of the databases whose branches this thread has touched: read once, changed by compare-and-set.
 *
 * Always true: a change is made to the newest catalog there is, or not at all; whoever loses a race reads again and
 * decides again. A database that was never written has no catalog and one branch, `main`.
 */
import { ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import type { World } from "../base/world.ts";
import { decodeCatalog, encodeCatalog, type Catalog, type CatalogBranch } from "../format/catalog.ts";
import { mainBranch } from "../format/names.ts";
import { catalogKey, databasePrefix } from "../format/object-keys.ts";
import type { ObjectStore, PutCondition } from "../store/object-store.ts";
import { surePut } from "../store/settled-put.ts";

interface Held {
  readonly catalog: Catalog | undefined;
  readonly condition: PutCondition;
}

const racesMax = 64;
const nonceBytes = 16;

/** What `main` is before anybody has written it; it is as old as its database, which the name's claim knows. */
export const bareMain: CatalogBranch = { name: mainBranch, id: mainBranch, createdAtMs: 0, parent: undefined, ttlAtMs: undefined };

export class Catalogs {
  readonly #store: ObjectStore;
  readonly #world: World;
  readonly #held = new Recent<string, Held>(limits.catalogsHeldMax);

  constructor(store: ObjectStore, world: World) {
    this.#store = store;
    this.#world = world;
  }

  /** The catalog as this thread last knew it, from the store the first time; undefined when there is none. */
  async get(uuid: string): Promise<Catalog | undefined> {
    return (this.#held.get(uuid) ?? (await this.#read(uuid))).catalog;
  }

  /** The catalog as it stands in the store now. */
  async fresh(uuid: string): Promise<Catalog | undefined> {
    return (await this.#read(uuid)).catalog;
  }

  /** The branch of that name if it exists now; throws branch_not_found otherwise, and database_not_found after a deletion. */
  async branch(uuid: string, name: string): Promise<CatalogBranch> {
    const catalog = await this.get(uuid);
    if (catalog?.deletedAtMs !== undefined) throw new ServiceError("database_not_found", "the database was deleted");
    const found = catalog?.branches.find((branch) => branch.name === name) ?? (name === mainBranch ? bareMain : undefined);
    if (found && (found.ttlAtMs ?? Infinity) > this.#world.nowMs()) return found;
    throw new ServiceError("branch_not_found", `branch ${name} does not exist`);
  }

  /** Whether object storage has anything of a database without a catalog. */
  async hasRemains(uuid: string): Promise<boolean> {
    return (await this.#store.list(databasePrefix(uuid), { limit: 1 })).objects.length > 0;
  }

  /** Makes the catalog exist: from now on a missing head is a fault, not a new database. */
  async ensure(uuid: string): Promise<void> {
    if (await this.get(uuid)) return;
    await this.update(uuid, (catalog) => (catalog.seq === 0 ? {} : undefined));
  }

  /** Changes the catalog by what `change` gives for the newest one; undefined changes nothing. `change` may throw a refusal. */
  async update(uuid: string, change: (catalog: Catalog) => Partial<Omit<Catalog, "uuid" | "seq" | "nonce">> | undefined): Promise<Catalog> {
    for (let race = 0; race < racesMax; race++) {
      const held = this.#held.get(uuid) ?? (await this.#read(uuid));
      const before = held.catalog ?? this.#unwritten(uuid);
      const changes = change(before);
      if (!changes) return before;
      const catalog: Catalog = { ...before, ...changes, seq: before.seq + 1, nonce: this.#world.randomBytes(nonceBytes) };
      if (await this.#replace(uuid, catalog, held.condition)) return catalog;
    }
    throw new StoreError("unavailable", "a catalog changed too often to be changed");
  }

  async #replace(uuid: string, catalog: Catalog, condition: PutCondition): Promise<boolean> {
    const bytes = encodeCatalog(catalog);
    // Whatever comes of it, what was held is no longer certain.
    this.#held.delete(uuid);
    this.#world.crashPoint("catalog-put");
    const outcome = await surePut(this.#store, catalogKey(uuid), bytes, condition);
    if (outcome.kind === "landed") this.#hold(uuid, { catalog, condition: { kind: "version", version: outcome.version } });
    return outcome.kind === "landed";
  }

  #unwritten(uuid: string): Catalog {
    const createdAtMs = this.#world.nowMs();
    return { uuid, seq: 0, nonce: new Uint8Array(nonceBytes), createdAtMs, branches: [{ ...bareMain, createdAtMs }], condemned: [], deletedAtMs: undefined };
  }

  async #read(uuid: string): Promise<Held> {
    const held = this.#held.peek(uuid);
    const stored = await this.#store.get(catalogKey(uuid), held?.condition.kind === "version" ? held.condition.version : undefined);
    if (stored === "same") return held!;
    const catalog = stored && decodeCatalog(stored.bytes);
    if (catalog && catalog.uuid !== uuid) throw new StoreError("corrupt", "a catalog stands under another database's name");
    const read: Held = { catalog, condition: stored ? { kind: "version", version: stored.version } : { kind: "absent" } };
    this.#hold(uuid, read);
    return read;
  }

  #hold(uuid: string, held: Held): void {
    // Answers may overtake each other: what is known to be newer stays.
    if ((this.#held.peek(uuid)?.catalog?.seq ?? -1) > (held.catalog?.seq ?? -1)) return;
    this.#held.set(uuid, held);
  }
}
