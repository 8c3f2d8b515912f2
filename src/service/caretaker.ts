/**
 * What a node does for the databases of others: it purges its copies when an erasure waits for them, and those of
 * databases that are deleted; and it takes up deletions whose objects are still to be removed.
 *
 * Always true: an order goes only after the engine has said what it did; what fails is done again at the next
 * look. A node that starts begins by this, so that it serves nothing that was ordered away while it was down. Two nodes
 * that take up one deletion do no harm: what is removed is never written again. Must not know: what was erased.
 */
import { codeOf, ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import { Recent } from "../base/recent.ts";
import { Rounds } from "../base/rounds.ts";
import { sleep, type World } from "../base/world.ts";
import type { CopyRecords } from "../control/copy-records.ts";
import type { Databases } from "../control/databases.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { EngineClient } from "../engine/client.ts";
import { mainBranch } from "../format/names.ts";
import type { CopyPlace } from "../format/object-keys.ts";

export interface CaretakerParts {
  readonly world: World;
  readonly log: Log;
  readonly engine: EnginePort;
  readonly databases: Databases;
  /** Absent where this node is alone: then all of it is its own. */
  readonly cluster?: CaretakerCluster | undefined;
}

export interface CaretakerCluster {
  /** This node's own engine. */
  readonly local: Pick<EngineClient, "purgeCopies">;
  readonly copies: CopyRecords;
  readonly nodeId: string;
  /** Whether this node is the one to do the jobs of the database. */
  readonly tends: (uuid: string) => Promise<boolean>;
}

export class Caretaker {
  readonly #parts: CaretakerParts;
  /** Deleted databases of which this node has nothing any more. */
  readonly #purged = new Recent<string, true>(limits.copiesRememberedMax);
  /** Deleted databases whose objects this node has undertaken to remove. */
  readonly #dropped = new Recent<string, true>(limits.copiesRememberedMax);
  readonly #rounds: Rounds;

  constructor(parts: CaretakerParts) {
    this.#parts = parts;
    // A node that is alone is told of every deletion, and of no order.
    this.#rounds = new Rounds({ world: parts.world, pauseMs: parts.cluster ? limits.caretakerMs : limits.auditSweepMs, round: () => this.look() });
  }

  /** Carries out what was ordered while the node was down, for a while, and looks after it from now on. One that is alone waits for nothing. */
  async start(): Promise<void> {
    const { world, cluster } = this.#parts;
    const first = this.#rounds.start();
    if (cluster) await Promise.race([first, sleep(world, limits.caretakerStartMs)]);
  }

  /** Begins nothing more, and waits a moment for what is under way. */
  async close(): Promise<void> {
    await this.#rounds.close(limits.erasureStopMs);
  }

  /** One look at everything. Gives whether all of it could be done. */
  async look(): Promise<boolean> {
    const ordered = await this.#told("copies that are to be purged could not be looked for", () => this.#carryOutOrders());
    const deleted = await this.#told("deleted databases could not be looked for", () => this.#takeUpDeletions());
    return ordered && deleted;
  }

  async #carryOutOrders(): Promise<void> {
    const { cluster } = this.#parts;
    if (!cluster) return;
    const byDatabase = new Map<string, CopyPlace[]>();
    let count = 0;
    for await (const place of cluster.copies.orders(cluster.nodeId)) {
      byDatabase.set(place.uuid, [...(byDatabase.get(place.uuid) ?? []), place]);
      if (++count >= limits.copyOrdersMax) break;
    }
    for (const [uuid, places] of byDatabase) {
      if (this.#rounds.closing) return;
      await this.#told("this node's copies of a database could not be purged yet", async () => {
        await this.#purge(uuid, cluster);
        // Where nothing was purged this node writes the database and cleans it itself; whoever does so next orders anew.
        for (const place of places) await cluster.copies.fulfilled(place);
      }, uuid);
    }
  }

  async #takeUpDeletions(): Promise<void> {
    const { cluster, databases, engine, log } = this.#parts;
    for (const uuid of await databases.deletedUuids()) {
      if (this.#rounds.closing) return;
      await this.#told("a deleted database could not be taken care of yet", async () => {
        if (!this.#dropped.has(uuid) && (!cluster || (await cluster.tends(uuid)))) {
          await engine.drop({ uuid, branch: mainBranch }, { deadlineMs: this.#soon() });
          this.#dropped.set(uuid, true);
          log.info("a deleted database is being purged", { uuid });
        } else if (cluster && !this.#purged.has(uuid) && !this.#dropped.has(uuid)) {
          if (await this.#purge(uuid, cluster)) this.#purged.set(uuid, true);
        }
      }, uuid);
    }
  }

  #purge(uuid: string, { local }: CaretakerCluster): Promise<boolean> {
    return local.purgeCopies(uuid, { deadlineMs: this.#soon() });
  }

  #soon(): number {
    return this.#parts.world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000;
  }

  /** Whether it was done; what could not be is said, and tried again. */
  async #told(words: string, act: () => Promise<void>, uuid?: string): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (error) {
      const { log } = this.#parts;
      const fields = uuid === undefined ? {} : { uuid };
      if (error instanceof ServiceError || error instanceof StoreError) log.warn(`${words}; tried again`, { ...fields, code: codeOf(error) });
      else log.error(`${words}; tried again`, error, fields);
      return false;
    }
  }
}
