/**
 * Takes erased data out of everything that is stored of a database, and proves that it is gone.
 *
 * Begin to end: ship every branch; see who keeps the data; cut history where it may hold it; count the copies on other
 * nodes, and wait until they are purged; collect what the cuts leave; remove old versions and local copies; look at all
 * of it. Each step may be stopped by a crash, a race or a grace and is found done, or done again, by the next run:
 * nothing is remembered between runs but which states are known to be clean.
 *
 * Always true: only what was looked at after the last step is called clean; nothing is cut for an erasure that
 * something blocks, nor what another erasure's grace still protects. Nothing it says holds content.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import type { CatalogBranch } from "../../format/history/catalog.ts";
import { databasePrefix } from "../../format/keys/object-keys.ts";
import type { ReadInput, ReadOutput } from "../../model/commands.ts";
import type { CopyRecords } from "../../control/databases/copy-records.ts";
import type { ErasureEvidence } from "../../format/erasure/erasure-receipt.ts";
import { judgeCopies, mustCountAnew, type CopyVerdict } from "./awaited-copies.ts";
import type { ManifestWriter } from "../history/manifest-writer.ts";
import type { BranchParts } from "../branches/branches.ts";
import type { GarbageCollector } from "../maintenance/garbage-collector.ts";
import type { Copies } from "../local/copies.ts";
import { cleanObjects, cutBranch, isCut, type CuttingParts } from "./history-truncation.ts";
import { planCuts, type CutPlan, type ShippedBranch } from "./cut-plan.ts";
import type { Database } from "../database/database.ts";
import { answer, withSurroundings } from "./erasure-answer.ts";
import { Prover, type StoreEvidence } from "./erasure-verifier.ts";
import { countFiles, removeUnused, type UnusedFiles } from "../local/database-files.ts";
import { readHistory } from "../history/branch-history.ts";
import { KnownStates } from "./known-states.ts";
import { writeImages } from "../compaction/compaction.ts";
import type { ErasedCoupon, Expunged } from "../api/protocol.ts";
import type { Quarantine } from "../local/quarantine.ts";
import type { ExpiredBranches } from "../pool/expired-branches.ts";
import type { PastStates } from "../past/past-states.ts";
import type { Registry } from "../pool/registry.ts";
import { withRestored, type StatePlace } from "../segments/restored-state.ts";
import { shipped } from "../pool/shipped.ts";
import type { Compactor } from "../compaction/compactor.ts";

/** How long a completed erasure waits for a reader or object storage that holds a local file back. */
const scrubWaitMs = 60_000;
/** When to look once more for objects that came late, after an erasure was completed. */
export const lateOrphansMs = 3_600_000;

export interface ErasureRunnerOptions {
  readonly registry: Registry;
  /** Earlier states that this node has restored. */
  readonly past: PastStates;
  readonly parts: BranchParts;
  readonly compactor: Compactor;
  readonly collector: GarbageCollector;
  /** What nodes have on their disks. */
  readonly records: CopyRecords;
  /** What this one has. */
  readonly copies: Copies;
  readonly databasesDirectory: string;
  readonly scratchDirectory: string;
  readonly quarantine: Pick<Quarantine, "recount">;
  readonly expired: ExpiredBranches;
  /** Whether the database, which has no catalog, was deleted. */
  readonly isDeleted: (uuid: string) => Promise<boolean>;
  readonly bytesPut: (bytes: number) => void;
  readonly leftBehind: (uuid: string, afterMs?: number) => void;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

/** A branch as the run found it, with everything shipped. */
interface StandingBranch extends ShippedBranch {
  readonly manifest: ManifestWriter;
}

/** What a look at all branches has found, and what is to be done. */
interface Look {
  readonly standing: readonly StandingBranch[];
  readonly plan: CutPlan;
}

/** How often a run begins again because history was changed meanwhile. */
const racesMax = 8;
const collectRoundsMax = 3;

export class ErasureRunner {
  readonly #options: ErasureRunnerOptions;
  readonly #known = new KnownStates();
  /** One run at a time: each restores whole databases. */
  readonly #turn = new Semaphore(1);

  constructor(options: ErasureRunnerOptions) {
    this.#options = options;
  }

  /** Does what can be done now for the unfinished erasures of a database, all of them together. */
  run(uuid: string, coupons: readonly ErasedCoupon[], deadlineMs: number): Promise<Expunged> {
    return this.#turn.run(() => this.#run(uuid, coupons, deadlineMs));
  }

  /**
   * Removes what this node has of the database on its disk, for the erasures of the node that writes it. Waits for the
   * database's jobs here, which restore and put what it held, and for an erasure's.
   */
  removeCopies(uuid: string): Promise<void> {
    return this.#turn.run(async () => {
      const { registry, compactor, copies, past, databasesDirectory } = this.#options;
      await compactor.over(uuid);
      const files = countFiles(databasesDirectory, uuid) + past.count(uuid);
      await registry.removeCopies(uuid);
      await copies.purged(uuid, files);
    });
  }

  async #run(uuid: string, coupons: readonly ErasedCoupon[], deadlineMs: number): Promise<Expunged> {
    for (let race = 0; race < racesMax; race++) {
      const done = await this.#tryOnce(uuid, coupons, deadlineMs);
      if (done !== "changed") return done;
    }
    throw new StoreError("unavailable", "a database's history changed too often to be rewritten");
  }

  /** All steps, each of which may end the run with what it waits for; `changed` when history has changed by then. */
  async #tryOnce(uuid: string, coupons: readonly ErasedCoupon[], deadlineMs: number): Promise<Expunged | "changed"> {
    // 1. Which branches there are, without those whose time is over.
    const { catalogs } = this.#options.parts;
    const catalog = await catalogs.fresh(uuid);
    if (catalog ? catalog.deletedAtMs !== undefined : await this.#options.isDeleted(uuid))
      return this.#ofDeleted(uuid, coupons, catalog !== undefined);
    if (!catalog) await catalogs.mend(uuid);
    await this.#options.expired.remove(uuid);
    const branches = (await catalogs.get(uuid))?.branches ?? [];

    // 2. Everything is shipped, and states of history are restored and searched: which erasures are due, and where each
    // timeline is to begin.
    const look = (): Promise<Look> => this.#look(uuid, branches, coupons, deadlineMs);
    const { standing, plan } = await look();
    if (plan.ready.length === 0) return answer(plan, undefined, undefined);

    // 3. History is cut. What was cut is looked at once more with everything shipped: only a run that finds nothing to
    // cut goes on.
    const toCut = uncut(standing, plan).map(({ id }) => id);
    // The need to count the copies anew must be known before, or a crash would leave the earlier count in force.
    if (mustCountAnew(plan.ready, toCut)) return answer(plan, "copies on other nodes", undefined);
    if (toCut.length > 0) {
      const manifests = standing.map(({ manifest }) => manifest);
      // A job under way may end the very timelines that were looked at: it is waited for, and then all is looked at
      // anew.
      await this.#options.compactor.exclusively(manifests, async () => {
        const now = await look();
        await this.#cut(uuid, now.standing, now.plan);
      });
      return "changed";
    }

    // 4. Copies on other nodes' disks: those that had one when history was cut have purged it.
    const ids = standing.map(({ id }) => id);
    const verdict = await this.#judgeCopies(uuid, ids, plan.ready);
    if (verdict.free.length === 0) return answer(plan, undefined, undefined, verdict);

    // 5. Old objects are collected, local files cleaned, and everything that is left is searched.
    const outcome = await this.#prove(uuid, standing, { ...plan, ready: verdict.free }, deadlineMs);
    if (typeof outcome === "string") return answer(plan, outcome, undefined, verdict);

    // 6. It holds if history is unchanged meanwhile.
    if (!(await this.#isUnchanged(uuid, standing))) return "changed";
    this.#options.leftBehind(uuid, lateOrphansMs);
    return answer(plan, undefined, outcome, verdict);
  }

  async #look(
    uuid: string,
    branches: readonly CatalogBranch[],
    coupons: readonly ErasedCoupon[],
    deadlineMs: number,
  ): Promise<Look> {
    const standing = await this.#ship(uuid, branches, coupons, deadlineMs);
    const plan = await planCuts({ place: this.#place(uuid), known: this.#known }, branches, standing, coupons);
    return { standing, plan };
  }

  async #judgeCopies(uuid: string, branchIds: readonly string[], ready: readonly ErasedCoupon[]): Promise<CopyVerdict> {
    return judgeCopies(await this.#options.records.list(uuid), this.#options.parts.nodeId, branchIds, ready);
  }

  #place(uuid: string): StatePlace {
    const { parts, scratchDirectory } = this.#options;
    return { source: parts.source(uuid), world: parts.world, scratchDirectory };
  }

  async #ship(
    uuid: string,
    branches: readonly CatalogBranch[],
    coupons: readonly ErasedCoupon[],
    deadlineMs: number,
  ): Promise<StandingBranch[]> {
    // Where nothing is to be cut it is enough to ask.
    const mayCut = coupons.some(({ isDue }) => isDue);
    const standing: StandingBranch[] = [];
    for (const { id, name } of branches) {
      const database = await this.#options.registry.use({ uuid, branch: name }, deadlineMs);
      const manifest = mayCut ? await shipped(database) : database.opened.manifest;
      const held = await heldIn(database, coupons);
      const { now } = manifest;
      standing.push({
        name,
        id,
        manifest,
        held,
        past: { manifest: now, history: await readHistory(this.#options.parts.source(uuid).store, now) },
      });
    }
    return standing;
  }

  /** Cuts what is to be cut. The caller keeps packing and new base images from the branches. */
  async #cut(uuid: string, standing: readonly StandingBranch[], plan: CutPlan): Promise<void> {
    const { parts, scratchDirectory, bytesPut, leftBehind } = this.#options;
    const source = parts.source(uuid);
    const clean = cleanIn(standing, plan);
    for (const { id, manifest, past } of uncut(standing, plan)) {
      const putImages: CuttingParts["putImages"] = async (state, newId) =>
        (await writeImages(source, state, scratchDirectory, id, newId)).refs;
      const check: CuttingParts["check"] = (state) => withRestored(this.#place(uuid), state, async () => {});
      await cutBranch(
        { source, world: parts.world, putImages, check, bytesPut },
        manifest,
        past,
        plan.beginnings.get(id)!,
        clean,
      );
    }
    leftBehind(uuid);
  }

  /** How it is proven that the plan's erasures have left nothing; or why it is not, in words. */
  async #prove(
    uuid: string,
    standing: readonly StandingBranch[],
    { ready }: CutPlan,
    deadlineMs: number,
  ): Promise<ErasureEvidence | string> {
    const { parts, notice, collector, compactor } = this.#options;
    const prover = new Prover(this.#place(uuid), collector);
    // A branch that was deleted may still have one, which restores and puts what the branch held.
    await compactor.over(uuid);
    if (!(await this.#collect(uuid, standing, prover))) return "the collection of old objects";
    const local = await this.#scrub(uuid, standing, deadlineMs);
    if (local === undefined) return "a local file that is not shipped yet";
    // After the scrub, which waits for whatever was being shipped: an object from before the cut may have come and gone
    // meanwhile.
    const store = await parts.source(uuid).store.purgeVersions(databasePrefix(uuid));
    if (store.locked > 0) return "versions of objects that the store's object lock keeps";
    const proof = await prover.prove(
      standing.map(({ name, past }) => ({ name, past })),
      ready,
    );
    if (proof.kind === "uncollected") return "the collection of old objects";
    if (proof.kind === "residue") {
      notice(`an erasure is not complete: ${proof.what}`, uuid);
      return proof.what;
    }
    return withSurroundings(proof.evidence, store, { node: parts.nodeId, ...local });
  }

  /** Whether nothing is left that no branch refers to, or nothing that could hold erased data. */
  async #collect(uuid: string, standing: readonly StandingBranch[], prover: Prover): Promise<boolean> {
    const { collector } = this.#options;
    for (let round = 0; round < collectRoundsMax; round++) {
      const { condemned, deleted } = await collector.collect(uuid);
      const survey = await collector.survey(uuid);
      if (survey && (await prover.isCollected(survey))) return true;
      // A manifest that is written anew says of everything that was named before that it is not still to come.
      const branchesToRewrite = standing.filter(({ id }) => survey?.branchesToRewrite.has(id) ?? false);
      for (const { manifest } of branchesToRewrite) await manifest.update(() => ({}));
      if (condemned + deleted + branchesToRewrite.length === 0) return false;
    }
    return false;
  }

  /** Cleans the open files and removes the others; undefined when one cannot be removed yet. */
  async #scrub(
    uuid: string,
    standing: readonly StandingBranch[],
    deadlineMs: number,
  ): Promise<Omit<ErasureEvidence["local"][number], "node"> | undefined> {
    const { registry, parts, past } = this.#options;
    // What is restored from now on is of the history that is left.
    const states = past.count(uuid);
    await past.evict(uuid);
    const untilMs = Math.min(deadlineMs, parts.world.monotonicMs() + scrubWaitMs);
    const ids = new Set(standing.map(({ id }) => id));
    await registry.removeOtherBranches(uuid, ids);
    return registry.between(uuid, async (open) => {
      const { removed, unshipped, directories } = this.#removeUnused(uuid, new Set(open.map(({ path }) => path)), ids);
      if (unshipped > 0) return undefined;
      // All in this very step, as that holds them open: one that closed before its turn would be neither removed nor
      // cleaned.
      await Promise.all(open.map((database) => database.scrub(untilMs)));
      for (const directory of directories) await parts.source(uuid).disk.syncDirectory(directory);
      return { files_scrubbed: open.length, files_removed: removed + states };
    });
  }

  /** As removeUnused; what had been set aside is removed only with a line in the log. */
  #removeUnused(uuid: string, open: ReadonlySet<string>, branchIds: ReadonlySet<string>): UnusedFiles {
    const { databasesDirectory, quarantine, notice } = this.#options;
    const outcome = removeUnused(databasesDirectory, uuid, open, branchIds);
    quarantine.recount(uuid);
    if (outcome.setAside > 0)
      notice(`${outcome.setAside} files that had been set aside are removed, as an erasure demands`, uuid);
    return outcome;
  }

  /** Whether the branches are still the same ones: what was forked meanwhile has not been looked at. */
  async #isUnchanged(uuid: string, standing: readonly StandingBranch[]): Promise<boolean> {
    const branches = (await this.#options.parts.catalogs.fresh(uuid))?.branches ?? [];
    return (
      branches.length === standing.length && standing.every(({ id }) => branches.some((branch) => branch.id === id))
    );
  }

  /** A deleted database has nothing to cut: its erasures are complete when all of it is gone. */
  async #ofDeleted(uuid: string, coupons: readonly ErasedCoupon[], hasCatalog: boolean): Promise<Expunged> {
    const { registry, parts, copies, collector } = this.#options;
    const { store } = parts.source(uuid);
    // Nothing can be undone any more, whatever graces still run.
    const plan = { blocked: {}, ready: coupons, waiting: [] };
    const verdict = await this.#judgeCopies(uuid, [], coupons);
    const { objects } = await store.list(databasePrefix(uuid), { limit: 1 });
    // The catalog is removed last: what is found without it came after all was removed.
    if (objects.length > 0 && !hasCatalog) await collector.purge(uuid);
    if (objects.length > 0) return answer(plan, "the deleted database's objects are being removed", undefined, verdict);
    if (!(await collector.isGone(uuid)))
      return answer(plan, "objects of the deleted database that may come late", undefined, verdict);
    const versions = await store.purgeVersions(databasePrefix(uuid));
    if (versions.locked > 0)
      return answer(plan, "versions of objects that the store's object lock keeps", undefined, verdict);
    if (verdict.free.length === 0) return answer(plan, undefined, undefined, verdict);
    const { removed } = await registry.between(uuid, async (open) =>
      this.#removeUnused(uuid, new Set(open.map(({ path }) => path)), new Set()),
    );
    await registry.closeAndRemove(uuid);
    await copies.purged(uuid, removed);
    const nothing: StoreEvidence = {
      objects: { listed: 0, live: 0, scanned: 0, bytes: 0 },
      heads_checked: 0,
      catalogs_checked: 0,
      pages_scanned: 0,
      traces: { looked_for: 0, hits: 0 },
      states_restored: [],
      oldest_restorable_txid: {},
    };
    return answer(
      plan,
      undefined,
      withSurroundings(nothing, versions, { node: parts.nodeId, files_scrubbed: 0, files_removed: removed }),
      verdict,
    );
  }
}

/** Ids of the objects that the cuts leave as they are. */
function cleanIn(standing: readonly StandingBranch[], { beginnings }: CutPlan): ReadonlySet<string> {
  return new Set(standing.flatMap(({ id, past }) => cleanObjects(past, beginnings.get(id)!)));
}

/** The branches whose timelines do not begin as they should. */
function uncut(standing: readonly StandingBranch[], plan: CutPlan): readonly StandingBranch[] {
  const clean = cleanIn(standing, plan);
  return standing.filter(({ id, past }) => !isCut(past, plan.beginnings.get(id)!, clean));
}

/** Which of the erased memories and records the branch holds as live content, by their ids. */
async function heldIn(database: Database, coupons: readonly ErasedCoupon[]): Promise<ReadonlySet<string>> {
  const memoryIds = [...new Set(coupons.flatMap((coupon) => coupon.memoryIds))];
  const records = coupons.flatMap((coupon) => coupon.records ?? []);
  const memories = await ask(database, "memory.held", { memoryIds });
  if (records.length === 0) return new Set(memories.held);
  return new Set([...memories.held, ...(await ask(database, "record.held", { records })).held]);
}

function ask<Kind extends "memory.held" | "record.held">(
  database: Database,
  command: Kind,
  input: ReadInput<Kind>,
): Promise<ReadOutput<Kind>> {
  return new Promise((resolve, reject) => {
    database.read(command, input, { done: ({ value }) => resolve(value as ReadOutput<Kind>), failed: reject });
  });
}
