/** What tenants have used of something of late: milliseconds that fade, so that nobody is held to what was long ago. */
import { limits } from "../../base/limits/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";

interface Used {
  readonly ms: number;
  readonly atMs: number;
}

export class Usage {
  readonly #world: Pick<World, "monotonicMs">;
  readonly #used = new LruMap<string, Used>(limits.sqlUsageTenantsMax);

  constructor(world: Pick<World, "monotonicMs">) {
    this.#world = world;
  }

  add(tenant: string, ms: number): void {
    this.#used.set(tenant, { ms: this.of(tenant) + ms, atMs: this.#world.monotonicMs() });
  }

  /** Milliseconds, those of `sqlUsageHalfMs` ago counting half. */
  of(tenant: string): number {
    const used = this.#used.peek(tenant);
    return used ? used.ms * 2 ** ((used.atMs - this.#world.monotonicMs()) / limits.sqlUsageHalfMs) : 0;
  }
}
