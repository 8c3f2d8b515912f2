/**
 * Whose batch is next, and whose makes room. `next` alone decides the first.
 *
 * Owns what tenants have recently used of the processes.
 *
 * Always true:
 * - the next batch is that of the tenant who has used them least
 * - of writes, which are not taken back, one place is kept from a tenant who uses much and has the others
 * - reads that have run for longer than a slice never hold all places while a fresh one waits, so that a short read is
 *   answered soon, however many endless SELECTs there are, of one database or of many
 *
 * Must not know: processes.
 */
import type { World } from "../../base/world.ts";
import type { Running, SqlPlaces, Waiting } from "./sql-job.ts";
import { Usage } from "./usage.ts";

/** A tenant who has recently used more than this leaves the last place for writes to others. */
export const sqlUsageMuchMs = 1_000;

/** Chooses between batches by what their tenants have used. */
export class SqlChoice {
  readonly #places: SqlPlaces;
  readonly #world: World;
  readonly #usage: Usage;

  constructor(places: SqlPlaces, world: World) {
    this.#places = places;
    this.#world = world;
    this.#usage = new Usage(world);
  }

  /** The run is over: what it took is its tenant's use. */
  charge({ waiting, begunMs }: Running): void {
    this.#usage.add(waiting.job.owner.tenant, this.#world.monotonicMs() - begunMs);
  }

  /**
   * The next batch of those that have a place of their kind: writes first, which hold a database up; fresh reads before
   * long ones; among equals that of the tenant who has used least, and one whose database has no process now.
   */
  next(
    queues: Readonly<Record<keyof SqlPlaces, readonly Waiting[]>>,
    running: readonly Running[],
  ): Waiting | undefined {
    const { reads, writes } = this.#places;
    const writing = ofKind("writes", running);
    if (writing.length < writes) {
      const isLast = writes > 1 && writing.length === writes - 1;
      const eligible = queues.writes.filter(
        ({ job }) => !isLast || !this.#hasEnough(job.owner.tenant, writing, running),
      );
      const taken = this.#first(eligible, writing, running);
      if (taken) return taken;
    }
    const reading = ofKind("reads", running);
    if (reading.length >= reads) return undefined;
    const mayBeLong = reading.filter(({ waiting }) => waiting.long).length < Math.max(1, reads - 1);
    const fresh = queues.reads.filter((waiting) => !waiting.long);
    return this.#first(fresh.length > 0 || !mayBeLong ? fresh : queues.reads, reading, running);
  }

  /**
   * Which read is stopped for a fresh one: when long ones hold every place of reads and a fresh one waits, the youngest
   * of the tenant who has used most.
   */
  toMakeRoom(waiting: readonly Waiting[], running: readonly Running[]): Running | undefined {
    const { reads } = this.#places;
    if (reads < 2 || waiting.every(({ long }) => long)) return undefined;
    const reading = ofKind("reads", running);
    if (reading.length < reads || !reading.every((one) => one.waiting.long && !one.preempted)) return undefined;
    const used = (one: Running): number => this.#usedBy(one.waiting.job.owner.tenant, running);
    return reading.toSorted(
      (left, right) => used(right) - used(left) || right.waiting.job.call.ticket - left.waiting.job.call.ticket,
    )[0];
  }

  #first(
    eligible: readonly Waiting[],
    ofSameKind: readonly Running[],
    running: readonly Running[],
  ): Waiting | undefined {
    if (eligible.length === 0) return undefined;
    const used = new Map<string, number>();
    for (const { job } of eligible)
      if (!used.has(job.owner.tenant)) used.set(job.owner.tenant, this.#usedBy(job.owner.tenant, running));
    const least = Math.min(...used.values());
    const theirs = eligible.filter(({ job }) => used.get(job.owner.tenant) === least);
    const busy = new Set(ofSameKind.map(({ waiting }) => waiting.job.owner.uuid));
    return theirs.find(({ job }) => !busy.has(job.owner.uuid)) ?? theirs[0];
  }

  /** What the tenant has used recently, what runs now included. */
  #usedBy(tenant: string, running: readonly Running[]): number {
    const nowMs = this.#world.monotonicMs();
    return running.reduce(
      (sum, { waiting, begunMs }) => sum + (waiting.job.owner.tenant === tenant ? nowMs - begunMs : 0),
      this.#usage.of(tenant),
    );
  }

  /** Whether the tenant has a place, and keeps it busy for long. */
  #hasEnough(tenant: string, writing: readonly Running[], running: readonly Running[]): boolean {
    return (
      writing.some(({ waiting }) => waiting.job.owner.tenant === tenant) &&
      this.#usedBy(tenant, running) > sqlUsageMuchMs
    );
  }
}

/** What runs of that kind. */
export function ofKind(kind: keyof SqlPlaces, running: readonly Running[]): readonly Running[] {
  return running.filter(({ waiting }) => waiting.job.kind === kind);
}
