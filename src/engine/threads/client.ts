/**
 * This process's own engine: calls to databases, wherever their thread is.
 *
 * Numbers the calls, finds the thread of each, and counts them by tenant. Always true: every call settles once
 * (engine/api/waiting-calls). The threads themselves are owned by engine/threads/engine-lanes; what a process runs
 * instead of a thread, by engine/processes/process-work. Must not know: what becomes of a call on its thread.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import { mainBranch } from "../../format/core/names.ts";
import type { AlarmCounts } from "../api/alarms.ts";
import { EngineLanes, type EngineLane, type HeardMessage } from "./engine-lanes.ts";
import { EnginePort, type CallOptions, type PortCall } from "../api/engine-port.ts";
import type { LeaseSpan } from "../api/lease-expiry.ts";
import { LaneSpares } from "./lane-spares.ts";
import { LanesUse } from "./lanes-use.ts";
import { LongReads } from "./long-reads.ts";
import type { EngineMeasures, EngineCounters } from "../api/measures.ts";
import { DirectReaders } from "../direct-reads/direct-readers.ts";
import { ProcessWork } from "../processes/process-work.ts";
import {
  computeLane,
  type Answer,
  type EngineAnswer,
  type FromEngine,
  type Target,
  type Work,
} from "../api/protocol.ts";
import type { SqlPool } from "../processes/sql-pool.ts";
import { getTenant } from "../api/tenants.ts";
import { unwrapAnswer, WaitingCalls } from "../api/waiting-calls.ts";

/** An engine thread that does not say by then what it measures is left out of an answer. */
const measureMs = 1_000;

/** What an engine finds out without being asked. */
export type Told = Extract<FromEngine, { kind: "fenced" | "shipped" }>;

export class EngineClient extends EnginePort {
  readonly #lanes: EngineLanes;
  readonly #waiting: WaitingCalls;
  readonly #processes: ProcessWork;
  readonly #readers: DirectReaders;
  readonly #sql: SqlPool | undefined;
  readonly #lanesUse: LanesUse;
  /** Databases that were made ahead. */
  readonly spares: LaneSpares;
  readonly #longReads: LongReads;
  /** Names of databases, by uuid. */
  readonly #names = new LruMap<string, string>(limits.retentionsHeldMax);
  readonly #world: World;
  readonly #log: Log;
  /** The callers that wait for what a thread measures. */
  readonly #measuring = new Map<number, (measures: EngineMeasures) => void>();
  #nextId = 1;
  #told: ((message: Told) => void) | undefined;
  #moved: (uuid: string) => void = () => {};
  #closing = false;

  /**
   * `spawn` starts the engine of one lane; it is called again for an engine that was lost. `tellTenants` hears how many
   * tenants have calls under way on a lane.
   */
  constructor(
    threads: number,
    spawn: (lane: number) => EngineLane,
    sql: SqlPool | undefined,
    world: World,
    log: Log,
    tellTenants: (lane: number, count: number) => void = () => {},
  ) {
    super();
    this.#lanesUse = new LanesUse(threads, world, tellTenants);
    this.#longReads = new LongReads(world);
    this.#sql = sql;
    this.#world = world;
    this.#log = log;
    this.#waiting = new WaitingCalls(world);
    this.#readers = new DirectReaders(world);
    this.#processes = new ProcessWork({
      sql,
      world,
      waiting: this.#waiting,
      call: (target, work, options) => this.#call(target, work, options),
      nextTicket: () => this.#nextId++,
      findName: (uuid) => this.#names.peek(uuid),
    });
    this.spares = new LaneSpares({
      lanes: threads,
      world,
      call: (target, work, options, lane) => this.#call(target, work, options, lane),
    });
    this.#lanes = new EngineLanes({
      threads,
      spawn,
      world,
      log,
      heard: (lane, message) => this.#hear(lane, message),
      lost: (lane) => {
        this.spares.told(lane, 0);
        this.#readers.lost(lane);
        this.#waiting.lose(lane);
      },
      endWrites: (lane) => sql?.endWrites(lane),
    });
  }

  async run(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    switch (call.kind) {
      case "read":
        return this.#readDirectly(target, call, options) ?? this.#read(target, call, options);
      case "sql-read":
        return this.#processes.read(target, { batch: call.batch, at: call.at }, options);
      case "sql-write":
        return this.#change(
          target,
          { kind: "sql", batch: call.batch, ticket: this.#nextId++, bytes: options.bytes ?? 0 },
          options,
        );
      case "write":
        return this.#change(target, { ...call, bytes: options.bytes ?? 0 }, options);
      case "diff":
      case "sync":
      case "drop":
        return this.#call(target, call, options);
      case "branch":
        return this.#change(target, call, options);
    }
  }

  /**
   * This node holds the database's lease under the lease epoch: what is open is brought to the newest manifest, and
   * writes are taken.
   */
  async hold(uuid: string, leaseEpoch: number, options: CallOptions): Promise<void> {
    await this.#call({ uuid, branch: mainBranch }, { kind: "hold", leaseEpoch }, options);
  }

  /**
   * Takes no more writes of the database, ships what there is and releases what was reserved. Resolves when another
   * node may have it.
   */
  async releaseDatabase(uuid: string, options: CallOptions): Promise<void> {
    await this.#call({ uuid, branch: mainBranch }, { kind: "let-go" }, options);
  }

  /** Resolves when every engine thread has answered; rejects when one does not. */
  async ping(options: CallOptions): Promise<void> {
    if (this.#closing) throw new ServiceError("unavailable", "the node is shutting down");
    await Promise.all(
      Array.from({ length: this.#lanes.count }, (_, lane) =>
        this.#call({ uuid: "", branch: mainBranch }, { kind: "ping" }, options, lane),
      ),
    );
  }

  /**
   * Removes what this node has of the database on its disk, and tells the other nodes; its next use fetches it anew.
   * Gives false, and does nothing, while this node writes it.
   */
  async removeCopies(uuid: string, options: CallOptions): Promise<boolean> {
    return (await this.#call({ uuid, branch: mainBranch }, { kind: "purge-copies" }, options)).value === true;
  }

  /** A newer manifest of the branch is said to have landed: who follows it looks soon. */
  notify(uuid: string): void {
    this.#moved(uuid);
    this.#lanes.send(computeLane(uuid, this.#lanes.count), { kind: "hint", uuid });
  }

  /**
   * Whether other nodes follow the database: then its standard writes are shipped sooner, and each manifest that lands
   * is told.
   */
  followed(uuid: string, isFollowed = true): void {
    this.#lanes.send(computeLane(uuid, this.#lanes.count), { kind: "followed", uuid, isFollowed });
  }

  /** Until when this node's leases surely hold; undefined when they are lost, and every database with them. */
  renewLease(until: LeaseSpan | undefined): void {
    if (until === undefined) this.#readers.closeAll();
    this.#lanes.renewLease(until);
  }

  /** What an operator must look at, as the engine threads have said last. */
  get alarms(): AlarmCounts {
    return this.#lanes.alarms;
  }

  /** What each engine thread measures of itself; undefined for one that does not answer soon. */
  measure(): Promise<readonly (EngineMeasures | undefined)[]> {
    return Promise.all(Array.from({ length: this.#lanes.count }, (_, index) => this.#measureLane(index)));
  }

  #measureLane(index: number): Promise<EngineMeasures | undefined> {
    if (!this.#lanes.current(index)) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const id = this.#nextId++;
      const end = (measures?: EngineMeasures): void => {
        cancel();
        this.#measuring.delete(id);
        resolve(measures);
      };
      const cancel = this.#world.after(measureMs, () => end());
      this.#measuring.set(id, end);
      this.#lanes.send(index, { kind: "measure", id });
    });
  }

  /** Sets the listener for what engines find out: fenced branches and shipped ones. At most one. */
  tell(told: (message: Told) => void): void {
    this.#told = told;
  }

  /** Sets the listener for databases that may have changed, by a write here or as another node says. At most one. */
  whenMoved(moved: (uuid: string) => void): void {
    this.#moved = moved;
  }

  /** Lets every engine answer what it owes and close its files. */
  async close(): Promise<EngineCounters[]> {
    this.#closing = true;
    this.#lanes.startNone();
    // Readers first: what they hold open is released, and the engines can close it. What writes is answered before.
    await this.#sql?.closeReads();
    const counters = await this.#lanes.close();
    await this.#sql?.close();
    return counters;
  }

  /** The answer, where this thread may read the file by itself and the caller does not ask for the branch's writer. */
  #readDirectly(
    target: Target,
    { command, input, at }: Extract<PortCall, { kind: "read" }>,
    { minTxid = 0, consistency }: CallOptions,
  ): Answer | undefined {
    if (this.#closing || consistency === "primary" || at !== undefined) return undefined;
    return this.#readers.read(target, { command, input, minTxid });
  }

  async #change(target: Target, work: Work, options: CallOptions): Promise<Answer> {
    const answer = await this.#call(target, work, options);
    this.#moved(target.uuid);
    return answer;
  }

  /** One of a kind that has taken long goes to a process at once, where other tenants would wait for it. */
  #read(target: Target, call: Extract<PortCall, { kind: "read" }>, options: CallOptions): Promise<Answer> {
    const { uuid } = target;
    const isShared = this.#lanesUse.wasShared(computeLane(uuid, this.#lanes.count));
    const { command, input, at } = call;
    if (isShared && this.#sql && this.#longReads.expects(uuid, command))
      return this.#processes.read(target, { command, input, at }, options);
    return this.#call(target, call, options);
  }

  async #call(
    target: Target,
    work: Work,
    options: CallOptions,
    lane = computeLane(target.uuid, this.#lanes.count),
  ): Promise<Answer> {
    const { uuid, database } = target;
    if (database !== undefined && this.#names.peek(uuid) !== database) this.#names.set(uuid, database);
    const tenant = getTenant(target);
    this.#lanesUse.begin(lane, tenant);
    const answered = new Promise<EngineAnswer>((resolve, reject) => {
      const id = this.#nextId++;
      if (!this.#lanes.current(lane))
        return reject(
          new ServiceError("unavailable", "the engine thread was lost and is being started again", {
            retryAfterSecs: 1,
          }),
        );
      const budgetMs = options.deadlineMs - this.#world.monotonicMs();
      this.#lanes.post(lane, {
        id,
        target,
        work,
        budgetMs,
        minTxid: options.minTxid ?? 0,
        durable: options.durable ?? false,
        consistency: options.consistency,
      });
      this.#waiting.add(id, { lane, work, deadlineMs: options.deadlineMs, resolve, reject });
    });
    let answer: EngineAnswer;
    try {
      answer = await answered;
    } finally {
      this.#lanesUse.end(lane, tenant);
    }
    if (answer.isLong && work.kind === "read") {
      const { command, input, at } = work;
      this.#longReads.note(uuid, command);
      return this.#processes.read(target, { command, input, at }, options);
    }
    return { value: unwrapAnswer(answer), txid: answer.txid ?? 0, durableTxid: answer.durableTxid ?? 0 };
  }

  #hear(lane: number, message: HeardMessage): void {
    switch (message.kind) {
      case "answers":
        for (const answer of message.answers) this.#waiting.answer(answer);
        this.#world.crashPoint("answered");
        return;
      case "read-permit":
      case "read-permit-ended":
        return this.#readers.hear(lane, message);
      case "sql-run":
        return void this.#runInProcess(lane, message);
      case "event":
        this.#log[message.level](message.message, { uuid: message.uuid });
        return;
      case "fenced":
      case "shipped":
        return this.#told?.(message);
      case "spares":
        return this.spares.told(lane, message.ready);
      case "measured":
        return this.#measuring.get(message.id)?.(message.measures);
    }
  }

  /** Has a process run what an engine thread asks for, and tells it. */
  async #runInProcess(index: number, message: Extract<FromEngine, { kind: "sql-run" }>): Promise<void> {
    const lane = this.#lanes.current(index);
    const reply = await this.#processes.write(index, message);
    // A thread that was started since has not asked.
    if (lane && this.#lanes.current(index) === lane) lane.send({ kind: "sql-ran", ticket: message.call.ticket, reply });
  }
}
