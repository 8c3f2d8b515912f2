/**
 * What the machine itself can do, in the same run: the floors that the service's figures are set beside.
 *
 * The raw SQLite floors run the same statements as the service, in process, on the bench's own thread.
 */
import { spawn } from "node:child_process";
import { closeSync, fdatasyncSync, fstatSync, mkdirSync, mkdtempSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { limits } from "../../src/base/limits.ts";
import { realWorld } from "../../src/base/world.ts";
import { ingest } from "../../src/model/memory/memory-ingest.ts";
import { sealTransaction } from "../../src/model/core/change-log.ts";
import { createSchema } from "../../src/model/schema.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { runGroup, type Deferred } from "../../src/sqlite/group.ts";
import { median } from "./raw-client.ts";

/** Starts the bare echo server and gives its port. */
export async function startEcho(): Promise<{ port: number; stop(): void }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "echo-server.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const port = await new Promise<number>((resolve) =>
    child.stdout!.once("data", (data: Buffer) => resolve(Number(data.toString()))),
  );
  return { port, stop: () => void child.kill("SIGTERM") };
}

/** Starts a bare server of each wire in one process. */
export async function startBareWires(): Promise<{ restPort: number; grpcPort: number; pid: number; stop(): void }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "bare-wires.ts")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [restPort, grpcPort] = await new Promise<number[]>((resolve) =>
    child.stdout!.once("data", (data: Buffer) => resolve(data.toString().split(" ").map(Number))),
  );
  return { restPort: restPort!, grpcPort: grpcPort!, pid: child.pid!, stop: () => void child.kill("SIGTERM") };
}

/** Median time of an fdatasync after so many bytes were appended, or written over old ones, in milliseconds. */
export function fsyncMs(directory: string, bytes = 4096, mode: "append" | "overwrite" = "append"): number {
  mkdirSync(directory, { recursive: true });
  const descriptor = openSync(join(directory, "fsync-probe"), "w");
  const rounds = 200;
  if (mode === "overwrite") {
    writeSync(descriptor, Buffer.alloc(rounds * bytes, 1));
    fdatasyncSync(descriptor);
  }
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    writeSync(descriptor, Buffer.alloc(bytes, 2), 0, bytes, round * bytes);
    const startedAt = performance.now();
    fdatasyncSync(descriptor);
    times.push(performance.now() - startedAt);
  }
  closeSync(descriptor);
  return median(times);
}

export interface RawMemory {
  readonly database: Database.Database;
  insert(summary: string, content: string): void;
}

/** A bare table with an index and one FTS table: the least that an ingest must write. */
export function rawMemory(path: string): RawMemory {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = NORMAL");
  database.pragma("wal_autocheckpoint = 0");
  database.exec(`
    CREATE TABLE memory (row INTEGER PRIMARY KEY, id TEXT UNIQUE, summary TEXT, content TEXT);
    CREATE VIRTUAL TABLE text USING fts5(summary, content, tokenize = 'porter unicode61 remove_diacritics 2');
  `);
  const row = database.prepare("INSERT INTO memory (id, summary, content) VALUES (?, ?, ?)");
  const text = database.prepare("INSERT INTO text (rowid, summary, content) VALUES (?, ?, ?)");
  let count = 0;
  return {
    database,
    insert(summary, content) {
      const { lastInsertRowid } = row.run(`m${++count}`, summary, content);
      text.run(lastInsertRowid, summary, content);
    },
  };
}

/**
 * One ingest after the other, the service's own statements in process, each with its commit and a blocking fdatasync.
 */
export class RawIngests {
  readonly #connection: Connection;
  readonly #sentences: readonly string[];
  readonly #world = realWorld();
  readonly #vectors = new VectorCache();
  readonly #descriptor: number;
  readonly path: string;
  #txid = 0;

  constructor(directory: string, sentences: readonly string[]) {
    const path = (this.path = join(mkdtempSync(join(directory, "raw-")), "commit.db"));
    this.#connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
    this.#sentences = sentences;
    createSchema(this.#connection);
    this.#commit();
    this.#descriptor = openSync(`${path}-wal`, "r");
  }

  /** Milliseconds of the next one. */
  nextMs(): number {
    const startedAt = performance.now();
    this.#commit();
    fdatasyncSync(this.#descriptor);
    return performance.now() - startedAt;
  }

  /** Length of the log. */
  get logBytes(): number {
    return fstatSync(this.#descriptor).size;
  }

  close(): void {
    closeSync(this.#descriptor);
    this.#connection.close();
  }

  #commit(): void {
    const [connection, vectors, world, txid] = [this.#connection, this.#vectors, this.#world, ++this.#txid];
    const nowMs = world.nowMs();
    const sentence = this.#sentences[txid % this.#sentences.length]!;
    const memories = [
      {
        type: "event",
        summary: `${sentence} ${txid}`,
        content: JSON.stringify({ text: sentence, tag: String(txid) }),
        sessionId: "bench",
      },
    ];
    const command = (deferred: Deferred) =>
      ingest(
        {
          connection,
          notes: deferred.notes,
          nowMs,
          vectors,
          txid: 1,
          newId: () => world.ulid(),
          atGroupEnd: (act) => deferred.atGroupEnd.push(act),
          afterCommit: (act) => deferred.afterCommit.push(act),
        },
        { memories },
      );
    runGroup(connection, [command], (notes) =>
      sealTransaction(
        connection,
        { txid, committedAtMs: nowMs, writerEpochId: undefined, changesKeptMs: 86_400_000 },
        notes,
      ),
    );
  }
}

/** Median time of one such ingest, one right after the other, in milliseconds. */
export function rawCommitMs(directory: string, sentences: readonly string[]): number {
  const raw = new RawIngests(directory, sentences);
  for (let round = 0; round < 200; round++) raw.nextMs();
  const times = Array.from({ length: 500 }, () => raw.nextMs());
  raw.close();
  return median(times);
}
