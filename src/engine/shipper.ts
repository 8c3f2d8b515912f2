/**
 * From the log of one open branch to its head in object storage.
 *
 * Owns the reading of the log and the publishing of what it holds. Always true: only groups that are synced on this
 * disk are shipped, in order and whole; `shipped` is raised after the head that covers a group is known to have landed;
 * the log is the outbox, so nothing is folded in before it is shipped (the database asks `settled`). Must not know: the
 * queue, commands, other branches.
 *
 * Why the log is read here and not at each commit: committed frames never change until the log is folded in, which only
 * the owner does; reading many groups at once costs the writer's path nothing.
 */
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Permits } from "../base/permits.ts";
import { Watermark } from "../base/watermark.ts";
import type { Cancel, World } from "../base/world.ts";
import type { Head, TailSegment } from "../format/head.ts";
import { makeCanonical, pageBytes } from "../format/pages.ts";
import { encodeSegment, framePages, type PageGroup } from "../format/segment.ts";
import { stateOfPage, type DatabaseState } from "../model/schema.ts";
import type { WalCommit, WalReader } from "../sqlite/wal-reader.ts";
import type { BranchHead, HeadChange } from "./branch-head.ts";
import { CommitAges } from "./commit-ages.ts";
import { groupsBetween, reaching, txidAfter } from "./lines.ts";
import { joined, putObject, type NewObject, type PageSource } from "./pool-objects.ts";

/** What shipping needs from its surroundings; the same for every branch of a thread. */
export interface ShippingParts {
  readonly world: World;
  /** How many branches may talk to the store at once. */
  readonly permits: Permits;
  readonly bytesPut: (bytes: number) => void;
}

export interface ShipperOptions {
  readonly parts: ShippingParts;
  readonly head: BranchHead;
  readonly source: PageSource;
  readonly branchId: string;
  /** Stands behind the last group that the head covers. */
  readonly log: WalReader;
  /** The page that holds the state row. */
  readonly statePage: number;
  /** How long a group may wait when nobody hurries. */
  readonly intervalMs: () => number;
  readonly events: {
    /** A head has landed: the line may want packing or a new base. */
    published(): void;
    /** The store does not answer; it is asked again. */
    stalled(): void;
    /** The branch was lost to another writer, or the log is not what was written: the handle must be given up. */
    failed(error: unknown): void;
    notice(message: string): void;
  };
}

interface Batch {
  readonly groups: readonly PageGroup[];
  /** The last group of each claim that has groups here. */
  readonly tenures: readonly { readonly id: Uint8Array; readonly lastTxid: number }[];
  readonly rawBytes: number;
  readonly logBytes: number;
  /** Set once it is encoded, so that every try publishes the same bytes under the same name. */
  segment: TailSegment | undefined;
  object: NewObject | undefined;
  /** The tail that both were made for. */
  tail: readonly TailSegment[];
}

/** A segment of the tail that is made here, and what it is made of. */
interface OwnSegment {
  readonly segment: TailSegment;
  readonly epoch: number;
  readonly groups: readonly PageGroup[];
}

export class Shipper {
  readonly #options: ShipperOptions;
  readonly #parts: ShippingParts;
  readonly #head: BranchHead;
  /** The newest txid that object storage covers. */
  readonly shipped: Watermark;
  #committedTxid: number;
  #syncedTxid: number;
  /** The last group that was read from the log; between it and the next one lies nothing but what claims have given up. */
  #takenTxid: number;
  #batch: Batch | undefined;
  /** The tail's newest segment, while what comes next may be pressed together with it. */
  #newest: OwnSegment | undefined;
  #running = false;
  #closed = false;
  #hurryTo = -1;
  #unshippedBytes = 0;
  readonly #ages: CommitAges;
  #failures = 0;
  #cancelTimer: Cancel | undefined;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#parts = options.parts;
    this.#head = options.head;
    this.#ages = new CommitAges(options.parts.world);
    this.#committedTxid = options.head.now.txid;
    this.#syncedTxid = options.head.now.txid;
    this.#takenTxid = options.head.now.txid;
    this.shipped = new Watermark(options.head.now.txid);
  }

  /** Bytes of log that the head does not cover yet. */
  get unshippedBytes(): number {
    return this.#unshippedBytes;
  }

  /** How long the oldest commit of them has waited. */
  get unshippedMs(): number {
    return this.#ages.oldestMs;
  }

  /** Whether the last try failed. */
  get failing(): boolean {
    return this.#failures > 0;
  }

  get busy(): boolean {
    return this.#running;
  }

  /** Everything up to here was committed. */
  committed(txid: number): void {
    this.#committedTxid = txid;
    this.#ages.committed(txid);
  }

  /** The log was seen to have grown by this much since the last call; some of it may be shipped by now. */
  logged(logBytes: number): void {
    this.#unshippedBytes += logBytes;
    this.#consider();
  }

  /** Everything up to here is on disk and may be shipped. */
  synced(txid: number): void {
    this.#syncedTxid = Math.max(this.#syncedTxid, txid);
    this.#consider();
  }

  /** Ships up to this txid as soon as it is synced: somebody waits for `shipped`. */
  hurry(txid: number): void {
    this.#hurryTo = Math.max(this.#hurryTo, txid);
    this.#consider();
  }

  /** This node has claimed the branch; what its log held before is still to be shipped, under the ids that it has. */
  claimed(): void {
    this.shipped.raise(Math.max(this.shipped.level, this.#head.now.txid));
    this.#takenTxid = Math.max(this.#takenTxid, this.shipped.level);
  }

  /** Stops; what is not shipped stays in the log, which the database closes. */
  close(error: unknown): void {
    this.#closed = true;
    this.#cancelTimer?.();
    this.shipped.fail(error);
  }

  #due(): boolean {
    if (this.#hurryTo > this.shipped.level || this.#unshippedBytes >= limits.shipLogBytes || this.#batch !== undefined) return true;
    return this.unshippedMs >= this.#options.intervalMs();
  }

  #consider(): void {
    if (this.#running || this.#closed || this.#syncedTxid <= this.shipped.level) return;
    if (this.#failures > 0 && this.#cancelTimer) return;
    if (this.#due()) return void this.#run();
    this.#cancelTimer ??= this.#parts.world.after(Math.max(1, this.#options.intervalMs() - this.unshippedMs), () => {
      this.#cancelTimer = undefined;
      this.#consider();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    try {
      while (!this.#closed && this.#syncedTxid > this.shipped.level && this.#due()) {
        await this.#parts.permits.run(() => this.#shipBatch());
      }
      this.#running = false;
      this.#consider();
    } catch (error) {
      this.#running = false;
      if (!this.#closed) this.#failed(error);
    }
  }

  /** A store that does not answer is asked again, ever more rarely; everything else ends the handle. */
  #failed(error: unknown): void {
    if (!(error instanceof StoreError) || error.kind === "corrupt") return this.#options.events.failed(error);
    if (this.#failures++ === 0) this.#options.events.notice(`shipping failed (${error.kind}); trying again`);
    this.#options.events.stalled();
    const pauseMs = Math.min(limits.shipRetryMsMin * 2 ** Math.min(this.#failures, 20), limits.shipRetryMsMax);
    const jitter = 0.5 + this.#parts.world.randomBytes(1)[0]! / 512;
    this.#cancelTimer = this.#parts.world.after(pauseMs * jitter, () => {
      this.#cancelTimer = undefined;
      this.#consider();
    });
  }

  async #shipBatch(): Promise<void> {
    if (this.#closed) return;
    const batch = (this.#batch ??= this.#take());
    const hurried = this.#hurryTo > this.shipped.level;
    const segment = (batch.segment ??= await this.#encode(batch, hurried));
    const through = batch.groups.at(-1)!.txid;
    if (batch.object === undefined && hurried && fitsTail(this.#head.now.tail, segment)) await this.#publishInline(batch, segment);
    else await this.#publishObject(batch, segment);
    if (this.#head.now.txid < through) return this.#beginAnew(batch);
    if (this.#closed) return;
    if (this.#failures > 0) this.#options.events.notice("shipping goes on");
    this.#failures = 0;
    this.#batch = undefined;
    const isAll = through >= this.#committedTxid;
    // How much a log grows and how much its groups have of it differ a little: with nothing left there is nothing to count.
    this.#unshippedBytes = isAll ? 0 : Math.max(0, this.#unshippedBytes - batch.logBytes);
    this.#ages.covered(through);
    this.shipped.raise(through);
    this.#options.events.published();
  }

  /** The tail is not the one that the batch was made for: somebody has cut or spilled it meanwhile. */
  #beginAnew(batch: Batch): void {
    if (batch.object) this.#head.endUpload(batch.object.id);
    batch.object = undefined;
    batch.segment = undefined;
    this.#newest = undefined;
  }

  /**
   * The groups as one segment. What travels in the head takes the tail's newest groups in and replaces them: groups that
   * follow each other are mostly the same pages, so pressed together they take a fraction of the room, and a tail holds
   * several times as many before it must become an object.
   */
  async #encode(batch: Batch, hurried: boolean): Promise<TailSegment> {
    const { source, branchId } = this.#options;
    const { epoch, tail } = this.#head.now;
    batch.tail = tail;
    const newest = hurried && this.#newest?.epoch === epoch && tail.at(-1) === this.#newest.segment && follows(this.#newest, batch) ? this.#newest : undefined;
    const groups = [...(newest?.groups ?? []), ...batch.groups];
    const bytes = await encodeSegment({ kind: "delta", uuid: source.uuid, branchId, epoch, groups }, source.press);
    const last = groups.at(-1)!;
    const segment = { firstTxid: groups[0]!.txid, lastTxid: last.txid, lastAtMs: last.committedAtMs, rawBytes: (newest?.segment.rawBytes ?? 0) + batch.rawBytes, bytes };
    this.#newest = hurried ? { segment, epoch, groups } : undefined;
    return segment;
  }

  /** The next groups of the log, verified, canonical, and numbered by what their own pages say. */
  #take(): Batch {
    const { now } = this.#head;
    const commits = this.#options.log.read(Math.min(groupsBetween(now, this.#takenTxid, this.#syncedTxid), limits.segmentGroupsMax), limits.segmentLogBytes);
    if (commits.length === 0) throw new StoreError("corrupt", "the log does not hold what was committed");
    const tenures = new Map<string, { readonly id: Uint8Array; readonly lastTxid: number }>();
    let [rawBytes, logBytes] = [0, 0];
    const groups = commits.map((commit): PageGroup => {
      const state = this.#stateOf(commit);
      this.#takenTxid = txidAfter(now, this.#takenTxid);
      if (state.txid !== this.#takenTxid || state.tenure === undefined) throw new StoreError("corrupt", "a group in the log has an unexpected transaction id");
      tenures.set(Buffer.from(state.tenure).toString("hex"), { id: state.tenure, lastTxid: state.txid });
      for (const { page, bytes } of commit.images) makeCanonical(bytes, page);
      rawBytes += commit.images.reduce((sum, { bytes }) => sum + bytes.length, 0);
      logBytes += commit.logBytes;
      return { txid: state.txid, committedAtMs: state.committedAtMs, pages: commit.pages, images: commit.images };
    });
    return { groups, tenures: [...tenures.values()], rawBytes, logBytes, segment: undefined, object: undefined, tail: [] };
  }

  #stateOf(commit: WalCommit): DatabaseState {
    const image = commit.images.find(({ page }) => page === this.#options.statePage);
    if (!image) throw new StoreError("corrupt", "a group in the log lacks its state row");
    return stateOfPage(image.bytes);
  }

  /** One conditional put: the groups travel in the head itself. */
  async #publishInline(batch: Batch, added: TailSegment): Promise<void> {
    await this.#publish(batch, added.lastTxid, ({ tail }) => ({ tail: [...tail.filter((one) => !holds(added, one)), added] }));
  }

  /** The tail and the new groups become one object of the pool; then the head names it. */
  async #publishObject(batch: Batch, added: TailSegment): Promise<void> {
    // Writes are refused long before (engine/line-length): what was committed until then waits for a pack, as for a store that is away.
    if (this.#head.now.refs.length >= limits.lineRefsShipped) throw new StoreError("unavailable", "the branch's line has no room before it is packed");
    const segments = [...batch.tail.filter((one) => !holds(added, one)), added];
    const object = (batch.object ??= { ...joined(segments), kind: "delta", id: this.#head.beginUpload() });
    const ref = await putObject(this.#options.source, object);
    this.#parts.bytesPut(ref.bytes);
    this.#parts.world.crashPoint("segment-put");
    const done = await this.#publish(batch, ref.lastTxid, ({ refs }) => ({ refs: [...refs, ref], tail: [] }));
    if (!done) return;
    this.#head.endUpload(object.id);
    this.#newest = undefined;
  }

  /** Moves the head, unless its tail is another one than the batch was made for: whoever cuts or spills one makes other segments. Says whether the head covers the batch. */
  async #publish(batch: Batch, lastTxid: number, change: (head: Head) => HeadChange): Promise<boolean> {
    await this.#head.update((head) => (head.txid >= lastTxid || !sameTail(head.tail, batch.tail) ? undefined : { ...covering(head, batch), ...change(head) }));
    return this.#head.now.txid >= lastTxid;
  }
}

/** Whether the segment has taken the other one in. */
function holds(segment: TailSegment, other: TailSegment): boolean {
  return segment.firstTxid <= other.firstTxid;
}

function sameTail(tail: readonly TailSegment[], before: readonly TailSegment[]): boolean {
  return tail.length === before.length && tail.every((segment, index) => segment === before[index]);
}

/** Whether the batch can be pressed together with the segment: without a gap, and all in one frame. */
function follows({ groups, segment }: OwnSegment, batch: Batch): boolean {
  const pages = (segment.rawBytes + batch.rawBytes) / pageBytes;
  return batch.groups[0]!.txid === groups.at(-1)!.txid + 1 && pages <= framePages && groups.length + batch.groups.length <= limits.segmentGroupsMax;
}

/** Durable groups are inlined while the tail stays small; beyond that it is spilled together with them. */
function fitsTail(tail: readonly TailSegment[], segment: TailSegment): boolean {
  const kept = tail.filter((one) => !holds(segment, one));
  const bytes = kept.reduce((sum, entry) => sum + entry.bytes.length, segment.bytes.length);
  return bytes <= limits.tailBytesMax && kept.length < limits.tailSegmentsMax;
}

/** What every publication changes: how far the head covers, and whose groups they are. */
function covering(head: Head, batch: Batch): HeadChange {
  const last = batch.groups.at(-1)!;
  const spare = head.reservedTo - last.txid;
  return {
    txid: last.txid,
    committedAtMs: last.committedAtMs,
    pages: last.pages,
    tenures: batch.tenures.reduce((tenures, { id, lastTxid }) => reaching(tenures, id, lastTxid), head.tenures),
    reservedTo: spare < limits.txidReserve / 2 ? last.txid + limits.txidReserve : head.reservedTo,
  };
}
