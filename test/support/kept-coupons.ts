/** Erasure coupons in every state, and a store that keeps them under a clock that the test sets. */
import { expect } from "vitest";
import type { StoreError } from "../../src/base/faults/errors.ts";
import { silentLog, type Log } from "../../src/base/log.ts";
import { ErasureCoupons } from "../../src/control/databases/erasure-coupons.ts";
import { type ErasureCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import { receiptPayload, type ErasureReceipt } from "../../src/format/erasure/erasure-receipt.ts";
import { sampleBegunCoupon, sampleCoupon, sampleEvidence } from "./format-samples.ts";
import { ScriptedStore } from "./scripted-store.ts";
import { setWorld } from "./set-world.ts";

export const startMs = 1_700_000_000_000;
export const uuid = sampleCoupon.uuid;

export const { traces } = sampleCoupon;

/** The id of the n-th erasure. */
export const idOf = (n: number): string => `ers_01HF7YAT${String(n).padStart(18, "0")}`;
export const buildBegun = (n: number, of = uuid): ErasureCoupon => ({ ...sampleBegunCoupon, id: idOf(n), uuid: of });
export const erased = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "pending",
  memoryIds: sampleCoupon.memoryIds,
  points: sampleCoupon.points,
  traces,
});
export const completed = (coupon: ErasureCoupon): ErasureCoupon => ({
  ...coupon,
  status: "completed",
  completedAtMs: startMs + 5,
  receipt: buildReceipt(coupon),
});
const buildReceipt = (coupon: ErasureCoupon): ErasureReceipt => ({
  payload: receiptPayload(coupon, startMs + 5, sampleEvidence),
  alg: "EdDSA",
  kid: "k",
  sig: "A".repeat(86),
});

export interface Kept {
  readonly store: ScriptedStore;
  readonly coupons: ErasureCoupons;
  readonly clock: { now: number; aheadMs: number };
  readonly logged: string[];
  unfinished(uuid?: string): Promise<string[]>;
}

export function kept(): Kept {
  const clock = setWorld(startMs);
  const store = new ScriptedStore(() => clock.now);
  const logged: string[] = [];
  const log: Log = { ...silentLog, warn: (message) => logged.push(message), error: (message) => logged.push(message) };
  const coupons = new ErasureCoupons({ store, world: clock.world, log });
  const unfinished = async (of?: string): Promise<string[]> => {
    const ids: string[] = [];
    for await (const { id } of coupons.unfinished({ uuid: of })) ids.push(id);
    return ids;
  };
  return { store, coupons, clock, logged, unfinished };
}

export const matchFault = (kind: string): StoreError =>
  expect.objectContaining({ name: "StoreError", kind }) as StoreError;
