/**
 * What one writes in an afternoon: `node:http` and better-sqlite3, one statement or transaction a request, synchronous.
 *
 * `naive-server.ts <port> <directory> <plain|words> <one|files>`: `words` indexes them, keeps one of two equal memories
 * and lets a new fact supersede the old one on its topic; with `files` each tenant has a database of its own.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { Memory } from "./peer.ts";

const [port = "0", directory = ".", mode = "plain", layout = "one"] = process.argv.slice(2);

interface Store {
  remember(space: string, memories: readonly Memory[]): void;
  read(space: string): unknown;
  put(key: string, value: string): void;
  get(key: string): string | undefined;
  close(): void;
}

function openFile(name: string): Database.Database {
  const database = new Database(join(directory, `${name}.db`));
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec(`
    CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS memory (
      id INTEGER PRIMARY KEY, space TEXT NOT NULL, type TEXT NOT NULL, topic_key TEXT, summary TEXT NOT NULL,
      content TEXT NOT NULL, fingerprint BLOB, superseded_by INTEGER
    );`);
  if (mode === "words")
    database.exec(`
      CREATE UNIQUE INDEX IF NOT EXISTS memory_fingerprint ON memory (space, fingerprint) WHERE superseded_by IS NULL;
      CREATE UNIQUE INDEX IF NOT EXISTS memory_topic ON memory (space, type, topic_key)
        WHERE superseded_by IS NULL AND topic_key IS NOT NULL;
      CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(summary, content, tokenize = 'porter unicode61');`);
  else database.exec("CREATE INDEX IF NOT EXISTS memory_space ON memory (space)");
  return database;
}

function openStore(name: string): Store {
  const database = openFile(name);
  const plain = database.prepare(
    "INSERT INTO memory (space, type, topic_key, summary, content) VALUES (?, ?, ?, ?, ?)",
  );
  const equal = database.prepare("SELECT id FROM memory WHERE space = ? AND fingerprint = ? AND superseded_by IS NULL");
  const active = database.prepare(
    "SELECT id FROM memory WHERE space = ? AND type = ? AND topic_key = ? AND superseded_by IS NULL",
  );
  const nextId = database.prepare("SELECT coalesce(max(id), 0) + 1 AS id FROM memory");
  const supersede = database.prepare("UPDATE memory SET superseded_by = ? WHERE id = ?");
  const insert = database.prepare(
    "INSERT INTO memory (id, space, type, topic_key, summary, content, fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const index =
    mode === "words" ? database.prepare("INSERT INTO words (rowid, summary, content) VALUES (?, ?, ?)") : undefined;
  const read = database.prepare("SELECT * FROM memory WHERE space = ? LIMIT 1");
  const put = database.prepare("INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value");
  const get = database.prepare("SELECT value FROM kv WHERE key = ?").pluck();

  function rememberOne(space: string, { type, topic_key = null, summary, content }: WireMemory): void {
    const text = JSON.stringify(content);
    if (!index) {
      plain.run(space, type, topic_key, summary, text);
      return;
    }
    const fingerprint = createHash("sha256")
      .update(JSON.stringify([type, topic_key, summary, content]))
      .digest();
    if (equal.get(space, fingerprint) !== undefined) return;
    const { id } = nextId.get() as { id: number };
    if (topic_key !== null) {
      const old = active.get(space, type, topic_key) as { id: number } | undefined;
      if (old) supersede.run(id, old.id);
    }
    insert.run(id, space, type, topic_key, summary, text, fingerprint);
    index.run(id, summary, text);
  }

  return {
    remember: database.transaction((space: string, memories: readonly WireMemory[]) => {
      for (const memory of memories) rememberOne(space, memory);
    }),
    read: (space) => read.get(space),
    put: (key, value) => void put.run(key, value),
    get: (key) => get.get(key) as string | undefined,
    close: () => database.close(),
  };
}

type WireMemory = Omit<Memory, "topic_key"> & { readonly topic_key?: string | null };

const stores = new Map<string, Store>();

function storeOf(space: string): Store {
  const name = layout === "files" ? space : "all";
  const store = stores.get(name) ?? openStore(name);
  stores.set(name, store);
  return store;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function answer(method: string, path: string, body: string): unknown {
  const [, what, of = ""] = path.split("/");
  if (what === "memories" && method === "POST") {
    storeOf(of).remember(of, JSON.parse(body) as Memory[]);
    return {};
  }
  if (what === "memories") return storeOf(of).read(of);
  if (what === "kv" && method === "PUT") {
    storeOf("all").put(of, body);
    return {};
  }
  return what === "kv" ? storeOf("all").get(of) : { ready: true };
}

const server = createServer((request, response) => {
  const reply = (status: number, told: unknown): void => {
    const bytes = Buffer.from(typeof told === "string" ? told : JSON.stringify(told));
    response.writeHead(status, { "content-type": "application/json", "content-length": bytes.length });
    response.end(bytes);
  };
  bodyOf(request)
    .then((body) => {
      const told = answer(request.method ?? "GET", request.url ?? "/", body);
      reply(told === undefined ? 404 : 200, told ?? {});
    })
    .catch((error: unknown) => reply(500, String(error)));
});
// A client that waits for its turn keeps its connection.
server.keepAliveTimeout = 0;
server.listen(Number(port), "127.0.0.1");
process.on("SIGTERM", () => {
  for (const store of stores.values()) store.close();
  process.exit(0);
});
