/**
 * The coupons of erasures in object storage, and the markers of those that are not complete.
 *
 * | key                    | content                                                                        |
 * |------------------------|--------------------------------------------------------------------------------|
 * | `erasures/<uuid>/<id>` | the coupon; stays for good, as the receipt in it does                          |
 * | `erasing/<uuid>/<id>`  | the marker, which holds its id: a start finds its work by listing these        |
 *
 * Always true:
 * - a coupon that is not complete has a marker, as the marker is put before it and removed after its completion
 * - a change is a compare-and-set, so that none is lost
 * - a completed coupon never changes
 *
 * What a crash leaves behind (a marker without a coupon, or of a completed one) is removed where it is seen.
 * Must not know: how data is erased, when a coupon is due, who may ask for one.
 */
import { assert } from "../../base/faults/assert.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { decodeCoupon, encodeCoupon, type ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import {
  erasingPrefix,
  erasureCouponKey,
  erasureCouponPrefix,
  erasureMarkerKey,
  erasureMarkerPrefix,
  parseErasureKey,
} from "../../format/keys/object-keys.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import type { ListedObject, ListPage, ObjectStore } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { ownedPage, type OwnedShards } from "./owned-pages.ts";

/** Coupons in one part of a list, all together, unless a single one has more. */
export const erasuresListBytesMax = 32 * 1024 * 1024;
/** A marker without a coupon has no owner after this: its coupon is put within half of it, or not at all. */
export const erasureMarkerMs = 600_000;

export interface ErasureCouponsOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly log: Log;
}

/** Which erasure of which database. */
export type ErasureName = Pick<ErasureCoupon, "uuid" | "id">;

/** Whose unfinished coupons: those of one database, or of some shards; of all when neither is given. */
export interface UnfinishedWhere {
  readonly uuid?: string | undefined;
  readonly shards?: OwnedShards | undefined;
}

/** A part of a database's coupons, newest first. */
export interface CouponPage {
  readonly coupons: readonly ErasureCoupon[];
  /** Give this back as `before` to go on; undefined at the end. */
  readonly next: string | undefined;
}

/** A lost race is settled by reading again; more rounds than this means the store does not keep its promise. */
const racesMax = 64;
const nonceBytes = 16;

export class ErasureCoupons {
  readonly #options: ErasureCouponsOptions;

  constructor(options: ErasureCouponsOptions) {
    this.#options = options;
  }

  /**
   * Puts the marker and then the coupon, which has just begun. Throws already_exists when there is a coupon of this id,
   * StoreError when the coupon is not there or in doubt: what may be there is then found by its marker.
   */
  async begin(coupon: ErasureCoupon): Promise<void> {
    const { store, world } = this.#options;
    const { id, uuid, status } = coupon;
    assert(status === "begun", "an erasure begins as begun");
    const bytes = encodeCoupon(coupon, world.randomBytes(nonceBytes));
    const startedMs = world.monotonicMs();
    await surePut(store, erasureMarkerKey(uuid, id), encodeUtf8(id), { kind: "absent" });
    const outcome = await surePut(store, erasureCouponKey(uuid, id), bytes, { kind: "absent" });
    if (outcome.kind === "lost") throw new ServiceError("already_exists", "there is an erasure of this id");
    // The marker may have been removed as one without a coupon: then no node would carry the erasure out.
    if (world.monotonicMs() - startedMs < erasureMarkerMs / 2) return;
    await this.discard(uuid, id);
    throw new StoreError("unavailable", "object storage took too long to note an erasure");
  }

  /** The coupon, or undefined when there is none. Throws StoreError. */
  async get(uuid: string, id: string): Promise<ErasureCoupon | undefined> {
    return (await this.#read(uuid, id))?.coupon;
  }

  /**
   * Replaces the coupon by what `act` makes of it, and gives the new one. `act` gives undefined to leave it as it is,
   * and is asked again when another change came between; of a completed coupon it is not asked. With completion go
   * traces, blockers, reasons and awaited copies, and then the marker. Throws StoreError, also when there is no coupon.
   */
  async change(
    uuid: string,
    id: string,
    act: (coupon: ErasureCoupon) => ErasureCoupon | undefined,
  ): Promise<ErasureCoupon> {
    const { store, world } = this.#options;
    for (let race = 0; race < racesMax; race++) {
      const read = await this.#read(uuid, id);
      if (!read) throw new StoreError("corrupt", "the coupon of an erasure is missing");
      const wanted = read.coupon.status === "completed" ? undefined : act(read.coupon);
      if (!wanted) return this.#removeLeftovers(read.coupon);
      const next =
        wanted.status === "completed"
          ? { ...wanted, traces: undefined, blockedBy: undefined, waitingFor: undefined, awaiting: undefined }
          : wanted;
      assert(next.id === id && next.uuid === uuid, "a coupon stays the one of its erasure");
      const bytes = encodeCoupon(next, world.randomBytes(nonceBytes));
      const outcome = await surePut(store, erasureCouponKey(uuid, id), bytes, {
        kind: "version",
        version: read.version,
      });
      if (outcome.kind === "landed") return this.#removeLeftovers(next);
    }
    throw new StoreError("unavailable", "a coupon changed too often to be replaced");
  }

  /**
   * A database's coupons, newest first, those that have just begun too; only older ones than the coupon `before` when
   * it is given. One that cannot be read is left out and logged. Throws StoreError.
   */
  async list(uuid: string, before?: string): Promise<CouponPage> {
    const { found, hasMore } = await this.#newest(erasureCouponPrefix(uuid), before);
    let bytes = 0;
    const within = found.findIndex((object) => (bytes += object.bytes) > erasuresListBytesMax);
    const page = found
      .slice(0, within < 0 ? found.length : Math.max(within, 1))
      .flatMap(({ key }) => parseErasureKey(key) ?? []);
    const coupons: ErasureCoupon[] = [];
    for (let at = 0; at < page.length; at += limits.erasureReadsAtOnceMax) {
      const some = page.slice(at, at + limits.erasureReadsAtOnceMax);
      for (const coupon of await Promise.all(some.map(({ id }) => this.#readable(uuid, id))))
        if (typeof coupon === "object") coupons.push(coupon);
    }
    return { coupons, next: hasMore || page.length < found.length ? page.at(-1)?.id : undefined };
  }

  /**
   * A database's coupons, oldest first, those that have just begun too, read as they are asked for; those that are not
   * `wanted` are not read. One that cannot be read is left out and logged. Throws StoreError.
   */
  async *each(uuid: string, wanted: (erasure: ErasureName) => boolean): AsyncGenerator<ErasureCoupon, void> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.store.list(erasureCouponPrefix(uuid), { after, limit: limits.storeListMax });
      const names = page.objects.flatMap(({ key }) => parseErasureKey(key) ?? []).filter(wanted);
      for (let at = 0; at < names.length; at += limits.erasureReadsAtOnceMax) {
        const some = names.slice(at, at + limits.erasureReadsAtOnceMax);
        for (const coupon of await Promise.all(some.map(({ id }) => this.#readable(uuid, id))))
          if (typeof coupon === "object") yield coupon;
      }
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /**
   * Coupons that have begun, are pending or blocked, of one database, of some shards or of all, in the order of their
   * keys and read as they are asked for; those that are not `wanted` are not read. One that cannot be read is left out
   * and logged. Throws StoreError.
   */
  async *unfinished(
    where: UnfinishedWhere = {},
    wanted: (erasure: ErasureName) => boolean = () => true,
  ): AsyncGenerator<ErasureCoupon, void> {
    for (let after: string | undefined; ;) {
      const page = await this.#markers(where, after);
      const markers = page.objects.filter(({ key }) => {
        const named = parseErasureKey(key);
        return !named || wanted(named);
      });
      for (let at = 0; at < markers.length; at += limits.erasureReadsAtOnceMax) {
        const some = markers.slice(at, at + limits.erasureReadsAtOnceMax);
        for (const coupon of await Promise.all(some.map((marker) => this.#findCoupon(marker))))
          if (coupon) yield coupon;
      }
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  #markers({ uuid, shards }: UnfinishedWhere, after: string | undefined): Promise<ListPage> {
    const { store } = this.#options;
    if (uuid !== undefined) return store.list(erasureMarkerPrefix(uuid), { after, limit: limits.storeListMax });
    if (shards) return ownedPage(store, erasingPrefix, erasingPrefix.length, shards, after);
    return store.list(erasingPrefix, { after, limit: limits.storeListMax });
  }

  /**
   * Removes a coupon that has only begun, and its marker: nothing was erased. Leaves any other as it is. Throws
   * StoreError.
   */
  async discard(uuid: string, id: string): Promise<void> {
    const read = await this.#read(uuid, id);
    if (read && read.coupon.status !== "begun") return;
    const { store } = this.#options;
    await store.delete(erasureCouponKey(uuid, id));
    await store.delete(erasureMarkerKey(uuid, id));
  }

  async #read(
    uuid: string,
    id: string,
  ): Promise<{ readonly coupon: ErasureCoupon; readonly version: string } | undefined> {
    const object = await this.#options.store.get(erasureCouponKey(uuid, id));
    if (!object) return undefined;
    const coupon = decodeCoupon(object.bytes);
    if (coupon.id !== id || coupon.uuid !== uuid)
      throw new StoreError("corrupt", "a coupon lies under the key of another one");
    return { coupon, version: object.version };
  }

  /** As `get`, but one that is rotten hides no other. */
  async #readable(uuid: string, id: string): Promise<ErasureCoupon | "missing" | "rotten"> {
    try {
      return (await this.get(uuid, id)) ?? "missing";
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.#options.log.error("the coupon of an erasure cannot be read: the erasure is not carried on", error, {
        key: erasureCouponKey(uuid, id),
      });
      return "rotten";
    }
  }

  /** The coupon that a marker belongs to, or undefined when there is none any more. */
  async #findCoupon({ key, modifiedAtMs }: ListedObject): Promise<ErasureCoupon | undefined> {
    const named = parseErasureKey(key);
    const coupon = named ? await this.#readable(named.uuid, named.id) : "rotten";
    if (coupon === "rotten") return undefined;
    if (coupon === "missing") {
      // It may be on its way.
      if (this.#options.world.time.sureMs() - modifiedAtMs > erasureMarkerMs) await this.#options.store.delete(key);
      return undefined;
    }
    if (coupon.status !== "completed") return coupon;
    await this.#removeLeftovers(coupon);
    return undefined;
  }

  /**
   * The coupon, without a marker when it is complete. Before that, older versions of the coupon are removed from a
   * store that keeps versions: the key of its traces would tell a guess at the erased data from the truth.
   */
  async #removeLeftovers(coupon: ErasureCoupon): Promise<ErasureCoupon> {
    const { store, log } = this.#options;
    const { uuid, id, status } = coupon;
    if (status !== "completed") return coupon;
    try {
      const { locked } = await store.purgeVersions(erasureCouponKey(uuid, id));
      if (locked > 0)
        log.warn(
          "earlier versions of a completed coupon are locked by the object store: they hold the traces of what " +
            "was erased",
          { key: erasureCouponKey(uuid, id), locked },
        );
      await store.delete(erasureMarkerKey(uuid, id));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      // The coupon is there; the next listing of the unfinished ones tries again.
      log.warn("what is left of a completed erasure's bookkeeping could not be removed yet", {
        key: erasureMarkerKey(uuid, id),
        reason: error.kind,
      });
    }
    return coupon;
  }

  /**
   * The newest coupons' objects, newest first, as many as a list may have. Keys come oldest first, so all are listed.
   */
  async #newest(
    prefix: string,
    before: string | undefined,
  ): Promise<{ readonly found: readonly ListedObject[]; readonly hasMore: boolean }> {
    let newest: readonly ListedObject[] = [];
    let count = 0;
    for (let after: string | undefined; ;) {
      const page = await this.#options.store.list(prefix, { after, limit: limits.storeListMax });
      const older = page.objects.filter(
        ({ key }) => parseErasureKey(key) !== undefined && (before === undefined || key < prefix + before),
      );
      newest = [...newest, ...older].slice(-limits.erasuresListMax);
      count += older.length;
      if (page.next === undefined) return { found: newest.toReversed(), hasMore: count > newest.length };
      after = page.next;
    }
  }
}
