/**
 * The calls that another node is to answer, from the moment that they are taken to their answer.
 *
 * Always true: every call settles once, by its answer, its deadline, or the loss of the link; their number and their
 * bytes are bounded. What has not left is known to have had no effect; what has left is sent again only where that does
 * no harm. Must not know: streams, and when they are opened.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import type { PortCall } from "../../engine/api/engine-port.ts";
import type { Answer } from "../../engine/api/protocol.ts";
import { type ForwardedCall, Unreachable } from "../../service/placement/peers.ts";

/** A call under way. */
interface Pending {
  readonly deadlineMs: number;
  readonly bytes: number;
  /** Whether the call may be made again although its outcome is unknown. */
  readonly isRepeatable: boolean;
  /** Whether the other node may have got it. */
  isSent: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Deadlines are looked at this often: a refusal may come this much late, and no call costs a timer. */
const deadlineCheckMs = 50;

/** The calls of one link. */
export class PendingCalls {
  readonly #world: World;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #bytes = 0;
  #isChecking = false;

  constructor(world: World) {
    this.#world = world;
  }

  /** How many are under way. */
  get size(): number {
    return this.#pending.size;
  }

  /** Whether a caller still waits for the answer of this one. */
  has(id: number): boolean {
    return this.#pending.has(id);
  }

  /** Ids come round again after four billion calls; one that is still under way is left out. */
  nextId(): number {
    do this.#lastId = (this.#lastId + 1) >>> 0;
    while (this.#pending.has(this.#lastId));
    return this.#lastId;
  }

  /** Refuses a call for which there is no room. */
  requireRoom(bytes: number): void {
    if (bytes > limits.peerBytesMax)
      throw new ServiceError(
        "payload_too_large",
        "the call is too large to be forwarded to the node that writes this database",
      );
    if (this.#pending.size >= limits.peerCallsMax || this.#bytes + bytes > limits.peerBytesMax) {
      throw new ServiceError("overloaded", "too many calls are under way to the node that writes this database", {
        retryAfterSecs: limits.retryAfterSecsMin,
      });
    }
  }

  /** Waits for the answer of a call, for as long as it has time. */
  open(id: number, { call, budgetMs }: ForwardedCall, bytes: number): Promise<Answer> {
    const deadlineMs = this.#world.monotonicMs() + budgetMs;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { deadlineMs, bytes, isRepeatable: isRepeatable(call), isSent: false, resolve, reject });
      this.#bytes += bytes;
      this.#checkDeadlines();
    });
  }

  /** The call leaves now. Gives the time that the other node has for it: none when its caller has stopped waiting. */
  send(id: number, nowMs: number): number {
    const pending = this.#pending.get(id);
    if (!pending) return 0;
    pending.isSent = true;
    return Math.max(0, pending.deadlineMs - nowMs);
  }

  /** Takes a call out that is answered now; undefined when its caller has stopped waiting. */
  settle(id: number): Pick<Pending, "resolve" | "reject"> | undefined {
    const pending = this.#pending.get(id);
    if (pending) this.#bytes -= pending.bytes;
    this.#pending.delete(id);
    return pending;
  }

  /** Has those that have not left look for another node. */
  turnAwayUnsent(reason: string): void {
    for (const [id, { isSent, reject }] of this.#pending) {
      if (isSent) continue;
      this.settle(id);
      reject(new Unreachable(reason));
    }
  }

  /** The link is lost: what has not left hears why, what may have had an effect hears that its outcome is unknown. */
  lose(failure: ServiceError | Unreachable): void {
    for (const [id, { isSent, isRepeatable, reject }] of this.#pending) {
      this.settle(id);
      if (!isSent) reject(failure);
      else if (isRepeatable) reject(new Unreachable(failure.message));
      else
        reject(
          new ServiceError(
            "unavailable",
            "the node that writes this database was lost on the way; whether the write happened is not known",
            { retryAfterSecs: 1 },
          ),
        );
    }
  }

  #checkDeadlines(): void {
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#world.after(deadlineCheckMs, () => {
      this.#isChecking = false;
      const nowMs = this.#world.monotonicMs();
      for (const [id, { deadlineMs, isSent, reject }] of this.#pending) {
        if (deadlineMs > nowMs) continue;
        this.settle(id);
        reject(
          new ServiceError(
            "request_timeout",
            "the request's time was over before it was " +
              `answered; ${isSent ? "a write may still happen" : "nothing has happened"}`,
          ),
        );
      }
      if (this.#pending.size > 0) this.#checkDeadlines();
    });
  }
}

function isRepeatable(call: PortCall): boolean {
  if (call.kind === "branch") return call.act.act === "list" || call.act.act === "checkpoints";
  return call.kind === "read" || call.kind === "sql-read" || call.kind === "sync";
}
