/** mem0 where `PALIMPSEST_PYTHON` has it, behind a server of the bench (mem0-server.py). */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../support/node-process.ts";
import { HttpPeerClient, openJson } from "./http-client.ts";
import { launch, runToEnd } from "./launched.ts";
import { type Maker, type Memory, type PeerServer, type Question, type Skipped } from "./peer.ts";

class Mem0Client extends HttpPeerClient {
  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    await this.connection.call("POST", `/ingest/${space}`, memories);
  }

  override async recall(space: string, question: Question): Promise<readonly string[]> {
    return JSON.parse(await this.connection.call("POST", `/recall/${space}`, question)) as string[];
  }
}

async function start(python: string, directory: string, dimension: number): Promise<PeerServer> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const entry = join(import.meta.dirname, "mem0-server.py");
  const server = launch(python, [entry, String(port), directory, String(dimension)], {
    env: { PATH: process.env["PATH"], HOME: directory },
    cwd: directory,
  });
  await server.untilAnswered(async () => {
    const connection = await openJson(port);
    await connection.call("GET", "/").finally(() => connection.close());
  });
  return {
    pids: [server.pid],
    prepare: async () => {},
    open: async () => new Mem0Client(await openJson(port)),
    stop: () => server.end("SIGTERM"),
  };
}

const versionCode = "from importlib.metadata import version as v; print(v('mem0ai'), v('qdrant-client'))";

export function findMem0(dimension: number): { maker?: Maker; skipped: readonly Skipped[] } {
  const skipped = [{ name: "mem0", reason: "no Python with it in PALIMPSEST_PYTHON" }];
  const python = process.env["PALIMPSEST_PYTHON"];
  if (!python) return { skipped };
  try {
    const [version, qdrant] = runToEnd(python, ["-c", versionCode]).trim().split(" ");
    return {
      maker: {
        name: "mem0",
        described: `${version}, Qdrant local ${qdrant}; \`infer=False\`, vectors ours, behind Python's own HTTP server`,
        peers: [
          {
            name: "mem0",
            parts: ["embedded", "recall", "syncs"],
            vectors: "all",
            slow: true,
            start: (directory) => start(python, directory, dimension),
          },
        ],
      },
      skipped: [],
    };
  } catch {
    return { skipped };
  }
}
