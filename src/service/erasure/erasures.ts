/**
 * Erasures as they are asked for: the coupon first, then the erasure, then the answer.
 *
 * Always true:
 * - once a caller is given a coupon, the target is gone from the database and from its present state in object storage
 * - a request that dies on its way leaves a coupon by which it is still carried out
 * - a repeated request for an unfinished erasure gives the existing coupon
 */
import { assert } from "../../base/faults/assert.ts";
import { ServiceError, type ErrorCode } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { CallOptions } from "../../engine/api/engine-port.ts";
import type { Answer, Target } from "../../engine/api/protocol.ts";
import { recordsVersion, type ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import type { ErasureTarget } from "../../format/erasure/erasure-receipt.ts";
import { isRecordTarget } from "../../model/erasure-records.ts";
import { ErasedBooks, type KnownErasures } from "./erased-books.ts";
import { Eraser, type EraserParts } from "./eraser.ts";

/** What is to be erased, and where. */
export interface ErasureRequest {
  /** Name of the database. */
  readonly database: string;
  readonly target: Target;
  readonly erase: ErasureTarget;
  readonly graceSecs: number;
  readonly options: CallOptions;
}

/** A coupon, and the state that the answer speaks of. */
export interface Requested extends Answer<ErasureCoupon> {
  /** How many memories stay that were derived from what was erased; where this request has erased it. */
  readonly derived?: number;
}

const traceKeyBytes = 32;

/** What a caller is told where there is nothing to erase; an unknown session has nothing, and that is no refusal. */
const unknownTarget: Readonly<Record<ErasureTarget["kind"], string>> = {
  memory: "no memory has this id",
  topic: "no memory has this topic and type",
  session: "no session has this id",
  turn: "no turn of the session has this number",
  path: "no file is or was at the path, or below it",
  key: "the namespace has no such key",
  document: "no document of the collection has this id",
  vector: "no vector of the collection has this id",
  subject: "no record is of this subject",
};

/** Refusals that say that there is nothing to erase. */
const nothingThere: ReadonlySet<ErrorCode> = new Set([
  "invalid_request",
  "not_found",
  "database_not_found",
  "branch_not_found",
]);

export class Erasures {
  readonly #parts: EraserParts;
  readonly #eraser: Eraser;
  readonly #names: ErasedBooks;
  /** Erasures that are under way, by what they erase: requests for the same share the outcome. */
  readonly #underWay = new Map<string, Promise<Requested>>();

  constructor(parts: EraserParts) {
    this.#parts = parts;
    this.#names = new ErasedBooks(parts.coupons);
    this.#eraser = new Eraser(parts, (coupon) => this.#carryOut(coupon));
  }

  start(): void {
    this.#eraser.start();
  }

  /** Shards have become this node's. */
  takeOver(): void {
    this.#eraser.takeOver();
  }

  close(): Promise<void> {
    return this.#eraser.close();
  }

  /** The database's branches have changed, which may bring erased data back or free it. */
  wake(uuid: string): void {
    this.#eraser.wake(uuid);
  }

  /**
   * Erases the target: from the branch at once and durably, from history later. Throws not_found for a memory or topic
   * that is not there, and unavailable for records while the store's layout lets older builds read it.
   */
  async request(request: ErasureRequest): Promise<Requested> {
    const { couponVersion = recordsVersion } = this.#parts;
    if (isRecordTarget(request.erase) && couponVersion < recordsVersion)
      throw new ServiceError(
        "unavailable",
        "records are erased by their names once the store's layout is raised, which an operator does with " +
          "`palimpsest formats --raise`; memories, topics and sessions are erased in every layout",
      );
    return this.#once(request.target, request.erase, () => this.#request(request));
  }

  async #request(request: ErasureRequest): Promise<Requested> {
    const { target, erase, options } = request;
    const same = this.#sameAs(target, erase);
    const begun = same?.status === "begun" ? await this.#coupon(same) : undefined;
    const coupon = begun ?? (await this.#begin(request));
    try {
      return await this.#attempt(coupon, target, options, begun === undefined);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== "not_found") throw error;
      const earlier = same && same.id !== coupon.id ? same : await this.#sameElsewhere(target, erase);
      if (!earlier) throw error;
      // A memory that an unfinished coupon has erased: its caller may not have got the answer, and gets it now.
      const { txid, durableTxid } = await this.#parts.engine.sync(target, options);
      return { value: await this.#coupon(earlier), txid, durableTxid };
    }
  }

  /** An unfinished coupon that has erased the same by way of another node, if there is one. */
  async #sameElsewhere({ uuid, branch }: Target, erase: ErasureTarget): Promise<ErasureCoupon | undefined> {
    const { cluster, coupons } = this.#parts;
    if (!cluster) return undefined;
    const asked = buildKey({ uuid, branch }, erase);
    let found: ErasureCoupon | undefined;
    for await (const one of coupons.unfinished({ uuid }))
      if (one.status !== "begun" && buildKey(one, one.target) === asked) found = one;
    return found;
  }

  #once(target: Target, erase: ErasureTarget, act: () => Promise<Requested>): Promise<Requested> {
    const key = buildKey(target, erase);
    const running = this.#underWay.get(key);
    if (running) return running;
    const outcome = act().finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, outcome);
    return outcome;
  }

  /** The coupons of a database, newest first; those of one branch when it is named. */
  async list(uuid: string, branch: string | undefined): Promise<readonly ErasureCoupon[]> {
    const found: ErasureCoupon[] = [];
    for (let before: string | undefined; ;) {
      const { coupons, next } = await this.#parts.coupons.list(uuid, before);
      found.push(
        ...coupons.filter((coupon) => coupon.status !== "begun" && (branch === undefined || coupon.branch === branch)),
      );
      if (next === undefined || found.length >= limits.erasuresListMax) return found.slice(0, limits.erasuresListMax);
      before = next;
    }
  }

  /** What erasures of the database have erased, by name, whatever became of each. */
  names(uuid: string): Promise<KnownErasures> {
    return this.#names.of(uuid);
  }

  /** The coupon of that id; throws not_found. */
  async get(uuid: string, id: string, branch: string | undefined): Promise<ErasureCoupon> {
    const coupon = await this.#parts.coupons.get(uuid, id);
    if (coupon && coupon.status !== "begun" && (branch === undefined || coupon.branch === branch)) return coupon;
    throw new ServiceError("not_found", "no erasure has this id");
  }

  #sameAs({ uuid, branch }: Target, erase: ErasureTarget): ErasureCoupon | undefined {
    const asked = buildKey({ uuid, branch }, erase);
    return this.#eraser.unfinished(uuid).findLast((one) => buildKey(one, one.target) === asked);
  }

  async #coupon({ uuid, id }: Pick<ErasureCoupon, "uuid" | "id">): Promise<ErasureCoupon> {
    const coupon = await this.#parts.coupons.get(uuid, id);
    if (coupon) return coupon;
    throw new ServiceError("unavailable", "the erasure was given up meanwhile; ask again", { retryAfterSecs: 1 });
  }

  /** Notes durably that the erasure is asked for. */
  async #begin({ database, target: { uuid, branch }, erase, graceSecs }: ErasureRequest): Promise<ErasureCoupon> {
    const { world, coupons } = this.#parts;
    const nowMs = world.nowMs();
    const coupon: ErasureCoupon = {
      id: `ers_${world.ulid()}`,
      uuid,
      database,
      branch,
      target: erase,
      status: "begun",
      memoryIds: [],
      points: [],
      requestedAtMs: nowMs,
      graceUntilMs: nowMs + graceSecs * 1_000,
      traces: { key: world.randomBytes(traceKeyBytes), windows: new Uint8Array(0), windowsTotal: 0 },
    };
    await coupons.begin(coupon);
    this.#eraser.hold(coupon, true);
    return coupon;
  }

  /**
   * Erases on the branch and records it in the coupon. Throws not_found when there is nothing to erase: then the coupon
   * is gone.
   */
  async #attempt(coupon: ErasureCoupon, target: Target, options: CallOptions, isFirst: boolean): Promise<Requested> {
    const { engine, coupons } = this.#parts;
    const { id, uuid, traces: begun } = coupon;
    assert(begun !== undefined, "a coupon that is begun has its key");
    try {
      const act = { act: "erase", couponId: id, erase: coupon.target, traceKey: begun.key } as const;
      const { value, txid, durableTxid } = await engine.branch(target, act, { ...options, durable: true });
      if (!value.found) throw new ServiceError("not_found", unknownTarget[coupon.target.kind], { txid });
      const { memoryIds, records, kinds, derived, traces, branchId, ancestors } = value;
      const points = [{ branch: target.branch, branchId, txid, ancestors }];
      const erased = await coupons.change(uuid, id, (now) =>
        now.status === "begun"
          ? {
              ...now,
              status: "pending",
              memoryIds,
              ...(records && { records }),
              ...(kinds && { kinds }),
              traces,
              points,
            }
          : undefined,
      );
      this.#eraser.hold(erased);
      // What was erased here may be what another erasure waited for.
      if (this.#eraser.unfinished(uuid).some(({ status }) => status === "blocked")) this.wake(uuid);
      return { value: erased, txid, durableTxid, ...(derived !== undefined && { derived }) };
    } catch (error) {
      // After any other failure the outcome is unknown: the erasure is carried out later. Want of room is no failure of
      // the first try, but says nothing of what an earlier one has done.
      const isRefused =
        error instanceof ServiceError && (nothingThere.has(error.code) || (isFirst && error.code === "overloaded"));
      if (isRefused) await this.#discard(coupon);
      throw error;
    }
  }

  async #discard(coupon: ErasureCoupon): Promise<void> {
    await this.#parts.coupons.discard(coupon.uuid, coupon.id);
    this.#eraser.removeCoupon(coupon);
  }

  /** Does what a request that died on its way was to do, unless another request is doing just that now. */
  async #carryOut(coupon: ErasureCoupon): Promise<void> {
    const { uuid, branch, target: erase } = coupon;
    const target = { uuid, branch };
    const deadlineMs = this.#parts.world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000;
    try {
      await this.#once(target, erase, () => this.#attempt(coupon, target, { deadlineMs }, false));
    } catch (error) {
      // Discarded: the memory, the branch or the whole database is gone.
      if (!(error instanceof ServiceError && nothingThere.has(error.code))) throw error;
    }
  }
}

function buildKey({ uuid, branch }: Pick<Target, "uuid" | "branch">, erase: ErasureTarget): string {
  return JSON.stringify([uuid, branch, erase]);
}
