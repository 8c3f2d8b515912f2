/**
 * Makes open databases: the file, its manifest, its shipper and its actor, tied together.
 *
 * Owns what outlives a handle on this thread, except claims (engine/writer/branch-claims): making, removing and setting
 * aside files, and the permits that all handles share. Must not know: what is open, what is asked of it.
 */
import { existsSync } from "node:fs";
import { getErrorCode, StoreError } from "../../base/faults/errors.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import { VectorCache, type VectorPool } from "../../model/index/vector-index.ts";
import type { Disk } from "../../base/disk.ts";
import { ManifestWriter, Fenced } from "../history/manifest-writer.ts";
import { isWritten, findBranchName } from "../history/catalogs.ts";
import { BranchClaims, type BranchClaimsParts } from "../writer/branch-claims.ts";
import type { Copies } from "../local/copies.ts";
import { Database } from "../database/database.ts";
import type { DatabaseEvents, DatabaseOptions } from "../database/database-options.ts";
import {
  branchesWithLogs,
  branchPath,
  databaseUuids,
  emptyDatabase,
  markUnproven,
  proveBranch,
  quarantineDirectory,
  removeDatabase,
  removeFile,
  removeLeftovers,
} from "../local/database-files.ts";
import type { SeenManifests } from "../local/seen-manifests.ts";
import type { ReadPermits } from "../direct-reads/read-permits.ts";
import { LostObject } from "../api/missing-objects.ts";
import { readClosedState, type Opened } from "../opening/opened-file.ts";
import { BranchOpening, type OpeningParts } from "../opening/branch-opening.ts";
import { computeLane, type EngineOptions, type Target } from "../api/protocol.ts";
import { Quarantine } from "../local/quarantine.ts";
import { Shipper, type ShippingParts } from "../shipping/shipper.ts";
import type { Slices } from "../../sqlite/slices.ts";
import type { SqlWriter } from "../process-calls/sql-write.ts";

export interface DatabaseOpenerParts extends BranchClaimsParts {
  readonly engine: EngineOptions;
  readonly shipping: ShippingParts;
  readonly disk: Disk;
  /** Whether the database, which has no catalog, was deleted. */
  readonly isDeleted: (uuid: string) => Promise<boolean>;
  /** What this node has on its disk. */
  readonly copies: Copies;
  /** What this node has restored of earlier states: copies too. */
  readonly past: { evict(uuid: string, branchId?: string): Promise<void> };
  readonly vectorPool: VectorPool;
  /** What policy says of how long the database keeps its memories. */
  readonly findRetention: (uuid: string) => MemoryRetention | undefined;
  /** How far back the database's states can be restored. */
  readonly pitrMs: (uuid: string) => number;
  /** What runs user SQL that writes, and writes that take long; without one, the thread itself. */
  readonly sql: SqlWriter | undefined;
  readonly slices: Slices | undefined;
  readonly readPermits: ReadPermits | undefined;
  /** Runs the act when it is the turn of the database's tenant. */
  readonly turn: (uuid: string, act: () => void) => void;
  /** How long a standard write of the database may wait until it is shipped. */
  readonly shipIntervalMs: (uuid: string) => number;
}

export class DatabaseOpener {
  readonly #parts: DatabaseOpenerParts;
  /** What this thread has claimed. */
  readonly claims: BranchClaims;
  readonly #empty: Uint8Array;
  readonly #largeSyncs = new Semaphore(1);
  /** What this node has seen of each branch. */
  readonly places: SeenManifests;
  /** What was set aside of this thread's databases. */
  readonly quarantine: Quarantine;

  constructor(parts: DatabaseOpenerParts) {
    this.#parts = parts;
    this.claims = new BranchClaims(parts);
    this.places = parts.places;
    const { databasesDirectory, lane, lanes, scratchDirectory, written } = parts.engine;
    const isOurs = (uuid: string): boolean => computeLane(uuid, lanes) === lane;
    // Before anything is opened: what looks like a leftover is one.
    for (const uuid of databaseUuids(databasesDirectory).filter(isOurs)) removeLeftovers(databasesDirectory, uuid);
    this.quarantine = new Quarantine({
      databasesDirectory,
      disk: parts.disk,
      world: parts.world,
      isOurs,
      changed: (count) => parts.alarms.setAside(count),
    });
    this.#empty = emptyDatabase(scratchDirectory, parts.world, written?.database);
  }

  /**
   * Opens the branch of that name, at the newest manifest there is, at a manifest that the caller has, or else at the
   * one that was claimed here. Throws branch_not_found.
   */
  async open(target: Target, events: DatabaseEvents, at?: ManifestWriter | "newest"): Promise<Database> {
    const { catalogs, alarms, leaseState } = this.#parts;
    const { uuid } = target;
    // Another node may hold the database, and have changed its branches.
    if (leaseState.getLeaseEpoch(uuid) !== undefined && !leaseState.isLive) await catalogs.fresh(uuid);
    const branch = await alarms.watch(uuid, "catalog", () => catalogs.branch(uuid, target.branch));
    return alarms.watch(uuid, branch.id, () => this.#open(uuid, branch, events, at));
  }

  async #open(
    uuid: string,
    branch: CatalogBranch,
    events: DatabaseEvents,
    at: ManifestWriter | "newest" | undefined,
  ): Promise<Database> {
    const { catalogs, engine } = this.#parts;
    const catalog = await catalogs.get(uuid);
    // Branches whose time is over must not stay because the node was started anew meanwhile.
    if (catalog?.branches.some(({ ttlAtMs }) => ttlAtMs !== undefined)) this.#parts.mayCollect(uuid);
    const claimed = at === "newest" ? undefined : this.claims.findManifest(uuid, branch.id);
    const manifest = at instanceof ManifestWriter && at.now.branchId === branch.id ? at : claimed;
    const target = { uuid, branchId: branch.id, held: manifest, isListed: catalog && isWritten(catalog) };
    const found = await this.#parts.copies.making(uuid, (registered) =>
      new BranchOpening(this.#openingParts(uuid, events, registered), target).open(),
    );
    const opened = this.claims.judged(found);
    if (!isWritten(catalog) && opened.manifest.exists) await this.#mendCatalog(uuid, events);
    let database: Database | undefined;
    const shipper = engine.shipping ? this.#shipper(opened, events, () => database!) : undefined;
    try {
      if (opened.logIsLost) await this.claims.shipDifference(opened);
      database = new Database(this.#databaseOptions(branch, opened, events, shipper));
      return database;
    } catch (error) {
      opened.log.close();
      opened.connection.close();
      throw error;
    }
  }

  #openingParts(uuid: string, events: DatabaseEvents, registered: Promise<boolean>): OpeningParts {
    const { catalogs, engine, world, disk, manifestLanded } = this.#parts;
    const { store, press } = this.#parts.source(uuid);
    return {
      world,
      disk,
      store,
      press,
      databasesDirectory: engine.databasesDirectory,
      nodeId: engine.nodeId,
      registered,
      empty: this.#empty,
      notice: events.notice,
      manifestLanded: (bytes) => manifestLanded(uuid, bytes),
      places: this.places,
      quarantine: this.quarantine,
      acceptsRollback: acceptsRollback(engine, uuid),
      hasRemains: () => catalogs.hasRemains(uuid),
    };
  }

  #databaseOptions(
    branch: CatalogBranch,
    opened: Opened,
    events: DatabaseEvents,
    shipper: Shipper | undefined,
  ): DatabaseOptions {
    const { catalogs, engine, world, disk, leaseState, sql, slices, readPermits } = this.#parts;
    const { uuid } = opened;
    return {
      opened,
      world,
      disk,
      vectors: new VectorCache(this.#parts.vectorPool),
      writeQueueDepth: engine.writeQueueDepth,
      permission: {
        shipper,
        leaseState,
        claim: () => this.claims.claim(opened, events.notice),
        unshippedMsMax: engine.unshippedMsMax,
        unshippedBytesMax: engine.unshippedBytesMax,
      },
      branch: branch.name,
      expiresAtMs: branch.ttlAtMs ?? Infinity,
      isDeleted: () => catalogs.isDeleted(uuid, branch.id),
      logCheckpointBytes: engine.logCheckpointBytes,
      largeSyncs: this.#largeSyncs,
      retention: () => this.#parts.findRetention(uuid),
      changesKeptMs: () => this.#parts.pitrMs(uuid),
      sql,
      slices,
      readPermits,
      turn: (act) => this.#parts.turn(uuid, act),
      events,
    };
  }

  /** Proves the log of a handle that failed after a fault of the disk (sqlite/wal/wal). */
  prove(database: Database): Promise<void> {
    return proveBranch(database.path, this.#parts.disk);
  }

  /**
   * Makes the catalog of a database that an older build has left without one; the next claim of a branch tries again.
   */
  async #mendCatalog(uuid: string, { notice }: DatabaseEvents): Promise<void> {
    const { leaseState, engine, catalogs } = this.#parts;
    if (!engine.shipping || leaseState.getLeaseEpoch(uuid) === undefined) return;
    try {
      await catalogs.ensure(uuid);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error instanceof LostObject) this.claims.catalogLost(uuid, error, notice);
      else notice("a database without a catalog could not be given one yet");
    }
  }

  /** What the handle served from is remembered, also by the next process. */
  noteSeen({ opened: { manifest, uuid, branchId } }: Database): void {
    if (!manifest.exists) return;
    this.places.note(manifest.now);
    this.places.save(uuid, branchId);
  }

  /**
   * A handle failed: what was held of its branch is not certain any more, nor is its log unless it was merely fenced.
   */
  forget(database: Database, error: unknown, notice: DatabaseEvents["notice"]): void {
    try {
      if (!(error instanceof Fenced)) markUnproven(database.path);
    } catch (fault) {
      notice(
        `that a log is to be proven could not be noted (${getErrorCode(fault)}): it is, unless this process ` +
          "ends before",
      );
    }
    this.claims.lose(database.opened, error, database.safeTxid);
  }

  /**
   * Names of the database's branches whose logs hold something here. Throws StoreError when their names cannot be told.
   */
  async namesWithLogs(uuid: string): Promise<string[]> {
    const { engine, catalogs, isDeleted } = this.#parts;
    const catalog = await catalogs.fresh(uuid);
    const logs = branchesWithLogs(engine.databasesDirectory, [uuid]);
    if (logs.length === 0 || (catalog ? catalog.deletedAtMs !== undefined : await isDeleted(uuid))) return [];
    return logs.flatMap(({ branchId }) => findBranchName(catalog, uuid, branchId) ?? []);
  }

  /**
   * Removes the closed file of a branch that does not exist any more. If the branch was not deleted, but the catalog
   * was put back to one older than it, the file is set aside.
   */
  async removeBranch(uuid: string, branchId: string, notice: DatabaseEvents["notice"]): Promise<void> {
    const path = branchPath(this.#parts.engine.databasesDirectory, uuid, branchId);
    this.claims.remove(uuid, branchId);
    this.places.forget(uuid, branchId);
    this.#parts.alarms.clear(uuid, branchId);
    if (existsSync(path) && this.#parts.catalogs.wasPutBack(uuid, branchId)) {
      const why = "a catalog was accepted that was put back to one that does not know the branch";
      const where = await this.quarantine.setAside(uuid, branchId, readClosedState(path), undefined, why);
      notice(`the local file of branch ${branchId} was set aside under ${where}: ${why}`);
    }
    removeFile(path);
    await this.#parts.past.evict(uuid, branchId);
  }

  /**
   * Removes this node's copy of the database, with what was set aside. What it has seen of the database in object
   * storage is no copy, and stays.
   */
  async removeCopy(uuid: string): Promise<void> {
    const { engine, disk } = this.#parts;
    this.claims.forget(uuid);
    await this.#parts.past.evict(uuid);
    await removeDatabase(engine.databasesDirectory, uuid, disk);
    await removeDatabase(quarantineDirectory(engine.databasesDirectory), uuid, disk);
    this.quarantine.recount(uuid);
  }

  /** Removes what this node has of a deleted database. */
  async removeDatabase(uuid: string): Promise<void> {
    await this.removeCopy(uuid);
    this.places.forget(uuid);
    this.#parts.alarms.clear(uuid);
  }

  #shipper(opened: Opened, events: DatabaseEvents, database: () => Database): Shipper {
    return new Shipper({
      parts: this.#parts.shipping,
      manifest: opened.manifest,
      source: this.#parts.source(opened.uuid),
      branchId: opened.branchId,
      databasePath: opened.connection.path,
      log: opened.log,
      statePage: opened.statePage,
      intervalMs: () => this.#parts.shipIntervalMs(opened.uuid),
      events: {
        published: () => {
          this.places.note(opened.manifest.now);
          database().shippingMoved();
          this.#parts.moved(opened.manifest);
        },
        stalled: () => database().shippingMoved(),
        rested: () => database().mayRest(),
        failed: (error) => database().failHandle(error),
        notice: events.notice,
      },
    });
  }
}

/** Whether an operator has said that the database's object storage is to be believed, however old. */
export function acceptsRollback({ acceptRollback = [] }: EngineOptions, uuid: string): boolean {
  return acceptRollback.includes("all") || acceptRollback.includes(uuid);
}
