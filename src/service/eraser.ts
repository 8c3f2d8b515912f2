/**
 * Carries erasures on from their request to their receipt, when their time has come.
 *
 * Owns which unfinished coupons this node looks after, and when they are looked at: those that it was asked for, for a
 * while, and those in its shards, which it finds by their markers. The engine call goes to whoever holds the database.
 * Always true: one look at a time per database, few at once; a receipt is signed only for what the engine has proven;
 * whatever fails is tried again. A coupon in object storage is the truth; what is held here only says when to look. So
 * two nodes that look at one database at once do no harm: the node that writes it takes their runs in turn, each finds
 * done what the other has done, and a coupon completes once. Must not know: wires, messages.
 */
import { codeOf, ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import { Permits } from "../base/permits.ts";
import { RisingPause, Rounds } from "../base/rounds.ts";
import { sleep, type Cancel, type World } from "../base/world.ts";
import type { AuditLog } from "../control/audit-log.ts";
import type { CopyRecords } from "../control/copy-records.ts";
import { owns, type OwnedShards } from "../control/owned-pages.ts";
import type { ErasureCoupons, ErasureName, UnfinishedWhere } from "../control/erasure-coupons.ts";
import type { Receipts } from "../control/receipts.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { CopiesFound, ErasedCoupon, Expunged } from "../engine/protocol.ts";
import type { ErasureCoupon } from "../format/erasure-coupon.ts";
import { receiptPayload, type ErasureEvidence } from "../format/erasure-receipt.ts";
import { mainBranch, profileOfDatabaseName } from "../format/names.ts";
import { isUnreadable } from "../format/versions.ts";

export interface EraserParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly coupons: ErasureCoupons;
  readonly receipts: Receipts;
  readonly audit: AuditLog;
  /** How long objects stay that nothing refers to: what a rewrite leaves behind is gone no earlier. */
  readonly gcGraceMs: number;
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

/** A database with unfinished coupons. */
interface Ward {
  /** As they were when last seen, oldest first. Traces are read only when they are looked for. */
  readonly coupons: Map<string, ErasureCoupon>;
  /** On world.monotonicMs(). */
  nextLookMs: number;
  looking: boolean;
  /** Something has happened that may bring data back or free it: even what is not due is looked at. */
  woken: boolean;
}

export class Eraser {
  readonly #parts: EraserParts;
  /** By uuid. */
  readonly #wards = new Map<string, Ward>();
  readonly #looks = new Set<Promise<void>>();
  /** Coupons in the wards that this node was asked for. */
  readonly #askedHere = new Set<string>();
  /** The search for coupons that nobody has told this node of. */
  readonly #search: Rounds;
  readonly #searchPause = new RisingPause(limits.erasureTakeUpMs, limits.shardLookMsMax);
  #searchPauseMs: number = limits.erasureLookAgainMs;
  /** How many coupons are read or written at once. */
  readonly #permits = new Permits(limits.erasureReadsAtOnceMax);
  /** Carries out an erasure that was begun and not done. */
  readonly #carryOut: (coupon: ErasureCoupon) => Promise<void>;
  #cancelTick: Cancel = () => {};
  #closing = false;

  constructor(parts: EraserParts, carryOut: (coupon: ErasureCoupon) => Promise<void>) {
    this.#parts = parts;
    this.#carryOut = carryOut;
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
    await Promise.race([Promise.all(this.#looks), sleep(this.#parts.world, limits.erasureStopMs)]);
  }

  /** The unfinished coupons of a database that are looked after here, oldest first. */
  unfinished(uuid: string): readonly ErasureCoupon[] {
    return [...(this.#wards.get(uuid)?.coupons.values() ?? [])];
  }

  /** Looks after the coupon from now on, as it stands; `isAskedHere` when this node was asked for the erasure. */
  hold(coupon: ErasureCoupon, isAskedHere = false): void {
    const { world } = this.#parts;
    if (isAskedHere) this.#askedHere.add(coupon.id);
    const ward = this.#wards.get(coupon.uuid) ?? { coupons: new Map(), nextLookMs: Infinity, looking: false, woken: false };
    this.#wards.set(coupon.uuid, ward);
    ward.coupons.set(coupon.id, coupon.status === "begun" || this.#isDue(coupon) ? coupon : { ...coupon, traces: undefined });
    ward.nextLookMs = Math.min(ward.nextLookMs, world.monotonicMs() + this.#waitOf(coupon));
  }

  /**
   * When the coupon is to be looked at first. One that is only begun has a caller, who is given time. What is later than the
   * longest wait is looked at for nothing before: the clock may have been set right meanwhile.
   */
  #waitOf(coupon: ErasureCoupon): number {
    if (this.#isOfFuture(coupon)) return 0;
    return Math.min(Math.max(0, this.#dueAtMs(coupon) - this.#parts.world.time.sureMs()), limits.erasureWaitMsMax);
  }

  #isDue(coupon: ErasureCoupon): boolean {
    return coupon.status !== "begun" && this.#dueAtMs(coupon) <= this.#parts.world.time.sureMs();
  }

  #dueAtMs({ id, status, requestedAtMs, graceUntilMs }: ErasureCoupon): number {
    const atMs = status === "begun" ? requestedAtMs + limits.erasureBegunMs : graceUntilMs;
    // Before that it is looked after where it was asked for.
    const oursAtMs = this.#parts.cluster && !this.#askedHere.has(id) ? requestedAtMs + limits.erasureFirstMs : 0;
    return Math.max(atMs, oursAtMs);
  }

  /** Whether it was asked for under a clock that was ahead: it would wait for as long. */
  #isOfFuture({ requestedAtMs }: ErasureCoupon): boolean {
    return this.#parts.world.time.believable(requestedAtMs) < requestedAtMs;
  }

  /** Its grace begins now instead. */
  async #setRight(coupon: ErasureCoupon): Promise<void> {
    const nowMs = this.#parts.world.nowMs();
    await this.#readably(coupon, () =>
      this.#parts.coupons.change(coupon.uuid, coupon.id, (now) =>
        this.#isOfFuture(now) ? { ...now, requestedAtMs: nowMs, graceUntilMs: nowMs + now.graceUntilMs - now.requestedAtMs } : undefined));
  }

  /** The coupon needs nobody any more. */
  letGo({ uuid, id }: ErasureName): void {
    const ward = this.#wards.get(uuid);
    ward?.coupons.delete(id);
    this.#askedHere.delete(id);
    if (ward?.coupons.size === 0 && !ward.looking) this.#wards.delete(uuid);
  }

  /** The database's branches have changed: its coupons are looked at soon. */
  wake(uuid: string): void {
    const ward = this.#wards.get(uuid);
    if (ward) {
      ward.nextLookMs = 0;
      ward.woken = true;
      this.#tick();
    } else if (this.#parts.cluster) {
      // Another node may look after them, and does not hear of this.
      void this.#takeUpOf(uuid);
    }
  }

  /** Looks for coupons that nobody has told this node of, in its shards. Where it is alone, until it knows of all: then there are no others. */
  async #takeUp(): Promise<void> {
    const { cluster, log } = this.#parts;
    try {
      const found = await this.#find({ shards: cluster?.shards });
      this.#searchPauseMs = this.#searchPause.after(found > 0);
      if (!cluster) void this.#search.close(0);
    } catch (error) {
      this.#searchPauseMs = limits.erasureLookAgainMs;
      log.warn("unfinished erasures of earlier runs are not known yet; they are looked for again", { code: codeOf(error) });
    }
  }

  /** Looks for the coupons of a database that was woken, whosever it is. */
  async #takeUpOf(uuid: string): Promise<void> {
    try {
      await this.#find({ uuid });
    } catch (error) {
      this.#parts.log.warn("unfinished erasures of a database that has changed could not be looked for", { uuid, code: codeOf(error) });
    }
    if (this.#wards.has(uuid)) this.wake(uuid);
  }

  /** Looks after the unfinished coupons there that are not held yet, and gives their number. */
  async #find(where: UnfinishedWhere): Promise<number> {
    let found = 0;
    const isHeld = ({ uuid, id }: ErasureName): boolean => this.#wards.get(uuid)?.coupons.has(id) ?? false;
    for await (const coupon of this.#parts.coupons.unfinished(where, (name) => !isHeld(name))) {
      if (isHeld(coupon)) continue;
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
    for (const [uuid, ward] of this.#wards) {
      if (this.#looks.size >= limits.erasureLooksMax) break;
      if (ward.looking || ward.nextLookMs > world.monotonicMs()) continue;
      ward.looking = true;
      // Whatever comes of it; a look that goes well says better.
      ward.nextLookMs = world.monotonicMs() + limits.erasureLookAgainMs;
      const { woken } = ward;
      ward.woken = false;
      const look: Promise<void> = this.#look(uuid, ward, woken)
        .catch((error: unknown) => {
          // What it was woken for has not been looked at.
          ward.woken ||= woken;
          log.warn("erasures of a database could not be carried on; tried again", { uuid, code: codeOf(error) });
        })
        .finally(() => {
          ward.looking = false;
          this.#looks.delete(look);
          if (ward.coupons.size === 0) this.#wards.delete(uuid);
        });
      this.#looks.add(look);
    }
    this.#cancelTick = world.after(limits.erasureTickMs, () => this.#tick());
  }

  async #look(uuid: string, ward: Ward, woken: boolean): Promise<void> {
    const { cluster } = this.#parts;
    // Who has changed its branches here has woken it, and nobody told the node whose it is.
    if (cluster && !owns(cluster.shards, uuid) && !woken) this.#leave(ward);
    await Promise.all([...ward.coupons.values()].filter((coupon) => this.#isOfFuture(coupon)).map((coupon) => this.#permits.run(() => this.#setRight(coupon))));
    for (const coupon of [...ward.coupons.values()]) if (coupon.status === "begun" && this.#waitOf(coupon) === 0) await this.#carryOutLate(coupon);
    // What is blocked comes last: however many such ones there are, they leave room for the others.
    const due = [...ward.coupons.values()].filter((coupon) => this.#isDue(coupon)).sort((a, b) => Number(a.status === "blocked") - Number(b.status === "blocked")).slice(0, limits.erasuresPerLookMax);
    if (due.length === 0 && !woken) return this.#lookNext(ward, new Set(), undefined);
    await Promise.all(due.map((coupon) => this.#permits.run(() => this.#refresh(coupon))));
    const coupons = [...ward.coupons.values()].filter(({ status }) => status !== "begun");
    const asked = coupons.map((coupon): ErasedCoupon => {
      const { id, memoryIds, points, traces, awaiting } = coupon;
      return { id, memoryIds, points, traces: traces ?? noTraces, isDue: traces !== undefined, ...(awaiting && { awaiting }) };
    });
    if (asked.length === 0) return this.#lookNext(ward, new Set(), undefined);
    const value = await this.#expunge(uuid, asked, ward);
    const clean = new Set(value.clean);
    await Promise.all(coupons.map((coupon) => this.#permits.run(() => this.#settle(coupon, value, clean))));
    if (cluster) await this.#tellOthers(uuid, value, ward, cluster);
    this.#lookNext(ward, new Set(asked.map(({ id }) => id)), value);
  }

  /** It restores, rewrites and scans a whole database: nobody waits for it. What keeps it from its end is told by the coupons that are due. */
  async #expunge(uuid: string, asked: readonly ErasedCoupon[], ward: Ward): Promise<Expunged> {
    try {
      return (await this.#parts.engine.branch({ uuid, branch: mainBranch }, { act: "expunge", coupons: asked }, { deadlineMs: Infinity })).value;
    } catch (error) {
      const waitingFor = failureInWords(error);
      const due = asked.flatMap(({ id, isDue }) => (isDue ? (ward.coupons.get(id) ?? []) : []));
      // Where that cannot be written down either, object storage is away: what failed is thrown and logged all the same.
      await Promise.allSettled(due.map((coupon) => this.#permits.run(() => this.#sayWhy(coupon, waitingFor, ward))));
      throw error;
    }
  }

  async #sayWhy(coupon: ErasureCoupon, waitingFor: string, { coupons }: Ward): Promise<void> {
    if (coupon.waitingFor === waitingFor) return;
    const next = await this.#parts.coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, waitingFor }));
    // When it is looked at next does not change by this.
    if (next.status === "completed") this.letGo(coupon);
    else coupons.set(coupon.id, next);
  }

  /** The database is in another node's shard, which finds its coupons; those that were asked for here stay for a while. */
  #leave({ coupons }: Ward): void {
    const untilMs = this.#parts.world.nowMs() - limits.erasureFirstMs;
    for (const { id, requestedAtMs } of [...coupons.values()]) {
      if (this.#askedHere.has(id) && requestedAtMs > untilMs) continue;
      coupons.delete(id);
      this.#askedHere.delete(id);
    }
  }

  /** Orders the copies to be purged that the coupons wait for; when none is left, what was said of copies is of no use any more. */
  async #tellOthers(uuid: string, { copies = {} }: Expunged, ward: Ward, { copies: records, nudge }: EraserCluster): Promise<void> {
    const holding = new Map(Object.values(copies).flatMap((found) => found.holding.map((one) => [one.copy, one] as const)));
    await Promise.all([...holding.values()].map((one) => this.#permits.run(() => records.order({ uuid, ...one }))));
    for (const node of new Set([...holding.values()].map((one) => one.node))) nudge(node);
    if (ward.coupons.size === 0) await records.clear(uuid);
  }

  /** One that fails is tried again, and keeps no other erasure of its database from its end. */
  async #carryOutLate(coupon: ErasureCoupon): Promise<void> {
    try {
      await this.#carryOut(coupon);
    } catch (error) {
      if (!(error instanceof ServiceError) && !(error instanceof StoreError)) throw error;
      this.#parts.log.warn("an erasure that was begun could not be carried out; tried again", { uuid: coupon.uuid, erasure: coupon.id, code: codeOf(error) });
    }
  }

  /** The coupon with its traces, as it stands in object storage. One that is rotten is left to an operator: it keeps no other from its end. */
  async #refresh(held: ErasureCoupon): Promise<void> {
    // Where there are other nodes, one of them may have carried it on.
    if (held.traces && !this.#parts.cluster) return;
    await this.#readably(held, () => this.#parts.coupons.get(held.uuid, held.id));
  }

  /** Holds the coupon as `read` gives it. */
  async #readably(held: ErasureCoupon, read: () => Promise<ErasureCoupon | undefined>): Promise<void> {
    try {
      const coupon = await read();
      if (!coupon || coupon.status === "completed") this.letGo(held);
      else this.hold(coupon);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#parts.log.error("the coupon of an erasure cannot be read: the erasure is not carried on", error, { uuid: held.uuid, erasure: held.id });
      this.letGo(held);
    }
  }

  #lookNext(ward: Ward, asked: ReadonlySet<string>, expunged: Expunged | undefined): void {
    const { world, gcGraceMs } = this.#parts;
    if (ward.woken) return;
    const waits = [...ward.coupons.values()].map((coupon) => {
      if (coupon.status === "begun") return this.#waitOf(coupon) || limits.erasureLookAgainMs;
      if (expunged?.mayChangeSoon && asked.has(coupon.id)) return Math.min(Math.max(gcGraceMs, limits.erasureTickMs), limits.erasureLookAgainMs);
      // One that came meanwhile is looked at as soon as it is due.
      if (!this.#isDue(coupon) || !asked.has(coupon.id)) return this.#waitOf(coupon);
      // Whatever frees it tells of itself, or is another coupon's time.
      return limits.erasureBlockedLookMs;
    });
    ward.nextLookMs = world.monotonicMs() + waits.reduce((least, waitMs) => Math.min(least, waitMs), Infinity);
    // Of a deleted database even what is not due is asked about until it is gone.
    ward.woken = expunged?.mayChangeSoon ?? false;
  }

  /** Writes down what the engine found of the coupon. */
  async #settle(coupon: ErasureCoupon, { blocked, reasons, waitingFor, evidence, copies }: Expunged, clean: ReadonlySet<string>): Promise<void> {
    const { coupons } = this.#parts;
    const blockedBy = blocked[coupon.id];
    const ofCopies = copies?.[coupon.id];
    if (clean.has(coupon.id) && evidence) return this.#complete(coupon, withCopies(evidence, ofCopies));
    const pendingFor = coupon.traces === undefined ? undefined : waitingFor;
    const found = { blockedBy, waitingFor: blockedBy ? reasons?.[coupon.id] : pendingFor, awaiting: blockedBy ? undefined : ofCopies?.awaiting };
    if (JSON.stringify(found) === JSON.stringify({ blockedBy: coupon.blockedBy, waitingFor: coupon.waitingFor, awaiting: coupon.awaiting })) return;
    const next = await coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, status: blockedBy ? "blocked" : "pending", ...found }));
    if (next.status === "completed") this.letGo(coupon);
    else this.hold(next);
  }

  async #complete(coupon: ErasureCoupon, evidence: ErasureEvidence): Promise<void> {
    const { coupons, receipts, world, audit } = this.#parts;
    const completedAtMs = world.nowMs();
    const receipt = receipts.sign(receiptPayload(coupon, completedAtMs, evidence));
    const completed = await coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, status: "completed", completedAtMs, receipt }));
    this.letGo(coupon);
    // Another node was first, and has said so.
    if (completed.receipt !== receipt) return;
    const place = profileOfDatabaseName(coupon.database);
    if (place) audit.record({ ...place, branch: coupon.branch, action: "erasure.completed", resource: coupon.id, outcome: "ok", count: coupon.memoryIds.length, identity: { kind: "internal" } });
    await this.#forgetJournal(coupon);
  }

  /** What the databases noted so that a coupon which is asked for twice erases once is of no use any more. */
  async #forgetJournal({ id, uuid, points }: ErasureCoupon): Promise<void> {
    const { engine, world } = this.#parts;
    for (const { branch } of points) {
      try {
        await engine.write({ uuid, branch }, "erasure.settled", { couponId: id }, { deadlineMs: world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000 });
      } catch (error) {
        // The branch is gone, or the note stays: it holds ids and nothing else.
        if (!(error instanceof ServiceError) && !(error instanceof StoreError)) throw error;
      }
    }
  }
}

/** Why an attempt came to nothing, for the coupon's reader. Refusals and faults of storage name objects and transaction ids, never content. */
function failureInWords(error: unknown): string {
  const isTold = error instanceof ServiceError || error instanceof StoreError;
  return `the last attempt failed: ${isTold ? error.message.slice(0, limits.erasureReasonCharsMax) : "the node met a fault, which its log tells"}`;
}

const noTraces = { key: new Uint8Array(32), windows: new Uint8Array(0), windowsTotal: 0 };

/** The evidence with what other nodes have said of their copies, and which nodes never will. */
function withCopies(evidence: ErasureEvidence, found: CopiesFound | undefined): ErasureEvidence {
  if (!found) return evidence;
  const { purged, unattested } = found;
  return { ...evidence, local: [...evidence.local, ...purged], ...(unattested.length > 0 && { unattested }) };
}
