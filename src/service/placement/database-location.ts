/**
 * Where a database is held, or is to be held: finds out which node that is, and takes the database when it is this one.
 *
 * Owns: the searches under way, the nodes that are avoided for a while, and whether this node may take databases at
 * all. Always true: callers that want one database while it is looked for share the search; a database is taken here
 * only under a live lease of a node that is not leaving. Must not know: calls, and how they get to another node.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import { TurnedAway } from "../../engine/api/engine-port.ts";
import type { LeaseSpan } from "../../engine/api/lease-expiry.ts";
import type { Holder } from "../../store/port/leases.ts";
import type { OwnedDatabases } from "./owned-databases.ts";
import { Unreachable } from "./peers.ts";
import { Rendezvous } from "./rendezvous.ts";
import { RouteCache, type RouteCacheParts } from "./route-cache.ts";

/**
 * How long object storage is given to say whether a database was ever written; otherwise it is taken for one that
 * was.
 */
const unwrittenLookMs = 1_000;
/** A node that could not be reached, or would not take a database, is not chosen for another so soon. */
const shunMs = 2_000;
const shunnedNodesMax = 1_000;

/** What places are found with. */
export interface DatabaseLocationsParts extends RouteCacheParts {
  /** Whether nobody ever wrote the database, as object storage has it. */
  readonly isUnwritten: (uuid: string) => Promise<boolean>;
}

/** The node that is to run a call; without a lease epoch it is to take the database first. */
export interface Elsewhere extends Omit<Holder, "leaseEpoch"> {
  readonly leaseEpoch: number | undefined;
}

/** Where a call is to run. */
export type Place = { readonly here: true; readonly leaseEpoch: number } | ({ readonly here: false } & Elsewhere);

/** The places of all databases, as one node sees them. */
export class DatabaseLocations {
  readonly #parts: DatabaseLocationsParts;
  readonly #held: OwnedDatabases;
  readonly #routes: RouteCache;
  readonly #searches = new Map<string, Promise<Place | undefined>>();
  /** Nodes that could not be reached or would not take a database, and until when others are preferred. */
  readonly #shunnedUntil = new LruMap<string, number>(shunnedNodesMax);
  #rendezvous = new Rendezvous([]);
  #lease: LeaseSpan | undefined;
  #isLeaving = false;

  constructor(parts: DatabaseLocationsParts, held: OwnedDatabases) {
    this.#parts = parts;
    this.#held = held;
    this.#routes = new RouteCache(parts);
  }

  /** Whether this node's lease certainly holds now. */
  get isLeased(): boolean {
    const { world } = this.#parts;
    return (
      this.#lease !== undefined && world.monotonicMs() < this.#lease.monotonicMs && world.wallMs() < this.#lease.wallMs
    );
  }

  /** The node's lease holds until then: it may take databases. */
  renewed(until: LeaseSpan): void {
    this.#lease = until;
  }

  /** The node's lease is gone, and every database with it. */
  lost(): void {
    this.#lease = undefined;
    this.#held.lost();
  }

  /** Lets other nodes have everything, and takes nothing any more. */
  async handOver(): Promise<void> {
    this.#isLeaving = true;
    await this.#held.releaseAll();
  }

  /** Where the database is as far as this node knows; undefined when it must be looked for. */
  known(uuid: string): Place | undefined {
    const leaseEpoch = this.#held.use(uuid);
    if (leaseEpoch !== undefined) return { here: true, leaseEpoch };
    const holder = this.#routes.to(uuid);
    return holder && { here: false, ...holder };
  }

  /** Looks for the place, and takes the database if it is to be here. Undefined when it is to be looked for again. */
  async find(uuid: string, deadlineMs: number): Promise<Place | undefined> {
    try {
      return await this.#byDeadline(this.#shared(uuid), deadlineMs);
    } catch (error) {
      // The lease was lost just now, and a new one is asked for: the next look may find another holder.
      if (error instanceof TurnedAway) return undefined;
      throw toSearchRefusal(error);
    }
  }

  /** Takes the database for a call of another node, if it is to be here; gives the lease epoch. */
  takeFor(uuid: string, leaseEpoch: number | undefined, deadlineMs: number): Promise<number | undefined> {
    return this.#byDeadline(this.#takeFor(uuid, leaseEpoch), deadlineMs);
  }

  /** The call had no effect there, and the next one need not be tried in vain. */
  failed(uuid: string, place: Place, error: TurnedAway | Unreachable): void {
    if (place.here) return this.#held.forget(uuid, place.leaseEpoch);
    this.#routes.forget(uuid, place);
    if (error instanceof Unreachable || place.leaseEpoch === undefined)
      this.#shunnedUntil.set(place.nodeId, this.#parts.world.monotonicMs() + shunMs);
  }

  /** The database is not here any more, and nothing is known of who else has it. */
  forget(uuid: string): void {
    this.#held.forget(uuid);
    this.#routes.forget(uuid);
  }

  /** Whether this node may take databases. */
  get #mayTake(): boolean {
    return this.#lease !== undefined && !this.#isLeaving;
  }

  /**
   * Asks the leases where the database is, and takes it if it is to be here. All callers meanwhile share this, and go
   * on in the order in which they came.
   */
  #shared(uuid: string): Promise<Place | undefined> {
    const begun = this.#searches.get(uuid);
    if (begun) return begun;
    const searching = this.#search(uuid).finally(() => this.#searches.delete(uuid));
    this.#searches.set(uuid, searching);
    return searching;
  }

  async #search(uuid: string): Promise<Place | undefined> {
    const { leases, nodeId, world } = this.#parts;
    await this.#held.waitUntilReleased(uuid);
    const { holder } = await leases.holding(uuid);
    if (holder && holder.nodeId !== nodeId) return this.#routeTo(uuid, holder);
    // A lease that points here, though nothing is known of it: as after a restart, or when an engine was started anew.
    if (this.#mayTake && holder) return this.#take(uuid);
    const nowMs = world.monotonicMs();
    const preferred = (await this.#order()).first(uuid, ({ id }) =>
      id === nodeId ? this.#mayTake : (this.#shunnedUntil.peek(id) ?? 0) <= nowMs,
    );
    // A database that was never written is taken where it is first asked for.
    if (preferred?.id === nodeId || (this.#mayTake && (await this.#isUnwritten(uuid)))) return this.#take(uuid);
    if (preferred) return { here: false, nodeId: preferred.id, address: preferred.address, leaseEpoch: undefined };
    if (this.#isLeaving) throw unavailable("the node is shutting down, and there is no other");
    return undefined;
  }

  /** What is known of the live nodes; worked out anew only when they have changed. */
  async #order(): Promise<Rendezvous> {
    const nodes = await this.#parts.leases.nodes();
    if (this.#rendezvous.nodes !== nodes) this.#rendezvous = new Rendezvous(nodes);
    return this.#rendezvous;
  }

  /** A store that does not say in time leaves the database to the preferred node. */
  async #isUnwritten(uuid: string): Promise<boolean> {
    const { world, isUnwritten } = this.#parts;
    try {
      return await within(world, unwrittenLookMs, () => isUnwritten(uuid));
    } catch (error) {
      if (error instanceof StoreError || error instanceof TimeUp) return false;
      throw error;
    }
  }

  async #take(uuid: string): Promise<Place> {
    const acquisition = await this.#held.take(uuid);
    return acquisition.kind === "held"
      ? this.#routeTo(uuid, acquisition.by)
      : { here: true, leaseEpoch: acquisition.leaseEpoch };
  }

  async #takeFor(uuid: string, leaseEpoch: number | undefined): Promise<number | undefined> {
    if (!this.#mayTake) return undefined;
    try {
      const place = await (leaseEpoch === undefined ? this.#take(uuid) : this.#shared(uuid));
      return place?.here ? place.leaseEpoch : undefined;
    } catch (error) {
      // The sender itself finds out what the coordination store says, if it answers.
      if (error instanceof StoreError || error instanceof TurnedAway) return undefined;
      throw toSearchRefusal(error);
    }
  }

  #routeTo(uuid: string, holder: Holder): Place {
    this.#routes.note(uuid, holder);
    return { here: false, ...holder };
  }

  async #byDeadline<Value>(found: Promise<Value>, deadlineMs: number): Promise<Value> {
    const { world } = this.#parts;
    const leftMs = deadlineMs - world.monotonicMs();
    if (leftMs === Infinity) return found;
    try {
      return await within(world, leftMs, () => found);
    } catch (error) {
      throw error instanceof TimeUp ? unavailable("it was not found out in time which node holds the database") : error;
    }
  }
}

/** The refusal of a call for which there is no place now; its caller had better come again. */
export function unavailable(message: string): ServiceError {
  return new ServiceError("unavailable", message, { retryAfterSecs: limits.retryAfterSecsMin });
}

/** The call itself was never begun, whatever went wrong while a place was looked for. */
function toSearchRefusal(error: unknown): unknown {
  if (error instanceof StoreError)
    return unavailable("it cannot be found out which node holds the database: the coordination store does not answer");
  if (error instanceof ServiceError && error.code === "request_timeout")
    return unavailable("the database could not be taken over in time");
  return error;
}
