/** Objects of an older format stay readable: what a branch consists of outlives the program that wrote it. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { verifyReceipt } from "../../src/control/access/receipts.ts";
import { buildSigningKey } from "../../src/control/access/signing-key.ts";
import { decodeAuditEvent, encodeAuditEvent } from "../../src/format/audit/audit-event.ts";
import { decodeAuditObject, encodeAuditObject } from "../../src/format/audit/audit-object.ts";
import { decodeCatalog, encodeCatalog } from "../../src/format/history/catalog.ts";
import { decodeCopyRecord, encodeCopyRecord } from "../../src/format/records/copy-record.ts";
import { decodeCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import { readReceipt } from "../../src/format/erasure/erasure-receipt.ts";
import { decodeManifest, encodeManifest } from "../../src/format/history/manifest.ts";
import { decodeHistory, encodeHistory } from "../../src/format/history/history.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import { decodeSegments } from "../../src/format/history/segment.ts";
import {
  sampleAuditEvents,
  sampleLaterAuditEvents,
  sampleAwaitingCoupon,
  sampleRecordsCoupon,
  sampleCatalog,
  sampleCopy,
  sampleCoupon,
  sampleDelta,
  sampleOrderedDelta,
  sampleManifest,
  sampleHistory,
  sampleImage,
  sampleReceiptPayload,
  sampleSigningKey,
  sampleSubjectPayload,
  sampleUnattestedPayload,
} from "../support/format-samples.ts";
import { goldenCoupon, goldenFormatPath, goldenReceipt } from "../support/make-golden.ts";

const golden = (name: string, version = 1): Uint8Array => new Uint8Array(readFileSync(goldenFormatPath(name, version)));

test.each([
  ["head", sampleManifest, () => decodeManifest(golden("head")), () => encodeManifest(sampleManifest)],
  ["history", sampleHistory, () => decodeHistory(golden("history")), () => encodeHistory(sampleHistory)],
  ["catalog", sampleCatalog, () => decodeCatalog(golden("catalog")), () => encodeCatalog(sampleCatalog)],
  ["coupon", sampleCoupon, () => decodeCoupon(golden("coupon")), goldenCoupon],
  ["copy", sampleCopy, () => decodeCopyRecord(golden("copy")), () => encodeCopyRecord(sampleCopy)],
  [
    "audit",
    sampleAuditEvents,
    () => decodeAuditObject(golden("audit")),
    () => encodeAuditObject(sampleAuditEvents.map(encodeAuditEvent)),
  ],
])(
  "the %s of format 1 is read as it was meant, and written byte for byte as it was",
  (name, sample, decode, encode) => {
    expect(decode()).toEqual(sample);
    expect(encode(), "the format has changed: raise its version, keep reading the old one, add a golden file").toEqual(
      golden(name),
    );
  },
);

test(
  "events of version 2 stay as they were; an event has the least version that can hold it",
  () => {
    expect(decodeAuditObject(golden("audit", 2))).toEqual(sampleLaterAuditEvents);
    expect(encodeAuditObject(sampleLaterAuditEvents.map(encodeAuditEvent))).toEqual(golden("audit", 2));
    const [plain, later] = [encodeAuditEvent(sampleAuditEvents[0]!), encodeAuditEvent(sampleLaterAuditEvents[0]!)];
    expect(() => decodeAuditEvent(plain.replace('"v":1', '"v":2'))).toThrow(/unknown form/);
    expect(() => decodeAuditEvent(later.replace('"v":2', '"v":1'))).toThrow(/unknown form/);
  },
);

test("a coupon of records is of format 3, and is read and written as it was", () => {
  expect(decodeCoupon(golden("coupon", 3))).toEqual(sampleRecordsCoupon);
  expect(goldenCoupon(sampleRecordsCoupon)).toEqual(golden("coupon", 3));
});

test("a coupon that waits for copies of nodes is of format 2, and is read and written as it was", () => {
  expect(decodeCoupon(golden("coupon", 2))).toEqual(sampleAwaitingCoupon);
  expect(goldenCoupon(sampleAwaitingCoupon)).toEqual(golden("coupon", 2));
});

test.each([
  [1, sampleReceiptPayload],
  [2, sampleUnattestedPayload],
  [3, sampleSubjectPayload],
])(
  "F93: a receipt of version %s verifies with the key that signed it, and is signed byte for byte as it was",
  async (version, payload) => {
    const receipt: unknown = JSON.parse(Buffer.from(golden("receipt", version)).toString());
    const verdict = verifyReceipt(receipt, { keys: [(await buildSigningKey(sampleSigningKey)).listed] });
    expect(verdict).toEqual({ isValid: true, receipt: expect.objectContaining({ payload }) as unknown });
    expect(
      await goldenReceipt(payload),
      "receipts are checked by programs that we do not know: a change of theirs needs a new domain text and version",
    ).toBe(Buffer.from(golden("receipt", version)).toString());
  },
);

test(
  "only a receipt of version 2 says that a node never came back, and it always does",
  () => {
    const plain = JSON.parse(Buffer.from(golden("receipt")).toString()) as {
      readonly payload: { readonly evidence: object };
    };
    const other = JSON.parse(Buffer.from(golden("receipt", 2)).toString()) as {
      readonly payload: { readonly evidence: Record<string, unknown> };
    };
    expect(
      readReceipt({ ...plain, payload: { ...plain.payload, evidence: { ...plain.payload.evidence, unattested: [] } } }),
    ).toBeUndefined();
    const { unattested, ...evidence } = other.payload.evidence;
    expect(unattested).toBeDefined();
    expect(readReceipt({ ...other, payload: { ...other.payload, evidence } })).toBeUndefined();
  },
);

test.each([
  { version: 1, samples: [sampleDelta, sampleImage] },
  { version: 2, samples: [sampleOrderedDelta] },
])("the segments of format $version are read as they were meant", async ({ version, samples }) => {
  // Compressed bytes may differ from one release of Zstandard to the next, so only the reading is held.
  const segments = await decodeSegments(golden("segment", version), inlinePress);
  expect(segments.map(({ kind }) => kind)).toEqual(samples.map(({ kind }) => kind));
  for (const [index, sample] of samples.entries()) {
    const { groups, ...rest } = segments[index]!;
    const { groups: wanted, ...wantedRest } = sample;
    expect(rest).toEqual(wantedRest);
    expect(
      groups.map((group) => ({
        ...group,
        images: group.images.map(({ page, bytes }) => ({ page, bytes: new Uint8Array(bytes) })),
      })),
    ).toEqual(wanted);
  }
});
