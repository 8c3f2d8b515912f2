/**
 * One open database branch: its queue, its commit groups, its fsync, its reads.
 *
 * Owns the only writable connection to the file. Always true: an answer, of a write or a read, leaves only when the
 * state it speaks of is on disk (`#synced`); transaction ids rise by one per group that changed something; a failed
 * fsync ends this handle and nothing of the group is answered as done. Must not know: threads, wires, other databases.
 */
import { assert } from "../base/assert.ts";
import { Batcher } from "../base/batcher.ts";
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Watermark } from "../base/watermark.ts";
import type { World } from "../base/world.ts";
import { runRead, runWrite, type ReadKind, type WriteKind } from "../model/commands.ts";
import { writeState } from "../model/schema.ts";
import { writeSql, type SqlBatch, type SqlStatementResult } from "../model/sql.ts";
import type { Tx, View } from "../model/transaction.ts";
import type { VectorCache } from "../model/vector-index.ts";
import { isDiskFull, isFatal, runAlone, runGroup, type Deferred } from "../sqlite/group.ts";
import { SqlGuard } from "../sqlite/guard.ts";
import { WalFile, type Disk } from "../sqlite/wal.ts";
import type { Opened } from "./recovery.ts";

/** An answer together with the state it speaks of. */
export interface Answer<Value = unknown> {
  readonly value: Value;
  readonly txid: number;
}

export interface Settle {
  done(answer: Answer): void;
  failed(error: unknown, txid: number): void;
}

interface WriteItem {
  readonly work:
    | { readonly kind: "write"; readonly command: WriteKind; readonly input: unknown }
    | { readonly kind: "sql"; readonly batch: SqlBatch; readonly ticket: number };
  readonly bytes: number;
  readonly deadlineMs: number;
  readonly settle: Settle;
}

/** What a database tells whoever holds it. */
export interface DatabaseEvents {
  /** User SQL is about to hold the thread; whoever listens interrupts it when `budgetMs` is over. */
  running(handle: number, ticket: number, budgetMs: number): void;
  stopped(ticket: number): void;
  committed(writes: number): void;
  synced(): void;
  /** Storage failed; the handle must be given up and rebuilt. */
  poisoned(error: unknown): void;
  /** Something an operator should know; never content. */
  notice(message: string): void;
}

export interface DatabaseOptions {
  readonly opened: Opened;
  readonly world: World;
  readonly disk: Disk;
  readonly vectors: VectorCache;
  readonly writeQueueDepth: number;
  readonly events: DatabaseEvents;
}

const storageFailed = (): ServiceError =>
  new ServiceError("unavailable", "the database's storage failed; whether this write happened is not known", { retryAfterSecs: 1 });

export class Database {
  readonly #opened: Opened;
  readonly #world: World;
  readonly #events: DatabaseEvents;
  readonly #vectors: VectorCache;
  readonly #wal: WalFile;
  readonly #queue: Batcher<WriteItem>;
  readonly #synced: Watermark;
  /** Length of the log after the last round: asking the file for every write would cost a call of the system each. */
  #walBytes: number;
  /** The log is folded in when it has this many bytes; raised when a reader stood in the way. */
  #checkpointBytes: number = limits.walCheckpointBytes;
  #checkpointTriedMs = 0;
  #committedTxid: number;
  #committedAtMs: number;
  #syncing = false;
  #guard: SqlGuard | undefined;
  #parked = 0;
  #pins = 0;
  #poison: { readonly error: unknown } | undefined;
  /** Commands a second while busy, smoothed: what Retry-After is computed from. */
  #drainRate = 1_000;
  #busySinceMs: number | undefined;
  #settledSince = 0;
  lastUsedMs: number;

  constructor(options: DatabaseOptions) {
    const { opened, world, disk } = options;
    this.#opened = opened;
    this.#world = world;
    this.#events = options.events;
    this.#vectors = options.vectors;
    this.#wal = new WalFile(opened.connection.path, disk);
    this.#committedTxid = opened.state.txid;
    this.#committedAtMs = opened.state.committedAtMs;
    // A log that survived a crash was read back, but nobody knows whether it is on disk: the first answer syncs it.
    this.#walBytes = this.#wal.bytes();
    const recovered = this.#walBytes > 0;
    this.#synced = new Watermark(recovered ? opened.state.txid - 1 : opened.state.txid);
    this.lastUsedMs = world.monotonicMs();
    this.#queue = new Batcher<WriteItem>({
      capacity: options.writeQueueDepth,
      itemsMax: limits.groupCommandsMax,
      bytesMax: limits.groupBytesMax,
      waitingBytesMax: limits.writeQueueBytesMax,
      sizeOf: (item) => item.bytes,
      act: (items) => this.#commitRound(items),
      // A hung disk must not let committed but unanswered writes pile up: then the queue fills and sheds.
      ready: (waiting) => !this.#syncing || (waiting >= limits.groupCommandsEager && this.#parked < options.writeQueueDepth),
      soon: (act) => world.soon(act),
      onBug: (error, items) => {
        for (const item of items) item.settle.failed(error, this.safeTxid);
      },
    });
    if (recovered) this.#startSync();
  }

  get txid(): number {
    return this.#committedTxid;
  }

  /** The newest transaction id that a crash cannot take back: what a refusal that waits for nothing may speak of. */
  get safeTxid(): number {
    return Math.max(0, this.#synced.level);
  }

  get path(): string {
    return this.#opened.connection.path;
  }

  /** Whether the handle can be closed without anybody waiting for it. */
  get idle(): boolean {
    return this.#queue.idle && !this.#syncing && this.#pins === 0 && this.#parked === 0;
  }

  /** Queues a write; refused with `overloaded` when the queue is full. Settles after the fsync that covers it. */
  write(item: WriteItem): void {
    if (item.work.kind === "sql" || item.work.command !== "sweep") this.lastUsedMs = this.#world.monotonicMs();
    if (this.#poison) return item.settle.failed(storageFailed(), this.safeTxid);
    if (this.#walBytes > limits.walBytesMax) this.#checkpoint();
    if (this.#walBytes > limits.walBytesMax) return item.settle.failed(this.#overloaded("a long read holds back the log"), this.safeTxid);
    if (!this.#queue.offer(item)) item.settle.failed(this.#overloaded("the database's write queue is full"), this.safeTxid);
  }

  /** Reads the newest committed state; the answer waits for that state's fsync. */
  read(command: ReadKind, input: unknown, settle: Settle): void {
    this.lastUsedMs = this.#world.monotonicMs();
    const txid = this.#committedTxid;
    if (this.#parked >= limits.parkedAnswersMax) return settle.failed(this.#overloaded("too many answers wait for the disk"), this.safeTxid);
    let value: unknown;
    try {
      value = runRead(command, this.#view(), input);
    } catch (error) {
      this.#afterSync(txid, () => settle.failed(error, txid), settle);
      return;
    }
    this.#afterSync(txid, () => settle.done({ value, txid }), settle);
  }

  /** Keeps the handle open while another thread reads the file. */
  pin(): void {
    this.lastUsedMs = this.#world.monotonicMs();
    this.#pins++;
  }

  /** Ends a pin and answers once what the reader saw is on disk. */
  unpin(seenTxid: number, settle: Settle): void {
    assert(this.#pins > 0, "a pin ends once");
    this.#pins--;
    this.lastUsedMs = this.#world.monotonicMs();
    this.#afterSync(seenTxid, () => settle.done({ value: undefined, txid: seenTxid }), settle);
  }

  /** Whether another thread reads the file now. */
  get pinned(): boolean {
    return this.#pins > 0;
  }

  /** Whether an fsync of the log is under way. */
  get syncing(): boolean {
    return this.#syncing;
  }

  /** Checkpoints and closes. Call when idle. */
  close(): void {
    assert(this.idle, "a database is closed when nobody waits for it");
    this.#vectors.drop();
    this.#guard?.detach();
    try {
      if (this.#wal.bytes() > 0) this.#wal.checkpoint(this.#opened.connection);
    } catch (error) {
      // The log stays and holds everything; it is folded in at another time.
      this.#events.notice(`the log was not folded in at close (${codeOf(error)})`);
    } finally {
      this.#wal.close();
      this.#opened.connection.close();
    }
  }

  /** Gives the handle up after a storage failure: everyone is refused, the log stays for its proof. Call when nobody reads or syncs. */
  abandon(): void {
    assert(!this.#syncing && this.#pins === 0, "a handle is abandoned when nobody uses its files");
    for (const item of this.#queue.drain()) item.settle.failed(storageFailed(), this.safeTxid);
    this.#vectors.drop();
    this.#guard?.detach();
    this.#wal.closeKeeping(this.#opened.connection);
  }

  #view(): View {
    return { connection: this.#opened.connection, nowMs: Math.max(this.#world.nowMs(), this.#committedAtMs), vectors: this.#vectors };
  }

  /** One round of the loop: our own commands in one group, each batch of user SQL alone, in the order they came. */
  #commitRound(items: readonly WriteItem[]): void {
    const nowMs = this.#world.monotonicMs();
    this.#busySinceMs ??= nowMs;
    const live = items.filter((item) => item.deadlineMs > nowMs);
    for (const item of items) {
      if (item.deadlineMs <= nowMs) item.settle.failed(new ServiceError("request_timeout", "the request's time was over before its write began"), this.safeTxid);
    }
    for (let from = 0; from < live.length; ) {
      if (this.#poison) {
        live[from++]!.settle.failed(storageFailed(), this.safeTxid);
        continue;
      }
      let to = from + 1;
      if (live[from]!.work.kind === "sql") {
        this.#commitSql(live[from]!);
      } else {
        while (to < live.length && live[to]!.work.kind === "write") to++;
        this.#commitGroup(live.slice(from, to));
      }
      from = to;
    }
    this.#settledSince += items.length;
    if (this.#poison) return;
    this.#walBytes = this.#wal.bytes();
    if (this.#walBytes >= this.#checkpointBytes) this.#checkpoint();
  }

  /** Folds the log in unless a reader stands in the way; then it grows by as much again before the next try, or for a second. */
  #checkpoint(): void {
    const nowMs = this.#world.monotonicMs();
    if (this.#walBytes < this.#checkpointBytes && nowMs - this.#checkpointTriedMs < limits.checkpointRetryMs) return;
    this.#checkpointTriedMs = nowMs;
    try {
      const done = this.#wal.checkpoint(this.#opened.connection);
      if (done) this.#walBytes = 0;
      this.#checkpointBytes = this.#walBytes + limits.walCheckpointBytes;
    } catch (error) {
      if (!isDiskFull(error)) return this.#poisonWith(error);
      // The log itself is whole and goes on growing within its bound.
      this.#checkpointBytes = this.#walBytes + limits.walCheckpointBytes;
      this.#events.notice("the disk is full: the log could not be folded in");
    }
  }

  #commitGroup(items: readonly WriteItem[]): void {
    const view = this.#view();
    const commands = items.map((item) => (deferred: Deferred) => {
      assert(item.work.kind === "write", "user SQL has a transaction of its own");
      return runWrite(item.work.command, this.#tx(view, deferred), item.work.input);
    });
    try {
      const group = runGroup(this.#opened.connection, commands, () => this.#seal(view.nowMs));
      if (group.changed) this.#committed(view.nowMs, items.length);
      this.#followCommit(group.afterCommit);
      const txid = this.#committedTxid;
      for (const [index, outcome] of group.outcomes.entries()) {
        const { settle } = items[index]!;
        if (outcome.kind === "done") this.#afterSync(txid, () => settle.done({ value: outcome.result, txid }), settle);
        else this.#afterSync(txid, () => settle.failed(outcome.error, txid), settle);
      }
    } catch (error) {
      if (items.length === 1 || isFatal(error)) return this.#groupFailed(error, items);
      // Nothing has happened. Whatever failed the group as a whole, it is one command's doing: the others go on without it.
      for (const item of items) {
        if (this.#poison) item.settle.failed(storageFailed(), this.safeTxid);
        else this.#commitGroup([item]);
      }
    }
  }

  #commitSql(item: WriteItem): void {
    assert(item.work.kind === "sql", "only user SQL comes here");
    const { batch, ticket } = item.work;
    const { connection } = this.#opened;
    const nowMs = this.#view().nowMs;
    try {
      const guard = (this.#guard ??= SqlGuard.attach(connection));
      const budgetMs = Math.min(limits.sqlWriteBudgetMs, item.deadlineMs - this.#world.monotonicMs());
      this.#events.running(guard.handle, ticket, budgetMs);
      const { result, changed } = runAlone<SqlStatementResult[]>(
        connection,
        () => writeSql(connection, guard, ticket, batch),
        () => this.#seal(nowMs),
      );
      if (changed) this.#committed(nowMs, 1);
      const txid = this.#committedTxid;
      this.#afterSync(txid, () => item.settle.done({ value: result, txid }), item.settle);
    } catch (error) {
      this.#groupFailed(error, [item]);
    } finally {
      this.#events.stopped(ticket);
      // User DDL expires prepared statements; ours are few and quickly made again.
      connection.forgetStatements();
    }
  }

  /** Tells the derived caches what was committed. They may be lost at any time, so a fault of theirs empties them. */
  #followCommit(acts: readonly (() => void)[]): void {
    try {
      for (const act of acts) act();
    } catch (error) {
      this.#vectors.drop();
      this.#events.notice(`a derived cache failed and was emptied (${codeOf(error)})`);
    }
  }

  #seal(nowMs: number): void {
    writeState(this.#opened.connection, { txid: this.#committedTxid + 1, committedAtMs: nowMs });
  }

  #committed(nowMs: number, writes: number): void {
    this.#world.crashPoint("committed");
    this.#committedTxid++;
    this.#committedAtMs = nowMs;
    this.#events.committed(writes);
    this.#startSync();
  }

  /** The transaction was rolled back: nobody's write happened. A disk that failed ends the handle as well. */
  #groupFailed(error: unknown, items: readonly WriteItem[]): void {
    const txid = this.safeTxid;
    let answer = error;
    if (isDiskFull(error)) {
      answer = new ServiceError("unavailable", "the node's disk is full; nothing was written", { retryAfterSecs: 30 });
    } else if (isFatal(error)) {
      answer = storageFailed();
      this.#poisonWith(error);
    }
    for (const item of items) item.settle.failed(answer, txid);
  }

  #startSync(): void {
    if (this.#syncing || this.#poison) return;
    this.#syncing = true;
    const target = this.#committedTxid;
    this.#wal.sync().then(
      () => {
        this.#syncing = false;
        this.#world.crashPoint("synced");
        this.#events.synced();
        this.#measureDrain();
        if (this.#poison) return;
        this.#synced.raise(Math.max(this.#synced.level, target));
        if (!this.#synced.reached(this.#committedTxid)) this.#startSync();
        // The next group holds the thread: the answers of this one leave first, or its clients would wait for it too.
        queueMicrotask(() => this.#queue.wake());
      },
      (error: unknown) => {
        this.#syncing = false;
        this.#poisonWith(error);
      },
    );
  }

  #poisonWith(error: unknown): void {
    if (this.#poison) return;
    this.#poison = { error };
    this.#synced.fail(storageFailed());
    this.#events.poisoned(error);
  }

  /** Calls `act` once the state is on disk, at once when it already is. */
  #afterSync(txid: number, act: () => void, settle: Settle): void {
    if (this.#synced.reached(txid)) return act();
    this.#parked++;
    this.#synced.wait(txid).then(
      () => {
        this.#parked--;
        act();
      },
      (error: unknown) => {
        this.#parked--;
        settle.failed(error, this.safeTxid);
      },
    );
  }

  #tx(view: View, deferred: Deferred): Tx {
    return {
      ...view,
      newId: () => this.#world.ulid(),
      atGroupEnd: (act) => deferred.atGroupEnd.push(act),
      afterCommit: (act) => deferred.afterCommit.push(act),
    };
  }

  #measureDrain(): void {
    if (this.#busySinceMs === undefined) return;
    const busySecs = Math.max(this.#world.monotonicMs() - this.#busySinceMs, 0.1) / 1_000;
    this.#drainRate = this.#drainRate * 0.8 + (this.#settledSince / busySecs) * 0.2;
    this.#settledSince = 0;
    this.#busySinceMs = undefined;
  }

  #overloaded(why: string): ServiceError {
    const retryAfterSecs = Math.max(1, Math.ceil(this.#queue.waiting / this.#drainRate));
    return new ServiceError("overloaded", `${why}; nothing was written, try again`, { retryAfterSecs });
  }
}

/** The code of a fault, for a notice: never its message, which may quote a statement. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : error instanceof Error ? error.name : "fault";
}
