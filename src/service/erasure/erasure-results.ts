/**
 * Writes down what a look at an erasure has found: what blocks it, what it waits for, or its receipt.
 *
 * Always true: a receipt is signed only for what the engine has proven, and a coupon completes once, whatever else
 * looks at it; what a coupon's reader is told names objects and transaction ids, never content. Must not know: when
 * erasures are looked at.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { ErasureCoupons } from "../../control/databases/erasure-coupons.ts";
import type { Receipts } from "../../control/access/receipts.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { CopiesFound, Expunged } from "../../engine/api/protocol.ts";
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import { receiptPayload, type ErasureEvidence } from "../../format/erasure/erasure-receipt.ts";
import { parseProfileDatabaseName } from "../../format/core/names.ts";
import type { ErasureQueue } from "./erasure-queue.ts";

/** Of the failure that a coupon tells. */
const erasureReasonCharsMax = 500;

/** What results are written with. */
export interface ErasureResultsParts {
  readonly world: World;
  readonly engine: EnginePort;
  readonly coupons: ErasureCoupons;
  readonly receipts: Receipts;
  readonly audit: AuditLog;
}

/** The results of one node's looks. */
export class ErasureResults {
  readonly #parts: ErasureResultsParts;
  readonly #queue: ErasureQueue;

  constructor(parts: ErasureResultsParts, queue: ErasureQueue) {
    this.#parts = parts;
    this.#queue = queue;
  }

  /** Writes down what the engine found of the coupon. */
  async recordFindings(
    coupon: ErasureCoupon,
    { blocked, reasons, waitingFor, evidence, copies }: Expunged,
    clean: ReadonlySet<string>,
  ): Promise<void> {
    const { coupons } = this.#parts;
    const blockedBy = blocked[coupon.id];
    const ofCopies = copies?.[coupon.id];
    if (clean.has(coupon.id) && evidence) return this.#complete(coupon, withCopies(evidence, ofCopies));
    const pendingFor = coupon.traces === undefined ? undefined : waitingFor;
    const found = {
      blockedBy,
      waitingFor: blockedBy ? reasons?.[coupon.id] : pendingFor,
      awaiting: blockedBy ? undefined : ofCopies?.awaiting,
    };
    if (
      JSON.stringify(found) ===
      JSON.stringify({ blockedBy: coupon.blockedBy, waitingFor: coupon.waitingFor, awaiting: coupon.awaiting })
    )
      return;
    const next = await coupons.change(coupon.uuid, coupon.id, (now) => ({
      ...now,
      status: blockedBy ? "blocked" : "pending",
      ...found,
    }));
    if (next.status === "completed") this.#queue.removeCoupon(coupon);
    else this.#queue.hold(next);
  }

  async #complete(coupon: ErasureCoupon, evidence: ErasureEvidence): Promise<void> {
    const { coupons, receipts, world, audit } = this.#parts;
    const completedAtMs = world.nowMs();
    const receipt = receipts.sign(receiptPayload(coupon, completedAtMs, evidence));
    const completed = await coupons.change(coupon.uuid, coupon.id, (now) => ({
      ...now,
      status: "completed",
      completedAtMs,
      receipt,
    }));
    this.#queue.removeCoupon(coupon);
    // Another node was first, and has said so.
    if (completed.receipt !== receipt) return;
    const place = parseProfileDatabaseName(coupon.database);
    if (place)
      audit.record({
        ...place,
        branch: coupon.branch,
        action: "erasure.completed",
        resource: coupon.id,
        outcome: "ok",
        count: (coupon.records?.length ?? 0) + coupon.memoryIds.length,
        identity: { kind: "internal" },
      });
    await this.#deleteNotes(coupon);
  }

  /** What the databases noted so that a coupon requested twice erases once is of no use any more. */
  async #deleteNotes({ id, uuid, points }: ErasureCoupon): Promise<void> {
    const { engine, world } = this.#parts;
    for (const { branch } of points) {
      try {
        await engine.write(
          { uuid, branch },
          "erasure.settled",
          { couponId: id },
          { deadlineMs: world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000 },
        );
      } catch (error) {
        // The branch is gone, or the note stays: it holds ids and nothing else.
        if (!(error instanceof ServiceError) && !(error instanceof StoreError)) throw error;
      }
    }
  }

  /** The attempt failed: the coupon says why. */
  async sayWhy(coupon: ErasureCoupon, error: unknown): Promise<void> {
    const waitingFor = failureInWords(error);
    if (coupon.waitingFor === waitingFor) return;
    const next = await this.#parts.coupons.change(coupon.uuid, coupon.id, (now) => ({ ...now, waitingFor }));
    // When it is looked at next does not change by this.
    if (next.status === "completed") this.#queue.removeCoupon(coupon);
    else this.#queue.get(coupon.uuid)?.coupons.set(coupon.id, next);
  }
}

/**
 * Why an attempt failed, for the coupon's reader. Refusals and faults of storage name objects and transaction ids,
 * never content.
 */
function failureInWords(error: unknown): string {
  const isTold = error instanceof ServiceError || error instanceof StoreError;
  const why = isTold ? error.message.slice(0, erasureReasonCharsMax) : "the node met a fault, which its log tells";
  return `the last attempt failed: ${why}`;
}

/** The evidence with what other nodes have said of their copies, and which nodes never will. */
function withCopies(evidence: ErasureEvidence, found: CopiesFound | undefined): ErasureEvidence {
  if (!found) return evidence;
  const { purged, unattested } = found;
  return { ...evidence, local: [...evidence.local, ...purged], ...(unattested.length > 0 && { unattested }) };
}
