/**
 * Which other node was last known to hold a database.
 *
 * A route need not be right: a holder that lost the database turns calls away, and its route is forgotten. One that
 * hangs says nothing, so a route is looked up again now and then, beside the call that uses it: no call waits for that,
 * and while the coordination store does not answer, routes stay as good as they were.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { Holder, Leases } from "../../store/port/leases.ts";

/** A route this old is looked up again, beside the call: a holder that hangs does not say that it lost the database. */
export const routeFreshMs = 5_000;

export interface RouteCacheParts {
  readonly leases: Leases;
  readonly world: World;
  readonly log: Log;
  readonly nodeId: string;
}

interface Route {
  readonly holder: Holder;
  lookedAtMs: number;
}

export class RouteCache {
  readonly #parts: RouteCacheParts;
  readonly #routes = new LruMap<string, Route>(limits.routesMax);

  constructor(parts: RouteCacheParts) {
    this.#parts = parts;
  }

  /** The database's holder, as far as it is remembered. */
  to(uuid: string): Holder | undefined {
    const route = this.#routes.get(uuid);
    if (!route) return undefined;
    const nowMs = this.#parts.world.monotonicMs();
    if (nowMs - route.lookedAtMs >= routeFreshMs) {
      route.lookedAtMs = nowMs;
      void this.#lookAgain(uuid, route);
    }
    return route.holder;
  }

  /** The database was found to be held there just now. */
  note(uuid: string, holder: Holder): void {
    this.#routes.set(uuid, { holder, lookedAtMs: this.#parts.world.monotonicMs() });
  }

  /** Forgets the route, or only one that leads to this node under this lease epoch. */
  forget(uuid: string, place?: { readonly nodeId: string; readonly leaseEpoch: number | undefined }): void {
    const holder = this.#routes.peek(uuid)?.holder;
    if (!place || (holder?.nodeId === place.nodeId && holder.leaseEpoch === place.leaseEpoch))
      this.#routes.delete(uuid);
  }

  async #lookAgain(uuid: string, route: Route): Promise<void> {
    const { leases, nodeId, log } = this.#parts;
    try {
      const { holder } = await leases.holding(uuid);
      if (this.#routes.peek(uuid) !== route) return;
      if (holder && holder.nodeId !== nodeId) this.note(uuid, holder);
      else this.#routes.delete(uuid);
    } catch (error) {
      // The route is as good as it ever was.
      if (!(error instanceof StoreError))
        log.error("the holder of a database was not looked up again", error, { uuid });
    }
  }
}
