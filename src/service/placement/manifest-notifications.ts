/**
 * Notifications that manifests have moved: which other node is asked for them, and which ones get them.
 *
 * Always true: a notification only saves time. One that is lost, doubled or late makes no read wrong, as a follower of
 * a database looks at its manifest now and then anyway.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import type { Leases } from "../../store/port/leases.ts";
import type { Peers } from "./peers.ts";

export interface ManifestNotificationsParts {
  readonly local: EngineClient;
  readonly leases: Leases;
  readonly peers: Peers;
  readonly world: World;
  readonly log: Log;
  readonly nodeId: string;
}

export class ManifestNotifications {
  readonly #parts: ManifestNotificationsParts;
  /** When the holder of a database was last asked. */
  readonly #askedAt = new LruMap<string, number>(limits.routesMax);
  /** The callbacks of a database's followers. */
  readonly #followers = new Map<string, Set<() => void>>();

  constructor(parts: ManifestNotificationsParts) {
    this.#parts = parts;
  }

  /** The database is read here from a copy: its holder is asked for notifications, as often as that is needed. */
  ask(uuid: string): void {
    const nowMs = this.#parts.world.monotonicMs();
    if (nowMs - (this.#askedAt.get(uuid) ?? -Infinity) < limits.followMs / 2) return;
    this.#askedAt.set(uuid, nowMs);
    void this.#askHolder(uuid);
  }

  /**
   * Another node wants notifications of the database, until the returned end. The engine ships what is followed sooner.
   */
  give(uuid: string, notify: () => void): () => void {
    const followers = this.#followers.get(uuid) ?? new Set();
    this.#followers.set(uuid, followers.add(notify));
    if (followers.size === 1) this.#parts.local.followed(uuid);
    return () => {
      if (!followers.delete(notify) || followers.size > 0) return;
      this.#followers.delete(uuid);
      this.#parts.local.followed(uuid, false);
    };
  }

  /** A manifest of the database has landed. */
  moved(uuid: string): void {
    for (const notify of this.#followers.get(uuid) ?? []) notify();
  }

  async #askHolder(uuid: string): Promise<void> {
    const { leases, peers, nodeId, log } = this.#parts;
    try {
      const { holder } = await leases.holding(uuid);
      if (holder && holder.nodeId !== nodeId) peers.follow(holder.address, uuid);
    } catch (error) {
      // While the coordination store does not answer there are no new notifications, and that is all.
      if (!(error instanceof StoreError))
        log.error("the holder of a database was not asked for hints", error, { uuid });
    }
  }
}
