/** Clients over one kept connection of Node's own HTTP client that talks JSON and takes no answer of 300 or more. */
import { openClient } from "../raw-client.ts";
import { RefusingClient, type Memory } from "./peer.ts";

export interface JsonConnection {
  /** Text is sent as it is, anything else as JSON. */
  call(method: string, path: string, body?: unknown): Promise<string>;
  close(): void;
}

export async function openJson(port: number): Promise<JsonConnection> {
  const connection = await openClient("node", port);
  return {
    async call(method, path, body) {
      const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
      const type = typeof body === "string" ? "text/plain" : "application/json";
      const reply = await connection.send(method, path, text, type);
      if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.slice(0, 300)}`);
      return reply.body;
    },
    close: () => connection.close(),
  };
}

/** A client of a server that speaks HTTP. One memory is an ingest of one. */
export abstract class HttpPeerClient extends RefusingClient {
  protected readonly connection: JsonConnection;

  constructor(connection: JsonConnection) {
    super();
    this.connection = connection;
  }

  override ingest(space: string, memory: Memory): Promise<void> {
    return this.ingestAll(space, [memory]);
  }

  close(): void {
    this.connection.close();
  }
}
