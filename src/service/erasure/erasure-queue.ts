/**
 * The unfinished erasures that this node looks after, by database, and when each is to be looked at.
 *
 * Owns the coupons as they were last seen, and which of them this node was asked for. Always true: a coupon is due by
 * the trusted time, never by a clock that is ahead; one requested under such a clock is looked at now.
 * Must not know: what a look does.
 */
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { ErasureName } from "../../control/databases/erasure-coupons.ts";
import type { Expunged } from "../../engine/api/protocol.ts";
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";

/** How long an erasure that was begun is left to its caller before it is carried out for it. */
export const erasureBegunMs = 60_000;
/** An erasure whose grace lasts longer is looked at in between, as the clock by which it ends may be set right. */
export const erasureWaitMsMax = 3_600_000;
/** When to look whether something still blocks an erasure, when nothing has told of a change. */
export const erasureBlockedLookMs = 600_000;
/**
 * The node that was asked for an erasure looks after it this long; then the owner of its shard does, which has found it
 * by then. An erasure completes this much later when that node dies.
 */
export const erasureFirstMs = 720_000;

/** A database with unfinished coupons. */
export interface UnfinishedDatabase {
  /** As they were when last seen, oldest first. Traces are read only when they are looked for. */
  readonly coupons: Map<string, ErasureCoupon>;
  /** On world.monotonicMs(). */
  nextLookMs: number;
  looking: boolean;
  /** Something has happened that may bring data back or free it: even what is not due is looked at. */
  woken: boolean;
}

/** What the times of looks depend on. */
export interface ErasureQueueOptions {
  readonly world: World;
  /** How long objects stay that nothing refers to: what a rewrite leaves behind is gone no earlier. */
  readonly gcGraceMs: number;
  /** Whether there are other nodes, one of which may be the one to look after a coupon. */
  readonly hasOthers: boolean;
}

/** The unfinished erasures of one node. */
export class ErasureQueue {
  readonly #world: World;
  readonly #gcGraceMs: number;
  readonly #hasOthers: boolean;
  /** By uuid. */
  readonly #databases = new Map<string, UnfinishedDatabase>();
  /** Coupons that this node was asked for. */
  readonly #askedHere = new Set<string>();

  constructor({ world, gcGraceMs, hasOthers }: ErasureQueueOptions) {
    this.#world = world;
    this.#gcGraceMs = gcGraceMs;
    this.#hasOthers = hasOthers;
  }

  /** All databases that have unfinished coupons here. */
  get databases(): Iterable<readonly [uuid: string, database: UnfinishedDatabase]> {
    return this.#databases;
  }

  /** The database, if it has unfinished coupons here. */
  get(uuid: string): UnfinishedDatabase | undefined {
    return this.#databases.get(uuid);
  }

  /** Whether the coupon is looked after here. */
  has({ uuid, id }: ErasureName): boolean {
    return this.#databases.get(uuid)?.coupons.has(id) ?? false;
  }

  /**
   * Looks after the coupon from now on, in its present state; `isAskedHere` when this node was asked for the erasure.
   */
  hold(coupon: ErasureCoupon, isAskedHere = false): void {
    if (isAskedHere) this.#askedHere.add(coupon.id);
    const database = this.#databases.get(coupon.uuid) ?? {
      coupons: new Map(),
      nextLookMs: Infinity,
      looking: false,
      woken: false,
    };
    this.#databases.set(coupon.uuid, database);
    database.coupons.set(
      coupon.id,
      coupon.status === "begun" || this.isDue(coupon) ? coupon : { ...coupon, traces: undefined },
    );
    database.nextLookMs = Math.min(database.nextLookMs, this.#world.monotonicMs() + this.computeWait(coupon));
  }

  /**
   * When the coupon is to be looked at first. One that is only begun has a caller, who is given time. One that lies
   * beyond the longest wait is looked at now: the clock may have been set right meanwhile.
   */
  computeWait(coupon: ErasureCoupon): number {
    if (this.isOfFuture(coupon)) return 0;
    return Math.min(Math.max(0, this.#dueAtMs(coupon) - this.#world.time.sureMs()), erasureWaitMsMax);
  }

  /** Whether its grace is over; one that is only begun has to be carried out first. */
  isDue(coupon: ErasureCoupon): boolean {
    return coupon.status !== "begun" && this.#dueAtMs(coupon) <= this.#world.time.sureMs();
  }

  #dueAtMs({ id, status, requestedAtMs, graceUntilMs }: ErasureCoupon): number {
    const atMs = status === "begun" ? requestedAtMs + erasureBegunMs : graceUntilMs;
    // Before that it is looked after where it was asked for.
    const oursAtMs = this.#hasOthers && !this.#askedHere.has(id) ? requestedAtMs + erasureFirstMs : 0;
    return Math.max(atMs, oursAtMs);
  }

  /** Whether it was asked for under a clock that was ahead: it would wait for as long. */
  isOfFuture({ requestedAtMs }: ErasureCoupon): boolean {
    return this.#world.time.believable(requestedAtMs) < requestedAtMs;
  }

  /** The coupon needs no more looks. */
  removeCoupon({ uuid, id }: ErasureName): void {
    const database = this.#databases.get(uuid);
    database?.coupons.delete(id);
    this.#askedHere.delete(id);
    if (database?.coupons.size === 0 && !database.looking) this.#databases.delete(uuid);
  }

  /** A look at the database is over: it is forgotten when no coupon is left. */
  release(uuid: string): void {
    const database = this.#databases.get(uuid);
    if (!database) return;
    database.looking = false;
    if (database.coupons.size === 0) this.#databases.delete(uuid);
  }

  /**
   * The database is in another node's shard, which finds its coupons; those that were asked for here stay for a while.
   */
  leave({ coupons }: UnfinishedDatabase): void {
    const untilMs = this.#world.nowMs() - erasureFirstMs;
    for (const { id, requestedAtMs } of [...coupons.values()]) {
      if (this.#askedHere.has(id) && requestedAtMs > untilMs) continue;
      coupons.delete(id);
      this.#askedHere.delete(id);
    }
  }

  /** Says when the database is looked at next, after a look in which the engine was asked about these coupons. */
  lookNext(database: UnfinishedDatabase, asked: ReadonlySet<string>, expunged: Expunged | undefined): void {
    if (database.woken) return;
    const waits = [...database.coupons.values()].map((coupon) => {
      if (coupon.status === "begun") return this.computeWait(coupon) || limits.erasureLookAgainMs;
      if (expunged?.mayChangeSoon && asked.has(coupon.id))
        return Math.min(Math.max(this.#gcGraceMs, limits.erasureTickMs), limits.erasureLookAgainMs);
      // One that came meanwhile is looked at as soon as it is due.
      if (!this.isDue(coupon) || !asked.has(coupon.id)) return this.computeWait(coupon);
      // What frees it reports itself, or is another coupon's time.
      return erasureBlockedLookMs;
    });
    database.nextLookMs =
      this.#world.monotonicMs() + waits.reduce((least, waitMs) => Math.min(least, waitMs), Infinity);
    // Of a deleted database even what is not due is asked about until it is gone.
    database.woken = expunged?.mayChangeSoon ?? false;
  }
}
