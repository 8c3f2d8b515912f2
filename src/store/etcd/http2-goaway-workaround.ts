/**
 * A client's HTTP/2 connection whose end never ends the process.
 *
 * Why: when the other side ends an idle connection (GOAWAY), connect-node cuts it with an error that comes only once
 * the socket has closed; by then the next call may have made it stop listening, and an error without a listener ends
 * the process (connect-es 1768). Always true: a call that waits for an answer still hears that there is none.
 */
import { Http2SessionManager } from "@connectrpc/connect-node";

export class CalmConnection extends Http2SessionManager {
  readonly #calmed = new WeakSet<object>();

  override async request(
    ...request: Parameters<Http2SessionManager["request"]>
  ): ReturnType<Http2SessionManager["request"]> {
    const stream = await super.request(...request);
    const { session } = stream;
    if (session && !this.#calmed.has(session)) {
      this.#calmed.add(session);
      session.on("error", () => {
        // Every call that it ends rejects by itself.
      });
    }
    return stream;
  }
}
