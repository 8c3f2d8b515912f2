/**
 * What a thread does for its databases without a call: collecting garbage, trimming history, purging deleted databases,
 * resolving changes left in doubt.
 *
 * Always true:
 * - one round of collection runs at a time
 * - a job that fails is tried again later
 * - a job is forgotten only by a restart, or because another node has the database: the next claim of a branch, or
 *   the marker of a deletion, brings it back
 */
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import type { Alarms } from "../api/alarms.ts";
import type { GarbageCollector } from "./garbage-collector.ts";
import { needsOperator } from "../api/failures.ts";

/**
 * Databases of one thread that wait for a collection, and those that were deleted and wait to be purged; further
 * deletions are shed.
 */
const jobsMax = 100_000;
/**
 * A deleted database that waits for copies on nodes that are down is looked at more and more rarely, up to this: as
 * rarely as its copies are asked for.
 */
export const purgeAgainMsMax = 3_600_000;
/** Between two tries to learn what became of a change of a catalog: its branches cannot be named meanwhile. */
const resolveAgainMs = 1_000;
/** Garbage is looked for this long after there may be some: several packs of a busy branch share one look. */
export const collectAfterMs = 60_000;

export interface BackgroundJobsOptions {
  readonly world: World;
  readonly collector: GarbageCollector;
  readonly graceMs: number;
  /** Ends branches whose time is over, and removes history that has left the window. */
  readonly groom: (uuid: string) => Promise<void>;
  /** Learns what became of a change of the catalog that was left in doubt. Throws while it cannot. */
  readonly resolveDoubt: (uuid: string) => Promise<void>;
  /** Whether this node looks after the database now; when another one does, so does it collect. */
  readonly isOurs: (uuid: string) => boolean;
  readonly notice: (message: string, uuid: string) => void;
  readonly alarms: Alarms;
  /** Jobs of each kind that are remembered. */
  readonly most?: number;
}

type Job = "resolveDoubt" | "collect" | "purge";

/** The first one comes first when more than one is due. */
const jobsInOrder: readonly Job[] = ["resolveDoubt", "collect", "purge"];

/** When a job is to be done, on world.monotonicMs(): at the first request, and once more at the last one. */
interface Due {
  readonly nextMs: number;
  readonly lastMs: number;
}

export class BackgroundJobs {
  readonly #options: BackgroundJobsOptions;
  readonly #due: Readonly<Record<Job, Map<string, Due>>> = {
    resolveDoubt: new Map(),
    collect: new Map(),
    purge: new Map(),
  };
  /**
   * How long each purge that does not come to its end was left alone the last time, and why; what is purged is `#due`
   * as well.
   */
  readonly #pauses = new Map<string, { readonly pauseMs: number; readonly why: string }>();
  #running: Promise<void> | undefined;
  /** Rounds of collection that were done. */
  collections = 0;

  constructor(options: BackgroundJobsOptions) {
    this.#options = options;
  }

  /**
   * Whether one more deleted database can be remembered. A forgotten collection comes back with the next claim, pack or
   * deletion.
   */
  get mayPurge(): boolean {
    return this.#due.purge.size < this.#most;
  }

  get #most(): number {
    return this.#options.most ?? jobsMax;
  }

  /** Objects of the database have lost their last reference, or may have by then. */
  leftBehind(uuid: string, afterMs: number = collectAfterMs): void {
    this.#plan("collect", uuid, afterMs);
  }

  /**
   * A change of the database's catalog was left in doubt. Reading the catalog resolves it too, but there may be no
   * reader.
   */
  inDoubt(uuid: string): void {
    this.#plan("resolveDoubt", uuid, resolveAgainMs);
  }

  /** The database was deleted: its objects go after the grace. */
  purge(uuid: string): void {
    this.#due.collect.delete(uuid);
    this.#plan("purge", uuid, this.#options.graceMs);
  }

  /** Begins the next job that is due. Called every second or so. */
  tick(): void {
    if (this.#running) return;
    const nowMs = this.#options.world.monotonicMs();
    const [first] = jobsInOrder
      .flatMap((job) =>
        this.#due[job]
          .entries()
          .filter(([, { nextMs }]) => nextMs <= nowMs)
          .take(1)
          .map(([uuid, due]) => ({ job, uuid, ...due }))
          .toArray(),
      )
      .sort((a, b) => a.nextMs - b.nextMs);
    if (!first) return;
    const { job, uuid, lastMs } = first;
    this.#due[job].delete(uuid);
    if (lastMs > nowMs) this.#due[job].set(uuid, { nextMs: lastMs, lastMs });
    this.#running = this.#run(job, uuid).finally(() => (this.#running = undefined));
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await this.#running;
  }

  #plan(job: Job, uuid: string, afterMs: number): void {
    const due = this.#due[job];
    if (job !== "purge" && !due.has(uuid) && due.size >= this.#most) return;
    const dueMs = this.#options.world.monotonicMs() + afterMs;
    const { nextMs, lastMs } = due.get(uuid) ?? { nextMs: Infinity, lastMs: -Infinity };
    due.set(uuid, { nextMs: Math.min(dueMs, nextMs), lastMs: Math.max(dueMs, lastMs) });
  }

  async #run(job: Job, uuid: string): Promise<void> {
    const { collector, groom, resolveDoubt, isOurs, graceMs, alarms, notice } = this.#options;
    try {
      // Whichever node holds the database now: the change is this node's.
      if (job === "resolveDoubt") return await resolveDoubt(uuid);
      if (job === "purge") {
        const again = await collector.purge(uuid);
        if (typeof again === "string")
          return this.#purgeLater(
            uuid,
            `a deleted database is kept in mind until its copies are gone; it waits for ${again}`,
          );
        this.#pauses.delete(uuid);
        if (again !== undefined) this.#plan("purge", uuid, again);
        return;
      }
      if (!isOurs(uuid)) return;
      await groom(uuid);
      const { again } = await collector.collect(uuid);
      alarms.clear(uuid, "collection");
      this.collections++;
      if (again) this.#plan("collect", uuid, Math.max(graceMs, collectAfterMs));
    } catch (error) {
      const isPassing = (error instanceof StoreError && !needsOperator(error)) || error instanceof ServiceError;
      if (job === "resolveDoubt" && isPassing) return this.inDoubt(uuid);
      alarms.note(uuid, "collection", error);
      const why = needsOperator(error) ? error.message : getErrorCode(error);
      if (job === "purge")
        return this.#purgeLater(uuid, `a deleted database could not be purged (${why}); trying again`);
      const what =
        job === "resolveDoubt" ? "the outcome of a change of branches is not known" : "garbage could not be collected";
      notice(`${what} (${why}); trying again`, uuid);
      this.#plan(job, uuid, Math.max(graceMs, collectAfterMs));
    }
  }

  /** More and more rarely: a node that is down may never come back. Logged once, and again when the reason changes. */
  #purgeLater(uuid: string, why: string): void {
    const { graceMs, notice } = this.#options;
    const before = this.#pauses.get(uuid);
    const leastMs = Math.max(graceMs, collectAfterMs);
    const pauseMs = before ? Math.max(leastMs, Math.min(2 * before.pauseMs, purgeAgainMsMax)) : leastMs;
    this.#pauses.set(uuid, { pauseMs, why });
    if (before?.why !== why) notice(why, uuid);
    this.#plan("purge", uuid, pauseMs);
  }
}
