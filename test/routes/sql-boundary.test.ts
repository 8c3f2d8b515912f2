/**
 * User SQL that no interrupt reaches, or that wants more than it may have: its process ends, and nobody else's work
 * with it.
 */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { burntBy, isAlive, listSqlProcesses } from "../support/processes.ts";
import { ok, useService } from "../support/service.ts";
import type { Reply } from "../support/wires.ts";

const timeoutSecs = 4;
/** What a busy machine may add to a deadline: the interrupt's grace and the kill. */
const graceMs = 500;
const service = useService({ SERVICE_REQUEST_TIMEOUT: String(timeoutSecs), SERVICE_READER_THREADS: "2" });

/** Thirty calls of a second or more each in one straight line, where SQLite looks at no interrupt. */
const straight = Array.from({ length: 30 }, () => "length(trim(?1 || 0, ?2 || 0))").join(" + ");
const burning = ["a".repeat(100_000), `${"b".repeat(15_000)}a`];

beforeAll(async () => {
  // The first process takes its time on a busy machine.
  const db = await service().database();
  for (let look = 0; look < 10 && (await sql(db, "SELECT 1")).code !== "ok"; look++);
});

interface Stmt {
  readonly q: string;
  readonly params?: readonly unknown[];
}

function sql(db: string, q: string, params?: readonly unknown[]): Promise<Reply> {
  const stmt: Stmt = params ? { q, params } : { q };
  return service()
    .wire("rest")
    .call("DataService.ExecuteSql", { db, stmts: [stmt] });
}

async function table(): Promise<string> {
  const db = await service().database();
  await ok(sql(db, "CREATE TABLE t (n INTEGER)"));
  await ok(sql(db, "INSERT INTO t VALUES (7)"));
  return db;
}

/** Waits until no process burns any more; fails when one goes on. */
async function quiet(): Promise<void> {
  for (let look = 0; look < 20; look++) if ((await burntBy(process.pid, 300)) < 60) return;
  throw new Error("a process goes on burning");
}

test.each([
  ["a read", `SELECT ${straight}`],
  ["a write", `INSERT INTO t SELECT ${straight}`],
])("%s that computes in native code ends with its process at its time, and nothing burns on", async (_, q) => {
  const [db, other] = [await table(), await table()];
  const startedMs = performance.now();
  let lasts = true;
  const attack = sql(db, q, burning).finally(() => (lasts = false));
  let rounds = 0;
  let slowestMs = 0;
  while (lasts) {
    const roundMs = performance.now();
    await ok(
      service()
        .wire("rest")
        .call("DataService.PutValue", { db: other, ns: "n", key: "k", value: Buffer.from("v") }),
    );
    expect((await ok(sql(db, "SELECT n FROM t"))).body.results[0].rows).toEqual([[7]]);
    await ok(sql(other, "UPDATE t SET n = 7"));
    slowestMs = Math.max(slowestMs, performance.now() - roundMs);
    rounds++;
  }
  const reply = await attack;
  expect(reply.code).toBe("request_timeout");
  expect(performance.now() - startedMs).toBeLessThan(timeoutSecs * 1_000 + graceMs + slowestMs);
  expect(rounds).toBeGreaterThan(3);
  await quiet();
  expect((await ok(sql(db, "SELECT n FROM t"))).body.results[0].rows).toEqual([[7]]);
  await ok(sql(db, "UPDATE t SET n = 7"));
});

test("a storm of batches that must be killed starts few processes, and others are served on", async () => {
  const [db, other] = [await table(), await table()];
  const pids = new Set<number>();
  let lasts = true;
  const attack = Promise.all(
    Array.from({ length: 24 }, (_, index) =>
      sql(db, index % 2 === 0 ? `SELECT ${straight}` : `INSERT INTO t SELECT ${straight}`, burning),
    ),
  ).finally(() => (lasts = false));
  let served = 0;
  const startedMs = performance.now();
  while (lasts) {
    for (const { pid } of listSqlProcesses(process.pid)) pids.add(pid);
    expect(listSqlProcesses(process.pid).length).toBeLessThanOrEqual(4);
    const { code } = await sql(other, "SELECT n FROM t");
    if (code === "ok") served++;
    await ok(
      service()
        .wire("rest")
        .call("DataService.PutValue", { db: other, ns: "n", key: "k", value: Buffer.from("v") }),
    );
  }
  expect((await attack).map(({ code }) => code)).toEqual(Array.from({ length: 24 }, () => "request_timeout"));
  expect(served).toBeGreaterThan(0);
  // Four places, each started anew after a pause that doubles.
  expect(pids.size).toBeLessThan(8 + 4 * Math.ceil((performance.now() - startedMs) / 500));
  await quiet();
  await ok(sql(db, "INSERT INTO t VALUES (1)"));
});

/** The answer of a call that is tried again while it is told to come back, as it is safe to. */
async function whenNotOverloaded(call: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await call();
    if (reply.code !== "overloaded") return reply;
    await sleep(50);
  }
}

test("a process that somebody kills is replaced; its batch is told so and has written nothing", async () => {
  const db = await table();
  const endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)";
  for (const q of [`${endless} SELECT count(*) FROM c`, `INSERT INTO t ${endless} SELECT n FROM c LIMIT 10000000`]) {
    const attack = sql(db, q);
    await sleep(700);
    for (const { pid } of listSqlProcesses(process.pid)) process.kill(pid, "SIGKILL");
    expect(await attack).toMatchObject({ code: "overloaded" });
    // Another of those that were killed may be given a batch before the node has heard of its end.
    const counted = whenNotOverloaded(() => sql(db, "SELECT count(*) FROM t"));
    expect((await ok(counted)).body.results[0].rows).toEqual([[1]]);
  }
  await ok(whenNotOverloaded(() => sql(db, "INSERT INTO t VALUES (1)")));
});

test("a process holds no secret, no descriptor of the node, and ends with it", async () => {
  const db = await table();
  await ok(sql(db, "SELECT 1"));
  const [one] = listSqlProcesses(process.pid);
  const environment = readFileSync(`/proc/${one!.pid}/environ`, "utf8")
    .split("\0")
    .filter((text) => text !== "")
    .map((text) => text.split("=")[0]);
  expect(
    environment.filter(
      (name) => !["SQLITE_TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "NODE_COMPILE_CACHE", "TZ"].includes(name!),
    ),
  ).toEqual([]);
  // One that was only just begun, in the place of one that was killed, sets its limits before it is given a batch.
  await expect.poll(() => readFileSync(`/proc/${one!.pid}/limits`, "utf8")).toMatch(/Max core file size\s+0\s+0/);
  expect(isAlive(one!.pid)).toBe(true);
});

test("a row is measured before it is converted", async () => {
  const db = await table();
  const wide = `SELECT ${Array.from({ length: 150 }, () => "?1").join(", ")}`;
  const reply = await sql(db, wide, ["\u0001".repeat(400_000)]);
  expect(reply).toMatchObject({ code: "invalid_request", message: expect.stringContaining("results are larger than") });
  const grown = listSqlProcesses(process.pid).map(
    ({ pid }) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024,
  );
  expect(Math.max(...grown)).toBeLessThan(500);
});

test("a table that has no row number left is the statement's own affair", async () => {
  const db = await table();
  await ok(sql(db, "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, n)"));
  await ok(sql(db, "INSERT INTO a VALUES (9223372036854775807, 1)"));
  expect(await sql(db, "INSERT INTO a (n) VALUES (2)")).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("row number"),
  });
});

test("SQLite's own tables are out of reach under any quoting; its own statements keep them in step", async () => {
  const db = await table();
  await ok(sql(db, "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, n)"));
  await ok(sql(db, "INSERT INTO a (n) VALUES (1)"));
  for (const q of [
    "UPDATE OR IGNORE 'sqlite_sequence' SET seq = 7",
    "DELETE FROM 'sqlite_sequence'",
    "INSERT OR REPLACE INTO 'sqlite_sequence' VALUES ('a', 7)",
    "SELECT * FROM t, 'sqlite_sequence'",
    "SELECT (SELECT seq FROM ('sqlite_sequence'))",
    "CREATE TABLE b AS SELECT * FROM t, 'sqlite_sequence'",
    "UPDATE t SET n = seq FROM 'sqlite_sequence'",
  ])
    expect(await sql(db, q), q).toMatchObject({ code: "invalid_request" });
  for (const q of [
    "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND name <> 'sqlite_sequence'",
    "ALTER TABLE a RENAME TO b",
    "INSERT INTO b (n) VALUES (2)",
    "ALTER TABLE b ADD COLUMN m",
    "DROP TABLE b",
    "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT)",
  ])
    await ok(sql(db, q));
});
