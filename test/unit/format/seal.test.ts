import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../src/base/assert.ts";
import { decodeSealed, decodeSealedAt, encodeSealed, hashOf, type SealedFormat } from "../../../src/format/seal.ts";
import { expectDamageRefused } from "../../support/format-samples.ts";

const format: SealedFormat = { what: "a thing", magic: "TEST", version: 3, bytesMax: 64 };
const sealed = encodeSealed(format, (writer) => writer.varint(300));

test("a seal is magic, version, length, body and half a SHA-256", () => {
  const checked = Buffer.concat([Buffer.from("TEST"), Buffer.from([3, 2, 0, 0, 0, 0xac, 0x02])]);
  const checksum = createHash("sha256").update(checked).digest().subarray(0, 16);
  expect(Buffer.compare(sealed, Buffer.concat([checked, checksum]))).toBe(0);
  expect(Buffer.compare(hashOf(checked), createHash("sha256").update(checked).digest())).toBe(0);
});

test("a sealed body is found at its place, and what follows it is not its business", () => {
  const bytes = Buffer.concat([Buffer.from("before"), sealed, Buffer.from("after")]);
  expect(decodeSealedAt(format, bytes, 6, (reader) => reader.varint())).toEqual({ content: 300, end: 6 + sealed.length });
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(sealed, (bytes) => decodeSealed(format, bytes, (reader) => reader.varint()));
});

test("a newer version is refused by a message that names both", () => {
  const decode = () => decodeSealed({ ...format, version: 2 }, sealed, (reader) => reader.varint());
  expect(decode).toThrow(expect.objectContaining({ kind: "corrupt", message: "a thing has format version 3; this program reads version 2" }));
});

test("another format, a body that goes on, and a length beyond the bound are refused", () => {
  const decode = (given: SealedFormat, read = true) => () => decodeSealed(given, sealed, (reader) => (read ? reader.varint() : 0));
  expect(decode({ ...format, magic: "TASK" })).toThrow("something else");
  expect(decode(format, false)).toThrow("goes on after its end");
  expect(decode({ ...format, bytesMax: sealed.length - 1 })).toThrow(expect.objectContaining({ kind: "corrupt" }));
  expect(decode({ ...format, bytesMax: sealed.length })()).toBe(300);
  expect(() => encodeSealed({ ...format, bytesMax: sealed.length - 1 }, (writer) => writer.varint(300))).toThrow(AssertionFault);
});
