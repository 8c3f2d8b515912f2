/**
 * Who makes a call: the words of credentials that every part above shares.
 *
 * Always true: an identity holds no credential, only a keyed hash of it, so that it may be logged, counted and audited.
 */

/** What a token allows, least first; each scope includes the ones before. */
export const scopeOrder = ["read", "write", "admin"] as const;

/** The name of a scope, as tokens and clients write it. */
export type ScopeName = (typeof scopeOrder)[number];

/** Whether a token of scope `has` may do what needs `needs`. */
export function scopeIncludes(has: ScopeName, needs: ScopeName): boolean {
  return scopeOrder.indexOf(has) >= scopeOrder.indexOf(needs);
}

/** The scope of this name, or undefined for any other text. */
export function scopeNamed(text: unknown): ScopeName | undefined {
  return scopeOrder.find((name) => name === text);
}

/** The bearer of a token, told by its claims. Either `database` or `namespace` is set. */
export interface TokenIdentity {
  readonly kind: "token";
  /** 16 hex digits of a keyed hash of the credential, for audit and rate buckets. */
  readonly hash: string;
  readonly scope: ScopeName;
  /** The token's id. */
  readonly jti?: string;
  /** The one database that a per-database token is for: the name alone does not do, as names are used again. */
  readonly database: { readonly name: string; readonly uuid: string } | undefined;
  /** The namespace whose profiles a namespace token is for. */
  readonly namespace: string | undefined;
  /**
   * The number of the namespace's newest deletion when a namespace token was minted; undefined when it does not say.
   */
  readonly deletions?: number | undefined;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
}

/** The bearer of the platform key. */
export interface PlatformIdentity {
  readonly kind: "platform";
  readonly hash: string;
}

/** A caller without identity: authentication is off, or the caller is not identified. */
export interface Anonymous {
  readonly kind: "anonymous";
}

/** Who makes a call. */
export type Identity = Anonymous | PlatformIdentity | TokenIdentity;

/** A caller without identity. */
export const anonymous: Anonymous = { kind: "anonymous" };
