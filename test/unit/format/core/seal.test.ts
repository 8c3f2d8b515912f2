/** Sealed bytes: what stands where, which versions are read, and that no damage goes unseen. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import {
  decodeSealed,
  decodeSealedAt,
  encodeSealed,
  computeSha256,
  type SealedFormat,
} from "../../../../src/format/core/seal.ts";
import { NewerFormat } from "../../../../src/format/core/versions.ts";
import { expectDamageRefused } from "../../../support/format-samples.ts";

const versions = { what: "a thing", where: "", told: "", writes: [3], reads: [2, 3] };
const format: SealedFormat = { versions, magic: "TEST", bytesMax: 64 };
const sealed = encodeSealed(format, (writer) => writer.varint(300));

test("a seal is magic, version, length, body and half a SHA-256", () => {
  const checked = Buffer.concat([Buffer.from("TEST"), Buffer.from([3, 2, 0, 0, 0, 0xac, 0x02])]);
  const checksum = createHash("sha256").update(checked).digest().subarray(0, 16);
  expect(Buffer.compare(sealed, Buffer.concat([checked, checksum]))).toBe(0);
  expect(Buffer.compare(computeSha256(checked), createHash("sha256").update(checked).digest())).toBe(0);
});

test("a sealed body is found at its place, and what follows it is not its business", () => {
  const bytes = Buffer.concat([Buffer.from("before"), sealed, Buffer.from("after")]);
  expect(decodeSealedAt(format, bytes, 6, (reader) => reader.varint())).toEqual({
    content: 300,
    end: 6 + sealed.length,
  });
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(sealed, (bytes) => decodeSealed(format, bytes, (reader) => reader.varint()));
});

test("every version that is read is told to whoever reads the body", () => {
  const older = encodeSealed({ ...format, versions: { ...versions, writes: [2] } }, (writer) => writer.varint(7));
  const decode = (bytes: Uint8Array) => decodeSealed(format, bytes, (reader, version) => [version, reader.varint()]);
  expect([decode(sealed), decode(older)]).toEqual([
    [3, 300],
    [2, 7],
  ]);
});

test("a newer version is left for a newer build, both named; one that no build has written is corrupt", () => {
  const decode = (reads: readonly number[]) => () =>
    decodeSealed({ ...format, versions: { ...versions, reads } }, sealed, (reader) => reader.varint());
  expect(decode([1, 2])).toThrow(NewerFormat);
  expect(decode([1, 2])).toThrow(
    expect.objectContaining({
      kind: "misconfigured",
      message: "a thing has format version 3, written by a newer build; this build reads versions 1 and 2: upgrade it",
    }),
  );
  expect(decode([4])).toThrow(expect.objectContaining({ kind: "corrupt" }));
});

test("another format, a body that goes on, and a length beyond the bound are refused", () => {
  const decode =
    (given: SealedFormat, read = true) =>
    () =>
      decodeSealed(given, sealed, (reader) => (read ? reader.varint() : 0));
  expect(decode({ ...format, magic: "TASK" })).toThrow("something else");
  expect(decode(format, false)).toThrow("goes on after its end");
  expect(decode({ ...format, bytesMax: sealed.length - 1 })).toThrow(expect.objectContaining({ kind: "corrupt" }));
  expect(decode({ ...format, bytesMax: sealed.length })()).toBe(300);
  expect(() => encodeSealed({ ...format, bytesMax: sealed.length - 1 }, (writer) => writer.varint(300))).toThrow(
    AssertionFault,
  );
});
