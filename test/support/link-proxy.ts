/**
 * A TCP link that a test can break: whoever connects to the proxy's port is connected to the target's, as long as the
 * link is sound.
 *
 * A silent link keeps its connections and holds what they send, as a network does that loses every packet: what was
 * held is delivered when the link is restored, however late. A cut link resets what is on it and every new connection.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** The way that bytes take: `requests` from who connects to the target, `answers` back. */
export type Flow = "requests" | "answers";

const flows: readonly Flow[] = ["requests", "answers"];

interface Connection {
  readonly near: Socket;
  readonly far: Socket;
}

export class LinkProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #connections = new Set<Connection>();
  readonly #silent = new Set<Flow>();
  readonly #passed: Record<Flow, number> = { requests: 0, answers: 0 };
  #isCut = false;
  #delayMs = 0;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#accept(near));
  }

  /** Opens a link to the port, on a port of its own. */
  static async open(targetPort: number): Promise<LinkProxy> {
    const link = new LinkProxy(targetPort);
    await new Promise<void>((resolve, reject) => {
      link.#server.once("error", reject);
      link.#server.listen(0, "127.0.0.1", () => resolve());
    });
    return link;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Bytes that have passed so far. */
  get passed(): Readonly<Record<Flow, number>> {
    return { ...this.#passed };
  }

  get isSound(): boolean {
    return !this.#isCut && this.#silent.size === 0 && this.#delayMs === 0;
  }

  /** Resets every connection, and every new one until it is restored. */
  cut(): void {
    this.#isCut = true;
    for (const { near, far } of this.#connections) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** Nothing comes through any more, in both ways or in one of them; connections stay, and new ones are taken. */
  silence(...which: readonly Flow[]): void {
    for (const flow of which.length > 0 ? which : flows) this.#silent.add(flow);
    for (const connection of this.#connections) this.#regulate(connection);
  }

  /** Everything comes later by so much. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** The link is sound again; what was held comes through now. */
  restore(): void {
    this.#isCut = false;
    this.#delayMs = 0;
    this.#silent.clear();
    for (const connection of this.#connections) this.#regulate(connection);
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(near: Socket): void {
    if (this.#isCut) {
      near.on("error", () => near.destroy());
      near.resetAndDestroy();
      return;
    }
    const far = connect({ port: this.#targetPort, host: "127.0.0.1", allowHalfOpen: true });
    const connection = { near, far };
    this.#connections.add(connection);
    for (const socket of [near, far]) socket.setNoDelay(true);
    this.#carry(connection, near, far, "requests");
    this.#carry(connection, far, near, "answers");
    this.#regulate(connection);
  }

  #carry(connection: Connection, from: Socket, to: Socket, flow: Flow): void {
    /**
     * What was taken and is not due yet, in its order: later bytes never overtake it, whatever order timers come in.
     */
    const waiting: { readonly dueMs: number; readonly act: () => void }[] = [];
    const deliver = (): void => {
      for (let first = waiting[0]; first; first = waiting[0]) {
        const leftMs = first.dueMs - performance.now();
        if (leftMs > 0) return void setTimeout(deliver, leftMs);
        waiting.shift();
        first.act();
      }
    };
    const inTurn = (act: () => void): void => {
      waiting.push({ dueMs: performance.now() + this.#delayMs, act });
      if (waiting.length === 1) deliver();
    };
    from.on("data", (chunk) => {
      this.#passed[flow] += chunk.length;
      inTurn(() => {
        if (to.destroyed || to.write(chunk)) return;
        from.pause();
        to.once("drain", () => this.#regulate(connection));
      });
    });
    from.on("end", () => inTurn(() => to.end()));
    from.on("error", () => to.resetAndDestroy());
    from.on("close", () => {
      this.#connections.delete(connection);
      if (!to.writableEnded) inTurn(() => to.destroy());
    });
  }

  /** What is not read stays with its sender, as on a network that takes no packets. */
  #regulate({ near, far }: Connection): void {
    for (const [from, to, flow] of [
      [near, far, "requests"],
      [far, near, "answers"],
    ] as const) {
      if (this.#silent.has(flow) || to.writableNeedDrain) from.pause();
      else from.resume();
    }
  }
}
