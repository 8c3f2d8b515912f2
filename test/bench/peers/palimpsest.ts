/** Palimpsest over REST, from its sources or its package, with the settings that it has by itself. */
import { readFileSync } from "node:fs";
import { packageRoot } from "../../../src/base/package-root.ts";
import { startNodeProcess } from "../../support/node-process.ts";
import { HttpPeerClient, openJson } from "./http-client.ts";
import { parts, type Maker, type Memory, type PeerServer, type Question } from "./peer.ts";

const database = "kv";

class PalimpsestClient extends HttpPeerClient {
  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    await this.connection.call("POST", `/v1/memory/bench/${space}/memories`, { memories });
  }

  override async read(space: string): Promise<void> {
    const listed = await this.connection.call("GET", `/v1/memory/bench/${space}/memories?limit=1`);
    if ((JSON.parse(listed) as { memories: unknown[] }).memories.length === 0) throw new Error(`${space} is empty`);
  }

  override async put(key: string, value: string): Promise<void> {
    await this.connection.call("PUT", `/v1/db/${database}/kv/n/${key}`, value);
  }

  override get(key: string): Promise<string> {
    return this.connection.call("GET", `/v1/db/${database}/kv/n/${key}`);
  }

  override async recall(space: string, { words, embedding }: Question): Promise<readonly string[]> {
    const found = await this.connection.call("POST", `/v1/memory/bench/${space}/recall`, {
      query: words.join(" "),
      embedding,
      k: 10,
    });
    return (JSON.parse(found) as { memories: Memory[] }).memories.map(({ content }) => content.tag);
  }
}

async function start(directory: string, entry: string | undefined): Promise<PeerServer> {
  // A thousand memories with vectors are longer than the body that a node takes by itself.
  const node = await startNodeProcess(directory, { SERVICE_MAX_BODY_BYTES: String(64 * 1024 * 1024) }, entry);
  return {
    pids: [node.child.pid!],
    async prepare() {
      const { status, text } = await node.call("POST", "/v1/databases", { name: database });
      if (status >= 300 && status !== 409) throw new Error(text);
    },
    open: async () => new PalimpsestClient(await openJson(node.port)),
    stop: () => node.end("SIGTERM"),
  };
}

const { version } = JSON.parse(readFileSync(new URL("package.json", packageRoot), "utf8")) as { version: string };

/** `entry` is the package's; without one the sources run. */
export function ours(entry?: string): Maker {
  return {
    name: "Palimpsest",
    described:
      `${version} from its ${entry === undefined ? "sources" : "package"} on Node ${process.version}; defaults, so ` +
      "that segments go to a `file://` store on the same disk; authentication off; bodies up to 64 MiB",
    peers: [{ name: "Palimpsest", parts, vectors: "some", start: (directory) => start(directory, entry) }],
  };
}
