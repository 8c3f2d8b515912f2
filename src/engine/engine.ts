/**
 * One engine thread's worth of engine: calls in, answers out, both in batches, whatever carries them.
 *
 * Runs in a worker thread (engine/thread) or inline on the caller's thread in a simulation. Must not know which.
 */
import { ServiceError, StoreError, refusalOf } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Cancel, World } from "../base/world.ts";
import { VectorPool, type IndexBuilder } from "../model/vector-index.ts";
import type { Disk } from "../sqlite/wal.ts";
import { codeOf, type Database, type Settle } from "./database.ts";
import type { EngineAnswer, EngineCall, EngineCounters, EngineOptions, FromEngine, Pinned, Work } from "./protocol.ts";
import { Registry } from "./registry.ts";

export interface EngineSurroundings {
  readonly options: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly indexBuilder: IndexBuilder | undefined;
  readonly send: (message: FromEngine) => void;
}

const housekeepingMs = 1_000;

export class Engine {
  readonly #world: World;
  readonly #send: (message: FromEngine) => void;
  readonly #registry: Registry;
  readonly #vectorPool: VectorPool;
  readonly #counters = { groups: 0, writes: 0, fsyncs: 0 };
  /** Databases held open for reader threads, by the token that ends the pin: it must reach that very handle. */
  readonly #pins = new Map<number, Database>();
  #answers: EngineAnswer[] = [];
  #underWay = 0;
  #flushing = false;
  #closing = false;
  #cancelHousekeeping: Cancel = () => {};
  readonly #sweptAtMs = new WeakMap<Database, number>();

  constructor({ options, world, disk, indexBuilder, send }: EngineSurroundings) {
    this.#world = world;
    this.#send = send;
    this.#vectorPool = new VectorPool({ buildIndex: indexBuilder });
    this.#registry = new Registry({
      engine: options,
      world,
      disk,
      vectorPool: this.#vectorPool,
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
    this.#keepHouse(housekeepingMs);
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
    await this.#registry.closeAll();
    // A build that was abandoned has then deleted its files.
    await this.#vectorPool.idle();
    this.#flush();
  }

  #begin(call: EngineCall): void {
    this.#underWay++;
    if (call.work.kind === "unpin") return this.#unpin(call.id, call.work);
    if (this.#closing) return this.#fail(call.id, new ServiceError("unavailable", "the node is shutting down", { retryAfterSecs: 1 }), undefined);
    const deadlineMs = this.#world.monotonicMs() + call.budgetMs;
    if (call.work.kind === "drop") {
      this.#registry.drop(call.target).then(
        () => this.#answer({ id: call.id, txid: undefined }),
        (error: unknown) => this.#fail(call.id, error, undefined),
      );
      return;
    }
    const database = this.#registry.current(call.target);
    if (database) return this.#run(call, database, deadlineMs);
    this.#registry
      .use(call.target, deadlineMs)
      .then((opened) => this.#run(call, opened, deadlineMs))
      .catch((error: unknown) => this.#fail(call.id, error, undefined));
  }

  #run(call: EngineCall, database: Database, deadlineMs: number): void {
    const { id, work } = call;
    // What the writer never gave cannot be waited for.
    if (call.minTxid > database.txid) {
      const message = `Service-Min-Txid ${call.minTxid} was never given by this branch, which stands at ${database.safeTxid}`;
      return this.#fail(id, new ServiceError("invalid_request", message), database.safeTxid);
    }
    const settle: Settle = {
      done: (answer) => this.#answer({ id, txid: answer.txid, value: answer.value }),
      failed: (error, txid) => this.#fail(id, error, txid),
    };
    switch (work.kind) {
      case "write":
      case "sql":
        return database.write({ work, bytes: work.bytes, deadlineMs, settle });
      case "read":
        return database.read(work.command, work.input, settle);
      case "pin":
        database.pin();
        this.#pins.set(id, database);
        return this.#answer({ id, txid: database.safeTxid, value: { path: database.path, token: id } satisfies Pinned });
      case "unpin":
      case "drop":
        // Both were taken care of before a database was looked up.
        return;
    }
  }

  #unpin(id: number, { token, seenTxid }: Extract<Work, { kind: "unpin" }>): void {
    const database = this.#pins.get(token);
    this.#pins.delete(token);
    if (!database) return this.#fail(id, new ServiceError("unavailable", "the engine was started anew during the read", { retryAfterSecs: 1 }), undefined);
    database.unpin(seenTxid, {
      done: (answer) => this.#answer({ id, txid: answer.txid, value: answer.value }),
      failed: (error, txid) => this.#fail(id, error, txid),
    });
  }

  #answer(answer: EngineAnswer): void {
    this.#underWay--;
    this.#answers.push(answer);
    if (this.#flushing) return;
    this.#flushing = true;
    this.#world.soon(() => this.#flush());
  }

  #fail(id: number, error: unknown, txid: number | undefined): void {
    const refusal = refusalOf(error) ?? refusalOfFault(error);
    if (refusal) return this.#answer({ id, txid, refusal });
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    this.#answer({ id, txid, fault: { message, stack: stack ?? "" } });
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
      if (!this.#closing) this.#keepHouse(more ? limits.housekeepingBudgetMs : housekeepingMs);
    });
  }

  /** Sweeps the databases whose last sweep is a minute old, a few each second. */
  #sweepSome(): void {
    const nowMs = this.#world.monotonicMs();
    let begun = 0;
    for (const database of this.#registry.databases()) {
      if (nowMs - (this.#sweptAtMs.get(database) ?? -Infinity) < limits.sweepIntervalMs) continue;
      this.#sweptAtMs.set(database, nowMs);
      this.#sweep(database);
      if (++begun >= limits.sweepsPerTickMax) return;
    }
  }

  #sweep(database: Database): void {
    database.write({
      work: { kind: "write", command: "sweep", input: { rowsMax: limits.sweepRowsMax } },
      bytes: 0,
      deadlineMs: Infinity,
      settle: {
        done: (answer) => {
          if ((answer.value as { more: boolean }).more && !this.#closing) this.#sweep(database);
        },
        failed: (error) => {
          const code = refusalOf(error)?.code ?? "fault";
          this.#send({ kind: "event", level: "warn", message: `a sweep of expired rows failed (${code})`, uuid: "" });
        },
      },
    });
  }
}

function refusalOfFault(error: unknown): ReturnType<typeof refusalOf> {
  if (error instanceof StoreError && error.kind !== "corrupt") {
    return { code: "unavailable", message: "storage did not answer", detail: { retryAfterSecs: 1 } };
  }
  if (codeOf(error).startsWith("SQLITE_BUSY")) {
    return { code: "unavailable", message: "the database's file is held by another handle for a moment", detail: { retryAfterSecs: 1 } };
  }
  return undefined;
}
