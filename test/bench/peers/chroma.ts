/** Chroma's own server where a Python with it is there (`PALIMPSEST_PYTHON`, or `chroma` on the path). */
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { freePort } from "../../support/node-process.ts";
import { HttpPeerClient, openJson, type JsonConnection } from "./http-client.ts";
import { findOnPath, isExecutable, launch, runToEnd } from "./launched.ts";
import { type Maker, type Memory, type PeerServer, type Question, type Skipped } from "./peer.ts";

const collections = "/api/v2/tenants/default_tenant/databases/default_database/collections";

class ChromaClient extends HttpPeerClient {
  /** Ids of the collections by their names. */
  readonly #ids: Map<string, string>;

  constructor(connection: JsonConnection, ids: Map<string, string>) {
    super(connection);
    this.#ids = ids;
  }

  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    // A repeated id is an error of its own, so what repeats a memory is given anew, as to those that look for no equal.
    await this.connection.call("POST", `${await this.#collection(space)}/upsert`, {
      ids: memories.map(({ content }) => content.tag),
      embeddings: memories.map(({ embedding }) => embedding ?? [1, 0, 0]),
      documents: memories.map(({ summary }) => summary),
      metadatas: memories.map(({ type, topic_key }) => ({ type, topic_key: topic_key ?? "" })),
    });
  }

  override async read(space: string): Promise<void> {
    const got = await this.connection.call("POST", `${await this.#collection(space)}/get`, { limit: 1 });
    if ((JSON.parse(got) as { ids: string[] }).ids.length === 0) throw new Error(`${space} is empty`);
  }

  override async recall(space: string, { words, embedding }: Question): Promise<readonly string[]> {
    const found = await this.connection.call("POST", `${await this.#collection(space)}/query`, {
      query_embeddings: [embedding],
      n_results: 10,
      where_document: { $or: words.map((word) => ({ $contains: word })) },
      include: ["documents", "distances"],
    });
    return (JSON.parse(found) as { ids: string[][] }).ids[0]!;
  }

  async #collection(space: string): Promise<string> {
    let id = this.#ids.get(space);
    if (id === undefined) {
      const made = await this.connection.call("POST", collections, { name: `space-${space}`, get_or_create: true });
      id = (JSON.parse(made) as { id: string }).id;
      this.#ids.set(space, id);
    }
    return `${collections}/${id}`;
  }
}

async function start(program: string, directory: string): Promise<PeerServer> {
  mkdirSync(directory, { recursive: true });
  const port = await freePort();
  const server = launch(program, ["run", "--path", directory, "--host", "127.0.0.1", "--port", String(port)], {
    env: { PATH: process.env["PATH"], ANONYMIZED_TELEMETRY: "False" },
    cwd: directory,
  });
  const ids = new Map<string, string>();
  const open = async (): Promise<ChromaClient> => new ChromaClient(await openJson(port), ids);
  await server.untilAnswered(async () => {
    const connection = await openJson(port);
    await connection.call("GET", "/api/v2/heartbeat").finally(() => connection.close());
  });
  return {
    pids: [server.pid],
    prepare: async () => {},
    open,
    stop: () => server.end("SIGTERM"),
  };
}

/** Of the package where its Python is beside the program, otherwise of the program. */
function findVersion(program: string): string {
  const python = join(dirname(program), "python");
  if (isExecutable(python))
    return runToEnd(python, ["-c", "from importlib.metadata import version; print(version('chromadb'))"]).trim();
  return runToEnd(program, ["--version"]).trim().split(/\s+/).at(-1)!;
}

export function findChroma(): { maker?: Maker; skipped: readonly Skipped[] } {
  const python = process.env["PALIMPSEST_PYTHON"];
  const [program] = [python && join(dirname(python), "chroma"), findOnPath("chroma")].filter(
    (path) => path !== undefined && isExecutable(path),
  );
  if (!program) return { skipped: [{ name: "Chroma", reason: "no Python with it in PALIMPSEST_PYTHON" }] };
  return {
    maker: {
      name: "Chroma",
      described: `${findVersion(program)}, its own server; vectors ours`,
      peers: [
        {
          name: "Chroma",
          parts: ["embedded", "recall", "import", "start", "weight", "syncs"],
          vectors: "all",
          start: (directory) => start(program, directory),
        },
      ],
    },
    skipped: [],
  };
}
