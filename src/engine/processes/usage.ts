/**
 * What tenants have recently used of something: milliseconds that fade, so that use of long ago counts against no
 * tenant.
 */
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";

/** A tenant's use of the processes fades: by half in this time. */
const sqlUsageHalfMs = 5_000;
/** Tenants whose use is remembered; of more, the most recent ones. */
const sqlUsageTenantsMax = 10_000;

interface Used {
  readonly ms: number;
  readonly atMs: number;
}

export class Usage {
  readonly #world: Pick<World, "monotonicMs">;
  readonly #used = new LruMap<string, Used>(sqlUsageTenantsMax);

  constructor(world: Pick<World, "monotonicMs">) {
    this.#world = world;
  }

  add(tenant: string, ms: number): void {
    this.#used.set(tenant, { ms: this.of(tenant) + ms, atMs: this.#world.monotonicMs() });
  }

  /** Milliseconds, those of `sqlUsageHalfMs` ago counting half. */
  of(tenant: string): number {
    const used = this.#used.peek(tenant);
    return used ? used.ms * 2 ** ((used.atMs - this.#world.monotonicMs()) / sqlUsageHalfMs) : 0;
  }
}
