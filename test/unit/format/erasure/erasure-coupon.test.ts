/** Coupons of erasures at rest, in every status and at their largest, and what a receipt says of one. */
import { describe, expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  decodeCoupon,
  encodeCoupon,
  type ErasureCoupon,
  erasureBlockersMax,
} from "../../../../src/format/erasure/erasure-coupon.ts";
import {
  erasedTxids,
  readReceipt,
  receiptPayload,
  signedBytes,
  targetFields,
  type ErasureTarget,
} from "../../../../src/format/erasure/erasure-receipt.ts";
import { isRecordTarget } from "../../../../src/model/erasure-records.ts";
import { computeSha256 } from "../../../../src/format/core/seal.ts";
import {
  countingBytes,
  expectDamageRefused,
  sampleBegunCoupon,
  sampleCoupon,
  sampleEvidence,
  sampleReceiptPayload,
  sampleSubjectPayload,
} from "../../../support/format-samples.ts";
import { seeded } from "../../../support/random.ts";

const nonce = countingBytes(16, 1);
const receipt = { payload: sampleReceiptPayload, alg: "EdDSA", kid: "k", sig: "A".repeat(86) } as const;

const pending: ErasureCoupon = { ...sampleCoupon, status: "pending", blockedBy: undefined };
const completed: ErasureCoupon = {
  ...sampleCoupon,
  status: "completed",
  blockedBy: undefined,
  waitingFor: undefined,
  traces: undefined,
  completedAtMs: sampleReceiptPayload.completed_at,
  receipt,
};

/** The object with another body under a checksum that fits. */
function resummed(bytes: Uint8Array, change: (record: Record<string, unknown>) => unknown): Uint8Array {
  const { sum: _, ...record } = JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>;
  const text = JSON.stringify(change(record)).slice(1);
  return Buffer.from(
    `{"sum":"${Buffer.from(computeSha256(Buffer.from(text)))
      .toString("hex")
      .slice(0, 32)}",${text}`,
  );
}

/** Of records, what was erased is their hashes. */
function ofTarget(target: ErasureTarget): Partial<ErasureCoupon> {
  if (target.kind === "subject") return { target, records: [], kinds: { memories: 1 } };
  return isRecordTarget(target) ? { target, memoryIds: [], records: ["0".repeat(32)] } : { target };
}

describe("a coupon at rest", () => {
  test.each([
    ["begun", sampleBegunCoupon],
    [
      "begun with the key of its traces",
      { ...sampleBegunCoupon, traces: { key: countingBytes(32, 1), windows: new Uint8Array(), windowsTotal: 0 } },
    ],
    ["pending", pending],
    ["blocked", sampleCoupon],
    ["completed", completed],
    ["of a subject", { ...pending, ...ofTarget({ kind: "subject", subject: "user-7" }) }],
    ["completed with its database before it had erased anything", { ...completed, memoryIds: [], points: [] }],
  ])("comes back as it was: %s", (_, coupon) => {
    expect(decodeCoupon(encodeCoupon(coupon, nonce))).toEqual(coupon);
    expect(encodeCoupon(coupon, countingBytes(16, 2))).not.toEqual(encodeCoupon(coupon, nonce));
  });

  test.each<ErasureTarget>([
    { kind: "memory", memoryId: "mem_01HF7YAT000000000000000008" },
    { kind: "topic", topicKey: "", type: "fact" },
    { kind: "session", sessionId: "memory_id", turns: true },
    { kind: "session", sessionId: "s", turns: false },
    { kind: "turn", sessionId: "s", seq: 3 },
    { kind: "path", path: "/notes" },
    { kind: "key", ns: "n", key: "\u0000k" },
    { kind: "document", collection: "c", id: "d" },
    { kind: "vector", collection: "c", id: "v" },
  ])("keeps the target %o", (target) => {
    expect(decodeCoupon(encodeCoupon({ ...pending, ...ofTarget(target) }, nonce)).target).toEqual(target);
  });

  test("that was cut, lengthened, or has any one bit flipped is refused as corrupt", async () => {
    await expectDamageRefused(encodeCoupon(pending, nonce), decodeCoupon);
  });

  test("of an unknown version or form is refused as corrupt, however whole it is", () => {
    const bytes = encodeCoupon(sampleCoupon, nonce);
    expect(decodeCoupon(resummed(bytes, (record) => record))).toEqual(sampleCoupon);
    const traces = { key: Buffer.alloc(32).toString("base64"), windows: "", windows_total: 1 };
    const changes: readonly object[] = [
      { v: 2 },
      { extra: 1 },
      { nonce: "00" },
      { id: "ers_1" },
      { uuid: "0F8FAD5B-d9cb-469f-a165-70867728950e" },
      { database: 1 },
      { branch: null },
      { status: "done" },
      { memory_ids: ["the user likes"] },
      { memory_ids: [], status: "begun" },
      { requested_at: -1 },
      { requested_at: 1.5 },
      { grace_until: 9e15 },
      { points: [] },
      { points: [{ branch: "b", branch_id: "b", txid: 1 }] },
      { points: [{ branch: "b", branch_id: "main", txid: 1, x: 1 }] },
      { target: {} },
      { target: { memory_id: "m", topic_key: "t", type: "fact" } },
      { target: { topic_key: "t" } },
      { target: { session_id: "s" } },
      { target: { session_id: "\ud800", turns: true } },
      { blocked_by: undefined },
      { blocked_by: { checkpoints: [] } },
      { status: "pending" },
      { traces: undefined },
      { traces: { ...traces, key: "AAAA" } },
      { traces: { ...traces, windows: "A" } },
      { traces: { ...traces, windows_total: -1 } },
      { completed_at: 1 },
      { receipt },
      { status: "completed", blocked_by: undefined, traces: undefined, waiting_for: undefined, completed_at: 1 },
      { status: "completed", blocked_by: undefined, waiting_for: undefined, completed_at: 1, receipt },
      { status: "completed", blocked_by: undefined, traces: undefined, completed_at: 1, receipt },
      {
        status: "completed",
        blocked_by: undefined,
        traces: undefined,
        waiting_for: undefined,
        completed_at: 1,
        receipt: { ...receipt, sig: "short" },
      },
      {
        id: "ers_01HF7YAT000000000000000009",
        status: "completed",
        blocked_by: undefined,
        traces: undefined,
        waiting_for: undefined,
        completed_at: 1,
        receipt,
      },
    ];
    for (const change of changes) {
      const object = resummed(bytes, (record) => ({ ...record, ...change }));
      expect(() => decodeCoupon(object), JSON.stringify(change)).toThrow(
        expect.objectContaining({ name: "StoreError", kind: "corrupt" }) as StoreError,
      );
    }
    for (const record of [[], ["v", 1]]) expect(() => decodeCoupon(resummed(bytes, () => record))).toThrow(StoreError);
    expect(() => decodeCoupon(resummed(bytes, (record) => ({ ...record, v: 4 })))).toThrow(/version/);
  });

  test("says nothing of the target when it cannot be read", () => {
    const bytes = resummed(encodeCoupon(sampleCoupon, nonce), (record) => ({ ...record, status: "done" }));
    for (const object of [bytes, bytes.subarray(0, -1)]) {
      try {
        decodeCoupon(object);
        expect.unreachable();
      } catch (error) {
        expect((error as Error).message).not.toContain("übung");
        expect((error as Error).cause).toBeUndefined();
      }
    }
  });

  test("takes the largest erasure, and its receipt", () => {
    const chance = seeded(1);
    const memoryIds = Array.from(
      { length: limits.erasureMemoriesMax },
      (_, index) => `mem_01HF7YAT${String(index).padStart(18, "0")}`,
    );
    const windows = Uint8Array.from({ length: 32_768 * 20 }, () => chance() * 256);
    const large: ErasureCoupon = {
      ...pending,
      memoryIds,
      traces: { key: countingBytes(32, 1), windows, windowsTotal: 2 ** 30 },
    };
    expect(decodeCoupon(encodeCoupon(large, nonce))).toEqual(large);
    const states = Array.from({ length: 5 * limits.branchesMax }, (_, txid) => ({
      branch: "b".repeat(limits.nameCharsMax),
      txid,
      pages: 1,
    }));
    const done: ErasureCoupon = {
      ...completed,
      memoryIds,
      receipt: {
        ...receipt,
        payload: {
          ...sampleReceiptPayload,
          memory_ids: memoryIds,
          evidence: { ...sampleEvidence, states_restored: states },
        },
      },
    };
    expect(decodeCoupon(encodeCoupon(done, nonce))).toEqual(done);
  });

  test("names the first of very many blockers", () => {
    const checkpoints = Array.from({ length: erasureBlockersMax + 1 }, (_, index) => `main/${index}`);
    const { blockedBy } = decodeCoupon(
      encodeCoupon({ ...sampleCoupon, blockedBy: { checkpoints, branches: checkpoints } }, nonce),
    );
    expect(blockedBy).toEqual({ checkpoints: checkpoints.slice(0, -1), branches: checkpoints.slice(0, -1) });
  });

  test("is not written with what its status forbids", () => {
    const wrong: ErasureCoupon[] = [
      { ...pending, status: "begun" },
      { ...pending, traces: undefined },
      { ...pending, points: [] },
      { ...sampleCoupon, blockedBy: undefined },
      { ...completed, traces: pending.traces },
      { ...completed, receipt: undefined },
      { ...completed, waitingFor: "x" },
      { ...pending, memoryIds: ["content"] },
    ];
    for (const coupon of wrong) expect(() => encodeCoupon(coupon, nonce)).toThrow(AssertionFault);
  });
});

describe("what a receipt says", () => {
  test("is the coupon's, in the names of the wire", () => {
    expect(receiptPayload(pending, 5, sampleEvidence)).toMatchObject({
      v: 1,
      db: "acme--alice",
      uuid: pending.uuid,
      erasure_id: pending.id,
      target: { topic_key: "ui.übung\n\u0007", type: "fact" },
      memory_ids: pending.memoryIds,
      erased_txid: { main: 41, Later: 2 ** 53 - 1 },
      requested_at: pending.requestedAtMs,
      completed_at: 5,
      method: "palimpsest-erasure-1",
      evidence: sampleEvidence,
    });
    expect(targetFields({ kind: "session", sessionId: "s", turns: false })).toEqual({ session_id: "s", turns: false });
    expect(targetFields({ kind: "memory", memoryId: "m" })).toEqual({ memory_id: "m" });
  });

  test("names the newest erasure of each branch, whatever the branch is called", () => {
    const points = [
      ["main", 9],
      ["__proto__", 3],
      ["main", 7],
    ].map(([branch, txid]) => ({ branch: branch as string, branchId: "main", txid: txid as number }));
    expect(Object.entries(erasedTxids(points))).toEqual([
      ["main", 9],
      ["__proto__", 3],
    ]);
  });

  test("is signed behind a text of its own", () => {
    const text = Buffer.from(signedBytes(sampleReceiptPayload)).toString();
    expect(text.startsWith('palimpsest-erasure-receipt-v1\0{"completed_at":')).toBe(true);
    expect(text).toContain('"oldest_restorable_txid":{"Later":9007199254740991,"__proto__":5,"main":41}');
  });

  test("of a subject says how many of each kind, and is signed behind another text", () => {
    const ofSubject = { ...receipt, payload: sampleSubjectPayload };
    expect(sampleSubjectPayload).toMatchObject({
      v: 3,
      target: { subject: "user-7" },
      erased: { memories: 1, turns: 2 },
    });
    expect(Buffer.from(signedBytes(sampleSubjectPayload)).toString()).toMatch(/^palimpsest-erasure-receipt-v3\0/);
    expect(readReceipt(ofSubject)).toEqual(ofSubject);
    const { erased: _, ...bare } = sampleSubjectPayload;
    for (const payload of [
      bare,
      { ...sampleSubjectPayload, v: 1 },
      { ...sampleSubjectPayload, erased: { turns: -1 } },
      { ...sampleReceiptPayload, erased: { turns: 1 } },
    ])
      expect(readReceipt({ ...receipt, payload }), JSON.stringify(payload)).toBeUndefined();
  });

  test("has the form of a receipt only with exactly its members", () => {
    expect(readReceipt(JSON.parse(JSON.stringify(receipt)))).toEqual(receipt);
    const { evidence } = sampleReceiptPayload;
    const payloads: readonly object[] = [
      { v: 2 },
      { extra: 1 },
      { db: 1 },
      { memory_ids: ["x"] },
      { erased_txid: { main: "1" } },
      { target: { topic_key: "t", type: "fact", turns: true } },
      { completed_at: 2 ** 53 },
      { limits: "none" },
      { evidence: { ...evidence, traces: { looked_for: 1, hits: 1 } } },
      { evidence: { ...evidence, more: {} } },
      { evidence: { ...evidence, objects: { ...evidence.objects, live: -1 } } },
      { evidence: { ...evidence, local: [{}] } },
      { evidence: { ...evidence, states_restored: {} } },
    ];
    for (const change of payloads)
      expect(
        readReceipt({ ...receipt, payload: { ...sampleReceiptPayload, ...change } }),
        JSON.stringify(change),
      ).toBeUndefined();
    for (const change of [
      { extra: 1 },
      { alg: "none" },
      { kid: 1 },
      { sig: `${receipt.sig}=` },
      { sig: `${receipt.sig}A` },
      { payload: null },
    ])
      expect(readReceipt({ ...receipt, ...change })).toBeUndefined();
    for (const value of [null, undefined, [], "x", 1]) expect(readReceipt(value)).toBeUndefined();
  });
});
