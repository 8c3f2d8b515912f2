/** Every format says its version, and what a newer build wrote is told from what is broken. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { decodeAuditEvent, encodeAuditEvent } from "../../../../src/format/audit/audit-event.ts";
import { decodeCatalog } from "../../../../src/format/history/catalog.ts";
import { decodeCopyRecord } from "../../../../src/format/records/copy-record.ts";
import { decodeCoupon } from "../../../../src/format/erasure/erasure-coupon.ts";
import { decodeManifest } from "../../../../src/format/history/manifest.ts";
import { decodeHistory } from "../../../../src/format/history/history.ts";
import { decodeNameClaim, encodeNameClaim } from "../../../../src/format/records/name-claim.ts";
import { decodePolicy } from "../../../../src/format/records/policy.ts";
import { computeSha256 } from "../../../../src/format/core/seal.ts";
import { readSegmentIndexes } from "../../../../src/format/history/segment.ts";
import {
  formats,
  formatsMarkdown,
  isUnreadable,
  NewerFormat,
  requireVersion,
} from "../../../../src/format/core/versions.ts";
import { sampleAuditEvents } from "../../../support/format-samples.ts";
import { goldenFormatPath } from "../../../support/make-golden.ts";

const golden = (name: string): Buffer => readFileSync(goldenFormatPath(name));
const far = 200;

/** The object with another version in its seal, which is sound. */
function resealed(bytes: Buffer, version: number): Uint8Array {
  const copy = Buffer.from(bytes);
  copy[4] = version;
  const checked = 9 + copy.readUInt32LE(5);
  copy.set(computeSha256(copy.subarray(0, checked)).subarray(0, 16), checked);
  return copy;
}

/** The JSON object with another version; a coupon's checksum is made anew. */
function renumbered(bytes: Uint8Array, version: number): Uint8Array {
  const text = Buffer.from(bytes)
    .toString()
    .replace(/"v":\d+/, `"v":${version}`);
  const summed = text.startsWith('{"sum":"') ? text.slice(text.indexOf('"v":')) : undefined;
  return Buffer.from(
    summed === undefined
      ? text
      : `{"sum":"${Buffer.from(computeSha256(Buffer.from(summed)))
          .toString("hex")
          .slice(0, 32)}",${summed}`,
  );
}

const claim = encodeNameClaim({ uuid: "00000000-0000-4000-8000-000000000001", createdAtMs: 1, deletedAtMs: undefined });
const event = Buffer.from(encodeAuditEvent(sampleAuditEvents[0]!));

const readers: Readonly<Record<string, (version: number) => unknown>> = {
  manifest: (version) => decodeManifest(resealed(golden("head"), version)),
  catalog: (version) => decodeCatalog(resealed(golden("catalog"), version)),
  history: (version) => decodeHistory(resealed(golden("history"), version)),
  segment: (version) => readSegmentIndexes(resealed(golden("segment"), version)),
  nameClaim: (version) => decodeNameClaim(renumbered(claim, version)),
  policy: (version) =>
    decodePolicy(renumbered(readFileSync(goldenFormatPath("policy").replace(".bin", ".json")), version), "namespace"),
  auditEvent: (version) => decodeAuditEvent(Buffer.from(renumbered(event, version)).toString()),
  coupon: (version) => decodeCoupon(renumbered(golden("coupon"), version)),
  copyRecord: (version) => decodeCopyRecord(renumbered(golden("copy"), version)),
};

test.each(Object.keys(readers))(
  "%s: one of a newer build is refused as such, and one of no build as corrupt",
  (name) => {
    const read = (version: number) => (): unknown => readers[name]!(version);
    expect(read(far)).toThrow(NewerFormat);
    expect(read(far)).toThrow(
      expect.objectContaining({ kind: "misconfigured", message: expect.stringContaining("newer build") }),
    );
    expect(read(0)).toThrow(expect.objectContaining({ kind: "corrupt" }));
    expect(read(0)).not.toThrow(NewerFormat);
  },
);

test("what is written is read, and what cannot be read is told from what did not answer", () => {
  for (const { writes, reads } of Object.values(formats)) expect(reads).toEqual(expect.arrayContaining([...writes]));
  expect(() => requireVersion(formats.manifest, "1")).toThrow(expect.objectContaining({ kind: "corrupt" }));
  expect(
    [
      new NewerFormat(formats.manifest, 9),
      new StoreError("corrupt", ""),
      new StoreError("unavailable", ""),
      new Error(""),
    ].map(isUnreadable),
  ).toEqual([true, true, false, false]);
});

test("docs/formats.md has the table as it is", () => {
  const docs = readFileSync(join(import.meta.dirname, "../../../../docs/formats.md"), "utf8");
  expect(docs).toContain(formatsMarkdown());
});
