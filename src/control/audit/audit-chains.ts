/**
 * The chains of a node: turns events into objects, each event holding the hash of the one before it in its stream, and
 * puts the objects into the store in order.
 *
 * Always true:
 * - an object's bytes are made once, so that a put in doubt is repeated with the same bytes
 * - of one namespace no object is put before the one ahead of it is stored
 * - a chain goes on over a restart where its last event is found
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import { auditTimeMs, encodeAuditEvent, isEvent, type AuditEvent } from "../../format/audit/audit-event.ts";
import { auditLinkTo, encodeAuditObject } from "../../format/audit/audit-object.ts";
import { auditKey, formatDay } from "../../format/audit/audit-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { putImmutable } from "../../store/port/sure-put.ts";
import type { AuditStreams } from "./audit-streams.ts";

/** Streams whose chain a node remembers; that of another is looked up in object storage. */
const auditStreamsHeldMax = 10_000;

/** An event that has no place in a chain yet. */
export type LooseEvent = Omit<AuditEvent, "prev" | "node">;

/** An object that is on its way. */
interface Parcel {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly events: number;
}

/** What is remembered of a namespace's stream. */
export interface Chain {
  readonly namespace: string;
  /** `prev` of the next event. */
  link: string;
  readonly parcels: Parcel[];
}

/** An object that is being filled. */
interface OpenObject {
  readonly first: AuditEvent;
  readonly lines: string[];
}

export interface AuditChainsOptions {
  readonly store: ObjectStore;
  readonly streams: AuditStreams;
  readonly world: World;
  readonly log: Log;
  /** The node's identity, a ULID: it names the chains. */
  readonly node: string;
  /** Told of events that can never be stored. */
  readonly onLost: (namespace: string, events: number) => void;
}

/** Whether the event may go into the object. */
function belongs({ first, lines }: OpenObject, event: AuditEvent): boolean {
  const [startMs, atMs] = [auditTimeMs(first), auditTimeMs(event)];
  return (
    formatDay(startMs) === formatDay(atMs) &&
    atMs - startMs <= limits.auditObjectSpanMs &&
    lines.length < limits.auditObjectEventsMax
  );
}

export class AuditChains {
  readonly #options: AuditChainsOptions;
  /** The one used last comes last. */
  readonly #chains = new Map<string, Chain>();
  #underWay = 0;

  constructor(options: AuditChainsOptions) {
    this.#options = options;
  }

  /** Events in objects that are not stored yet. */
  get underWay(): number {
    return this.#underWay;
  }

  /** Namespaces that have such objects. */
  get unfinished(): readonly string[] {
    return [
      ...this.#chains
        .values()
        .filter(({ parcels }) => parcels.length > 0)
        .map(({ namespace }) => namespace),
    ];
  }

  /** Whether the node has added to this stream lately. */
  has(namespace: string): boolean {
    return this.#chains.has(namespace);
  }

  /** The chain of this node in a stream; found in object storage when it is not remembered. */
  async open(namespace: string): Promise<Chain> {
    const { streams, node, world } = this.#options;
    return (
      this.#chains.get(namespace) ?? {
        namespace,
        link: await streams.linkAfter(namespace, node, world.nowMs()),
        parcels: [],
      }
    );
  }

  /** Adds events to the end, in objects of one day, one minute and a bounded number each. */
  add(chain: Chain, events: readonly LooseEvent[]): void {
    this.#remember(chain);
    const { node, log } = this.#options;
    let open: OpenObject | undefined;
    for (const loose of events) {
      const event = { ...loose, node, prev: chain.link };
      if (!isEvent(event)) {
        log.warn("an audit event has no valid form and is left out", {
          namespace: chain.namespace,
          action: loose.action,
        });
        this.#options.onLost(chain.namespace, 1);
        continue;
      }
      if (open === undefined || !belongs(open, event)) {
        this.#close(chain, open);
        open = { first: event, lines: [] };
      }
      const line = encodeAuditEvent(event);
      chain.link = auditLinkTo(line);
      open.lines.push(line);
    }
    this.#close(chain, open);
  }

  /** Puts the chain's objects, as far as the store lets it. */
  async deliver(chain: Chain): Promise<void> {
    for (let parcel = chain.parcels[0]; parcel !== undefined; parcel = chain.parcels[0]) {
      await this.#put(chain.namespace, parcel);
      chain.parcels.shift();
      this.#underWay -= parcel.events;
    }
  }

  #remember(chain: Chain): void {
    this.#chains.delete(chain.namespace);
    this.#chains.set(chain.namespace, chain);
    if (this.#chains.size <= auditStreamsHeldMax) return;
    const idle = this.#chains.values().find((other) => other !== chain && other.parcels.length === 0);
    if (idle !== undefined) this.#chains.delete(idle.namespace);
  }

  #close({ namespace, parcels }: Chain, object: OpenObject | undefined): void {
    if (object === undefined) return;
    const { first, lines } = object;
    assert(first.namespace === namespace, "an event goes into its own stream");
    const key = auditKey({ namespace, day: formatDay(auditTimeMs(first)), firstId: first.id, node: first.node });
    parcels.push({ key, bytes: encodeAuditObject(lines), events: lines.length });
    this.#underWay += lines.length;
  }

  async #put(namespace: string, { key, bytes, events }: Parcel): Promise<void> {
    try {
      await putImmutable(this.#options.store, key, bytes);
    } catch (error) {
      if (!(error instanceof StoreError && error.kind === "corrupt")) throw error;
      // A name that only this node can give has other bytes: the events are lost, and the chain shows it.
      this.#options.log.error("audit events were lost", error, { namespace, events });
      this.#options.onLost(namespace, events);
    }
  }
}
