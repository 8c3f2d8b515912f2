/**
 * This process's own engine: calls to databases, wherever their thread is.
 *
 * Owns the engine threads of a node, and hands user SQL to the pool of its processes. Always true: every call settles once, by its answer, its
 * deadline, or the loss of its thread; calls of one turn of the loop share one message.
 */
import { ServiceError, errorOfRefusal } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import { Recent } from "../base/recent.ts";
import type { World } from "../base/world.ts";
import { mainBranch } from "../format/names.ts";
import type { ReadKind } from "../model/commands.ts";
import type { SqlBatch } from "../model/sql.ts";
import { noAlarms, type AlarmCounts } from "./alarms.ts";
import { EnginePort, TurnedAway, type CallOptions, type PortCall } from "./engine-port.ts";
import type { LeaseSpan } from "./holdings.ts";
import type { EngineMeasures, EngineCounters } from "./measures.ts";
import type { WriteCall, SqlWriteReply } from "./sql-write.ts";
import { laneOf, type Answer, type EngineAnswer, type EngineCall, type FromEngine, type Pinned, type Target, type ToEngine, type Work } from "./protocol.ts";
import { LanesUse } from "./lanes-use.ts";
import type { JobOwner } from "./sql-job.ts";
import type { SqlPool } from "./sql-pool.ts";
import { tenantOf } from "./tenants.ts";

/** What carries messages to one engine and back. */
export interface EngineLane {
  send(message: ToEngine): void;
  /** Called once, before anything is sent. */
  listen(hear: (message: FromEngine) => void, lost: (error: unknown) => void): void;
}

/** What an engine finds out without being asked. */
export type Told = Extract<FromEngine, { kind: "fenced" | "shipped" }>;

interface Pending {
  readonly lane: number;
  readonly work: Work;
  readonly deadlineMs: number;
  readonly resolve: (answer: EngineAnswer) => void;
  readonly reject: (error: unknown) => void;
}

const restartPauseMsMin = 100;
const restartPauseMsMax = 10_000;
const noCounters: EngineCounters = { groups: 0, writes: 0, fsyncs: 0, headPuts: 0, bytesPut: 0, opened: 0, evicted: 0, stopped: 0 };

/** What a process reads. */
type ReadElsewhere = { readonly batch: SqlBatch } | { readonly command: ReadKind; readonly input: unknown };

/** What is known of a database that a read holds open. */
interface Pin {
  seenTxid: number | undefined;
}

/** Deadlines are looked at this often: a refusal may come this much late, and no call costs a timer. */
const deadlineCheckMs = 50;

export class EngineClient extends EnginePort {
  readonly #lanes: EngineLane[];
  readonly #spawn: (lane: number) => EngineLane;
  readonly #sql: SqlPool | undefined;
  readonly #lanesUse: LanesUse;
  /** Names of databases, by uuid. */
  readonly #names = new Recent<string, string>(limits.retentionsHeldMax);
  readonly #world: World;
  readonly #log: Log;
  readonly #pending = new Map<number, Pending>();
  readonly #outgoing: EngineCall[][];
  /** Who waits for what a thread measures. */
  readonly #measuring = new Map<number, (measures: EngineMeasures) => void>();
  readonly #closed: PromiseWithResolvers<EngineCounters>[];
  /** Lanes whose engine was lost and is not started again yet, by how long the next start waits. */
  readonly #down = new Set<number>();
  readonly #restartPauseMs: number[];
  /** What an operator must look at, by lane. */
  readonly #alarms: AlarmCounts[] = [];
  #nextId = 1;
  #lease: LeaseSpan | undefined;
  #told: ((message: Told) => void) | undefined;
  #closing = false;
  #flushing = false;
  #checking = false;

  /**
   * `spawn` starts the engine of one lane; it is called again for an engine that was lost. `tellTenants` hears how many
   * tenants have calls under way on a lane.
   */
  constructor(threads: number, spawn: (lane: number) => EngineLane, sql: SqlPool | undefined, world: World, log: Log, tellTenants: (lane: number, count: number) => void = () => {}) {
    super();
    this.#lanesUse = new LanesUse(threads, tellTenants);
    this.#spawn = spawn;
    this.#sql = sql;
    this.#world = world;
    this.#log = log;
    this.#lanes = Array.from({ length: threads }, (_, index) => this.#start(index));
    this.#outgoing = this.#lanes.map(() => []);
    this.#closed = this.#lanes.map(() => Promise.withResolvers<EngineCounters>());
    this.#restartPauseMs = this.#lanes.map(() => restartPauseMsMin);
  }

  async run(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    switch (call.kind) {
      case "sql-read":
        return this.#readElsewhere(target, { batch: call.batch }, options);
      case "sql-write":
        return this.#call(target, { kind: "sql", batch: call.batch, ticket: this.#nextId++, bytes: options.bytes ?? 0 }, options);
      case "write":
        return this.#call(target, { ...call, bytes: options.bytes ?? 0 }, options);
      case "read":
      case "sync":
      case "branch":
      case "drop":
        return this.#call(target, call, options);
    }
  }

  /** This node holds the database's lease under the term: what is open is brought to the newest head, and writes are taken. */
  async hold(uuid: string, term: number, options: CallOptions): Promise<void> {
    await this.#call({ uuid, branch: mainBranch }, { kind: "hold", term }, options);
  }

  /** Takes no more writes of the database, ships what there is and gives back what was reserved. Resolves when another node may have it. */
  async letGo(uuid: string, options: CallOptions): Promise<void> {
    await this.#call({ uuid, branch: mainBranch }, { kind: "let-go" }, options);
  }

  /** Resolves when every engine thread has answered; rejects when one does not. */
  async ping(options: CallOptions): Promise<void> {
    if (this.#closing) throw new ServiceError("unavailable", "the node is shutting down");
    await Promise.all(this.#lanes.map((_, lane) => this.#call({ uuid: "", branch: mainBranch }, { kind: "ping" }, options, lane)));
  }

  /**
   * Removes what this node has of the database on its disk, and says so to the other nodes; its next use fetches it anew.
   * While this node writes it nothing happens: gives false then.
   */
  async purgeCopies(uuid: string, options: CallOptions): Promise<boolean> {
    return (await this.#call({ uuid, branch: mainBranch }, { kind: "purge-copies" }, options)).value === true;
  }

  /** A newer head of the branch is said to have landed: who follows it looks soon. */
  hint(uuid: string): void {
    this.#lanes[laneOf(uuid, this.#lanes.length)]!.send({ kind: "hint", uuid });
  }

  /** Whether other nodes follow the database: then its standard writes are shipped sooner, and each head that lands is told. */
  followed(uuid: string, isFollowed = true): void {
    this.#lanes[laneOf(uuid, this.#lanes.length)]!.send({ kind: "followed", uuid, isFollowed });
  }

  /** Until when this node's leases surely hold; undefined when they are lost, and every database with them. */
  renewLease(until: LeaseSpan | undefined): void {
    this.#lease = until;
    // What was asked under the lease before must not come after its loss.
    this.#flush();
    for (const [index, lane] of this.#lanes.entries()) if (!this.#down.has(index)) lane.send({ kind: "lease", until });
  }

  /** What an operator must look at, as the engine threads have said last. */
  get alarms(): AlarmCounts {
    return this.#alarms.reduce((sum, { quarantined, lost, wentBack }) => ({ quarantined: sum.quarantined + quarantined, lost: sum.lost + lost, wentBack: sum.wentBack + wentBack }), noAlarms);
  }

  /** What each engine thread measures of itself; undefined for one that does not answer soon. */
  measure(): Promise<readonly (EngineMeasures | undefined)[]> {
    return Promise.all(this.#lanes.map((_, index) => this.#measureLane(index)));
  }

  #measureLane(index: number): Promise<EngineMeasures | undefined> {
    if (this.#down.has(index)) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const id = this.#nextId++;
      const end = (measures?: EngineMeasures): void => {
        cancel();
        this.#measuring.delete(id);
        resolve(measures);
      };
      const cancel = this.#world.after(limits.measureMs, () => end());
      this.#measuring.set(id, end);
      this.#lanes[index]!.send({ kind: "measure", id });
    });
  }

  /** Has a process run user SQL that reads, or a read that takes long, on the database's file, which is held open meanwhile. */
  async #readElsewhere(target: Target, read: ReadElsewhere, options: CallOptions): Promise<Answer> {
    const { promise: timeUp, reject } = Promise.withResolvers<never>();
    const leftMs = Math.max(0, options.deadlineMs - this.#world.monotonicMs());
    const pin: Pin = { seenTxid: undefined };
    const cancel = this.#world.after(leftMs + deadlineCheckMs, () => reject(outOfTime(pin.seenTxid)));
    try {
      return await Promise.race([this.#pinnedRead(target, read, options, pin), timeUp]);
    } finally {
      cancel();
    }
  }

  /** Outlives its caller where it must: whoever has pinned a file unpins it, however late. */
  async #pinnedRead(target: Target, read: ReadElsewhere, options: CallOptions, pin: Pin): Promise<Answer> {
    if (!this.#sql) throw noProcesses();
    const pinned = (await this.#call(target, { kind: "pin" }, { ...options, deadlineMs: Infinity })) as Answer<Pinned>;
    let seenTxid = (pin.seenTxid = pinned.txid);
    try {
      const { deadlineMs, signal } = options;
      const { path, nowMs, retention } = pinned.value;
      const place = { path, ticket: this.#nextId++ };
      const answer = await this.#sql.read(this.#ownerOf(target), "batch" in read ? { ...place, ...read } : { ...place, ...read, nowMs, retention }, deadlineMs, signal);
      seenTxid = Math.max(seenTxid, answer.txid ?? 0);
      const value = this.#valueOf({ ...answer, txid: seenTxid });
      return { value, txid: seenTxid, durableTxid: pinned.durableTxid };
    } catch (error) {
      // Refused while it waited for a thread: the database was reached all the same.
      const isBare = error instanceof ServiceError && error.detail.txid === undefined;
      throw isBare ? new ServiceError(error.code, error.message, { ...error.detail, txid: seenTxid }) : error;
    } finally {
      await this.#call(target, { kind: "unpin", token: pinned.value.token, seenTxid }, { deadlineMs: Infinity });
    }
  }

  /** Says who is told of what engines find out: of fenced branches and shipped ones. At most one. */
  tell(told: (message: Told) => void): void {
    this.#told = told;
  }

  /** Lets every engine answer what it owes and close its files. */
  async close(): Promise<EngineCounters[]> {
    this.#closing = true;
    // Readers first: what they hold open is let go of, and the engines can close it. What writes is answered before.
    await this.#sql?.closeReads();
    this.#flush();
    for (const [index, lane] of this.#lanes.entries()) {
      if (this.#down.has(index)) this.#closed[index]!.resolve(noCounters);
      else lane.send({ kind: "close" });
    }
    const counters = await Promise.all(this.#closed.map(({ promise }) => promise));
    await this.#sql?.close();
    return counters;
  }

  #start(index: number): EngineLane {
    // What one before it has met, the new thread meets again.
    this.#alarms[index] = noAlarms;
    const lane = this.#spawn(index);
    lane.listen((message) => this.#hear(index, message), (error) => this.#lost(index, error));
    return lane;
  }

  async #call(target: Target, work: Work, options: CallOptions, lane = laneOf(target.uuid, this.#lanes.length)): Promise<Answer> {
    const { uuid, database } = target;
    if (database !== undefined && this.#names.peek(uuid) !== database) this.#names.set(uuid, database);
    const tenant = tenantOf(target);
    this.#lanesUse.begin(lane, tenant);
    const answered = new Promise<EngineAnswer>((resolve, reject) => {
      const id = this.#nextId++;
      if (this.#down.has(lane)) return reject(new ServiceError("unavailable", "the engine thread was lost and is being started again", { retryAfterSecs: 1 }));
      const budgetMs = options.deadlineMs - this.#world.monotonicMs();
      this.#pending.set(id, { lane, work, deadlineMs: options.deadlineMs, resolve, reject });
      this.#outgoing[lane]!.push({ id, target, work, budgetMs, minTxid: options.minTxid ?? 0, durable: options.durable ?? false, consistency: options.consistency });
      if (!this.#flushing) {
        this.#flushing = true;
        this.#world.soon(() => this.#flush());
      }
      this.#checkDeadlines();
    });
    let answer: EngineAnswer;
    try {
      answer = await answered;
    } finally {
      this.#lanesUse.end(lane, tenant);
    }
    if (answer.isLong && work.kind === "read") return this.#readElsewhere(target, { command: work.command, input: work.input }, options);
    return { value: this.#valueOf(answer), txid: answer.txid ?? 0, durableTxid: answer.durableTxid ?? 0 };
  }

  #valueOf(answer: EngineAnswer): unknown {
    if (answer.turnedAway) throw new TurnedAway(answer.turnedAway);
    if (answer.refusal) {
      const { detail } = answer.refusal;
      throw errorOfRefusal({ ...answer.refusal, detail: answer.txid === undefined ? detail : { ...detail, txid: answer.txid } });
    }
    if (answer.fault) {
      const fault = new Error(answer.fault.message);
      fault.stack = answer.fault.stack;
      throw fault;
    }
    return answer.value;
  }

  #flush(): void {
    this.#flushing = false;
    for (const [index, lane] of this.#lanes.entries()) {
      const calls = this.#outgoing[index]!;
      if (calls.length === 0) continue;
      this.#outgoing[index] = [];
      lane.send({ kind: "calls", calls });
    }
  }

  #hear(lane: number, message: FromEngine): void {
    switch (message.kind) {
      case "answers":
        this.#restartPauseMs[lane] = restartPauseMsMin;
        for (const answer of message.answers) {
          const pending = this.#pending.get(answer.id);
          this.#pending.delete(answer.id);
          pending?.resolve(answer);
        }
        this.#world.crashPoint("answered");
        return;
      case "sql-run":
        return void this.#runSql(lane, message);
      case "event":
        this.#log[message.level](message.message, { uuid: message.uuid });
        return;
      case "fenced":
      case "shipped":
        return this.#told?.(message);
      case "alarms":
        this.#alarms[lane] = message.counts;
        return;
      case "measured":
        return this.#measuring.get(message.id)?.(message.measures);
      case "closed":
        this.#closed[lane]!.resolve(message.counters);
    }
  }

  /** Nothing acknowledged is lost with a thread: it was on disk. A new thread opens the files again. */
  #lost(lane: number, error: unknown): void {
    this.#log.error("an engine thread was lost and is started again", error, { lane });
    for (const [id, pending] of this.#pending) {
      if (pending.lane !== lane) continue;
      this.#pending.delete(id);
      pending.reject(new ServiceError("unavailable", "the engine thread was lost; whether a write happened is not known", { retryAfterSecs: 1 }));
    }
    if (this.#closing) return this.#closed[lane]!.resolve(noCounters);
    // An engine that cannot start must not be started in a tight loop.
    const pauseMs = this.#restartPauseMs[lane]!;
    this.#restartPauseMs[lane] = Math.min(pauseMs * 2, restartPauseMsMax);
    this.#down.add(lane);
    // What still writes a file for the lost thread must be gone before another one opens it.
    const ended = this.#sql?.endWrites(lane);
    this.#world.after(pauseMs, async () => {
      await ended;
      if (this.#closing) return;
      this.#down.delete(lane);
      this.#lanes[lane] = this.#start(lane);
      if (this.#lease) this.#lanes[lane]!.send({ kind: "lease", until: this.#lease });
    });
  }

  /** Has a process run what an engine thread asks for, and tells it. */
  async #runSql(index: number, { call, uuid, leftMs }: Extract<FromEngine, { kind: "sql-run" }>): Promise<void> {
    const lane = this.#lanes[index]!;
    const whole = this.#withInput(call);
    const { code, message } = whole ? noProcesses() : outOfTime();
    const owner = this.#ownerOf({ uuid, database: this.#names.peek(uuid) });
    const reply: SqlWriteReply = this.#sql && whole ? await this.#sql.write(owner, index, whole, leftMs) : { kind: "refused", code, message };
    // A thread that was started since has not asked.
    if (this.#lanes[index] === lane && !this.#down.has(index)) lane.send({ kind: "sql-ran", ticket: call.ticket, reply });
  }

  /** The input of a command is here already, as that of the call whose number is its ticket; undefined when nobody waits for it any more. */
  #withInput(call: WriteCall): WriteCall | undefined {
    if ("batch" in call) return call;
    const work = this.#pending.get(call.ticket)?.work;
    return work?.kind === "write" ? { ...call, input: work.input } : undefined;
  }

  #ownerOf({ uuid, database }: Pick<Target, "uuid" | "database">): JobOwner {
    return { uuid, tenant: tenantOf({ uuid, database }) };
  }

  #checkDeadlines(): void {
    if (this.#checking) return;
    this.#checking = true;
    this.#world.after(deadlineCheckMs, () => {
      this.#checking = false;
      const nowMs = this.#world.monotonicMs();
      for (const [id, pending] of this.#pending) {
        if (pending.deadlineMs > nowMs) continue;
        this.#pending.delete(id);
        pending.reject(outOfTime());
      }
      if (this.#pending.size > 0) this.#checkDeadlines();
    });
  }
}

function noProcesses(): ServiceError {
  return new ServiceError("unconfigured", "this node runs no processes for SQL, which it needs");
}

function outOfTime(txid?: number): ServiceError {
  const message = "the request's time was over before it was answered; a write may still happen";
  return new ServiceError("request_timeout", message, txid === undefined ? {} : { txid });
}
