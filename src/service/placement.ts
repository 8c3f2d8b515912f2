/**
 * Where a call runs: on this node's own engine, or on the node that holds the database.
 *
 * Always true: a database is written only where its lease is held; a call that came from another node is never sent on;
 * a call is tried again only when it has provably had no effect. Plain reads are answered from this node's own copy.
 * A remembered route need not be right: whoever is asked in vain says so. Whatever this node believes, safety is the
 * head's compare-and-set (engine/branch-head). Must not know what carries calls between nodes, nor what coordinates them.
 */
import { ServiceError, StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { Recent } from "../base/recent.ts";
import { traceOf, traceparentOf } from "../base/trace.ts";
import { sleep } from "../base/world.ts";
import type { Told } from "../engine/client.ts";
import { EnginePort, TurnedAway, type CallOptions, type PortCall } from "../engine/engine-port.ts";
import type { LeaseSpan } from "../engine/holdings.ts";
import type { Answer, Target } from "../engine/protocol.ts";
import type { Holder, LeaseEvents } from "../store/leases.ts";
import { TimeUp, within } from "../base/time-limit.ts";
import { Held } from "./held.ts";
import { Hints, type HintsParts } from "./hints.ts";
import { Unreachable, type ForwardedCall, type PeerHost } from "./peers.ts";
import { Rendezvous } from "./rendezvous.ts";
import { Routes } from "./routes.ts";

/** What a placement works with. It is the only one that the engine may `tell`. */
export interface PlacementParts extends HintsParts {
  /** Whether nobody ever wrote the database, as object storage has it. */
  readonly isUnwritten: (uuid: string) => Promise<boolean>;
}

/** The node that is to run a call; without a term it is to take the database first. */
interface Elsewhere extends Omit<Holder, "term"> {
  readonly term: number | undefined;
}

/** Where a call is to run. */
type Place = { readonly here: true; readonly term: number } | ({ readonly here: false } & Elsewhere);

export class Placement extends EnginePort implements PeerHost {
  readonly #parts: PlacementParts;
  readonly #held: Held;
  readonly #hints: Hints;
  readonly #routes: Routes;
  readonly #searches = new Map<string, Promise<Place | undefined>>();
  /** Nodes that could not be reached or would not take a database, and until when others are preferred. */
  readonly #shunnedUntil = new Recent<string, number>(limits.shunnedNodesMax);
  /** How far the answers of writers went that this node has handed on, by branch: plain reads do not go back behind them. */
  readonly #shown = new Recent<string, number>(limits.routesMax);
  #rendezvous = new Rendezvous([]);
  #usedMs = -Infinity;
  #onNudge = (): void => {};
  #lease: LeaseSpan | undefined;
  #isLeaving = false;

  constructor(parts: PlacementParts) {
    super();
    this.#parts = parts;
    this.#held = new Held(parts);
    this.#hints = new Hints(parts);
    this.#routes = new Routes(parts);
    parts.local.tell((message) => this.#hear(message));
  }

  /** What the lease adapter of this node is to tell. */
  get leaseEvents(): LeaseEvents {
    return { renewed: (until) => this.#renewed(until), lost: () => this.lost() };
  }

  /** Whether this node's lease certainly holds now. */
  get isLeased(): boolean {
    const { world } = this.#parts;
    return this.#lease !== undefined && world.monotonicMs() < this.#lease.monotonicMs && world.wallMs() < this.#lease.wallMs;
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
    if (call.kind === "drop") return this.#drop(target, call, options);
    const term = this.#held.use(uuid);
    const isCopyEnough = (call.kind === "read" || call.kind === "sql-read") && options.consistency !== "primary";
    if (term === undefined) return isCopyEnough ? this.#runAtCopy(target, call, options) : this.#runAtWriter(target, call, options);
    try {
      return await this.#parts.local.run(target, call, options);
    } catch (error) {
      if (!(error instanceof TurnedAway)) throw error;
      this.#held.forget(uuid, term);
      return this.#runAtWriter(target, call, options);
    }
  }

  async serve(forwarded: ForwardedCall): Promise<Answer> {
    const { target, call, term, budgetMs, minTxid, bytes, durable, consistency, caller, traceparent } = forwarded;
    const { local, world } = this.#parts;
    this.#usedMs = world.monotonicMs();
    const options = { deadlineMs: world.monotonicMs() + budgetMs, minTxid, bytes, durable, consistency, caller, trace: traceOf(traceparent) };
    if (call.kind === "drop") {
      this.#held.forget(target.uuid);
      return local.run(target, call, options);
    }
    const held = this.#held.use(target.uuid);
    if (held !== undefined && term !== undefined && held !== term) throw new TurnedAway("unheld");
    const own = held ?? (await this.#byDeadline(this.#takeFor(target.uuid, term), options.deadlineMs));
    if (own === undefined) throw new TurnedAway("unheld");
    try {
      return await local.run(target, call, options);
    } catch (error) {
      if (error instanceof TurnedAway) this.#held.forget(target.uuid, own);
      throw error;
    }
  }

  followed(uuid: string, hint: () => void): () => void {
    return this.#hints.give(uuid, hint);
  }

  hinted(uuid: string): void {
    this.#parts.local.hint(uuid);
  }

  nudged(): void {
    this.#onNudge();
  }

  /** What is done when another node says that there is an order for this one. */
  whenNudged(look: () => void): void {
    this.#onNudge = look;
  }

  /** Has another node look for orders now, if it lives. */
  nudge(nodeId: string): void {
    void this.#nudge(nodeId);
  }

  async #nudge(nodeId: string): Promise<void> {
    const { leases, peers, log, nodeId: own } = this.#parts;
    if (nodeId === own) return this.nudged();
    try {
      const node = (await leases.nodes()).find(({ id }) => id === nodeId);
      if (node) peers.nudge(node.address);
    } catch (error) {
      // It looks by itself.
      if (!(error instanceof StoreError || error instanceof Unreachable)) log.error("a node was not told of an order", error, { node: nodeId });
    }
  }

  /** Lets other nodes have everything. From now on this node takes no database; calls of its clients go to those who do. */
  async handOver(): Promise<void> {
    this.#isLeaving = true;
    await this.#held.giveUpAll();
  }

  /** Ends this node's lease. Nothing is forwarded any more. */
  async leave(): Promise<void> {
    await this.#parts.leases.leave();
    this.lost();
  }

  /** The node's lease is gone, and every database with it. */
  lost(): void {
    this.#lease = undefined;
    this.#held.lost();
    this.#parts.local.renewLease(undefined);
  }

  #renewed(until: LeaseSpan): void {
    this.#lease = until;
    this.#parts.local.renewLease(until);
  }

  #hear(message: Told): void {
    if (message.kind === "shipped") return this.#hints.moved(message.uuid);
    this.#parts.log.warn("another node has claimed a database that this node held", { uuid: message.uuid, term: message.term });
    void this.#held.fenced(message.uuid, message.term);
  }

  /** Whether this node may take databases. */
  get #mayTake(): boolean {
    return this.#lease !== undefined && !this.#isLeaving;
  }

  /** Runs the call where the database is held, wherever that is; asks again for as long as nobody takes the call. */
  async #runAtWriter(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    for (let tries = 0; await this.#mayTry(tries, options); tries++) {
      const answer = await this.#tryAtWriter(target, call, options);
      if (answer) return answer;
    }
    throw unavailable("no node that could write the database took the call in time");
  }

  /** Reads from this node's own copy; while that is too old for the call and its writer does not answer, it may still become new enough. */
  async #runAtCopy(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    this.#hints.ask(target.uuid);
    const answer = await this.#runNotBack(target, call, options);
    if (answer) return answer;
    let refusal = unavailable("this node's copy of the database is too old, and its writer did not take the call in time");
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
   * A plain read after one that was answered by the writer: from a copy that is as new, or by the writer again. Undefined
   * when there was none, or when neither can be had: then going back is better than no answer.
   */
  async #runNotBack(target: Target, call: PortCall, options: CallOptions): Promise<Answer | undefined> {
    const key = branchKey(target);
    const shownTxid = this.#shown.get(key);
    // Whoever names a transaction id is told of that very one whether it was lost, which a later one in its place would hide.
    if (shownTxid === undefined || options.minTxid || options.consistency === "cached") return undefined;
    try {
      return await this.#parts.local.run(target, call, { ...options, minTxid: shownTxid });
    } catch (error) {
      if (error instanceof ServiceError && error.code !== "conflict" && error.code !== "invalid_request") throw error;
      // What was shown was lost since, or the branch is another one by now; or the call itself is refused, as it will be again.
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
    if (tries >= limits.placementTriesMax || world.monotonicMs() + pauseMs >= deadlineMs || signal?.aborted) return false;
    if (pauseMs > 0) await sleep(world, pauseMs);
    return true;
  }

  /** The answer of whoever holds the database; undefined when nobody took the call. */
  async #tryAtWriter(target: Target, call: PortCall, options: CallOptions): Promise<Answer | undefined> {
    const place = this.#knownPlace(target.uuid) ?? (await this.#foundPlace(target.uuid, options.deadlineMs));
    if (!place) return undefined;
    try {
      if (place.here) return await this.#parts.local.run(target, call, options);
      const answer = await this.#forward(place, target, call, options);
      if (call.kind === "read" || call.kind === "sql-read") this.#shown.set(branchKey(target), Math.max(answer.txid, this.#shown.peek(branchKey(target)) ?? 0));
      return answer;
    } catch (error) {
      if (!(error instanceof TurnedAway || error instanceof Unreachable)) throw error;
      this.#failedAt(target.uuid, place, error);
      return undefined;
    }
  }

  #knownPlace(uuid: string): Place | undefined {
    const term = this.#held.use(uuid);
    if (term !== undefined) return { here: true, term };
    const holder = this.#routes.to(uuid);
    return holder && { here: false, ...holder };
  }

  /** Undefined when it is to be looked for again. */
  async #foundPlace(uuid: string, deadlineMs: number): Promise<Place | undefined> {
    try {
      return await this.#byDeadline(this.#search(uuid), deadlineMs);
    } catch (error) {
      // The lease was lost just now, and a new one is asked for: the next look may find another holder.
      if (error instanceof TurnedAway) return undefined;
      throw refusalOfSearch(error);
    }
  }

  #forward(place: Elsewhere, target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    const { deadlineMs, minTxid = 0, bytes = 0, durable = false, consistency, caller, trace } = options;
    const budgetMs = deadlineMs - this.#parts.world.monotonicMs();
    const traceparent = trace && traceparentOf(trace);
    return this.#parts.peers.forward(place.address, { target, call, budgetMs, minTxid, bytes, durable, consistency, caller, traceparent, term: place.term });
  }

  /** The call had no effect there, and the next one need not be tried in vain. */
  #failedAt(uuid: string, place: Place, error: TurnedAway | Unreachable): void {
    if (place.here) return this.#held.forget(uuid, place.term);
    this.#routes.forget(uuid, place);
    if (error instanceof Unreachable || place.term === undefined) this.#shunnedUntil.set(place.nodeId, this.#parts.world.monotonicMs() + limits.shunMs);
  }

  /** None before the first repeat, as a stale route is told at once; then ever longer, and random, so that a crowd disperses. */
  #pauseMs(tries: number): number {
    if (tries < 2) return 0;
    const longest = Math.min(limits.placementPauseMsMax, limits.placementPauseMsMin * 2 ** (tries - 2));
    const [chance = 0] = this.#parts.world.randomBytes(1);
    return longest * (0.5 + chance / 512);
  }

  /** Asks the leases where the database is, and takes it if it is to be here. Shared by all who ask meanwhile, who go on in the order in which they came. */
  #search(uuid: string): Promise<Place | undefined> {
    const begun = this.#searches.get(uuid);
    if (begun) return begun;
    const searching = this.#find(uuid).finally(() => this.#searches.delete(uuid));
    this.#searches.set(uuid, searching);
    return searching;
  }

  async #find(uuid: string): Promise<Place | undefined> {
    const { leases, nodeId, world } = this.#parts;
    await this.#held.settled(uuid);
    const { holder } = await leases.holding(uuid);
    if (holder && holder.nodeId !== nodeId) return this.#routeTo(uuid, holder);
    // A lease that points here, though nothing is known of it: as after a restart, or when an engine was started anew.
    if (this.#mayTake && holder) return this.#take(uuid);
    const nowMs = world.monotonicMs();
    const preferred = (await this.#order()).first(uuid, ({ id }) => (id === nodeId ? this.#mayTake : (this.#shunnedUntil.peek(id) ?? 0) <= nowMs));
    // What nobody ever wrote is taken where it is first asked for.
    if (preferred?.id === nodeId || (this.#mayTake && (await this.#isUnwritten(uuid)))) return this.#take(uuid);
    if (preferred) return { here: false, nodeId: preferred.id, address: preferred.address, term: undefined };
    if (this.#isLeaving) throw unavailable("the node is shutting down, and there is no other");
    return undefined;
  }

  /** What is known of the live nodes; worked out anew only when they have changed. */
  async #order(): Promise<Rendezvous> {
    const nodes = await this.#parts.leases.nodes();
    if (this.#rendezvous.nodes !== nodes) this.#rendezvous = new Rendezvous(nodes);
    return this.#rendezvous;
  }

  /** A store that does not say in time leaves the database to the one who is preferred. */
  async #isUnwritten(uuid: string): Promise<boolean> {
    const { world, isUnwritten } = this.#parts;
    try {
      return await within(world, limits.unwrittenLookMs, () => isUnwritten(uuid));
    } catch (error) {
      if (error instanceof StoreError || error instanceof TimeUp) return false;
      throw error;
    }
  }

  async #take(uuid: string): Promise<Place> {
    const acquisition = await this.#held.take(uuid);
    return acquisition.kind === "held" ? this.#routeTo(uuid, acquisition.by) : { here: true, term: acquisition.term };
  }

  /** Takes the database for a call of another node, if it is to be here; gives the term. */
  async #takeFor(uuid: string, term: number | undefined): Promise<number | undefined> {
    if (!this.#mayTake) return undefined;
    try {
      const place = await (term === undefined ? this.#take(uuid) : this.#search(uuid));
      return place?.here ? place.term : undefined;
    } catch (error) {
      // What the coordination store says, if it answers, the sender finds out for itself.
      if (error instanceof StoreError || error instanceof TurnedAway) return undefined;
      throw refusalOfSearch(error);
    }
  }

  #routeTo(uuid: string, holder: Holder): Place {
    this.#routes.note(uuid, holder);
    return { here: false, ...holder };
  }

  /** Removes the database here, and where it is held. Elsewhere it is noticed by its catalog, in which it stands. */
  async #drop(target: Target, call: PortCall, options: CallOptions): Promise<Answer> {
    const { local, leases, nodeId, log } = this.#parts;
    const { uuid } = target;
    const answer = await local.run(target, call, options);
    this.#held.forget(uuid);
    this.#routes.forget(uuid);
    try {
      const { holder } = await leases.holding(uuid);
      if (holder && holder.nodeId !== nodeId) await this.#forward(holder, target, call, options);
      await leases.forget(uuid);
    } catch (error) {
      log.error("a deleted database's holder was not told", error, { uuid });
    }
    return answer;
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

/** Uuids and branch names hold no slash. */
function branchKey({ uuid, branch }: Target): string {
  return `${uuid}/${branch}`;
}

function unavailable(message: string): ServiceError {
  return new ServiceError("unavailable", message, { retryAfterSecs: limits.retryAfterSecsMin });
}

/** The call itself was never begun, whatever went wrong while a place was looked for. */
function refusalOfSearch(error: unknown): unknown {
  if (error instanceof StoreError) return unavailable("it cannot be found out which node holds the database: the coordination store does not answer");
  if (error instanceof ServiceError && error.code === "request_timeout") return unavailable("the database could not be taken over in time");
  return error;
}
