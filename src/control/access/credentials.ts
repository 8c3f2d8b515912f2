/**
 * From a bearer credential to its identity.
 *
 * Always true: whatever is wrong with a credential, the caller learns only that it is invalid, or that it has expired;
 * a credential is remembered here by its hash alone. Must not know: what the identity may do
 * (control/access/access-rules).
 */
import { createHmac, hash, hkdfSync, timingSafeEqual } from "node:crypto";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { PlatformIdentity, TokenIdentity } from "./identity.ts";
import type { Revocations } from "./revocations.ts";
import type { SigningKey } from "./signing-key.ts";
import type { Tokens } from "./tokens.ts";

/** Verified tokens that a node remembers until they expire; any other is verified again. */
const tokensRememberedMax = 10_000;
/** A credential in logs and audit: 64 bits tell credentials apart and give none away. */
const credentialHashDigits = 16;

/** What a node needs to tell callers apart. */
export interface CredentialsOptions {
  readonly tokens: Tokens;
  readonly signingKey: SigningKey;
  /** Undefined where authentication is off: then no credential is the platform's. */
  readonly platformKey: string | undefined;
  readonly world: World;
  /** Tokens that are refused before they expire; absent where no list is kept. */
  readonly revocations?: Pick<Revocations, "has" | "isFresh" | "refresh"> | undefined;
}

/** The key of the calls between nodes where none is set: the same on every node that has the signing key. */
export function derivedClusterKey(signingKey: SigningKey): string {
  return derived(signingKey, "palimpsest cluster key").toString("base64url");
}

/** The refusal of a call without a good credential. */
export function unauthorized(reason: "missing" | "invalid" | "expired" | "revoked"): ServiceError {
  const messages = {
    revoked: "the token was revoked",
    missing: "this call needs a credential: Authorization: Bearer",
    invalid: "the credential is not valid",
    expired: "the token has expired",
  };
  return new ServiceError("unauthorized", messages[reason]);
}

/** Whether a token that was good is so at this time. */
export function isCurrent({ expiresAtMs }: TokenIdentity, nowMs: number): boolean {
  return expiresAtMs + limits.tokenLeewayMs > nowMs;
}

export class Credentials {
  readonly #options: CredentialsOptions;
  readonly #hashKey: Buffer;
  readonly #platform: { readonly digest: Buffer; readonly identity: PlatformIdentity } | undefined;
  /** Tokens that have been verified, by the SHA-256 of the whole token. */
  readonly #verified = new LruMap<string, TokenIdentity>(tokensRememberedMax);

  constructor(options: CredentialsOptions) {
    const { signingKey, platformKey } = options;
    this.#options = options;
    this.#hashKey = derived(signingKey, "palimpsest credential hash");
    if (platformKey !== undefined)
      this.#platform = {
        digest: Buffer.from(computeDigest(platformKey)),
        identity: { kind: "platform", hash: this.#hashCredential(platformKey) },
      };
  }

  /** Who bears the credential. Throws unauthorized when there is none or it is not good. */
  async identify(credential: string | undefined): Promise<PlatformIdentity | TokenIdentity> {
    return this.known(credential) ?? this.#unrevoked(await this.#verify(credential));
  }

  async #unrevoked(identity: PlatformIdentity | TokenIdentity): Promise<PlatformIdentity | TokenIdentity> {
    const { revocations } = this.#options;
    if (!revocations || identity.kind !== "token") return identity;
    if (!revocations.isFresh) await revocations.refresh();
    if (revocations.has(identity)) throw unauthorized("revoked");
    return identity;
  }

  /** The bearer of a token that was verified before and is still good; undefined when that must be found out. */
  known(credential: string | undefined): TokenIdentity | undefined {
    const identity = credential === undefined ? undefined : this.#verified.get(computeDigest(credential));
    if (!identity || !isCurrent(identity, this.#options.world.nowMs())) return undefined;
    const { revocations } = this.#options;
    return !revocations || (revocations.isFresh && !revocations.has(identity)) ? identity : undefined;
  }

  async #verify(credential: string | undefined): Promise<PlatformIdentity | TokenIdentity> {
    if (credential === undefined) throw unauthorized("missing");
    const digest = computeDigest(credential);
    const remembered = this.#verified.get(digest);
    if (remembered && isCurrent(remembered, this.#options.world.nowMs())) return remembered;
    // What is still remembered and no longer valid has expired.
    if (this.#verified.delete(digest)) throw unauthorized("expired");
    // Digests have one length and say nothing of their origin, so the comparison takes the same time for every guess.
    const platform = this.#platform;
    if (platform && timingSafeEqual(Buffer.from(digest), platform.digest)) return platform.identity;
    const claims = await this.#options.tokens.verify(credential);
    if (claims === "expired" || claims === "invalid") throw unauthorized(claims);
    const identity: TokenIdentity = { kind: "token", hash: this.#hashCredential(credential), ...claims };
    this.#verified.set(digest, identity);
    return identity;
  }

  /** Keyed, so that no reader of a log or of the audit stream can test a guess of a key against it. */
  #hashCredential(credential: string): string {
    return createHmac("sha256", this.#hashKey).update(credential).digest("hex").slice(0, credentialHashDigits);
  }
}

function computeDigest(credential: string): string {
  return hash("sha256", credential, "hex");
}

/** A key for one purpose, from which neither the signing key nor another purpose's key can be found. */
export function derived(signingKey: SigningKey, purpose: string): Buffer {
  const secret = signingKey.privateKey.export({ format: "der", type: "pkcs8" });
  return Buffer.from(hkdfSync("sha256", secret, Buffer.alloc(0), purpose, 32));
}
