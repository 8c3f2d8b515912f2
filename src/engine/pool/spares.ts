/**
 * Databases that this thread has made before anybody asks for one, so that a new name need not wait for its database.
 *
 * A spare is a database like all others, but that no name leads to it: its objects are in object storage, its branch is
 * claimed, its file is open and its log is begun. Whoever claims a name takes one and puts its uuid into the claim. So
 * what is promised of a new database is promised of a spare by the same code, and the first write meets an open one.
 *
 * Always true:
 * - a spare is given to one name at most, and its note says so on disk before anybody hears of it
 *   (engine/local/spare-notes)
 * - a process gives only what it has made itself: what an earlier one has left, made in whatever format, is removed
 * - nothing is removed that a name leads to, or that anything was ever written to, or that another node has claimed
 * - they take an eighth of the handles at most
 *
 * Must not know: who claims names, how a database is made.
 */
import { existsSync } from "node:fs";
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import type { Disk } from "../../base/disk.ts";
import type { Cancel, World } from "../../base/world.ts";
import { newUuid, type Databases } from "../../control/databases/databases.ts";
import { mainBranch } from "../../format/core/names.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { catalogKey, databasePrefix, manifestKey } from "../../format/keys/object-keys.ts";
import { decodeManifest } from "../../format/history/manifest.ts";
import { listed } from "../../store/port/listing.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { computeLane, type EngineOptions, type NameOutcome, type Target } from "../api/protocol.ts";
import { prepareLog } from "../opening/prepared-log.ts";
import { branchPath } from "../local/database-files.ts";
import { readFileState } from "../local/file-state.ts";
import { SpareNotes, type SpareNote } from "../local/spare-notes.ts";
import type { Registry } from "./registry.ts";

/** A spare is made when none was asked for, for so long: a node that makes many databases has better things to do. */
const spareCalmMs = 50;
/** After one could not be made. */
const spareRetryMs = 10_000;
/** Making one takes no longer. */
const spareMakeMsMax = 30_000;
/** Of the handles that may be open. */
const handlesPerSpare = 8;
/** What is left is removed for so long when the node ends; the next start does the rest. */
const spareEndMsMax = 5_000;

export interface SparesParts {
  readonly engine: Pick<
    EngineOptions,
    | "lane"
    | "lanes"
    | "databasesDirectory"
    | "nodeId"
    | "coordinated"
    | "shipping"
    | "hotHandlesMax"
    | "spareDatabases"
    | "isRestarted"
    | "gcGraceMs"
  >;
  readonly world: World;
  readonly disk: Disk;
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly databases: Pick<Databases, "isHeldBy">;
  /** Hears how many there are. */
  readonly told: (ready: number) => void;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

/** What is to be removed, and when it is looked at. */
interface Left extends SpareNote {
  readonly dueMs: number;
}

/** How many spares this thread keeps. */
function countKept({ lane, lanes, spareDatabases = 0, hotHandlesMax, coordinated, shipping }: SparesParts["engine"]) {
  // Among several nodes a database is written under a lease, which nobody holds for a name that there is not yet.
  if (coordinated || !shipping) return 0;
  const share = Math.floor(spareDatabases / lanes) + (lane < spareDatabases % lanes ? 1 : 0);
  return Math.min(share, Math.floor(hotHandlesMax / handlesPerSpare));
}

export class Spares {
  readonly #parts: SparesParts;
  readonly #notes: SpareNotes;
  readonly #most: number;
  /** Nobody's, the oldest first. */
  readonly #ready: string[] = [];
  /** Given to a name whose claim is under way. */
  readonly #given = new Set<string>();
  /** By uuid. */
  readonly #left = new Map<string, Left>();
  #cancel: Cancel = () => {};
  #making: Promise<void> | undefined;
  #removing: Promise<void> | undefined;
  #endMs = Infinity;
  #isClosed = false;

  constructor(parts: SparesParts) {
    this.#parts = parts;
    this.#notes = new SpareNotes(parts.engine.databasesDirectory, parts.disk);
    this.#most = countKept(parts.engine);
  }

  /** Removes what an earlier process has left, as far as object storage answers, and begins to make spares. */
  async start(): Promise<void> {
    const { engine, world, notice } = this.#parts;
    const notes = this.#notes.list((uuid, error) =>
      notice(`the note of a spare database stays as it is (${getErrorCode(error)})`, uuid),
    );
    for (const note of notes) {
      // What a lost thread of this process has given, the main thread may be naming: it tells of the outcome.
      if (computeLane(note.uuid, engine.lanes) === engine.lane && !(engine.isRestarted && note.name !== undefined))
        this.#left.set(note.uuid, { ...note, dueMs: world.monotonicMs() });
    }
    this.#plan(spareCalmMs);
    await this.#removeLeft();
  }

  /** Looks again at what is left. Called every second or so. */
  tick(): void {
    void this.#removeLeft();
  }

  /** Gives one to the name; undefined when there is none. */
  async take(name: string): Promise<string | undefined> {
    const { world, notice, told } = this.#parts;
    const uuid = this.#isClosed ? undefined : this.#ready.shift();
    this.#plan(spareCalmMs);
    if (uuid === undefined) return undefined;
    told(this.#ready.length);
    this.#given.add(uuid);
    world.crashPoint("spare-giving");
    try {
      await this.#notes.give(uuid, name);
    } catch (error) {
      notice(`a spare database could not be given away (${getErrorCode(error)})`, uuid);
      this.settle(uuid, "unnamed");
      return undefined;
    }
    world.crashPoint("spare-given");
    return uuid;
  }

  /** What became of the claim that the database was taken for. */
  settle(uuid: string, outcome: NameOutcome): void {
    const { registry, world } = this.#parts;
    this.#given.delete(uuid);
    registry.unkeep(uuid);
    if (outcome === "named") return this.#notes.remove(uuid);
    // In doubt it stays until the next start: the claim may land yet.
    if (outcome === "unnamed") this.#left.set(uuid, { uuid, name: undefined, dueMs: world.monotonicMs() });
    void this.#removeLeft();
  }

  /** Ends what is being made, and removes what is nobody's; what cannot be removed now is, at the next start. */
  async close(): Promise<void> {
    const { world, told } = this.#parts;
    this.#isClosed = true;
    this.#cancel();
    told(0);
    await this.#making;
    this.#endMs = world.monotonicMs() + spareEndMsMax;
    for (const uuid of this.#ready.splice(0)) this.#leave(uuid);
    await this.#removing;
    await this.#removeLeft();
    // Once more, and the notes of what is surely gone go too.
    await this.#removeLeft();
  }

  #plan(pauseMs: number): void {
    this.#cancel();
    if (this.#isClosed || this.#making || this.#ready.length >= this.#most) return;
    this.#cancel = this.#parts.world.after(pauseMs, () => {
      this.#making = this.#make().then((isMade) => {
        this.#making = undefined;
        this.#plan(isMade ? 0 : spareRetryMs);
      });
    });
  }

  /** Whether one was made. */
  async #make(): Promise<boolean> {
    const { engine, world, registry, told, notice } = this.#parts;
    let uuid = newUuid(world);
    while (computeLane(uuid, engine.lanes) !== engine.lane) uuid = newUuid(world);
    const target: Target = { uuid, branch: mainBranch };
    try {
      await this.#notes.add(uuid);
      world.crashPoint("spare-noted");
      registry.keep(uuid);
      const database = await registry.use(target, world.monotonicMs() + spareMakeMsMax);
      await database.claimNext();
      prepareLog(database.opened);
      world.crashPoint("spare-made");
    } catch (error) {
      this.#leave(uuid);
      if (!(error instanceof StoreError || error instanceof ServiceError))
        notice(`a spare database could not be made (${getErrorCode(error)})`, uuid);
      return false;
    }
    this.#ready.push(uuid);
    if (!this.#isClosed) told(this.#ready.length);
    return true;
  }

  /** It is nobody's, and is to go. */
  #leave(uuid: string): void {
    this.#parts.registry.unkeep(uuid);
    this.#left.set(uuid, { uuid, name: undefined, dueMs: this.#parts.world.monotonicMs() });
  }

  /** Looks at everything that is left and due, one look at a time. Never rejects. */
  #removeLeft(): Promise<void> {
    if (this.#removing) return this.#removing;
    const { world } = this.#parts;
    const due = [...this.#left.values()].filter(({ dueMs }) => this.#isClosed || dueMs <= world.monotonicMs());
    if (due.length === 0) return Promise.resolve();
    this.#removing = Promise.all(due.map((left) => this.#look(left))).then(() => void (this.#removing = undefined));
    return this.#removing;
  }

  /**
   * Removes what there is of it. Its note goes after a look that found nothing: what its maker has put last may come
   * late.
   */
  async #look(left: Left): Promise<void> {
    const { uuid } = left;
    const { engine, world, notice } = this.#parts;
    try {
      const isGone = (await this.#isTaken(left)) || !(await this.#remove(uuid));
      if (world.monotonicMs() > this.#endMs) return;
      if (!isGone) return void this.#left.set(uuid, { ...left, dueMs: world.monotonicMs() + engine.gcGraceMs });
      this.#notes.remove(uuid);
      this.#left.delete(uuid);
    } catch (error) {
      this.#left.set(uuid, { ...left, dueMs: world.monotonicMs() + spareRetryMs });
      if (!(error instanceof StoreError || error instanceof ServiceError) || isUnreadable(error))
        notice(`what is left of a spare database could not be removed (${getErrorCode(error)}); trying again`, uuid);
    }
  }

  /** Whether it is a database like all others: a name leads to it, or it was written to, by whomever. */
  async #isTaken({ uuid, name }: Left): Promise<boolean> {
    const { engine, store, registry, databases, notice } = this.#parts;
    if (name !== undefined && (await databases.isHeldBy(name, uuid))) return true;
    const stored = await store.get(manifestKey(uuid, mainBranch));
    const manifest = stored && decodeManifest(stored.bytes);
    const catalog = await registry.catalogs.fresh(uuid);
    const path = branchPath(engine.databasesDirectory, uuid, mainBranch);
    const isWritten =
      (manifest !== undefined && (manifest.txid > 0 || manifest.node !== engine.nodeId)) ||
      (catalog !== undefined && catalog.branches.length > 1) ||
      (existsSync(path) && readFileState(path).state.txid > 0);
    if (isWritten) notice("a database that was made ahead is in use, and stays", uuid);
    return isWritten;
  }

  /**
   * Removes its files, and its objects as those of a deleted database: first the catalog says so, and goes last.
   * Whether there was anything.
   */
  async #remove(uuid: string): Promise<boolean> {
    const { engine, world, store, registry } = this.#parts;
    const hadFiles = existsSync(branchPath(engine.databasesDirectory, uuid, mainBranch));
    await registry.abandon(uuid);
    const catalog = await registry.catalogs.fresh(uuid);
    if (catalog) {
      const deletedAtMs = world.nowMs();
      await registry.catalogs.update(uuid, (now) => (now.deletedAtMs === undefined ? { deletedAtMs } : undefined));
    }
    const keys = new Set([manifestKey(uuid, mainBranch)]);
    for await (const { key } of listed(store, databasePrefix(uuid))) keys.add(key);
    const hadObjects = catalog !== undefined || keys.size > 1;
    keys.delete(catalogKey(uuid));
    for (const key of [...keys, catalogKey(uuid)]) {
      // What is left then is found by its note.
      if (!hadObjects || world.monotonicMs() > this.#endMs) break;
      await store.delete(key);
      world.crashPoint("spare-removed");
    }
    registry.catalogs.forget(uuid);
    return hadFiles || hadObjects;
  }
}
