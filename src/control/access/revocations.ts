/**
 * Tokens that were revoked one by one, by their ids.
 *
 * Why: a token is good by its signature alone until it expires, up to 30 days. One that got into wrong hands must be
 * refused before, without refusing all others of its database.
 *
 * Always true: what was revoked here is refused here at once, and by every node within `revocationsStaleMs` while
 * object storage answers; while it does not, what was last known holds. A revocation holds until every token that it
 * can concern has expired, and is then removed. Must not know: signatures, who may revoke.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import type { World } from "../../base/world.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import {
  parseRevocationKey,
  revocationKey,
  revocationsAfter,
  revocationPrefix,
  type RevocationSubject,
} from "../../format/keys/revocation-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { namespaceCovers } from "./access-rules.ts";
import type { TokenIdentity } from "./identity.ts";

/** Each is remembered by every node, about 200 bytes. */
const revocationsMax = 10_000;
/** What is known is read again when it is this old, beside the call that finds it so old. */
const revocationsReadMs = 5_000;
/** What is older than this is waited for, at most this long. */
const revocationsStaleMs = 10_000;
const revocationsPatienceMs = 1_000;
/** Of those that are over, this many are removed with each reading. */
const revocationsRemovedMax = 50;
const revocationsFullRetrySecs = 3_600;

export interface RevocationsOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly log: Log;
}

export class Revocations {
  readonly #options: RevocationsOptions;
  /** What was revoked, by id of the token. */
  #known: ReadonlyMap<string, readonly RevocationSubject[]> = new Map();
  #readAtMs = -Infinity;
  #reading: Promise<void> | undefined;
  #fails = false;

  constructor(options: RevocationsOptions) {
    this.#options = options;
  }

  /**
   * Refuses the token of this id from now on, if it is one of the subject's. Throws overloaded when there are too many,
   * StoreError.
   */
  async revoke(subject: RevocationSubject, jti: string): Promise<void> {
    const { store, world } = this.#options;
    if (this.#known.size >= revocationsMax) {
      throw new ServiceError(
        "overloaded",
        `${revocationsMax} tokens are revoked already, as many as can be: rotate the signing key, which ` + "voids all",
        { retryAfterSecs: revocationsFullRetrySecs },
      );
    }
    const expiresAtSecs =
      Math.ceil(world.nowMs() / 1_000) + limits.tokenSecsMax + Math.ceil(limits.tokenLeewayMs / 1_000);
    const isKnown = this.#known.get(jti)?.some((known) => isSame(known, subject)) ?? false;
    if (!isKnown)
      await surePut(store, revocationKey({ expiresAtSecs, jti, subject }), encodeUtf8(jti), { kind: "absent" });
    this.#known = new Map([...this.#known, [jti, [...(this.#known.get(jti) ?? []), subject]]]);
  }

  /** Whether what is known is young enough to judge by at once; asks for newer in time. */
  get isFresh(): boolean {
    const ageMs = this.#options.world.monotonicMs() - this.#readAtMs;
    if (ageMs >= revocationsReadMs) void this.#read();
    return ageMs < revocationsStaleMs;
  }

  /** Whether the token was revoked, as far as this node knows. */
  has({ jti, database, namespace }: TokenIdentity): boolean {
    const subjects = jti === undefined ? undefined : this.#known.get(jti);
    if (!subjects) return false;
    return subjects.some(({ kind, name }) =>
      kind === "db"
        ? database?.name === name
        : namespace === name || (database !== undefined && namespaceCovers(name, database.name)),
    );
  }

  /** Learns what was revoked elsewhere, unless that takes too long. */
  async refresh(): Promise<void> {
    try {
      await within(this.#options.world, revocationsPatienceMs, () => this.#read());
    } catch (error) {
      if (!(error instanceof TimeUp)) throw error;
    }
  }

  #read(): Promise<void> {
    this.#reading ??= this.#list()
      .then(() => (this.#fails = false))
      .catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        if (!this.#fails)
          this.#options.log.warn("revoked tokens could not be read: what is known of them holds", {
            reason: error.kind,
          });
        this.#fails = true;
      })
      .then(() => void (this.#readAtMs = this.#options.world.monotonicMs()))
      .finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #list(): Promise<void> {
    const { store, world } = this.#options;
    const before = this.#known;
    const found = new Map<string, RevocationSubject[]>();
    for (let after: string | undefined = revocationsAfter(Math.floor(world.time.sureMs() / 1_000)); ;) {
      const page = await store.list(revocationPrefix, { after, limit: limits.storeListMax });
      for (const { key } of page.objects) {
        const known = parseRevocationKey(key);
        if (known) found.set(known.jti, [...(found.get(known.jti) ?? []), known.subject]);
      }
      if (page.next === undefined || found.size >= revocationsMax) break;
      after = page.next;
    }
    // What was revoked here during the listing may be missing in it.
    for (const [jti, subjects] of this.#known) if (!before.has(jti) && !found.has(jti)) found.set(jti, [...subjects]);
    this.#known = found;
    await this.#removeOver();
  }

  /** Removes a few of those that no token can be of any more. */
  async #removeOver(): Promise<void> {
    const { store, world } = this.#options;
    const end = revocationsAfter(Math.floor(world.time.sureMs() / 1_000));
    const { objects } = await store.list(revocationPrefix, { limit: revocationsRemovedMax });
    for (const { key } of objects.filter((object) => object.key < end && parseRevocationKey(object.key) !== undefined))
      await store.delete(key);
  }
}

function isSame(a: RevocationSubject, b: RevocationSubject): boolean {
  return a.kind === b.kind && a.name === b.name;
}
