/**
 * The lease port: who may write a database now, and which nodes live. The adapter is etcd's (store/etcd/etcd-leases); a
 * node without coordination needs no leases (engine/api/lease-expiry), and tests of several nodes in one process share
 * a table.
 *
 * Leases are for liveness: they make it unlikely that two nodes claim one branch. Safety is the manifest's
 * compare-and-set (engine/history/manifest-writer), whatever a lease says. Always true of an adapter: a lease epoch is
 * given to one holder once, and every later lease epoch of the database is larger, unless the coordination store has
 * lost data. Nothing of a database without a holder stays there: there are more databases than it has room for.
 */

/** A node as the others see it. */
export interface LiveNode {
  /** The node's identity, which stays with its data directory. */
  readonly id: string;
  /** Where other nodes reach it, an origin such as `http://10.0.0.3:8080`. */
  readonly address: string;
  /** Whether it reached object storage when it last looked. */
  readonly reachesStore: boolean;
  /** Whether it takes its share of the jobs by shards (service/placement/shards), as builds that say so do. */
  readonly sharesJobs: boolean;
}

/** Who may write a database. */
export interface Holder {
  readonly nodeId: string;
  readonly address: string;
  /** Grows with every holding of the database, by one or more. */
  readonly leaseEpoch: number;
}

/** The outcome of asking for a database. */
export type Acquisition =
  | { readonly kind: "acquired"; readonly leaseEpoch: number }
  /** Another node holds it. */
  | { readonly kind: "held"; readonly by: Holder };

/** What is known of who holds a database. */
export interface Holding {
  /** Undefined when no node holds it. */
  readonly holder: Holder | undefined;
}

/** What an adapter tells its node. Called on the node's own thread. */
export interface LeaseEvents {
  /** The node's lease was renewed: it surely holds until this instant, on both clocks of the World. */
  renewed(until: { readonly monotonicMs: number; readonly wallMs: number }): void;
  /** The node's lease is gone, and every holding with it. A new one is asked for at once. */
  lost(): void;
  /** A renewal did not come through; it is tried again. */
  renewalFailed?(): void;
}

/**
 * All calls reject with StoreError: "unavailable" when the coordination store does not answer in time and nothing was
 * changed, "unknown_outcome" when a change may have happened.
 */
export interface Leases {
  /**
   * Takes this node's lease and announces it. Rejects when the store is misconfigured; one that does not answer is
   * asked again for ever, and the node is without a lease meanwhile.
   */
  join(node: LiveNode, events: LeaseEvents): Promise<void>;
  /** Announces a change of what others should know of this node. */
  announce(node: LiveNode): Promise<void>;
  /**
   * Takes the database, if no node holds it or this very node does (as after its restart), under a later lease epoch.
   */
  acquire(uuid: string): Promise<Acquisition>;
  holding(uuid: string): Promise<Holding>;
  /** Gives the database up, if this node still holds it under the lease epoch. */
  release(uuid: string, leaseEpoch: number): Promise<void>;
  /** No node holds the deleted database any more. */
  forget(uuid: string): Promise<void>;
  /**
   * The nodes that live, in no order; this one among them while it has its lease. May be a second old. The same array
   * for as long as nothing is seen to have changed, so that what was derived from it stays valid.
   */
  nodes(): Promise<readonly LiveNode[]>;
  /** Releases everything at once; other nodes see it at once. */
  leave(): Promise<void>;
}
