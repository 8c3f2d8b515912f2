/**
 * Stop and start of a real process: what runs is finished, what was answered is there again, one process has the
 * directory.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { untilUnanswered } from "../support/patience.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const count =
  "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000000) SELECT count(*) FROM c";

async function start(directory: string): Promise<NodeProcess> {
  const node = await startNodeProcess(directory);
  onTestFinished(async () => {
    if (node.child.exitCode === null && node.child.signalCode === null) await node.end("SIGKILL");
  });
  return node;
}

async function fill(node: NodeProcess): Promise<void> {
  await node.call("POST", "/v1/databases", { name: "kept" });
  await node.call("PUT", "/v1/db/kept/kv/n/k", "value", { "content-type": "text/plain" });
  await node.call("POST", "/v1/db/kept/sql", {
    stmts: [{ q: "CREATE TABLE t (n)" }, { q: "INSERT INTO t VALUES (1)" }],
  });
  await node.call("POST", "/v1/db/kept/docs/c/insert", { docs: [{ _id: "d" }] });
  await node.call("POST", "/v1/db/kept/vectors/c", { id: "v", embedding: [1, 2] });
  await node.call("POST", "/v1/db/kept/memory/s/turns", { role: "user", content: "hello" });
  const { status } = await node.call("POST", "/v1/memory/acme/bob/memories", {
    memories: [{ type: "fact", summary: "the harbour is deep", content: { metres: 20 } }],
  });
  expect(status).toBe(201);
}

async function expectFilled(node: NodeProcess): Promise<void> {
  expect((await node.call("GET", "/v1/databases")).json.databases.map(({ name }: { name: string }) => name)).toEqual([
    "acme--bob",
    "kept",
  ]);
  const value = await node.call("GET", "/v1/db/kept/kv/n/k");
  expect([value.text, value.headers.get("service-txid")]).toEqual(["value", "5"]);
  expect((await node.call("POST", "/v1/db/kept/docs/c/find", {})).json.docs).toEqual([{ _id: "d" }]);
  expect((await node.call("POST", "/v1/db/kept/vectors/c/search", { vector: [1, 2] })).json.hits).toHaveLength(1);
  expect((await node.call("GET", "/v1/db/kept/memory/s/turns")).json.turns).toHaveLength(1);
  expect(
    (await node.call("POST", "/v1/memory/acme/bob/recall", { query: "harbour" })).json.memories[0].content,
  ).toEqual({ metres: 20 });
  expect(
    (await node.call("POST", "/v1/db/kept/sql", { stmts: [{ q: "PRAGMA integrity_check" }] })).json.results[0].rows,
  ).toEqual([["ok"]]);
}

test("SIGTERM lets a read and a write in flight finish, and the next start sees everything", async () => {
  const directory = join(temporaryDirectory(), "data");
  const node = await start(directory);
  await fill(node);
  const other = await node.call("POST", "/v1/databases", { name: "busy" });
  expect(other.status).toBe(201);
  await node.call("POST", "/v1/db/busy/sql", { stmts: [{ q: "CREATE TABLE t (n)" }] });
  const inFlight = [
    node.call("POST", "/v1/db/kept/sql", { stmts: [{ q: count }] }),
    node.call("POST", "/v1/db/busy/sql", { stmts: [{ q: `INSERT INTO t ${count}` }] }),
  ];
  const waiting = await untilUnanswered(() =>
    node.call("PUT", "/v1/db/busy/kv/n/k", "v", { "content-type": "text/plain" }),
  );
  const ended = node.end("SIGTERM");
  const [read, write] = await Promise.all(inFlight);
  expect([read!.status, read!.json.results[0].rows]).toEqual([200, [[2_000_000]]]);
  expect([write!.status, write!.json.txid]).toEqual([200, 2]);
  expect((await waiting.answer).status).toBe(200);
  await ended;
  expect([node.child.exitCode, node.child.signalCode]).toEqual([0, null]);
  await expect(node.call("GET", "/health")).rejects.toThrow();

  const again = await start(directory);
  expect(
    (await again.call("POST", "/v1/db/busy/sql", { stmts: [{ q: "SELECT n FROM t" }] })).json.results[0].rows,
  ).toEqual([[2_000_000]]);
  expect((await again.call("DELETE", "/v1/databases/busy")).status).toBe(204);
  await expectFilled(again);
  await again.end("SIGTERM");
});

test("SIGINT stops an idle node cleanly, and leaves no log that would have to be replayed", async () => {
  const directory = join(temporaryDirectory(), "data");
  const node = await start(directory);
  await fill(node);
  const { uuid } = (await node.call("GET", "/v1/databases")).json.databases[1];
  await node.end("SIGINT");
  expect([node.child.exitCode, node.child.signalCode]).toEqual([0, null]);
  expect(existsSync(join(directory, "db", uuid, "main.db"))).toBe(true);
  expect(existsSync(join(directory, "db", uuid, "main.db-wal"))).toBe(false);
});

test("F24: a second process on the same data directory refuses to start, and the first goes on", async () => {
  const directory = join(temporaryDirectory(), "data");
  const first = await start(directory);
  await fill(first);
  await expect(startNodeProcess(directory)).rejects.toThrow(/directory/i);
  await expectFilled(first);
  await first.end("SIGKILL");
  // A killed process holds nothing.
  const second = await start(directory);
  await expectFilled(second);
  await second.end("SIGTERM");
});
