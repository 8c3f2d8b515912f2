/**
 * kill -9 of a node whose processes compute in native code: they end with it, and the next node goes on with the same
 * files.
 */
import { expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import { startNodeProcess } from "../support/node-process.ts";
import { isAlive, listSqlProcesses } from "../support/processes.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** Half a minute and more in one straight line, where SQLite looks at no interrupt. */
const straight = Array.from({ length: 30 }, () => "length(trim(?1 || 0, ?2 || 0))").join(" + ");
const burning = ["a".repeat(100_000), `${"b".repeat(15_000)}a`];

test(
  "no process outlives its node, and the database is nobody's when the next node starts",
  { timeout: 180_000 },
  async () => {
    const directory = temporaryDirectory();
    let node = await startNodeProcess(directory);
    const sql = async (q: string, params: readonly unknown[] = []): Promise<{ status: number; json: any }> =>
      node.call("POST", "/v1/db/orphan/sql", { stmts: [{ q, params }] });
    expect((await node.call("POST", "/v1/databases", { name: "orphan" })).status).toBe(201);
    expect((await sql("CREATE TABLE t (n INTEGER)")).status).toBe(200);
    for (let round = 1; round <= 3; round++) {
      const attacks = [`SELECT ${straight}`, `INSERT INTO t SELECT ${straight}`].map((q) =>
        sql(q, burning).catch((error: unknown) => error),
      );
      for (let look = 0; look < 100 && listSqlProcesses(node.child.pid!).length < 2; look++) await sleep(50);
      await sleep(500);
      const left = listSqlProcesses(node.child.pid!).map(({ pid }) => pid);
      expect(left.length).toBeGreaterThanOrEqual(2);
      await node.end("SIGKILL");
      await Promise.all(attacks);
      for (let look = 0; look < 20 && left.some(isAlive); look++) await sleep(50);
      expect(left.filter(isAlive)).toEqual([]);
      const startedMs = performance.now();
      node = await startNodeProcess(directory);
      expect((await sql("INSERT INTO t VALUES (?)", [round])).status).toBe(200);
      expect(performance.now() - startedMs).toBeLessThan(15_000);
      expect((await sql("SELECT n FROM t")).json.results[0].rows).toEqual(
        Array.from({ length: round }, (_, at) => [at + 1]),
      );
    }
    const left = listSqlProcesses(node.child.pid!).map(({ pid }) => pid);
    await node.end("SIGTERM");
    expect(left.filter(isAlive)).toEqual([]);
  },
);
