/** What bounds a statement that runs: an interrupt from another thread, and the memory that SQLite may take. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ServiceError } from "../../../src/base/faults/errors.ts";
import { limits } from "../../../src/base/limits.ts";
import { interrupt } from "../../../src/sqlite/sql-authorizer.ts";
import { newTicket, SqlDatabase } from "../../support/sql-database.ts";
import { refused } from "../../support/refused.ts";

/** A thread that interrupts; it gets (handle, ticket) pairs, or two shared numbers to follow. */
async function startInterrupter(body: string, workerData: unknown): Promise<Worker> {
  const guardUrl = new URL("../../../src/sqlite/sql-authorizer.ts", import.meta.url).href;
  const worker = new Worker(
    `const { parentPort, workerData } = require("node:worker_threads"); ` +
      `import(${JSON.stringify(guardUrl)}).then(({ interrupt }) => { ${body} });`,
    { eval: true, workerData },
  );
  onTestFinished(async () => {
    await worker.terminate();
  });
  await once(worker, "message");
  return worker;
}

const runaway = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";

describe("an interrupt", () => {
  const onRequest =
    `parentPort.on("message", ({ handle, ticket, delayMs }) => setTimeout(() => ` +
    `parentPort.postMessage(interrupt(handle, ticket)), delayMs)); parentPort.postMessage("ready");`;

  test("from another thread stops a runaway statement, and the connection goes on", async () => {
    const database = new SqlDatabase();
    const worker = await startInterrupter(onRequest, undefined);
    const ticket = newTicket();
    worker.postMessage({ handle: database.guard.handle, ticket, delayMs: 50 });
    expect(refused(() => database.write([runaway], { ticket })).code).toBe("request_timeout");
    expect(database.rows("SELECT 1")).toEqual([[1]]);
  });

  test("stops a write and undoes it", async () => {
    const database = new SqlDatabase();
    database.write(["CREATE TABLE t (a)"]);
    const worker = await startInterrupter(onRequest, undefined);
    const ticket = newTicket();
    worker.postMessage({ handle: database.guard.handle, ticket, delayMs: 50 });
    const endless = "INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c";
    expect(refused(() => database.write(["INSERT INTO t VALUES (1)", endless], { ticket })).code).toBe(
      "request_timeout",
    );
    expect(database.rows("SELECT count(*) FROM t")).toEqual([[0]]);
  });

  test("for a ticket that has not begun stops it at its start", () => {
    const database = new SqlDatabase();
    const early = newTicket();
    const other = newTicket();
    expect(interrupt(database.guard.handle, early)).toBe(true);
    expect(database.write(["SELECT 1"], { ticket: other })).toHaveLength(1);
    expect(refused(() => database.write(["SELECT 1"], { ticket: early })).code).toBe("request_timeout");
  });

  test("between two statements of a batch is not lost", () => {
    const { connection, guard } = new SqlDatabase();
    const ticket = newTicket();
    expect(guard.guarded(ticket, () => 1)).toBe(1);
    interrupt(guard.handle, ticket);
    expect(
      refused(() => guard.guarded(ticket, () => connection.raw.prepare("SELECT 1 FROM sqlite_master").all())).code,
    ).toBe("request_timeout");
  });

  test("inside guarded, between two steps, is not lost", () => {
    const { connection, guard } = new SqlDatabase();
    const ticket = newTicket();
    const act = () => {
      connection.raw.prepare("SELECT 1").all();
      interrupt(guard.handle, ticket);
      return connection.raw.prepare("SELECT name FROM sqlite_master").all();
    };
    expect(refused(() => guard.guarded(ticket, act)).code).toBe("request_timeout");
  });

  test("with a stale ticket never hits the next one", async () => {
    const database = new SqlDatabase();
    const { guard } = database;
    const shared = new Int32Array(new SharedArrayBuffer(8));
    // As fast as it can, it names the ticket before the one that runs.
    const body = `parentPort.postMessage("ready"); const { shared, handle } = workerData;
      while (Atomics.load(shared, 0) >= 0) {
        const ticket = Atomics.load(shared, 0);
        if (ticket > 1) { interrupt(handle, ticket - 1); Atomics.add(shared, 1, 1); }
      }`;
    await startInterrupter(body, { shared, handle: guard.handle });
    const count =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000) SELECT count(*) FROM c";
    for (let round = 0; round < 400; round++) {
      const ticket = newTicket();
      Atomics.store(shared, 0, ticket);
      expect(database.write([count, "SELECT 1"], { ticket })).toHaveLength(2);
    }
    expect(Atomics.load(shared, 1)).toBeGreaterThan(400);
    Atomics.store(shared, 0, -1);
  });

  test("at a random moment hits its own ticket or nothing", async () => {
    const database = new SqlDatabase();
    const { guard } = database;
    const shared = new Int32Array(new SharedArrayBuffer(8));
    const body = `parentPort.postMessage("ready"); const { shared, handle } = workerData; let last = 0;
      while (Atomics.load(shared, 0) >= 0) {
        const ticket = Atomics.load(shared, 0);
        if (ticket <= last) continue;
        last = ticket;
        if (ticket % 2 !== 0) continue;
        for (let i = 0; i < ticket % 97 * 400; i++) Atomics.load(shared, 0);
        interrupt(handle, ticket);
      }`;
    await startInterrupter(body, { shared, handle: guard.handle });
    const count =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT count(*) FROM c";
    let hit = 0;
    for (let round = 0; round < 400; round++) {
      const ticket = newTicket();
      Atomics.store(shared, 0, ticket);
      try {
        database.write([count], { ticket });
      } catch (error) {
        expect(ticket % 2, "only even tickets are ever named").toBe(0);
        expect((error as ServiceError).code).toBe("request_timeout");
        hit++;
      }
    }
    expect(hit).toBeGreaterThan(0);
    Atomics.store(shared, 0, -1);
  });
});

describe("memory", () => {
  test("a giant sort spills to disk", async () => {
    const database = new SqlDatabase();
    const worker = await startInterrupter(
      `parentPort.on("message", ({ handle, ticket }) => setTimeout(() => interrupt(handle, ticket), 2500)); ` +
        `parentPort.postMessage("ready");`,
      undefined,
    );
    const before = process.memoryUsage.rss();
    const ticket = newTicket();
    worker.postMessage({ handle: database.guard.handle, ticket });
    const sort =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n, randomblob(200) AS b FROM c " +
      "ORDER BY b";
    expect(refused(() => database.write([sort], { ticket })).code).toBe("request_timeout");
    expect(process.memoryUsage.rss() - before).toBeLessThan(300 * 1024 * 1024);
  });

  test.runIf(process.platform === "linux")("an aggregate that only grows is stopped", () => {
    const database = new SqlDatabase();
    const grow =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT json_group_array(printf('%.*c', " +
      "100000, 'x')) FROM c";
    expect(refused(() => database.write([grow])).message).toContain("more memory than one statement may use");
    expect(database.rows("SELECT 1")).toEqual([[1]]);
  });

  test("a row of many long values is refused before it is made", () => {
    const database = new SqlDatabase();
    const before = process.memoryUsage.rss();
    const wide = `SELECT ${Array.from({ length: 900 }, () => `randomblob(${limits.sqlValueBytesMax})`).join(", ")}`;
    expect(refused(() => database.write([wide])).message).toContain("longer than the statement may hold");
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024);
  });

  test("preparing does not grow with copies of copies", () => {
    const database = new SqlDatabase();
    const levels = Array.from({ length: 25 }, (_, level) => `a${level + 1} AS (SELECT x + x AS x FROM a${level})`);
    expect(database.rows(`WITH a0 AS (SELECT 1 AS x), ${levels.join(", ")} SELECT x FROM a25`)).toEqual([[2 ** 25]]);
    database.write(["CREATE TABLE t (x)", "INSERT INTO t VALUES (1)", "CREATE VIEW e0 AS SELECT x FROM t"]);
    database.write(
      Array.from({ length: 25 }, (_, level) => `CREATE VIEW e${level + 1} AS SELECT x + x AS x FROM e${level}`),
    );
    expect(database.rows("SELECT x FROM e25")).toEqual([[2 ** 25]]);
    const ninety = (text: string): string => `coalesce(${Array.from({ length: 90 }, () => text).join(", ")})`;
    const long = ninety(ninety("x"));
    expect(
      refused(() =>
        database.write([`SELECT ${long} AS y FROM t GROUP BY ${Array.from({ length: 900 }, () => "1").join(", ")}`]),
      ).message,
    ).toContain("alias");
    expect(
      refused(() =>
        database.write([`SELECT ${long} AS y FROM t ORDER BY ${Array.from({ length: 900 }, () => "y").join(", ")}`]),
      ).message,
    ).toContain("alias");
  });
});
