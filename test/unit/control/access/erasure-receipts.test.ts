/** A receipt verifies with the published keys and whole, and in no other way. */
import { generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { KeySet } from "../../../../src/control/access/key-set.ts";
import { Receipts, verifyReceipt } from "../../../../src/control/access/receipts.ts";
import { buildSigningKey, type SigningKey } from "../../../../src/control/access/signing-key.ts";
import {
  signedBytes,
  type ErasureReceipt,
  type ReceiptPayload,
} from "../../../../src/format/erasure/erasure-receipt.ts";
import { sampleReceiptPayload } from "../../../support/format-samples.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const newKey = (): Promise<SigningKey> => buildSigningKey(generateKeyPairSync("ed25519").privateKey);
/** As it comes over a wire: plain JSON, its members in another order. */
const reordered = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(reordered);
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, member]) => [name, reordered(member)]),
  );
};

/** What the check says when it refuses. */
function refusal(receipt: unknown, keySet: unknown): string {
  const verdict = verifyReceipt(receipt, keySet);
  expect(verdict.isValid).toBe(false);
  return verdict.isValid ? "" : verdict.reason;
}

describe("erasure-05: a receipt", () => {
  test("verifies with the published key set, whatever the order of its members", async () => {
    const key = await newKey();
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    const keySet = { keys: [(await newKey()).listed, key.listed] };
    expect(receipt).toMatchObject({ payload: sampleReceiptPayload, alg: "EdDSA", kid: key.kid });
    expect(verifyReceipt(JSON.parse(JSON.stringify(reordered(receipt))), JSON.parse(JSON.stringify(keySet)))).toEqual({
      isValid: true,
      receipt,
    });
  });

  test("F93: that was signed before its key was replaced verifies from the next node's key set", async () => {
    const store = new ScriptedStore();
    const [old, current] = [await newKey(), await newKey()];
    await new KeySet(store, realWorld(), old.listed).publish();
    const receipt = new Receipts(old).sign(sampleReceiptPayload);
    const successor = new KeySet(store, realWorld(), current.listed);
    await successor.publish();
    expect(verifyReceipt(receipt, { keys: await successor.keys() }).isValid).toBe(true);
    expect(
      verifyReceipt(new Receipts(current).sign(sampleReceiptPayload), { keys: await successor.keys() }).isValid,
    ).toBe(true);
    expect(refusal(receipt, { keys: [current.listed] })).toMatch(/not in the key set/);
  });

  test("does not verify when any value of its payload was changed", async () => {
    const key = await newKey();
    const keySet = { keys: [key.listed] };
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    let changed = 0;
    /** Every copy of the value in which one leaf is another one of its kind, or one member or entry is missing. */
    const variants = function* (value: unknown): Generator<unknown> {
      if (typeof value === "string") yield `${value}.`;
      if (typeof value === "number") yield value + 1;
      if (typeof value === "boolean") yield !value;
      if (Array.isArray(value)) for (const at of value.keys()) yield value.toSpliced(at, 1);
      if (Array.isArray(value))
        for (const at of value.keys()) for (const other of variants(value[at])) yield value.with(at, other);
      if (typeof value !== "object" || value === null || Array.isArray(value)) return;
      for (const [name, member] of Object.entries(value)) {
        const rest = Object.entries(value).filter(([other]) => other !== name);
        yield Object.fromEntries(rest);
        yield Object.fromEntries([...rest, [`${name}x`, member]]);
        for (const other of variants(member)) yield Object.fromEntries([...rest, [name, other]]);
      }
    };
    for (const payload of variants(sampleReceiptPayload)) {
      expect(verifyReceipt({ ...receipt, payload }, keySet).isValid, JSON.stringify(payload)).toBe(false);
      changed++;
    }
    expect(changed).toBeGreaterThan(100);
    expect(refusal({ ...receipt, payload: { ...sampleReceiptPayload, db: "other" } }, keySet)).toMatch(
      /signature is not one of this key/,
    );
  });

  test("does not verify with another key, even under the same name", async () => {
    const [key, other] = [await newKey(), await newKey()];
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    expect(refusal(receipt, { keys: [{ ...other.listed, kid: key.kid }] })).toMatch(/signature is not one of this key/);
    expect(refusal({ ...receipt, kid: other.kid }, { keys: [key.listed, other.listed] })).toMatch(
      /signature is not one of this key/,
    );
    expect(refusal(receipt, { keys: [other.listed] })).toMatch(/not in the key set/);
  });

  test("does not verify with a signature that is cut, spelt otherwise, or made for something else", async () => {
    const key = await newKey();
    const keySet = { keys: [key.listed] };
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    const bytes = Buffer.from(receipt.sig, "base64url");
    const withSig = (sig: string): ErasureReceipt => ({ ...receipt, sig });
    expect(refusal(withSig(receipt.sig.slice(0, -1)), keySet)).toMatch(/form of a receipt/);
    expect(refusal(withSig(`${receipt.sig}==`), keySet)).toMatch(/form of a receipt/);
    expect(refusal(withSig(bytes.toString("hex")), keySet)).toMatch(/form of a receipt/);
    // Four bits of the last digit belong to no byte.
    const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const last = digits[digits.indexOf(receipt.sig.at(-1)!) ^ 1]!;
    expect(Buffer.from(receipt.sig.slice(0, -1) + last, "base64url")).toEqual(bytes);
    expect(refusal(withSig(receipt.sig.slice(0, -1) + last), keySet)).toMatch(/not spelt/);
    for (let at = 0; at < bytes.length; at++)
      expect(
        verifyReceipt(withSig(Buffer.from(bytes.with(at, bytes[at]! ^ 1)).toString("base64url")), keySet).isValid,
      ).toBe(false);
    // The same payload without the text before it, and as a token's payload.
    const bare = Buffer.from(signedBytes(sampleReceiptPayload)).subarray("palimpsest-erasure-receipt-v1\0".length);
    expect(refusal(withSig(sign(null, bare, key.privateKey).toString("base64url")), keySet)).toMatch(
      /signature is not one of this key/,
    );
  });

  test("does not verify with anything beside its payload that is not signed", async () => {
    const key = await newKey();
    const keySet = { keys: [key.listed] };
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    expect(refusal({ ...receipt, note: "and everything else too" }, keySet)).toMatch(/one too many/);
    expect(refusal({ ...receipt, alg: "none" }, keySet)).toMatch(/algorithm/);
    expect(refusal({ ...receipt, alg: undefined }, keySet)).toMatch(/algorithm/);
    for (const value of [null, [], "x", 1, {}, { payload: sampleReceiptPayload }])
      expect(verifyReceipt(value, keySet).isValid).toBe(false);
  });

  test("is refused without a fault against whatever stands in for a key set", async () => {
    const key = await newKey();
    const receipt = new Receipts(key).sign(sampleReceiptPayload);
    const { kid, listed } = key;
    expect(refusal(receipt, {})).toMatch(/key set is none/);
    for (const keySet of [null, [], "x", { keys: {} }, { keys: [null, 1, []] }])
      expect(verifyReceipt(receipt, keySet).isValid).toBe(false);
    const unusable = [
      { kid },
      { ...listed, kty: "RSA" },
      { ...listed, crv: "X25519" },
      { ...listed, x: 1 },
      { ...listed, x: "AA" },
      { ...listed, alg: "HS256" },
      { ...listed, use: "enc" },
      { kid, kty: "oct", k: "AAAA" },
    ];
    for (const entry of unusable)
      expect(refusal(receipt, { keys: [entry] }), JSON.stringify(entry)).toMatch(/cannot be used/);
    // A key set need not say what its keys are for.
    expect(verifyReceipt(receipt, { keys: [{ kid, kty: "OKP", crv: "Ed25519", x: listed.x }] }).isValid).toBe(true);
  });

  test("is not signed for a payload that no check would take", async () => {
    const receipts = new Receipts(await newKey());
    const hits = {
      ...sampleReceiptPayload,
      evidence: { ...sampleReceiptPayload.evidence, traces: { looked_for: 1, hits: 1 } },
    } as unknown as ReceiptPayload;
    expect(() => receipts.sign(hits)).toThrow(/invariant/);
  });
});
