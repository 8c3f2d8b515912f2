/** A receiver of webhooks: a real server that keeps what it is posted, and answers as a test says. */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished } from "vitest";

/** What was posted. */
export interface Received {
  readonly id: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly json: any;
  /** What it was answered. */
  readonly status: number;
}

/** What the receiver answers; 0 ends the connection without an answer. */
export type Answering = (received: Omit<Received, "status">) => number | { status: number; headers: object };

export class Receiver {
  readonly posts: Received[] = [];
  answering: Answering;
  readonly #server: Server;

  private constructor(answering: Answering) {
    this.answering = answering;
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        const id = String(request.headers["webhook-id"]);
        const received = { id, path: request.url!, headers: request.headers, body, json: JSON.parse(body) };
        const said = this.answering(received);
        const { status, headers } = typeof said === "number" ? { status: said, headers: {} } : said;
        this.posts.push({ ...received, status });
        if (status === 0) return void request.socket.destroy();
        response.writeHead(status, headers as Record<string, string>).end("a body that nobody reads");
      });
    });
  }

  /** On a free port of 127.0.0.1, until the test ends. */
  static async start(answering: Answering = () => 200): Promise<Receiver> {
    const receiver = new Receiver(answering);
    await new Promise<void>((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => receiver.stop());
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hooks/secret-path`;
  }

  /** What was taken, in the order in which it came. */
  get taken(): readonly Received[] {
    return this.posts.filter(({ status }) => status >= 200 && status < 300);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Waits until it holds; what it throws in the end is thrown. */
export async function until(holds: () => unknown, waitMs = 60_000): Promise<void> {
  for (const lastMs = performance.now() + waitMs; ;) {
    try {
      if ((await holds()) !== false) return;
      if (performance.now() > lastMs) throw new Error(`not within ${waitMs} ms: ${String(holds)}`);
    } catch (error) {
      if (performance.now() > lastMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * What was taken is the chain of the branch without a gap, but for repeats, which are what they were the first time;
 * and every acknowledged write is in it.
 */
export function checkDelivered(taken: readonly Received[], acknowledged: ReadonlyMap<string, number>): void {
  const bodies = new Map<string, string>();
  const told = new Map<string, number>();
  let position: number | undefined;
  for (const { id, body, json } of taken) {
    const known = bodies.get(id);
    if (known !== undefined) {
      expect(body, "a repeat is another event").toBe(known);
      continue;
    }
    bodies.set(id, body);
    if (json.kind === "ping") continue;
    if (position !== undefined) expect(json.after_txid, `a gap before ${json.txid}`).toBe(position);
    position = json.txid;
    for (const { key } of json.changes) told.set(key as string, json.txid as number);
  }
  for (const [key, txid] of acknowledged) expect([key, told.get(key)]).toEqual([key, txid]);
}
