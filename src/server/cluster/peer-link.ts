/**
 * What one node asks of another: the stream that carries calls and hints, when it is opened, and when it is abandoned.
 *
 * Always true: no call leaves before the other node has greeted, so that one that never got there is known to have had
 * no effect; calls of one turn of the loop share a message. A node that owes something and says nothing is abandoned
 * after `limits.peerSilenceMs`: a stopped one must not hold callers until their deadlines. Must not know which database
 * is where, nor what becomes of a call (server/cluster/pending-calls).
 */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type Call,
  type ExchangeRequest,
  ExchangeRequestSchema,
  type ExchangeResponse,
} from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { Answer } from "../../engine/api/protocol.ts";
import { type ForwardedCall, Unreachable } from "../../service/placement/peers.ts";
import { encodeCall, decodeOutcome } from "../node-wire/node-messages.ts";
import { Inbox, Outbox } from "../node-wire/message-chunking.ts";
import { ownCodecs, type PayloadCodec } from "../node-wire/node-protocol.ts";
import { PeerStream } from "./peer-stream.ts";
import { PendingCalls } from "./pending-calls.ts";

/** While something is expected of a node, it is asked this often whether it lives. */
const peerPingMs = 1_000;
/**
 * After a link was lost, the node is not tried again for this long, and then for longer and longer up to the second
 * time.
 */
const peerRetryMsMin = 100;
const peerRetryMsMax = 2_000;

/** What links need, whichever node they lead to. */
export interface LinkOptions {
  readonly clusterKey: string;
  readonly world: World;
  readonly log: Log;
  /** Another node says that a head of the database has moved. */
  readonly hinted: (uuid: string) => void;
  /** A link over which the other node had greeted is lost. */
  readonly linkLost?: () => void;
  /** What this node speaks, newest first. */
  readonly codecs?: readonly PayloadCodec[];
}

/** The stream as the link sees it. */
interface Line {
  readonly stream: PeerStream;
  /** How payloads are written; undefined until the other node has greeted. */
  codec: PayloadCodec | undefined;
  /** The other node takes no more calls. */
  isLeaving: boolean;
}

/** This node's side of the talk with one other node. */
export class PeerLink {
  readonly #address: string;
  readonly #options: LinkOptions;
  readonly #calls: PendingCalls;
  /** Followed databases, and until when the other node tells of them. */
  readonly #follows = new Map<string, number>();
  /** Of these, the ones that the other node is still to be told. */
  readonly #untold = new Set<string>();
  #outbox = new Outbox<Call>();
  /** Calls that are in the outbox since before the other node has greeted, by their ids. */
  readonly #early = new Map<number, ForwardedCall>();
  #inbox = new Inbox();
  #line: Line | undefined;
  /** Since when something is expected of the other node and nothing was heard. */
  #silentSinceMs: number | undefined;
  #usedMs = 0;
  #isPinging = false;
  #isNudging = false;
  /** Why the last try failed, and until when there is no other. */
  #failure: { readonly error: ServiceError | Unreachable; readonly untilMs: number } | undefined;
  #retryMs: number = peerRetryMsMin;
  /** What the log was told last of this link. */
  #said: string | undefined;
  #isFlushing = false;
  #isBeating = false;

  constructor(address: string, options: LinkOptions) {
    this.#address = address;
    this.#options = options;
    this.#calls = new PendingCalls(options.world);
  }

  /** Whether nothing is lost with this link. */
  get isIdle(): boolean {
    return this.#line === undefined && this.#follows.size === 0 && this.#pauseMs === 0;
  }

  /** Has the other node answer the call. */
  async forward(call: ForwardedCall): Promise<Answer> {
    this.#connect();
    const id = this.#calls.nextId();
    const message = encodeCall(id, call, this.#line?.codec ?? this.#codecs[0]!);
    this.#calls.requireRoom(message.payload.length);
    this.#usedMs = this.#options.world.monotonicMs();
    this.#outbox.put(message);
    if (!this.#line?.codec) this.#early.set(id, call);
    this.#flushSoon();
    return this.#calls.open(id, call, message.payload.length);
  }

  /** Has the other node say for a while when a head of the database moves. */
  follow(uuid: string): void {
    const nowMs = this.#options.world.monotonicMs();
    const untilMs = this.#follows.get(uuid);
    // A follower says so at every look; the other node needs to hear it now and then.
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

  /** Makes sure that there is a stream, or throws why there is none for now. */
  #connect(): void {
    if (this.#line?.isLeaving) throw new Unreachable(`the node at ${this.#address} is leaving`);
    if (this.#line) return;
    if (this.#failure && this.#pauseMs > 0) throw this.#failure.error;
    const nowMs = this.#options.world.monotonicMs();
    this.#silentSinceMs = nowMs;
    this.#usedMs = nowMs;
    for (const uuid of this.#follows.keys()) this.#untold.add(uuid);
    const stream = new PeerStream(this.#address, this.#options.clusterKey, this.#codecs, {
      greeted: (codec) => this.#greeted(line, codec),
      compose: () => this.#compose(),
      hear: (message) => this.#hear(line, message),
      lost: (error) => this.#lost(line, error),
    });
    const line: Line = { stream, codec: undefined, isLeaving: false };
    this.#line = line;
    this.#beat();
  }

  #greeted(line: Line, codec: PayloadCodec): void {
    line.codec = codec;
    if (codec !== this.#codecs[0]) this.#rewrite(codec);
    this.#early.clear();
    this.#silentSinceMs = undefined;
    this.#retryMs = peerRetryMsMin;
    this.#failure = undefined;
    this.#said = undefined;
  }

  /** What waits was written as the newest nodes read it, and this one does not. */
  #rewrite(codec: PayloadCodec): void {
    this.#outbox = new Outbox();
    for (const [id, call] of this.#early) if (this.#calls.has(id)) this.#outbox.put(encodeCall(id, call, codec));
  }

  get #codecs(): readonly PayloadCodec[] {
    return this.#options.codecs ?? ownCodecs;
  }

  /** For how long the node is not tried again. */
  get #pauseMs(): number {
    return this.#failure ? Math.max(0, this.#failure.untilMs - this.#options.world.monotonicMs()) : 0;
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
    const { pieces, parcels } = this.#outbox.take(({ id }) => this.#calls.has(id));
    if (pieces.length + parcels.length + this.#untold.size === 0 && !this.#isPinging && !this.#isNudging)
      return undefined;
    for (const call of parcels) call.budgetMs = this.#calls.send(call.id, nowMs);
    const message = create(ExchangeRequestSchema, {
      pieces,
      calls: parcels,
      follows: [...this.#untold],
      ping: this.#isPinging,
      nudge: this.#isNudging,
    });
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
      const outcome = decodeOutcome(answer, this.#inbox.whole(answer), line.codec!);
      const pending = this.#calls.settle(answer.id);
      if ("error" in outcome) pending?.reject(outcome.error);
      else pending?.resolve(outcome.answer);
    }
    for (const uuid of moved) if (this.#follows.has(uuid)) this.#options.hinted(uuid);
    if (leaving) this.#leave(line);
    if (line.isLeaving && this.#calls.size === 0) line.stream.finish();
  }

  /**
   * The other node takes no more calls: those that have not left look for another one, the others get their answers.
   */
  #leave(line: Line): void {
    line.isLeaving = true;
    this.#calls.turnAwayUnsent(`the node at ${this.#address} is leaving`);
  }

  #lost(line: Line, error: unknown): void {
    if (this.#line !== line) return;
    this.#line = undefined;
    this.#silentSinceMs = undefined;
    this.#isPinging = false;
    this.#isNudging = false;
    this.#inbox = new Inbox();
    this.#outbox = new Outbox();
    this.#early.clear();
    const failure = this.#toFailure(error);
    this.#failure = { error: failure, untilMs: this.#options.world.monotonicMs() + this.#retryMs };
    this.#retryMs = Math.min(this.#retryMs * 2, peerRetryMsMax);
    if (error !== undefined && line.codec) this.#options.linkLost?.();
    if (error !== undefined) this.#report(failure, line.codec !== undefined);
    this.#calls.lose(failure);
  }

  /** The error of calls that have not left: another try helps, unless the other node refuses to know this one. */
  #toFailure(error: unknown): ServiceError | Unreachable {
    const code = error instanceof ConnectError ? error.code : undefined;
    const reason = error instanceof Error ? error.message : "it has hung up";
    if (code === Code.Unauthenticated) {
      return new ServiceError(
        "unavailable",
        "the node that writes this database has another cluster key than this one",
        { retryAfterSecs: limits.retryAfterSecsMin },
      );
    }
    if (code === Code.FailedPrecondition) {
      return new ServiceError(
        "unavailable",
        `the node that writes this database cannot be talked to, as the nodes are of different builds: ${reason}`,
        { retryAfterSecs: limits.retryAfterSecsMin },
      );
    }
    return new Unreachable(`the node at ${this.#address} cannot be reached: ${reason}`);
  }

  /** The same thing once, until the other node has greeted again. */
  #report(failure: ServiceError | Unreachable, wasGreeted: boolean): void {
    const { log } = this.#options;
    if (failure.message === this.#said) return;
    this.#said = failure.message;
    const address = this.#address;
    if (failure instanceof Unreachable)
      log.warn(wasGreeted ? "the link to another node was lost" : "another node cannot be reached", {
        address,
        reason: failure.message,
        calls: this.#calls.size,
      });
    else
      log.error(
        "another node refuses this one: give all nodes the same SERVICE_CLUSTER_KEY, or the same " +
          "SERVICE_AUTH_KEY from which it is derived, and the same version",
        failure,
        { address },
      );
  }

  /** Once a second while there is a stream or a reason for one. */
  #beat(): void {
    if (this.#isBeating) return;
    this.#isBeating = true;
    const begunMs = this.#options.world.monotonicMs();
    this.#options.world.after(peerPingMs, () => {
      this.#isBeating = false;
      const nowMs = this.#options.world.monotonicMs();
      for (const [uuid, untilMs] of this.#follows) if (untilMs <= nowMs) this.#follows.delete(uuid);
      // After being held up itself, this node must first hear what has come meanwhile.
      if (nowMs - begunMs > 2 * peerPingMs && this.#silentSinceMs !== undefined) this.#silentSinceMs = nowMs;
      if (this.#line) this.#tend(this.#line, nowMs);
      else if (this.#follows.size > 0) this.#reconnect();
      if (this.#line || this.#follows.size > 0) this.#beat();
    });
  }

  #tend(line: Line, nowMs: number): void {
    const isWanted = this.#calls.size + this.#follows.size > 0;
    if (isWanted) this.#usedMs = nowMs;
    if (this.#silentSinceMs !== undefined && nowMs - this.#silentSinceMs >= limits.peerSilenceMs) {
      line.stream.abandon(new Error("it says nothing"));
    } else if (line.isLeaving && this.#calls.size === 0) {
      line.stream.finish();
    } else if (isWanted && line.codec) {
      this.#isPinging = true;
      this.#silentSinceMs ??= nowMs;
      line.stream.wake();
    } else if (nowMs - this.#usedMs >= limits.peerIdleMs) {
      this.#hangUp(line);
    }
  }

  /** Nothing is under way, so that no caller needs to hear how the stream ends. */
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
