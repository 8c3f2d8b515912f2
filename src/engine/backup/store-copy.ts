/**
 * Everything of a fleet from one store into another while nodes write to the first: backup and restore share it.
 *
 * The order is what makes it consistent. Erasures come before databases, so that none is called completed whose data a
 * manifest may still hold. Each name's claim comes after its database, so that no name leads to nothing. What the first
 * store does not have is removed from the other. Always true: nothing in the first store changes; a second run goes on
 * where the first one ended. Must not know: what a backup says of itself, command lines.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { isUuid } from "../../format/core/binary.ts";
import { decodeCoupon } from "../../format/erasure/erasure-coupon.ts";
import { decodeNameClaim, type NameClaim } from "../../format/records/name-claim.ts";
import { auditPrefix } from "../../format/audit/audit-keys.ts";
import { duePrefix } from "../../format/keys/expiry-keys.ts";
import { copyPrefix, nodesPrefix } from "../../format/keys/node-keys.ts";
import {
  backupManifestKey,
  parseNameClaimKey,
  deletionCountPrefix,
  databasePrefix,
  databasesPrefix,
  erasingPrefix,
  erasureCouponPrefix,
  erasureMarkerKey,
  nameClaimKey,
  nameClaimPrefix,
  parseErasureKey,
  policyPrefix,
  publicKeyPrefix,
  purgeKey,
  purgePrefix,
  signingKeyKey,
  storeFormatKey,
} from "../../format/keys/object-keys.ts";
import { revocationPrefix } from "../../format/keys/revocation-keys.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { Compression } from "../../format/core/compression.ts";
import { foldersUnder, listed } from "../../store/port/listing.ts";
import { paired, putSame, type Pairing } from "../../store/mirror.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { copyDatabase, type DatabaseOutcome } from "./database-copy.ts";
import { lookAt } from "../rescue/inventory.ts";

/** Objects that are copied at once; each may be a full pack. */
const backupCopiesAtOnceMax = 4;
/** Databases that are copied at once; their objects share the places above. */
const backupDatabasesAtOnceMax = 8;

export interface StoreCopyParts {
  readonly from: ObjectStore;
  readonly to: ObjectStore;
  readonly press: Compression;
  /** What the other store is given for a manifest. */
  readonly manifestFor: (manifest: Manifest, bytes: Uint8Array) => Uint8Array;
  readonly withSigningKey: boolean;
  /** Something the person who waits should know; never content. */
  readonly notice: (message: string) => void;
}

/** What was copied. */
export interface StoreCopyCounts {
  databases: number;
  branches: number;
  /** Immutable objects that branches refer to. */
  objects: number;
  bytes: number;
  /** Of these, what was not there before and was read back. */
  copied: number;
  copiedBytes: number;
  /** Databases without a name. */
  unclaimed: number;
  /** Objects with names that no build up to this one gives, which were left out. */
  foreign: number;
}

/**
 * A database that does not fit together, or its claim, and was left out; what the other store had of it before stays.
 */
export interface LeftOut {
  /** Undefined when only its name is known. */
  readonly uuid: string | undefined;
  readonly name: string | undefined;
  readonly why: string;
}

/** Objects that never change, or only by growing longer: equal lengths are equal objects. */
const grownPrefixes = [
  auditPrefix,
  publicKeyPrefix,
  copyPrefix,
  "orders/",
  "forgotten/",
  nodesPrefix,
  revocationPrefix,
  duePrefix,
  purgePrefix,
];
/** Where every object is compared byte by byte. */
const comparedPrefixes = [policyPrefix, deletionCountPrefix];

export class StoreCopy {
  readonly #parts: StoreCopyParts;
  readonly #permits = new Semaphore(backupCopiesAtOnceMax);
  readonly counts: StoreCopyCounts = {
    databases: 0,
    branches: 0,
    objects: 0,
    bytes: 0,
    copied: 0,
    copiedBytes: 0,
    unclaimed: 0,
    foreign: 0,
  };
  readonly leftOut: LeftOut[] = [];
  /** Databases that the other store has now, each with the ids of its branches that have a manifest. */
  readonly present = new Map<string, readonly string[]>();
  /** What is there already, from this run or one before, and stays. */
  readonly #kept = new Set<string>();

  constructor(parts: StoreCopyParts) {
    this.#parts = parts;
  }

  /** Copies the databases of these names, or the whole fleet. Throws StoreError when a store does not answer. */
  async run(names: readonly string[] | undefined): Promise<void> {
    if (names === undefined) return this.#runAll();
    await this.#format();
    for (const name of names) {
      const claim = await this.#readClaim(nameClaimKey(name));
      if (!claim || claim.value.deletedAtMs !== undefined)
        throw new StoreError("misconfigured", `there is no database ${name}`);
      await this.#erasures(erasureCouponPrefix(claim.value.uuid));
      await this.#named(name);
    }
    await this.#copyErasureMarkers();
    await this.#keys();
  }

  async #runAll(): Promise<void> {
    await this.#format();
    await this.#erasures("erasures/");
    await this.#copyErasureMarkers();
    await atOnce(paired(this.#parts.from, this.#parts.to, nameClaimPrefix), backupDatabasesAtOnceMax, (pair) =>
      this.#name(pair),
    );
    await this.#unnamed();
    for (const prefix of grownPrefixes.filter((one) => one !== publicKeyPrefix)) await this.#global(prefix, true);
    for (const prefix of comparedPrefixes) await this.#global(prefix, false);
    await this.#keys();
    await this.#prune();
  }

  /** What the store says of its layout; one of the first layout may say nothing. */
  async #format(): Promise<void> {
    const stored = await this.#parts.from.get(storeFormatKey);
    if (stored) await putSame(this.#parts.to, storeFormatKey, stored.bytes);
  }

  async #name({ key, from }: Pairing): Promise<void> {
    const name = parseNameClaimKey(key);
    // A claim is never removed: one that only the other store has belongs to another fleet, or the source was put back.
    if (from === undefined) return this.#parts.to.delete(key);
    if (name === undefined) return void this.counts.foreign++;
    await this.#named(name);
  }

  /** A name and its database. A database that is deleted meanwhile has another claim by then. */
  async #named(name: string): Promise<void> {
    const key = nameClaimKey(name);
    let before: Uint8Array | undefined;
    for (let round = 0; round < limits.backupRoundsMax; round++) {
      const claim = await this.#readClaim(key);
      if (!claim) return;
      const { uuid, deletedAtMs } = claim.value;
      if (deletedAtMs !== undefined) return void (await putSame(this.#parts.to, key, claim.bytes));
      const outcome = await this.#database(uuid, name);
      const isUnchanged = before !== undefined && Buffer.compare(before, claim.bytes) === 0;
      // A deletion that has begun has changed the claim, or never will.
      if (outcome.kind !== "deleted" || isUnchanged) return void (await putSame(this.#parts.to, key, claim.bytes));
      before = claim.bytes;
    }
  }

  async #readClaim(key: string): Promise<{ readonly value: NameClaim; readonly bytes: Uint8Array } | undefined> {
    const looked = await lookAt(this.#parts.from, key, decodeNameClaim);
    if (looked.kind === "sound") return looked;
    // Its database is copied as one without a name, and the claim that the other store has stays.
    if (looked.kind === "unreadable")
      this.leftOut.push({ uuid: undefined, name: parseNameClaimKey(key), why: looked.why });
    return undefined;
  }

  async #database(uuid: string, name: string | undefined): Promise<DatabaseOutcome> {
    const { counts } = this;
    const outcome = await copyDatabase({ ...this.#parts, permits: this.#permits }, uuid);
    if (outcome.kind === "damaged") {
      this.leftOut.push({ uuid, name, why: outcome.why });
      this.#kept.add(uuid);
    }
    if (outcome.kind !== "copied") return outcome;
    this.present.set(uuid, outcome.branchIds);
    counts.databases++;
    counts.branches += outcome.branchIds.length;
    counts.objects += outcome.objects;
    counts.bytes += outcome.bytes;
    counts.copied += outcome.copied;
    counts.copiedBytes += outcome.copiedBytes;
    if (counts.databases % 100 === 0) this.#parts.notice(`${counts.databases} databases, ${counts.bytes} bytes`);
    return outcome;
  }

  /** Databases to which no name leads: their claim was lost, or they were made since the names were listed. */
  async #unnamed(): Promise<void> {
    const { from } = this.#parts;
    for await (const { name: uuid, isFolder } of foldersUnder(from, databasesPrefix)) {
      if (!isFolder || !isUuid(uuid)) this.counts.foreign++;
      else if (!this.present.has(uuid) && !this.#kept.has(uuid) && !(await from.get(purgeKey(uuid)))) {
        if ((await this.#database(uuid, undefined)).kind === "copied") this.counts.unclaimed++;
      }
    }
  }

  /** The coupons of erasures. */
  async #erasures(prefix: string): Promise<void> {
    const { from, to } = this.#parts;
    for await (const pair of paired(from, to, prefix)) await this.#object(pair, false);
  }

  /**
   * A marker for each coupon in the other store that is not completed, and for no other: without it no node carries the
   * erasure on.
   */
  async #copyErasureMarkers(): Promise<void> {
    const { to } = this.#parts;
    const open = new Set<string>();
    for await (const { key } of listed(to, "erasures/")) {
      const named = parseErasureKey(key);
      const stored = named && (await to.get(key));
      if (!named || !stored || isCompleted(stored.bytes)) continue;
      open.add(erasureMarkerKey(named.uuid, named.id));
      await putSame(to, erasureMarkerKey(named.uuid, named.id), encodeUtf8(named.id));
    }
    for await (const { key } of listed(to, erasingPrefix)) if (!open.has(key)) await to.delete(key);
  }

  async #keys(): Promise<void> {
    const { from, to, withSigningKey } = this.#parts;
    await this.#global(publicKeyPrefix, true);
    const stored = withSigningKey ? await from.get(signingKeyKey) : undefined;
    if (stored) await putSame(to, signingKeyKey, stored.bytes);
    else if (await to.get(signingKeyKey)) await to.delete(signingKeyKey);
  }

  async #global(prefix: string, isGrown: boolean): Promise<void> {
    for await (const pair of paired(this.#parts.from, this.#parts.to, prefix)) await this.#object(pair, isGrown);
  }

  async #object({ key, from: theirs, to: mine }: Pairing, isGrown: boolean): Promise<void> {
    const { from, to } = this.#parts;
    if (theirs === undefined) return to.delete(key);
    if (isGrown && theirs.bytes === mine?.bytes) return;
    const stored = await from.get(key);
    // Gone since it was listed: the next run removes it.
    if (stored) await putSame(to, key, stored.bytes);
  }

  /** Databases that the first store does not have any more: what was erased with them must not stay. */
  async #prune(): Promise<void> {
    const { to } = this.#parts;
    for await (const { name: uuid, isFolder } of foldersUnder(to, databasesPrefix)) {
      if (!isFolder || this.present.has(uuid) || this.#kept.has(uuid)) continue;
      for await (const { key } of listed(to, databasePrefix(uuid))) await to.delete(key);
    }
  }
}

/** One that cannot be read is not taken for completed. */
function isCompleted(bytes: Uint8Array): boolean {
  try {
    return decodeCoupon(bytes).status === "completed";
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return false;
  }
}

/**
 * Runs the act for all items, a bounded number at once. The first failure is thrown once all that was begun has ended.
 */
async function atOnce<Item>(
  items: AsyncIterable<Item>,
  count: number,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  for await (const item of items) {
    if (failures.length > 0) break;
    const one = act(item)
      .catch((error: unknown) => void failures.push(error))
      .finally(() => running.delete(one));
    running.add(one);
    if (running.size >= count) await Promise.race(running);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
}

/** Whether the store holds nothing but what it says of itself. */
export async function isEmptyStore(store: ObjectStore): Promise<boolean> {
  const ofItself = [backupManifestKey, storeFormatKey];
  const { objects } = await store.list("", { limit: ofItself.length + 1 });
  return objects.every(({ key }) => ofItself.includes(key));
}
