/**
 * What nodes do for each other, as plain data: calls for the database that another one writes, and hints that a
 * manifest has moved.
 *
 * Always true: a call that another node forwarded is never forwarded again, so that none can go in circles. Must not
 * know what carries it (server/cluster/peer-links, server/cluster/node-door).
 */
import type { CallerTold, PortCall } from "../../engine/api/engine-port.ts";
import type { Answer, Target, Consistency } from "../../engine/api/protocol.ts";

/** A call on its way to the node that is to answer it. */
export interface ForwardedCall {
  readonly target: Target;
  readonly call: PortCall;
  /** Of the sender's patience, from when it is received. */
  readonly budgetMs: number;
  readonly minTxid: number;
  readonly bytes: number;
  readonly durable: boolean;
  readonly consistency: Consistency | undefined;
  /** Whose call it is; undefined for a job of the node itself. */
  readonly caller: CallerTold | undefined;
  /** The trace that it belongs to, as the header of that name says it (base/trace). */
  readonly traceparent?: string | undefined;
  /**
   * The term under which the receiver is believed to hold the database: it turns the call away under any other.
   * Undefined when the sender knows of no holder: the receiver is to take the database, if no other node has.
   */
  readonly term: number | undefined;
}

/** The call never left this node: it has had no effect. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The other nodes. */
export interface Peers {
  /**
   * Has the node at the address answer the call. Throws its refusal (ServiceError), TurnedAway when it would not take
   * it, Unreachable when it never got it, and `unavailable` when it is unknown whether it did.
   */
  forward(address: string, call: ForwardedCall): Promise<Answer>;
  /** Asks the node at the address to say when manifests of the database have moved, for `limits.followMs` from now. */
  follow(address: string, uuid: string): void;
  /** Has the node at the address look for orders now. It may not hear of it, and finds them in its time. */
  nudge(address: string): void;
  /** Refuses what is under way and closes every link. */
  close(): Promise<void>;
}

/** What a node does for the others. */
export interface PeerHost {
  /** Answers the call here or throws: ServiceError, or TurnedAway. */
  serve(call: ForwardedCall): Promise<Answer>;
  /**
   * Another node follows the database: `hint` is called when one of its manifests has moved, until the returned end.
   */
  followed(uuid: string, hint: () => void): () => void;
  /** Another node says that a manifest of the database has moved. */
  hinted(uuid: string): void;
  /** Another node says that there is an order for this one in object storage. */
  nudged(): void;
}
