/**
 * Reads on a node that does not hold a database: copies that follow the heads which another node writes.
 *
 * A copy is the branch's ordinary file, opened without a claim at a head's state (engine/opening), and brought forward by
 * closing it and opening it again (engine/registry). Always true: what is answered from a copy is a state of the history
 * that object storage has, as of the copy's last look at the head; nobody who reads here twice sees an older head the
 * second time; a look costs two requests that say "same", and at most one look of a database is under way. How often is
 * looked, and whether a hint comes, decides only how old a copy may be. Must not know: leases, other nodes.
 *
 * What this node itself wrote when it was the writer needs care. Its file may be ahead of the head, by groups that it
 * acknowledged and has not shipped. While nobody has claimed since, these are the branch's newest states and shipping
 * them is right: the open handle does so, and the head's compare-and-set judges. Once another node has claimed they are
 * no part of the history, and only the head tells which it is. So nothing is answered from such a handle until
 * everything in it has landed: then it was proven, at that instant, that nobody had claimed before. Where another has,
 * the compare-and-set fails and the handle is given up as fenced; opened again, its file is judged and set aside.
 */
import { codeOf, ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Permits } from "../base/permits.ts";
import { Recent } from "../base/recent.ts";
import { TimeUp, within } from "../base/time-limit.ts";
import { sleep, type Cancel, type World } from "../base/world.ts";
import { wasDeleted } from "../control/deletions.ts";
import { decodeHead, type Head } from "../format/head.ts";
import { headKey } from "../format/object-keys.ts";
import type { ObjectStore, ObjectVersion } from "../store/object-store.ts";
import { isWritten } from "./catalogs.ts";
import type { Alarms } from "./alarms.ts";
import type { Database } from "./database.ts";
import { needsOperator } from "./failures.ts";
import { isNewer, type HeadPlace } from "./head-places.ts";
import type { Holdings } from "./holdings.ts";
import { lostCatalog, lostHead, wentBack } from "./lost.ts";
import type { ReplicaMeasures } from "./measures.ts";
import type { Target, Consistency } from "./protocol.ts";
import type { Registry } from "./registry.ts";

export interface FollowingOptions {
  readonly registry: Registry;
  readonly holdings: Holdings;
  readonly world: World;
  readonly store: ObjectStore;
  readonly alarms: Alarms;
  /** Something an operator should know; never content. */
  notice(message: string, uuid: string): void;
}

/** How new an answer must be. */
export interface Wanted {
  readonly minTxid: number;
  readonly consistency: Consistency | undefined;
}

/** What a look has seen of a head. */
interface SeenHead extends Pick<Head, "uuid" | "branchId" | "epoch" | "seq" | "txid" | "reservedTo"> {
  readonly version: ObjectVersion;
}

/** A branch that is read here. */
interface FollowedBranch {
  readonly target: Target;
  readAtMs: number;
  /** When its copy was last known to be at the newest head, or on its way there. */
  lookedAtMs: number;
  newest: SeenHead | undefined;
  /** Ends, and never fails, when the copy has been exchanged. */
  refreshing: Promise<void> | undefined;
  /** Exchanges that have failed since one succeeded, and when the next one may begin. */
  hindered: number;
  retryAtMs: number;
  /** Looks in a row that found an older head than was seen before. */
  olderLooks: number;
}

/** A database that is read here and written elsewhere. */
interface Followed {
  readonly uuid: string;
  readonly branches: Map<string, FollowedBranch>;
  readAtMs: number;
  /** When the catalog was last read. */
  catalogAtMs: number;
  /** When the last look ended, whatever came of it. */
  triedAtMs: number;
  /** Looks that have failed since one succeeded. */
  failures: number;
  looking: Promise<void> | undefined;
  /** A hint has come since the last look began, which may have missed what the hint is about. */
  hinted: boolean;
  /** Neither the catalog nor the heads are there any more: the database was deleted, long enough ago to be purged. */
  purged: boolean;
  dueMs: number;
  cancel: Cancel;
}

export class Following {
  readonly #options: FollowingOptions;
  readonly #permits = new Permits(limits.looksAtOnceMax);
  readonly #followed = new Recent<string, Followed>(limits.copiesFollowedMax, (_, followed) => followed.cancel());
  #stopped = false;

  constructor(options: FollowingOptions) {
    this.#options = options;
  }

  /**
   * An open copy of the branch that is fresh enough for the call, or undefined when it cannot be had from object storage:
   * the call is then turned away as behind. Throws what the catalog says of a branch that is gone, and StoreError when
   * object storage does not answer and no copy that is here will do. Whoever waits before he uses the copy has to see
   * whether it is still the open one.
   */
  async reach(target: Target, { minTxid, consistency }: Wanted, deadlineMs: number): Promise<Database | undefined> {
    const { registry, world } = this.#options;
    if (consistency === "primary") return undefined;
    const followed = this.#follow(target.uuid);
    const branchId = await this.#branchId(followed, target, consistency);
    const branch = this.#branch(followed, target);
    const untilMs = Math.min(deadlineMs, world.monotonicMs() + limits.replicaPatienceMs);
    const open = registry.peek(target);
    if (!open) branch.lookedAtMs = world.monotonicMs();
    // The name may be another branch's by now.
    else if (open.opened.branchId !== branchId) await registry.retire(target, open.opened.branchId);
    // Nobody is answered from a copy that was not looked after for longer, `cached` reads neither, while object storage answers.
    else if (world.monotonicMs() - branch.lookedAtMs > limits.followLookMsMax) await this.#tryLook(followed, branch, untilMs);
    if (followed.purged) throw new ServiceError("database_not_found", "the database was deleted");
    const database = await this.#covered(target, untilMs, deadlineMs);
    if (!database || isReached(database, minTxid)) return database;
    return this.#catchUp(followed, branch, minTxid, untilMs, deadlineMs);
  }

  /** A head of the database is said to have moved: looks soon. */
  hint(uuid: string): void {
    const followed = this.#followed.peek(uuid);
    if (!followed || this.#stopped) return;
    followed.hinted = true;
    if (!followed.looking) this.#lookAlone(followed);
  }

  /** The copies that are open, and how far they are behind. */
  get measures(): ReplicaMeasures {
    const { registry, world } = this.#options;
    const nowMs = world.monotonicMs();
    let [open, lagTxidsMax, lookedMsMax] = [0, 0, 0];
    for (const { branches } of this.#followed.values()) {
      for (const { target, newest, lookedAtMs } of branches.values()) {
        const database = registry.peek(target);
        if (!database || database.claimed) continue;
        open++;
        lagTxidsMax = Math.max(lagTxidsMax, (newest?.txid ?? 0) - database.durableTxid);
        // Not looked after at all yet: then it was opened just now.
        if (lookedAtMs > -Infinity) lookedMsMax = Math.max(lookedMsMax, nowMs - lookedAtMs);
      }
    }
    return { open, lagTxidsMax, lookedMsMax };
  }

  /** Looks at nothing by itself any more. */
  stop(): void {
    this.#stopped = true;
    for (const followed of this.#followed.values()) followed.cancel();
    this.#followed.clear();
  }

  /** The database as followed, from now on if it was not; it was read just now. */
  #follow(uuid: string): Followed {
    const nowMs = this.#options.world.monotonicMs();
    let followed = this.#followed.get(uuid);
    if (!followed) {
      followed = {
        uuid, branches: new Map(), readAtMs: nowMs, catalogAtMs: -Infinity, triedAtMs: nowMs - limits.followRestMs, failures: 0,
        looking: undefined, hinted: false, purged: false, dueMs: Infinity, cancel: () => {},
      };
      this.#followed.set(uuid, followed);
    }
    followed.readAtMs = nowMs;
    if (followed.dueMs > nowMs + limits.followLookMsMin) this.#plan(followed);
    return followed;
  }

  #branch(followed: Followed, target: Target): FollowedBranch {
    const { branches, readAtMs } = followed;
    let branch = branches.get(target.branch);
    if (!branch) {
      branch = { target: { uuid: target.uuid, branch: target.branch }, readAtMs, lookedAtMs: -Infinity, newest: undefined, refreshing: undefined, hindered: 0, retryAtMs: -Infinity, olderLooks: 0 };
      branches.set(target.branch, branch);
    }
    branch.readAtMs = readAtMs;
    return branch;
  }

  /** The id of the branch of that name. For what is not open, or not known, the catalog is read anew, unless that was just done. */
  async #branchId(followed: Followed, target: Target, consistency: Consistency | undefined): Promise<string> {
    const { registry, world } = this.#options;
    const { catalogs } = registry;
    const freshen = async (): Promise<void> => {
      const nowMs = world.monotonicMs();
      if (nowMs - followed.catalogAtMs < limits.followLookMsMin) return;
      await this.#permits.run(() => catalogs.fresh(followed.uuid));
      followed.catalogAtMs = nowMs;
    };
    if (consistency !== "cached" && !registry.peek(target)) await freshen();
    try {
      return (await catalogs.branch(target.uuid, target.branch)).id;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      await freshen();
      return (await catalogs.branch(target.uuid, target.branch)).id;
    }
  }

  /** The copy, once object storage covers all of it; undefined when that is not so in time. */
  async #covered(target: Target, untilMs: number, deadlineMs: number): Promise<Database | undefined> {
    const { registry, world } = this.#options;
    for (;;) {
      const database = await registry.use(target, deadlineMs, "newest");
      if (database.settled) return database;
      if (world.monotonicMs() >= untilMs) return undefined;
      database.hurry();
      await sleep(world, limits.replicaPauseMs);
    }
  }

  /** Looks until the copy has come as far as the caller has seen, for as long as that can help. */
  async #catchUp(followed: Followed, branch: FollowedBranch, minTxid: number, untilMs: number, deadlineMs: number): Promise<Database | undefined> {
    const { world } = this.#options;
    for (let pauseMs = limits.replicaPauseMs; ; pauseMs *= 2) {
      if (!(await this.#within(untilMs, this.#look(followed)))) return undefined;
      if (branch.refreshing && !(await this.#within(untilMs, branch.refreshing))) return undefined;
      const database = await this.#covered(branch.target, untilMs, deadlineMs);
      if (!database || isReached(database, minTxid)) return database;
      // No writer goes beyond what its head has reserved, so that there is nothing to wait for here.
      if (minTxid > (branch.newest?.reservedTo ?? 0) || world.monotonicMs() + pauseMs >= untilMs) return undefined;
      await sleep(world, pauseMs);
    }
  }

  /** A look that need not succeed: an old copy will do when object storage does not answer. */
  async #tryLook(followed: Followed, branch: FollowedBranch, untilMs: number): Promise<void> {
    try {
      if ((await this.#within(untilMs, this.#look(followed))) && branch.refreshing) await this.#within(untilMs, branch.refreshing);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    // Whoever reads next does not wait for it too.
    branch.lookedAtMs = this.#options.world.monotonicMs();
  }

  /** Whether the act has ended by then. */
  async #within(untilMs: number, act: Promise<void>): Promise<boolean> {
    const { world } = this.#options;
    try {
      await within(world, Math.max(0, untilMs - world.monotonicMs()), () => act);
      return true;
    } catch (error) {
      if (error instanceof TimeUp) return false;
      throw error;
    }
  }

  /** Plans the next look: soon while the database is read, later and later when it is not or looks fail. */
  #plan(followed: Followed): void {
    const { world } = this.#options;
    followed.cancel();
    if (this.#stopped || this.#followed.peek(followed.uuid) !== followed) return;
    const nowMs = world.monotonicMs();
    const idleMs = nowMs - followed.readAtMs;
    const restMs = idleMs < limits.followEagerMs ? limits.followLookMsMin : idleMs / 2;
    followed.dueMs = followed.hinted ? nowMs : Math.max(nowMs, followed.triedAtMs + pauseAfter(followed.failures, restMs));
    followed.cancel = world.after(followed.dueMs - nowMs, () => this.#lookDue(followed));
  }

  /** Looks, unless nobody reads the database any more, or this node writes it by now. */
  #lookDue(followed: Followed): void {
    const { world, holdings } = this.#options;
    const isIdle = world.monotonicMs() - followed.readAtMs >= limits.followIdleMs;
    if (isIdle || holdings.termOf(followed.uuid) !== undefined) this.#followed.delete(followed.uuid);
    else this.#lookAlone(followed);
  }

  /** A look that nobody waits for. */
  #lookAlone(followed: Followed): void {
    this.#look(followed).catch((error: unknown) => {
      if (followed.failures === 1) this.#report(error, followed.uuid);
    });
  }

  /** Looks at the database's catalog and heads; one look at a time, shared by all who want one before it begins, and never one right after the other. */
  #look(followed: Followed): Promise<void> {
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
    const restMs = triedAtMs + limits.followRestMs - world.monotonicMs();
    if (restMs > 0) await sleep(world, restMs);
  }

  async #lookNow(followed: Followed): Promise<void> {
    const { registry, world, holdings, store } = this.#options;
    const { uuid, branches } = followed;
    followed.hinted = false;
    if (holdings.termOf(uuid) !== undefined) return;
    const nowMs = world.monotonicMs();
    for (const [name, branch] of branches) if (nowMs - branch.readAtMs >= limits.followIdleMs) branches.delete(name);
    const wasWritten = isWritten(await registry.catalogs.get(uuid));
    const catalog = await this.#permits.run(() => registry.catalogs.fresh(uuid));
    followed.catalogAtMs = nowMs;
    if (catalog?.deletedAtMs !== undefined) {
      this.#followed.delete(uuid);
      return this.#aside(uuid, registry.drop(uuid));
    }
    const found = await Promise.all([...branches.values()].map(async (branch) => ({ branch, isThere: await this.#lookAt(followed, branch) })));
    const lost = found.find(({ isThere }) => !isThere);
    followed.purged = false;
    if (!lost || !(catalog ? isWritten(catalog) : wasWritten)) return;
    // That all is gone does not say that it was deleted.
    followed.purged = !catalog && (await this.#permits.run(() => wasDeleted(store, uuid)));
    if (!followed.purged) throw catalog ? lostHead(uuid, (await registry.catalogs.branch(uuid, lost.branch.target.branch)).id) : lostCatalog(uuid);
  }

  /** Looks at the branch's head, and has the copy exchanged when it is older. Says whether the head is there. */
  async #lookAt(followed: Followed, branch: FollowedBranch): Promise<boolean> {
    const { registry, store, world, holdings } = this.#options;
    const { target } = branch;
    const nowMs = world.monotonicMs();
    const branchId = await this.#presentId(target);
    const open = registry.peek(target);
    if (open && open.opened.branchId !== branchId) this.#aside(target.uuid, registry.retire(target, open.opened.branchId));
    if (branchId === undefined) return followed.branches.delete(target.branch);
    const known = branch.newest?.branchId === branchId ? branch.newest : undefined;
    const found = await this.#permits.run(() => store.get(headKey(target.uuid, branchId), known?.version));
    if (!found) return false;
    if (found !== "same") {
      const head = decodeHead(found.bytes);
      const served = open?.opened.branchId === branchId ? open.opened.head.now : undefined;
      const newest = known && served && isNewer(known, served) ? known : (served ?? known);
      if (newest && isNewer(newest, head)) return this.#isOlder(branch, newest, head);
      branch.olderLooks = 0;
      const { uuid, epoch, seq, txid, reservedTo } = head;
      branch.newest = { uuid, branchId, epoch, seq, txid, reservedTo, version: found.version };
    }
    branch.lookedAtMs = nowMs;
    if (holdings.termOf(target.uuid) === undefined) this.#consider(branch);
    return true;
  }

  /** Object storage gives an older head than was seen or served: from a cache that lags, or it was put back, if that goes on. The copy is kept. */
  #isOlder(branch: FollowedBranch, seen: HeadPlace, { uuid, branchId, epoch, seq }: Head): true {
    if (++branch.olderLooks < limits.pastHeadLooksMax) return true;
    throw wentBack(uuid, headKey(uuid, branchId), `epoch ${epoch}, number ${seq}`, `epoch ${seen.epoch}, number ${seen.seq}`);
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

  /** Has the copy exchanged when its state, or what is known of claims, is older than the newest head. */
  #consider(branch: FollowedBranch): void {
    const { registry, holdings, world } = this.#options;
    const { target, newest } = branch;
    const database = registry.peek(target);
    if (!database || !newest || branch.refreshing || database.opened.branchId !== newest.branchId) return;
    const { now } = database.opened.head;
    // A head that was only packed, or has reserved more, is of the same state.
    if (!isNewer(newest, now) || (newest.epoch === now.epoch && newest.txid === now.txid)) return;
    if (world.monotonicMs() < branch.retryAtMs) return;
    const isStillWanted = (): boolean => holdings.termOf(target.uuid) === undefined;
    branch.refreshing = registry
      .refresh(target, database, isStillWanted)
      .then(() => void (branch.hindered = 0), (error: unknown) => this.#hindered(branch, error))
      .finally(() => (branch.refreshing = undefined));
  }

  /** The newer state could not be had: it is tried again later and later, and told once. */
  #hindered(branch: FollowedBranch, error: unknown): void {
    branch.hindered++;
    branch.retryAtMs = this.#options.world.monotonicMs() + pauseAfter(branch.hindered, limits.followLookMsMin);
    if (branch.hindered === 1) this.#report(error, branch.target.uuid);
  }

  /** Lets something go on that no look waits for. */
  #aside(uuid: string, act: Promise<unknown>): void {
    act.catch((error: unknown) => this.#report(error, uuid));
  }

  /** What passes by itself is nobody's concern. */
  #report(error: unknown, uuid: string): void {
    if (error instanceof ServiceError || (error instanceof StoreError && !needsOperator(error))) return;
    this.#options.notice(`a copy could not be brought to the newest state (${error instanceof StoreError ? error.message : codeOf(error)})`, uuid);
  }
}

/** The rest after so many failures in a row. */
function pauseAfter(failures: number, restMs: number): number {
  return Math.min(limits.followLookMsMax, restMs * 2 ** Math.min(failures, 10));
}

/** Whether a state that the caller says it has seen is in the copy, or is known never to come. */
function isReached(database: Database, minTxid: number): boolean {
  const { txid, lost } = database.opened.head.now;
  return minTxid <= txid || lost.some(({ firstTxid, lastTxid }) => firstTxid <= minTxid && minTxid <= lastTxid);
}
