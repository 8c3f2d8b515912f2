/**
 * PostgreSQL, started from the system's own programs on a directory of the bench, with every commit on disk before its
 * answer. `PALIMPSEST_POSTGRES` may name the folder of other programs, such as ones with pgvector.
 */
import { chownSync, existsSync, globSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { freePort } from "../../support/node-process.ts";
import { findOnPath, isExecutable, launch, plainUser, runToEnd } from "./launched.ts";
import {
  RefusingClient,
  type Maker,
  type Memory,
  type Peer,
  type PeerServer,
  type Question,
  type Skipped,
} from "./peer.ts";
import { ingestSql, importSql, keyValueSql, recallSql, schemaSql, type TableOptions } from "./postgres-schema.ts";

const settings = {
  fsync: "on",
  synchronous_commit: "on",
  wal_sync_method: "fdatasync",
  full_page_writes: "on",
  shared_buffers: "512MB",
  max_connections: "300",
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
};

/** What a session of a peer with vectors looks at, so that fifty neighbours can be found. */
const searchSql = "SET hnsw.ef_search = 100";

interface Layout extends TableOptions {
  /** Whether each space has a schema of its own; otherwise a column tells them apart. */
  readonly schemas: boolean;
}

const shared = "shared";

class PostgresClient extends RefusingClient {
  readonly #client: pg.Client;
  readonly #layout: Layout;

  constructor(client: pg.Client, layout: Layout) {
    super();
    this.#client = client;
    this.#layout = layout;
  }

  override async ingest(space: string, { type, topic_key, summary, content, embedding }: Memory): Promise<void> {
    const values: unknown[] = [space, type, topic_key ?? null, summary, JSON.stringify(content)];
    if (embedding) values.push(JSON.stringify(embedding));
    const schema = this.#schema(space);
    await this.#prepared(`ingest ${schema}`, ingestSql(schema, this.#layout), values);
  }

  override async ingestAll(space: string, memories: readonly Memory[]): Promise<void> {
    const columns: unknown[] = [
      memories.map(({ type }) => type),
      memories.map(({ summary }) => summary),
      memories.map(({ content }) => JSON.stringify(content)),
    ];
    if (this.#layout.dimension !== undefined) columns.push(memories.map(({ embedding }) => JSON.stringify(embedding)));
    const schema = this.#schema(space);
    await this.#prepared(`import ${schema}`, importSql(schema, this.#layout), [space, ...columns]);
  }

  override async read(space: string): Promise<void> {
    const schema = this.#schema(space);
    const sql = `SELECT summary, content FROM "${schema}".memory WHERE tenant = $1 LIMIT 1`;
    if ((await this.#prepared(`read ${schema}`, sql, [space])).length === 0) throw new Error(`${space} is empty`);
  }

  override async put(key: string, value: string): Promise<void> {
    const sql = "INSERT INTO kv VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    await this.#prepared("put", sql, [key, value]);
  }

  override async get(key: string): Promise<string> {
    const [row] = await this.#prepared("get", "SELECT value FROM kv WHERE key = $1", [key]);
    return (row as { value: string }).value;
  }

  override async recall(space: string, { words, embedding }: Question): Promise<readonly string[]> {
    const schema = this.#schema(space);
    const values = [space, words.join(" | "), JSON.stringify(embedding)];
    const rows = await this.#prepared(`recall ${schema}`, recallSql(schema), values);
    return (rows as { content: { tag: string } }[]).map(({ content }) => content.tag);
  }

  close(): Promise<void> {
    return this.#client.end();
  }

  #schema(space: string): string {
    return this.#layout.schemas ? space : shared;
  }

  async #prepared(name: string, text: string, values: unknown[]): Promise<unknown[]> {
    return (await this.#client.query({ name, text, values })).rows;
  }
}

/** One data directory is made for all; the others are copies of it. */
class PostgresPrograms {
  readonly folder: string;
  readonly #user = plainUser();
  #template: string | undefined;

  constructor(folder: string) {
    this.folder = folder;
  }

  async start(directory: string, layout: Layout): Promise<PeerServer> {
    const data = join(directory, "data");
    if (!existsSync(data)) this.#make(directory, data);
    const port = await freePort();
    const flags = Object.entries({ ...settings, port }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const server = launch(join(this.folder, "postgres"), ["-D", data, ...flags], { ...this.#user, cwd: data });
    const connect = async (): Promise<pg.Client> => {
      const client = new pg.Client({ host: "127.0.0.1", port, user: "bench", database: "postgres" });
      // An error of a connection that waits for nothing is met by its next query.
      client.on("error", () => {});
      await client.connect();
      return client;
    };
    const once = async (...statements: readonly string[]): Promise<void> => {
      const client = await connect();
      for (const statement of statements) await client.query(statement);
      await client.end();
    };
    await server.untilAnswered(() => once("SELECT 1"));
    const made = new Set<string>();
    return {
      pids: [server.pid],
      async prepare(spaces) {
        const wanted = layout.schemas ? spaces : [shared];
        const missing = wanted.filter((schema) => !made.has(schema));
        const vector = layout.dimension === undefined ? [] : ["CREATE EXTENSION IF NOT EXISTS vector"];
        await once(keyValueSql, ...vector, ...missing.map((schema) => schemaSql(schema, layout)));
        for (const schema of missing) made.add(schema);
      },
      settle: () => once("VACUUM ANALYZE"),
      async open() {
        const client = await connect();
        if (layout.dimension !== undefined) await client.query(searchSql);
        return new PostgresClient(client, layout);
      },
      // Does not wait for its clients.
      stop: () => server.end("SIGINT"),
    };
  }

  #make(directory: string, data: string): void {
    mkdirSync(directory, { recursive: true });
    if (this.#user) chownSync(directory, this.#user.uid, this.#user.gid);
    // Programs that are not root look at the folder that they are started in.
    const asUser = { ...this.#user, cwd: directory };
    if (this.#template === undefined) {
      this.#template = join(directory, "template");
      const flags = ["-D", this.#template, "-U", "bench", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync"];
      runToEnd(join(this.folder, "initdb"), flags, asUser);
    }
    runToEnd("cp", ["-r", this.#template, data], asUser);
  }
}

function findFolder(): string | undefined {
  const named = process.env["PALIMPSEST_POSTGRES"];
  if (named) return named;
  const onPath = findOnPath("postgres");
  return globSync("/usr/lib/postgresql/*/bin")
    .toSorted((a, b) => Number(b.split("/").at(-2)) - Number(a.split("/").at(-2)))
    .concat(onPath === undefined ? [] : [join(onPath, "..")])
    .find((folder) => isExecutable(join(folder, "postgres")) && isExecutable(join(folder, "initdb")));
}

/** Version of the extension that the programs can load. */
function findVector(folder: string): string | undefined {
  const [control] = ["share/extension", "share/postgresql/extension"]
    .map((path) => join(folder, "..", path, "vector.control"))
    .concat(globSync(`/usr/share/postgresql/${folder.split("/").at(-2)}/extension/vector.control`))
    .filter((path) => existsSync(path));
  return control && /default_version = '(.+)'/.exec(readFileSync(control, "utf8"))?.[1];
}

/** `dimension` is of the vectors that the bench gives. */
export function findPostgres(dimension: number): { maker?: Maker; skipped: readonly Skipped[] } {
  const folder = findFolder();
  if (folder === undefined)
    return { skipped: [{ name: "PostgreSQL", reason: "no postgres in PALIMPSEST_POSTGRES, /usr/lib or on the path" }] };
  const programs = new PostgresPrograms(folder);
  const peer = (name: string, of: Peer["parts"], layout: Partial<Layout>): Peer => {
    const whole = { plain: false, schemas: false, dimension: undefined, hnsw: false, ...layout };
    const vectors = whole.dimension === undefined ? "none" : "all";
    return { name, parts: of, vectors, start: (directory) => programs.start(directory, whole) };
  };
  const peers = [
    peer("Postgres `remember`", ["ingest", "tenants", "import", "start", "weight", "syncs"], {}),
    peer("Postgres `remember`, a schema a tenant", ["tenants"], { schemas: true }),
    peer("Postgres `plain`", ["ingest", "kv", "syncs"], { plain: true }),
  ];
  const version = runToEnd(join(folder, "postgres"), ["--version"])
    .trim()
    .replace(/^.*\) /, "");
  const vector = findVector(folder);
  if (vector !== undefined)
    peers.push(
      peer("Postgres with HNSW", ["embedded", "recall", "import"], { schemas: true, dimension, hnsw: true }),
      peer("Postgres with exact vectors", ["recall"], { schemas: true, dimension }),
    );
  const given = ["fsync", "synchronous_commit", "wal_sync_method", "shared_buffers"] as const;
  return {
    maker: {
      name: "PostgreSQL",
      described:
        `${version}${vector === undefined ? "" : `, pgvector ${vector}`}; ` +
        `${given.map((name) => `\`${name}=${settings[name]}\``).join(", ")}; words by \`tsvector\` and GIN`,
      peers,
    },
    skipped: vector === undefined ? [{ name: "Postgres with vectors", reason: "this Postgres has no pgvector" }] : [],
  };
}
