/**
 * The parts of one engine thread, built in the order in which they need each other.
 *
 * Always true: a part is given what it needs and nothing else, and all of that is there when it is built; parts that
 * are built later listen to the events of earlier ones. Must not know: calls, answers.
 */
import { join } from "node:path";
import { FairTurns } from "../base/fair-turns.ts";
import { limits } from "../base/limits.ts";
import { Semaphore } from "../base/collections/semaphore.ts";
import { LruMap } from "../base/collections/lru-map.ts";
import { CopyRecords } from "../control/databases/copy-records.ts";
import { Databases } from "../control/databases/databases.ts";
import { wasDeleted } from "../control/databases/deletions.ts";
import { findWrittenVersions } from "../format/core/versions.ts";
import { VectorPool } from "../model/index/vector-index.ts";
import { StoreTime } from "../store/store-time.ts";
import { Alarms } from "./api/alarms.ts";
import { BranchActs } from "./branch-acts.ts";
import { Branches, type BranchParts } from "./branches/branches.ts";
import { Catalogs } from "./history/catalogs.ts";
import { BackgroundJobs } from "./maintenance/background-jobs.ts";
import { GarbageCollector } from "./maintenance/garbage-collector.ts";
import { Copies } from "./local/copies.ts";
import { acceptsRollback, DatabaseOpener } from "./pool/database-opener.ts";
import { ExpiryIndexWriter } from "./maintenance/expiry-index-writer.ts";
import { ErasureRunner } from "./erasure/erasure-runner.ts";
import { ReplicaFollower } from "./replica/replica-follower.ts";
import { SeenManifests } from "./local/seen-manifests.ts";
import { LeaseState } from "./api/lease-expiry.ts";
import { openPast, type Past } from "./past-parts.ts";
import { inlineMaker } from "./segments/inline-maker.ts";
import { Registry, type RegistryOptions } from "./pool/registry.ts";
import { Retentions } from "./pool/retentions.ts";
import { Spares } from "./pool/spares.ts";
import type { SegmentMaker } from "./segments/segment-maker.ts";
import type { ShippingParts } from "./shipping/shipper.ts";
import { ExpiredRowSweeper } from "./maintenance/expired-row-sweeper.ts";
import { OwnershipTransfer } from "./pool/ownership-transfer.ts";
import { getTenant } from "./api/tenants.ts";
import { Compactor } from "./compaction/compactor.ts";
import { EngineEvents } from "./engine-events.ts";
import type { EngineSurroundings } from "./engine-surroundings.ts";
import { ExpiredBranches } from "./pool/expired-branches.ts";

/** All parts of one engine thread. */
export class EngineParts {
  readonly #given: EngineSurroundings;
  readonly #events = new EngineEvents();
  /** Uuids of databases that were deleted by way of this thread. */
  readonly #deleted = new LruMap<string, true>(limits.droppedRememberedMax);
  readonly #maker: SegmentMaker;
  readonly #records: CopyRecords;
  readonly #collector: GarbageCollector;
  readonly #branchParts: BranchParts;
  readonly #expired: ExpiredBranches;
  /** What the thread has done so far. */
  readonly counts = { groups: 0, writes: 0, fsyncs: 0, manifestPuts: 0, bytesPut: 0 };
  /** Databases that other nodes follow. */
  readonly followed = new LruMap<string, true>(limits.followedMax);
  /** Whose turn it is on the thread. */
  readonly turns: FairTurns;
  /** What object storage says of the time. */
  readonly storeTime: StoreTime;
  /** Vectors in memory, of all open databases. */
  readonly vectorPool: VectorPool;
  /** What an operator must look at. */
  readonly alarms: Alarms;
  /** What this node has seen of each branch in object storage. */
  readonly places: SeenManifests;
  /** Earlier states that were restored to be read, and the reads of them. */
  readonly past: Past;
  readonly catalogs: Catalogs;
  /** Which databases this node holds. */
  readonly leaseState: LeaseState;
  /** What policies say, as far as calls have brought it. */
  readonly retentions: Retentions;
  readonly branches: Branches;
  /** What this node has on its disk. */
  readonly copies: Copies;
  /** What is due later in databases. */
  readonly due: ExpiryIndexWriter;
  readonly compactor: Compactor;
  readonly opener: DatabaseOpener;
  readonly registry: Registry;
  /** Databases that nobody has yet. */
  readonly spares: Spares;
  readonly ownership: OwnershipTransfer;
  readonly following: ReplicaFollower;
  readonly erasureRunner: ErasureRunner;
  readonly sweeper: ExpiredRowSweeper;
  readonly acts: BranchActs;
  readonly jobs: BackgroundJobs;

  constructor(given: EngineSurroundings) {
    const { options, world, disk, store, press, indexBuilder, send } = given;
    this.#given = given;
    this.#maker = given.maker ?? inlineMaker(press, disk);
    this.turns = new FairTurns(world);
    this.storeTime = new StoreTime(world, store);
    this.vectorPool = new VectorPool({ buildIndex: indexBuilder });
    this.alarms = new Alarms((counts) => send({ kind: "alarms", counts }));
    this.places = new SeenManifests({
      directory: join(options.databasesDirectory, "..", "seen"),
      disk,
      world,
      notice: this.#notice,
    });
    this.catalogs = this.#openCatalogs();
    this.leaseState = new LeaseState(world, !options.coordinated);
    this.retentions = new Retentions(options.pitrMs);
    this.#branchParts = this.#buildBranchParts();
    this.branches = new Branches(this.#branchParts);
    this.#records = new CopyRecords(store, world);
    this.copies = this.#openCopies();
    this.due = new ExpiryIndexWriter({
      store,
      world,
      findName: (uuid) => this.retentions.findName(uuid),
      notice: this.#notice,
    });
    this.compactor = this.#openCompactor();
    this.past = openPast(given, this.#branchParts, this);
    this.opener = this.#openDatabaseOpener();
    this.registry = new Registry({
      engine: options,
      world,
      catalogs: this.catalogs,
      deleted: this.#deleted,
      opener: this.opener,
      events: this.#databaseEvents(),
    });
    this.spares = this.#openSpares();
    this.ownership = this.#openOwnership();
    this.following = this.#openFollowing();
    this.#collector = this.#openGarbageCollector();
    this.#expired = new ExpiredBranches({ branches: this.branches, registry: this.registry });
    this.erasureRunner = this.#openErasureRunner();
    this.sweeper = this.#openSweeper();
    this.acts = this.#openActs();
    this.jobs = this.#openBackgroundJobs();
    this.#attach();
  }

  /** The parts built by now hear what earlier ones have to tell. */
  #attach(): void {
    const { jobs, sweeper, ownership } = this;
    const { options, send } = this.#given;
    this.#events.attach({
      leftBehind: (uuid, afterMs) => jobs.leftBehind(uuid, afterMs),
      inDoubt: (uuid) => jobs.inDoubt(uuid),
      closing: (database) => sweeper.closing(database),
      fenced: (uuid) => {
        const leaseEpoch = options.coordinated ? ownership.releaseLease(uuid) : undefined;
        if (leaseEpoch !== undefined) send({ kind: "fenced", uuid, leaseEpoch });
      },
    });
  }

  /** The tenant of the database, where the thread's time is shared out. */
  getTenant(uuid: string): string {
    return getTenant({ uuid, database: this.retentions.findName(uuid) });
  }

  readonly #notice = (message: string, uuid: string): void =>
    this.#given.send({ kind: "event", level: "warn", message, uuid });

  readonly #bytesPut = (bytes: number): void => void (this.counts.bytesPut += bytes);

  readonly #isHeld = (uuid: string): boolean => this.leaseState.getLeaseEpoch(uuid) !== undefined;

  readonly #isDeleted = async (uuid: string): Promise<boolean> =>
    this.#deleted.has(uuid) || wasDeleted(this.#given.store, uuid);

  readonly #source: BranchParts["source"] = (uuid) => {
    const { store, press, disk } = this.#given;
    return { store, uuid, press, disk, maker: this.#maker };
  };

  #openCatalogs(): Catalogs {
    const { store, world, options } = this.#given;
    return new Catalogs(store, world, {
      places: this.places,
      acceptsRollback: (uuid) => acceptsRollback(options, uuid),
      alarms: this.alarms,
      notice: this.#notice,
      inDoubt: this.#events.inDoubt,
    });
  }

  #buildBranchParts(): BranchParts {
    const { world, options } = this.#given;
    const { catalogs, leaseState, retentions } = this;
    const isCertain = (uuid: string): boolean => this.#isHeld(uuid) && leaseState.isLive;
    return {
      catalogs,
      world,
      nodeId: options.nodeId,
      pitrMs: (uuid) => retentions.pitrMs(uuid),
      isCertain,
      source: this.#source,
    };
  }

  #openCopies(): Copies {
    const { nodeId, nodeName = "", coordinated, databasesDirectory } = this.#given.options;
    return new Copies({
      records: this.#records,
      owner: { node: nodeId, name: nodeName },
      coordinated,
      databasesDirectory,
    });
  }

  #openCompactor(): Compactor {
    const { scratchDirectory } = this.#given.options;
    return new Compactor({
      parts: this.#branchParts,
      scratchDirectory,
      isHeld: this.#isHeld,
      bytesPut: this.#bytesPut,
      leftBehind: this.#events.leftBehind,
      notice: this.#notice,
    });
  }

  #openDatabaseOpener(): DatabaseOpener {
    const { options, world, disk, sql, slices, readPermits, send } = this.#given;
    const { leaseState, catalogs, places, alarms, copies, vectorPool, past } = this;
    const shipping: ShippingParts = {
      world,
      permits: new Semaphore(limits.shipsAtOnceMax),
      largePermits: new Semaphore(1),
      maker: this.#maker,
      segmentVersion: (options.written ?? findWrittenVersions()).segment,
      bytesPut: this.#bytesPut,
    };
    return new DatabaseOpener({
      engine: options,
      leaseState,
      world,
      disk,
      shipping,
      catalogs,
      places,
      alarms,
      isDeleted: this.#isDeleted,
      copies,
      past: past.states,
      vectorPool,
      source: this.#source,
      sql,
      slices,
      readPermits,
      turn: (uuid, act) => this.turns.take(this.getTenant(uuid), act),
      findRetention: (uuid) => this.retentions.of(uuid),
      pitrMs: (uuid) => this.retentions.pitrMs(uuid),
      manifestLanded: (uuid, bytes) => {
        this.counts.manifestPuts++;
        this.#bytesPut(bytes);
        if (this.followed.has(uuid)) send({ kind: "shipped", uuid });
      },
      fenced: this.#events.fenced,
      shipIntervalMs: (uuid) => (this.followed.has(uuid) ? limits.shipIntervalFollowedMs : limits.shipIntervalMs),
      moved: (manifest) => this.compactor.consider(manifest),
      mayCollect: this.#events.leftBehind,
    });
  }

  #databaseEvents(): RegistryOptions["events"] {
    const { send, options } = this.#given;
    return {
      committed: (writes) => {
        this.counts.groups++;
        this.counts.writes += writes;
      },
      synced: () => this.counts.fsyncs++,
      opened: ({ opened }) => {
        if (options.shipping) this.compactor.consider(opened.manifest);
      },
      closing: this.#events.closing,
      notice: (level, message, uuid) => send({ kind: "event", level, message, uuid }),
    };
  }

  #openSpares(): Spares {
    const { options, world, disk, store, send } = this.#given;
    return new Spares({
      engine: options,
      world,
      disk,
      store,
      registry: this.registry,
      databases: new Databases(store, world),
      told: (ready) => send({ kind: "spares", ready }),
      notice: this.#notice,
    });
  }

  #openOwnership(): OwnershipTransfer {
    const { leaseState, registry, opener, compactor } = this;
    return new OwnershipTransfer({
      leaseState,
      registry,
      opener,
      compactor,
      world: this.#given.world,
      notice: this.#notice,
    });
  }

  #openFollowing(): ReplicaFollower {
    const { world, store } = this.#given;
    const { registry, leaseState, alarms } = this;
    return new ReplicaFollower({ registry, leaseState, world, store, alarms, notice: this.#notice });
  }

  #openGarbageCollector(): GarbageCollector {
    const { store, world, options } = this.#given;
    const { catalogs, places } = this;
    return new GarbageCollector({
      store,
      world,
      catalogs,
      records: this.#records,
      places,
      graceMs: options.gcGraceMs,
      notice: this.#notice,
    });
  }

  #openErasureRunner(): ErasureRunner {
    const { databasesDirectory, scratchDirectory } = this.#given.options;
    const { registry, compactor, copies, opener, past } = this;
    return new ErasureRunner({
      registry,
      past: past.states,
      parts: this.#branchParts,
      compactor,
      collector: this.#collector,
      records: this.#records,
      copies,
      databasesDirectory,
      scratchDirectory,
      bytesPut: this.#bytesPut,
      leftBehind: this.#events.leftBehind,
      notice: this.#notice,
      expired: this.#expired,
      isDeleted: this.#isDeleted,
      quarantine: opener.quarantine,
    });
  }

  #openSweeper(): ExpiredRowSweeper {
    const { registry, retentions, due } = this;
    return new ExpiredRowSweeper({
      world: this.#given.world,
      registry,
      retentions,
      due,
      source: this.#source,
      isHeld: this.#isHeld,
      notice: this.#notice,
    });
  }

  #openActs(): BranchActs {
    const { registry, branches, compactor, erasureRunner, sweeper, due } = this;
    return new BranchActs({
      registry,
      branches,
      expired: this.#expired,
      parts: this.#branchParts,
      compactor,
      erasureRunner,
      sweeper,
      due,
      leftBehind: this.#events.leftBehind,
      notice: this.#notice,
    });
  }

  #openBackgroundJobs(): BackgroundJobs {
    const { world, options } = this.#given;
    const { acts, alarms } = this;
    return new BackgroundJobs({
      world,
      collector: this.#collector,
      graceMs: options.gcGraceMs,
      groom: (uuid) => acts.groom(uuid),
      resolveDoubt: (uuid) => acts.resolveDoubt(uuid),
      isOurs: this.#isHeld,
      alarms,
      notice: this.#notice,
    });
  }
}
