/**
 * Keeps the timelines of open branches short: packs small objects, makes new base images, removes old history.
 *
 * Always true:
 * - one job of each kind runs at a time per branch and few per thread, each kind on permits of its own, so that a base
 *   image that fails or hangs stops no pack
 * - a job works from verified objects, and publishes by one change of the manifest that still fits, or leaves only
 *   objects that nothing refers to
 * - a failed job is tried again by itself, ever more rarely, also where there are no writes; it is logged once when
 *   failing begins and once when it ends
 */
import { BackOff } from "../../base/back-off.ts";
import { getErrorCode, ServiceError, StoreError } from "../../base/faults/errors.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { History } from "../../format/history/history.ts";
import type { Timeline } from "../../format/history/refs.ts";
import { Fenced, type ManifestWriter } from "../history/manifest-writer.ts";
import type { BranchParts } from "../branches/branches.ts";
import { changeHistory, withTimeline } from "../history/branch-history.ts";
import { isLong, packDue, packed, rebaseDue, type PackRange } from "./timeline-length.ts";
import { findRestorePlan, rebased, trimmed, type Plan } from "../history/timelines.ts";
import { pack, writeImages } from "./compaction.ts";
import { RottenObject, type PageSource } from "../segments/pool-objects.ts";
import { withUploads } from "../history/uploads.ts";

/** Branches of one thread whose objects are packed at once; each holds a pack twice. */
const packsAtOnceMax = 2;
/**
 * Branches of one thread whose state is restored for a new base image, or whose history is cut for an erasure, at
 * once.
 */
const rebasesAtOnceMax = 2;
/** After a failure the job is left alone for this long, and then longer and longer up to the second time. */
const compactorRetryMsMin = 1_000;
export const compactorRetryMsMax = 60_000;
/** Objects found rotten that a thread remembers; they are not used for so long. */
const rottenRememberedMax = 10_000;
const rottenAgainMs = 600_000;
/** How long an engine thread that stops waits for packs and base images that are being made. */
const compactorStopMs = 2_000;

export interface CompactorOptions {
  readonly parts: BranchParts;
  readonly scratchDirectory: string;
  /** Whether this node holds the database: only then it changes its manifests. */
  readonly isHeld: (uuid: string) => boolean;
  readonly bytesPut: (bytes: number) => void;
  /** Objects have lost their last reference: the collector has work in a while. */
  readonly leftBehind: (uuid: string) => void;
  readonly notice: (message: string, uuid: string) => void;
}

type Job = "pack" | "rebase" | "trim";

/** What a failure says, and the end of it. */
const words = {
  pack: { failed: "history could not be packed", goesOn: "history is packed again" },
  rebase: { failed: "a new base image could not be made", goesOn: "base images are made again" },
} as const;

/** What is known of one branch. */
interface Care {
  readonly running: Map<Job, Promise<void>>;
  readonly backOff: { readonly pack: BackOff; readonly rebase: BackOff };
  /** The state that a base image is being made of. */
  baseTxid: number | undefined;
  /** How many keep every job from the branch. */
  keptBy: number;
}

export class Compactor {
  readonly #options: CompactorOptions;
  readonly #cares = new WeakMap<ManifestWriter, Care>();
  readonly #packing = new Semaphore(packsAtOnceMax);
  readonly #rebasing = new Semaphore(rebasesAtOnceMax);
  /** Every job that has not ended, those of branches that are gone included. */
  readonly #jobs = new Set<{ readonly uuid: string; readonly over: Promise<void> }>();
  /** Branches that are to be looked at again though nothing is published: something failed, or the timeline is long. */
  #owed = new Set<ManifestWriter>();
  /**
   * Objects that were found rotten or missing, and until when they are not used: their neighbours are packed without
   * them.
   */
  readonly #rotten = new LruMap<string, number>(rottenRememberedMax);
  #closing = false;
  /** Jobs of each kind that were done. */
  packs = 0;
  rebases = 0;

  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  /** How many branches wait for another look. */
  get owed(): number {
    return this.#owed.size;
  }

  /** Begins what is due for the branch: when it was opened, claimed or has published, and when a job of it is over. */
  consider(manifest: ManifestWriter): void {
    if (this.#closing || !this.#mayChange(manifest)) return;
    const care = this.#getCare(manifest);
    if (isLong(manifest.now) || care.keptBy > 0) this.#owed.add(manifest);
    if (care.keptBy > 0) return;
    this.#considerJob(
      manifest,
      care,
      "pack",
      () => this.#pack(manifest, care),
      () => this.#packRange(manifest, care) !== undefined,
    );
    this.#considerJob(
      manifest,
      care,
      "rebase",
      () => this.#rebase(manifest, care),
      () => this.#rebasePlan(manifest) !== undefined,
    );
  }

  /** Looks again at those of the open branches that need it. Called every second or so. */
  tick(open: () => Iterable<ManifestWriter>): void {
    if (this.#owed.size === 0) return;
    const owed = this.#owed;
    // What is not open any more is looked at when it is opened again.
    this.#owed = new Set();
    for (const manifest of open()) if (owed.has(manifest)) this.consider(manifest);
  }

  /** Removes the timelines that neither the window nor a checkpoint needs. */
  trim(manifest: ManifestWriter): void {
    if (this.#closing || manifest.fenced || manifest.now.history === undefined) return;
    const care = this.#getCare(manifest);
    if (care.keptBy === 0 && !care.running.has("trim")) this.#begin(manifest, care, "trim", () => this.#trim(manifest));
  }

  /**
   * Keeps every job from the branches while `act` runs on them, which takes the place of one that makes a base image.
   */
  async exclusively<Value>(manifests: readonly ManifestWriter[], act: () => Promise<Value>): Promise<Value> {
    const cares = manifests.map((manifest) => this.#getCare(manifest));
    const running = (): Promise<void>[] => cares.flatMap((care) => [...care.running.values()]);
    for (const care of cares) care.keptBy++;
    try {
      while (running().length > 0) await Promise.all(running());
      return await this.#rebasing.run(act);
    } finally {
      for (const care of cares) care.keptBy--;
      for (const manifest of manifests) this.consider(manifest);
    }
  }

  /**
   * Resolves when the jobs that the database has now are over: what they restore and put may be of states that are gone
   * since.
   */
  async over(uuid: string): Promise<void> {
    await Promise.all([...this.#jobs].filter((job) => job.uuid === uuid).map(({ over }) => over));
  }

  /**
   * Begins nothing more, and waits a moment for what is under way: what does not end leaves files that the next start
   * removes.
   */
  async close(): Promise<void> {
    this.#closing = true;
    const jobs = [...this.#jobs].map(({ over }) => over);
    if (jobs.length > 0) await Promise.race([Promise.all(jobs), sleep(this.#options.parts.world, compactorStopMs)]);
  }

  #getCare(manifest: ManifestWriter): Care {
    const known = this.#cares.get(manifest);
    if (known) return known;
    const backOff = (): BackOff => new BackOff(this.#options.parts.world, compactorRetryMsMin, compactorRetryMsMax);
    const care: Care = {
      running: new Map(),
      backOff: { pack: backOff(), rebase: backOff() },
      baseTxid: undefined,
      keptBy: 0,
    };
    this.#cares.set(manifest, care);
    return care;
  }

  /** Whether the manifest is this node's to change: another one's is claimed first. */
  #mayChange(manifest: ManifestWriter): boolean {
    const { isHeld, parts } = this.#options;
    return (
      manifest.exists &&
      !manifest.fenced &&
      isHeld(manifest.now.uuid) &&
      (manifest.writerEpoch !== undefined || manifest.now.node === parts.nodeId)
    );
  }

  #considerJob(
    manifest: ManifestWriter,
    care: Care,
    job: "pack" | "rebase",
    act: () => Promise<void>,
    isDue: () => boolean,
  ): void {
    if (care.running.has(job) || !isDue()) return;
    if (care.backOff[job].isOver) this.#begin(manifest, care, job, act);
    else this.#owed.add(manifest);
  }

  #begin(manifest: ManifestWriter, care: Care, job: Job, act: () => Promise<void>): void {
    const { uuid } = manifest.now;
    const permits = job === "rebase" ? this.#rebasing : this.#packing;
    const over = permits
      .run(async () => {
        // It may have waited long for its permit.
        if (!this.#closing && this.#mayChange(manifest)) await act();
      })
      .catch((error: unknown) => this.#failed(manifest, care, job, error))
      .finally(() => {
        care.running.delete(job);
        this.#jobs.delete(begun);
        this.consider(manifest);
      });
    const begun = { uuid, over };
    this.#jobs.add(begun);
    care.running.set(job, over);
  }

  #succeeded(manifest: ManifestWriter, care: Care, job: "pack" | "rebase"): void {
    if (care.backOff[job].succeeded()) this.#options.notice(words[job].goesOn, manifest.now.uuid);
  }

  #failed(manifest: ManifestWriter, care: Care, job: Job, error: unknown): void {
    const { parts, notice } = this.#options;
    const { uuid } = manifest.now;
    // The branch is another node's: it packs.
    if (error instanceof Fenced) return;
    if (error instanceof RottenObject && job !== "trim") {
      // What the manifest does not name any more was packed meanwhile, and collected: the next try takes what took its
      // place.
      if (!names(manifest.now, error.id)) return;
      this.#rotten.set(error.id, parts.world.monotonicMs() + rottenAgainMs);
      return notice(`${words[job].failed}: ${error.message}; nothing is made of it for a while`, uuid);
    }
    const isOurs = error instanceof ServiceError || (error instanceof StoreError && error.kind === "corrupt");
    const what = isOurs ? error.message : getErrorCode(error);
    if (job !== "trim") {
      if (care.backOff[job].failed()) notice(`${words[job].failed}: ${what}; trying again`, uuid);
    } else if (!(error instanceof StoreError) || error.kind === "corrupt") {
      // A store that does not answer is asked again with the next collection.
      notice(`history could not be trimmed: ${what}`, uuid);
    }
  }

  #isRotten(id: string): boolean {
    return (this.#rotten.peek(id) ?? -Infinity) > this.#options.parts.world.monotonicMs();
  }

  #packRange(manifest: ManifestWriter, { baseTxid }: Care): PackRange | undefined {
    return packDue(manifest.now, {
      isRotten: (id) => this.#isRotten(id),
      ...(baseTxid === undefined ? {} : { baseTxid }),
    });
  }

  /**
   * How to restore the state for a base image that is due; undefined when none is, or an object that it takes is
   * rotten.
   */
  #rebasePlan(manifest: ManifestWriter): Plan | undefined {
    const txid = rebaseDue(manifest.now);
    const plan = txid === undefined ? undefined : findRestorePlan(manifest.now, undefined, txid);
    return plan && [...plan.images, ...plan.deltas].some(({ id }) => this.#isRotten(id)) ? undefined : plan;
  }

  async #pack(manifest: ManifestWriter, care: Care): Promise<void> {
    const due = this.#packRange(manifest, care);
    if (!due) return;
    const { parts, bytesPut } = this.#options;
    await packTimeline({ source: parts.source(manifest.now.uuid), world: parts.world, bytesPut }, manifest, due);
    this.packs++;
    this.#succeeded(manifest, care, "pack");
    this.#options.leftBehind(manifest.now.uuid);
  }

  async #rebase(manifest: ManifestWriter, care: Care): Promise<void> {
    const plan = this.#rebasePlan(manifest);
    if (!plan) return;
    care.baseTxid = plan.txid;
    try {
      await this.#makeBase(manifest, plan);
    } finally {
      care.baseTxid = undefined;
    }
    this.#succeeded(manifest, care, "rebase");
    this.#options.leftBehind(manifest.now.uuid);
  }

  /**
   * Restores the state, puts its images, and begins a new timeline with them. Packs may change the manifest meanwhile.
   */
  async #makeBase(manifest: ManifestWriter, plan: Plan): Promise<void> {
    const { parts, scratchDirectory, bytesPut } = this.#options;
    const { uuid, branchId } = manifest.now;
    const source = parts.source(uuid);
    await withUploads(manifest, async (uploads) => {
      const { refs: images } = await writeImages(source, plan, scratchDirectory, branchId, () => uploads.newId());
      for (const { bytes } of images) bytesPut(bytes);
      parts.world.crashPoint("image-put");
      const nowMs = parts.world.nowMs();
      await changeHistory(source.store, uploads, (now, history) => {
        const next = rebased(now, images, nowMs);
        if (!next) return undefined;
        return {
          history: withTimeline(this.#trimmed(history), next.closed),
          with: (latest) => {
            const timeline = rebased(latest, images, nowMs);
            return timeline && { refs: timeline.refs, fromTxid: timeline.fromTxid };
          },
        };
      });
      this.rebases++;
    });
  }

  async #trim(manifest: ManifestWriter): Promise<void> {
    const { parts, leftBehind } = this.#options;
    const { uuid } = manifest.now;
    const done = await withUploads(manifest, (uploads) =>
      changeHistory(parts.source(uuid).store, uploads, (_, history) => {
        const next = this.#trimmed(history);
        const same =
          next.timelines.length === history.timelines.length &&
          next.timelines.every((timeline, index) => isSameTimeline(timeline, history.timelines[index]!));
        return same ? undefined : { history: next, with: () => ({}) };
      }),
    );
    if (done) leftBehind(uuid);
  }
  /** What has surely left the window goes. */
  #trimmed(history: History): History {
    const { world, pitrMs } = this.#options.parts;
    return trimmed(history, world.time.sureMs() - pitrMs(history.uuid), (atMs) => world.time.believable(atMs));
  }
}

function isSameTimeline(a: Timeline, b: Timeline): boolean {
  return a.refs.length === b.refs.length && a.endedAtMs === b.endedAtMs;
}

/** What packing needs from its surroundings. */
export interface PackingParts {
  readonly source: PageSource;
  readonly world: World;
  readonly bytesPut: (bytes: number) => void;
}

/**
 * Puts the references of the manifest's timeline together, and names the pack in their place unless they are no longer
 * there.
 */
export async function packTimeline(
  { source, world, bytesPut }: PackingParts,
  manifest: ManifestWriter,
  { from, to }: PackRange,
): Promise<void> {
  const inputs = manifest.now.refs.slice(from, to);
  await withUploads(manifest, async (uploads) => {
    const made = await pack(source, inputs, uploads.newId());
    bytesPut(made.bytes);
    world.crashPoint("pack-put");
    await uploads.update((now) => {
      const refs = packed(now.refs, inputs, made);
      return refs && { refs };
    });
  });
}

/** Whether the manifest's timeline has the object. */
function names({ refs }: Manifest, id: string): boolean {
  return refs.some((ref) => ref.id === id);
}
