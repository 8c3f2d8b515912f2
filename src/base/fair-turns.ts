/**
 * Who is served next on a thread that serves many tenants: deficit round robin, with newcomers first.
 *
 * Always true:
 * - acts of one tenant run in the order in which they came
 * - a tenant that has had more than its share waits until the others have had theirs, and no tenant waits while no
 *   other has an act
 * - between two acts others' events are heard (the lists of new and of old ones are those of fq_codel, RFC 8290)
 *
 * Must not know: what the acts do.
 */
import type { World } from "./world.ts";

/** What a tenant with calls gets of the thread in each round. */
const turnQuantumMs = 2;
/** The least that a call is charged. */
const turnCallMs = 0.02;
/** A tenant that has had more than its share waits this much of others' time at most. */
const turnDebtMsMax = 200;
/** After this long a thread hears what has come meanwhile. */
export const turnHearMs = 4;
/** Tenants that a thread keeps in its rounds without a call of theirs. */
const turnTenantsIdleMax = 10_000;

/** A thread that has done nothing for longer has heard every event that was there to be heard. */
const pauseMs = 0.2;

interface Tenant {
  readonly acts: (() => void)[];
  /** Milliseconds of the thread that the tenant may still have in this round. */
  deficit: number;
}

export class FairTurns {
  readonly #world: Pick<World, "monotonicMs" | "soon">;
  /** In the order in which they are served. */
  readonly #fresh = new Map<string, Tenant>();
  readonly #known = new Map<string, Tenant>();
  #waiting = 0;
  /** Whether acts wait for a turn of the loop, or one runs. */
  #busy = false;
  /** Since when acts have followed each other without a pause, and when the last one ended. */
  #sinceMs = -Infinity;
  #endedMs = -Infinity;

  constructor(world: Pick<World, "monotonicMs" | "soon">) {
    this.#world = world;
  }

  /** Runs the act when it is the tenant's turn: at once when no other is before it. */
  take(name: string, act: () => void): void {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#endedMs > pauseMs) this.#sinceMs = nowMs;
    // No act is before it: most acts are short and come one at a time, and cost no entry.
    if (!this.#busy && nowMs - this.#sinceMs < turnHearMs) return this.#runNow(name, act, nowMs);
    this.#waiting++;
    this.#tenant(name).acts.push(act);
    if (this.#busy) return;
    this.#busy = true;
    this.#world.soon(() => this.#serve());
  }

  #tenant(name: string): Tenant {
    const found = this.#fresh.get(name) ?? this.#known.get(name);
    if (found) return found;
    const tenant = { acts: [], deficit: turnQuantumMs };
    this.#fresh.set(name, tenant);
    return tenant;
  }

  #runNow(name: string, act: () => void, begunMs: number): void {
    this.#busy = true;
    try {
      act();
    } finally {
      this.#endedMs = this.#world.monotonicMs();
      const tookMs = this.#endedMs - begunMs;
      if (tookMs > turnQuantumMs) this.#charge(this.#tenant(name), tookMs);
      if (this.#waiting > 0) this.#world.soon(() => this.#serve());
      else this.#busy = false;
    }
  }

  /** Runs everything that waits, in whatever turn. */
  flush(): void {
    for (let act = this.#next(); act; act = this.#next()) act();
  }

  #serve(): void {
    const begunMs = (this.#sinceMs = this.#world.monotonicMs());
    try {
      for (let act = this.#next(); act; act = this.#next()) {
        act();
        if (this.#waiting > 0 && this.#endedMs - begunMs >= turnHearMs) return this.#world.soon(() => this.#serve());
      }
      this.#busy = false;
    } catch (error) {
      // What waits is still served.
      this.#world.soon(() => this.#serve());
      throw error;
    }
  }

  /** The act whose turn it is, which charges its tenant. */
  #next(): (() => void) | undefined {
    while (this.#waiting > 0) {
      const isFresh = this.#fresh.size > 0;
      const list = isFresh ? this.#fresh : this.#known;
      const [name, tenant] = list.entries().next().value!;
      const act = tenant.deficit > 0 ? tenant.acts.shift() : undefined;
      if (act) {
        this.#waiting--;
        return () => this.#charged(tenant, act);
      }
      list.delete(name);
      // A tenant that has nothing to do is not forgotten at once, or it would be new again with its next call.
      if (!isFresh && tenant.deficit > 0) continue;
      if (tenant.deficit <= 0) tenant.deficit += turnQuantumMs;
      this.#known.set(name, tenant);
    }
    this.#evictIdle();
    return undefined;
  }

  #charged(tenant: Tenant, act: () => void): void {
    const begunMs = this.#world.monotonicMs();
    try {
      act();
    } finally {
      this.#endedMs = this.#world.monotonicMs();
      this.#charge(tenant, this.#endedMs - begunMs);
    }
  }

  #charge(tenant: Tenant, tookMs: number): void {
    tenant.deficit = Math.max(-turnDebtMsMax, tenant.deficit - Math.max(turnCallMs, tookMs));
  }

  /** No tenant has an act: those that were here longest ago are forgotten when there are too many. */
  #evictIdle(): void {
    for (const list of [this.#fresh, this.#known]) {
      for (const name of list.keys()) {
        if (this.#fresh.size + this.#known.size <= turnTenantsIdleMax) return;
        list.delete(name);
      }
    }
  }
}
