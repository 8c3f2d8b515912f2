/**
 * One stream from another node: takes its calls, has them answered, and tells it of the databases that it follows.
 *
 * Always true:
 * - every call that was taken gets one answer, in whatever order they come
 * - answers of one turn of the loop share a message
 * - what fails by a fault of ours is logged here under an id, and the other node hears the id alone
 *
 * The stream ends when the other side has ended it and everything is answered.
 * Must not know: keys, leases, what runs a call.
 */
import { create } from "@bufbuild/protobuf";
import {
  type Call,
  type CallAnswer,
  type ExchangeRequest,
  type ExchangeResponse,
  ExchangeResponseSchema,
} from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { parseTraceparent } from "../../base/trace.ts";
import type { Cancel, World } from "../../base/world.ts";
import { type CallerTold, type PortCall, TurnedAway } from "../../engine/api/engine-port.ts";
import { isUuid } from "../../format/core/binary.ts";
import type { PeerHost } from "../../service/placement/peers.ts";
import { refusalFor } from "../wire/refusal.ts";
import { malformed } from "../node-wire/malformed-message.ts";
import { Inbox, Outbox } from "../node-wire/message-chunking.ts";
import { decodeCall, encodeAnswer, encodeRefusal, encodeTurnedAway } from "../node-wire/node-messages.ts";
import {
  commonCodec,
  ownCodecs,
  type PayloadCodec,
  offeredProtocols,
  toldProtocols,
} from "../node-wire/node-protocol.ts";

/** Answers that wait to be sent to one node; beyond them no more of its calls are taken in. */
const peerAnswersBytesMax = 16 * 1024 * 1024;

/** What a stream needs. */
export interface ExchangeOptions {
  readonly host: PeerHost;
  readonly world: World;
  readonly log: Log;
  /** What this node speaks, newest first. */
  readonly codecs?: readonly PayloadCodec[];
}

interface Follow {
  untilMs: number;
  readonly end: () => void;
}

export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #outbox = new Outbox<CallAnswer>();
  readonly #inbox = new Inbox();
  readonly #follows = new Map<string, Follow>();
  /** Databases that the other node is to look at. */
  readonly #moved = new Set<string>();
  #underWay = 0;
  #heardMs: number;
  #isPonging = false;
  #isLeaving = false;
  /** Whether the other node is still to be told that this one leaves. */
  #isTelling = false;
  /** Whether the other node has said all it will. */
  #isHeardOut = false;
  #isClosed = false;
  #failure: { readonly error: unknown } | undefined;
  #cancelBeat: Cancel = () => {};
  #isFlushing = false;
  #wake: () => void = () => {};
  #makeRoom: () => void = () => {};

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#heardMs = options.world.monotonicMs();
  }

  /** What is said to the other node, from the greeting on. `gone` is aborted when it is not there any more. */
  async *run(requests: AsyncIterable<ExchangeRequest>, gone: AbortSignal): AsyncGenerator<ExchangeResponse> {
    const incoming = requests[Symbol.asyncIterator]();
    const first = await incoming.next();
    const codec = this.#agree(first.done ? undefined : first.value);
    const leave = (): void => this.#fail(undefined);
    gone.addEventListener("abort", leave);
    this.#beat();
    void this.#receive({ [Symbol.asyncIterator]: () => incoming }, codec);
    try {
      yield create(ExchangeResponseSchema, { protocol: codec.protocol });
      while (!gone.aborted) {
        if (this.#failure) throw this.#failure.error;
        const message = this.#compose();
        if (message) yield message;
        else if (this.#isHeardOut && this.#underWay === 0) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      gone.removeEventListener("abort", leave);
      this.#close();
    }
  }

  /** Answers what is under way and turns away what still comes; the other node, which is told, ends the stream. */
  leave(): void {
    this.#isLeaving = true;
    this.#isTelling = true;
    this.#wake();
  }

  /** The protocol to speak with a caller that begins so. */
  #agree(greeting: ExchangeRequest | undefined): PayloadCodec {
    const codecs = this.#options.codecs ?? ownCodecs;
    const common = greeting && commonCodec(codecs, greeting);
    if (common) return common;
    const ours = toldProtocols(codecs.map(({ protocol }) => protocol));
    const theirs = toldProtocols(greeting ? offeredProtocols(greeting) : []);
    throw new ServiceError("unconfigured", `this node speaks ${ours}, and the caller ${theirs}`);
  }

  /** What another node says, as it comes. Never rejects. */
  async #receive(requests: AsyncIterable<ExchangeRequest>, codec: PayloadCodec): Promise<void> {
    try {
      for await (const message of requests) {
        if (this.#isClosed) return;
        this.#hear(message, codec);
        // A caller that does not take its answers gets no more calls in.
        while (this.#outbox.bytes > peerAnswersBytesMax && !this.#isClosed)
          await new Promise<void>((resolve) => (this.#makeRoom = resolve));
      }
      this.#isHeardOut = true;
      this.#wake();
    } catch (error) {
      this.#fail(error);
    }
  }

  #hear({ pieces, calls, follows, ping, nudge }: ExchangeRequest, codec: PayloadCodec): void {
    this.#heardMs = this.#options.world.monotonicMs();
    for (const piece of pieces) this.#inbox.add(piece);
    for (const call of calls) void this.#serve(call, codec);
    for (const uuid of follows) this.#follow(uuid);
    if (nudge) this.#options.host.nudged();
    if (!ping) return;
    this.#isPonging = true;
    this.#flushSoon();
  }

  /** Never rejects. */
  async #serve(call: Call, codec: PayloadCodec): Promise<void> {
    this.#underWay++;
    const answer = await this.#answer(call, codec);
    this.#underWay--;
    if (this.#isClosed) return;
    this.#outbox.put(answer);
    this.#flushSoon();
  }

  async #answer(message: Call, codec: PayloadCodec): Promise<CallAnswer> {
    const { host, world, log } = this.#options;
    const { id } = message;
    try {
      const payload = this.#inbox.whole(message);
      if (this.#isLeaving) throw new TurnedAway("unheld");
      if (this.#underWay > limits.peerCallsMax) {
        throw new ServiceError("overloaded", "too many calls of one node are under way", {
          retryAfterSecs: limits.retryAfterSecsMin,
        });
      }
      const call = decodeCall(message, payload, codec);
      if (call.caller && !mayEver(call.caller, call.call))
        throw new ServiceError("forbidden", "the credential's scope does not cover this call");
      return encodeAnswer(id, await host.serve(call), codec);
    } catch (error) {
      return error instanceof TurnedAway
        ? encodeTurnedAway(id, error)
        : encodeRefusal(
            id,
            refusalFor(error, "a call of another node", world, log, parseTraceparent(message.traceparent)),
          );
    }
  }

  #follow(uuid: string): void {
    if (!isUuid(uuid)) throw malformed("a database's uuid");
    const untilMs = this.#heardMs + limits.followMs;
    const known = this.#follows.get(uuid);
    if (known) known.untilMs = untilMs;
    else if (this.#follows.size < limits.peerFollowsMax)
      this.#follows.set(uuid, { untilMs, end: this.#options.host.followed(uuid, () => this.#tellMoved(uuid)) });
  }

  #tellMoved(uuid: string): void {
    this.#moved.add(uuid);
    this.#flushSoon();
  }

  #compose(): ExchangeResponse | undefined {
    const { pieces, parcels } = this.#outbox.take(() => true);
    this.#makeRoom();
    if (pieces.length + parcels.length + this.#moved.size === 0 && !this.#isPonging && !this.#isTelling)
      return undefined;
    const message = create(ExchangeResponseSchema, {
      pieces,
      answers: parcels,
      moved: [...this.#moved],
      pong: this.#isPonging,
      leaving: this.#isTelling,
    });
    this.#moved.clear();
    this.#isPonging = false;
    this.#isTelling = false;
    return message;
  }

  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    this.#options.world.soon(() => {
      this.#isFlushing = false;
      this.#wake();
    });
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  #close(): void {
    this.#isClosed = true;
    this.#cancelBeat();
    for (const { end } of this.#follows.values()) end();
    this.#follows.clear();
    this.#makeRoom();
  }

  /**
   * Ends what is not followed any more, and a stream of which nothing was heard for longer than its sender would keep
   * it.
   */
  #beat(): void {
    this.#cancelBeat = this.#options.world.after(limits.peerSilenceMs, () => {
      const nowMs = this.#options.world.monotonicMs();
      for (const [uuid, { untilMs, end }] of this.#follows) {
        if (untilMs > nowMs) continue;
        this.#follows.delete(uuid);
        end();
      }
      if (nowMs - this.#heardMs > 2 * limits.peerIdleMs)
        return this.#fail(new ServiceError("request_timeout", "nothing was heard of the other node"));
      this.#beat();
    });
  }
}

/**
 * Whether a client with this credential can be allowed the call by any table. The node that met the client has judged
 * it; this checks again, so that a mistake there does not make a reader a writer here.
 */
function mayEver({ kind, scope }: CallerTold, call: PortCall): boolean {
  if (kind !== "token") return true;
  switch (call.kind) {
    case "read":
    case "sql-read":
    case "diff":
    case "sync":
      return true;
    case "write":
    case "sql-write":
      return scope === "write" || scope === "admin";
    case "branch":
      if (call.act.act === "list" || call.act.act === "checkpoints") return true;
      return scope === "admin" || (scope === "write" && call.act.act === "erase");
    case "drop":
      return false;
  }
}
