/**
 * The databases that this node holds the lease of: acquires and releases them.
 *
 * Always true:
 * - the engine is told of a database only after its lease is held, and the lease is released only after the engine has
 *   released the database
 * - of one database one such change is under way at a time, and all callers meanwhile share it
 * - a lost lease ends what was begun under it: no late answer makes this node believe that it holds something
 *
 * Must not know which node should hold a database (service/placement/database-location).
 */
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { EngineClient } from "../../engine/threads/client.ts";
import { TurnedAway } from "../../engine/api/engine-port.ts";
import type { Acquisition, Leases } from "../../store/port/leases.ts";

/** Databases that a node holds; beyond it, the one that was not used for longest is released. */
const heldMax = 50_000;
/** How long an engine has to take a database over, or to ship what there is of it. */
const takeMs = 10_000;
/** Databases that a leaving node releases at once, and how long it goes on with that. */
const handOversAtOnceMax = 32;
const handOverMs = 8_000;

export interface OwnedDatabasesParts {
  readonly local: EngineClient;
  readonly leases: Leases;
  readonly world: World;
  readonly log: Log;
}

export class OwnedDatabases {
  readonly #parts: OwnedDatabasesParts;
  /** The lease epoch of each database; beyond the bound, the one that was not used for longest is given up. */
  readonly #leaseEpochs: LruMap<string, number>;
  readonly #taking = new Map<string, Promise<Acquisition>>();
  readonly #leaving = new Map<string, Promise<void>>();
  /** Counts the losses of the node's lease. */
  #losses = 0;

  constructor(parts: OwnedDatabasesParts, countMax: number = heldMax) {
    this.#parts = parts;
    this.#leaseEpochs = new LruMap(
      countMax,
      (uuid, leaseEpoch) => void this.#begin(this.#leaving, uuid, () => this.#releaseDatabase(uuid, leaseEpoch)),
    );
  }

  get size(): number {
    return this.#leaseEpochs.size;
  }

  /** Whether this node holds the database. */
  has(uuid: string): boolean {
    return this.#leaseEpochs.has(uuid);
  }

  /** The lease epoch under which this node holds the database, which counts as used now; undefined when it does not. */
  use(uuid: string): number | undefined {
    return this.#leaseEpochs.get(uuid);
  }

  /** Resolves when the database, if it is just being released, is released. */
  async waitUntilReleased(uuid: string): Promise<void> {
    await this.#leaving.get(uuid);
  }

  /**
   * Takes the database unless another node holds it. Throws StoreError, TurnedAway when the lease was lost meanwhile,
   * or why the engine could not take it over.
   */
  take(uuid: string): Promise<Acquisition> {
    return this.#begin(this.#taking, uuid, () => this.#take(uuid));
  }

  /** Ships what there is of the database and lets other nodes have it. */
  releaseHeld(uuid: string): Promise<void> {
    return this.#begin(this.#leaving, uuid, async () => {
      // All waiters are told why it could not be taken.
      await Promise.allSettled([this.#taking.get(uuid)]);
      const leaseEpoch = this.#leaseEpochs.peek(uuid);
      if (leaseEpoch === undefined) return;
      this.#leaseEpochs.delete(uuid);
      await this.#releaseDatabase(uuid, leaseEpoch);
    });
  }

  /** Releases everything, also what is being acquired now. Ends after `handOverMs` at the latest. */
  async releaseAll(): Promise<void> {
    const { world } = this.#parts;
    const untilMs = world.monotonicMs() + handOverMs;
    while (this.#leaseEpochs.size + this.#taking.size + this.#leaving.size > 0 && world.monotonicMs() < untilMs) {
      const some = new Set(
        [...this.#leaving.keys(), ...this.#taking.keys(), ...this.#leaseEpochs.keys()].slice(0, handOversAtOnceMax),
      );
      await Promise.all([...some].map((uuid) => this.releaseHeld(uuid)));
    }
  }

  /** The engine does not hold the database under this lease epoch any more, or under any, whatever the lease says. */
  forget(uuid: string, leaseEpoch?: number): void {
    if (leaseEpoch === undefined || this.#leaseEpochs.peek(uuid) === leaseEpoch) this.#leaseEpochs.delete(uuid);
  }

  /** The database's manifest has another node's claim: the lease must not point here. */
  async fenced(uuid: string, leaseEpoch: number): Promise<void> {
    this.forget(uuid, leaseEpoch);
    await this.#release(uuid, leaseEpoch);
  }

  /** The node's lease is lost, and every database with it. */
  lost(): void {
    this.#losses++;
    this.#leaseEpochs.clear();
  }

  /** Begins the change unless it is under way: then all callers wait for the same. */
  #begin<Value>(underWay: Map<string, Promise<Value>>, uuid: string, change: () => Promise<Value>): Promise<Value> {
    const begun = underWay.get(uuid);
    if (begun) return begun;
    const changing = change().finally(() => underWay.delete(uuid));
    underWay.set(uuid, changing);
    return changing;
  }

  async #take(uuid: string): Promise<Acquisition> {
    const { leases, local, world } = this.#parts;
    await this.#leaving.get(uuid);
    const leaseEpoch = this.#leaseEpochs.peek(uuid);
    if (leaseEpoch !== undefined) return { kind: "acquired", leaseEpoch };
    const losses = this.#losses;
    const acquisition = await leases.acquire(uuid);
    if (acquisition.kind === "held") return acquisition;
    if (losses === this.#losses) {
      await local
        .hold(uuid, acquisition.leaseEpoch, { deadlineMs: world.monotonicMs() + takeMs })
        .catch(async (error: unknown) => {
          await this.#releaseDatabase(uuid, acquisition.leaseEpoch);
          throw error;
        });
    }
    if (losses !== this.#losses) {
      // The engine may have heard of the loss before it heard of this database.
      await this.#releaseDatabase(uuid, acquisition.leaseEpoch);
      throw new TurnedAway("unheld");
    }
    this.#leaseEpochs.set(uuid, acquisition.leaseEpoch);
    return acquisition;
  }

  /**
   * Has the engine release the database, and releases its lease. Where the engine cannot ship everything in time, the
   * lease stays for as long as this node lives: another node would take the database without those writes.
   */
  async #releaseDatabase(uuid: string, leaseEpoch: number): Promise<void> {
    const { local, log, world } = this.#parts;
    try {
      await local.releaseDatabase(uuid, { deadlineMs: world.monotonicMs() + takeMs });
    } catch (error) {
      log.error("a database could not be handed over, and its lease is kept", error, { uuid });
      return;
    }
    await this.#release(uuid, leaseEpoch);
  }

  /** A lease that points here in vain is found out by the next call, which takes the database again. */
  async #release(uuid: string, leaseEpoch: number): Promise<void> {
    try {
      await this.#parts.leases.release(uuid, leaseEpoch);
    } catch (error) {
      this.#parts.log.error("the lease of a database was not released", error, { uuid });
    }
  }
}
