/**
 * Keeps the lines of open branches short: packs small objects, makes new base images, lets go of old history.
 *
 * Always true: one job at a time per branch and few per thread; a job works from objects that are verified, publishes by
 * one change of the head that still fits, or leaves nothing but objects that nobody refers to.
 */
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Permits } from "../base/permits.ts";
import { sleep } from "../base/world.ts";
import { Fenced, type BranchHead } from "./branch-head.ts";
import type { BranchParts } from "./branches.ts";
import { changeHistory, withLine } from "./histories.ts";
import { packDue, packed, planOf, rebased, rebaseDue, trimmed, type Plan } from "./lines.ts";
import { pack, writeImages } from "./packing.ts";
import { RottenObject } from "./pool-objects.ts";

export interface UpkeepOptions {
  readonly parts: BranchParts;
  readonly permits: Permits;
  readonly scratchDirectory: string;
  readonly bytesPut: (bytes: number) => void;
  /** Objects have lost their last reference: the collector has work in a while. */
  readonly leftBehind: (uuid: string) => void;
  readonly notice: (message: string, uuid: string) => void;
}

export class Upkeep {
  readonly #options: UpkeepOptions;
  /** The job of each branch that has one; settles when it is over, and never fails. */
  readonly #busy = new WeakMap<BranchHead, Promise<void>>();
  /** Every job that has not ended, those of branches that are gone included. */
  readonly #jobs = new Set<{ readonly uuid: string; readonly over: Promise<void> }>();
  /** Objects that were found rotten or missing: nothing is made of them, and what lies beside them is kept short without them. */
  readonly #rotten = new Set<string>();
  #closing = false;
  /** Jobs of each kind that were done. */
  packs = 0;
  rebases = 0;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Begins what is due for the branch, unless something is under way already. */
  consider(head: BranchHead): void {
    if (this.#closing || this.#busy.has(head) || head.fenced || (packDue(head.now, this.#rotten) === undefined && this.#rebasePlan(head) === undefined)) return;
    this.#begin(head, () => this.#work(head));
  }

  /** Lets go of the lines that neither the window nor a checkpoint needs. */
  trim(head: BranchHead): void {
    if (this.#closing || this.#busy.has(head) || head.fenced || head.now.history === undefined) return;
    this.#begin(head, () => this.#trim(head));
  }

  /** Keeps every job from the branches while `act` runs on them, which takes one's place. */
  async exclusively<Value>(heads: readonly BranchHead[], act: () => Promise<Value>): Promise<Value> {
    const jobs = (): Promise<void>[] => heads.flatMap((head) => this.#busy.get(head) ?? []);
    while (jobs().length > 0) await Promise.all(jobs());
    const acting = this.#options.permits.run(act);
    const over = (): void => {
      for (const head of heads) this.#busy.delete(head);
    };
    const done = acting.then(over, over);
    for (const head of heads) this.#busy.set(head, done);
    return acting;
  }

  /** Resolves when the jobs that the database has now are over: what they restore and put may be of states that are gone since. */
  async over(uuid: string): Promise<void> {
    await Promise.all([...this.#jobs].filter((job) => job.uuid === uuid).map(({ over }) => over));
  }

  /** Begins nothing more, and waits a moment for what is under way: what does not end leaves files that the next start removes. */
  async close(): Promise<void> {
    this.#closing = true;
    const jobs = [...this.#jobs].map(({ over }) => over);
    if (jobs.length > 0) await Promise.race([Promise.all(jobs), sleep(this.#options.parts.world, limits.upkeepStopMs)]);
  }

  #begin(head: BranchHead, job: () => Promise<void>): void {
    const { uuid } = head.now;
    const done = this.#options.permits
      .run(job)
      .catch((error: unknown) => {
        // A store that does not answer, or a branch that was lost: the next publication brings the job back.
        if (error instanceof Fenced || (error instanceof StoreError && error.kind !== "corrupt")) return;
        if (error instanceof RottenObject && this.#rotten.size < limits.rottenRememberedMax) this.#rotten.add(error.id);
        const what = error instanceof StoreError ? error.message : `a fault (${error instanceof Error ? error.name : "unknown"})`;
        this.#options.notice(`history could not be packed: ${what}`, uuid);
      })
      .finally(() => {
        this.#busy.delete(head);
        this.#jobs.delete(begun);
      });
    const begun = { uuid, over: done };
    this.#jobs.add(begun);
    this.#busy.set(head, done);
  }

  async #work(head: BranchHead): Promise<void> {
    const plan = this.#rebasePlan(head);
    if (plan) await this.#rebase(head, plan);
    else await this.#pack(head);
  }

  /** How to restore the state of which a base image is due; undefined when none is, or an object that it takes is rotten. */
  #rebasePlan(head: BranchHead): Plan | undefined {
    const txid = rebaseDue(head.now);
    const plan = txid === undefined ? undefined : planOf(head.now, undefined, txid);
    return plan && [...plan.images, ...plan.deltas].some(({ id }) => this.#rotten.has(id)) ? undefined : plan;
  }

  async #pack(head: BranchHead): Promise<void> {
    const due = packDue(head.now, this.#rotten);
    if (!due) return;
    const inputs = head.now.refs.slice(due.from, due.to);
    const id = head.beginUpload();
    try {
      const made = await pack(this.#options.parts.source(head.now.uuid), inputs, id);
      this.#options.bytesPut(made.bytes);
      this.#options.parts.world.crashPoint("pack-put");
      await head.update((now) => {
        const refs = packed(now.refs, inputs, made);
        return refs && { refs };
      });
      this.packs++;
    } finally {
      head.endUpload(id);
    }
    this.#options.leftBehind(head.now.uuid);
  }

  async #rebase(head: BranchHead, plan: Plan): Promise<void> {
    const { parts, scratchDirectory, bytesPut, leftBehind } = this.#options;
    const { uuid, branchId } = head.now;
    const source = parts.source(uuid);
    const ids: string[] = [];
    const newId = (): string => {
      const id = head.beginUpload();
      ids.push(id);
      return id;
    };
    try {
      const { refs: images } = await writeImages(source, plan, scratchDirectory, branchId, newId);
      for (const { bytes } of images) bytesPut(bytes);
      parts.world.crashPoint("image-put");
      const nowMs = parts.world.nowMs();
      await changeHistory(source.store, head, (now, history) => {
        const next = rebased(now, images, nowMs);
        if (!next) return undefined;
        return {
          history: withLine(trimmed(history, nowMs - parts.pitrMs(uuid)), next.closed),
          with: (latest) => {
            const line = rebased(latest, images, nowMs);
            return line && { refs: line.refs, fromTxid: line.fromTxid };
          },
        };
      });
      this.rebases++;
    } finally {
      for (const id of ids) head.endUpload(id);
    }
    leftBehind(uuid);
  }

  async #trim(head: BranchHead): Promise<void> {
    const { parts, leftBehind } = this.#options;
    const { uuid } = head.now;
    const done = await changeHistory(parts.source(uuid).store, head, (_, history) => {
      const next = trimmed(history, parts.world.nowMs() - parts.pitrMs(uuid));
      const same = next.lines.length === history.lines.length && next.lines.every((line, index) => line.refs.length === history.lines[index]!.refs.length);
      return same ? undefined : { history: next, with: () => ({}) };
    });
    if (done) leftBehind(uuid);
  }
}
