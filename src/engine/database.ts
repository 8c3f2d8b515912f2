/**
 * One open database branch: its queue, its commit groups, its fsync, its reads.
 *
 * Owns the only writable connection to the file. Always true: an answer, of a write or a read, leaves only when the
 * state it speaks of is on disk (`#synced`), a durable one only when object storage covers it, a writer's (engine/answers)
 * only when no other node can have a newer state; nothing is committed while the lease is not held, before the claim of
 * the branch has landed, nor beyond the transaction ids it has reserved; transaction ids rise by one per group that
 * changed something; a failed fsync ends this handle. Must not know: threads, wires, other branches.
 */
import { assert } from "../base/assert.ts";
import { Batcher } from "../base/batcher.ts";
import { codeOf, ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Watermark } from "../base/watermark.ts";
import type { World } from "../base/world.ts";
import { runRead, type ReadInput, type ReadKind, type ReadOutput } from "../model/commands.ts";
import { isDiskFull, isFatal } from "../sqlite/group.ts";
import { isSliceOver } from "../sqlite/slices.ts";
import { WalFile } from "../sqlite/wal.ts";
import { Answers } from "./answers.ts";
import { Fenced } from "./branch-head.ts";
import type { Sight } from "./command-call.ts";
import { Committing, type ElsewhereEnd } from "./committing.ts";
import type { DatabaseEvents, DatabaseOptions, WriteItem } from "./database-options.ts";
import { DrainRate } from "./drain-rate.ts";
import { TurnedAway } from "./engine-port.ts";
import { LogFolder } from "./log-folder.ts";
import { LogSync } from "./log-sync.ts";
import type { Opened } from "./opened-file.ts";
import type { Settle } from "./protocol.ts";
import { closed, lossBy, noRoom, notShipping, refusalBy, storageFailed } from "./refusals.ts";
import { Scrub } from "./scrub.ts";
import { Transactions, UnknownOutcome, type Transaction } from "./transactions.ts";
import { Writership } from "./writership.ts";
import type { Backlog } from "./measures.ts";

export class Database {
  readonly #opened: Opened;
  readonly #world: World;
  readonly #events: DatabaseEvents;
  readonly #vectors: DatabaseOptions["vectors"];
  readonly #wal: WalFile;
  readonly #queue: Batcher<WriteItem>;
  readonly #sync: LogSync;
  readonly #synced: Watermark;
  readonly #log: LogFolder;
  readonly #writer: Writership;
  readonly #expiresAtMs: number;
  readonly #isDeleted: () => boolean;
  readonly #drain: DrainRate;
  readonly #answers: Answers;
  readonly #transactions: Transactions;
  readonly #scrub: Scrub;
  #committedTxid: number;
  #pins = 0;
  readonly #committing: Committing;
  #poison: { readonly error: unknown } | undefined;
  lastUsedMs: number;

  constructor(options: DatabaseOptions) {
    const { opened, world, disk } = options;
    this.#expiresAtMs = options.expiresAtMs;
    this.#isDeleted = options.isDeleted;
    this.#opened = opened;
    this.#world = world;
    this.#events = options.events;
    const { turn = (act: () => void) => act() } = options;
    options.slices?.attach(opened.connection);
    this.#vectors = options.vectors;
    this.#wal = new WalFile(opened.connection.path, disk);
    this.#sync = new LogSync({ wal: this.#wal, largePermits: options.largeSyncs, committedTxid: () => this.#committedTxid, synced: (txid) => this.#onSynced(txid), failed: (error) => this.giveUp(error) });
    this.#committedTxid = opened.state.txid;
    // A log that survived a crash was read back, but nobody knows whether it is on disk: the first answer syncs it.
    this.#log = new LogFolder(this.#wal, opened, world, disk, options.logCheckpointBytes, () => options.slices?.isShared ?? false);
    this.#drain = new DrainRate(world);
    this.#writer = new Writership({ ...options.writership, head: opened.head, knownTxid: opened.state.txid, knowsAll: opened.knowsAll });
    const recovered = this.#log.bytes > 0;
    this.#synced = new Watermark(recovered ? opened.state.txid - 1 : opened.state.txid);
    this.#answers = new Answers(this.#synced, this.#writer, () => this.prove());
    this.lastUsedMs = world.monotonicMs();
    this.#queue = new Batcher<WriteItem>({
      capacity: options.writeQueueDepth,
      itemsMax: limits.groupCommandsMax,
      bytesMax: limits.groupBytesMax,
      waitingBytesMax: limits.writeQueueBytesMax,
      sizeOf: (item) => item.bytes,
      takesPlace: (item) => item.work.kind === "sql" || item.work.command !== "sweep",
      act: (items) => this.#commitRound(items),
      // A hung disk must not let committed but unanswered writes pile up: then the queue fills and sheds.
      ready: (waiting) => this.#mayCommit() && (!this.#sync.running || (waiting >= limits.groupCommandsEager && this.#answers.waiting < options.writeQueueDepth)),
      soon: (act) => world.soon(() => turn(act)),
      onBug: (error, items) => {
        for (const item of items) item.settle.failed(error, this.safeTxid);
      },
    });
    this.#transactions = new Transactions({ ...options, writer: this.#writer, log: this.#log });
    this.#committing = new Committing({
      ...options,
      transactions: this.#transactions,
      live: (items) => this.#live(items),
      done: (items, transaction) => this.#settleAll(items, transaction),
      failed: (error, items) => this.#groupFailed(error, items),
      ranElsewhere: (item, end) => this.#ranElsewhere(item, end),
    });
    this.#scrub = new Scrub(this.#log, world, {
      settled: () => this.settled && !this.#committing.runsElsewhere,
      ship: () => this.hurry(),
      wake: () => this.#queue.wake(),
      failure: () => this.#poison && lossBy(this.#poison.error),
    });
    if (recovered && opened.state.txid > opened.head.now.txid) {
      this.#writer.shipperOrNone?.committed(opened.state.txid);
      this.#writer.shipperOrNone?.logged(this.#log.bytes);
    }
    if (recovered) this.#startSync();
  }

  /** The newest transaction id that a crash cannot take back: what a refusal that waits for nothing may speak of. */
  get safeTxid(): number {
    return Math.max(0, this.#synced.level);
  }

  /** How far object storage covers the branch. */
  get durableTxid(): number {
    return this.#opened.head.now.txid;
  }

  /** Why an answer cannot be from a state that the caller says it has seen; undefined when it can. */
  refusalOfMinTxid(minTxid: number): ServiceError | undefined {
    return this.#writer.refusalOfMinTxid(minTxid, this.#committedTxid, this.safeTxid);
  }

  get opened(): Opened {
    return this.#opened;
  }

  /** Whether this node is the branch's writer, so that a write costs no claim. */
  get claimed(): boolean {
    return this.#writer.claimed;
  }

  /** Whether the handle was given up. */
  get poisoned(): boolean {
    return this.#poison !== undefined;
  }

  /** Whether the branch exists no more: its time is over, or it was deleted while it was open or being opened. */
  get ended(): boolean {
    return this.#expiresAtMs <= this.#world.nowMs() || this.#isDeleted();
  }

  /** Whether that is sure, so that its file can go. */
  get surelyEnded(): boolean {
    return this.#expiresAtMs <= this.#world.time.sureMs() || this.#isDeleted();
  }

  /** Whether object storage covers everything that was committed. */
  get settled(): boolean {
    return this.#writer.covers(this.#committedTxid);
  }

  /** What waits for its turn, and for object storage. */
  get backlog(): Backlog {
    return this.#writer.backlog(this.#queue.waiting, this.#committedTxid, this.#log.unseenBytes);
  }

  get path(): string {
    return this.#opened.connection.path;
  }

  /** Whether the handle can be closed without anybody waiting for it. */
  get idle(): boolean {
    return this.#queue.idle && !this.#sync.running && this.#pins === 0 && this.#answers.waiting === 0 && !this.#writer.claiming && !(this.#writer.shipperOrNone?.busy ?? false);
  }

  /** Queues a write; refused with `overloaded` when the queue is full. Settles after the fsync that covers it. */
  write(item: WriteItem): void {
    if (item.work.kind === "sql" || item.work.command !== "sweep") this.lastUsedMs = this.#world.monotonicMs();
    if (this.#poison) return this.#refuse([item]);
    if (item.durable && !this.#writer.shipperOrNone) return item.settle.failed(notShipping(), this.safeTxid);
    if (this.#log.full) this.#foldIfDue();
    const lag = this.#log.full && this.settled ? "a long read holds back the log" : this.#writer.lag;
    if (lag !== undefined) return item.settle.failed(this.#overloaded(lag), this.safeTxid);
    if ((item.durable || !this.#writer.isSole) && this.#answers.unshipped >= limits.parkedAnswersMax) return item.settle.failed(this.#overloaded("too many answers wait for object storage"), this.safeTxid);
    if (!this.#queue.offer(item)) item.settle.failed(this.#overloaded("the database's write queue is full"), this.safeTxid);
  }

  /** Reads the newest committed state; the answer waits for that state's fsync, a `primary` one for the certainty that no other node has a newer state. */
  read(command: ReadKind, input: unknown, settle: Settle, isPrimary = false): void {
    this.lastUsedMs = this.#world.monotonicMs();
    const txid = this.#committedTxid;
    if (this.#answers.unsynced >= limits.parkedAnswersMax) return settle.failed(this.#overloaded("too many answers wait for the disk"), this.safeTxid);
    if (isPrimary && !this.#writer.isSole && this.#answers.unshipped >= limits.parkedAnswersMax) return settle.failed(this.#overloaded("too many answers wait for object storage"), this.safeTxid);
    const { read, seenTxid } = this.#committing.runsElsewhere ? this.#transactions.readSeeing(command, input) : { read: this.#transactions.readNow(command, input), seenTxid: txid };
    if (read.kind === "failed" && isSliceOver(read.error)) return settle.failed(read.error, seenTxid);
    const answer = (): void => (read.kind === "done" ? settle.done({ value: read.result, txid: seenTxid }) : settle.failed(read.error, seenTxid));
    this.#answers.afterRead(seenTxid, isPrimary, answer, settle);
  }

  /** Looks at the newest committed state for a chore of the node, which nobody is told of: that is no use of the database. */
  look<Kind extends ReadKind>(command: Kind, input: ReadInput<Kind>): ReadOutput<Kind> {
    return runRead(command, this.#transactions.view(), input) as ReadOutput<Kind>;
  }

  /** Makes object storage cover everything soon. */
  hurry(): void {
    if (!this.settled) this.#writer.shipper.hurry(this.#committedTxid);
  }

  /** Claims the branch for a commit that is made outside of the queue, and gives that commit's place. */
  async claimNext(): Promise<{ readonly txid: number; readonly tenureId: Uint8Array }> {
    if (!this.#writer.isHeld) throw new TurnedAway("unheld");
    if (!this.#writer.claimed) await this.#claim();
    const { nextTxid, tenureId } = this.#writer;
    assert(tenureId !== undefined, "a claimed branch has a tenure");
    return { txid: nextTxid, tenureId };
  }

  /** Settles once object storage covers everything that is committed now. */
  sync(settle: Settle): void {
    this.lastUsedMs = this.#world.monotonicMs();
    const txid = this.#committedTxid;
    const done = (): void => settle.done({ value: undefined, txid });
    // A branch that nobody has written has no head: its claim is what makes it exist in object storage.
    // What another node may hold that has taken the database, only its writer can say.
    if (this.#opened.head.exists) return this.#answers.afterShip(txid, () => this.#answers.asWriter(txid, done, settle), settle);
    this.#claim().then(done, (error: unknown) => settle.failed(error, this.safeTxid));
  }

  /** Keeps the handle open while another process reads the file. Gives what a command would see now. */
  pin(): Sight {
    this.lastUsedMs = this.#world.monotonicMs();
    this.#pins++;
    return this.#transactions.sight();
  }

  /**
   * Takes out of this node's copy whatever was deleted so far, once object storage covers it. Refused with `unavailable`
   * when the time is over.
   */
  async scrub(deadlineMs: number): Promise<void> {
    this.pin();
    try {
      await this.#scrub.run(deadlineMs);
      await this.#vectors.forgotten();
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      this.giveUp(error);
      throw storageFailed();
    } finally {
      this.#pins--;
    }
  }

  /** Ends a pin and answers as a read of what the reader saw. */
  unpin(seenTxid: number, settle: Settle, isPrimary = false): void {
    assert(this.#pins > 0, "a pin ends once");
    this.#pins--;
    this.lastUsedMs = this.#world.monotonicMs();
    this.#answers.afterRead(seenTxid, isPrimary, () => settle.done({ value: undefined, txid: seenTxid }), settle);
  }

  /** Whether another process reads or writes the file, or an fsync of the log is under way. */
  get inUse(): boolean {
    return this.#pins > 0 || this.#committing.runsElsewhere || this.#sync.running;
  }

  /** Folds the log in and closes; what object storage does not cover yet stays in the log. Call when idle. */
  close(): void {
    assert(this.idle, "a database is closed when nobody waits for it");
    this.#transactions.close();
    this.#writer.shipperOrNone?.close(closed());
    this.#opened.log.close();
    if (!this.settled) return this.#wal.closeKeeping(this.#opened.connection);
    this.#log.close((error) => this.#events.notice(`the log was not folded in at close (${codeOf(error)})`));
  }

  /** Gives the handle up after a storage failure: everyone is refused, the log stays for its proof. Call when nobody reads or syncs. */
  abandon(): void {
    assert(!this.inUse, "a handle is abandoned when nobody uses its files");
    this.#refuse(this.#queue.drain());
    this.#transactions.close();
    this.#writer.shipperOrNone?.close(lossBy(this.#poison?.error));
    this.#opened.log.close();
    this.#wal.closeKeeping(this.#opened.connection);
  }

  /** One round of the loop. */
  #commitRound(items: readonly WriteItem[]): void | Promise<void> {
    this.#drain.begin(items.length);
    const over = (): void => {
      if (!this.#poison) this.#foldIfDue();
    };
    const committing = this.#committing.run(items);
    if (committing) return committing.then(over);
    over();
  }

  /** A process has run the item, or was to: settles it. */
  #ranElsewhere(item: WriteItem, end: ElsewhereEnd): void {
    if ("error" in end && end.error instanceof UnknownOutcome) this.giveUp(end.error.cause);
    if (this.#poison) item.settle.failed(lossBy(this.#poison.error), this.safeTxid);
    else if ("error" in end) this.#groupFailed(end.error, [item]);
    else this.#settleAll([item], end.transaction);
  }

  /** Those of the items that may begin now; the others are answered. What a round has waited for may have taken the lease away. */
  #live(items: readonly WriteItem[]): readonly WriteItem[] {
    const nowMs = this.#world.monotonicMs();
    const late = (item: WriteItem): boolean => item.deadlineMs <= nowMs;
    for (const item of items.filter(late)) item.settle.failed(new ServiceError("request_timeout", "the request's time was over before its write began"), this.safeTxid);
    const live = items.filter((item) => !late(item));
    if (!this.#poison && this.#writer.isHeld) return live;
    if (this.#poison) this.#refuse(live);
    else for (const item of live) item.settle.failed(new TurnedAway("unheld"), this.safeTxid);
    return [];
  }

  /** Turns away every write that has not begun: another node may have the database. */
  turnAway(): void {
    for (const item of this.#queue.drain()) item.settle.failed(new TurnedAway("unheld"), this.safeTxid);
  }

  /** Claims the branch before its first commit, and keeps within what the claim has reserved. */
  #mayCommit(): boolean {
    // Another node's claim may have been met by a job on the branch, before anything was shipped from here.
    if (this.#opened.head.fence) this.giveUp(this.#opened.head.fence);
    if (this.#poison) return true;
    if (!this.#writer.isHeld) {
      this.turnAway();
      return false;
    }
    if (this.#writer.claimed) return !this.#log.holding && this.#writer.reserved;
    if (!this.#writer.claiming) {
      this.#claim().catch((error: unknown) => {
        for (const item of this.#queue.drain()) item.settle.failed(error, this.safeTxid);
      });
    }
    return false;
  }

  async #claim(): Promise<void> {
    try {
      await this.#writer.claim();
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
      // The head has moved since it was read: what this handle holds is old, and nothing was committed on it.
      this.giveUp(error);
      throw refusalBy(error, this.#writer.isShared);
    }
    this.#queue.wake();
  }

  /** Rejects unless object storage shows that nobody has claimed the branch. */
  async prove(): Promise<void> {
    try {
      await this.#opened.head.prove();
    } catch (error) {
      if (error instanceof Fenced) this.giveUp(error);
      throw error;
    }
  }

  /** Answers writes that have not begun and never will. */
  #refuse(items: readonly WriteItem[]): void {
    const refusal = refusalBy(this.#poison?.error, this.#writer.isShared);
    for (const item of items) item.settle.failed(refusal, this.safeTxid);
  }

  /** The shipper has published, or there is reason to look: folds the log in once all of it is shipped. */
  shippingMoved(): void {
    if (this.#poison) return;
    // Before writers go on: else there might be no moment at which all is shipped.
    this.#guarded(() => this.#scrub.moved());
    if (this.settled || this.#writer.shipper.failing) this.#log.release();
    this.#foldIfDue();
    this.#queue.wake();
  }

  /** Folds the log in when it is due; while it holds what is not shipped, writers wait for the shipper a moment at most. */
  #foldIfDue(): void {
    if (this.#committing.runsElsewhere || !this.#log.due) return;
    if (!this.settled) {
      const { shipper } = this.#writer;
      if (!shipper.failing && this.#log.hold(() => this.#queue.wake())) shipper.hurry(this.#committedTxid);
      return;
    }
    this.#guarded(() => {
      if (this.#log.fold() === "disk-full") this.#events.notice("the disk is full: the log could not be folded in");
    });
  }

  /** Gives the handle up when storage fails in `act`. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.giveUp(error);
    }
  }

  /** Notes the commit, if there was one, and answers those whose transaction it was. */
  #settleAll(items: readonly WriteItem[], transaction: Transaction): void {
    if (transaction.changed && !this.#committed(items)) return;
    this.#transactions.follow(transaction);
    const txid = this.#committedTxid;
    for (const [index, outcome] of transaction.outcomes.entries()) {
      const { settle } = items[index]!;
      if (outcome.kind === "done") this.#settleWrite(items[index]!, txid, outcome.result, transaction.changed);
      else this.#answers.asWriter(txid, () => settle.failed(outcome.error, txid), settle);
    }
  }

  /** Notes a commit. Says no when that failed: the handle is given up then, and those who wrote know that it may have happened. */
  #committed(items: readonly WriteItem[]): boolean {
    this.#guarded(() => {
      this.#world.crashPoint("committed");
      this.#committedTxid = this.#writer.committed();
      this.#events.committed(items.length);
      const grown = this.#log.written(items.reduce((sum, { bytes }) => sum + bytes, 0));
      if (grown > 0) this.#writer.shipperOrNone?.logged(grown);
      this.#sync.grown(grown);
      // Before the sync, which may be over at once.
      this.#writer.shipperOrNone?.committed(this.#committedTxid);
      this.#startSync();
    });
    if (!this.#poison) return true;
    for (const item of items) item.settle.failed(lossBy(this.#poison.error), this.safeTxid);
    return false;
  }

  /** The transaction was rolled back: nobody's write happened. A disk that failed ends the handle as well. */
  #groupFailed(error: unknown, items: readonly WriteItem[]): void {
    const txid = this.safeTxid;
    let answer = error;
    if (isDiskFull(error)) {
      answer = noRoom(this.#opened.connection.isNearlyFull);
    } else if (isFatal(error)) {
      answer = storageFailed();
      this.giveUp(error);
    }
    for (const item of items) item.settle.failed(answer, txid);
  }

  #startSync(): void {
    if (!this.#poison) this.#sync.start();
  }

  #onSynced(txid: number): void {
    this.#world.crashPoint("synced");
    this.#events.synced();
    this.#drain.end();
    if (this.#poison) return;
    this.#synced.raise(Math.max(this.#synced.level, txid));
    this.#writer.shipperOrNone?.synced(txid);
    if (!this.#synced.reached(this.#committedTxid)) this.#startSync();
    // The next group holds the thread: the answers of this one leave first, or its clients would wait for it too.
    queueMicrotask(() => this.#queue.wake());
  }

  /** Storage failed, or the branch was lost to another writer: nobody is answered from this handle any more. */
  giveUp(error: unknown): void {
    if (this.#poison) return;
    this.#poison = { error };
    this.#synced.fail(lossBy(error));
    this.#events.poisoned(error);
  }

  #settleWrite({ durable, settle }: WriteItem, txid: number, value: unknown, changed: boolean): void {
    const done = (): void => settle.done({ value, txid });
    const asWriter = (): void => this.#answers.asWriter(txid, done, settle);
    if (!durable) return asWriter();
    // The head of what has changed nothing landed before: that nobody has claimed the branch since, it does not say.
    this.#answers.afterShip(txid, changed ? done : asWriter, settle);
  }

  #overloaded(why: string): ServiceError {
    const retryAfterSecs = this.#drain.secsFor(this.#queue.waiting);
    return new ServiceError("overloaded", `${why}; nothing was written, try again`, { retryAfterSecs });
  }
}
