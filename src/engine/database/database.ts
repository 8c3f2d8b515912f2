/**
 * One open database branch: its connection, its fsync, its reads, its end.
 *
 * Owns the only writable connection to the file. How writes wait and are answered is for engine/database/write-queue.
 *
 * Always true:
 * - An answer leaves once its state is on disk (engine/database/handle-state). A durable one waits for
 *   object storage, a writer's for the certainty that no other node has a newer state (engine/database/reply-gate).
 * - Nothing is committed without the lease, before the claim has landed, or beyond the reserved transaction ids.
 * - A failed fsync fails this handle.
 *
 * Must not know: threads, wires, other branches.
 */
import { assert } from "../../base/faults/assert.ts";
import { getErrorCode, ServiceError } from "../../base/faults/errors.ts";
import { Signal } from "../../base/signal.ts";
import { runRead, type ReadInput, type ReadKind, type ReadOutput } from "../../model/commands.ts";
import { isSliceOver } from "../../sqlite/slices.ts";
import { WalFile } from "../../sqlite/wal/wal.ts";
import { ReplyGate } from "./reply-gate.ts";
import { Fenced } from "../history/manifest-writer.ts";
import type { Sight } from "../process-calls/command-call.ts";
import type { DatabaseOptions, WriteItem } from "./database-options.ts";
import { TurnedAway } from "../api/engine-port.ts";
import { FilePermit } from "../direct-reads/file-permit.ts";
import { HandleState } from "./handle-state.ts";
import { WalCheckpointer } from "./wal-checkpointer.ts";
import { LogSync } from "./log-sync.ts";
import { WalCheckpointPolicy } from "./wal-checkpoint-policy.ts";
import type { Opened } from "../opening/opened-file.ts";
import type { Completion } from "../api/protocol.ts";
import { closed, refusalBy, storageFailed } from "./refusals.ts";
import { Transactions } from "./transactions.ts";
import { WriteQueue } from "./write-queue.ts";
import { WritePermission } from "./write-permission.ts";
import type { Backlog } from "../api/measures.ts";

export class Database {
  readonly #wal: WalFile;
  readonly #state: HandleState;
  readonly #writes: WriteQueue;
  readonly #sync: LogSync;
  readonly #log: WalCheckpointer;
  readonly #walCheckpoints: WalCheckpointPolicy;
  readonly #writer: WritePermission;
  readonly #options: DatabaseOptions;
  readonly #answers: ReplyGate;
  readonly #transactions: Transactions;
  readonly #permit: FilePermit;
  /** Raised when `idle`, `isDrained`, `poisoned` or `inUse` may have changed. */
  readonly rested = new Signal();
  #pins = 0;
  lastUsedMs: number;

  constructor(options: DatabaseOptions) {
    const { opened, world, disk, events, slices } = options;
    this.#options = options;
    slices?.attach(opened.connection);
    this.#wal = new WalFile(opened.connection.path, disk);
    const isShared = (): boolean => slices?.isShared ?? false;
    this.#log = new WalCheckpointer(this.#wal, opened, world, disk, options.logCheckpointBytes, isShared);
    const writer = (this.#writer = new WritePermission({
      ...options.permission,
      manifest: opened.manifest,
      knownTxid: opened.state.txid,
      knowsAll: opened.knowsAll,
    }));
    const recovered = this.#log.bytes > 0;
    const state = (this.#state = new HandleState(opened, writer, recovered, (error) => this.#failed(error)));
    this.#permit = new FilePermit(options, state);
    this.#sync = new LogSync({
      wal: this.#wal,
      largePermits: options.largeSyncs,
      committedTxid: () => state.committedTxid,
      synced: (txid) => this.#onSynced(txid),
      failed: (error) => this.failHandle(error),
      ended: this.mayRest,
    });
    this.#answers = new ReplyGate(state.synced, writer, () => this.prove(), this.mayRest);
    this.lastUsedMs = world.monotonicMs();
    this.#transactions = new Transactions({ ...options, writer, log: this.#log });
    this.#writes = this.#openWrites(options);
    this.#walCheckpoints = new WalCheckpointPolicy({
      state,
      log: this.#log,
      world,
      runsElsewhere: () => this.#writes.runsElsewhere,
      hurry: () => this.hurry(),
      wake: () => this.#writes.wake(),
      notice: (message) => events.notice(message),
    });
    if (recovered) this.#recover();
  }

  #openWrites({ world, writeQueueDepth, slices, turn }: DatabaseOptions): WriteQueue {
    return new WriteQueue({
      world,
      writeQueueDepth,
      slices,
      turn,
      state: this.#state,
      log: this.#log,
      answers: this.#answers,
      transactions: this.#transactions,
      isSyncing: () => this.#sync.running,
      claim: () => this.#claim(),
      note: (items) => this.#note(items),
      checkpointWalIfDue: () => this.#walCheckpoints.checkpointWalIfDue(),
      rested: this.mayRest,
    });
  }

  /** What a crash has left in the log is shipped if need be, and synced before anything is answered from it. */
  #recover(): void {
    const { committedTxid, opened } = this.#state;
    if (committedTxid > opened.manifest.now.txid) {
      this.#writer.shipperOrNone?.committed(committedTxid);
      this.#writer.shipperOrNone?.logged(this.#log.bytes);
    }
    this.#startSync();
  }

  /** The newest transaction id that a crash cannot take back: what a refusal that waits for nothing may speak of. */
  get safeTxid(): number {
    return this.#state.safeTxid;
  }

  /** How far object storage covers the branch. */
  get durableTxid(): number {
    return this.#state.opened.manifest.now.txid;
  }

  /** Why an answer cannot be from a state that the caller says it has seen; undefined when it can. */
  findMinTxidRefusal(minTxid: number): ServiceError | undefined {
    return this.#writer.findMinTxidRefusal(minTxid, this.#state.committedTxid, this.safeTxid);
  }

  get opened(): Opened {
    return this.#state.opened;
  }

  /** Whether this node is the branch's writer, so that a write costs no claim. */
  get claimed(): boolean {
    return this.#writer.claimed;
  }

  /** Whether the handle has failed. */
  get poisoned(): boolean {
    return this.#state.poisoned;
  }

  /** Whether the branch exists no more: its time is over, or it was deleted while it was open or being opened. */
  get ended(): boolean {
    return this.#options.expiresAtMs <= this.#options.world.nowMs() || this.#options.isDeleted();
  }

  /** Whether that is sure, so that its file can go. */
  get surelyEnded(): boolean {
    return this.#options.expiresAtMs <= this.#options.world.time.sureMs() || this.#options.isDeleted();
  }

  /** Whether object storage covers everything that was committed. */
  get isDrained(): boolean {
    return this.#state.isDrained;
  }

  /** What waits for its turn, and for object storage. */
  get backlog(): Backlog {
    return this.#writer.backlog(this.#writes.waiting, this.#state.committedTxid, this.#log.unseenBytes);
  }

  get path(): string {
    return this.#state.opened.connection.path;
  }

  /** Whether the handle can be closed without making any caller wait. */
  get idle(): boolean {
    return (
      this.#writes.idle &&
      !this.#sync.running &&
      this.#pins === 0 &&
      this.#answers.waiting === 0 &&
      !this.#writer.claiming &&
      !(this.#writer.shipperOrNone?.busy ?? false)
    );
  }

  /** Queues a write; refused with `overloaded` when the queue is full. Settles after the fsync that covers it. */
  write(item: WriteItem): void {
    if (item.work.kind === "sql" || item.work.command !== "sweep") this.lastUsedMs = this.#options.world.monotonicMs();
    this.#writes.offer(item);
  }

  /**
   * Reads the newest committed state. The answer waits for that state's fsync, a `primary` one for the certainty that
   * no other node has a newer state.
   */
  read(command: ReadKind, input: unknown, completion: Completion, isPrimary = false): void {
    this.lastUsedMs = this.#options.world.monotonicMs();
    const txid = this.#state.committedTxid;
    const full = this.#answers.whyFull(isPrimary && !this.#writer.isSole);
    if (full !== undefined) return completion.failed(this.#writes.overloaded(full), this.safeTxid);
    this.#permit.asked(command);
    const { read, seenTxid } = this.#writes.runsElsewhere
      ? this.#transactions.readSeeing(command, input)
      : { read: this.#transactions.readNow(command, input), seenTxid: txid };
    if (read.kind === "failed" && isSliceOver(read.error)) return completion.failed(read.error, seenTxid);
    const answer = (): void =>
      read.kind === "done"
        ? completion.done({ value: read.result, txid: seenTxid })
        : completion.failed(read.error, seenTxid);
    this.#answers.afterRead(seenTxid, isPrimary, answer, completion);
  }

  /** Looks at the newest committed state for the node itself: that is no use of the database. */
  look<Kind extends ReadKind>(command: Kind, input: ReadInput<Kind>): ReadOutput<Kind> {
    return runRead(command, this.#transactions.view(), input) as ReadOutput<Kind>;
  }

  /** Makes object storage cover everything soon. */
  hurry(): void {
    if (!this.isDrained) this.#writer.shipper.hurry(this.#state.committedTxid);
  }

  /** Claims the branch for a commit that is made outside of the queue, and gives that commit's place. */
  async claimNext(): Promise<{ readonly txid: number; readonly writerEpochId: Uint8Array }> {
    if (!this.#writer.isHeld) throw new TurnedAway("unheld");
    if (!this.#writer.claimed) await this.#claim();
    const { nextTxid, writerEpochId } = this.#writer;
    assert(writerEpochId !== undefined, "a claimed branch has a writer epoch");
    return { txid: nextTxid, writerEpochId };
  }

  /** Settles once object storage covers everything that is committed now. */
  sync(completion: Completion): void {
    this.lastUsedMs = this.#options.world.monotonicMs();
    const txid = this.#state.committedTxid;
    const done = (): void => completion.done({ value: undefined, txid });
    // A branch that was never written has no manifest: its claim makes it exist in object storage. If another node has
    // taken the database, only that writer can say what it holds.
    if (this.#state.opened.manifest.exists)
      return this.#answers.afterShip(txid, () => this.#answers.asWriter(txid, done, completion), completion);
    this.#claim().then(done, (error: unknown) => completion.failed(error, this.safeTxid));
  }

  /** Keeps the handle open while another process reads the file. Gives what a command would see now. */
  pin(): Sight {
    this.lastUsedMs = this.#options.world.monotonicMs();
    this.#pins++;
    return this.#transactions.sight();
  }

  /** Purges this node's copy of what was deleted, once object storage covers it; `unavailable` after the deadline. */
  async scrub(deadlineMs: number): Promise<void> {
    this.pin();
    try {
      await this.#walCheckpoints.scrub(deadlineMs);
      await this.#options.vectors.forgotten();
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      this.failHandle(error);
      throw storageFailed();
    } finally {
      this.#pins--;
      this.mayRest();
    }
  }

  /** Ends a pin and answers as a read of what the reader saw. */
  unpin(seenTxid: number, completion: Completion, isPrimary = false): void {
    assert(this.#pins > 0, "a pin ends once");
    this.#pins--;
    this.lastUsedMs = this.#options.world.monotonicMs();
    this.#answers.afterRead(
      seenTxid,
      isPrimary,
      () => completion.done({ value: undefined, txid: seenTxid }),
      completion,
    );
    this.mayRest();
  }

  /** Whether another process reads or writes the file, or an fsync of the log is under way. */
  get inUse(): boolean {
    return this.#pins > 0 || this.#writes.runsElsewhere || this.#sync.running;
  }

  /** Checkpoints the WAL and closes; what object storage does not cover yet stays in the log. Call when idle. */
  close(): void {
    assert(this.idle, "a database is closed when nobody waits for it");
    this.#permit.end();
    this.#transactions.close();
    this.#writer.shipperOrNone?.close(closed());
    this.#state.opened.log.close();
    if (!this.isDrained) return this.#wal.closeKeeping(this.#state.opened.connection);
    this.#log.close((error) =>
      this.#options.events.notice(`the log was not folded in at close (${getErrorCode(error)})`),
    );
  }

  /** Closes a failed handle when nothing reads or syncs: every caller is refused, the log stays for its proof. */
  closeFailed(): void {
    assert(!this.inUse, "a handle is abandoned when nobody uses its files");
    this.#permit.end();
    this.#writes.refuse();
    this.#transactions.close();
    this.#writer.shipperOrNone?.close(this.#state.loss);
    this.#state.opened.log.close();
    this.#wal.closeKeeping(this.#state.opened.connection);
  }

  /** Turns away every write that has not begun: another node may have the database. */
  turnAway(): void {
    this.#permit.revoke();
    this.#writes.turnAway();
  }

  async #claim(): Promise<void> {
    try {
      await this.#writer.claim();
    } catch (error) {
      if (!(error instanceof Fenced)) throw error;
      // The manifest has moved since it was read: what this handle holds is old, and nothing was committed on it.
      this.failHandle(error);
      throw refusalBy(error, this.#writer.isShared);
    } finally {
      this.mayRest();
    }
    this.#writes.wake();
  }

  /** Rejects unless object storage shows that no writer has claimed the branch since. */
  async prove(): Promise<void> {
    try {
      await this.#state.opened.manifest.prove();
    } catch (error) {
      if (error instanceof Fenced) this.failHandle(error);
      throw error;
    }
  }

  /** The shipper has published, or there is reason to look: checkpoints the WAL once all of it is shipped. */
  shippingMoved(): void {
    this.mayRest();
    if (this.#state.poisoned) return;
    this.#permit.moved();
    this.#walCheckpoints.shippingMoved();
    this.#writes.wake();
  }

  /** Takes note of a commit, and has it synced and shipped. */
  #note(items: readonly WriteItem[]): void {
    const { shipperOrNone } = this.#writer;
    this.#options.world.crashPoint("committed");
    this.#state.committed();
    this.#options.events.committed(items.length);
    const grown = this.#log.written(items.reduce((sum, { bytes }) => sum + bytes, 0));
    if (grown > 0) shipperOrNone?.logged(grown);
    this.#sync.grown(grown);
    // Before the sync, which may be over at once.
    shipperOrNone?.committed(this.#state.committedTxid);
    this.#startSync();
  }

  #startSync(): void {
    if (!this.#state.poisoned) this.#sync.start();
  }

  #onSynced(txid: number): void {
    this.#options.world.crashPoint("synced");
    this.#options.events.synced();
    this.#writes.synced();
    if (this.#state.poisoned) return;
    this.#state.synced.raise(Math.max(this.#state.synced.level, txid));
    this.#permit.moved();
    this.#writer.shipperOrNone?.synced(txid);
    if (!this.#state.synced.reached(this.#state.committedTxid)) this.#startSync();
    // The next group holds the thread: the answers of this one leave first, or its clients would wait for it too.
    queueMicrotask(() => this.#writes.wake());
  }

  /** Storage failed, or another writer has the branch: this handle gives no more answers. */
  failHandle(error: unknown): void {
    this.#state.failHandle(error);
  }

  #failed(error: unknown): void {
    this.#permit.revoke();
    this.#options.events.poisoned(error);
  }

  /** Something has ended that may have kept the handle from being idle, covered or closed. */
  readonly mayRest = (): void => {
    this.rested.raise();
    this.#options.events.rested();
  };
}
