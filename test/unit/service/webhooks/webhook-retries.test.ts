/** When what was not taken is posted again. */
import { expect, test } from "vitest";
import { webhookFailuresMax } from "../../../../src/format/records/webhook.ts";
import { computeRetryMs, listKept } from "../../../../src/service/webhooks/webhook-retries.ts";

const chance = (byte: number) => ({ randomBytes: (count: number) => new Uint8Array(count).fill(byte) });
const schedule = [5, 30, 120];

test("later and later, within a fifth, and then not any more", () => {
  const most = [1, 2, 3, 4].map((tries) => computeRetryMs(schedule, tries, undefined, chance(255)));
  const least = [1, 2, 3, 4].map((tries) => computeRetryMs(schedule, tries, undefined, chance(0)));
  expect(most).toEqual([6_000, 36_000, 144_000, undefined]);
  expect(least).toEqual([4_000, 24_000, 96_000, undefined]);
});

test("not before the receiver wants it, as far as that is bearable", () => {
  expect(computeRetryMs(schedule, 1, 60_000, chance(0))).toBe(60_000);
  expect(computeRetryMs(schedule, 2, 1_000, chance(0))).toBe(24_000);
  expect(computeRetryMs(schedule, 1, 7 * 86_400_000, chance(0))).toBe(7_200_000);
  expect(computeRetryMs(schedule, 4, 60_000, chance(0))).toBeUndefined();
});

test("what was given up is listed for a week, the newest of it", () => {
  const dayMs = 86_400_000;
  const failure = (txid: number, atMs: number) => ({
    txid,
    afterTxid: txid - 1,
    atMs,
    tries: 1,
    reason: "status",
    status: 500,
    isQueued: false,
  });
  const old = [failure(1, dayMs), failure(2, 2 * dayMs)];
  expect(listKept(old, 8 * dayMs).map(({ txid }) => txid)).toEqual([1, 2]);
  expect(listKept(old, 8 * dayMs + 1).map(({ txid }) => txid)).toEqual([2]);
  const many = Array.from({ length: webhookFailuresMax + 1 }, (_, n) => failure(n, dayMs));
  expect(listKept(many, dayMs)).toEqual(many.slice(1));
});
