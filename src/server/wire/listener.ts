/**
 * One port for every protocol: the first bytes of a connection decide between HTTP/2 and HTTP/1.1, with or without TLS.
 *
 * Always true: every open socket is known to exactly one owner (still undecided, the HTTP/1.1 server, an HTTP/2
 * session), each owner has a timeout for a peer that says too little, and `close` ends them all.
 * The `http.Server` owns the listening socket: one that is only fed connections by hand never starts its header and
 * request timeouts, and its closeAllConnections does nothing (tried). HTTP/2 is decided by its preface rather than by
 * ALPN, so that prior knowledge works under TLS and in the clear by the same lines.
 * It must not know what a request means.
 */
import * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { assert } from "../../base/faults/assert.ts";
import type { ErrorCode } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";

const headerBytesMax = 32 * 1024;
/** How often it is logged that connections are dropped. */
const connectionsToldMs = 10_000;
const http2StreamsMax = 256;

/** A request of either HTTP version. Code that reads it uses only what both share. */
export type WireRequest = http.IncomingMessage | http2.Http2ServerRequest;
/** The response of either HTTP version. */
export type WireResponse = http.ServerResponse | http2.Http2ServerResponse;
/** What answers a request. Must not throw. */
export interface RequestHandler {
  (request: WireRequest, response: WireResponse): void;
}

export interface TlsFiles {
  /** PEM text of the certificate chain. */
  readonly cert: string | Buffer;
  /** PEM text of the private key. */
  readonly key: string | Buffer;
}

/** Times that a test shortens; the defaults are the bounds in base/limits. */
interface ListenerTimes {
  readonly preambleTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly requestReceiveMs: number;
  readonly idleConnectionMs: number;
  readonly drainMs: number;
}

/** How many connections may be open at once; a test sets fewer. */
export interface ListenerRoom {
  readonly connectionsMax: number;
  /** Of them, from one address. */
  readonly connectionsPerAddressMax: number;
}

export interface ListenerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls?: TlsFiles | undefined;
  readonly onRequest: RequestHandler;
  readonly world: World;
  readonly log: Log;
  readonly times?: Partial<ListenerTimes>;
  /** Absent, as many as limits.connectionsMax. */
  readonly room?: ListenerRoom | undefined;
}

export interface Listener {
  /** Starts to accept. Rejects when the address is not available. */
  listen(): Promise<AddressInfo>;
  /** Stops accepting, lets what runs finish, and destroys what is left after `drainMs`. May be called again. */
  close(): Promise<void>;
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** Makes the port; nothing is accepted before `listen`. */
export function createListener(options: ListenerOptions): Listener {
  return new PortListener(options);
}

class PortListener implements Listener {
  readonly #options: ListenerOptions;
  readonly #times: ListenerTimes;
  readonly #http1: http.Server | https.Server;
  readonly #http2: http2.Http2Server;
  readonly #serveHttp1: (socket: Socket) => void;
  /** Every open connection, whichever server owns it. */
  readonly #sockets = new Set<Socket>();
  /** Open connections by the address that they come from. */
  readonly #addresses = new Map<string, number>();
  readonly #undecided = new Set<Socket>();
  readonly #sessions = new Set<http2.ServerHttp2Session>();
  /** HTTP/1.1 responses under way, so that a drain can ask their clients to let the connection go. */
  readonly #responses = new Set<http.ServerResponse>();
  readonly #room: ListenerRoom;
  #toldFullMs = -Infinity;
  #closing: Promise<void> | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#times = {
      preambleTimeoutMs: limits.preambleTimeoutMs,
      headersTimeoutMs: limits.headersTimeoutMs,
      requestReceiveMs: limits.requestReceiveMs,
      idleConnectionMs: limits.idleConnectionMs,
      drainMs: limits.drainMs,
      ...options.times,
    };
    this.#room = options.room ?? {
      connectionsMax: limits.connectionsMax,
      connectionsPerAddressMax: limits.connectionsMax * limits.connectionsShareMax,
    };
    this.#http1 = this.#createHttp1();
    this.#http2 = this.#createHttp2();
    // Under TLS Node gives the decrypted socket in an event of its own name.
    const accepted = options.tls ? "secureConnection" : "connection";
    const [serve] = this.#http1.listeners(accepted);
    assert(
      serve !== undefined && this.#http1.listenerCount(accepted) === 1,
      "node:http serves connections by one listener",
    );
    this.#serveHttp1 = serve as (socket: Socket) => void;
    this.#http1.removeAllListeners(accepted);
    // Also before and under TLS, so that a handshake that never ends cannot outlive a drain.
    this.#http1.prependListener("connection", (socket: Socket) => this.#admit(socket));
    this.#http1.on(accepted, (socket: Socket) => this.#decide(socket));
  }

  listen(): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#http1.once("error", reject);
      this.#http1.listen(this.#options.port, this.#options.host, () => {
        this.#http1.off("error", reject);
        this.#http1.on("error", (error) => this.#options.log.error("the listening socket failed", error));
        resolve(this.#http1.address() as AddressInfo);
      });
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  #createHttp1(): http.Server | https.Server {
    const common: http.ServerOptions = {
      maxHeaderSize: headerBytesMax,
      headersTimeout: this.#times.headersTimeoutMs,
      requestTimeout: this.#times.requestReceiveMs,
      keepAliveTimeout: this.#times.idleConnectionMs,
      connectionsCheckingInterval: Math.min(1_000, this.#times.headersTimeoutMs),
      noDelay: true,
    };
    const { tls } = this.#options;
    const server = tls
      ? https.createServer({
          ...common,
          cert: tls.cert,
          key: tls.key,
          minVersion: "TLSv1.2",
          ALPNProtocols: ["h2", "http/1.1"],
          handshakeTimeout: this.#times.preambleTimeoutMs,
        })
      : http.createServer(common);
    const serve = (request: http.IncomingMessage, response: http.ServerResponse): void => {
      this.#responses.add(response);
      if (this.#closing) response.setHeader("connection", "close");
      response.once("close", () => {
        this.#responses.delete(response);
        if (this.#closing) server.closeIdleConnections();
      });
      this.#options.onRequest(request, response);
    };
    server.on("request", serve);
    server.on("checkContinue", (request, response) => {
      continueWhenRead(request, response);
      serve(request, response);
    });
    server.on("clientError", refuseMalformed);
    return server;
  }

  #createHttp2(): http2.Http2Server {
    const server = http2.createServer({
      maxSessionMemory: limits.http2SessionMemoryMiB,
      settings: {
        maxConcurrentStreams: http2StreamsMax,
        maxHeaderListSize: headerBytesMax,
        // The protocol's default of 64 KiB makes every larger body wait a round trip for each window.
        initialWindowSize: limits.http2WindowBytes,
        enablePush: false,
      },
    });
    // A session that fails is closed by Node; its peer broke the protocol or left, which is no fault of ours.
    server.on("sessionError", () => {});
    server.on("request", (request, response) => this.#serveHttp2(request, response));
    server.on("checkContinue", (request, response) => {
      continueWhenRead(request, response);
      this.#serveHttp2(request, response);
    });
    return server;
  }

  /**
   * Takes a connection in, or drops it: one too many costs all others theirs, once the process has no descriptors left.
   */
  #admit(socket: Socket): void {
    const address = socket.remoteAddress ?? "";
    const sameAddress = this.#addresses.get(address) ?? 0;
    const { connectionsMax, connectionsPerAddressMax } = this.#room;
    if (this.#sockets.size >= connectionsMax || sameAddress >= connectionsPerAddressMax) {
      this.#tellFull();
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    this.#addresses.set(address, sameAddress + 1);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      const left = this.#addresses.get(address)! - 1;
      if (left === 0) this.#addresses.delete(address);
      else this.#addresses.set(address, left);
    });
  }

  /** Says that connections are dropped, once in a while. */
  #tellFull(): void {
    const { world, log } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs < this.#toldFullMs + connectionsToldMs) return;
    this.#toldFullMs = nowMs;
    log.warn("connections are dropped: there are too many, in all or from one address", {
      open: this.#sockets.size,
      ...this.#room,
    });
  }

  /** Looks at the first bytes as they come, and gives the connection to the server that speaks its protocol. */
  #decide(socket: Socket): void {
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#undecided.add(socket);
    const cancel = this.#options.world.after(this.#times.preambleTimeoutMs, () => socket.destroy());
    const stopWaiting = (): void => {
      cancel();
      this.#undecided.delete(socket);
      socket.off("readable", look);
      socket.off("end", destroySocket);
      socket.off("error", destroySocket);
      socket.off("close", stopWaiting);
    };
    // Without a listener a reset would be an uncaught error; the owner-to-be brings its own.
    const destroySocket = (): void => void socket.destroy();
    let seen: Buffer = Buffer.alloc(0);
    const look = (): void => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const compared = Math.min(seen.length, preface.length);
      const isHttp2 = seen.compare(preface, 0, compared, 0, compared) === 0;
      if (isHttp2 && seen.length < preface.length) return;
      stopWaiting();
      socket.unshift(seen);
      if (isHttp2) this.#openSession(socket);
      else this.#serveHttp1.call(this.#http1, socket);
    };
    socket.on("readable", look);
    socket.on("end", destroySocket);
    socket.on("error", destroySocket);
    socket.on("close", stopWaiting);
  }

  /** Gives a connection to the HTTP/2 server, which makes its session at once. */
  #openSession(socket: Socket): void {
    this.#http2.once("session", (session) => this.#own(session, socket));
    // HTTP/1.1 may be half open, and the sockets of its server are; nothing comes of a session whose client is gone.
    socket.allowHalfOpen = false;
    this.#http2.emit("connection", socket);
  }

  #own(session: http2.ServerHttp2Session, socket: Socket): void {
    this.#sessions.add(session);
    // The setting widens the windows of streams only; the connection's own of 64 KiB limits them all.
    session.setLocalWindowSize(limits.http2WindowBytes);
    let streams = 0;
    let isUsed = false;
    const { world } = this.#options;
    let idleFromMs = world.monotonicMs();
    session.on("stream", (stream) => {
      streams++;
      isUsed = true;
      stream.once("close", () => {
        streams--;
        idleFromMs = world.monotonicMs();
      });
    });
    // Only a session with nothing open is idle: a health watch may be silent for hours. Nothing else that a peer sends
    // counts, or pings would keep a connection for ever; a peer that has asked for nothing yet has as long as for its
    // headers.
    const look = (): void => {
      const idleMs = isUsed ? this.#times.idleConnectionMs : this.#times.headersTimeoutMs;
      const leftMs = streams > 0 ? idleMs : idleFromMs + idleMs - world.monotonicMs();
      if (leftMs > 0) return void (cancel = world.after(Math.max(leftMs, 1), look));
      session.close();
      // A session that has closed waits for its peer to hang up, and some never do (tried).
      cancel = world.after(isUsed ? this.#times.drainMs : 0, () => socket.destroy());
    };
    let cancel = world.after(this.#times.headersTimeoutMs, look);
    session.once("close", () => {
      cancel();
      // The socket may be left, half open, by a session that has ended.
      world.after(this.#times.drainMs, () => socket.destroy());
      this.#sessions.delete(session);
    });
  }

  #serveHttp2(request: http2.Http2ServerRequest, response: http2.Http2ServerResponse): void {
    // HTTP/1.1 has requestTimeout; Node has no counterpart for a stream whose body never ends.
    const cancel = this.#options.world.after(this.#times.requestReceiveMs, () => {
      // One that is answered while it comes goes both ways at once, and is looked after by who answers it.
      if (response.headersSent && !response.writableEnded) return;
      request.stream.close(http2.constants.NGHTTP2_CANCEL);
    });
    // Of the stream: the body is read off that, past the request.
    request.stream.once("end", cancel);
    request.stream.once("close", cancel);
    this.#options.onRequest(request, response);
  }

  async #drain(): Promise<void> {
    // Without a listener there is nothing to stop, but sessions and sockets may still be handed over: end them too.
    const stopped = new Promise<void>((resolve) => this.#http1.close(() => resolve()));
    for (const socket of this.#undecided) socket.destroy();
    for (const response of this.#responses) if (!response.headersSent) response.setHeader("connection", "close");
    for (const session of this.#sessions) session.close();
    const cancel = this.#options.world.after(this.#times.drainMs, () => {
      this.#options.log.warn("connections did not end within the drain time and were cut", {
        connections: this.#sockets.size,
      });
      // By the sockets: an HTTP/2 session that has closed gracefully waits for its peer, and cannot be destroyed again.
      for (const socket of this.#sockets) socket.destroy();
    });
    // The server's own count of connections includes those that HTTP/2 took over, so this waits for all of them.
    await stopped;
    cancel();
  }
}

/** Tells a client that waits with its body to send it, once the body is to be read: a refusal spares it the sending. */
function continueWhenRead(request: WireRequest, response: WireResponse): void {
  const sources = "stream" in request ? [request, request.stream] : [request];
  const look = (event: string | symbol): void => {
    if (event !== "data" && event !== "readable") return;
    for (const source of sources) source.off("newListener", look);
    if (!response.headersSent) (response as http.ServerResponse).writeContinue();
  };
  for (const source of sources) source.on("newListener", look);
}

/** What Node's parser refuses before there is a request: its status and our words for it; anything else is a 400. */
const malformed: Readonly<Record<string, readonly [string, ErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "invalid_request", "the headers are too large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["413 Payload Too Large", "payload_too_large", "the chunk extensions are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "request_timeout", "the request did not come in time"],
};

/** Answers what never became a request, with the same envelope as everything else, and lets the connection go. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  // Node keeps the response under way here: one that has begun cannot be followed by another.
  const { _httpMessage: started } = socket as Duplex & { _httpMessage?: http.ServerResponse };
  if (!socket.writable || started?.headersSent || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const [status, code, message] = malformed[error.code ?? ""] ?? [
    "400 Bad Request",
    "invalid_request",
    "the request is not HTTP",
  ];
  const body = JSON.stringify({ error: message, code });
  const head =
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: ` +
    `close\r\n\r\n`;
  socket.end(head + body, () => socket.destroy());
}
