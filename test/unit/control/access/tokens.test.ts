/** Tokens and credentials: what is good, what is not, and what a caller is told. */
import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import fc from "fast-check";
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { Credentials, derivedClusterKey } from "../../../../src/control/access/credentials.ts";
import { buildSigningKey } from "../../../../src/control/access/signing-key.ts";
import { Tokens } from "../../../../src/control/access/tokens.ts";
import { seeded } from "../../../support/random.ts";
import { setWorld } from "../../../support/set-world.ts";

const startMs = 1_800_000_000_000;
const startSecs = startMs / 1_000;
const { privateKey } = generateKeyPairSync("ed25519");
const key = await buildSigningKey(privateKey);
const otherKey = await buildSigningKey(generateKeyPairSync("ed25519").privateKey);

function node(platformKey: string | undefined = "the platform's key") {
  const clock = setWorld(startMs);
  const tokens = new Tokens(key, clock.world);
  return { clock, tokens, credentials: new Credentials({ tokens, signingKey: key, platformKey, world: clock.world }) };
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const goodClaims = { ns: "acme", scope: "write", iat: startSecs, exp: startSecs + 60, jti: "x" };
const goodHeader = { alg: "EdDSA", kid: key.kid, typ: "JWT" };

/** A token as an attacker with a key of his choice can make it. */
function forged(
  header: object,
  claims: object,
  signature: (text: string) => Buffer = (text) => sign(null, Buffer.from(text), privateKey),
): string {
  const text = `${part(header)}.${part(claims)}`;
  return `${text}.${signature(text).toString("base64url")}`;
}

const signedBy =
  (other: KeyObject) =>
  (text: string): Buffer =>
    sign(null, Buffer.from(text), other);

async function catchRefusal(credentials: Credentials, credential: string | undefined): Promise<unknown> {
  return credentials
    .identify(credential)
    .catch((error: unknown) => ({ code: (error as { code: string }).code, message: (error as Error).message }));
}

const notValid = { code: "unauthorized", message: "the credential is not valid" };

describe("a minted token", () => {
  test("auth-02: is a JWT of three parts with the specified header and claims", async () => {
    const { tokens } = node();
    const token = await tokens.mint({ database: { name: "acme--alice", uuid: "u-1" } }, "read", 3_600);
    expect(token.split(".")).toHaveLength(3);
    expect(decodeProtectedHeader(token)).toEqual(goodHeader);
    expect(decodeJwt(token)).toEqual({
      db: "acme--alice",
      uuid: "u-1",
      scope: "read",
      iat: startSecs,
      exp: startSecs + 3_600,
      jti: expect.stringMatching(/^[0-9A-Z]{26}$/),
    });
    expect(decodeJwt(await tokens.mint({ namespace: "acme" }, "admin", 1))).toEqual({
      ns: "acme",
      scope: "admin",
      iat: startSecs,
      exp: startSecs + 1,
      jti: expect.any(String),
    });
    expect(token.length).toBeLessThan(limits.tokenBytesMax / 4);
  });

  test("is verified by the listed public key, and says who bears it", async () => {
    const { tokens, credentials } = node();
    const token = await tokens.mint({ namespace: "acme" }, "write", 60);
    const publicKey = createPublicKey({ key: { ...key.listed }, format: "jwk" });
    expect((await jwtVerify(token, publicKey, { currentDate: new Date(startMs) })).payload).toMatchObject({
      ns: "acme",
    });
    expect(await credentials.identify(token)).toEqual({
      kind: "token",
      hash: expect.stringMatching(/^[0-9a-f]{16}$/),
      scope: "write",
      namespace: "acme",
      database: undefined,
      jti: expect.any(String),
      issuedAtMs: startMs,
      expiresAtMs: startMs + 60_000,
    });
    const other = await credentials.identify(await tokens.mint({ database: { name: "plain", uuid: "u" } }, "read", 60));
    expect(other).toMatchObject({ database: { name: "plain", uuid: "u" }, namespace: undefined, scope: "read" });
  });

  test("auth-08: is good until its end and 5 seconds more, remembered or not", async () => {
    const { clock, tokens, credentials } = node();
    const token = await tokens.mint({ namespace: "acme" }, "read", 60);
    for (const fresh of [false, true]) {
      const asked = fresh
        ? new Credentials({ tokens, signingKey: key, platformKey: undefined, world: clock.world })
        : credentials;
      clock.now = startMs;
      if (!fresh) expect(await asked.identify(token)).toMatchObject({ kind: "token" });
      clock.now = startMs + 64_000;
      expect(await asked.identify(token)).toMatchObject({ kind: "token" });
      clock.now = startMs + 65_000;
      expect(await catchRefusal(asked, token)).toEqual({ code: "unauthorized", message: "the token has expired" });
      expect(await catchRefusal(asked, token)).toEqual({ code: "unauthorized", message: "the token has expired" });
    }
  });
});

describe("what is not good", () => {
  const derOfPublic = key.publicKey.export({ format: "der", type: "spki" });
  const pemOfPublic = key.publicKey.export({ format: "pem", type: "spki" }) as string;
  const hs256 =
    (secret: Buffer | string) =>
    (text: string): Buffer =>
      createHmac("sha256", secret).update(text).digest();
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const cases: readonly (readonly [string, string])[] = [
    ["nothing", ""],
    ["garbage", "garbage"],
    ["three dots", "a.b.c"],
    ["alg none without a signature", `${part({ ...goodHeader, alg: "none" })}.${part(goodClaims)}.`],
    ["alg none with one", forged({ ...goodHeader, alg: "none" }, goodClaims)],
    [
      "HS256 with the public key's bytes",
      forged({ ...goodHeader, alg: "HS256" }, goodClaims, hs256(Buffer.from(key.listed.x, "base64url"))),
    ],
    ["HS256 with the public key's DER", forged({ ...goodHeader, alg: "HS256" }, goodClaims, hs256(derOfPublic))],
    ["HS256 with the public key's PEM", forged({ ...goodHeader, alg: "HS256" }, goodClaims, hs256(pemOfPublic))],
    ["RS256", forged({ ...goodHeader, alg: "RS256" }, goodClaims, (text) => sign("sha256", Buffer.from(text), rsa))],
    ["an alg that is no text", forged({ ...goodHeader, alg: 5 }, goodClaims)],
    ["another key", forged(goodHeader, goodClaims, signedBy(otherKey.privateKey))],
    [
      "another key that the header brings along",
      forged({ ...goodHeader, jwk: otherKey.listed }, goodClaims, signedBy(otherKey.privateKey)),
    ],
    ["our key under another name", forged({ ...goodHeader, kid: otherKey.kid }, goodClaims)],
    ["no kid", forged({ alg: "EdDSA" }, goodClaims)],
    ["an extension that must be understood", forged({ ...goodHeader, crit: ["x"], x: 1 }, goodClaims)],
    ["an unencoded payload", forged({ ...goodHeader, crit: ["b64"], b64: false }, goodClaims)],
    ["issued in the future", forged(goodHeader, { ...goodClaims, iat: startSecs + 6 })],
    ["not good yet", forged(goodHeader, { ...goodClaims, nbf: startSecs + 6 })],
    ["no end", forged(goodHeader, { ...goodClaims, exp: undefined })],
    ["an end that is no number", forged(goodHeader, { ...goodClaims, exp: "9999999999" })],
    ["a time with a fraction", forged(goodHeader, { ...goodClaims, iat: startSecs - 0.5 })],
    ["no time of issue", forged(goodHeader, { ...goodClaims, iat: undefined })],
    ["no jti", forged(goodHeader, { ...goodClaims, jti: undefined })],
    ["an unknown scope", forged(goodHeader, { ...goodClaims, scope: "root" })],
    ["a list of scopes", forged(goodHeader, { ...goodClaims, scope: ["write"] })],
    ["no subject", forged(goodHeader, { ...goodClaims, ns: undefined })],
    ["two subjects", forged(goodHeader, { ...goodClaims, db: "plain", uuid: "u" })],
    ["a database without its uuid", forged(goodHeader, { ...goodClaims, ns: undefined, db: "plain" })],
    ["a namespace that is none", forged(goodHeader, { ...goodClaims, ns: "a--b" })],
    ["a database name that is none", forged(goodHeader, { ...goodClaims, ns: undefined, db: "a@b", uuid: "u" })],
    ["too large, though signed", forged(goodHeader, { ...goodClaims, more: "x".repeat(limits.tokenBytesMax) })],
    ["a claim set that is no object", forged(goodHeader, [goodClaims])],
  ];

  test.each(cases)("%s", async (_what, token) => {
    expect(await catchRefusal(node().credentials, token)).toEqual(notValid);
  });

  test("the claims that these are made of are good, within the leeway", async () => {
    for (const claims of [goodClaims, { ...goodClaims, iat: startSecs + 5 }, { ...goodClaims, nbf: startSecs + 5 }]) {
      expect(await node().credentials.identify(forged(goodHeader, claims))).toMatchObject({
        kind: "token",
        namespace: "acme",
      });
    }
  });

  test("auth-03: any change of any character, and any text at all", async () => {
    const { tokens, credentials } = node();
    const token = await tokens.mint({ namespace: "acme" }, "read", 60);
    const random = seeded(7);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    for (let round = 0; round < 400; round++) {
      const at = Math.floor(random() * token.length);
      const changed = token.slice(0, at) + alphabet[Math.floor(random() * alphabet.length)] + token.slice(at + 1);
      // The last character of a part has bits that stand for nothing: what decodes to the same bytes is the same token.
      const same =
        changed.split(".").length === 3 &&
        changed
          .split(".")
          .every((piece, index) =>
            Buffer.from(piece, "base64url").equals(Buffer.from(token.split(".")[index]!, "base64url")),
          );
      if (!same) expect(await catchRefusal(credentials, changed), changed).toEqual(notValid);
    }
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary", maxLength: 300 }), async (text) => {
        expect(await catchRefusal(credentials, text)).toEqual(notValid);
      }),
      { numRuns: 200 },
    );
  });

  test("no credential at all is told so", async () => {
    expect(await catchRefusal(node().credentials, undefined)).toMatchObject({
      code: "unauthorized",
      message: expect.stringContaining("Authorization: Bearer"),
    });
  });
});

describe("the platform key", () => {
  test("is known whole, and only where there is one", async () => {
    const { credentials } = node();
    expect(await credentials.identify("the platform's key")).toEqual({
      kind: "platform",
      hash: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    for (const near of ["the platform's ke", "the platform's key ", "The platform's key", "the platform's keyy"])
      expect(await catchRefusal(credentials, near)).toEqual(notValid);
    const clock = setWorld(startMs);
    const without = new Credentials({
      tokens: new Tokens(key, clock.world),
      signingKey: key,
      platformKey: undefined,
      world: clock.world,
    });
    for (const guess of ["undefined", ""]) expect(await catchRefusal(without, guess)).toEqual(notValid);
  });
});

describe("hashes and derived keys", () => {
  test("a credential's hash is one in a fleet, another for another credential or key, and not plain", async () => {
    const { tokens, credentials } = node();
    const token = await tokens.mint({ namespace: "acme" }, "read", 60);
    const second = await tokens.mint({ namespace: "acme" }, "read", 60);
    const [first, again, other] = await Promise.all([
      credentials.identify(token),
      node().credentials.identify(token),
      credentials.identify(second),
    ]);
    expect(again.hash).toBe(first.hash);
    expect(other.hash).not.toBe(first.hash);
    expect(createHmac("sha256", "").update(token).digest("hex").slice(0, 16)).not.toBe(first.hash);
    expect(token).not.toContain(first.hash);
  });

  test("auth-20: the derived cluster key is stable, is no key of anything else, and differs from key to key", () => {
    const derived = derivedClusterKey(key);
    const copy = createPrivateKey(key.privateKey.export({ format: "pem", type: "pkcs8" }) as string);
    expect(derivedClusterKey({ ...key, privateKey: copy })).toBe(derived);
    expect(derived).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(derivedClusterKey(otherKey)).not.toBe(derived);
    expect(
      Buffer.from(derived, "base64url").equals(
        Buffer.from(key.privateKey.export({ format: "jwk" })["d"] as string, "base64url"),
      ),
    ).toBe(false);
  });
});
