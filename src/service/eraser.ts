/**
 * Carries erasures on from their request to their receipt, when their time has come.
 *
 * Owns which coupons of this node's databases are unfinished, and when they are looked at. Always true: one look at a
 * time per database, few at once; a receipt is signed only for what the engine has proven; whatever fails is tried again.
 * A coupon in object storage is the truth; what is held here only says when to look. Must not know: wires, messages.
 */
import { ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import { Permits } from "../base/permits.ts";
import { sleep, type Cancel, type World } from "../base/world.ts";
import type { AuditLog } from "../control/audit-log.ts";
import type { ErasureCoupons } from "../control/erasure-coupons.ts";
import type { Receipts } from "../control/receipts.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { ErasedCoupon, Expunged } from "../engine/protocol.ts";
import type { ErasureCoupon, ErasureEvidence } from "../format/erasure-coupon.ts";
import { receiptPayload } from "../format/erasure-receipt.ts";
import { mainBranch, profileOfDatabaseName } from "../format/names.ts";

export interface EraserParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly coupons: ErasureCoupons;
  readonly receipts: Receipts;
  readonly audit: AuditLog;
  /** How long objects stay that nothing refers to: what a rewrite leaves behind is gone no earlier. */
  readonly gcGraceMs: number;
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
  /** How many coupons are read or written at once. */
  readonly #permits = new Permits(limits.erasureReadsAtOnceMax);
  /** Carries out an erasure that was begun and not done. */
  readonly #carryOut: (coupon: ErasureCoupon) => Promise<void>;
  #cancelTick: Cancel = () => {};
  #closing = false;

  constructor(parts: EraserParts, carryOut: (coupon: ErasureCoupon) => Promise<void>) {
    this.#parts = parts;
    this.#carryOut = carryOut;
  }

  /** Takes up what earlier runs have left unfinished, and looks after all of it from now on. */
  start(): void {
    void this.#takeUp();
    this.#tick();
  }

  /** Begins nothing more, and waits a moment for what is under way. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#cancelTick();
    await Promise.race([Promise.all(this.#looks), sleep(this.#parts.world, limits.erasureStopMs)]);
  }

  /** The unfinished coupons of a database, oldest first. */
  unfinished(uuid: string): readonly ErasureCoupon[] {
    return [...(this.#wards.get(uuid)?.coupons.values() ?? [])];
  }

  /** Looks after the coupon from now on, as it stands. */
  hold(coupon: ErasureCoupon): void {
    const { world } = this.#parts;
    const ward = this.#wards.get(coupon.uuid) ?? { coupons: new Map(), nextLookMs: Infinity, looking: false, woken: false };
    this.#wards.set(coupon.uuid, ward);
    ward.coupons.set(coupon.id, coupon.status === "begun" || this.#isDue(coupon) ? coupon : { ...coupon, traces: undefined });
    ward.nextLookMs = Math.min(ward.nextLookMs, world.monotonicMs() + this.#waitOf(coupon));
  }

  /** When the coupon is to be looked at first. One that is only begun has a caller, who is given time. */
  #waitOf({ status, requestedAtMs, graceUntilMs }: ErasureCoupon): number {
    const atMs = status === "begun" ? requestedAtMs + limits.erasureBegunMs : graceUntilMs;
    return Math.max(0, atMs - this.#parts.world.nowMs());
  }

  #isDue({ status, graceUntilMs }: ErasureCoupon): boolean {
    return status !== "begun" && graceUntilMs <= this.#parts.world.nowMs();
  }

  /** The coupon needs nobody any more. */
  letGo({ uuid, id }: Pick<ErasureCoupon, "uuid" | "id">): void {
    const ward = this.#wards.get(uuid);
    ward?.coupons.delete(id);
    if (ward?.coupons.size === 0 && !ward.looking) this.#wards.delete(uuid);
  }

  /** The database's branches have changed: its coupons are looked at soon. */
  wake(uuid: string): void {
    const ward = this.#wards.get(uuid);
    if (!ward) return;
    ward.nextLookMs = 0;
    ward.woken = true;
    this.#tick();
  }

  async #takeUp(): Promise<void> {
    const { coupons, log, world } = this.#parts;
    try {
      for await (const coupon of coupons.unfinished()) if (!this.#wards.get(coupon.uuid)?.coupons.has(coupon.id)) this.hold(coupon);
    } catch (error) {
      log.warn("unfinished erasures of earlier runs are not known yet; they are looked for again", { code: codeOf(error) });
      world.after(limits.erasureLookAgainMs, () => {
        if (!this.#closing) void this.#takeUp();
      });
    }
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
    const { engine } = this.#parts;
    for (const coupon of [...ward.coupons.values()]) if (coupon.status === "begun" && this.#waitOf(coupon) === 0) await this.#carryOutLate(coupon);
    // What is blocked comes last: however many such ones there are, they leave room for the others.
    const due = [...ward.coupons.values()].filter((coupon) => this.#isDue(coupon)).sort((a, b) => Number(a.status === "blocked") - Number(b.status === "blocked")).slice(0, limits.erasuresPerLookMax);
    if (due.length === 0 && !woken) return this.#lookNext(ward, new Set(), undefined);
    await Promise.all(due.map((coupon) => this.#permits.run(() => this.#refresh(coupon))));
    const coupons = [...ward.coupons.values()].filter(({ status }) => status !== "begun");
    const asked = coupons.map((coupon): ErasedCoupon => {
      const { id, memoryIds, points, traces } = coupon;
      return { id, memoryIds, points, traces: traces ?? noTraces, isDue: traces !== undefined };
    });
    if (asked.length === 0) return this.#lookNext(ward, new Set(), undefined);
    // It restores, rewrites and scans a whole database: nobody waits for it.
    const { value } = await engine.branch({ uuid, branch: mainBranch }, { act: "expunge", coupons: asked }, { deadlineMs: Infinity });
    const clean = new Set(value.clean);
    await Promise.all(coupons.map((coupon) => this.#permits.run(() => this.#settle(coupon, value, clean))));
    this.#lookNext(ward, new Set(asked.map(({ id }) => id)), value);
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
    if (held.traces) return;
    try {
      const coupon = await this.#parts.coupons.get(held.uuid, held.id);
      if (!coupon || coupon.status === "completed") this.letGo(held);
      else this.hold(coupon);
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
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
  async #settle(coupon: ErasureCoupon, { blocked, waitingFor, evidence }: Expunged, clean: ReadonlySet<string>): Promise<void> {
    const { coupons } = this.#parts;
    const blockedBy = blocked[coupon.id];
    if (clean.has(coupon.id) && evidence) return this.#complete(coupon, evidence);
    const found = { blockedBy, waitingFor: blockedBy || coupon.traces === undefined ? undefined : waitingFor };
    if (JSON.stringify(found) === JSON.stringify({ blockedBy: coupon.blockedBy, waitingFor: coupon.waitingFor })) return;
    this.hold(await coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, status: blockedBy ? "blocked" : "pending", ...found })));
  }

  async #complete(coupon: ErasureCoupon, evidence: ErasureEvidence): Promise<void> {
    const { coupons, receipts, world, audit } = this.#parts;
    const completedAtMs = world.nowMs();
    const receipt = receipts.sign(receiptPayload(coupon, completedAtMs, evidence));
    await coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, status: "completed", completedAtMs, receipt }));
    this.letGo(coupon);
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

const noTraces = { key: new Uint8Array(32), windows: new Uint8Array(0), windowsTotal: 0 };

function codeOf(error: unknown): string {
  return error instanceof ServiceError ? error.code : error instanceof StoreError ? error.kind : "fault";
}
