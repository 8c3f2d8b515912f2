/**
 * What stands before several nodes: one address, whose connections go to the first node that takes them, beginning with
 * another one each time.
 *
 * Knows nothing of what is said: a connection ends when either side does.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

export class Front {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(ports: readonly number[]) {
    let turn = 0;
    this.#server = createServer((near) => {
      this.#keep(near);
      const from = turn++ % ports.length;
      this.#lead(near, [...ports.slice(from), ...ports.slice(0, from)]);
    });
  }

  static async open(ports: readonly number[]): Promise<Front> {
    const front = new Front(ports);
    await new Promise<void>((resolve) => front.#server.listen(0, "127.0.0.1", resolve));
    return front;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Leads the connection to the first of the ports that takes it; where none does, resets it. */
  #lead(near: Socket, [port, ...rest]: readonly number[]): void {
    if (port === undefined) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(port, "127.0.0.1");
    this.#keep(far);
    const next = (): void => this.#lead(near, rest);
    far.once("error", next);
    far.once("connect", () => {
      far.off("error", next);
      near.pipe(far).pipe(near);
      near.once("close", () => far.destroy());
      far.once("close", () => near.destroy());
    });
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#sockets.delete(socket));
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
