/**
 * The keys of revoked tokens (`revoked/`). A revocation is nothing but its key: it says whose tokens it is for and
 * until when it matters.
 */
import { assert } from "../../base/faults/assert.ts";
import { isUlid, ulidText } from "../core/ids.ts";

/** The folder of revoked tokens. */
export const revocationPrefix = "revoked/";

const revocationKeyPattern = new RegExp(`^${revocationPrefix}(\\d{12})/(${ulidText})/(db|ns)/([a-z0-9_-]{1,200})$`);

/** Whose tokens a revocation is for: a database's own, or a namespace's with those of its profiles. */
export interface RevocationSubject {
  readonly kind: "db" | "ns";
  readonly name: string;
}

/** A revoked token. */
export interface Revocation {
  /** In Unix seconds: no token that it can be of is good after this. */
  readonly expiresAtSecs: number;
  /** The token's id, a ULID. */
  readonly jti: string;
  readonly subject: RevocationSubject;
}

/** The sign that a token is revoked. Keys sort by the time at which they cease to matter. */
export function revocationKey({ expiresAtSecs, jti, subject }: Revocation): string {
  assert(isUlid(jti), "a token's id is a ULID");
  return `${revocationsAfter(expiresAtSecs)}${jti}/${subject.kind}/${subject.name}`;
}

/** What sorts before every revocation that matters at this time, and after the others. */
export function revocationsAfter(atSecs: number): string {
  return `${revocationPrefix}${String(atSecs).padStart(12, "0")}/`;
}

/** What the key revokes, or undefined for a foreign object. */
export function parseRevocationKey(key: string): Revocation | undefined {
  const [, digits, jti, kind, name] = revocationKeyPattern.exec(key) ?? [];
  if (digits === undefined || jti === undefined || kind === undefined || name === undefined) return undefined;
  return { expiresAtSecs: Number(digits), jti, subject: { kind: kind as RevocationSubject["kind"], name } };
}
