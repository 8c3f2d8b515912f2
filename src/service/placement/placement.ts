/**
 * Where a call runs: on this node's own engine, or on the node that holds the database.
 *
 * Always true:
 * - a database is written only where its lease is held
 * - a call that came from another node is never sent on
 * - a call is tried again only when it has provably had no effect
 *
 * Plain reads are answered from this node's own copy. A remembered route need not be right: a node asked in vain says
 * so. Whatever this node believes, safety is the manifest's compare-and-set (engine/history/manifest-writer). Must not
 * know how a place is found (service/placement/database-location), what carries calls between nodes, nor what
 * coordinates them.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { parseTraceparent, formatTraceparent } from "../../base/trace.ts";
import { sleep } from "../../base/world.ts";
import type { Told } from "../../engine/threads/client.ts";
import { EnginePort, TurnedAway, type CallOptions, type PortCall } from "../../engine/api/engine-port.ts";
import type { LeaseSpan } from "../../engine/api/lease-expiry.ts";
import type { Answer, Target } from "../../engine/api/protocol.ts";
import type { LeaseEvents } from "../../store/port/leases.ts";
import { OwnedDatabases } from "./owned-databases.ts";
import { ManifestNotifications, type ManifestNotificationsParts } from "./manifest-notifications.ts";
import { Unreachable, type ForwardedCall, type PeerHost } from "./peers.ts";
import { DatabaseLocations, unavailable, type Elsewhere, type DatabaseLocationsParts } from "./database-location.ts";

/** How often a call that no node takes is tried, if its time allows: about a minute with the pauses. */
const placementTriesMax = 64;
const placementPauseMsMin = 50;
const placementPauseMsMax = 1_000;

/** What a placement works with. It is the only one that the engine may `tell`. */
export interface PlacementParts extends ManifestNotificationsParts, DatabaseLocationsParts {}

/** The engines of all nodes as one: every call runs where its database is. */
export class Placement extends EnginePort implements PeerHost {
  readonly #parts: PlacementParts;
  readonly #held: OwnedDatabases;
  readonly #notifications: ManifestNotifications;
  readonly #places: DatabaseLocations;
  /**
   * How far the answers of writers went that this node has handed on, by branch: plain reads do not go back behind
   * them.
   */
  readonly #shown = new LruMap<string, number>(limits.routesMax);
  #usedMs = -Infinity;
  #onNudge = (): void => {};

  constructor(parts: PlacementParts) {
    super();
    this.#parts = parts;
    this.#held = new OwnedDatabases(parts);
    this.#notifications = new ManifestNotifications(parts);
    this.#places = new DatabaseLocations(parts, this.#held);
    parts.local.tell((message) => this.#hear(message));
  }

  /** What the lease adapter of this node is to tell. */
  get leaseEvents(): LeaseEvents {
    return { renewed: (until) => this.#renewed(until), lost: () => this.lost() };
  }

  /** Whether this node's lease certainly holds now. */
  get isLeased(): boolean {
    return this.#places.isLeased;
  }

  /** When this node was last asked to do something with a database, on world.monotonicMs(). */
  get usedMs(): number {
    return this.#usedMs;
  }

  /** How many databases this node holds. */
  get heldCount(): number {
    return this.#held.size;
  }

  async run(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    const { uuid } = target;
    this.#usedMs = this.#parts.world.monotonicMs();
    if (call.kind === "drop") return this.#deleteTarget(target, call, options);
    const leaseEpoch = this.#held.use(uuid);
    const isCopyEnough = (call.kind === "read" || call.kind === "sql-read") && options.consistency !== "primary";
    if (leaseEpoch === undefined)
      return isCopyEnough ? this.#runAtCopy(target, call, options) : this.#runAtWriter(target, call, options);
    try {
      return await this.#parts.local.run(target, call, options);
    } catch (error) {
      if (!(error instanceof TurnedAway)) throw error;
      this.#held.forget(uuid, leaseEpoch);
      return this.#runAtWriter(target, call, options);
    }
  }

  async serve(forwarded: ForwardedCall): Promise<Answer> {
    const {
      target,
      call,
      term: leaseEpoch,
      budgetMs,
      minTxid,
      bytes,
      durable,
      consistency,
      caller,
      traceparent,
    } = forwarded;
    const { local, world } = this.#parts;
    this.#usedMs = world.monotonicMs();
    const options = {
      deadlineMs: world.monotonicMs() + budgetMs,
      minTxid,
      bytes,
      durable,
      consistency,
      caller,
      trace: parseTraceparent(traceparent),
    };
    if (call.kind === "drop") {
      this.#held.forget(target.uuid);
      return local.run(target, call, options);
    }
    const held = this.#held.use(target.uuid);
    if (held !== undefined && leaseEpoch !== undefined && held !== leaseEpoch) throw new TurnedAway("unheld");
    const own = held ?? (await this.#places.takeFor(target.uuid, leaseEpoch, options.deadlineMs));
    if (own === undefined) throw new TurnedAway("unheld");
    try {
      return await local.run(target, call, options);
    } catch (error) {
      if (error instanceof TurnedAway) this.#held.forget(target.uuid, own);
      throw error;
    }
  }

  followed(uuid: string, notify: () => void): () => void {
    return this.#notifications.give(uuid, notify);
  }

  hinted(uuid: string): void {
    this.#parts.local.notify(uuid);
  }

  nudged(): void {
    this.#onNudge();
  }

  /** Sets what is done when another node says that there is something here to look for. */
  whenNudged(look: () => void): void {
    this.#onNudge = look;
  }

  /** Has another node look for orders now, if it lives. */
  nudge(nodeId: string): void {
    void this.#nudge(nodeId);
  }

  /** Has every other node look for what was changed here; one that is not reached looks by itself. */
  async nudgeOthers(): Promise<void> {
    const { leases, peers, log, nodeId: own } = this.#parts;
    try {
      for (const { id, address } of await leases.nodes()) if (id !== own) peers.nudge(address);
    } catch (error) {
      if (!(error instanceof StoreError || error instanceof Unreachable))
        log.error("the other nodes were not told of a change", error);
    }
  }

  /** Has the node that writes the database say here when it has changed: for a while, so that it is asked again. */
  follow(uuid: string): void {
    if (!this.#held.has(uuid)) this.#notifications.ask(uuid);
  }

  async #nudge(nodeId: string): Promise<void> {
    const { leases, peers, log, nodeId: own } = this.#parts;
    if (nodeId === own) return this.nudged();
    try {
      const node = (await leases.nodes()).find(({ id }) => id === nodeId);
      if (node) peers.nudge(node.address);
    } catch (error) {
      // It looks by itself.
      if (!(error instanceof StoreError || error instanceof Unreachable))
        log.error("a node was not told of an order", error, { node: nodeId });
    }
  }

  /**
   * Lets other nodes have everything. From now on this node takes no database; calls of its clients go to nodes that
   * do.
   */
  async handOver(): Promise<void> {
    await this.#places.handOver();
  }

  /** Ends this node's lease. Nothing is forwarded any more. */
  async leave(): Promise<void> {
    await this.#parts.leases.leave();
    this.lost();
  }

  /** The node's lease is gone, and every database with it. */
  lost(): void {
    this.#places.lost();
    this.#parts.local.renewLease(undefined);
  }

  #renewed(until: LeaseSpan): void {
    this.#places.renewed(until);
    this.#parts.local.renewLease(until);
  }

  #hear(message: Told): void {
    if (message.kind === "shipped") return this.#notifications.moved(message.uuid);
    this.#parts.log.warn("another node has claimed a database that this node held", {
      uuid: message.uuid,
      leaseEpoch: message.leaseEpoch,
    });
    void this.#held.fenced(message.uuid, message.leaseEpoch);
  }

  /** Runs the call where the database is held, wherever that is; asks again for as long as no node takes the call. */
  async #runAtWriter(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    for (let tries = 0; await this.#mayTry(tries, options); tries++) {
      const answer = await this.#tryAtWriter(target, call, options);
      if (answer) return answer;
    }
    throw unavailable("no node that could write the database took the call in time");
  }

  /**
   * Reads from this node's own copy; while that is too old for the call and its writer does not answer, it may still
   * become new enough.
   */
  async #runAtCopy(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    this.#notifications.ask(target.uuid);
    const answer = await this.#runNotBack(target, call, options);
    if (answer) return answer;
    let refusal = unavailable(
      "this node's copy of the database is too old, and its writer did not take the call in time",
    );
    for (let tries = 0; await this.#mayTry(tries, options); tries++) {
      try {
        return await this.#parts.local.run(target, call, options);
      } catch (error) {
        if (!(error instanceof TurnedAway)) throw error;
      }
      try {
        const answer = await this.#tryAtWriter(target, call, options);
        if (answer) return answer;
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "unavailable") throw error;
        refusal = error;
      }
    }
    throw refusal;
  }

  /**
   * A plain read after one that was answered by the writer: from a copy that is as new, or by the writer again.
   * Undefined when there was none, or when neither is available: then going back is better than no answer.
   */
  async #runNotBack(target: Target, call: PortCall, options: CallOptions): Promise<Answer | undefined> {
    const key = branchKey(target);
    const shownTxid = this.#shown.get(key);
    // A caller that names a transaction id is told whether that very one was lost, which a later one in its place would
    // hide.
    if (shownTxid === undefined || options.minTxid || options.consistency === "cached") return undefined;
    try {
      return await this.#parts.local.run(target, call, { ...options, minTxid: shownTxid });
    } catch (error) {
      if (error instanceof ServiceError && error.code !== "conflict" && error.code !== "invalid_request") throw error;
      // What was shown was lost since, or the branch is another one by now; or the call itself is refused, as it will
      // be again.
      if (error instanceof ServiceError) {
        this.#shown.delete(key);
        return undefined;
      }
      if (!(error instanceof TurnedAway)) throw error;
    }
    try {
      return await this.#tryAtWriter(target, call, options);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== "unavailable") throw error;
      return undefined;
    }
  }

  /** Whether there is time for another try; waits for its turn. */
  async #mayTry(tries: number, { deadlineMs, signal }: CallOptions): Promise<boolean> {
    const { world } = this.#parts;
    const pauseMs = this.#pauseMs(tries);
    if (tries >= placementTriesMax || world.monotonicMs() + pauseMs >= deadlineMs || signal?.aborted) return false;
    if (pauseMs > 0) await sleep(world, pauseMs);
    return true;
  }

  /** The answer of the node that holds the database; undefined when no node took the call. */
  async #tryAtWriter(target: Target, call: PortCall, options: CallOptions): Promise<Answer | undefined> {
    const place = this.#places.known(target.uuid) ?? (await this.#places.find(target.uuid, options.deadlineMs));
    if (!place) return undefined;
    try {
      if (place.here) return await this.#parts.local.run(target, call, options);
      const answer = await this.#forward(place, target, call, options);
      if (call.kind === "read" || call.kind === "sql-read")
        this.#shown.set(branchKey(target), Math.max(answer.txid, this.#shown.peek(branchKey(target)) ?? 0));
      return answer;
    } catch (error) {
      if (!(error instanceof TurnedAway || error instanceof Unreachable)) throw error;
      this.#places.failed(target.uuid, place, error);
      return undefined;
    }
  }

  #forward(place: Elsewhere, target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    const { deadlineMs, minTxid = 0, bytes = 0, durable = false, consistency, caller, trace } = options;
    const budgetMs = deadlineMs - this.#parts.world.monotonicMs();
    const traceparent = trace && formatTraceparent(trace);
    return this.#parts.peers.forward(place.address, {
      target,
      call,
      budgetMs,
      minTxid,
      bytes,
      durable,
      consistency,
      caller,
      traceparent,
      term: place.leaseEpoch,
    });
  }

  /**
   * None before the first repeat, as a stale route is reported at once; then longer and longer, and random, so that a
   * crowd disperses.
   */
  #pauseMs(tries: number): number {
    if (tries < 2) return 0;
    const longest = Math.min(placementPauseMsMax, placementPauseMsMin * 2 ** (tries - 2));
    const [chance = 0] = this.#parts.world.randomBytes(1);
    return longest * (0.5 + chance / 512);
  }

  /** Removes the database here, and where it is held. Elsewhere its catalog shows that it was deleted. */
  async #deleteTarget(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    const { local, leases, nodeId, log } = this.#parts;
    const { uuid } = target;
    const answer = await local.run(target, call, options);
    this.#places.forget(uuid);
    try {
      const { holder } = await leases.holding(uuid);
      if (holder && holder.nodeId !== nodeId) await this.#forward(holder, target, call, options);
      await leases.forget(uuid);
    } catch (error) {
      log.error("a deleted database's holder was not told", error, { uuid });
    }
    return answer;
  }
}

/** Uuids and branch names hold no slash. */
function branchKey({ uuid, branch }: Target): string {
  return `${uuid}/${branch}`;
}
