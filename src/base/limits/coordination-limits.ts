/**
 * Bounds of leases and of the coordination store (store/etcd/etcd-client, store/etcd/etcd-leases); part of
 * `limits`.
 */
export const coordinationLimits = {
  /** Another node may take over a database this long after its holder was last heard of. */
  leaseTtlSecs: 10,
  leaseRenewMs: 2_000,
  /**
   * A node takes its lease to end earlier than etcd does by this: a paused process must find that out before it
   * answers.
   */
  leaseMarginMs: 2_000,
  leaseRetryMsMin: 100,
  leaseRetryMsMax: 2_000,
  /** Disk and engine must prove by then that they get on, or the lease is not renewed. */
  leaseProgressMs: 2_000,
  /** How long a node that stops tries to give its lease back; otherwise it runs out by itself. */
  leaseLeaveMs: 3_000,
  /** One call of the coordination store must have its answer from one endpoint by then. */
  coordCallMs: 2_000,
  coordEndpointsMax: 16,
  /** Another node's change may come between a look and what rests on it this often. */
  coordTriesMax: 16,
  /** Counts of lease epochs that a node remembers: as many as there are (store/etcd/lease-records). */
  coordLeaseEpochsMax: 4_096,
  coordValueBytesMax: 1_024,
  coordAnswerBytesMax: 4 * 1_024 * 1_024,
  /** Text of an error of the coordination store, in characters. */
  coordMessageCharsMax: 200,
  /**
   * Live nodes that are listed at once, and that are looked at in all: those beyond do what they hold and are preferred
   * for nothing.
   */
  coordNodesPageMax: 1_000,
  coordNodesMax: 100_000,
  /** How long the live nodes are taken for the same without asking whether they are. */
  coordNodesMs: 1_000,
  /**
   * They are listed again after this, though nothing has said that they changed: nodes of older builds do not say it.
   */
  coordNodesListMs: 60_000,
} as const;
