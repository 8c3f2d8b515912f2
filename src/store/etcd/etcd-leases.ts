/**
 * Leases in etcd: one lease of etcd per node, renewed again and again, with which the node's own key and those of all
 * databases it holds end together.
 *
 * Always true: nothing counts as certain for longer than from before a renewal was sent until its lease ends, less a
 * margin. A renewal is sent only right after disk and engine have proven that they get on: a node whose disk hangs must
 * lose its databases to one that can serve them. A database changes hands in one transaction that raises the count from
 * which its lease epoch is, so no lease epoch is given twice; that count is one for many databases, as etcd has no room
 * for a key of each that stays. A lease is reported gone only when etcd says so; while etcd says nothing, the reported
 * span runs out by itself. Must not know: what holding a database means.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { KeyedMutex } from "../../base/collections/keyed-mutex.ts";
import type { Cancel, World } from "../../base/world.ts";
import {
  EtcdClient,
  get,
  put,
  remove,
  unchanged,
  UnknownLease,
  type EtcdEntry,
  type EtcdOutcome,
} from "./etcd-client.ts";
import { EtcdMembers } from "./etcd-members.ts";
import { decodeHolder, LeaseKeys, nodeText, decodeLeaseEpoch, writerText } from "./lease-records.ts";
import type { Acquisition, Holding, LeaseEvents, Leases, LiveNode } from "../port/leases.ts";
import { within } from "../../base/time-limit.ts";

/** Another node may take over a database this long after its holder was last heard of. */
export const leaseTtlSecs = 10;
export const leaseRenewMs = 2_000;
/**
 * A node takes its lease to end earlier than etcd does by this: a paused process must find that out before it
 * answers.
 */
export const leaseMarginMs = 2_000;
const leaseRetryMsMin = 100;
const leaseRetryMsMax = 2_000;
/** How long a node that stops tries to give its lease back; otherwise it runs out by itself. */
const leaseLeaveMs = 3_000;
/** Another node's change may come between a look and what depends on it this often. */
const coordTriesMax = 16;
/** Counts of lease epochs that a node remembers: as many as there are (store/etcd/lease-records). */
const coordLeaseEpochsMax = 4_096;

/** What the keys of a cluster begin with, unless several share an etcd. */
const defaultPrefix = "palimpsest/";

/** How leases are kept; what is left out is as `limits` has it. */
export interface EtcdLeasesOptions {
  /** Such as `10.0.0.2:2379` or `https://user:password@etcd-1:2379`. */
  readonly endpoints: readonly string[];
  readonly world: World;
  readonly log: Log;
  /** Resolves when disk and engine have just done something; rejects, or takes its time, while they cannot. */
  readonly progress: () => Promise<void>;
  readonly prefix?: string;
  readonly ttlSecs?: number;
  readonly renewMs?: number;
  readonly marginMs?: number;
}

/**
 * A lease of etcd; each grant is another object, so that a late answer is not taken for one about the present lease.
 */
interface EtcdLease {
  readonly id: bigint;
}

export class EtcdLeases implements Leases {
  readonly #client: EtcdClient;
  readonly #world: World;
  readonly #log: Log;
  readonly #keys: LeaseKeys;
  readonly #progress: () => Promise<void>;
  readonly #ttlSecs: number;
  readonly #renewMs: number;
  readonly #marginMs: number;
  #node: LiveNode | undefined;
  #events: LeaseEvents | undefined;
  #lease: EtcdLease | undefined;
  readonly #acquiring = new KeyedMutex();
  /** How far the lease epochs were counted when that was last seen, by the key that counts them. */
  readonly #lastLeaseEpochs = new LruMap<string, EtcdEntry>(coordLeaseEpochsMax);
  /** Announcements go out one after the other, so that the last one stays. */
  readonly #announcing = new Semaphore(1);
  /** What was announced last, and with which lease. */
  #announced: { readonly node: LiveNode; readonly lease: EtcdLease } | undefined;
  /** A proof of progress that is still to come; no second one is begun beside it. */
  #proof: Promise<void> | undefined;
  #round: Promise<void> | undefined;
  #cancelRound: Cancel = () => {};
  #failures = 0;
  #hasLeft = false;
  readonly #members: EtcdMembers;

  /** Nothing is sent yet. Throws `misconfigured` when an endpoint is none. */
  constructor(options: EtcdLeasesOptions) {
    this.#client = new EtcdClient(options.endpoints, options.world);
    this.#world = options.world;
    this.#log = options.log;
    this.#progress = options.progress;
    this.#keys = new LeaseKeys(options.prefix ?? defaultPrefix);
    this.#members = new EtcdMembers({ client: this.#client, keys: this.#keys, world: options.world, log: options.log });
    this.#ttlSecs = options.ttlSecs ?? leaseTtlSecs;
    this.#renewMs = options.renewMs ?? leaseRenewMs;
    this.#marginMs = options.marginMs ?? leaseMarginMs;
  }

  async join(node: LiveNode, events: LeaseEvents): Promise<void> {
    this.#node = node;
    this.#events = events;
    const fault = await this.#keep();
    if (!(fault instanceof StoreError && fault.kind === "misconfigured")) return;
    await this.leave();
    throw fault;
  }

  async announce(node: LiveNode): Promise<void> {
    this.#node = node;
    // Without a lease it goes out with the next one.
    if (this.#lease) await this.#announce(this.#lease);
  }

  acquire(uuid: string): Promise<Acquisition> {
    // Those of one node need not get in each other's way.
    return this.#acquiring.take(this.#keys.leaseEpochs(uuid), () => this.#acquire(uuid));
  }

  async #acquire(uuid: string): Promise<Acquisition> {
    const { node, lease } = this.#standing();
    const [writerKey, leaseEpochsKey, oldLeaseEpochKey] = [
      this.#keys.writer(uuid),
      this.#keys.leaseEpochs(uuid),
      this.#keys.oldLeaseEpoch(uuid),
    ];
    // Most databases have no holder, and were just looked up: the first try finds out what is there, or takes it.
    let [writer, lastLeaseEpoch, oldLeaseEpoch]: readonly (EtcdEntry | undefined)[] = [
      undefined,
      this.#lastLeaseEpochs.get(leaseEpochsKey),
      undefined,
    ];
    for (let tries = 0; tries < coordTriesMax; tries++) {
      const holder = writer && decodeHolder(writer);
      if (holder && holder.nodeId !== node.id) return { kind: "held", by: holder };
      const leaseEpoch =
        Math.max(
          0,
          ...[lastLeaseEpoch, oldLeaseEpoch].map((entry) => (entry ? decodeLeaseEpoch(entry) : 0)),
          holder?.leaseEpoch ?? 0,
        ) + 1;
      const outcome = await this.#transactUnder(lease, () =>
        this.#client.transact(
          [
            unchanged(writerKey, writer),
            unchanged(leaseEpochsKey, lastLeaseEpoch),
            unchanged(oldLeaseEpochKey, oldLeaseEpoch),
          ],
          // A node of an older build begins at 1 again where this key is gone: see `docs/scale.md` why it may.
          [
            put(writerKey, writerText({ nodeId: node.id, address: node.address, leaseEpoch }), lease.id),
            put(leaseEpochsKey, String(leaseEpoch)),
            ...(oldLeaseEpoch ? [remove(oldLeaseEpochKey)] : []),
          ],
          [get(writerKey), get(leaseEpochsKey), get(oldLeaseEpochKey)],
        ),
      );
      if (outcome.succeeded) return { kind: "acquired", leaseEpoch };
      [writer, lastLeaseEpoch, oldLeaseEpoch] = pickFirsts(outcome);
    }
    throw new StoreError("unavailable", "coordination: the database changes hands all the time");
  }

  async holding(uuid: string): Promise<Holding> {
    const leaseEpochsKey = this.#keys.leaseEpochs(uuid);
    const [writer, lastLeaseEpoch] = pickFirsts(
      await this.#client.transact([], [get(this.#keys.writer(uuid)), get(leaseEpochsKey)]),
    );
    // The caller may take the database next.
    if (lastLeaseEpoch) this.#lastLeaseEpochs.set(leaseEpochsKey, lastLeaseEpoch);
    return { holder: writer && decodeHolder(writer) };
  }

  async release(uuid: string, leaseEpoch: number): Promise<void> {
    const key = this.#keys.writer(uuid);
    const [writer] = pickFirsts(await this.#client.transact([], [get(key)]));
    const holder = writer && decodeHolder(writer);
    if (!holder || holder.nodeId !== this.#node?.id || holder.leaseEpoch !== leaseEpoch) return;
    // If it has changed since, it is held under another lease epoch, or not at all.
    await this.#client.transact([unchanged(key, writer)], [remove(key)]);
  }

  async forget(uuid: string): Promise<void> {
    await this.#client.transact([], [remove(this.#keys.writer(uuid)), remove(this.#keys.oldLeaseEpoch(uuid))]);
  }

  nodes(): Promise<readonly LiveNode[]> {
    return this.#members.nodes();
  }

  async leave(): Promise<void> {
    this.#hasLeft = true;
    this.#cancelRound();
    try {
      await within(this.#world, leaseLeaveMs, async () => {
        // Its failure has been reported already.
        await Promise.allSettled([this.#round]);
        const lease = this.#lease;
        this.#lease = undefined;
        if (lease) await this.#client.revoke(lease.id);
      });
    } catch (error) {
      this.#log.warn("the lease could not be given back; it runs out by itself", { reason: describeReason(error) });
    }
    this.#lease = undefined;
    this.#client.close();
  }

  /** This node and the lease it has. */
  #standing(): { readonly node: LiveNode; readonly lease: EtcdLease } {
    if (!this.#node || !this.#lease) throw new StoreError("unavailable", "coordination: this node has no lease now");
    return { node: this.#node, lease: this.#lease };
  }

  /** A transaction whose keys live with the lease: if that is gone, so is what was done. */
  async #transactUnder(lease: EtcdLease, transact: () => Promise<EtcdOutcome>): Promise<EtcdOutcome> {
    try {
      const outcome = await transact();
      if (this.#lease === lease) return outcome;
    } catch (error) {
      if (!(error instanceof UnknownLease)) throw error;
      this.#lose(lease);
    }
    throw new StoreError("unavailable", "coordination: this node has lost its lease");
  }

  /** One round, and the next one later; for ever. Answers why this one failed, if it did. */
  async #keep(): Promise<unknown> {
    const startedMs = this.#world.monotonicMs();
    this.#round = this.#renew();
    const fault = await this.#round.then(
      () => undefined,
      (error: unknown) => error,
    );
    this.#round = undefined;
    if (fault === undefined && this.#failures > 0)
      this.#log.info("the lease is renewed again", { failures: this.#failures });
    if (fault !== undefined && this.#failures === 0 && !this.#hasLeft)
      this.#log.warn("the lease was not renewed; it is tried again", { reason: describeReason(fault) });
    if (fault !== undefined && !this.#hasLeft) this.#events?.renewalFailed?.();
    this.#failures = fault === undefined ? 0 : this.#failures + 1;
    const tookMs = this.#world.monotonicMs() - startedMs;
    this.#nextRound(this.#failures === 0 && this.#lease ? Math.max(0, this.#renewMs - tookMs) : this.#retryMs());
    return fault;
  }

  #nextRound(delayMs: number): void {
    this.#cancelRound();
    if (!this.#hasLeft) this.#cancelRound = this.#world.after(delayMs, () => void this.#keep());
  }

  /** Ever longer up to a bound, and random, so that a crowd disperses. */
  #retryMs(): number {
    const mostMs = Math.min(leaseRetryMsMax, leaseRetryMsMin * 2 ** Math.max(0, this.#failures - 1));
    const fraction = Buffer.from(this.#world.randomBytes(4)).readUInt32LE() / 2 ** 32;
    return (mostMs * (1 + fraction)) / 2;
  }

  /** Renews the lease, or takes a new one when there is none or it is gone. */
  async #renew(): Promise<void> {
    await this.#proveProgress();
    if (await this.#isRenewed()) return;
    // It was lost just now, so this asks for a new one.
    if (!this.#hasLeft && (await this.#isRenewed())) return;
    throw new StoreError("unavailable", "coordination: the lease was gone as soon as it was granted");
  }

  /** Renews or takes the lease and says for how long it is certain; false when it turns out to be gone. */
  async #isRenewed(): Promise<boolean> {
    const [monotonicMs, wallMs] = [this.#world.monotonicMs(), this.#world.wallMs()];
    const { lease, ttlSecs } = await this.#extended();
    if (lease === undefined || this.#lease !== lease) return false;
    await this.#announce(lease);
    if (this.#lease !== lease) return false;
    const certainMs = Math.min(ttlSecs, this.#ttlSecs) * 1_000 - this.#marginMs;
    this.#events!.renewed({ monotonicMs: monotonicMs + certainMs, wallMs: wallMs + certainMs });
    return true;
  }

  async #proveProgress(): Promise<void> {
    this.#proof ??= this.#progress().finally(() => (this.#proof = undefined));
    const proof = this.#proof;
    await within(this.#world, limits.leaseProgressMs, () => proof);
  }

  /** The lease with its whole time before it again, or a new one; none when it was lost just now. */
  async #extended(): Promise<{ readonly lease: EtcdLease | undefined; readonly ttlSecs: number }> {
    const lease = this.#lease;
    if (!lease) {
      const granted = await this.#client.grant(this.#ttlSecs);
      this.#lease = { id: granted.id };
      return { lease: this.#lease, ttlSecs: granted.ttlSecs };
    }
    try {
      return { lease, ttlSecs: await this.#client.keepAlive(lease.id) };
    } catch (error) {
      if (!(error instanceof UnknownLease)) throw error;
      this.#lose(lease);
      return { lease: undefined, ttlSecs: 0 };
    }
  }

  /** Says what this node is, unless that is known already. */
  async #announce(lease: EtcdLease): Promise<void> {
    await this.#announcing.run(async () => {
      const node = this.#node!;
      if (this.#lease !== lease || (this.#announced?.lease === lease && this.#announced.node === node)) return;
      try {
        await this.#client.transact(
          [],
          [put(this.#keys.node(node.id), nodeText(node), lease.id), put(this.#keys.announced, node.id)],
        );
        this.#announced = { node, lease };
        this.#members.changed();
      } catch (error) {
        if (!(error instanceof UnknownLease)) throw error;
        this.#lose(lease);
      }
    });
  }

  /** etcd says that the lease is gone. A round that is under way takes a new one; otherwise one begins now. */
  #lose(lease: EtcdLease): void {
    if (this.#lease !== lease) return;
    this.#lease = undefined;
    this.#members.changed();
    this.#log.warn("the lease is gone, and every database with it; a new one is asked for");
    this.#events!.lost();
    if (!this.#round) this.#nextRound(0);
  }
}

/** The first key of each range that was read. */
function pickFirsts({ read }: EtcdOutcome): readonly (EtcdEntry | undefined)[] {
  return read.map(([first]) => first);
}

/** What is logged of a failure; its cause says which endpoint and why. */
function describeReason(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}
