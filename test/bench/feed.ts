/**
 * What the change feed costs a commit, beside a file that keeps no changes and beside a table that each commit writes;
 * and how late a change is told under load.
 */
import { mkdtempSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { zstdCompressSync } from "node:zlib";
import { ulidAfter } from "../../src/base/world.ts";
import { limits } from "../../src/base/limits.ts";
import { sealTransaction } from "../../src/model/core/change-log.ts";
import { runWrite, type WriteKind } from "../../src/model/commands.ts";
import { createSchema } from "../../src/model/schema.ts";
import { VectorCache } from "../../src/model/index/vector-index.ts";
import { Connection } from "../../src/sqlite/connection/connection.ts";
import { runGroup } from "../../src/sqlite/group.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { watches, Watching } from "../support/watchers.ts";
import { quantile } from "./raw-client.ts";
import { report } from "./report.ts";

const commits = 1_000;
const frameBytes = 4_096 + 24;
const logHeaderBytes = 32;

type Keeping = "none" | "state row" | "a row for each";

const writes: readonly (readonly [what: string, command: WriteKind, input: (n: number) => unknown])[] = [
  ["key-value put", "kv.put", (n) => ({ ns: "n", key: `key-${(n * 7919) % commits}`, value: Buffer.from(`v${n}`) })],
  [
    "ingest",
    "memory.ingest",
    (n) => ({ memories: [{ type: "event", summary: `What happened as number ${n}`, content: "{}", sessionId: "s" }] }),
  ],
];

/** Pages that commits of one write each log, and what is left of them under Zstandard. */
function commitCost(directory: string, keeping: Keeping, command: WriteKind, input: (n: number) => unknown) {
  const path = join(mkdtempSync(join(directory, "feed-")), "main.db");
  const connection = new Connection(path, { readonly: false, pageCacheKiB: limits.pageCacheKiB });
  createSchema(connection, keeping === "state row" ? 3 : 2);
  if (keeping === "a row for each")
    connection.exec("CREATE TABLE __service_change (txid INTEGER PRIMARY KEY, entries TEXT NOT NULL) STRICT");
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  connection.raw.pragma("wal_autocheckpoint = 0");
  const vectors = new VectorCache();
  let id = "01HF7YAT000000000000000000";
  const startedAt = performance.now();
  for (let txid = 1; txid <= commits; txid++) {
    const committedAtMs = 1_700_000_000_000 + txid;
    runGroup(
      connection,
      [
        ({ notes, atGroupEnd, afterCommit }) =>
          runWrite(
            command,
            {
              connection,
              notes,
              vectors,
              txid,
              nowMs: committedAtMs,
              newId: () => (id = ulidAfter(id)),
              atGroupEnd: (act) => atGroupEnd.push(act),
              afterCommit: (act) => afterCommit.push(act),
            },
            input(txid),
          ),
      ],
      (notes) => {
        sealTransaction(
          connection,
          { txid, committedAtMs, writerEpochId: undefined, changesKeptMs: 86_400_000 },
          notes,
        );
        if (keeping === "a row for each")
          connection.run("INSERT INTO __service_change VALUES (?, ?)", txid, notes.join(","));
      },
    );
  }
  const perCommitMs = (performance.now() - startedAt) / commits;
  const log = readFileSync(`${path}-wal`);
  const pages = (statSync(`${path}-wal`).size - logHeaderBytes) / frameBytes / commits;
  connection.close();
  return { pages, perCommitMs, pressedBytes: zstdCompressSync(log).length / commits };
}

/** How late changes come to a stream, while clients write. */
async function lag(directory: string): Promise<void> {
  const node = await startNodeProcess(join(directory, "lag"));
  await node.call("POST", "/v1/databases", { name: "one" });
  const watching = new Watching(watches["rest"]!, `http://127.0.0.1:${node.port}`, { db: "one", after: 0 });
  const seenMs = new Map<number, number>();
  const noted = (async () => {
    for (let at = 0; ;) {
      await watching.until(({ events }) => events.length > at);
      for (; at < watching.events.length; at++) seenMs.set(watching.events[at]!.txid, performance.now());
    }
  })();
  noted.catch(() => {});
  const answeredMs = new Map<number, number>();
  const endMs = performance.now() + 15_000;
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let n = 0; performance.now() < endMs; n++) {
      const { json } = await node.call("PUT", `/v1/db/one/kv/n/${writer}-${n % 100}`, `value ${n}`, {
        "content-type": "text/plain",
      });
      answeredMs.set(json.txid as number, performance.now());
      await pause(20);
    }
  });
  await Promise.all(writers);
  const last = Math.max(...answeredMs.keys());
  await watching.until(({ events }) => events.at(-1)!.txid >= last);
  const lags = [...answeredMs].map(([txid, ms]) => Math.max(0, seenMs.get(txid)! - ms)).toSorted((a, b) => a - b);
  watching.stop();
  await node.end("SIGTERM");
  report("The change feed under load (8 writers, 20 ms between the writes of each), from the write's answer on", [
    {
      what: "a change is told",
      p50Ms: quantile(lags, 0.5),
      p99Ms: quantile(lags, 0.99),
      note: `${lags.length} changes`,
    },
  ]);
}

export async function benchFeed(directory: string): Promise<void> {
  const rows = ["none", "state row", "a row for each"] as const;
  console.log(`\n### What keeping changes costs a commit (${commits} commits of one write)\n`);
  console.log("| write | changes are kept in | pages per commit | bytes per commit, Zstandard | ms per commit |");
  console.log("|---|---|---:|---:|---:|");
  for (const [what, command, input] of writes)
    for (const keeping of rows) {
      const { pages, pressedBytes, perCommitMs } = commitCost(directory, keeping, command, input);
      console.log(
        `| ${what} | ${keeping} | ${pages.toFixed(2)} | ${pressedBytes.toFixed(0)} | ${perCommitMs.toFixed(3)} |`,
      );
    }
  await lag(directory);
}
