/** The naive server (naive-server) in its two modes, and with a file of its own for each tenant. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { freePort } from "../../support/node-process.ts";
import { HttpPeerClient, openJson } from "./http-client.ts";
import { launch } from "./launched.ts";
import { type Maker, type Memory, type Peer, type PeerServer } from "./peer.ts";

class NaiveClient extends HttpPeerClient {
  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    await this.connection.call("POST", `/memories/${space}`, memories);
  }

  override async read(space: string): Promise<void> {
    await this.connection.call("GET", `/memories/${space}`);
  }

  override async put(key: string, value: string): Promise<void> {
    await this.connection.call("PUT", `/kv/${key}`, value);
  }

  override get(key: string): Promise<string> {
    return this.connection.call("GET", `/kv/${key}`);
  }
}

async function start(directory: string, mode: "plain" | "words", layout: "one" | "files"): Promise<PeerServer> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const entry = join(import.meta.dirname, "naive-server.ts");
  const server = launch(process.execPath, [entry, String(port), directory, mode, layout]);
  await server.untilAnswered(async () => {
    const connection = await openJson(port);
    await connection.call("GET", "/").finally(() => connection.close());
  });
  return {
    pids: [server.pid],
    prepare: async () => {},
    open: async () => new NaiveClient(await openJson(port)),
    stop: () => server.end("SIGTERM"),
  };
}

function sqliteVersion(): string {
  const database = new Database(":memory:");
  const version = database.prepare("SELECT sqlite_version()").pluck().get() as string;
  database.close();
  return version;
}

const peer = (name: string, of: Peer["parts"], mode: "plain" | "words", layout: "one" | "files" = "one"): Peer => ({
  name,
  parts: of,
  vectors: "none",
  start: (directory) => start(directory, mode, layout),
});

export const naive: Maker = {
  name: "naive",
  described:
    `\`node:http\` and better-sqlite3 (SQLite ${sqliteVersion()}) on Node ${process.version}, one file; WAL, ` +
    "`synchronous=FULL`; words by FTS5",
  peers: [
    peer("naive `words`", ["ingest", "import", "start", "weight", "syncs"], "words"),
    peer("naive `words`, a file a tenant", ["tenants", "weight"], "words", "files"),
    peer("naive `plain`", ["ingest", "kv", "syncs"], "plain"),
  ],
};
