/** kill -9 in a loop on a real node with real files: no acknowledged write is lost, no state is torn. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { seeded } from "../support/random.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** The full count runs in the gate; a short one keeps `npm run test:all` quick. */
const rounds = process.env["PALIMPSEST_GATE"] ? 200 : 8;
const clients = 6;

interface Acknowledged {
  readonly keys: Map<string, number>;
  readonly memories: Map<string, string>;
  readonly documents: Set<string>;
  readonly rows: Set<number>;
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 12);

/** One client's mixed writes until the node dies under it; only what was answered is noted. */
async function writeUntilKilled(node: NodeProcess, client: number, start: number, known: Acknowledged): Promise<void> {
  for (let step = start; ; step++) {
    const id = `${client}-${step}`;
    try {
      const put = await node.call("PUT", `/v1/db/crash/kv/n/key${client}`, String(step), {
        "content-type": "text/plain",
      });
      if (put.status === 200) known.keys.set(`key${client}`, step);
      const ingest = await node.call("POST", "/v1/memory/crash/bob/memories", {
        memories: [
          { type: "fact", topic_key: `topic-${client}`, summary: `fact ${id} ${digest(id)}`, content: { step } },
          { type: "event", summary: `event ${id}`, content: null },
        ],
      });
      if (ingest.status === 201)
        for (const [index, result] of ingest.json.results.entries())
          known.memories.set(result.id, index === 0 ? `fact ${id} ${digest(id)}` : `event ${id}`);
      const insert = await node.call("POST", "/v1/db/crash/docs/log/insert", {
        docs: [
          { _id: id, pair: 1 },
          { _id: `${id}b`, pair: 2 },
        ],
      });
      if (insert.status === 200) known.documents.add(id);
      const row = client * 1_000_000 + step;
      const sql = await node.call("POST", "/v1/db/crash/sql", {
        stmts: [
          { q: "INSERT INTO t VALUES (?, 'a')", params: [row] },
          { q: "INSERT INTO u VALUES (?)", params: [row] },
        ],
      });
      if (sql.status === 200) known.rows.add(row);
    } catch {
      return;
    }
  }
}

async function inspect(node: NodeProcess, known: Acknowledged): Promise<void> {
  for (const [key, step] of known.keys)
    expect(Number((await node.call("GET", `/v1/db/crash/kv/n/${key}`)).text), key).toBeGreaterThanOrEqual(step);
  const someMemories = [...known.memories].slice(-40);
  for (const [id, summary] of someMemories)
    expect((await node.call("GET", `/v1/memory/crash/bob/memories/${id}`)).json?.summary, id).toBe(summary);
  for (const id of [...known.documents].slice(-20)) {
    const { json } = await node.call("POST", "/v1/db/crash/docs/log/find", {
      filter: { _id: { $in: [id, `${id}b`] } },
    });
    expect(json.docs, id).toHaveLength(2);
  }
  const { json } = await node.call("POST", "/v1/db/crash/sql", {
    stmts: [
      { q: "PRAGMA integrity_check" },
      { q: "SELECT count(*) FROM t WHERE n NOT IN (SELECT n FROM u)" },
      { q: "SELECT count(*) FROM u WHERE n NOT IN (SELECT n FROM t)" },
      { q: "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT n FROM t)", params: [[...known.rows]] },
    ],
  });
  expect(json.results.map((result: { rows: unknown }) => result.rows)).toEqual([[["ok"]], [[0]], [[0]], []]);
  // What is recallable is what is there: the index came back with the rows.
  const active = await node.call("POST", "/v1/memory/crash/bob/recall", { query: "fact", topic_key: "topic-0", k: 5 });
  expect(active.status).toBe(200);
}

test(`crash-01: ${rounds} rounds of kill -9`, { timeout: 1_200_000 }, async () => {
  const directory = join(temporaryDirectory(), "data");
  const random = seeded(7);
  const known: Acknowledged = { keys: new Map(), memories: new Map(), documents: new Set(), rows: new Set() };
  let node = await startNodeProcess(directory);
  await node.call("POST", "/v1/databases", { name: "crash" });
  await node.call("POST", "/v1/db/crash/sql", {
    stmts: [{ q: "CREATE TABLE t (n INTEGER PRIMARY KEY, a TEXT)" }, { q: "CREATE TABLE u (n INTEGER PRIMARY KEY)" }],
  });
  for (let round = 0; round < rounds; round++) {
    const writing = Promise.all(
      Array.from({ length: clients }, (_, client) => writeUntilKilled(node, client, round * 10_000, known)),
    );
    const lifeMs = 150 + random() * 500;
    // However slow the machine is: a run in which no kind of write ever got its answer would prove nothing of it.
    do await new Promise((resolve) => setTimeout(resolve, lifeMs));
    while (known.rows.size === 0 || known.documents.size === 0);
    await node.end("SIGKILL");
    await writing;
    node = await startNodeProcess(directory);
    if (round % 10 === 9 || round === rounds - 1) await inspect(node, known);
  }
  expect(known.keys.size).toBe(clients);
  expect(known.rows.size).toBeGreaterThan(0);
  await node.end("SIGTERM");
});
