/**
 * Makes open databases: the file, its head, its shipper and its actor, tied together.
 *
 * Owns what outlives a handle on this thread: the heads that were claimed (so that a branch which was closed for a while
 * is not claimed anew) and, where nothing coordinates nodes, the branches that were lost to another writer (which this
 * node must not take back by itself, or the two would duel for ever). Always true: with coordination a branch is claimed
 * only while the database is held, and from another node only while the lease is certain.
 */
import { codeOf, ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Permits } from "../base/permits.ts";
import { Recent } from "../base/recent.ts";
import { sleep, type World } from "../base/world.ts";
import type { CatalogBranch } from "../format/catalog.ts";
import type { Tenure } from "../format/head.ts";
import type { MemoryRetention } from "../model/retention.ts";
import { VectorCache, type VectorPool } from "../model/vector-index.ts";
import type { Disk } from "../base/disk.ts";
import { BranchHead, Fenced } from "./branch-head.ts";
import { isWritten, nameOfBranch, type Catalogs } from "./catalogs.ts";
import { LostObject } from "./lost.ts";
import type { Copies } from "./copies.ts";
import { Database } from "./database.ts";
import type { DatabaseEvents } from "./database-options.ts";
import { TurnedAway } from "./engine-port.ts";
import type { Alarms } from "./alarms.ts";
import { branchesWithLogs, branchPath, databaseUuids, emptyDatabase, markUnproven, proveBranch, quarantineDirectory, removeDatabase, removeFile, removeLeftovers } from "./files.ts";
import type { HeadPlaces } from "./head-places.ts";
import type { Holdings } from "./holdings.ts";
import { forgetRestored, openBranch, type Opened } from "./opening.ts";
import { overtake } from "./overtaking.ts";
import type { PageSource } from "./pool-objects.ts";
import { laneOf, type EngineOptions, type Target } from "./protocol.ts";
import { Quarantine } from "./quarantine.ts";
import { Shipper, type ShippingParts } from "./shipper.ts";
import type { Slices } from "../sqlite/slices.ts";
import type { SqlWriter } from "./sql-write.ts";
import { recordTenure, shipDifference, takeTenure } from "./tenure.ts";

export interface DockyardParts {
  readonly engine: EngineOptions;
  readonly holdings: Holdings;
  readonly world: World;
  readonly disk: Disk;
  readonly shipping: ShippingParts;
  readonly catalogs: Catalogs;
  readonly places: HeadPlaces;
  readonly alarms: Alarms;
  /** Whether the database, which has no catalog, was deleted. */
  readonly isDeleted: (uuid: string) => Promise<boolean>;
  /** What this node has on its disk. */
  readonly copies: Copies;
  readonly vectorPool: VectorPool;
  /** What policy says of how long the database keeps its memories. */
  readonly retentionOf: (uuid: string) => MemoryRetention | undefined;
  readonly source: (uuid: string) => PageSource;
  /** What runs user SQL that writes, and writes that take long; without one, the thread itself. */
  readonly sql: SqlWriter | undefined;
  readonly slices: Slices | undefined;
  /** Runs the act when it is the turn of the database's tenant. */
  readonly turn: (uuid: string, act: () => void) => void;
  /** A head of the database, of so many bytes, has landed. */
  readonly headLanded: (uuid: string, bytes: number) => void;
  /** Another node's claim of a branch was met where this node's was to stand. */
  readonly fenced: (uuid: string) => void;
  /** How long a standard write of the database may wait until it is shipped. */
  readonly shipIntervalMs: (uuid: string) => number;
  /** The branch was claimed, or groups of it were published: its line may want work. */
  readonly moved: (head: BranchHead) => void;
  /** There may be something to collect: the branch was claimed, and whoever wrote it before may have left objects behind. */
  readonly mayCollect: (uuid: string) => void;
}

export class Dockyard {
  readonly #parts: DockyardParts;
  readonly #empty: Uint8Array;
  readonly #largeSyncs = new Permits(1);
  /** What this node has seen of each branch. */
  readonly places: HeadPlaces;
  /** What was set aside of this thread's databases. */
  readonly quarantine: Quarantine;
  /** Claimed heads of branches, by file. */
  readonly #held = new Recent<string, BranchHead>(limits.headsHeldMax);
  /**
   * Branches that another node has claimed from us. One that is forgotten may be taken back once, which loses nothing:
   * claims fence each other; and two nodes that must each lose so many others in between do not duel.
   */
  readonly #lost = new Recent<string, true>(limits.lostRememberedMax);
  /** How far each branch was answered from a handle that was given up, until its next claim: its file may come back with less. */
  readonly #answered = new Recent<string, number>(limits.answeredRememberedMax, (_, txid) => {
    this.#answeredByForgotten = Math.max(this.#answeredByForgotten, txid);
  });
  /** No branch that `#answered` has forgotten was answered beyond this: whose file has less is taken to lack something. */
  #answeredByForgotten = 0;

  constructor(parts: DockyardParts) {
    this.#parts = parts;
    this.places = parts.places;
    const { databasesDirectory, lane, lanes, scratchDirectory } = parts.engine;
    const isOurs = (uuid: string): boolean => laneOf(uuid, lanes) === lane;
    // Before anything is opened: what looks like a leftover is one.
    for (const uuid of databaseUuids(databasesDirectory).filter(isOurs)) removeLeftovers(databasesDirectory, uuid);
    this.quarantine = new Quarantine({ databasesDirectory, disk: parts.disk, world: parts.world, isOurs, changed: (count) => parts.alarms.setAside(count) });
    this.#empty = emptyDatabase(scratchDirectory, parts.world);
  }

  /**
   * Opens the branch of that name, at the newest head there is, at a head that the caller has, or else at the one that
   * was claimed here. Throws branch_not_found.
   */
  async open(target: Target, events: DatabaseEvents, at?: BranchHead | "newest"): Promise<Database> {
    const { catalogs, alarms, holdings } = this.#parts;
    const { uuid } = target;
    // Another node may hold the database, and have changed its branches.
    if (holdings.termOf(uuid) !== undefined && !holdings.isLive) await catalogs.fresh(uuid);
    const branch = await alarms.watch(uuid, "catalog", () => catalogs.branch(uuid, target.branch));
    return alarms.watch(uuid, branch.id, () => this.#open(uuid, branch, events, at));
  }

  async #open(uuid: string, branch: CatalogBranch, events: DatabaseEvents, at: BranchHead | "newest" | undefined): Promise<Database> {
    const { catalogs, engine, world, disk } = this.#parts;
    const key = `${uuid}/${branch.id}`;
    const source = this.#parts.source(uuid);
    const catalog = await catalogs.get(uuid);
    // Branches whose time is over must not stay because the node was started anew meanwhile.
    if (catalog?.branches.some(({ ttlAtMs }) => ttlAtMs !== undefined)) this.#parts.mayCollect(uuid);
    const opening = {
      world, disk, store: source.store, press: source.press, databasesDirectory: engine.databasesDirectory, nodeId: engine.nodeId, empty: this.#empty, notice: events.notice,
      headLanded: (bytes: number) => this.#parts.headLanded(uuid, bytes), places: this.places, quarantine: this.quarantine, acceptsRollback: acceptsRollback(engine, uuid), hasRemains: () => catalogs.hasRemains(uuid),
    };
    const claimed = at === "newest" ? undefined : this.#held.get(key);
    const head = at instanceof BranchHead && at.now.branchId === branch.id ? at : claimed;
    const found = await this.#parts.copies.making(uuid, (registered) => openBranch({ ...opening, registered }, uuid, branch.id, head, catalog && isWritten(catalog)));
    const opened: Opened = { ...found, knowsAll: found.knowsAll && found.state.txid >= (this.#answered.peek(key) ?? this.#answeredByForgotten) };
    if (!isWritten(catalog) && opened.head.exists) await this.#mendCatalog(uuid, events);
    let database: Database | undefined;
    const shipper = engine.shipping ? this.#shipper(opened, events, () => database!) : undefined;
    try {
      if (opened.logIsLost) await shipDifference(this.#tenureParts(uuid), opened);
      database = new Database({
        opened,
        world,
        disk,
        vectors: new VectorCache(this.#parts.vectorPool),
        writeQueueDepth: engine.writeQueueDepth,
        writership: { shipper, holdings: this.#parts.holdings, claim: () => this.#claim(key, opened, events.notice), unshippedMsMax: engine.unshippedMsMax, unshippedBytesMax: engine.unshippedBytesMax },
        expiresAtMs: branch.ttlAtMs ?? Infinity,
        isDeleted: () => catalogs.isDeleted(uuid, branch.id),
        logCheckpointBytes: engine.logCheckpointBytes,
        largeSyncs: this.#largeSyncs,
        retention: () => this.#parts.retentionOf(uuid),
        sql: this.#parts.sql,
        slices: this.#parts.slices,
        turn: (act) => this.#parts.turn(uuid, act),
        events,
      });
      return database;
    } catch (error) {
      opened.log.close();
      opened.connection.close();
      throw error;
    }
  }

  /** Proves the log of a handle that was given up after a fault of the disk (sqlite/wal). */
  prove(database: Database): Promise<void> {
    return proveBranch(database.path, this.#parts.disk);
  }

  /** Gives a database that an older build has left without a catalog its own; whoever claims a branch tries again. */
  async #mendCatalog(uuid: string, { notice }: DatabaseEvents): Promise<void> {
    const { holdings, engine, catalogs } = this.#parts;
    if (!engine.shipping || holdings.termOf(uuid) === undefined) return;
    try {
      await catalogs.ensure(uuid);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error instanceof LostObject) this.#catalogLost(uuid, error, notice);
      else notice("a database without a catalog could not be given one yet");
    }
  }

  /** What there is of `main` is in its head, which stands: it is served on. */
  #catalogLost(uuid: string, error: LostObject, notice: DatabaseEvents["notice"]): void {
    notice(error.message);
    this.#parts.alarms.note(uuid, "catalog", error);
  }

  /** What the handle served from is remembered, also by the next process. */
  noteSeen({ opened: { head, uuid, branchId } }: Database): void {
    if (!head.exists) return;
    this.places.note(head.now);
    this.places.save(uuid, branchId);
  }

  /** A handle was given up: what was held of its branch is not certain any more, nor is its log unless it was merely fenced. */
  forget(database: Database, error: unknown, notice: DatabaseEvents["notice"]): void {
    const { uuid, branchId, head } = database.opened;
    try {
      if (!(error instanceof Fenced)) markUnproven(database.path);
    } catch (fault) {
      notice(`that a log is to be proven could not be noted (${codeOf(fault)}): it is, unless this process ends before`);
    }
    const key = `${uuid}/${branchId}`;
    this.#held.delete(key);
    if (error instanceof Fenced && head.tenure && !error.isGone && !this.#parts.engine.coordinated) this.#lost.set(key, true);
    if (error instanceof Fenced && error.byOther) this.#parts.fenced(uuid);
    this.#answered.set(key, Math.max(database.safeTxid, this.#answered.peek(key) ?? 0));
  }

  /** Forgets what was claimed of the database, and gives it: whoever opens a branch from now on reads its head anew. */
  forgetHeads(uuid: string): BranchHead[] {
    const keys = [...this.#held.keys()].filter((key) => key.startsWith(`${uuid}/`));
    const heads = keys.map((key) => this.#held.peek(key)!);
    for (const key of keys) this.#held.delete(key);
    return heads;
  }

  /**
   * Gives back the transaction ids that were reserved and never used: whoever claims a branch next, on whatever disk,
   * then knows that nothing is missing. For when nothing is written any more, and only where object storage covers all
   * that was: `isCovered` says of which heads. What is not given back by `untilMs` stays reserved and costs a gap.
   */
  async giveBackIds(isCovered: (head: BranchHead) => boolean, untilMs: number): Promise<void> {
    // With shipping off nothing is covered, whatever a handle says.
    if (!this.#parts.engine.shipping) return;
    await this.giveBack([...this.#held.values()].filter(isCovered), untilMs);
  }

  /** As giveBackIds, for these heads, as far as they were claimed here: nothing is written under them any more, and all that was is covered. */
  async giveBack(covered: readonly BranchHead[], untilMs: number): Promise<void> {
    const { world, shipping } = this.#parts;
    const heads = covered.filter((head) => head.tenure !== undefined && !head.fenced);
    const givings = heads.map((head) =>
      shipping.permits.run(async () => {
        if (world.monotonicMs() < untilMs) await giveBack(head);
      }),
    );
    await Promise.race([Promise.all(givings), sleep(world, Math.max(0, untilMs - world.monotonicMs()))]);
  }

  /** Names of the database's branches whose logs hold something here. Throws StoreError when nobody can tell what they are called. */
  async namesWithLogs(uuid: string): Promise<string[]> {
    const { engine, catalogs, isDeleted } = this.#parts;
    const catalog = await catalogs.fresh(uuid);
    const logs = branchesWithLogs(engine.databasesDirectory, [uuid]);
    if (logs.length === 0 || (catalog ? catalog.deletedAtMs !== undefined : await isDeleted(uuid))) return [];
    return logs.flatMap(({ branchId }) => nameOfBranch(catalog, uuid, branchId) ?? []);
  }

  /** Removes a deleted branch's file, which is closed. */
  removeBranch(uuid: string, branchId: string): void {
    this.#held.delete(`${uuid}/${branchId}`);
    this.places.forget(uuid, branchId);
    this.#parts.alarms.clear(uuid, branchId);
    removeFile(branchPath(this.#parts.engine.databasesDirectory, uuid, branchId));
  }

  /** Removes this node's copy of the database, with what was set aside. What it has seen of it in object storage is no copy, and stays. */
  async removeCopy(uuid: string): Promise<void> {
    const { engine, disk } = this.#parts;
    this.forgetHeads(uuid);
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

  #tenureParts(uuid: string): Parameters<typeof takeTenure>[0] {
    const { catalogs, world, shipping } = this.#parts;
    return { source: this.#parts.source(uuid), catalogs, world, bytesPut: shipping.bytesPut };
  }

  async #claim(key: string, opened: Opened, notice: DatabaseEvents["notice"]): Promise<Tenure> {
    if (this.#lost.get(key)) {
      throw new ServiceError("unavailable", "another node has claimed this branch; this one does not write it again until it is started anew", { retryAfterSecs: 30 });
    }
    const { holdings } = this.#parts;
    const { head, uuid } = opened;
    const term = holdings.termOf(uuid);
    if (term === undefined) throw new TurnedAway("unheld");
    if (head.tenure && this.#held.peek(key) === head) {
      // Restored under a claim that this thread has: what is acknowledged from now on is in the file.
      forgetRestored(opened.connection.path);
      return head.tenure;
    }
    const tenure = head.tenure ?? (await this.#claimAnew(opened, term));
    this.#parts.alarms.clear(uuid, "catalog");
    await recordTenure(this.#tenureParts(uuid), opened, (error) => this.#catalogLost(uuid, error, notice));
    this.places.note(head.now);
    this.places.save(uuid, head.now.branchId);
    this.#answered.delete(key);
    this.#held.set(key, head);
    this.#parts.mayCollect(uuid);
    this.#parts.moved(head);
    return tenure;
  }

  async #claimAnew(opened: Opened, term: number): Promise<Tenure> {
    const { holdings, engine } = this.#parts;
    const { head } = opened;
    // Whoever holds the database meanwhile acknowledges what is on its own disk alone, once it has claimed the branch: it
    // must not lose that to a lease that has run out. What stands under our own name, nobody has claimed since.
    if (!holdings.isLive && head.exists && head.now.node !== engine.nodeId) {
      throw new ServiceError("unavailable", "this node's lease is not certain now, and another node may write this branch; nothing was written", { retryAfterSecs: 1 });
    }
    if (await this.#isDeletedByOther(opened)) throw new Fenced(false);
    return this.#takeTenure(opened, term);
  }

  /** Whether the branch's last writer, another node, has deleted it: its name may be another branch's by now. */
  async #isDeletedByOther({ head, uuid, branchId }: Opened): Promise<boolean> {
    if (!head.exists || head.now.node === this.#parts.engine.nodeId) return false;
    const catalog = await this.#parts.catalogs.fresh(uuid);
    return catalog !== undefined && catalog.branches.every(({ id }) => id !== branchId);
  }

  /** Claims the branch at the head it was opened at. Throws Fenced when that head does not stand any more: the branch is opened anew then. */
  async #takeTenure(opened: Opened, term: number): Promise<Tenure> {
    const { holdings, engine, world } = this.#parts;
    const { uuid, branchId } = opened;
    try {
      return await takeTenure(this.#tenureParts(uuid), opened, term);
    } catch (error) {
      if (!(error instanceof Fenced) || error.byOther || !engine.coordinated) throw error;
      // Its last writer goes on, maybe faster than a file is opened: it is stopped first, and the file opened where it stood.
      const mayStop = (): boolean => holdings.isLive && holdings.termOf(uuid) === term;
      const landed = (bytes: number): void => this.#parts.headLanded(uuid, bytes);
      await overtake({ store: this.#parts.source(uuid).store, world, nodeId: engine.nodeId, uuid, branchId, landed }, mayStop, term);
      throw error;
    }
  }

  #shipper(opened: Opened, events: DatabaseEvents, database: () => Database): Shipper {
    return new Shipper({
      parts: this.#parts.shipping,
      head: opened.head,
      source: this.#parts.source(opened.uuid),
      branchId: opened.branchId,
      databasePath: opened.connection.path,
      log: opened.log,
      statePage: opened.statePage,
      intervalMs: () => this.#parts.shipIntervalMs(opened.uuid),
      events: {
        published: () => {
          this.places.note(opened.head.now);
          database().shippingMoved();
          this.#parts.moved(opened.head);
        },
        stalled: () => database().shippingMoved(),
        failed: (error) => database().giveUp(error),
        notice: events.notice,
      },
    });
  }
}

/** Whether an operator has said that the database's object storage is to be believed, however old. */
export function acceptsRollback({ acceptRollback = [] }: EngineOptions, uuid: string): boolean {
  return acceptRollback.includes("all") || acceptRollback.includes(uuid);
}

async function giveBack(head: BranchHead): Promise<void> {
  try {
    await head.update(({ reservedTo, txid, tenures }) => {
      // What lies before the claim's own first id, a writer before it may have given, whether or not anything was committed since.
      const givenTo = Math.max(txid, (tenures.at(-1)?.firstTxid ?? 1) - 1);
      return reservedTo > givenTo ? { reservedTo: givenTo } : undefined;
    });
  } catch (error) {
    // A store that does not answer, or a branch that is another node's by now: the ids stay reserved.
    if (!(error instanceof StoreError) && !(error instanceof Fenced)) throw error;
  }
}
