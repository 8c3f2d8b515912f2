/** Redis with every write in its file, and the file on disk, before the answer. It only keeps what it is given. */
import { mkdirSync } from "node:fs";
import { createClient } from "@redis/client";
import { freePort } from "../../support/node-process.ts";
import { findOnPath, launch, runToEnd } from "./launched.ts";
import { RefusingClient, type Maker, type Memory, type PeerServer, type Skipped } from "./peer.ts";

/** A pair of values, in one string as the server's flags have them. */
const settings = { appendonly: "yes", appendfsync: "always", save: "" };

/** A client of the server on the port, not yet connected. */
const dial = (port: number) => createClient({ socket: { host: "127.0.0.1", port, reconnectStrategy: false } });

type Connection = ReturnType<typeof dial>;

/** The fields of a memory, and the key that it lies under. */
function toHash(space: string, { type, topic_key, summary, content }: Memory): [string, Record<string, string>] {
  const fields = { type, topic_key: topic_key ?? "", summary, content: JSON.stringify(content) };
  return [`memory:${space}:${content.tag}`, fields];
}

class RedisClient extends RefusingClient {
  readonly #client: Connection;

  constructor(client: Connection) {
    super();
    this.#client = client;
  }

  override async ingest(space: string, memory: Memory): Promise<void> {
    await this.#client.hSet(...toHash(space, memory));
  }

  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    // Commands of one turn go out together, and so do their answers.
    await Promise.all(memories.map((memory) => this.#client.hSet(...toHash(space, memory))));
  }

  override async read(space: string): Promise<void> {
    for await (const keys of this.#client.scanIterator({ MATCH: `memory:${space}:*`, COUNT: 1_000 })) {
      const [key] = keys;
      if (key !== undefined && (await this.#client.hGet(key, "summary")) !== null) return;
    }
    throw new Error(`${space} is empty`);
  }

  override async put(key: string, value: string): Promise<void> {
    await this.#client.set(key, value);
  }

  override async get(key: string): Promise<string> {
    const value = await this.#client.get(key);
    if (value === null) throw new Error(`there is no ${key}`);
    return value;
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

async function start(program: string, directory: string): Promise<PeerServer> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const flags = Object.entries({ ...settings, port, bind: "127.0.0.1", dir: directory });
  const server = launch(
    program,
    flags.flatMap(([name, value]) => [`--${name}`, String(value)]),
  );
  const connect = async (): Promise<Connection> => {
    const client = dial(port);
    // An error of a connection that waits for nothing is met by its next command.
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  await server.untilAnswered(async () => {
    const client = await connect();
    // It answers while it still reads its file, but only to say so.
    await client.get("any").finally(() => client.destroy());
  });
  return {
    pids: [server.pid],
    prepare: async () => {},
    open: async () => new RedisClient(await connect()),
    stop: () => server.end("SIGTERM"),
  };
}

export function findRedis(): { maker?: Maker; skipped: readonly Skipped[] } {
  const program = findOnPath("redis-server");
  if (program === undefined) return { skipped: [{ name: "Redis", reason: "no redis-server on the path" }] };
  const version = /v=(\S+)/.exec(runToEnd(program, ["--version"]))?.[1] ?? "unknown";
  return {
    maker: {
      name: "Redis",
      described: `${version}; \`appendonly yes\`, \`appendfsync always\`, no snapshots; a hash a memory, no index`,
      peers: [
        {
          name: "Redis",
          parts: ["ingest", "kv", "import", "start", "weight", "syncs"],
          vectors: "none",
          start: (directory) => start(program, directory),
        },
      ],
    },
    skipped: [],
  };
}
