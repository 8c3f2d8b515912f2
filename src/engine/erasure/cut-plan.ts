/**
 * What keeps erased data, and where each timeline of history is to begin so that nothing of it is left.
 *
 * Always true:
 * - whatever blocks an erasure is named, and nothing is planned for that erasure then
 * - a checkpoint never goes with a cut
 * - a timeline begins at a state that was restored and found without the data of every erasure that is planned for
 */
import { assert } from "../../base/faults/assert.ts";
import type { CatalogBranch } from "../../format/history/catalog.ts";
import type { ErasureBlockers } from "../../format/erasure/erasure-coupon.ts";
import type { RecordTarget } from "../../format/erasure/erasure-receipt.ts";
import {
  cutTxid,
  firstStateFrom,
  restoringTimelines,
  type Beginnings,
  type Past,
  type RestoringTimeline,
} from "./history-truncation.ts";
import type { KnownStates } from "./known-states.ts";
import type { ErasedCoupon } from "../api/protocol.ts";
import type { StatePlace } from "../segments/restored-state.ts";

/** A branch that object storage covers completely. */
export interface ShippedBranch {
  readonly name: string;
  readonly id: string;
  readonly past: Past;
  /** Which of the erased memories and records it holds as live content. */
  readonly held: ReadonlySet<string>;
}

export interface CutPlan {
  /** By id, of the erasures that something blocks. */
  readonly blocked: Readonly<Record<string, ErasureBlockers>>;
  /** By id, of those that something else than live content blocks: what it is, in words. */
  readonly reasons: Readonly<Record<string, string>>;
  /** Erasures that can be completed: due, and nothing blocks them. */
  readonly ready: readonly ErasedCoupon[];
  /** Due and not blocked, but another erasure's grace protects what would go with them. */
  readonly waiting: readonly ErasedCoupon[];
  /** By the branch's id. */
  readonly beginnings: ReadonlyMap<string, Beginnings>;
}

export interface CutPlanParts {
  readonly place: StatePlace;
  readonly known: KnownStates;
}

/** Plans the cuts of all branches for all erasures that can be completed, together. */
export async function planCuts(
  parts: CutPlanParts,
  branches: readonly CatalogBranch[],
  standing: readonly ShippedBranch[],
  coupons: readonly ErasedCoupon[],
): Promise<CutPlan> {
  const blockers = new Blockers();
  for (const { name, id, past, held } of standing) {
    for (const coupon of coupons) {
      if ([...coupon.memoryIds, ...(coupon.records?.ids ?? [])].some((id) => held.has(id)))
        blockers.addBranch(coupon, name);
      if (!coupon.isDue) continue;
      const cut = cutTxid(branches, coupon.points, id);
      for (const checkpoint of past.history.checkpoints)
        if (checkpoint.txid < cut) blockers.addCheckpoint(coupon, `${name}/${checkpoint.name}`);
    }
  }
  const due = coupons.filter((coupon) => coupon.isDue && !blockers.has(coupon));
  const waiting = due.filter((coupon) => coupons.some((other) => !other.isDue && wouldLose(branches, coupon, other)));
  for (
    let ready = due.filter((coupon) => !waiting.includes(coupon));
    ;
    ready = ready.filter((coupon) => !blockers.has(coupon))
  ) {
    const beginnings = new Map<string, Beginnings>();
    for (const branch of standing)
      beginnings.set(branch.id, await findBeginnings(parts, branches, branch, ready, blockers));
    // What turned out to be blocked is left out, and less is to be cut then.
    if (!ready.some((coupon) => blockers.has(coupon)))
      return { blocked: blockers.all, reasons: blockers.reasons, ready, waiting, beginnings };
  }
}

/**
 * Whether two erasures of records may have erased the same ones, which their keyed hashes do not tell: those of one
 * kind, and those of a subject with any.
 */
function mayShare(kind: RecordTarget["kind"] | undefined, other: RecordTarget["kind"] | undefined): boolean {
  return kind !== undefined && other !== undefined && (kind === other || kind === "subject" || other === "subject");
}

/** Whether completing the one erasure would take states away to which the other can still be undone. */
function wouldLose(branches: readonly CatalogBranch[], coupon: ErasedCoupon, other: ErasedCoupon): boolean {
  const ids = new Set(coupon.memoryIds);
  return (
    mayShare(coupon.records?.target.kind, other.records?.target.kind) ||
    other.memoryIds.some((id) => ids.has(id)) ||
    other.points.some(({ branchId, txid }) => txid <= cutTxid(branches, coupon.points, branchId))
  );
}

async function findBeginnings(
  parts: CutPlanParts,
  branches: readonly CatalogBranch[],
  branch: ShippedBranch,
  coupons: readonly ErasedCoupon[],
  blockers: Blockers,
): Promise<Beginnings> {
  const { id, past } = branch;
  const cut = coupons.reduce((most, { points }) => Math.max(most, cutTxid(branches, points, id)), 0);
  const timelines = restoringTimelines(past);
  const beginnings: (number | undefined)[] = [];
  for (const [index, timeline] of timelines.entries()) {
    const isNewest = index === timelines.length - 1;
    const first = firstStateFrom(past.manifest, timeline, Math.min(cut, past.manifest.txid));
    assert(first !== undefined || !isNewest, "the timeline of a manifest has the manifest's own state");
    const holders =
      first === undefined
        ? new Map<string, string | undefined>()
        : await parts.known.holders(parts.place, past, first, coupons);
    beginnings.push(
      first === undefined || holders.size === 0
        ? first
        : await beginningAbove(
            parts,
            branch,
            { ...timeline, fromTxid: first },
            isNewest,
            coupons.filter((coupon) => holders.has(coupon.id)),
            blockers,
          ),
    );
  }
  return beginnings;
}

/**
 * Where a timeline may begin whose first state holds data of the erasures: at its first checkpoint without such data,
 * or at its end if it is the manifest's.
 */
async function beginningAbove(
  { place, known }: CutPlanParts,
  { name, past }: ShippedBranch,
  timeline: RestoringTimeline,
  isNewest: boolean,
  coupons: readonly ErasedCoupon[],
  blockers: Blockers,
): Promise<number | undefined> {
  const named = past.history.checkpoints
    .filter(({ txid }) => txid >= timeline.fromTxid && txid <= timeline.toTxid)
    .sort((a, b) => a.txid - b.txid);
  for (const checkpoint of named) {
    const holders = await known.holders(place, past, checkpoint.txid, coupons);
    if (holders.size === 0) return checkpoint.txid;
    for (const coupon of coupons)
      if (holders.has(coupon.id)) blockers.addCheckpoint(coupon, `${name}/${checkpoint.name}`, holders.get(coupon.id));
  }
  if (!isNewest) return undefined;
  const holders = await known.holders(place, past, past.manifest.txid, coupons);
  for (const coupon of coupons) if (holders.has(coupon.id)) blockers.addBranch(coupon, name, holders.get(coupon.id));
  return past.manifest.txid;
}

/** What was found to keep the data of each erasure. */
class Blockers {
  readonly #found = new Map<string, { readonly checkpoints: Set<string>; readonly branches: Set<string> }>();
  /** The first for each. */
  readonly #reasons = new Map<string, string>();

  has({ id }: ErasedCoupon): boolean {
    return this.#found.has(id);
  }

  addBranch(coupon: ErasedCoupon, name: string, why?: string): void {
    this.#of(coupon).branches.add(name);
    this.#say(coupon, `branch ${name}`, why);
  }

  addCheckpoint(coupon: ErasedCoupon, name: string, why?: string): void {
    this.#of(coupon).checkpoints.add(name);
    this.#say(coupon, `checkpoint ${name}`, why);
  }

  get reasons(): Record<string, string> {
    return Object.fromEntries(this.#reasons);
  }

  #say({ id }: ErasedCoupon, where: string, why: string | undefined): void {
    if (why !== undefined && !this.#reasons.has(id)) this.#reasons.set(id, `${where}: ${why}`);
  }

  get all(): Record<string, ErasureBlockers> {
    const entries = [...this.#found].map(([id, { checkpoints, branches }]) => [
      id,
      { checkpoints: [...checkpoints].sort(), branches: [...branches].sort() },
    ]);
    return Object.fromEntries(entries) as Record<string, ErasureBlockers>;
  }

  #of({ id }: ErasedCoupon): { readonly checkpoints: Set<string>; readonly branches: Set<string> } {
    const found = this.#found.get(id) ?? { checkpoints: new Set(), branches: new Set() };
    this.#found.set(id, found);
    return found;
  }
}
