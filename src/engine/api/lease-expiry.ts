/**
 * What an engine thread knows of this node's right to write: which databases it holds, and until when that is certain.
 *
 * Always true: nothing is certain after the deadline on either clock. The monotonic clock goes on while a process is
 * stopped, the wall clock while a machine is suspended, so that a node that sleeps through its lease knows it on
 * waking. This limits how long an overtaken node goes on acknowledging; what it writes is harmless, because the
 * manifest's compare-and-set fails. Without coordination this node holds everything.
 */
import type { World } from "../../base/world.ts";

/** The last instant at which this node's leases surely hold, on both clocks of its World. */
export interface LeaseSpan {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export class LeaseState {
  readonly #world: Pick<World, "wallMs" | "monotonicMs">;
  readonly #alone: boolean;
  readonly #leaseEpochs = new Map<string, number>();
  #until: LeaseSpan | undefined;

  /** `alone`: there is no coordination, so that no lease is needed. */
  constructor(world: Pick<World, "wallMs" | "monotonicMs">, alone: boolean) {
    this.#world = world;
    this.#alone = alone;
  }

  /** The lease was renewed; undefined when it was lost, and with it every database. */
  renew(until: LeaseSpan | undefined): void {
    this.#until = until;
    if (until === undefined) this.#leaseEpochs.clear();
  }

  /** This node holds the database under the lease epoch. */
  hold(uuid: string, leaseEpoch: number): void {
    this.#leaseEpochs.set(uuid, leaseEpoch);
  }

  /** This node does not hold the database any more. */
  releaseDatabase(uuid: string): void {
    this.#leaseEpochs.delete(uuid);
  }

  /**
   * The lease epoch under which this node holds the database; undefined when it does not, 0 when no other node could.
   */
  getLeaseEpoch(uuid: string): number | undefined {
    return this.#alone ? 0 : this.#leaseEpochs.get(uuid);
  }

  /** Whether no other node can hold what this one does: only then is the local disk enough for an acknowledgement. */
  get isLive(): boolean {
    if (this.#alone) return true;
    const until = this.#until;
    return until !== undefined && this.#world.monotonicMs() < until.monotonicMs && this.#world.wallMs() < until.wallMs;
  }
}
