/** Whether a node can serve, from what its parts say. */
import type { AlarmCounts } from "../../engine/api/alarms.ts";
import { buildChecks, type Readiness } from "./health.ts";
import type { StoreHealth } from "./store-health.ts";

export interface NodeReadinessParts {
  readonly storeHealth: StoreHealth;
  readonly hasSql: boolean;
  readonly clock: { readonly isDoubted: boolean };
  readonly engine: { readonly alarms: AlarmCounts };
  /** Undefined on a node without others. */
  readonly leases: { readonly isLeased: boolean } | undefined;
}

export class NodeReadiness {
  /** Whether the other nodes, where there are any, know of this one. */
  joined: boolean;
  draining = false;
  readonly #parts: NodeReadinessParts;

  constructor(parts: NodeReadinessParts) {
    this.#parts = parts;
    this.joined = parts.leases === undefined;
  }

  /** A node without its lease still answers what can be read, and sends the rest to nodes that have theirs. */
  get now(): Readiness {
    const { storeHealth, hasSql, clock, engine, leases } = this.#parts;
    const { ready, checks } = storeHealth.readiness;
    return {
      ready: this.joined && !this.draining && ready,
      checks: {
        node: this.draining ? "draining" : this.joined ? "ok" : "starting",
        sql: hasSql ? "ok" : "unconfigured",
        ...checks,
        ...(clock.isDoubted && { clock: "doubted" }),
        ...(leases && { lease: leases.isLeased ? "ok" : "lapsed" }),
        ...buildChecks(engine.alarms),
      },
    };
  }
}
