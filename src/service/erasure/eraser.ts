/**
 * Carries erasures on from their request to their receipt, when their time has come.
 *
 * Owns the looks at databases with unfinished coupons (service/erasure/erasure-queue), and the search for coupons in
 * this node's shards, which it finds by their markers. The engine call goes to the node that holds the database.
 *
 * Always true: one look at a time per database, few at once; whatever fails is tried again. A coupon in object storage
 * is the truth; what is held here only says when to look. So two nodes that look at one database at once do no harm:
 * the node that writes it takes their runs in turn, each finds done what the other has done, and a coupon completes
 * once. Must not know: wires, messages.
 */
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { RisingPause, Rounds } from "../../base/rounds.ts";
import { sleep, type Cancel } from "../../base/world.ts";
import type { CopyRecords } from "../../control/databases/copy-records.ts";
import { owns, type OwnedShards } from "../../control/databases/owned-pages.ts";
import type { ErasureName, UnfinishedWhere } from "../../control/databases/erasure-coupons.ts";
import type { ErasedCoupon, Expunged } from "../../engine/api/protocol.ts";
import { isRecordTarget } from "../../model/erasure-records.ts";
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import { mainBranch } from "../../format/core/names.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { ErasureQueue, type UnfinishedDatabase } from "./erasure-queue.ts";
import { ErasureResults, type ErasureResultsParts } from "./erasure-results.ts";

/** Databases whose erasures a node carries on at once: each restores and scans a whole database. */
const erasureLooksMax = 2;
/** Erasures of one database that are carried on together; those beyond wait for the next time. */
const erasuresPerLookMax = 10_000;
/**
 * How often a node looks for unfinished erasures in its shards; more and more rarely, up to `shardLookMsMax`, while it
 * finds none.
 */
const erasureTakeUpMs = 60_000;

/** What erasures are carried on with. */
export interface EraserParts extends ErasureResultsParts {
  readonly log: Log;
  /** How long objects stay that nothing refers to: what a rewrite leaves behind is gone no earlier. */
  readonly gcGraceMs: number;
  /** The newest version of coupons that the store's layout allows; by default the newest there is. */
  readonly couponVersion?: number | undefined;
  /** Absent where this node is alone. */
  readonly cluster?: EraserCluster | undefined;
}

/** What erasures need of the other nodes. */
export interface EraserCluster {
  /** What this node is the one to look after. */
  readonly shards: OwnedShards;
  readonly copies: CopyRecords;
  /** Has the node look at once for copies that it is to purge; one that is not reached looks by itself. */
  readonly nudge: (nodeId: string) => void;
}

/** The looks of one node at the erasures that are not complete. */
export class Eraser {
  readonly #parts: EraserParts;
  readonly #queue: ErasureQueue;
  readonly #results: ErasureResults;
  readonly #looks = new Set<Promise<void>>();
  /** The search for coupons that this node was not told of. */
  readonly #search: Rounds;
  readonly #searchPause = new RisingPause(erasureTakeUpMs, limits.shardLookMsMax);
  #searchPauseMs: number = limits.erasureLookAgainMs;
  /** How many coupons are read or written at once. */
  readonly #permits = new Semaphore(limits.erasureReadsAtOnceMax);
  /** Carries out an erasure that was begun and not done. */
  readonly #carryOut: (coupon: ErasureCoupon) => Promise<void>;
  #cancelTick: Cancel = () => {};
  #closing = false;

  constructor(parts: EraserParts, carryOut: (coupon: ErasureCoupon) => Promise<void>) {
    this.#parts = parts;
    this.#carryOut = carryOut;
    this.#queue = new ErasureQueue({
      world: parts.world,
      gcGraceMs: parts.gcGraceMs,
      hasOthers: parts.cluster !== undefined,
    });
    this.#results = new ErasureResults(parts, this.#queue);
    this.#search = new Rounds({ world: parts.world, pauseMs: () => this.#searchPauseMs, round: () => this.#takeUp() });
  }

  /** Takes up what earlier runs or other nodes have left unfinished, and looks after all of it from now on. */
  start(): void {
    void this.#search.start();
    this.#tick();
  }

  /** Shards have become this node's: what is unfinished in them is looked for now. */
  takeOver(): void {
    this.#search.hurry();
  }

  /** Begins nothing more, and waits a moment for what is under way. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#cancelTick();
    await this.#search.close(0);
    await Promise.race([Promise.all(this.#looks), sleep(this.#parts.world, limits.jobStopMs)]);
  }

  /** The unfinished coupons of a database that are looked after here, oldest first. */
  unfinished(uuid: string): readonly ErasureCoupon[] {
    return [...(this.#queue.get(uuid)?.coupons.values() ?? [])];
  }

  /**
   * Looks after the coupon from now on, in its present state; `isAskedHere` when this node was asked for the erasure.
   */
  hold(coupon: ErasureCoupon, isAskedHere = false): void {
    this.#queue.hold(coupon, isAskedHere);
  }

  /** The coupon needs no more looks. */
  removeCoupon(coupon: ErasureName): void {
    this.#queue.removeCoupon(coupon);
  }

  /** The database's branches have changed: its coupons are looked at soon. */
  wake(uuid: string): void {
    const database = this.#queue.get(uuid);
    if (database) {
      database.nextLookMs = 0;
      database.woken = true;
      this.#tick();
    } else if (this.#parts.cluster) {
      // Another node may look after them, and does not hear of this.
      void this.#takeUpDatabase(uuid);
    }
  }

  /** It was requested under a clock that was ahead: its grace begins now instead. */
  async #setRight(coupon: ErasureCoupon): Promise<void> {
    const nowMs = this.#parts.world.nowMs();
    await this.#readably(coupon, () =>
      this.#parts.coupons.change(coupon.uuid, coupon.id, (now) =>
        this.#queue.isOfFuture(now)
          ? { ...now, requestedAtMs: nowMs, graceUntilMs: nowMs + now.graceUntilMs - now.requestedAtMs }
          : undefined,
      ),
    );
  }

  /**
   * Looks for coupons that this node was not told of, in its shards. Where it is alone, until it knows of all: then
   * there are no others.
   */
  async #takeUp(): Promise<void> {
    const { cluster, log } = this.#parts;
    try {
      const found = await this.#find({ shards: cluster?.shards });
      this.#searchPauseMs = this.#searchPause.after(found > 0);
      if (!cluster) void this.#search.close(0);
    } catch (error) {
      this.#searchPauseMs = limits.erasureLookAgainMs;
      log.warn("unfinished erasures of earlier runs are not known yet; they are looked for again", {
        code: getErrorCode(error),
      });
    }
  }

  /** Looks for the coupons of a database that was woken, whosever it is. */
  async #takeUpDatabase(uuid: string): Promise<void> {
    try {
      await this.#find({ uuid });
    } catch (error) {
      this.#parts.log.warn("unfinished erasures of a database that has changed could not be looked for", {
        uuid,
        code: getErrorCode(error),
      });
    }
    if (this.#queue.get(uuid)) this.wake(uuid);
  }

  /** Looks after the unfinished coupons there that are not held yet, and gives their number. */
  async #find(where: UnfinishedWhere): Promise<number> {
    let found = 0;
    for await (const coupon of this.#parts.coupons.unfinished(where, (name) => !this.#queue.has(name))) {
      if (this.#queue.has(coupon)) continue;
      this.hold(coupon);
      found++;
    }
    return found;
  }

  /** Begins the looks that are due, and comes back. */
  #tick(): void {
    this.#cancelTick();
    if (this.#closing) return;
    const { world, log } = this.#parts;
    for (const [uuid, database] of this.#queue.databases) {
      if (this.#looks.size >= erasureLooksMax) break;
      if (database.looking || database.nextLookMs > world.monotonicMs()) continue;
      database.looking = true;
      // Whatever the outcome; a look that goes well sets a better time.
      database.nextLookMs = world.monotonicMs() + limits.erasureLookAgainMs;
      const { woken } = database;
      database.woken = false;
      const look: Promise<void> = this.#look(uuid, database, woken)
        .catch((error: unknown) => {
          // What it was woken for has not been looked at.
          database.woken ||= woken;
          log.warn("erasures of a database could not be carried on; tried again", { uuid, code: getErrorCode(error) });
        })
        .finally(() => {
          this.#looks.delete(look);
          this.#queue.release(uuid);
        });
      this.#looks.add(look);
    }
    this.#cancelTick = world.after(limits.erasureTickMs, () => this.#tick());
  }

  async #look(uuid: string, database: UnfinishedDatabase, woken: boolean): Promise<void> {
    const { cluster } = this.#parts;
    // A change of branches here has woken this node, and the node that owns the shard was not told.
    if (cluster && !owns(cluster.shards, uuid) && !woken) this.#queue.leave(database);
    await Promise.all(
      [...database.coupons.values()]
        .filter((coupon) => this.#queue.isOfFuture(coupon))
        .map((coupon) => this.#permits.run(() => this.#setRight(coupon))),
    );
    for (const coupon of [...database.coupons.values()])
      if (coupon.status === "begun" && this.#queue.computeWait(coupon) === 0) await this.#carryOutLate(coupon);
    // What is blocked comes last: however many such ones there are, they leave room for the others.
    const due = [...database.coupons.values()]
      .filter((coupon) => this.#queue.isDue(coupon))
      .sort((a, b) => Number(a.status === "blocked") - Number(b.status === "blocked"))
      .slice(0, erasuresPerLookMax);
    if (due.length === 0 && !woken) return this.#queue.lookNext(database, new Set(), undefined);
    await Promise.all(due.map((coupon) => this.#permits.run(() => this.#refresh(coupon))));
    const coupons = [...database.coupons.values()].filter(({ status }) => status !== "begun");
    const asked = coupons.map((coupon): ErasedCoupon => {
      const { id, memoryIds, points, traces, awaiting, target, records: ids } = coupon;
      const records = traces && ids && isRecordTarget(target) ? { target, ids, key: traces.key } : undefined;
      return {
        id,
        memoryIds,
        ...(records && { records }),
        points,
        traces: traces ?? noTraces,
        isDue: traces !== undefined,
        ...(awaiting && { awaiting }),
      };
    });
    if (asked.length === 0) return this.#queue.lookNext(database, new Set(), undefined);
    const value = await this.#expunge(uuid, asked, database);
    const clean = new Set(value.clean);
    await Promise.all(
      coupons.map((coupon) => this.#permits.run(() => this.#results.recordFindings(coupon, value, clean))),
    );
    if (cluster) await this.#tellOthers(uuid, value, database, cluster);
    this.#queue.lookNext(database, new Set(asked.map(({ id }) => id)), value);
  }

  /**
   * It restores, rewrites and scans a whole database: no call waits for it. The coupons that are due tell what keeps it
   * from its end.
   */
  async #expunge(uuid: string, asked: readonly ErasedCoupon[], { coupons }: UnfinishedDatabase): Promise<Expunged> {
    try {
      return (
        await this.#parts.engine.branch(
          { uuid, branch: mainBranch },
          { act: "expunge", coupons: asked },
          { deadlineMs: Infinity },
        )
      ).value;
    } catch (error) {
      const due = asked.flatMap(({ id, isDue }) => (isDue ? (coupons.get(id) ?? []) : []));
      // If that cannot be written down either, object storage is away: the failure is still thrown and logged.
      await Promise.allSettled(due.map((coupon) => this.#permits.run(() => this.#results.sayWhy(coupon, error))));
      throw error;
    }
  }

  /**
   * Orders the purge of the copies that the coupons wait for; when none is left, what was said of copies is of no use
   * any more.
   */
  async #tellOthers(
    uuid: string,
    { copies = {} }: Expunged,
    { coupons }: UnfinishedDatabase,
    { copies: records, nudge }: EraserCluster,
  ): Promise<void> {
    const holding = new Map(
      Object.values(copies).flatMap((found) => found.holding.map((one) => [one.copy, one] as const)),
    );
    await Promise.all([...holding.values()].map((one) => this.#permits.run(() => records.order({ uuid, ...one }))));
    for (const node of new Set([...holding.values()].map((one) => one.node))) nudge(node);
    if (coupons.size === 0) await records.clear(uuid);
  }

  /** One that fails is tried again, and keeps no other erasure of its database from its end. */
  async #carryOutLate(coupon: ErasureCoupon): Promise<void> {
    try {
      await this.#carryOut(coupon);
    } catch (error) {
      if (!(error instanceof ServiceError) && !(error instanceof StoreError)) throw error;
      this.#parts.log.warn("an erasure that was begun could not be carried out; tried again", {
        uuid: coupon.uuid,
        erasure: coupon.id,
        code: getErrorCode(error),
      });
    }
  }

  /**
   * The coupon with its traces from object storage. A rotten one is left to an operator: it keeps no other from its
   * end.
   */
  async #refresh(held: ErasureCoupon): Promise<void> {
    // Where there are other nodes, one of them may have carried it on.
    if (held.traces && !this.#parts.cluster) return;
    await this.#readably(held, () => this.#parts.coupons.get(held.uuid, held.id));
  }

  /** Holds the coupon as `read` gives it. */
  async #readably(held: ErasureCoupon, read: () => Promise<ErasureCoupon | undefined>): Promise<void> {
    try {
      const coupon = await read();
      if (!coupon || coupon.status === "completed") this.removeCoupon(held);
      else this.hold(coupon);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#parts.log.error("the coupon of an erasure cannot be read: the erasure is not carried on", error, {
        uuid: held.uuid,
        erasure: held.id,
      });
      this.removeCoupon(held);
    }
  }
}

const noTraces = { key: new Uint8Array(32), windows: new Uint8Array(0), windowsTotal: 0 };
