/**
 * Which databases exist: the claims of names in object storage.
 *
 * Always true: object storage decides; what is held here is a cache of claims that can only be out of date by
 * `claimCacheMs`, or for as long as object storage does not answer, and never for a decision that a conditional put
 * makes. Must not know: engines, tokens, wires.
 */
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8, toHex } from "../../base/bytes.ts";
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import { decodeNameClaim, encodeNameClaim, type NameClaim } from "../../format/records/name-claim.ts";
import { isNamePart, parseProfileDatabaseName } from "../../format/core/names.ts";
import {
  parseNameClaimKey,
  nameClaimKey,
  nameClaimPrefix,
  purgeKey,
  purgePrefix,
} from "../../format/keys/object-keys.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import type { ObjectStore, PutCondition } from "../../store/port/object-store.ts";
import { putImmutable, surePut } from "../../store/port/sure-put.ts";
import type { NameStanding } from "../access/access-rules.ts";
import { DeletionCounts } from "./deletion-counts.ts";
import { wasDeleted } from "./deletions.ts";
import { ownedPage, type OwnedShards } from "./owned-pages.ts";

/** Name claims a node remembers for a few seconds; the least recently used go first. */
const claimsCachedMax = 100_000;

/** A database that exists. */
export interface DatabaseRecord {
  readonly name: string;
  readonly uuid: string;
  readonly createdAtMs: number;
}

interface Cached {
  readonly claim: NameClaim | undefined;
  readonly readAtMs: number;
}

/** Another node may delete or create a name; within this time we notice. */
const claimCacheMs = 5_000;
/** The caller of a known database waits this long for the claim to be read again. */
const refreshPatienceMs = 250;
const listPageSize = 1_000;
/** A lost race is settled by reading again; more rounds than this means the store does not keep its promise. */
const racesMax = 16;

/** Databases that were made before anybody asked for one; each is some node's own until it has a name. */
export interface SpareDatabases {
  /** The uuid of one, which is this name's or nobody's from now on; undefined when there is none. Never rejects. */
  take(name: string): Promise<string | undefined>;
  /** What became of the name's claim: `unknown` may land yet. */
  settle(uuid: string, outcome: "named" | "unnamed" | "unknown"): void;
}

/** A version-4 UUID from the world's randomness. */
export function newUuid(world: World): string {
  const bytes = world.randomBytes(16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = toHex(bytes);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

function toRecord(name: string, claim: NameClaim | undefined): DatabaseRecord | undefined {
  if (claim === undefined || claim.deletedAtMs !== undefined) return undefined;
  return { name, uuid: claim.uuid, createdAtMs: claim.createdAtMs };
}

export class Databases {
  readonly #store: ObjectStore;
  readonly #world: World;
  readonly #deletions: DeletionCounts;
  readonly #spares: SpareDatabases | undefined;
  /** Names that are being claimed by whoever finds them free, each for all its callers. */
  readonly #claims = new Map<string, Promise<DatabaseRecord>>();
  /** In the order in which they were read: each is read again every few seconds while it is in use. */
  readonly #cache = new LruMap<string, Cached>(claimsCachedMax);
  /** Claims that are being read again, by name, each with what its callers get. */
  readonly #refreshes = new Map<string, Promise<NameClaim | undefined>>();

  /** A name that is claimed gets a spare database where there is one. */
  constructor(store: ObjectStore, world: World, spares?: SpareDatabases) {
    this.#store = store;
    this.#world = world;
    this.#spares = spares;
    this.#deletions = new DeletionCounts(store, world);
  }

  /** Claims the name. Throws already_exists when a database holds it. */
  async create(name: string): Promise<DatabaseRecord> {
    const { record, created } = await this.#claim(name);
    if (!created) throw new ServiceError("already_exists", `database ${name} already exists`);
    return record;
  }

  /** The database, claimed now when the name is free. Racing callers get the same one. */
  async ensure(name: string): Promise<DatabaseRecord> {
    return (await this.find(name)) ?? this.#claimOnce(name);
  }

  /** The callers of one name claim it together, and take one spare database. */
  #claimOnce(name: string): Promise<DatabaseRecord> {
    const under = this.#claims.get(name);
    if (under) return under;
    const claim = this.#claim(name)
      .then(({ record }) => record)
      .finally(() => this.#claims.delete(name));
    this.#claims.set(name, claim);
    return claim;
  }

  /** The database, or undefined. An absent one is never remembered, so that a create elsewhere is seen at once. */
  async find(name: string): Promise<DatabaseRecord | undefined> {
    return toRecord(name, await this.#getClaim(name));
  }

  /**
   * Who holds the name and when a holder last lost it, as far as this node knows: within `claimCacheMs`, or since
   * object storage stopped answering. Throws StoreError when nothing is known and nothing can be learnt.
   */
  async standing(name: string): Promise<NameStanding> {
    const claim = await this.#getClaim(name);
    if (claim === undefined) return { uuid: undefined, deletedAtMs: undefined };
    const { deletion } = claim;
    if (claim.deletedAtMs !== undefined) return { uuid: undefined, deletedAtMs: claim.deletedAtMs, deletion };
    return { uuid: claim.uuid, deletedAtMs: claim.freedAtMs, deletion };
  }

  /**
   * The number of the newest deletion in a namespace, for a token of it; undefined when object storage does not tell:
   * then times judge.
   */
  async readDeletionNumber(namespace: string): Promise<number | undefined> {
    try {
      return await this.#deletions.of(namespace);
    } catch (error) {
      if (error instanceof StoreError) return undefined;
      throw error;
    }
  }

  /**
   * The uuid of the database that has the name, or of the deleted one that had it last; undefined when none ever had
   * it.
   */
  async lastHolder(name: string): Promise<string | undefined> {
    return (await this.#getClaim(name))?.uuid;
  }

  /** Whether the database has the name now, whatever this node remembers. For when it was found to be gone. */
  async isHeldBy(name: string, uuid: string): Promise<boolean> {
    return toRecord(name, (await this.#read(name)).claim)?.uuid === uuid;
  }

  /** The database; throws database_not_found. */
  async require(name: string): Promise<DatabaseRecord> {
    const found = await this.find(name);
    if (found === undefined) throw new ServiceError("database_not_found", `database ${name} does not exist`);
    return found;
  }

  /**
   * Uuids of deleted databases whose objects may not all be purged yet, of some shards only when they are given; no
   * marker is read of those that are not `wanted`.
   */
  async deletedUuids(shards?: OwnedShards, wanted: (uuid: string) => boolean = () => true): Promise<string[]> {
    const deleted: string[] = [];
    for (let after: string | undefined; ;) {
      const page = shards
        ? await ownedPage(this.#store, purgePrefix, purgePrefix.length, shards, after)
        : await this.#store.list(purgePrefix, { after, limit: listPageSize });
      for (const { key } of page.objects) {
        const uuid = key.slice(purgePrefix.length);
        if (!wanted(uuid)) continue;
        // As object storage says now: a claim that is remembered may be of the name's last holder.
        if (await wasDeleted(this.#store, uuid)) deleted.push(uuid);
      }
      if (page.next === undefined) return deleted;
      after = page.next;
    }
  }

  /** Turns the claim into a tombstone and gives what it held. Throws database_not_found. */
  async remove(name: string): Promise<DatabaseRecord> {
    let asked: { readonly record: DatabaseRecord; readonly tombstone: NameClaim } | undefined;
    for (let race = 0; race < racesMax; race++) {
      const { claim, version } = await this.#read(name);
      const record = toRecord(name, claim);
      // The present holder of the name has taken it since, and is not the one to delete. What our own tombstone freed,
      // if its answer was lost, we have removed.
      if (
        asked &&
        record &&
        record.uuid !== asked.record.uuid &&
        claim?.freedAtMs === asked.tombstone.deletedAtMs &&
        claim?.deletion === asked.tombstone.deletion
      )
        return asked.record;
      if (asked && record?.uuid !== asked.record.uuid)
        throw new ServiceError("database_not_found", `database ${name} was deleted by somebody else`);
      if (record === undefined || claim === undefined || version === undefined) {
        throw new ServiceError("database_not_found", `database ${name} does not exist`);
      }
      // Whatever happens after the tombstone, this tells that there are objects to purge.
      await putImmutable(this.#store, purgeKey(record.uuid), encodeUtf8(name));
      const namespace = parseProfileDatabaseName(name)?.namespace;
      const deletion = namespace === undefined ? undefined : await this.#deletions.next(namespace);
      const tombstone = { ...claim, deletedAtMs: Math.max(this.#world.nowMs(), claim.createdAtMs), deletion };
      asked = { record, tombstone };
      if (await this.#put(name, tombstone, { kind: "version", version })) return record;
    }
    throw new StoreError("unavailable", "a database name changed too often to be deleted");
  }

  /** Every database, by name. */
  async list(): Promise<DatabaseRecord[]> {
    return this.#listUnder(nameClaimPrefix);
  }

  /** The profiles of a namespace, by name. */
  async listProfiles(namespace: string): Promise<{ readonly profile: string; readonly createdAtMs: number }[]> {
    assert(isNamePart(namespace), "a namespace was checked before it is listed");
    const databases = await this.#listUnder(`${nameClaimPrefix}${namespace}--`);
    return databases.flatMap(({ name, createdAtMs }) => {
      const parts = parseProfileDatabaseName(name);
      return parts?.namespace === namespace ? [{ profile: parts.profile, createdAtMs }] : [];
    });
  }

  async #getClaim(name: string): Promise<NameClaim | undefined> {
    const cached = this.#cache.peek(name);
    if (!cached || toRecord(name, cached.claim) === undefined) return (await this.#read(name)).claim;
    if (this.#world.monotonicMs() - cached.readAtMs < claimCacheMs) return cached.claim;
    return this.#refreshes.get(name) ?? this.#refresh(name, cached.claim);
  }

  /**
   * Reads a claim again, once for all callers. While the store does not answer, what is known stays true: databases go
   * on in an outage, and a deletion elsewhere is noticed when it ends.
   */
  #refresh(name: string, known: NameClaim | undefined): Promise<NameClaim | undefined> {
    const reading = this.#read(name)
      .then(({ claim }) => claim)
      .catch((error: unknown) => {
        if (error instanceof StoreError && !isUnreadable(error)) return known;
        throw error;
      })
      .finally(() => this.#refreshes.delete(name));
    const outcome = Promise.race([reading, sleep(this.#world, refreshPatienceMs).then(() => known)]);
    this.#refreshes.set(name, outcome);
    return outcome;
  }

  async #listUnder(prefix: string): Promise<DatabaseRecord[]> {
    const records: DatabaseRecord[] = [];
    for (let after: string | undefined; ;) {
      const page = await this.#store.list(prefix, { after, limit: listPageSize });
      const names = page.objects.flatMap(({ key }) => parseNameClaimKey(key) ?? []);
      const found = await Promise.all(names.map(async (name) => toRecord(name, (await this.#read(name)).claim)));
      records.push(...found.filter((record) => record !== undefined));
      if (page.next === undefined || records.length >= limits.databasesListMax) return records;
      after = page.next;
    }
  }

  async #claim(name: string): Promise<{ readonly record: DatabaseRecord; readonly created: boolean }> {
    let spare: string | undefined;
    let outcome: "named" | "unnamed" | "unknown" = "unnamed";
    try {
      for (let race = 0; race < racesMax; race++) {
        const { claim, version } = await this.#read(name);
        const existing = toRecord(name, claim);
        if (existing !== undefined) return { record: existing, created: false };
        spare ??= await this.#spares?.take(name);
        // A new life starts after the tombstone, so that tokens of the old one stay older than it.
        const createdAtMs = Math.max(this.#world.nowMs(), (claim?.deletedAtMs ?? 0) + 1);
        const fresh: NameClaim = {
          uuid: spare ?? newUuid(this.#world),
          createdAtMs,
          deletedAtMs: undefined,
          freedAtMs: claim?.deletedAtMs,
          deletion: claim?.deletion,
        };
        const condition: PutCondition = version === undefined ? { kind: "absent" } : { kind: "version", version };
        outcome = "unknown";
        const hasLanded = await this.#put(name, fresh, condition);
        outcome = hasLanded ? "named" : "unnamed";
        if (!hasLanded) continue;
        const record = toRecord(name, fresh);
        assert(record !== undefined, "a fresh claim is a live one");
        return { record, created: true };
      }
    } finally {
      if (spare !== undefined) this.#spares?.settle(spare, outcome);
    }
    throw new StoreError("unavailable", "a database name changed too often to be claimed");
  }

  async #read(name: string): Promise<{ readonly claim: NameClaim | undefined; readonly version: string | undefined }> {
    const asOfMs = this.#world.monotonicMs();
    const stored = await this.#store.get(nameClaimKey(name));
    const claim = stored && decodeNameClaim(stored.bytes);
    const right = claim && this.#setRight(claim);
    if (right !== claim) {
      await this.#put(name, right!, { kind: "version", version: stored!.version });
      return this.#read(name);
    }
    this.#remember(name, claim, asOfMs);
    return { claim, version: stored?.version };
  }

  /**
   * The claim with every time of a wrong clock replaced by now; the same one when there is none. A deletion in the
   * future would keep tokens that are minted after it from the name until then. One that lies less far ahead than a
   * token lives stays: it keeps them away no longer than it had to, and no token comes back by the mistake of a clock.
   */
  #setRight(claim: NameClaim): NameClaim {
    const world = this.#world;
    const isRight = (atMs: number | undefined): boolean =>
      atMs === undefined || atMs <= world.nowMs() + limits.tokenSecsMax * 1_000 || world.time.believable(atMs) === atMs;
    const { createdAtMs, deletedAtMs, freedAtMs } = claim;
    if ([createdAtMs, deletedAtMs, freedAtMs].every(isRight)) return claim;
    const told = <Time extends number | undefined>(atMs: Time): Time | number => (isRight(atMs) ? atMs : world.nowMs());
    return { ...claim, createdAtMs: told(createdAtMs), deletedAtMs: told(deletedAtMs), freedAtMs: told(freedAtMs) };
  }

  /** Whether our put is what is there now: its uuid and times make the bytes ours. */
  async #put(name: string, claim: NameClaim, condition: PutCondition): Promise<boolean> {
    const outcome = await surePut(this.#store, nameClaimKey(name), encodeNameClaim(claim), condition);
    if (outcome.kind === "landed") this.#remember(name, claim, this.#world.monotonicMs());
    return outcome.kind === "landed";
  }

  /** `asOfMs`: when the claim was certainly true. What was learnt later than that is not forgotten for it. */
  #remember(name: string, claim: NameClaim | undefined, asOfMs: number): void {
    if ((this.#cache.peek(name)?.readAtMs ?? -Infinity) > asOfMs) return;
    if (claim === undefined) this.#cache.delete(name);
    else this.#cache.set(name, { claim, readAtMs: asOfMs });
  }
}
