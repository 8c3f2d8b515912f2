/**
 * Signing of receipts, and their check by a holder of nothing but the receipt and a key set.
 *
 * Always true: a receipt is signed with the key in use and names it; a check believes nothing of a receipt but what its
 * signature covers, and takes every key of the set, so that receipts outlive the rotation of keys
 * (control/access/key-set). Must not know: how an erasure is done, where keys or receipts come from.
 */
import { createPublicKey, sign, verify, type KeyObject } from "node:crypto";
import { assert } from "../../base/faults/assert.ts";
import { isObject } from "../../format/core/json-shape.ts";
import {
  readReceipt,
  signedBytes,
  type ErasureReceipt,
  type ReceiptPayload,
} from "../../format/erasure/erasure-receipt.ts";
import type { SigningKey } from "./signing-key.ts";

/** What a check of a receipt has found. */
export type ReceiptVerdict =
  | { readonly isValid: true; readonly receipt: ErasureReceipt }
  /** Why not, in words that quote nothing of the receipt. */
  | { readonly isValid: false; readonly reason: string };

export class Receipts {
  readonly #key: SigningKey;

  constructor(key: SigningKey) {
    this.#key = key;
  }

  /** The receipt that says this. */
  sign(payload: ReceiptPayload): ErasureReceipt {
    const sig = sign(null, signedBytes(payload), this.#key.privateKey).toString("base64url");
    const receipt = readReceipt({ payload, alg: "EdDSA", kid: this.#key.kid, sig });
    assert(receipt, "a receipt that is signed has the form that a check takes");
    return receipt;
  }
}

/** Checks a receipt against a key set (`/.well-known/jwks.json`). Both are JSON as it was parsed, of any origin. */
export function verifyReceipt(receipt: unknown, keySet: unknown): ReceiptVerdict {
  const refused = (reason: string): ReceiptVerdict => ({ isValid: false, reason });
  if (isObject(receipt) && receipt["alg"] !== "EdDSA") return refused("its algorithm is not EdDSA");
  const read = readReceipt(receipt);
  if (!read)
    return refused("it does not have the form of a receipt: a member is missing, has a wrong value or is one too many");
  if (!isObject(keySet) || !Array.isArray(keySet["keys"]))
    return refused("the key set is none: it has no list of keys");
  const listed: unknown = keySet["keys"].find((key) => isObject(key) && key["kid"] === read.kid);
  if (listed === undefined) return refused("the key that it names is not in the key set");
  const key = parseEd25519Key(listed);
  if (!key) return refused("the key that it names cannot be used: it is not an Ed25519 key");
  const signature = Buffer.from(read.sig, "base64url");
  // The last digit has bits to spare: one signature must have one spelling.
  if (signature.toString("base64url") !== read.sig) return refused("its signature is not spelt as it must be");
  if (!verify(null, signedBytes(read.payload), key, signature))
    return refused("its signature is not one of this key over this payload");
  return { isValid: true, receipt: read };
}

/** The public key that an entry of a key set holds (RFC 8037). */
function parseEd25519Key(listed: unknown): KeyObject | undefined {
  if (!isObject(listed)) return undefined;
  const { kty, crv, x, alg = "EdDSA", use = "sig" } = listed;
  if (kty !== "OKP" || crv !== "Ed25519" || typeof x !== "string" || alg !== "EdDSA" || use !== "sig") return undefined;
  try {
    return createPublicKey({ key: { kty, crv, x }, format: "jwk" });
  } catch {
    // Its bytes are no point of the curve.
    return undefined;
  }
}
