/**
 * The public keys that this fleet has ever signed with, so that old receipts can still be checked.
 *
 * Always true: the key in use comes first and is listed even when object storage does not answer; keys are added and
 * never removed. That a key is listed says who signed, not that tokens signed with it are still taken: only those of
 * the key in use are.
 */
import { calculateJwkThumbprint } from "jose";
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import type { World } from "../../base/world.ts";
import { publicKeyKey, publicKeyPrefix } from "../../format/keys/object-keys.ts";
import { formats } from "../../format/core/versions.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { putUntilKnown } from "../../store/port/sure-put.ts";
import type { PublicKey } from "./signing-key.ts";

/** Keys other than the one in use are looked up at most this often: any client may ask. */
const keySetCacheMs = 60_000;
const keySetKeysMax = 100;

export class KeySet {
  readonly #store: ObjectStore;
  readonly #world: World;
  readonly #current: PublicKey;
  #read: { readonly keys: readonly PublicKey[]; readonly atMs: number } | undefined;
  #reading: Promise<readonly PublicKey[]> | undefined;

  constructor(store: ObjectStore, world: World, current: PublicKey) {
    this.#store = store;
    this.#world = world;
    this.#current = current;
  }

  /** Puts the key in use among those that stay known. */
  async publish(): Promise<void> {
    const { kid, x } = this.#current;
    await putUntilKnown(
      this.#store,
      publicKeyKey(kid),
      encodeUtf8(JSON.stringify({ v: formats.publicKey.writes[0], kty: "OKP", crv: "Ed25519", x })),
      { kind: "absent" },
    );
  }

  /**
   * The key in use and all others that are known. Object storage is asked at most once in a while, however many ask.
   */
  async keys(): Promise<readonly PublicKey[]> {
    if (this.#read && this.#world.monotonicMs() - this.#read.atMs < keySetCacheMs) return this.#read.keys;
    this.#reading ??= this.#list().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #list(): Promise<readonly PublicKey[]> {
    let others: readonly PublicKey[];
    try {
      others = await this.#listStore();
    } catch {
      // A checker that needs an old key asks again; checking a new token must not wait for an outage.
      others = (this.#read?.keys ?? []).slice(1);
    }
    const keys = [this.#current, ...others];
    this.#read = { keys, atMs: this.#world.monotonicMs() };
    return keys;
  }

  async #listStore(): Promise<PublicKey[]> {
    const { objects } = await this.#store.list(publicKeyPrefix, { limit: keySetKeysMax });
    const keys = await Promise.all(objects.map(async ({ key }) => publicKeyIn((await this.#store.get(key))?.bytes)));
    return keys.filter((key) => key !== undefined).filter(({ kid }) => kid !== this.#current.kid);
  }
}

/** The key that an object holds; undefined for a foreign object, which hides no other key. */
async function publicKeyIn(bytes: Uint8Array | undefined): Promise<PublicKey | undefined> {
  try {
    const { v, kty, crv, x } = JSON.parse((bytes && decodeUtf8(bytes)) ?? "") as Readonly<Record<string, unknown>>;
    if (v !== 1 || kty !== "OKP" || crv !== "Ed25519" || typeof x !== "string") return undefined;
    return { kty, crv, x, kid: await calculateJwkThumbprint({ kty, crv, x }), alg: "EdDSA", use: "sig" };
  } catch {
    return undefined;
  }
}
