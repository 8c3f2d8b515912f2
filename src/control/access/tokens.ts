/**
 * Tokens: what is written into one, how it is signed, and what makes one valid.
 *
 * A token is a JWT signed with EdDSA whose header names the key (`kid`). Claims: `db` and `uuid` (one database), or
 * `ns` (the profiles of a namespace) with `del` (the number of its newest deletion); `scope`; `iat` and `exp` in
 * seconds; `jti`. Always true: a token that verifies was made by `mint` of a node with the same key, or with one that
 * was retired no longer ago than a token lives; nothing else of a header is believed.
 */
import { decodeProtectedHeader, errors, jwtVerify, SignJWT, type JWTPayload } from "jose";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { isDatabaseName, isNamePart } from "../../format/core/names.ts";
import { scopeNamed, type ScopeName, type TokenIdentity } from "./identity.ts";
import type { RetiredKey, SigningKey } from "./signing-key.ts";

/** What a token is to cover. */
export type TokenSubject =
  | { readonly database: { readonly name: string; readonly uuid: string } }
  | { readonly namespace: string; readonly deletions?: number | undefined };

/** What a token that verifies says. */
export type TokenClaims = Omit<TokenIdentity, "kind" | "hash">;

/** Why a token is not good; `expired` only when it was once. */
export type TokenFault = "expired" | "invalid";

const algorithm = "EdDSA";

export class Tokens {
  readonly #key: SigningKey;
  readonly #world: World;
  readonly #retired: readonly RetiredKey[];

  /** `retired`: keys that signed before this one, whose tokens are good until they expire. */
  constructor(key: SigningKey, world: World, retired: readonly RetiredKey[] = []) {
    this.#key = key;
    this.#world = world;
    this.#retired = retired;
  }

  /** Signs a token that is good from now for the given seconds. */
  async mint(subject: TokenSubject, scope: ScopeName, lifetimeSecs: number): Promise<string> {
    return (await this.grant(subject, scope, lifetimeSecs)).token;
  }

  /** As mint; also gives the token's id, by which it can be revoked. */
  async grant(
    subject: TokenSubject,
    scope: ScopeName,
    lifetimeSecs: number,
  ): Promise<{ readonly token: string; readonly jti: string }> {
    const jti = this.#world.ulid();
    const issuedAt = Math.floor(this.#world.nowMs() / 1_000);
    const covers =
      "namespace" in subject
        ? { ns: subject.namespace, ...(subject.deletions !== undefined && { del: subject.deletions }) }
        : { db: subject.database.name, uuid: subject.database.uuid };
    const token = await new SignJWT({ ...covers, scope })
      .setProtectedHeader({ alg: algorithm, kid: this.#key.kid, typ: "JWT" })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + lifetimeSecs)
      .setJti(jti)
      .sign(this.#key.privateKey);
    return { token, jti };
  }

  /**
   * The key that the token must be signed with: the one in use, unless it names an earlier one whose time is not over.
   */
  #pickKey(token: string, nowMs: number): Pick<SigningKey, "kid" | "publicKey"> {
    if (this.#retired.length === 0) return this.#key;
    const kid = kidIn(token);
    return this.#retired.find((key) => key.kid === kid && nowMs < key.untilMs) ?? this.#key;
  }

  /** What the token says, or why it is not good. */
  async verify(token: string): Promise<TokenClaims | TokenFault> {
    if (token.length > limits.tokenBytesMax) return "invalid";
    const nowMs = this.#world.nowMs();
    try {
      const known = this.#pickKey(token, nowMs);
      const { payload, protectedHeader } = await jwtVerify(token, known.publicKey, {
        algorithms: [algorithm],
        clockTolerance: limits.tokenLeewayMs / 1_000,
        currentDate: new Date(nowMs),
      });
      if (protectedHeader.kid !== known.kid) return "invalid";
      return parseClaims(payload, nowMs) ?? "invalid";
    } catch (error) {
      if (error instanceof errors.JWTExpired) return "expired";
      if (error instanceof errors.JOSEError) return "invalid";
      throw error;
    }
  }
}

/** The key id that a token's header names, before anything of it is believed. */
function kidIn(token: string): unknown {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

/** The claims, when all of them are there and of their form. */
function parseClaims(
  { db, uuid, ns, del, scope: scopeText, iat, exp, jti }: JWTPayload,
  nowMs: number,
): TokenClaims | undefined {
  const scope = scopeNamed(scopeText);
  if (scope === undefined || typeof jti !== "string" || !isTime(iat) || !isTime(exp)) return undefined;
  const [issuedAtMs, expiresAtMs] = [iat * 1_000, exp * 1_000];
  // The library leaves a time of issue in the future alone.
  if (issuedAtMs > nowMs + limits.tokenLeewayMs) return undefined;
  const times = { jti, issuedAtMs, expiresAtMs };
  if (typeof ns === "string" && isNamePart(ns) && db === undefined && uuid === undefined)
    return { scope, namespace: ns, database: undefined, ...(isTime(del) && { deletions: del }), ...times };
  if (typeof db !== "string" || !isDatabaseName(db) || typeof uuid !== "string" || ns !== undefined) return undefined;
  return { scope, namespace: undefined, database: { name: db, uuid }, ...times };
}

function isTime(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
