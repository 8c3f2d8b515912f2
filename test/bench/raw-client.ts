/**
 * Closed-loop clients, one request in flight each, of three kinds: `fetch`, as an agent in JavaScript calls; Node's own
 * HTTP client, which costs a fraction of that; raw sockets, which cost next to nothing. They share the cores with the
 * server, so the leaner the client, the faster the bare echo, and the more of a ratio to it is the server's own work.
 */
import { Agent, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";

export interface Reply {
  readonly status: number;
  readonly body: string;
}

/** One keep-alive connection. */
export class RawClient {
  readonly #socket: Socket;
  #buffer = Buffer.alloc(0);
  #waiting: { resolve: (reply: Reply) => void; reject: (error: unknown) => void } | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk) => {
      this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
      this.#parse();
    });
    const lost = (): void => this.#waiting?.reject(new Error("the connection was lost"));
    socket.on("close", lost);
    socket.on("error", lost);
  }

  static open(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new RawClient(socket)));
      socket.once("error", reject);
    });
  }

  send(method: string, path: string, body = "", type = "application/json", credential?: string): Promise<Reply> {
    const length = Buffer.byteLength(body);
    const authorization = credential === undefined ? "" : `authorization: Bearer ${credential}\r\n`;
    const head =
      `${method} ${path} HTTP/1.1\r\nhost: ` +
      `127.0.0.1\r\n${authorization}${length > 0 ? `content-type: ${type}\r\n` : ""}content-length: ${length}\r\n\r\n`;
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(head + body);
    });
  }

  close(): void {
    this.#socket.removeAllListeners("close");
    this.#socket.destroy();
  }

  #parse(): void {
    const end = this.#buffer.indexOf("\r\n\r\n");
    if (end < 0 || !this.#waiting) return;
    const head = this.#buffer.toString("latin1", 0, end);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#buffer.length < end + 4 + length) return;
    const body = this.#buffer.toString("utf8", end + 4, end + 4 + length);
    this.#buffer = this.#buffer.subarray(end + 4 + length);
    const { resolve } = this.#waiting;
    this.#waiting = undefined;
    resolve({ status: Number(head.slice(9, 12)), body });
  }
}

/** One client over Node's own HTTP client with a kept connection. */
class NodeClient {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(port: number) {
    this.#port = port;
  }

  send(method: string, path: string, body = "", type = "application/json", credential?: string): Promise<Reply> {
    const headers = {
      "content-length": Buffer.byteLength(body),
      ...(body === "" ? {} : { "content-type": type }),
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
    };
    return new Promise((resolve, reject) => {
      const sent = httpRequest(
        { port: this.#port, host: "127.0.0.1", method, path, agent: this.#agent, headers },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => (text += chunk));
          response.on("end", () => resolve({ status: response.statusCode!, body: text }));
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** One client over fetch. */
class FetchClient {
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  async send(method: string, path: string, body = "", type = "application/json", credential?: string): Promise<Reply> {
    const headers = {
      "content-type": type,
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
    };
    const response = await fetch(`http://127.0.0.1:${this.#port}${path}`, {
      method,
      headers,
      ...(body === "" ? {} : { body }),
    });
    return { status: response.status, body: await response.text() };
  }

  close(): void {}
}

export type ClientKind = "fetch" | "node" | "raw";

/** A client of the kind, with a connection of its own where the kind has any. */
export function openClient(kind: ClientKind, port: number): Promise<RawClient> | NodeClient | FetchClient {
  switch (kind) {
    case "fetch":
      return new FetchClient(port);
    case "node":
      return new NodeClient(port);
    case "raw":
      return RawClient.open(port);
  }
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly requests: number;
}

export type Request = readonly [
  method: string,
  path: string,
  body?: string | undefined,
  type?: string | undefined,
  credential?: string | undefined,
];

/** Runs `clients` closed loops for `durationMs` and reports what they saw; a status of 300 or more throws. */
export async function load(
  port: number,
  clients: number,
  durationMs: number,
  next: (client: number, step: number) => Request,
  kind: ClientKind = "raw",
): Promise<LoadResult> {
  const connections = await Promise.all(Array.from({ length: clients }, async () => openClient(kind, port)));
  const latencies: number[] = [];
  const startedAt = performance.now();
  await Promise.all(
    connections.map(async (connection, client) => {
      for (let step = 0; performance.now() - startedAt < durationMs; step++) {
        const sentAt = performance.now();
        const reply = await connection.send(...next(client, step));
        if (reply.status >= 300) throw new Error(`status ${reply.status}: ${reply.body}`);
        latencies.push(performance.now() - sentAt);
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  for (const connection of connections) connection.close();
  latencies.sort((a, b) => a - b);
  return {
    perSecond: latencies.length / seconds,
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    requests: latencies.length,
  };
}

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

export function median(values: readonly number[]): number {
  return quantile(
    [...values].sort((a, b) => a - b),
    0.5,
  );
}
