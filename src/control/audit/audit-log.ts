/**
 * What a node tells the audit streams: events are noted here at once and stored soon.
 *
 * Always true:
 * - `record` neither waits nor throws
 * - of one namespace, events are stored in the order in which they were recorded, each holding the hash of the one
 *   before
 * - what is kept in memory is bounded, and what did not fit is counted (`dropped`, a line in the log, and an
 *   `audit.dropped` event in the stream where the gap is)
 *
 * A crash loses what was recorded since the last flush.
 * Must not know: wires, handlers, databases, and what is too old (control/audit/audit-sweeps).
 *
 * Whether an event is wanted is asked when it is recorded, so that the change that switches a stream on is its first
 * event; an event whose answer is awaited holds back only what follows it in its own namespace.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import { sleep, type Cancel, type World } from "../../base/world.ts";
import { auditTimeMs } from "../../format/audit/audit-event.ts";
import { isUlid } from "../../format/core/ids.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { AuditChains, type LooseEvent } from "./audit-chains.ts";
import { toActor, isOfStranger, isRecorded, type AuditEntry, type AuditPolicy } from "./audit-entry.ts";
import { AuditStreams, type AuditPage, type AuditQuery } from "./audit-streams.ts";
import { AuditSweeps } from "./audit-sweeps.ts";

/** Events that wait to be stored, about half a KiB each; further ones are counted and left out. */
export const auditEventsMax = 20_000;
/** Of these, refusals of unknown callers: a flood of them must not crowd out the other events. */
export const auditStrangersMax = 5_000;
/** Namespaces in whose streams gaps are counted; further ones only in the node's total. */
const auditGapsMax = 1_000;
/** An event whose namespace has no readable policy for this long is counted as left out. */
const auditUnknownMsMax = 60_000;
/** When this many events wait they are stored at once, whatever the interval. */
const auditFlushEvents = 500;
/** A reader waits this long for this node's own events to be stored. */
const auditReadFlushMs = 1_000;
/** How long a stopping node tries to store what is left. */
const auditDrainMs = 5_000;
const auditRetryMs = 500;

/** What an audit log is made of, and what it asks. */
export interface AuditLogOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly log: Log;
  /** The node's identity, a ULID that stays the same over restarts. */
  readonly node: string;
  readonly flushMs: number;
  /** What the policy says now. It may reject while the policy cannot be known: it is asked again at the next flush. */
  readonly readPolicy: (namespace: string) => Promise<AuditPolicy>;
  /** Whether this node is the one to remove what is too old in the namespace; absent when there is no other. */
  readonly tends?: ((namespace: string) => Promise<boolean>) | undefined;
  /** Told of every entry, whether or not it is kept. Must neither throw nor take long. */
  readonly heard?: ((entry: AuditEntry) => void) | undefined;
}

/** An event that is not stored yet. */
interface Waiting {
  readonly id: string;
  readonly entry: AuditEntry;
  /** `asking`: the policy is being read; `unknown`: it could not be; `wanted`: it says yes. */
  state: "asking" | "unknown" | "wanted";
}

/** Takes the place of missing events, and counts them until it is stored. */
interface Gap extends AuditEntry {
  count: number;
}

/** The event, but for its place in the chain. */
function toEvent({ id, entry }: Waiting): LooseEvent {
  const { identity, ...told } = entry;
  return { ...told, id, actor: toActor(identity) };
}

/** The events of one node that are on their way into the streams. */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #streams: AuditStreams;
  readonly #chains: AuditChains;
  readonly #sweeps: AuditSweeps;
  /** In the order of recording. */
  readonly #waiting = new Set<Waiting>();
  /** Events of `#waiting` that represent others for which there was no room, by namespace. */
  readonly #gaps = new Map<string, Gap>();
  #wanted = 0;
  #strangers = 0;
  #dropped = 0;
  #droppedTold = 0;
  #storeFails = false;
  #closed = false;
  #timer: Cancel | undefined;
  #flushing: Promise<void> | undefined;
  #flushingNext: Promise<void> | undefined;

  constructor(options: AuditLogOptions) {
    assert(isUlid(options.node), "a node's identity is a ULID");
    this.#options = options;
    const { store, world, log, node } = options;
    this.#streams = new AuditStreams(store, log);
    this.#sweeps = new AuditSweeps(this.#streams, options);
    this.#chains = new AuditChains({
      store,
      streams: this.#streams,
      world,
      log,
      node,
      onLost: (namespace, events) => this.#countLost(namespace, events),
    });
  }

  /** Events that were lost since the start, because there was no room or the node stopped before the store answered. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Events that are kept here. */
  get #unstored(): number {
    return this.#waiting.size + this.#chains.underWay;
  }

  /** Notes an event. It is stored with the next flush if the namespace's policy wants it. */
  record(entry: AuditEntry): void {
    this.#options.heard?.(entry);
    const full = this.#unstored >= auditEventsMax;
    const crowded = isOfStranger(entry) && this.#strangers >= auditStrangersMax;
    if (this.#closed || full || crowded) {
      this.#countLost(entry.namespace, 1);
      return;
    }
    if (isOfStranger(entry)) this.#strangers++;
    this.#admit(entry);
  }

  /** Stores what is wanted and waits; resolves when it is stored or the store has failed. */
  flush(): Promise<void> {
    if (this.#flushing === undefined) {
      this.#flushing = this.#flushOnce().finally(() => (this.#flushing = undefined));
      return this.#flushing;
    }
    // What is recorded during a flush may have missed it.
    this.#flushingNext ??= this.#flushing.then(() => {
      this.#flushingNext = undefined;
      return this.flush();
    });
    return this.#flushingNext;
  }

  /**
   * A page of a namespace's stream, with what this node has recorded so far unless the store takes long; empty and
   * complete when the policy has none. Refuses an invalid cursor.
   */
  async read(namespace: string, query: AuditQuery): Promise<AuditPage> {
    const { enabled } = await this.#options.readPolicy(namespace);
    if (!enabled) return { events: [], nextCursor: undefined, complete: true };
    await this.#flushFor(namespace);
    return this.#streams.read(namespace, query);
  }

  async #flushFor(namespace: string): Promise<void> {
    const isOwed =
      this.#waiting.values().some(({ entry }) => entry.namespace === namespace) ||
      this.#chains.unfinished.includes(namespace);
    if (!isOwed) return;
    try {
      await within(this.#options.world, auditReadFlushMs, () => this.flush());
    } catch (error) {
      // The reader has what is stored; the rest is tried again as ever.
      if (!(error instanceof TimeUp)) throw error;
    }
  }

  /** Removes what is older than its policy allows, now and every hour. */
  keepSwept(): void {
    this.#sweeps.start();
  }

  /** Removes what is older than its policy allows, now. Gives the number of objects. */
  sweep(): Promise<number> {
    return this.#sweeps.sweep();
  }

  /** Stores what is left, for as long as a stopping node may take; says so when something could not be stored. */
  async close(): Promise<void> {
    const { world, log } = this.#options;
    this.#closed = true;
    const swept = this.#sweeps.close(auditDrainMs);
    let expired = false;
    const drain = async (): Promise<void> => {
      for (;;) {
        await this.flush();
        if (expired || this.#unstored === 0) return;
        await sleep(world, auditRetryMs);
      }
    };
    await Promise.race([drain(), sleep(world, auditDrainMs)]);
    expired = true;
    this.#timer?.();
    await swept;
    const lost = this.#unstored;
    this.#dropped += lost;
    if (lost > 0)
      log.warn("audit events were lost: they could not be stored before the node stopped", { events: lost });
  }

  #admit(entry: AuditEntry): void {
    const waiting: Waiting = { id: this.#options.world.ulid(), entry, state: "asking" };
    this.#waiting.add(waiting);
    void this.#ask(waiting);
  }

  async #ask(waiting: Waiting): Promise<void> {
    waiting.state = "asking";
    try {
      if (await this.#isWanted(waiting)) {
        waiting.state = "wanted";
        this.#wanted++;
      } else this.#removeWaiting(waiting);
    } catch {
      // The reader of policies reports the fault; here it is enough to ask again.
      waiting.state = "unknown";
    }
    if (this.#closed) return;
    if (this.#wanted >= auditFlushEvents && this.#flushing === undefined && !this.#storeFails) void this.flush();
    else this.#flushSoon();
  }

  async #isWanted(waiting: Waiting): Promise<boolean> {
    const { namespace, action, outcome } = waiting.entry;
    const policy = await this.#options.readPolicy(namespace);
    if (policy.enabled) return isRecorded(policy, action, outcome);
    // The change that switches a stream off is its last event.
    if (action !== "policy.update") return false;
    if (this.#chains.has(namespace) || (await this.#streams.hasBegun(namespace))) return true;
    // Or begins with what was recorded before this change and waits to be stored.
    return this.#waiting
      .values()
      .some(({ id, entry, state }) => id < waiting.id && state === "wanted" && entry.namespace === namespace);
  }

  #removeWaiting(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    if (waiting.state === "wanted") this.#wanted--;
    if (isOfStranger(waiting.entry)) this.#strangers--;
    if (waiting.entry.action === "audit.dropped") this.#gaps.delete(waiting.entry.namespace);
  }

  #countLost(namespace: string, events: number): void {
    this.#dropped += events;
    const known = this.#gaps.get(namespace);
    if (known) known.count += events;
    if (known || this.#closed || this.#gaps.size >= auditGapsMax) return;
    const gap: Gap = {
      namespace,
      action: "audit.dropped",
      outcome: "error",
      count: events,
      identity: { kind: "internal" },
      errorCode: "overloaded",
    };
    this.#gaps.set(namespace, gap);
    this.#admit(gap);
  }

  #flushSoon(): void {
    if (this.#timer !== undefined || this.#unstored === 0) return;
    this.#timer = this.#options.world.after(this.#options.flushMs, () => {
      this.#timer = undefined;
      void this.flush();
    });
  }

  async #flushOnce(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    this.#askAgain();
    // Policies that are at hand have answered by the end of this turn.
    await new Promise<void>((resolve) => this.#options.world.soon(resolve));
    if (this.#dropped > this.#droppedTold)
      this.#options.log.warn("audit events were left out: there was no room for them", {
        events: this.#dropped - this.#droppedTold,
      });
    this.#droppedTold = this.#dropped;
    const ready = this.#ready();
    const namespaces = new Set([...ready.keys(), ...this.#chains.unfinished]);
    const permits = new Semaphore(limits.auditRequestsAtOnceMax);
    const outcomes = await Promise.all(
      [...namespaces].map((namespace) => permits.run(() => this.#store(namespace, ready.get(namespace) ?? []))),
    );
    const failed = outcomes.includes("failed");
    if (failed && !this.#storeFails)
      this.#options.log.warn("audit events could not be stored; they are kept and tried again", {
        events: this.#unstored,
      });
    if (!failed && this.#storeFails) this.#options.log.info("audit events are stored again");
    this.#storeFails = failed;
    if (!this.#closed) this.#flushSoon();
  }

  /** Asks for policies that could not be known; one that stays so must not fill the room of the others. */
  #askAgain(): void {
    const tooOldMs = this.#options.world.time.sureMs() - auditUnknownMsMax;
    for (const waiting of this.#waiting) {
      if (waiting.state !== "unknown") continue;
      if (auditTimeMs(waiting) >= tooOldMs) void this.#ask(waiting);
      else {
        this.#removeWaiting(waiting);
        this.#dropped++;
      }
    }
  }

  /** Wanted events by namespace, up to the first undecided one. */
  #ready(): Map<string, Waiting[]> {
    const ready = new Map<string, Waiting[]>();
    const heldBack = new Set<string>();
    for (const waiting of this.#waiting) {
      const { namespace } = waiting.entry;
      if (waiting.state !== "wanted") heldBack.add(namespace);
      if (heldBack.has(namespace)) continue;
      const list = ready.get(namespace);
      if (list) list.push(waiting);
      else ready.set(namespace, [waiting]);
    }
    return ready;
  }

  /** Stores what a namespace has ready, after what it has under way. */
  async #store(namespace: string, ready: readonly Waiting[]): Promise<"stored" | "failed"> {
    try {
      const chain = await this.#chains.open(namespace);
      await this.#chains.deliver(chain);
      // An object at a time: a crowd that waited for the store to come back must not hold up the thread.
      for (let at = 0; at < ready.length; at += limits.auditObjectEventsMax) {
        const part = ready.slice(at, at + limits.auditObjectEventsMax);
        this.#chains.add(chain, part.map(toEvent));
        for (const waiting of part) this.#removeWaiting(waiting);
        await this.#chains.deliver(chain);
      }
      return "stored";
    } catch (error) {
      if (!(error instanceof StoreError))
        this.#options.log.error("audit events could not be stored", error, { namespace });
      return "failed";
    }
  }
}
