/**
 * When the manifests that another node writes are looked at, and what a look brings.
 *
 * Owns which databases are followed, and the plan of their looks: soon while a database is read, later and later when
 * it is not or looks fail.
 *
 * Always true:
 * - at most one look of a database is under way, and it costs two requests that say "same"
 * - an older manifest than was seen or served is not believed
 * - a copy older than the newest manifest is exchanged, one exchange at a time
 *
 * Must not know: who reads a copy, how fresh it must be.
 */
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type Cancel, type World } from "../../base/world.ts";
import { wasDeleted } from "../../control/databases/deletions.ts";
import { decodeManifest, type Manifest } from "../../format/history/manifest.ts";
import { manifestKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore, ObjectVersion } from "../../store/port/object-store.ts";
import type { Alarms } from "../api/alarms.ts";
import { isWritten } from "../history/catalogs.ts";
import { needsOperator } from "../api/failures.ts";
import { isNewer, type ManifestPosition } from "../local/seen-manifests.ts";
import type { LeaseState } from "../api/lease-expiry.ts";
import { lostCatalog, lostManifest, wentBack } from "../api/missing-objects.ts";
import type { Target } from "../api/protocol.ts";
import type { Registry } from "../pool/registry.ts";

/**
 * Databases whose manifests a thread looks at by itself; of those beyond, the one that was not read for longest waits
 * for its next read.
 */
const copiesFollowedMax = 10_000;
/** A copy that was not read for so long is not followed any more. */
export const followIdleMs = 60_000;
/** The manifest of a copy that was read within the first is looked at this often; then less and less. */
const followEagerMs = 5_000;
export const followLookMsMin = 250;
/** Between two looks, however many ask for one: what comes meanwhile shares the next. */
const followRestMs = 10;
/** Requests of one thread that only look whether something has changed. */
const looksAtOnceMax = 16;

/** What looks are made with, and who hears of what they meet. */
export interface ManifestWatcherOptions {
  readonly registry: Registry;
  readonly leaseState: LeaseState;
  readonly world: World;
  readonly store: ObjectStore;
  readonly alarms: Alarms;
  /** Something an operator should know; never content. */
  notice(message: string, uuid: string): void;
}

/** What a look has seen of a manifest. */
interface SeenManifest extends Pick<Manifest, "uuid" | "branchId" | "epoch" | "seq" | "txid" | "reservedTo"> {
  readonly version: ObjectVersion;
}

/** A branch that is read here. */
export interface FollowedBranch {
  readonly target: Target;
  readAtMs: number;
  /** When its copy was last known to be at the newest manifest, or on its way there. */
  lookedAtMs: number;
  newest: SeenManifest | undefined;
  /** Ends, and never fails, when the copy has been exchanged. */
  refreshing: Promise<void> | undefined;
  /** Exchanges that have failed since one succeeded, and when the next one may begin. */
  hindered: number;
  retryAtMs: number;
  /** Looks in a row that found an older manifest than was seen before. */
  olderLooks: number;
}

/** A database that is read here and written elsewhere. */
export interface Followed {
  readonly uuid: string;
  readonly branches: Map<string, FollowedBranch>;
  readAtMs: number;
  /** When the catalog was last read. */
  catalogAtMs: number;
  /** When the last look ended, whatever its outcome. */
  triedAtMs: number;
  /** Looks that have failed since one succeeded. */
  failures: number;
  looking: Promise<void> | undefined;
  /** A notification has come since the last look began, which may have missed what the notification is about. */
  hinted: boolean;
  /**
   * Neither the catalog nor the manifests are there any more: the database was deleted, long enough ago to be purged.
   */
  purged: boolean;
  dueMs: number;
  cancel: Cancel;
}

/** Looks after the copies of one engine thread. */
export class ManifestWatcher {
  readonly #options: ManifestWatcherOptions;
  readonly #permits = new Semaphore(looksAtOnceMax);
  readonly #followed = new LruMap<string, Followed>(copiesFollowedMax, (_, followed) => followed.cancel());
  #stopped = false;

  constructor(options: ManifestWatcherOptions) {
    this.#options = options;
  }

  /** The database as followed, from now on if it was not; it was read just now. */
  follow(uuid: string): Followed {
    const nowMs = this.#options.world.monotonicMs();
    let followed = this.#followed.get(uuid);
    if (!followed) {
      followed = {
        uuid,
        branches: new Map(),
        readAtMs: nowMs,
        catalogAtMs: -Infinity,
        triedAtMs: nowMs - followRestMs,
        failures: 0,
        looking: undefined,
        hinted: false,
        purged: false,
        dueMs: Infinity,
        cancel: () => {},
      };
      this.#followed.set(uuid, followed);
    }
    followed.readAtMs = nowMs;
    if (followed.dueMs > nowMs + followLookMsMin) this.#plan(followed);
    return followed;
  }

  /** The branch as read here, just now. */
  branch(followed: Followed, target: Target): FollowedBranch {
    const { branches, readAtMs } = followed;
    let branch = branches.get(target.branch);
    if (!branch) {
      branch = {
        target: { uuid: target.uuid, branch: target.branch },
        readAtMs,
        lookedAtMs: -Infinity,
        newest: undefined,
        refreshing: undefined,
        hindered: 0,
        retryAtMs: -Infinity,
        olderLooks: 0,
      };
      branches.set(target.branch, branch);
    }
    branch.readAtMs = readAtMs;
    return branch;
  }

  /** Every branch that is read here. */
  *branches(): Iterable<FollowedBranch> {
    for (const { branches } of this.#followed.values()) yield* branches.values();
  }

  /** A manifest of the database is said to have moved: looks soon. */
  notify(uuid: string): void {
    const followed = this.#followed.peek(uuid);
    if (!followed || this.#stopped) return;
    followed.hinted = true;
    if (!followed.looking) this.#lookAlone(followed);
  }

  /** Looks at nothing by itself any more. */
  stop(): void {
    this.#stopped = true;
    for (const followed of this.#followed.values()) followed.cancel();
    this.#followed.clear();
  }

  /** Reads the database's catalog anew, unless that was just done. */
  async freshen(followed: Followed): Promise<void> {
    const { registry, world } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs - followed.catalogAtMs < followLookMsMin) return;
    await this.#permits.run(() => registry.catalogs.fresh(followed.uuid));
    followed.catalogAtMs = nowMs;
  }

  /** Plans the next look: soon while the database is read, later and later when it is not or looks fail. */
  #plan(followed: Followed): void {
    const { world } = this.#options;
    followed.cancel();
    if (this.#stopped || this.#followed.peek(followed.uuid) !== followed) return;
    const nowMs = world.monotonicMs();
    const idleMs = nowMs - followed.readAtMs;
    const restMs = idleMs < followEagerMs ? followLookMsMin : idleMs / 2;
    followed.dueMs = followed.hinted
      ? nowMs
      : Math.max(nowMs, followed.triedAtMs + pauseAfter(followed.failures, restMs));
    followed.cancel = world.after(followed.dueMs - nowMs, () => this.#lookDue(followed));
  }

  /** Looks, unless the database is not read any more, or this node writes it by now. */
  #lookDue(followed: Followed): void {
    const { world, leaseState } = this.#options;
    const isIdle = world.monotonicMs() - followed.readAtMs >= followIdleMs;
    if (isIdle || leaseState.getLeaseEpoch(followed.uuid) !== undefined) this.#followed.delete(followed.uuid);
    else this.#lookAlone(followed);
  }

  /** A look that no call waits for. */
  #lookAlone(followed: Followed): void {
    this.look(followed).catch((error: unknown) => {
      if (followed.failures === 1) this.#report(error, followed.uuid);
    });
  }

  /**
   * Looks at the database's catalog and manifests; one look at a time, shared by all who want one before it begins, and
   * never one right after the other.
   */
  look(followed: Followed): Promise<void> {
    followed.looking ??= this.#rested(followed)
      .then(() => this.#lookNow(followed))
      .then(
        () => {
          followed.failures = 0;
          this.#options.alarms.clear(followed.uuid, "following");
        },
        (error: unknown) => {
          followed.failures++;
          this.#options.alarms.note(followed.uuid, "following", error);
          throw error;
        },
      )
      .finally(() => {
        followed.looking = undefined;
        followed.triedAtMs = this.#options.world.monotonicMs();
        this.#plan(followed);
      });
    return followed.looking;
  }

  async #rested({ triedAtMs }: Followed): Promise<void> {
    const { world } = this.#options;
    const restMs = triedAtMs + followRestMs - world.monotonicMs();
    if (restMs > 0) await sleep(world, restMs);
  }

  async #lookNow(followed: Followed): Promise<void> {
    const { registry, world, leaseState, store } = this.#options;
    const { uuid, branches } = followed;
    followed.hinted = false;
    if (leaseState.getLeaseEpoch(uuid) !== undefined) return;
    const nowMs = world.monotonicMs();
    for (const [name, branch] of branches) if (nowMs - branch.readAtMs >= followIdleMs) branches.delete(name);
    const wasWritten = isWritten(await registry.catalogs.get(uuid));
    const catalog = await this.#permits.run(() => registry.catalogs.fresh(uuid));
    followed.catalogAtMs = nowMs;
    if (catalog?.deletedAtMs !== undefined) {
      this.#followed.delete(uuid);
      return this.#aside(uuid, registry.closeAndRemove(uuid));
    }
    const found = await Promise.all(
      [...branches.values()].map(async (branch) => ({ branch, isThere: await this.#lookAt(followed, branch) })),
    );
    const lost = found.find(({ isThere }) => !isThere);
    followed.purged = false;
    if (!lost || !(catalog ? isWritten(catalog) : wasWritten)) return;
    // Missing objects do not prove a deletion.
    followed.purged = !catalog && (await this.#permits.run(() => wasDeleted(store, uuid)));
    if (!followed.purged)
      throw catalog
        ? lostManifest(uuid, (await registry.catalogs.branch(uuid, lost.branch.target.branch)).id)
        : lostCatalog(uuid);
  }

  /**
   * Looks at the branch's manifest, and has the copy exchanged when it is older. Says whether the manifest is there.
   */
  async #lookAt(followed: Followed, branch: FollowedBranch): Promise<boolean> {
    const { registry, store, world, leaseState } = this.#options;
    const { target } = branch;
    const nowMs = world.monotonicMs();
    const branchId = await this.#presentId(target);
    const open = registry.peek(target);
    if (open && open.opened.branchId !== branchId)
      this.#aside(target.uuid, registry.removeDeletedBranch(target, open.opened.branchId));
    if (branchId === undefined) return followed.branches.delete(target.branch);
    const known = branch.newest?.branchId === branchId ? branch.newest : undefined;
    const found = await this.#permits.run(() => store.get(manifestKey(target.uuid, branchId), known?.version));
    if (!found) return false;
    if (found !== "same") {
      const manifest = decodeManifest(found.bytes);
      const served = open?.opened.branchId === branchId ? open.opened.manifest.now : undefined;
      const newest = known && served && isNewer(known, served) ? known : (served ?? known);
      if (newest && isNewer(newest, manifest)) return this.#isOlder(branch, newest, manifest);
      branch.olderLooks = 0;
      const { uuid, epoch, seq, txid, reservedTo } = manifest;
      branch.newest = { uuid, branchId, epoch, seq, txid, reservedTo, version: found.version };
    }
    branch.lookedAtMs = nowMs;
    if (leaseState.getLeaseEpoch(target.uuid) === undefined) this.#consider(branch);
    return true;
  }

  /**
   * Object storage gives an older manifest than was seen or served: from a cache that lags, or, if that goes on,
   * because it was put back. The copy is kept.
   */
  #isOlder(branch: FollowedBranch, seen: ManifestPosition, { uuid, branchId, epoch, seq }: Manifest): true {
    if (++branch.olderLooks < limits.pastManifestLooksMax) return true;
    throw wentBack(
      uuid,
      manifestKey(uuid, branchId),
      `epoch ${epoch}, number ${seq}`,
      `epoch ${seen.epoch}, number ${seen.seq}`,
    );
  }

  /** The id of the branch as the catalog has it now; undefined when there is none any more. */
  async #presentId({ uuid, branch }: Target): Promise<string | undefined> {
    try {
      return (await this.#options.registry.catalogs.branch(uuid, branch)).id;
    } catch (error) {
      if (error instanceof ServiceError) return undefined;
      throw error;
    }
  }

  /** Has the copy exchanged when its state, or what is known of claims, is older than the newest manifest. */
  #consider(branch: FollowedBranch): void {
    const { registry, leaseState, world } = this.#options;
    const { target, newest } = branch;
    const database = registry.peek(target);
    if (!database || !newest || branch.refreshing || database.opened.branchId !== newest.branchId) return;
    const { now } = database.opened.manifest;
    // A manifest that was only packed, or has reserved more, has the same state.
    if (!isNewer(newest, now) || (newest.epoch === now.epoch && newest.txid === now.txid)) return;
    if (world.monotonicMs() < branch.retryAtMs) return;
    const isStillWanted = (): boolean => leaseState.getLeaseEpoch(target.uuid) === undefined;
    branch.refreshing = registry
      .refresh(target, database, isStillWanted)
      .then(
        () => void (branch.hindered = 0),
        (error: unknown) => this.#hindered(branch, error),
      )
      .finally(() => (branch.refreshing = undefined));
  }

  /** The newer state is not available: it is tried again later and later, and reported once. */
  #hindered(branch: FollowedBranch, error: unknown): void {
    branch.hindered++;
    branch.retryAtMs = this.#options.world.monotonicMs() + pauseAfter(branch.hindered, followLookMsMin);
    if (branch.hindered === 1) this.#report(error, branch.target.uuid);
  }

  /** Lets something go on that no look waits for. */
  #aside(uuid: string, act: Promise<unknown>): void {
    act.catch((error: unknown) => this.#report(error, uuid));
  }

  /** What passes by itself is not reported. */
  #report(error: unknown, uuid: string): void {
    if (error instanceof ServiceError || (error instanceof StoreError && !needsOperator(error))) return;
    this.#options.notice(
      "a copy could not be brought to the newest state " +
        `(${error instanceof StoreError ? error.message : getErrorCode(error)})`,
      uuid,
    );
  }
}

/** The pause after this many failures in a row. */
function pauseAfter(failures: number, restMs: number): number {
  return Math.min(limits.followLookMsMax, restMs * 2 ** Math.min(failures, 10));
}
