/**
 * What one node asks of another: calls under way, databases followed, and the stream that carries both.
 *
 * Always true: every call settles once, by its answer, its deadline, or the loss of the link; no call leaves before the
 * other node has greeted, so that one that never got there is known to have had no effect; calls of one turn of the loop
 * share a message. A node of which something is expected and that says nothing is given up after
 * `limits.peerSilenceMs`: a stopped one must not hold callers until their deadlines. Must not know which database is
 * where.
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Call, type ExchangeRequest, ExchangeRequestSchema, type ExchangeResponse } from "../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { Log } from "../base/log.ts";
import type { World } from "../base/world.ts";
import type { PortCall } from "../engine/engine-port.ts";
import type { Answer } from "../engine/protocol.ts";
import { type ForwardedCall, Unreachable } from "../service/peers.ts";
import { messageOfCall, outcomeOfMessage } from "./node-messages.ts";
import { Inbox, Outbox } from "./parcels.ts";
import { PeerStream } from "./peer-stream.ts";

/** What links need, whichever node they lead to. */
export interface LinkOptions {
  readonly clusterKey: string;
  readonly world: World;
  readonly log: Log;
  /** Another node says that a head of the database has moved. */
  readonly hinted: (uuid: string) => void;
  /** A link over which the other node had greeted is lost. */
  readonly linkLost?: () => void;
}

interface Pending {
  readonly deadlineMs: number;
  readonly bytes: number;
  /** Whether the call may be made again although nobody knows what became of it. */
  readonly isRepeatable: boolean;
  /** Whether the other node may have got it. */
  isSent: boolean;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** The stream as the link sees it. */
interface Line {
  readonly stream: PeerStream;
  isGreeted: boolean;
  /** The other node takes no more calls. */
  isLeaving: boolean;
}

/** Deadlines are looked at this often: a refusal may come this much late, and no call costs a timer. */
const deadlineCheckMs = 50;

export class PeerLink {
  readonly #address: string;
  readonly #options: LinkOptions;
  readonly #pending = new Map<number, Pending>();
  /** Followed databases, and until when the other node tells of them. */
  readonly #follows = new Map<string, number>();
  /** Of these, the ones that the other node is still to be told. */
  readonly #untold = new Set<string>();
  #outbox = new Outbox<Call>();
  #inbox = new Inbox();
  #line: Line | undefined;
  #lastId = 0;
  #bytes = 0;
  /** Since when something is expected of the other node and nothing was heard. */
  #silentSinceMs: number | undefined;
  #usedMs = 0;
  #isPinging = false;
  #isNudging = false;
  /** Why the last try failed, and until when there is no other. */
  #failure: { readonly error: ServiceError | Unreachable; readonly untilMs: number } | undefined;
  #retryMs: number = limits.peerRetryMsMin;
  /** What the log was told last of this link. */
  #said: string | undefined;
  #isFlushing = false;
  #isChecking = false;
  #isBeating = false;

  constructor(address: string, options: LinkOptions) {
    this.#address = address;
    this.#options = options;
  }

  /** Whether nothing is lost with this link. */
  get isIdle(): boolean {
    return this.#line === undefined && this.#follows.size === 0 && this.#pauseMs === 0;
  }

  async forward(call: ForwardedCall): Promise<Answer> {
    this.#connect();
    const id = this.#nextId();
    const message = messageOfCall(id, call);
    const bytes = message.payload.length;
    if (bytes > limits.peerBytesMax) throw new ServiceError("payload_too_large", "the call is too large to be forwarded to the node that writes this database");
    if (this.#pending.size >= limits.peerCallsMax || this.#bytes + bytes > limits.peerBytesMax) {
      throw new ServiceError("overloaded", "too many calls are under way to the node that writes this database", { retryAfterSecs: limits.retryAfterSecsMin });
    }
    const nowMs = this.#options.world.monotonicMs();
    this.#usedMs = nowMs;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { deadlineMs: nowMs + call.budgetMs, bytes, isRepeatable: isRepeatable(call.call), isSent: false, resolve, reject });
      this.#bytes += bytes;
      this.#outbox.put(message);
      this.#flushSoon();
      this.#checkDeadlines();
    });
  }

  follow(uuid: string): void {
    const nowMs = this.#options.world.monotonicMs();
    const untilMs = this.#follows.get(uuid);
    // Who follows says so at every look; the other node needs to hear it now and then.
    if (untilMs !== undefined && untilMs - nowMs > limits.followMs / 2) return;
    if (untilMs === undefined && this.#follows.size >= limits.peerFollowsMax) return;
    this.#follows.set(uuid, nowMs + limits.followMs);
    this.#untold.add(uuid);
    this.#reconnect();
    this.#flushSoon();
    this.#beat();
  }

  /** Has the other node look for orders now. */
  nudge(): void {
    this.#isNudging = true;
    // Whatever is said has to be answered by something.
    this.#isPinging = true;
    this.#reconnect();
    this.#flushSoon();
    this.#beat();
  }

  /** Refuses what is under way and hangs up. */
  close(): void {
    this.#follows.clear();
    this.#line?.stream.abandon(undefined);
  }

  /** Sees to it that there is a stream, or throws why there is none for now. */
  #connect(): void {
    if (this.#line?.isLeaving) throw new Unreachable(`the node at ${this.#address} is leaving`);
    if (this.#line) return;
    if (this.#failure && this.#pauseMs > 0) throw this.#failure.error;
    const nowMs = this.#options.world.monotonicMs();
    this.#silentSinceMs = nowMs;
    this.#usedMs = nowMs;
    for (const uuid of this.#follows.keys()) this.#untold.add(uuid);
    const stream = new PeerStream(this.#address, this.#options.clusterKey, {
      greeted: () => this.#greeted(line),
      compose: () => this.#compose(),
      hear: (message) => this.#hear(line, message),
      lost: (error) => this.#lost(line, error),
    });
    const line: Line = { stream, isGreeted: false, isLeaving: false };
    this.#line = line;
    this.#beat();
  }

  #greeted(line: Line): void {
    line.isGreeted = true;
    this.#silentSinceMs = undefined;
    this.#retryMs = limits.peerRetryMsMin;
    this.#failure = undefined;
    this.#said = undefined;
  }

  /** For how long the node is not tried again. */
  get #pauseMs(): number {
    return this.#failure ? Math.max(0, this.#failure.untilMs - this.#options.world.monotonicMs()) : 0;
  }

  /** Ids come round again after four billion calls; one that is still under way is left out. */
  #nextId(): number {
    do this.#lastId = (this.#lastId + 1) >>> 0;
    while (this.#pending.has(this.#lastId));
    return this.#lastId;
  }

  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    this.#options.world.soon(() => {
      this.#isFlushing = false;
      this.#line?.stream.wake();
    });
  }

  #compose(): ExchangeRequest | undefined {
    const nowMs = this.#options.world.monotonicMs();
    const { pieces, parcels } = this.#outbox.take(({ id }) => this.#pending.has(id));
    if (pieces.length + parcels.length + this.#untold.size === 0 && !this.#isPinging && !this.#isNudging) return undefined;
    for (const call of parcels) {
      const pending = this.#pending.get(call.id);
      if (pending) pending.isSent = true;
      call.budgetMs = pending ? Math.max(0, pending.deadlineMs - nowMs) : 0;
    }
    const message = create(ExchangeRequestSchema, { pieces, calls: parcels, follows: [...this.#untold], ping: this.#isPinging, nudge: this.#isNudging });
    this.#untold.clear();
    this.#isNudging = false;
    this.#isPinging = false;
    // Whatever is said, an answer is due: to a call or to the next ping.
    this.#silentSinceMs ??= nowMs;
    return message;
  }

  #hear(line: Line, { pieces, answers, moved, leaving }: ExchangeResponse): void {
    this.#silentSinceMs = undefined;
    for (const piece of pieces) this.#inbox.add(piece);
    for (const answer of answers) {
      const outcome = outcomeOfMessage(answer, this.#inbox.whole(answer));
      const pending = this.#settle(answer.id);
      if ("error" in outcome) pending?.reject(outcome.error);
      else pending?.resolve(outcome.answer);
    }
    for (const uuid of moved) if (this.#follows.has(uuid)) this.#options.hinted(uuid);
    if (leaving) this.#leave(line);
    if (line.isLeaving && this.#pending.size === 0) line.stream.finish();
  }

  /** The other node takes no more calls: those that have not left look for another one, the others get their answers. */
  #leave(line: Line): void {
    line.isLeaving = true;
    for (const [id, { isSent, reject }] of this.#pending) {
      if (isSent) continue;
      this.#settle(id);
      reject(new Unreachable(`the node at ${this.#address} is leaving`));
    }
  }

  #lost(line: Line, error: unknown): void {
    if (this.#line !== line) return;
    this.#line = undefined;
    this.#silentSinceMs = undefined;
    this.#isPinging = false;
    this.#isNudging = false;
    this.#inbox = new Inbox();
    this.#outbox = new Outbox();
    const failure = this.#failureOf(error);
    this.#failure = { error: failure, untilMs: this.#options.world.monotonicMs() + this.#retryMs };
    this.#retryMs = Math.min(this.#retryMs * 2, limits.peerRetryMsMax);
    if (error !== undefined && line.isGreeted) this.#options.linkLost?.();
    if (error !== undefined) this.#report(failure, line.isGreeted);
    for (const [id, { isSent, isRepeatable, reject }] of this.#pending) {
      this.#settle(id);
      if (!isSent) reject(failure);
      else if (isRepeatable) reject(new Unreachable(failure.message));
      else reject(new ServiceError("unavailable", "the node that writes this database was lost on the way; whether the write happened is not known", { retryAfterSecs: 1 }));
    }
  }

  /** What calls that have not left are told: another try helps, unless the other node does not want to know this one. */
  #failureOf(error: unknown): ServiceError | Unreachable {
    const code = error instanceof ConnectError ? error.code : undefined;
    const reason = error instanceof Error ? error.message : "it has hung up";
    if (code === Code.Unauthenticated) {
      return new ServiceError("unavailable", "the node that writes this database has another cluster key than this one", { retryAfterSecs: limits.retryAfterSecsMin });
    }
    if (code === Code.FailedPrecondition) {
      return new ServiceError("unavailable", `the node that writes this database cannot be talked to, as the nodes are of different builds: ${reason}`, { retryAfterSecs: limits.retryAfterSecsMin });
    }
    return new Unreachable(`the node at ${this.#address} cannot be reached: ${reason}`);
  }

  /** The same thing once, until the other node has greeted again. */
  #report(failure: ServiceError | Unreachable, wasGreeted: boolean): void {
    const { log } = this.#options;
    if (failure.message === this.#said) return;
    this.#said = failure.message;
    const address = this.#address;
    if (failure instanceof Unreachable) log.warn(wasGreeted ? "the link to another node was lost" : "another node cannot be reached", { address, reason: failure.message, calls: this.#pending.size });
    else log.error("another node refuses this one: give all nodes the same SERVICE_CLUSTER_KEY, or the same SERVICE_AUTH_KEY from which it is derived, and the same version", failure, { address });
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending) this.#bytes -= pending.bytes;
    this.#pending.delete(id);
    return pending;
  }

  #checkDeadlines(): void {
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#options.world.after(deadlineCheckMs, () => {
      this.#isChecking = false;
      const nowMs = this.#options.world.monotonicMs();
      for (const [id, { deadlineMs, isSent, reject }] of this.#pending) {
        if (deadlineMs > nowMs) continue;
        this.#settle(id);
        reject(new ServiceError("request_timeout", `the request's time was over before it was answered; ${isSent ? "a write may still happen" : "nothing has happened"}`));
      }
      if (this.#pending.size > 0) this.#checkDeadlines();
    });
  }

  /** Once a second while there is a stream or a reason for one. */
  #beat(): void {
    if (this.#isBeating) return;
    this.#isBeating = true;
    const begunMs = this.#options.world.monotonicMs();
    this.#options.world.after(limits.peerPingMs, () => {
      this.#isBeating = false;
      const nowMs = this.#options.world.monotonicMs();
      for (const [uuid, untilMs] of this.#follows) if (untilMs <= nowMs) this.#follows.delete(uuid);
      // Whoever was held up himself must first hear what has come meanwhile.
      if (nowMs - begunMs > 2 * limits.peerPingMs && this.#silentSinceMs !== undefined) this.#silentSinceMs = nowMs;
      if (this.#line) this.#tend(this.#line, nowMs);
      else if (this.#follows.size > 0) this.#reconnect();
      if (this.#line || this.#follows.size > 0) this.#beat();
    });
  }

  #tend(line: Line, nowMs: number): void {
    const isWanted = this.#pending.size + this.#follows.size > 0;
    if (isWanted) this.#usedMs = nowMs;
    if (this.#silentSinceMs !== undefined && nowMs - this.#silentSinceMs >= limits.peerSilenceMs) {
      line.stream.abandon(new Error("it says nothing"));
    } else if (line.isLeaving && this.#pending.size === 0) {
      line.stream.finish();
    } else if (isWanted && line.isGreeted) {
      this.#isPinging = true;
      this.#silentSinceMs ??= nowMs;
      line.stream.wake();
    } else if (nowMs - this.#usedMs >= limits.peerIdleMs) {
      this.#hangUp(line);
    }
  }

  /** Nothing is under way, so that nobody needs to hear how the stream ends. */
  #hangUp(line: Line): void {
    this.#line = undefined;
    line.stream.finish();
    this.#options.world.after(limits.peerSilenceMs, () => line.stream.abandon(undefined));
  }

  /** For what is followed, which can wait. */
  #reconnect(): void {
    try {
      this.#connect();
    } catch (error) {
      // Not now; a later beat tries again.
      if (!(error instanceof ServiceError || error instanceof Unreachable)) throw error;
    }
  }
}

function isRepeatable(call: PortCall): boolean {
  if (call.kind === "branch") return call.act.act === "list" || call.act.act === "checkpoints";
  return call.kind === "read" || call.kind === "sql-read" || call.kind === "sync";
}
