/**
 * Verifies the receipt of an erasure with nothing but Node: node examples/verify-receipt.ts receipt.json jwks.json
 *
 * `receipt.json` is a receipt, or the coupon that holds it; `jwks.json` what /.well-known/jwks.json gave on a day when
 * it was trusted. Exit code 0: valid. What is checked, and what that means, stands in docs/verifying.md.
 */
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

/** RFC 8785: members sorted by UTF-16 code units, everything else as JSON.stringify writes it. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}

/** RFC 7638: what a key is named by. */
function thumbprint({ crv, kty, x }: { crv: string; kty: string; x: string }): string {
  return createHash("sha256").update(JSON.stringify({ crv, kty, x })).digest("base64url");
}

function check(receipt: any, keySet: any): string | undefined {
  if (Object.keys(receipt).sort().join() !== "alg,kid,payload,sig")
    return "it has other members than payload, alg, kid and sig";
  const { payload, alg, kid, sig } = receipt;
  if (alg !== "EdDSA" || typeof sig !== "string" || typeof kid !== "string") return "it is not signed with EdDSA";
  const domain = [1, 2, 3].includes(payload?.v) ? `palimpsest-erasure-receipt-v${payload.v}` : undefined;
  if (domain === undefined) return "its payload has a version that this program does not know";
  const key = keySet.keys.find(
    (one: any) => one.kid === kid && one.kty === "OKP" && one.crv === "Ed25519" && thumbprint(one) === kid,
  );
  if (key === undefined) return `the key set has no key ${kid}`;
  const signature = Buffer.from(sig, "base64url");
  // One signature has one spelling.
  if (signature.toString("base64url") !== sig) return "its signature is not base64url";
  const isSigned = verify(
    null,
    Buffer.from(`${domain}\0${canonical(payload)}`),
    createPublicKey({ key: { kty: key.kty, crv: key.crv, x: key.x }, format: "jwk" }),
    signature,
  );
  if (!isSigned) return "the signature does not hold";
  return payload.evidence?.traces?.hits === 0 ? undefined : "it does not say that nothing was found";
}

const [receiptPath = "", jwksPath = ""] = process.argv.slice(2);
const given = JSON.parse(readFileSync(receiptPath, "utf8"));
const receipt = given.receipt ?? given;
const fault = check(receipt, JSON.parse(readFileSync(jwksPath, "utf8")));
console.log(
  fault === undefined
    ? `valid: ${receipt.payload.erasure_id} of ${receipt.payload.db}, signed by ${receipt.kid}`
    : `NOT valid: ${fault}`,
);
process.exitCode = fault === undefined ? 0 : 1;
