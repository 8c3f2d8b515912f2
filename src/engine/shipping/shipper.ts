/**
 * From the log of one open branch to its manifest in object storage.
 *
 * Owns the reading of the log and the publishing of what it holds.
 *
 * Always true:
 * - only groups that are synced on this disk are shipped, in order and whole
 * - `shipped` is raised after the manifest that covers a group is known to have landed
 * - the log is the outbox, so there is no WAL checkpoint before all is shipped (the database asks `settled`)
 *
 * Must not know: the queue, commands, other branches.
 *
 * Why the log is read here and not at each commit: committed frames never change until the WAL checkpoint, which only
 * the owner makes; reading many groups at once costs the writer's path nothing, and another thread can do it
 * (engine/segments/segment-maker).
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Semaphore } from "../../base/collections/semaphore.ts";
import { Watermark } from "../../base/collections/watermark.ts";
import type { Cancel, World } from "../../base/world.ts";
import type { Manifest, TailSegment } from "../../format/history/manifest.ts";
import type { WalReader } from "../../sqlite/wal/wal-reader.ts";
import type { ManifestWriter, ManifestChange } from "../history/manifest-writer.ts";
import { CommitAges } from "./commit-ages.ts";
import { groupsInARow, txidAfter } from "../history/timelines.ts";
import { joined, putObject, type PageSource } from "../segments/pool-objects.ts";
import type { SegmentMaker, SegmentStart } from "../segments/segment-maker.ts";
import { Uploads } from "../history/uploads.ts";
import { covering, fitsTail, holds, sameTail, type ShipBatch } from "./ship-batch.ts";

/**
 * With this many, nothing is shipped until the timeline is shorter; the rest is for a rewind, an erasure and a log that
 * was lost.
 */
export const timelineRefsShipped = 1016;
/** And as soon as the log has grown by this: about 1 MiB of segments, as pages of rows compress. */
export const shipLogBytes = 4 * 1024 * 1024;
/**
 * Segments of more log than this, with a single large group, are made and put one of a thread at a time: each is held
 * in memory.
 */
const segmentLogBytesUsual = 16 * 1024 * 1024;
const shipRetryMsMin = 100;

/** What shipping needs from its surroundings; the same for every branch of a thread. */
export interface ShippingParts {
  readonly world: World;
  /** How many branches may talk to the store at once. */
  readonly permits: Semaphore;
  /** How many of them with a segment that is larger than usual. */
  readonly largePermits: Semaphore;
  readonly maker: SegmentMaker;
  /** The version of segments that are made; by default the first. */
  readonly segmentVersion?: number | undefined;
  readonly bytesPut: (bytes: number) => void;
}

export interface ShipperOptions {
  readonly parts: ShippingParts;
  readonly manifest: ManifestWriter;
  readonly source: PageSource;
  readonly branchId: string;
  readonly databasePath: string;
  /** Begins behind the last group that the manifest covers. */
  readonly log: WalReader;
  /** The page that holds the state row. */
  readonly statePage: number;
  /** How long a group may wait when no caller waits for it. */
  readonly intervalMs: () => number;
  readonly events: {
    /** A manifest has landed: the timeline may want packing or a new base. */
    published(): void;
    /** The store does not answer; it is asked again. */
    stalled(): void;
    /** Nothing is being shipped now. */
    rested(): void;
    /** The branch was lost to another writer, or the log is not what was written: the handle must be failed. */
    failed(error: unknown): void;
    notice(message: string): void;
  };
}

/** A segment of the tail that is made here, and what it is made of. */
interface OwnSegment {
  readonly segment: TailSegment;
  readonly epoch: number;
  readonly start: SegmentStart;
}

export class Shipper {
  readonly #options: ShipperOptions;
  readonly #parts: ShippingParts;
  readonly #manifest: ManifestWriter;
  /** The newest txid that object storage covers. */
  readonly shipped: Watermark;
  #committedTxid: number;
  #syncedTxid: number;
  /**
   * The last group that was read from the log; between it and the next one lies nothing but what claims have given up.
   */
  #takenTxid: number;
  #batch: ShipBatch | undefined;
  /** The tail's newest segment, while what comes next may be pressed together with it. */
  #newest: OwnSegment | undefined;
  #running = false;
  #closed = false;
  #hurryTo = -1;
  #unshippedBytes = 0;
  readonly #ages: CommitAges;
  #failures = 0;
  /** The manifest that the last failure found. */
  #failedAt: Manifest | undefined;
  #cancelTimer: Cancel | undefined;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#parts = options.parts;
    this.#manifest = options.manifest;
    this.#ages = new CommitAges(options.parts.world);
    this.#committedTxid = options.manifest.now.txid;
    this.#syncedTxid = options.manifest.now.txid;
    this.#takenTxid = options.manifest.now.txid;
    this.shipped = new Watermark(options.manifest.now.txid);
  }

  /** Bytes of log that the manifest does not cover yet. */
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

  /** Ships up to this txid as soon as it is synced: a caller waits for `shipped`. */
  hurry(txid: number): void {
    this.#hurryTo = Math.max(this.#hurryTo, txid);
    this.#consider();
  }

  /** This node has claimed the branch; what its log held before is still to be shipped, under the ids that it has. */
  claimed(): void {
    this.shipped.raise(Math.max(this.shipped.level, this.#manifest.now.txid));
    this.#takenTxid = Math.max(this.#takenTxid, this.shipped.level);
  }

  /** Stops; what is not shipped stays in the log, which the database closes. */
  close(error: unknown): void {
    this.#closed = true;
    this.#cancelTimer?.();
    this.shipped.fail(error);
  }

  #due(): boolean {
    if (this.#hurryTo > this.shipped.level || this.#unshippedBytes >= shipLogBytes || this.#batch !== undefined)
      return true;
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
        const outcome = await this.#parts.permits.run(() => this.#shipBatch(segmentLogBytesUsual));
        if (outcome === "large") await this.#parts.largePermits.run(() => this.#shipBatch(Infinity));
      }
      this.#running = false;
      this.#consider();
    } catch (error) {
      this.#running = false;
      if (!this.#closed) this.#failed(error);
    }
    if (!this.#running) this.#options.events.rested();
  }

  /** A store that does not answer is asked again, more and more rarely; everything else fails the handle. */
  #failed(error: unknown): void {
    if (!(error instanceof StoreError) || error.kind === "corrupt") return this.#options.events.failed(error);
    // Where the manifest has moved on since the last failure, the store answers, and somebody else's change was let in
    // before ours: the pauses begin anew, or a writer falls ever further behind the compactor at a store that is slow.
    if (this.#failures > 0 && this.#failedAt !== this.#manifest.now) this.#failures = 1;
    this.#failedAt = this.#manifest.now;
    if (this.#failures++ === 0)
      this.#options.events.notice(`shipping failed (${error.reason ?? error.kind}); trying again`);
    this.#options.events.stalled();
    const pauseMs = Math.min(shipRetryMsMin * 2 ** Math.min(this.#failures, 20), limits.shipRetryMsMax);
    const jitter = 0.5 + this.#parts.world.randomBytes(1)[0]! / 512;
    this.#cancelTimer = this.#parts.world.after(pauseMs * jitter, () => {
      this.#cancelTimer = undefined;
      this.#consider();
    });
  }

  /**
   * Ships the next groups; `large` when they have more log than `logBytesMost`. What fails is tried again with the same
   * batch, from the step that failed.
   */
  async #shipBatch(logBytesMost: number): Promise<"large" | undefined> {
    if (this.#closed) return undefined;
    const hurried = this.#hurryTo > this.shipped.level;

    // 1. Takes synced groups from the log, and makes one segment of them.
    const batch = (this.#batch ??= await this.#take(hurried, logBytesMost));
    if (this.#closed) return undefined;
    if (!batch) return "large";

    // 2. Publishes them by compare-and-set of the manifest: within it when a caller waits and they are small, else as
    //    an object that is put before the manifest names it.
    if (batch.object === undefined && hurried && fitsTail(this.#manifest.now.tail, batch.made.segment))
      await this.#publishInline(batch);
    else await this.#publishObject(batch);

    // 3. Where the manifest has landed without them, they are taken anew.
    if (this.#manifest.now.txid < batch.made.segment.lastTxid) this.#beginAnew(batch);
    // 4. What it covers is shipped: durable writes are answered, and the log may be checkpointed.
    else if (!this.#closed) this.#finish(batch);
    return undefined;
  }

  #finish({ made }: ShipBatch): void {
    const through = made.segment.lastTxid;
    if (this.#failures > 0) this.#options.events.notice("shipping goes on");
    this.#failures = 0;
    this.#batch = undefined;
    const isAll = through >= this.#committedTxid;
    // How much a log grows and how much its groups have of it differ a little: with nothing left there is nothing to
    // count.
    this.#unshippedBytes = isAll ? 0 : Math.max(0, this.#unshippedBytes - made.logBytes);
    this.#ages.covered(through);
    this.shipped.raise(through);
    this.#options.events.published();
  }

  /**
   * The tail is not the one that the batch was made for: it was cut or spilled meanwhile. The log still holds the
   * groups, as no manifest covers them.
   */
  #beginAnew(batch: ShipBatch): void {
    batch.object?.uploads.end();
    this.#options.log.moveTo(batch.from);
    this.#takenTxid = batch.afterTxid;
    this.#batch = undefined;
    this.#newest = undefined;
  }

  /**
   * The next groups of the log, verified, canonical, and numbered by what their own pages say, as one segment;
   * undefined when that takes more log than asked for. What travels in the manifest merges with the tail's newest
   * groups and replaces them: groups that follow each other are mostly the same pages, so pressed together they take a
   * fraction of the room, and a tail holds several times as many before it must become an object.
   */
  async #take(isTail: boolean, logBytesMost: number): Promise<ShipBatch | undefined> {
    const { source, branchId, databasePath, statePage, log } = this.#options;
    const { now } = this.#manifest;
    const { epoch, tail } = now;
    const [from, afterTxid] = [log.position, this.#takenTxid];
    const firstTxid = txidAfter(now, afterTxid);
    const newest = this.#newest;
    const follows =
      isTail && newest?.epoch === epoch && tail.at(-1) === newest.segment && newest.segment.lastTxid + 1 === firstTxid;
    const made = await this.#parts.maker.make({
      databasePath,
      statePage,
      uuid: source.uuid,
      branchId,
      epoch,
      version: this.#parts.segmentVersion,
      from,
      firstTxid,
      isTail,
      logBytesMost,
      groupsMax: groupsInARow(now, firstTxid, this.#syncedTxid),
      logBytes: this.#unshippedBytes,
      logBytesMax: limits.segmentLogBytes,
      before: follows ? newest.start : undefined,
    });
    if (!made || this.#closed) return undefined;
    log.moveTo(made.end);
    this.#takenTxid = made.segment.lastTxid;
    this.#newest = made.start && { segment: made.segment, epoch, start: made.start };
    return { made, tail, from, afterTxid, object: undefined };
  }

  /** One conditional put: the groups travel in the manifest itself. */
  async #publishInline(batch: ShipBatch): Promise<void> {
    const added = batch.made.segment;
    await this.#publish(this.#manifest, batch, added.lastTxid, ({ tail }) => ({
      tail: [...tail.filter((one) => !holds(added, one)), added],
    }));
  }

  /** The tail and the new groups become one object of the pool; then the manifest names it. */
  async #publishObject(batch: ShipBatch): Promise<void> {
    // Writes are refused long before (engine/compaction/timeline-length): what was committed until then waits for a
    // pack, as for a store that is away.
    if (this.#manifest.now.refs.length >= timelineRefsShipped)
      throw new StoreError("unavailable", "the branch's timeline has no room before it is packed");
    if (batch.object?.uploads.isOver) {
      batch.object.uploads.end();
      batch.object = undefined;
    }
    const { uploads, put } = (batch.object ??= this.#buildObject(batch));
    const ref = await putObject(this.#options.source, put);
    this.#parts.bytesPut(ref.bytes);
    this.#parts.world.crashPoint("segment-put");
    const done = await this.#publish(uploads, batch, ref.lastTxid, ({ refs }) => ({ refs: [...refs, ref], tail: [] }));
    if (!done) return;
    uploads.end();
    this.#newest = undefined;
  }

  #buildObject({ made: { segment: added, sha256 }, tail }: ShipBatch): NonNullable<ShipBatch["object"]> {
    const segments = [...tail.filter((one) => !holds(added, one)), added];
    const uploads = new Uploads(this.#manifest);
    return {
      uploads,
      put: {
        ...joined(segments),
        kind: "delta",
        id: uploads.newId(),
        sha256: segments.length === 1 ? sha256 : undefined,
      },
    };
  }

  /**
   * Moves the manifest, unless its tail is not the one that the batch was made for: cutting or spilling a tail makes
   * other segments. Says whether the manifest covers the batch.
   */
  async #publish(
    target: Pick<ManifestWriter, "update">,
    batch: ShipBatch,
    lastTxid: number,
    change: (manifest: Manifest) => ManifestChange,
  ): Promise<boolean> {
    await target.update((manifest) =>
      manifest.txid >= lastTxid || !sameTail(manifest.tail, batch.tail)
        ? undefined
        : { ...covering(manifest, batch, this.#manifest.writerEpoch !== undefined), ...change(manifest) },
    );
    return this.#manifest.now.txid >= lastTxid;
  }
}
