/**
 * How long the databases of this thread keep things, by the newest call of each.
 *
 * Always true: the point-in-time window is never longer than the node's own. A database without a call since the thread
 * began, or for very long, has the node's bounds: so nothing is removed too early.
 */
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { Retention, Target } from "../api/protocol.ts";

export class Retentions {
  readonly #nodePitrMs: number;
  /** By uuid. */
  readonly #held = new LruMap<string, Retention>(limits.retentionsHeldMax);
  /** Names of databases, by uuid. */
  readonly #names = new LruMap<string, string>(limits.retentionsHeldMax);

  constructor(nodePitrMs: number) {
    this.#nodePitrMs = nodePitrMs;
  }

  /** Takes in what a call says of its database. */
  note({ uuid, retention, database }: Target): void {
    if (retention) this.#held.set(uuid, retention);
    if (database !== undefined) this.#names.set(uuid, database);
  }

  /** The name under which the database was called last. */
  findName(uuid: string): string | undefined {
    return this.#names.peek(uuid);
  }

  of(uuid: string): Retention | undefined {
    return this.#held.peek(uuid);
  }

  /** How far back the database's states can be restored. */
  pitrMs(uuid: string): number {
    return Math.min(this.#nodePitrMs, this.#held.peek(uuid)?.pitrMs ?? Infinity);
  }
}
