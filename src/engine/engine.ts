/**
 * One engine thread's worth of engine: calls in, answers out, both in batches, whatever carries them.
 *
 * Runs in a worker thread (engine/thread) or inline on the caller's thread in a simulation. Must not know which.
 */
import { join } from "node:path";
import { codeOf, ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { FairTurns } from "../base/fair-turns.ts";
import { Permits } from "../base/permits.ts";
import { Recent } from "../base/recent.ts";
import type { Cancel, World } from "../base/world.ts";
import type { Press } from "../format/press.ts";
import { VectorPool, type IndexBuilder } from "../model/vector-index.ts";
import type { Disk } from "../base/disk.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { StoreTime } from "../store/store-time.ts";
import { CopyRecords } from "../control/copy-records.ts";
import { wasDeleted } from "../control/deletions.ts";
import type { Slices } from "../sqlite/slices.ts";
import { Alarms } from "./alarms.ts";
import { BranchActs } from "./branch-acts.ts";
import { Branches, type BranchParts } from "./branches.ts";
import { Catalogs } from "./catalogs.ts";
import { Chores } from "./chores.ts";
import { Collector } from "./collector.ts";
import { Copies } from "./copies.ts";
import type { Database } from "./database.ts";
import { acceptsRollback, Dockyard } from "./dockyard.ts";
import { DueMarks } from "./due-marks.ts";
import { Fenced, type BranchHead } from "./branch-head.ts";
import { TurnedAway } from "./engine-port.ts";
import type { EngineAnswer, EngineCall, EngineOptions, FromEngine, Pinned, Settle, ToEngine, Work } from "./protocol.ts";
import { Expunger } from "./expunge.ts";
import { countFiles } from "./files.ts";
import { Following } from "./following.ts";
import { HeadPlaces } from "./head-places.ts";
import { Holdings } from "./holdings.ts";
import { inlineMaker } from "./inline-maker.ts";
import { backlogsOf, type EngineState, type EngineCounters } from "./measures.ts";
import { Registry, type RegistryOptions } from "./registry.ts";
import { Retentions } from "./retentions.ts";
import { failureOf, needsOperator } from "./failures.ts";
import type { SegmentMaker } from "./segment-maker.ts";
import type { ShippingParts } from "./shipper.ts";
import type { SqlWriter } from "./sql-write.ts";
import { Sweeper } from "./sweeper.ts";
import { Tenancy } from "./tenancy.ts";
import { tenantOf } from "./tenants.ts";
import { Upkeep } from "./upkeep.ts";

export interface EngineSurroundings {
  readonly options: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly store: ObjectStore;
  readonly press: Press;
  /** What makes the segments that are shipped; by default this thread does. */
  readonly maker?: SegmentMaker;
  readonly indexBuilder: IndexBuilder | undefined;
  /** What runs user SQL that writes, and commands that take long; by default this thread does, which a node must never do. */
  readonly sql?: SqlWriter | undefined;
  /** How long commands may hold this thread while others wait; by default for as long as they like. */
  readonly slices?: Slices | undefined;
  readonly send: (message: FromEngine) => void;
}

const housekeepingMs = 1_000;

/** Whether the call costs the thread what its tenant asks for; the others are the node's own, or give back what somebody holds. */
function isWorkOfTenant({ kind }: Work): boolean {
  return kind === "read" || kind === "write" || kind === "sql" || kind === "pin" || kind === "branch" || kind === "sync";
}

/** A database that is held open for a process that reads it. */
interface Pin {
  readonly database: Database;
  /** Whether the reader is to be answered as by the branch's writer. */
  readonly isPrimary: boolean;
}

export class Engine {
  readonly #world: World;
  readonly #turns: FairTurns;
  readonly #slices: Slices | undefined;
  readonly #send: (message: FromEngine) => void;
  readonly #holdings: Holdings;
  readonly #tenancy: Tenancy;
  readonly #following: Following;
  /** Databases that other nodes follow. */
  readonly #followed = new Recent<string, true>(limits.followedMax);
  readonly #registry: Registry;
  readonly #vectorPool: VectorPool;
  readonly #catalogs: Catalogs;
  readonly #upkeep: Upkeep;
  readonly #chores: Chores;
  readonly #acts: BranchActs;
  readonly #counters = { groups: 0, writes: 0, fsyncs: 0, headPuts: 0, bytesPut: 0 };
  /** Databases held open for processes that read them, by the token that ends the pin: it must reach that very handle. */
  readonly #pins = new Map<number, Pin>();
  #answers: EngineAnswer[] = [];
  #underWay = 0;
  #flushing = false;
  #closing = false;
  #cancelHousekeeping: Cancel = () => {};
  readonly #retentions: Retentions;
  readonly #sweeper: Sweeper;
  readonly #branches: Branches;
  readonly #expunger: Expunger;
  readonly #due: DueMarks;
  readonly #copies: Copies;
  readonly #storeTime: StoreTime;
  readonly #options: EngineOptions;
  readonly #places: HeadPlaces;
  readonly #alarms: Alarms;
  readonly #dockyard: Dockyard;

  constructor({ options, world, disk, store, press, maker = inlineMaker(press, disk), indexBuilder, sql, slices, send }: EngineSurroundings) {
    this.#options = options;
    this.#turns = new FairTurns(world);
    this.#slices = slices;
    this.#world = world;
    this.#send = send;
    this.#storeTime = new StoreTime(world, store);
    this.#vectorPool = new VectorPool({ buildIndex: indexBuilder });
    const notice = (message: string, uuid: string): void => send({ kind: "event", level: "warn", message, uuid });
    const bytesPut = (bytes: number): void => void (this.#counters.bytesPut += bytes);
    const alarms = (this.#alarms = new Alarms((counts) => send({ kind: "alarms", counts })));
    const places = (this.#places = new HeadPlaces({ directory: join(options.databasesDirectory, "..", "seen"), disk, world, notice }));
    const catalogs = (this.#catalogs = new Catalogs(store, world, { places, acceptsRollback: (uuid) => acceptsRollback(options, uuid), alarms, notice, inDoubt: (uuid) => this.#chores.inDoubt(uuid) }));
    const holdings = (this.#holdings = new Holdings(world, !options.coordinated));
    const isHeld = (uuid: string): boolean => holdings.termOf(uuid) !== undefined;
    const isDeleted = async (uuid: string): Promise<boolean> => this.#registry.wasDropped(uuid) || wasDeleted(store, uuid);
    const source: BranchParts["source"] = (uuid) => ({ store, uuid, press, disk, maker });
    const retentions = (this.#retentions = new Retentions(options.pitrMs));
    const isCertain = (uuid: string): boolean => isHeld(uuid) && holdings.isLive;
    const branchParts: BranchParts = { catalogs, world, nodeId: options.nodeId, pitrMs: (uuid) => retentions.pitrMs(uuid), isCertain, source };
    const branches = (this.#branches = new Branches(branchParts));
    const { databasesDirectory, scratchDirectory, coordinated } = options;
    const records = new CopyRecords(store, world);
    const copies = (this.#copies = new Copies({ records, owner: { node: options.nodeId, name: options.nodeName ?? "" }, coordinated, databasesDirectory }));
    const due = (this.#due = new DueMarks({ store, world, nameOf: (uuid) => retentions.nameOf(uuid), notice }));
    const leftBehind = (uuid: string, afterMs?: number): void => this.#chores.leftBehind(uuid, afterMs);
    this.#upkeep = new Upkeep({ parts: branchParts, scratchDirectory, isHeld, bytesPut, leftBehind, notice });
    const shipping: ShippingParts = { world, permits: new Permits(limits.shipsAtOnceMax), largePermits: new Permits(1), maker, bytesPut };
    const dockyard = (this.#dockyard = new Dockyard({
      engine: options, holdings, world, disk, shipping, catalogs, places, alarms, isDeleted, copies, vectorPool: this.#vectorPool, source, sql, slices, turn: (uuid, act) => this.#turns.take(this.#tenantOf(uuid), act), retentionOf: (uuid) => retentions.of(uuid),
      headLanded: (uuid, bytes) => {
        this.#counters.headPuts++;
        bytesPut(bytes);
        if (this.#followed.has(uuid)) send({ kind: "shipped", uuid });
      },
      fenced: (uuid) => {
        const term = coordinated ? this.#tenancy.forfeit(uuid) : undefined;
        if (term !== undefined) send({ kind: "fenced", uuid, term });
      },
      shipIntervalMs: (uuid) => (this.#followed.has(uuid) ? limits.shipIntervalFollowedMs : limits.shipIntervalMs),
      moved: (head) => this.#upkeep.consider(head),
      mayCollect: leftBehind,
    }));
    this.#registry = new Registry({
      engine: options,
      world,
      catalogs, dockyard,
      events: this.#databaseEvents(),
    });
    this.#tenancy = new Tenancy({ holdings, registry: this.#registry, dockyard, upkeep: this.#upkeep, world, notice });
    this.#following = new Following({ registry: this.#registry, holdings, world, store, alarms, notice });
    const collector = new Collector({ store, world, catalogs, records, places, graceMs: options.gcGraceMs, notice });
    const expunger = (this.#expunger = new Expunger({
      registry: this.#registry, parts: branchParts, upkeep: this.#upkeep, collector, records, copies, databasesDirectory, scratchDirectory, bytesPut, leftBehind, notice,
      removeExpired: (uuid) => this.#acts.removeExpired(uuid), isDeleted, quarantine: dockyard.quarantine,
    }));
    const sweeper = (this.#sweeper = new Sweeper({ world, registry: this.#registry, retentions, due, source, isHeld, notice }));
    this.#acts = new BranchActs({ registry: this.#registry, branches, parts: branchParts, upkeep: this.#upkeep, expunger, sweeper, due, leftBehind, notice });
    this.#chores = new Chores({ world, collector, graceMs: options.gcGraceMs, groom: (uuid) => this.#acts.groom(uuid), settle: (uuid) => this.#acts.settle(uuid), isOurs: isHeld, alarms, notice });
    this.#keepHouse(housekeepingMs);
    if (options.shipping) this.#recover(options);
  }

  #databaseEvents(): RegistryOptions["events"] {
    const send = this.#send;
    return {
      committed: (writes) => {
        this.#counters.groups++;
        this.#counters.writes += writes;
      },
      synced: () => this.#counters.fsyncs++,
      opened: ({ opened }) => {
        if (this.#options.shipping) this.#upkeep.consider(opened.head);
      },
      closing: (database) => this.#sweeper.closing(database),
      notice: (level, message, uuid) => send({ kind: "event", level, message, uuid }),
    };
  }

  /** What this node has seen of each branch in object storage. */
  get places(): HeadPlaces {
    return this.#places;
  }

  /** Takes a message of the main thread, but for those that are the thread's own. */
  hear(message: Exclude<ToEngine, { kind: "close" | "measure" | "sql-ran" }>): void {
    switch (message.kind) {
      case "calls":
        return this.receive(message.calls);
      case "lease":
        return this.#tenancy.renewLease(message.until);
      case "hint":
        return this.#following.hint(message.uuid);
      case "followed":
        if (message.isFollowed) this.#followed.set(message.uuid, true);
        else this.#followed.delete(message.uuid);
    }
  }

  receive(calls: readonly EngineCall[]): void {
    // Before any of them begins: none of them is alone, nor its answer.
    this.#underWay += calls.length;
    const nowMs = this.#world.monotonicMs();
    for (const call of calls) {
      this.#retentions.note(call.target);
      const begin = (): void => this.#begin(call, nowMs + call.budgetMs);
      if (isWorkOfTenant(call.work)) this.#turns.take(this.#tenantOf(call.target.uuid), begin);
      else begin();
    }
  }

  #tenantOf(uuid: string): string {
    return tenantOf({ uuid, database: this.#retentions.nameOf(uuid) });
  }

  get counters(): EngineCounters {
    return { ...this.#counters, opened: this.#registry.opened, evicted: this.#registry.evicted, stopped: this.#slices?.stopped ?? 0 };
  }

  /** What the engine has done and holds now, for operators. */
  get state(): EngineState {
    this.#dockyard.quarantine.recount();
    return {
      counters: this.counters,
      backlogs: backlogsOf(this.#registry.databases()),
      packs: this.#upkeep.packs,
      rebases: this.#upkeep.rebases,
      upkeepOwed: this.#upkeep.owed,
      lineRefsMax: this.#heads().reduce((most, { now }) => Math.max(most, now.refs.length), 0),
      collections: this.#chores.collections,
      replicas: this.#following.measures,
      vectorBytes: this.#vectorPool.bytes,
      alarms: this.#alarms.counts,
    };
  }

  #heads(): BranchHead[] {
    return Array.from(this.#registry.databases(), ({ opened }) => opened.head);
  }

  /** Whether one call at most is under way. */
  get alone(): boolean {
    return this.#underWay <= 1;
  }

  /** Answers everyone, closes every file. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#cancelHousekeeping();
    this.#following.stop();
    this.#sweeper.stop();
    this.#turns.flush();
    await this.#chores.idle();
    await this.#upkeep.close();
    await this.#registry.closeAll();
    await this.#due.close();
    this.#places.close();
    // A build that was abandoned has then deleted its files.
    await this.#vectorPool.idle();
    this.#flush();
  }

  #begin(call: EngineCall, deadlineMs: number): void {
    if (call.work.kind === "unpin") return this.#unpin(call.id, call.work);
    if (call.work.kind === "ping") return this.#answer({ id: call.id, txid: undefined });
    if (this.#closing) return this.#fail(call.id, new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 }), undefined);
    const { target, work } = call;
    switch (work.kind) {
      case "hold":
        return this.#settles(call, this.#tenancy.hold(target.uuid, work.term));
      case "let-go":
        return this.#settles(call, this.#tenancy.letGo(target.uuid));
      case "drop":
        return this.#settles(call, this.#drop(target.uuid));
      case "purge-copies":
        return this.#settles(call, this.#purgeCopies(target.uuid));
      case "branch":
        if (!this.#mayServe(call)) return this.#fail(call.id, new TurnedAway("unheld"), undefined);
        this.#acts.run(target, work.act, call.minTxid, deadlineMs).then(
          ({ value, txid, durableTxid }) => this.#answer({ id: call.id, txid, durableTxid, value }),
          (error: unknown) => this.#fail(call.id, error, undefined),
        );
        return;
      default:
        this.#reach(call, deadlineMs);
    }
  }

  /** Answers the call, which speaks of no state, when the act is over. */
  #settles({ id }: EngineCall, act: Promise<boolean | void>): void {
    act.then(
      (value) => this.#answer({ id, txid: undefined, value }),
      (error: unknown) => this.#fail(id, error, undefined),
    );
  }

  /** Whether the call may be answered here at all: what needs the database's lease, only while this node holds it. */
  #mayServe({ target, work, consistency }: EngineCall): boolean {
    const isRead = work.kind === "read" || work.kind === "pin";
    return (isRead && consistency !== "primary") || this.#holdings.termOf(target.uuid) !== undefined;
  }

  /** Runs the call on the open database. Looks anew after each wait: somebody may have taken the handle, or the lease, meanwhile. */
  #reach(call: EngineCall, deadlineMs: number): void {
    const { id, target, minTxid, consistency } = call;
    if (!this.#mayServe(call)) return this.#fail(id, new TurnedAway("unheld"), undefined);
    const isHeld = this.#holdings.termOf(target.uuid) !== undefined;
    const database = isHeld ? this.#registry.current(target) : undefined;
    if (database) return this.#run(call, database, deadlineMs);
    const reached = isHeld
      ? this.#registry.use(target, deadlineMs).then(() => this.#reach(call, deadlineMs))
      : this.#following.reach(target, { minTxid, consistency }, deadlineMs).then((copy) => {
          if (!copy) return this.#fail(id, new TurnedAway("behind"), undefined);
          if (this.#registry.current(target) !== copy) return this.#reach(call, deadlineMs);
          this.#run(call, copy, deadlineMs);
        });
    reached.catch((error: unknown) => this.#fail(id, error, undefined));
  }

  /** Looks at the logs of an earlier run, and again for as long as object storage does not answer. */
  #recover(options: EngineOptions): void {
    this.#acts.recover(options).then(
      (again) => {
        if (again && !this.#closing) this.#world.after(limits.shipRetryMsMax, () => this.#recover(options));
      },
      (error: unknown) => this.#send({ kind: "event", level: "warn", message: `logs of an earlier run were not looked at (${codeOf(error)})`, uuid: "" }),
    );
  }

  /**
   * This thread opens the database no more; then nobody does, as the catalog says so; and whoever writes it and has not
   * heard of it meets the fence with the next thing he ships, and reads the catalog.
   */
  async #drop(uuid: string): Promise<void> {
    const { databasesDirectory, coordinated } = this.#options;
    if (!this.#chores.mayPurge) throw new ServiceError("overloaded", "too many deleted databases wait to be purged; try again", { retryAfterSecs: 60 });
    const files = countFiles(databasesDirectory, uuid);
    await this.#registry.drop(uuid);
    await this.#catalogs.fresh(uuid);
    // Without other nodes, what nobody has written nobody will.
    await this.#catalogs.update(uuid, ({ seq, deletedAtMs }) => ((seq === 0 && !coordinated) || deletedAtMs !== undefined ? undefined : { deletedAtMs: this.#world.nowMs() }));
    if (coordinated) await this.#branches.fenceAll(uuid);
    await this.#copies.purged(uuid, files);
    this.#chores.purge(uuid);
  }

  /**
   * Refuses a transaction id that this branch has never given, or that was lost. Among several nodes another one may have
   * given it without this one's knowing, who has taken the database since or has not yet heard that he has lost it: the
   * head tells, and then the call is that node's. Only what the holder has claimed himself, or an old head calls lost, is sure.
   */
  async #refuseSurely(id: number, refusal: ServiceError, database: Database): Promise<void> {
    const isKnownLost = refusal.code !== "invalid_request" && (database.claimed || this.#holdings.termOf(database.opened.uuid) === undefined);
    const isOurs = !this.#options.coordinated || isKnownLost;
    try {
      if (!isOurs) await database.prove();
      this.#fail(id, refusal, database.safeTxid);
    } catch (error) {
      this.#fail(id, error instanceof Fenced ? new TurnedAway("unheld") : error, database.safeTxid);
    }
  }

  /** What this node writes stays: the erasure that orders it is carried out here, and cleans it. */
  async #purgeCopies(uuid: string): Promise<boolean> {
    if (this.#holdings.termOf(uuid) !== undefined) return false;
    await this.#expunger.purgeCopies(uuid);
    return true;
  }

  #run(call: EngineCall, database: Database, deadlineMs: number): void {
    const { id, work } = call;
    const refusal = database.refusalOfMinTxid(call.minTxid);
    if (refusal) return void this.#refuseSurely(id, refusal, database);
    const settle = this.#settle(id, database);
    switch (work.kind) {
      case "write":
        return database.write({ work: { ...work, ticket: id }, bytes: work.bytes, deadlineMs, durable: call.durable, settle });
      case "sql":
        return database.write({ work, bytes: work.bytes, deadlineMs, durable: call.durable, settle });
      case "read":
        return database.read(work.command, work.input, settle, call.consistency === "primary");
      case "sync":
        return database.sync(settle);
      case "pin": {
        const sight = database.pin();
        this.#pins.set(id, { database, isPrimary: call.consistency === "primary" });
        return settle.done({ txid: database.safeTxid, value: { path: database.path, token: id, ...sight } satisfies Pinned });
      }
      default:
        // The others were taken care of before a database was looked up.
        return;
    }
  }

  #settle(id: number, database: Database): Settle {
    return {
      done: ({ txid, value }) => this.#answer({ id, txid, durableTxid: database.durableTxid, value }),
      failed: (error, txid) => this.#fail(id, error, txid),
    };
  }

  #unpin(id: number, { token, seenTxid }: Extract<Work, { kind: "unpin" }>): void {
    const pin = this.#pins.get(token);
    this.#pins.delete(token);
    if (!pin) return this.#fail(id, new ServiceError("unavailable", "the engine was started anew during the read", { retryAfterSecs: 1 }), undefined);
    pin.database.unpin(seenTxid, this.#settle(id, pin.database), pin.isPrimary);
  }

  #answer(answer: EngineAnswer): void {
    this.#underWay--;
    this.#answers.push(answer);
    if (this.#flushing) return;
    // Nobody else's answer can come with it.
    if (this.#underWay === 0) return this.#flush();
    this.#flushing = true;
    this.#world.soon(() => this.#flush());
  }

  #fail(id: number, error: unknown, txid: number | undefined): void {
    if (needsOperator(error)) this.#send({ kind: "event", level: "warn", message: `stored data cannot be used: ${error.message}`, uuid: "" });
    this.#answer({ id, txid, ...failureOf(error) });
  }

  #flush(): void {
    this.#flushing = false;
    const answers = this.#answers;
    this.#answers = [];
    if (answers.length > 0) this.#send({ kind: "answers", answers });
  }

  /** Closes idle files and sweeps what has expired, every second; with much to close it takes every other slice of the thread. */
  #keepHouse(pauseMs: number): void {
    this.#cancelHousekeeping = this.#world.after(pauseMs, () => {
      this.#storeTime.tick();
      const more = this.#registry.closeIdle();
      this.#sweeper.tick();
      this.#due.tick();
      this.#places.tick();
      this.#chores.tick();
      this.#upkeep.tick(() => this.#heads());
      if (!this.#closing) this.#keepHouse(more ? limits.housekeepingBudgetMs : housekeepingMs);
    });
  }
}
