/**
 * One stream to another node, on a connection of its own, from the greeting to its end.
 *
 * Always true: `lost` is called once, whatever happens, and nothing else after it. The client below may fail to settle
 * when a connection goes, so nothing here waits for it: a caller that ends the stream with `abandon` is told at once,
 * and the connection is destroyed behind it. Must not know: calls, answers, time.
 */
import * as http2 from "node:http2";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import {
  type ExchangeRequest,
  ExchangeRequestSchema,
  type ExchangeResponse,
  NodeService,
} from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { limits } from "../../base/limits.ts";
import { callHeaderNames } from "../../service/call/call.ts";
import { buildGreeting, type PayloadCodec, toldProtocols } from "../node-wire/node-protocol.ts";

/** What the owner of a stream gives and hears. */
export interface StreamOwner {
  /** The other node has greeted: from now on there are messages, whose payloads are written so. */
  greeted(codec: PayloadCodec): void;
  /** The next message, whose sending begins with this; undefined when there is nothing to say now. */
  compose(): ExchangeRequest | undefined;
  /** The other node says something. What is thrown ends the stream. */
  hear(message: ExchangeResponse): void;
  /** The stream has ended; undefined when the other node ended it in order. */
  lost(error: unknown): void;
}

/**
 * A connection for one stream, as the client wants it: its own managers of sessions keep one for many requests, with
 * pings and states that a stream like ours has no use for, and cannot widen the window of the connection.
 */
class Connection {
  readonly authority: string;
  readonly #session: http2.ClientHttp2Session;

  /** `failed` is called when the connection cannot be made or breaks. */
  constructor(address: string, failed: (error: unknown) => void) {
    this.authority = new URL(address).origin;
    this.#session = http2.connect(this.authority, {
      maxSessionMemory: limits.http2SessionMemoryMiB,
      settings: { initialWindowSize: limits.http2WindowBytes, enablePush: false },
    });
    this.#session.on("error", failed);
    this.#session.once("connect", () => this.#session.setLocalWindowSize(limits.http2WindowBytes));
  }

  async request(method: string, path: string, headers: http2.OutgoingHttpHeaders): Promise<http2.ClientHttp2Stream> {
    return this.#session.request({ ...headers, ":method": method, ":path": path });
  }

  /** The client says what it reads; nothing here asks. */
  notifyResponseByteRead(): void {}

  destroy(): void {
    // Without an error it would say goodbye as if all were well, and the other side would wait for the stream to
    // finish.
    this.#session.destroy(new Error("given up"), http2.constants.NGHTTP2_CANCEL);
  }
}

export class PeerStream {
  readonly #address: string;
  readonly #clusterKey: string;
  readonly #codecs: readonly PayloadCodec[];
  readonly #owner: StreamOwner;
  readonly #abort = new AbortController();
  #connection: Connection | undefined;
  #isGreeted = false;
  #isFinishing = false;
  #isOver = false;
  #wake: () => void = () => {};

  /** Connects at once, and offers the codecs; `owner` hears of it later, never now. */
  constructor(address: string, clusterKey: string, codecs: readonly PayloadCodec[], owner: StreamOwner) {
    this.#address = address;
    this.#clusterKey = clusterKey;
    this.#codecs = codecs;
    this.#owner = owner;
    void this.#run();
  }

  /** There may be something to say. */
  wake(): void {
    this.#wake();
  }

  /** Nothing more will be said; the other node answers what it has and ends the stream. */
  finish(): void {
    this.#isFinishing = true;
    this.#wake();
  }

  /** Ends the stream at once. */
  abandon(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#abort.abort();
    this.#connection?.destroy();
    this.#wake();
    this.#owner.lost(error);
  }

  async #run(): Promise<void> {
    // What goes wrong before the first wait must not reach the owner while it still makes the stream.
    await Promise.resolve();
    if (this.#isOver) return;
    try {
      const { message } = await this.#open();
      for await (const said of message) {
        if (this.#isOver) return;
        if (this.#isGreeted) this.#owner.hear(said);
        else this.#greet(said);
      }
      this.abandon(undefined);
    } catch (error) {
      this.abandon(error);
    }
  }

  #open(): Promise<{ readonly message: AsyncIterable<ExchangeResponse> }> {
    this.#connection = new Connection(this.#address, (error) => this.abandon(error));
    const transport = createGrpcTransport({
      baseUrl: this.#address,
      sessionManager: this.#connection,
      readMaxBytes: limits.peerMessageBytesMax,
      // Between the nodes of a cluster compression costs more than the bytes do.
      acceptCompression: [],
    });
    return transport.stream(
      NodeService.method.exchange,
      this.#abort.signal,
      undefined,
      { [callHeaderNames.internal]: this.#clusterKey },
      this.#messages(),
    );
  }

  async *#messages(): AsyncGenerator<ExchangeRequest> {
    yield create(ExchangeRequestSchema, buildGreeting(this.#codecs));
    while (!this.#isOver) {
      const message = this.#isGreeted ? this.#owner.compose() : undefined;
      if (message) yield message;
      else if (this.#isFinishing) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  #greet({ protocol: theirs }: ExchangeResponse): void {
    const codec = this.#codecs.find(({ protocol }) => protocol === theirs);
    if (!codec) {
      const ours = toldProtocols(this.#codecs.map(({ protocol }) => protocol));
      throw new ConnectError(
        `this node speaks ${ours}, and the other ${toldProtocols([theirs])}`,
        Code.FailedPrecondition,
      );
    }
    this.#isGreeted = true;
    this.#owner.greeted(codec);
    this.#wake();
  }
}
