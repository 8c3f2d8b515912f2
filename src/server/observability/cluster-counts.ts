/**
 * Counts what passes between this node and the others: calls by their outcome, links and leases that were lost.
 *
 * Always true: it changes nothing of what passes; nodes and databases are not told apart.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { TurnedAway } from "../../engine/api/engine-port.ts";
import type { Answer } from "../../engine/api/protocol.ts";
import { Unreachable, type PeerHost, type Peers } from "../../service/placement/peers.ts";

/** What came of a forwarded call; `unavailable` is mostly one whose effect is in doubt. */
const forwardOutcomes = ["answered", "refused", "turned_away", "unreachable", "unavailable", "fault"] as const;
export type ForwardOutcome = (typeof forwardOutcomes)[number];

export class ClusterCounts {
  /** Calls that other nodes were asked to answer, and calls that this one was asked to answer for them. */
  readonly forwarded = { out: none(), in: none() };
  /** Links to other nodes that were lost. */
  linksLost = 0;
  /** Renewals of the node's lease that failed. */
  renewalsFailed = 0;
  /** Leases that this node had and lost before it left. */
  leasesLost = 0;

  /** The other nodes, with what is sent to them counted. */
  peers(peers: Peers): Peers {
    return {
      forward: (address, call) => counted(this.forwarded.out, peers.forward(address, call)),
      follow: (address, uuid) => peers.follow(address, uuid),
      nudge: (address) => peers.nudge(address),
      close: () => peers.close(),
    };
  }

  /** What this node does for the others, with their calls counted. */
  host(host: PeerHost): PeerHost {
    return {
      serve: (call) => counted(this.forwarded.in, host.serve(call)),
      followed: (uuid, hint) => host.followed(uuid, hint),
      hinted: (uuid) => host.hinted(uuid),
      nudged: () => host.nudged(),
    };
  }
}

function none(): Record<ForwardOutcome, number> {
  return { answered: 0, refused: 0, turned_away: 0, unreachable: 0, unavailable: 0, fault: 0 };
}

async function counted(counts: Record<ForwardOutcome, number>, answering: Promise<Answer>): Promise<Answer> {
  try {
    const answer = await answering;
    counts.answered++;
    return answer;
  } catch (error) {
    counts[classifyOutcome(error)]++;
    throw error;
  }
}

function classifyOutcome(error: unknown): ForwardOutcome {
  if (error instanceof TurnedAway) return "turned_away";
  if (error instanceof Unreachable) return "unreachable";
  if (error instanceof ServiceError) return error.code === "unavailable" ? "unavailable" : "refused";
  return "fault";
}
