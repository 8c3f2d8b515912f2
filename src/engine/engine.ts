/**
 * One engine thread's worth of engine: calls in, answers out, both in batches, over any channel.
 *
 * Finds for each call the part that takes it (engine/engine-parts). Runs in a worker thread (engine/thread) or inline
 * on the caller's thread in a simulation. Must not know which.
 */
import { getErrorCode, ServiceError } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import type { Slices } from "../sqlite/slices.ts";
import { AnswerBatches } from "./answer-batches.ts";
import { Fenced } from "./history/manifest-writer.ts";
import type { Database } from "./database/database.ts";
import { EngineParts } from "./engine-parts.ts";
import type { EngineSurroundings } from "./engine-surroundings.ts";
import { TurnedAway } from "./api/engine-port.ts";
import { countFiles } from "./local/database-files.ts";
import type { SeenManifests } from "./local/seen-manifests.ts";
import { EngineTimers } from "./engine-timers.ts";
import { sumBacklogs, type EngineState, type EngineCounters } from "./api/measures.ts";
import { Pins } from "./pool/pins.ts";
import type { DiffAsked, EngineCall, EngineOptions, FromEngine, Completion, ToEngine, Work } from "./api/protocol.ts";

/**
 * Whether the call costs the thread what its tenant asks for; the others are the node's own, or release what is held.
 */
function isWorkOfTenant({ kind }: Work): boolean {
  return (
    kind === "read" ||
    kind === "write" ||
    kind === "diff" ||
    kind === "sql" ||
    kind === "pin" ||
    kind === "branch" ||
    kind === "sync"
  );
}

export class Engine {
  readonly #world: World;
  readonly #send: (message: FromEngine) => void;
  readonly #options: EngineOptions;
  readonly #slices: Slices | undefined;
  readonly #parts: EngineParts;
  readonly #answers: AnswerBatches;
  readonly #pins = new Pins();
  readonly #housekeeping: EngineTimers;
  #closing = false;

  constructor(surroundings: EngineSurroundings) {
    const { options, world, slices, send } = surroundings;
    this.#options = options;
    this.#world = world;
    this.#slices = slices;
    this.#send = send;
    this.#answers = new AnswerBatches(world, send);
    this.#parts = new EngineParts(surroundings);
    this.#housekeeping = new EngineTimers(world, this.#parts);
    // What is nobody's is removed before logs of an earlier run are looked at: its own would be found among them.
    const left = this.#parts.spares.start();
    if (options.shipping) void left.then(() => this.#recover(options));
  }

  /** What this node has seen of each branch in object storage. */
  get places(): SeenManifests {
    return this.#parts.places;
  }

  /** Takes a message of the main thread, but for those that are the thread's own. */
  hear(message: Exclude<ToEngine, { kind: "close" | "measure" | "sql-ran" }>): void {
    switch (message.kind) {
      case "calls":
        return this.receive(message.calls);
      case "lease":
        return this.#parts.ownership.renewLease(message.until);
      case "hint":
        return this.#parts.following.notify(message.uuid);
      case "followed":
        if (message.isFollowed) this.#parts.followed.set(message.uuid, true);
        else this.#parts.followed.delete(message.uuid);
    }
  }

  receive(calls: readonly EngineCall[]): void {
    // Before any of them begins: none of them is alone, nor its answer.
    this.#answers.begin(calls.length);
    const nowMs = this.#world.monotonicMs();
    for (const call of calls) {
      this.#parts.retentions.note(call.target);
      const begin = (): void => this.#begin(call, nowMs + call.budgetMs);
      if (isWorkOfTenant(call.work)) this.#parts.turns.take(this.#parts.getTenant(call.target.uuid), begin);
      else begin();
    }
  }

  /** What the engine has done since it was started. */
  get counters(): EngineCounters {
    const { counts, registry } = this.#parts;
    return { ...counts, opened: registry.opened, evicted: registry.evicted, stopped: this.#slices?.stopped ?? 0 };
  }

  /** What the engine has done and holds now, for operators. */
  get state(): EngineState {
    const { opener, registry, compactor, jobs, following, past, vectorPool, alarms } = this.#parts;
    opener.quarantine.recount();
    return {
      counters: this.counters,
      backlogs: sumBacklogs(registry.databases()),
      packs: compactor.packs,
      rebases: compactor.rebases,
      compactionsOwed: compactor.owed,
      timelineRefsMax: registry.manifests().reduce((most, { now }) => Math.max(most, now.refs.length), 0),
      collections: jobs.collections,
      replicas: following.measures,
      past: past.states.measures,
      vectorBytes: vectorPool.bytes,
      alarms: alarms.counts,
    };
  }

  /** Whether one call at most is under way. */
  get alone(): boolean {
    return this.#answers.alone;
  }

  /** Answers every caller, closes every file. */
  async close(): Promise<void> {
    const { following, sweeper, turns, jobs, spares, compactor, registry, due, places, past, vectorPool } = this.#parts;
    this.#closing = true;
    this.#housekeeping.stop();
    following.stop();
    sweeper.stop();
    turns.flush();
    await jobs.idle();
    await spares.close();
    await compactor.close();
    await past.states.close();
    await registry.closeAll();
    await due.close();
    places.close();
    // A build that was abandoned has then deleted its files.
    await vectorPool.idle();
    this.#answers.flush();
  }

  #begin(call: EngineCall, deadlineMs: number): void {
    if (call.work.kind === "unpin") return this.#unpin(call.id, call.work);
    if (call.work.kind === "ping") return this.#answers.answer({ id: call.id, txid: undefined });
    if (this.#closing)
      return this.#answers.fail(
        call.id,
        new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 }),
        undefined,
      );
    const { target, work } = call;
    switch (work.kind) {
      case "hold":
        return this.#answerAfter(call, this.#parts.ownership.hold(target.uuid, work.leaseEpoch));
      case "let-go":
        return this.#answerAfter(call, this.#parts.ownership.releaseDatabase(target.uuid));
      case "drop":
        return this.#answerAfter(call, this.#deleteTarget(target.uuid));
      case "take-spare":
        return this.#answerAfter(call, this.#parts.spares.take(work.name));
      case "settle-spare":
        this.#parts.spares.settle(target.uuid, work.outcome);
        return this.#answers.answer({ id: call.id, txid: undefined });
      case "purge-copies":
        return this.#answerAfter(call, this.#removeCopies(target.uuid));
      case "branch":
        if (!this.#mayServe(call)) return this.#answers.fail(call.id, new TurnedAway("unheld"), undefined);
        this.#parts.acts.run(target, work.act, call.minTxid, deadlineMs).then(
          ({ value, txid, durableTxid }) => this.#answers.answer({ id: call.id, txid, durableTxid, value }),
          (error: unknown) => this.#answers.fail(call.id, error, undefined),
        );
        return;
      default:
        this.#reach(call, deadlineMs);
    }
  }

  /** Answers the call, which speaks of no state, when the act is over. */
  #answerAfter({ id }: EngineCall, act: Promise<boolean | string | void>): void {
    act.then(
      (value) => this.#answers.answer({ id, txid: undefined, value }),
      (error: unknown) => this.#answers.fail(id, error, undefined),
    );
  }

  /** Whether the call may be answered here at all: what needs the database's lease, only while this node holds it. */
  #mayServe({ target, work, consistency }: EngineCall): boolean {
    const isRead = work.kind === "read" || work.kind === "pin";
    return (isRead && consistency !== "primary") || this.#parts.leaseState.getLeaseEpoch(target.uuid) !== undefined;
  }

  /**
   * Runs the call on the open database. Looks anew after each wait: the handle, or the lease, may be gone meanwhile.
   */
  #reach(call: EngineCall, deadlineMs: number): void {
    const { id, target, minTxid, consistency } = call;
    if (!this.#mayServe(call)) return this.#answers.fail(id, new TurnedAway("unheld"), undefined);
    const isHeld = this.#parts.leaseState.getLeaseEpoch(target.uuid) !== undefined;
    const database = isHeld ? this.#parts.registry.current(target) : undefined;
    if (database) return this.#run(call, database, deadlineMs);
    const reached = isHeld
      ? this.#parts.registry.use(target, deadlineMs).then(() => this.#reach(call, deadlineMs))
      : this.#parts.following.reach(target, { minTxid, consistency }, deadlineMs).then((copy) => {
          if (!copy) return this.#answers.fail(id, new TurnedAway("behind"), undefined);
          if (this.#parts.registry.current(target) !== copy) return this.#reach(call, deadlineMs);
          this.#run(call, copy, deadlineMs);
        });
    reached.catch((error: unknown) => this.#answers.fail(id, error, undefined));
  }

  /** Looks at the logs of an earlier run, and again for as long as object storage does not answer. */
  #recover(options: EngineOptions): void {
    this.#parts.acts.recover(options).then(
      (again) => {
        if (again && !this.#closing) this.#world.after(limits.shipRetryMsMax, () => this.#recover(options));
      },
      (error: unknown) =>
        this.#send({
          kind: "event",
          level: "warn",
          message: `logs of an earlier run were not looked at (${getErrorCode(error)})`,
          uuid: "",
        }),
    );
  }

  /**
   * This thread opens the database no more, and then no thread does, as the catalog says so. A writer that has not
   * heard of it meets the fence with the next thing it ships, and reads the catalog.
   */
  async #deleteTarget(uuid: string): Promise<void> {
    const { jobs, registry, catalogs, branches, copies } = this.#parts;
    const { databasesDirectory, coordinated } = this.#options;
    if (!jobs.mayPurge)
      throw new ServiceError("overloaded", "too many deleted databases wait to be purged; try again", {
        retryAfterSecs: 60,
      });
    const files = countFiles(databasesDirectory, uuid);
    await registry.closeAndRemove(uuid);
    await catalogs.fresh(uuid);
    // Without other nodes, an unwritten database stays unwritten.
    await catalogs.update(uuid, ({ seq, deletedAtMs }) =>
      (seq === 0 && !coordinated) || deletedAtMs !== undefined ? undefined : { deletedAtMs: this.#world.nowMs() },
    );
    if (coordinated) await branches.fenceAll(uuid);
    await copies.purged(uuid, files);
    jobs.purge(uuid);
  }

  /**
   * Refuses a transaction id that this branch has never given, or that was lost. Among several nodes another one may
   * have given it unknown to this one, if it took the database since or has not yet heard that it lost it: the manifest
   * tells, and then the call is that node's. Only what this node has claimed itself, or an old manifest calls lost, is
   * sure.
   */
  async #refuseSurely(id: number, refusal: ServiceError, database: Database): Promise<void> {
    const isKnownLost =
      refusal.code !== "invalid_request" &&
      (database.claimed || this.#parts.leaseState.getLeaseEpoch(database.opened.uuid) === undefined);
    const isOurs = !this.#options.coordinated || isKnownLost;
    try {
      if (!isOurs) await database.prove();
      this.#answers.fail(id, refusal, database.safeTxid);
    } catch (error) {
      this.#answers.fail(id, error instanceof Fenced ? new TurnedAway("unheld") : error, database.safeTxid);
    }
  }

  /** What this node writes stays: the erasure that orders the removal is carried out here, and cleans it. */
  async #removeCopies(uuid: string): Promise<boolean> {
    if (this.#parts.leaseState.getLeaseEpoch(uuid) !== undefined) return false;
    await this.#parts.erasureRunner.removeCopies(uuid);
    return true;
  }

  #run(call: EngineCall, database: Database, deadlineMs: number): void {
    const { id, work } = call;
    const refusal = database.findMinTxidRefusal(call.minTxid);
    if (refusal) return void this.#refuseSurely(id, refusal, database);
    const completion = this.#buildCompletion(id, database);
    switch (work.kind) {
      case "write":
        return database.write({
          work: { ...work, ticket: id },
          bytes: work.bytes,
          deadlineMs,
          durable: call.durable,
          completion,
        });
      case "sql":
        return database.write({ work, bytes: work.bytes, deadlineMs, durable: call.durable, completion });
      case "read":
        if (work.at !== undefined) return this.#readPast(call, work.at, work, database, deadlineMs);
        return database.read(work.command, work.input, completion, call.consistency === "primary");
      case "sync":
        return database.sync(completion);
      case "diff":
        return void this.#diff(call, work.asked, database, deadlineMs);
      case "pin": {
        if (work.at !== undefined) return this.#pinPast(call, work.at, database, deadlineMs);
        const value = this.#pins.pin(id, database, call.consistency === "primary");
        return completion.done({ txid: database.safeTxid, value });
      }
      default:
        // The others were taken care of before a database was looked up.
        return;
    }
  }

  #readPast(
    { id, consistency }: EngineCall,
    at: string,
    { command, input }: Extract<Work, { kind: "read" }>,
    database: Database,
    deadlineMs: number,
  ): void {
    const asked = { at, consistency, deadlineMs };
    void this.#parts.past.reads.read(database, asked, command, input, this.#buildCompletion(id, database));
  }

  async #diff({ id, target }: EngineCall, asked: DiffAsked, after: Database, deadlineMs: number): Promise<void> {
    const { registry, past } = this.#parts;
    try {
      const { fromBranch: branch = target.branch } = asked;
      const before = branch === target.branch ? after : await registry.use({ ...target, branch }, deadlineMs);
      this.#answers.answer({ id, ...(await past.diffs.page(before, after, asked, deadlineMs)) });
    } catch (error) {
      this.#answers.fail(id, error, after.safeTxid);
    }
  }

  /** As a pin of the database, of the file of an earlier state. */
  #pinPast({ id, consistency }: EngineCall, at: string, database: Database, deadlineMs: number): void {
    this.#parts.past.reads.pin(database, { at, consistency, deadlineMs }).then(
      (file) => {
        const value = this.#pins.pin(id, file, false);
        this.#answers.answer({ id, txid: file.txid, durableTxid: file.durableTxid, value });
      },
      (error: unknown) => this.#answers.fail(id, error, database.safeTxid),
    );
  }

  #buildCompletion(id: number, database: Pick<Database, "durableTxid">): Completion {
    return {
      done: ({ txid, value }) => this.#answers.answer({ id, txid, durableTxid: database.durableTxid, value }),
      failed: (error, txid) => this.#answers.fail(id, error, txid),
    };
  }

  #unpin(id: number, { token, seenTxid }: Extract<Work, { kind: "unpin" }>): void {
    if (this.#pins.unpin(token, seenTxid, (database) => this.#buildCompletion(id, database))) return;
    this.#answers.fail(
      id,
      new ServiceError("unavailable", "the engine was started anew during the read", { retryAfterSecs: 1 }),
      undefined,
    );
  }
}
