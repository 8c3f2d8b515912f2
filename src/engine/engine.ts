/**
 * One engine thread's worth of engine: calls in, answers out, both in batches, whatever carries them.
 *
 * Runs in a worker thread (engine/thread) or inline on the caller's thread in a simulation. Must not know which.
 */
import { ServiceError, refusalOf } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Permits } from "../base/permits.ts";
import type { Cancel, World } from "../base/world.ts";
import type { Press } from "../format/press.ts";
import type { WriteInput, WriteOutput } from "../model/commands.ts";
import { VectorPool, type IndexBuilder } from "../model/vector-index.ts";
import type { Disk } from "../sqlite/wal.ts";
import type { ObjectStore } from "../store/object-store.ts";
import { BranchActs } from "./branch-acts.ts";
import { Branches, type BranchParts } from "./branches.ts";
import { Catalogs } from "./catalogs.ts";
import { Chores } from "./chores.ts";
import { Collector } from "./collector.ts";
import type { Database } from "./database.ts";
import { Dockyard } from "./dockyard.ts";
import type { EngineAnswer, EngineCall, EngineCounters, EngineOptions, FromEngine, Pinned, Settle, Work } from "./protocol.ts";
import { Expunger } from "./expunge.ts";
import { Registry } from "./registry.ts";
import { Retentions } from "./retentions.ts";
import { codeOf, failureOf, needsOperator } from "./failures.ts";
import type { ShippingParts } from "./shipper.ts";
import { Upkeep } from "./upkeep.ts";

export interface EngineSurroundings {
  readonly options: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly store: ObjectStore;
  readonly press: Press;
  readonly indexBuilder: IndexBuilder | undefined;
  readonly send: (message: FromEngine) => void;
}

const housekeepingMs = 1_000;

/** The last sweep of an open database. */
interface Sweep {
  readonly begunAtMs: number;
  /** Where the next one goes on. */
  position: WriteOutput<"sweep">["position"];
}

export class Engine {
  readonly #world: World;
  readonly #send: (message: FromEngine) => void;
  readonly #registry: Registry;
  readonly #vectorPool: VectorPool;
  readonly #catalogs: Catalogs;
  readonly #upkeep: Upkeep;
  readonly #chores: Chores;
  readonly #acts: BranchActs;
  readonly #counters = { groups: 0, writes: 0, fsyncs: 0, headPuts: 0, bytesPut: 0 };
  /** Databases held open for reader threads, by the token that ends the pin: it must reach that very handle. */
  readonly #pins = new Map<number, Database>();
  #answers: EngineAnswer[] = [];
  #underWay = 0;
  #flushing = false;
  #closing = false;
  #cancelHousekeeping: Cancel = () => {};
  readonly #retentions: Retentions;
  readonly #sweeps = new WeakMap<Database, Sweep>();

  constructor({ options, world, disk, store, press, indexBuilder, send }: EngineSurroundings) {
    this.#world = world;
    this.#send = send;
    this.#vectorPool = new VectorPool({ buildIndex: indexBuilder });
    const notice = (message: string, uuid: string): void => send({ kind: "event", level: "warn", message, uuid });
    const bytesPut = (bytes: number): void => void (this.#counters.bytesPut += bytes);
    const catalogs = (this.#catalogs = new Catalogs(store, world));
    const source: BranchParts["source"] = (uuid) => ({ store, uuid, press, disk });
    const retentions = (this.#retentions = new Retentions(options.pitrMs));
    const branchParts: BranchParts = { catalogs, world, nodeId: options.nodeId, pitrMs: (uuid) => retentions.pitrMs(uuid), source };
    const branches = new Branches(branchParts);
    const leftBehind = (uuid: string, afterMs?: number): void => this.#chores.leftBehind(uuid, afterMs);
    this.#upkeep = new Upkeep({ parts: branchParts, permits: new Permits(limits.upkeepAtOnceMax), scratchDirectory: options.scratchDirectory, bytesPut, leftBehind, notice });
    const shipping: ShippingParts = { world, permits: new Permits(limits.shipsAtOnceMax), bytesPut };
    const dockyard = new Dockyard({
      engine: options, world, disk, shipping, catalogs, vectorPool: this.#vectorPool, source,
      headLanded: (bytes) => {
        this.#counters.headPuts++;
        bytesPut(bytes);
      },
      published: (head) => this.#upkeep.consider(head),
      mayCollect: leftBehind,
    });
    this.#registry = new Registry({
      engine: options,
      world,
      dockyard,
      events: {
        running: (handle, ticket, budgetMs) => send({ kind: "running", handle, ticket, budgetMs }),
        stopped: (ticket) => send({ kind: "stopped", ticket }),
        committed: (writes) => {
          this.#counters.groups++;
          this.#counters.writes += writes;
        },
        synced: () => this.#counters.fsyncs++,
        notice: (level, message, uuid) => send({ kind: "event", level, message, uuid }),
      },
    });
    const collector = new Collector({ store, world, catalogs, graceMs: options.gcGraceMs, notice });
    const { databasesDirectory, scratchDirectory } = options;
    const expunger = new Expunger({
      registry: this.#registry, parts: branchParts, upkeep: this.#upkeep, collector, databasesDirectory, scratchDirectory, bytesPut, leftBehind, notice,
      removeExpired: (uuid) => this.#acts.removeExpired(uuid),
    });
    this.#acts = new BranchActs({ registry: this.#registry, branches, parts: branchParts, upkeep: this.#upkeep, expunger, leftBehind });
    this.#chores = new Chores({ world, collector, graceMs: options.gcGraceMs, groom: (uuid) => this.#acts.groom(uuid), notice });
    this.#keepHouse(housekeepingMs);
    if (options.shipping) this.#recover(options);
  }

  receive(calls: readonly EngineCall[]): void {
    for (const call of calls) this.#begin(call);
  }

  get counters(): EngineCounters {
    return { ...this.#counters, opened: this.#registry.opened, evicted: this.#registry.evicted };
  }

  /** Whether one call at most is under way. */
  get alone(): boolean {
    return this.#underWay <= 1;
  }

  /** Answers everyone, closes every file. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#cancelHousekeeping();
    await this.#chores.idle();
    await this.#upkeep.close();
    await this.#registry.closeAll();
    // A build that was abandoned has then deleted its files.
    await this.#vectorPool.idle();
    this.#flush();
  }

  #begin(call: EngineCall): void {
    this.#underWay++;
    this.#retentions.note(call.target);
    if (call.work.kind === "unpin") return this.#unpin(call.id, call.work);
    if (this.#closing) return this.#fail(call.id, new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 }), undefined);
    const deadlineMs = this.#world.monotonicMs() + call.budgetMs;
    if (call.work.kind === "drop") {
      this.#drop(call.target.uuid).then(
        () => {
          this.#chores.purge(call.target.uuid);
          this.#answer({ id: call.id, txid: undefined });
        },
        (error: unknown) => this.#fail(call.id, error, undefined),
      );
      return;
    }
    if (call.work.kind === "branch") {
      this.#acts.run(call.target, call.work.act, call.minTxid, deadlineMs).then(
        ({ value, txid, durableTxid }) => this.#answer({ id: call.id, txid, durableTxid, value }),
        (error: unknown) => this.#fail(call.id, error, undefined),
      );
      return;
    }
    this.#reach(call, deadlineMs);
  }

  /** Runs the call on the open database. Looks anew after each wait: somebody may have taken the handle for itself meanwhile. */
  #reach(call: EngineCall, deadlineMs: number): void {
    const database = this.#registry.current(call.target);
    if (database) return this.#run(call, database, deadlineMs);
    this.#registry
      .use(call.target, deadlineMs)
      .then(() => this.#reach(call, deadlineMs))
      .catch((error: unknown) => this.#fail(call.id, error, undefined));
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

  /** This thread opens the database no more; then nobody does, as the catalog says so. */
  async #drop(uuid: string): Promise<void> {
    await this.#registry.drop(uuid);
    await this.#catalogs.update(uuid, ({ seq, deletedAtMs }) => (seq === 0 || deletedAtMs !== undefined ? undefined : { deletedAtMs: this.#world.nowMs() }));
  }

  #run(call: EngineCall, database: Database, deadlineMs: number): void {
    const { id, work } = call;
    const refusal = database.refusalOfMinTxid(call.minTxid);
    if (refusal) return this.#fail(id, refusal, database.safeTxid);
    const settle = this.#settle(id, database);
    switch (work.kind) {
      case "write":
      case "sql":
        return database.write({ work, bytes: work.bytes, deadlineMs, durable: call.durable, settle });
      case "read":
        return database.read(work.command, work.input, settle);
      case "sync":
        return database.sync(settle);
      case "pin":
        database.pin();
        this.#pins.set(id, database);
        return settle.done({ txid: database.safeTxid, value: { path: database.path, token: id } satisfies Pinned });
      case "unpin":
      case "drop":
      case "branch":
        // These were taken care of before a database was looked up.
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
    const database = this.#pins.get(token);
    this.#pins.delete(token);
    if (!database) return this.#fail(id, new ServiceError("unavailable", "the engine was started anew during the read", { retryAfterSecs: 1 }), undefined);
    database.unpin(seenTxid, this.#settle(id, database));
  }

  #answer(answer: EngineAnswer): void {
    this.#underWay--;
    this.#answers.push(answer);
    if (this.#flushing) return;
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
      const more = this.#registry.closeIdle();
      this.#sweepSome();
      this.#chores.tick();
      if (!this.#closing) this.#keepHouse(more ? limits.housekeepingBudgetMs : housekeepingMs);
    });
  }

  /** Sweeps the databases whose last sweep is a minute old, a few each second. */
  #sweepSome(): void {
    const nowMs = this.#world.monotonicMs();
    let begun = 0;
    for (const database of this.#registry.databases()) {
      // What nobody has written here needs no sweep, and a sweep must not claim a branch.
      if (!database.claimed || database.expired) continue;
      const last = this.#sweeps.get(database);
      if (nowMs - (last?.begunAtMs ?? -Infinity) < limits.sweepIntervalMs) continue;
      const sweep: Sweep = { begunAtMs: nowMs, position: last?.position ?? {} };
      this.#sweeps.set(database, sweep);
      this.#sweep(database, sweep);
      if (++begun >= limits.sweepsPerTickMax) return;
    }
  }

  #sweep(database: Database, sweep: Sweep): void {
    const retention = this.#retentions.of(database.opened.uuid);
    const input: WriteInput<"sweep"> = { rowsMax: limits.sweepRowsMax, position: sweep.position, ...(retention && { retention }) };
    database.write({
      work: { kind: "write", command: "sweep", input },
      bytes: 0,
      deadlineMs: Infinity,
      durable: false,
      settle: {
        done: (answer) => {
          const { more, position } = answer.value as WriteOutput<"sweep">;
          sweep.position = position;
          if (more && !this.#closing) this.#sweep(database, sweep);
        },
        failed: (error) => {
          const code = refusalOf(error)?.code ?? "fault";
          this.#send({ kind: "event", level: "warn", message: `a sweep of expired rows failed (${code})`, uuid: "" });
        },
      },
    });
  }
}
