/** Which batch gets which process: with real processes, real databases and few places. */
import { expect, onTestFinished, test } from "vitest";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLog } from "../../../../src/base/log.ts";
import { limits } from "../../../../src/base/limits.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { sqlProcess } from "../../../../src/engine/threads/thread-spawner.ts";
import type { SqlProcess } from "../../../../src/engine/processes/sql-process.ts";
import type { SqlPlaces } from "../../../../src/engine/processes/sql-job.ts";
import { SqlPool, sqlSliceMs } from "../../../../src/engine/processes/sql-pool.ts";
import { createSchema } from "../../../../src/model/schema.ts";
import type { SqlOutcome } from "../../../../src/model/sql/sql.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { lockDirectory } from "../../../../src/sqlite/connection/directory-lock.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { sqlUsageMuchMs } from "../../../../src/engine/processes/sql-choice.ts";

const world = realWorld();
const endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)";
let tickets = 0;

function setup(places: SqlPlaces) {
  const directory = temporaryDirectory();
  lockDirectory(directory).release();
  const path = join(directory, "one.db");
  const owner = new Connection(path, { readonly: false, pageCacheKiB: 512 });
  createSchema(owner);
  const started: SqlProcess[] = [];
  const start = (): SqlProcess => {
    const process = sqlProcess({ directory, environment: {} });
    started.push(process);
    return process;
  };
  const pool = new SqlPool({ places, start, world, log: silentLog });
  onTestFinished(async () => {
    await pool.close();
    owner.close();
  });
  const read = async (
    texts: readonly string[],
    leftMs = 30_000,
    uuid = "one",
    signal?: AbortSignal,
    tenant = uuid,
  ): Promise<unknown> => {
    const batch = { statements: texts.map((text) => ({ text, paramsJson: undefined })), atomic: true, mayWrite: false };
    const { value, refusal } = await pool.read(
      { uuid, tenant },
      { path, batch, ticket: ++tickets },
      world.monotonicMs() + leftMs,
      signal,
    );
    if (refusal) return refusal.code;
    const outcome = value as SqlOutcome;
    return outcome.kind === "done" ? outcome.results.map(({ rowsJson }) => rowsJson) : outcome.kind;
  };
  return { pool, path, started, read };
}

test(
  "a long read gives way to fresh ones, begins again, and is answered in the end",
  { timeout: 120_000 },
  async () => {
    const { read } = setup({ reads: 2, writes: 1 });
    await Promise.all([read(["SELECT 1"]), read(["SELECT 1"])]);
    // Many short statements: an interrupt may well come between two of them.
    const counting = Array.from(
      { length: 60 },
      (_, at) => `${endless} SELECT count(*) + ${at} FROM (SELECT n FROM c LIMIT 60000)`,
    );
    const long = [read(counting), read(counting), read(counting)];
    let isOver = false;
    void Promise.all(long).then(() => (isOver = true));
    for (let rounds = 0; rounds < 12 && !isOver; rounds++) {
      await sleep(sqlSliceMs);
      expect(await read(["SELECT 7"], 30_000, "two")).toEqual(["[[7]]"]);
    }
    const expected = counting.map((_, at) => `[[${60_000 + at}]]`);
    expect(await Promise.all(long)).toEqual([expected, expected, expected]);
  },
);

test("a batch whose caller has gone is stopped, and its process serves the next one", { timeout: 60_000 }, async () => {
  const { read, started } = setup({ reads: 1, writes: 1 });
  await read(["SELECT 1"]);
  const caller = new AbortController();
  const gone = read([`${endless} SELECT count(*) FROM c`], 60_000, "one", caller.signal).catch(
    (error: { code: string }) => error.code,
  );
  await sleep(300);
  const count = started.length;
  caller.abort();
  expect(await gone).toBe("request_timeout");
  expect(await read(["SELECT 2"])).toEqual(["[[2]]"]);
  expect(started.length).toBeLessThanOrEqual(count + 1);
});

test(
  "writes and reads hold up only their own kind, and what waits too long is refused without having begun",
  { timeout: 60_000 },
  async () => {
    const { pool, path, read } = setup({ reads: 1, writes: 1 });
    await read(["SELECT 1"]);
    const write = (text: string, txid: number, leftMs = 2_000) =>
      pool.write(
        { uuid: "one", tenant: "one" },
        0,
        {
          path,
          ticket: ++tickets,
          batch: { statements: [{ text, paramsJson: undefined }], atomic: true, mayWrite: true },
          seal: { txid, committedAtMs: 1, writerEpochId: undefined, changesKeptMs: 1 },
          logBytesMax: 2 ** 27,
        },
        leftMs,
      );
    const [first, second] = [
      write(`INSERT INTO nothing ${endless} SELECT n FROM c`, 1),
      write(`CREATE TABLE t AS ${endless} SELECT count(*) AS n FROM c`, 1, 1_500),
    ];
    const third = write("SELECT 1", 1, 300);
    expect(await read(["SELECT 3"])).toEqual(["[[3]]"]);
    // The first names a table that is not there.
    expect(await first).toMatchObject({ kind: "refused", code: "invalid_request" });
    expect(await third).toMatchObject({ kind: "refused", code: "request_timeout" });
    expect(["refused", "lost"]).toContain((await second).kind);
  },
);

test(
  "the next read is that of the tenant who has used least, however many another one has sent before",
  { timeout: 60_000 },
  async () => {
    const { read } = setup({ reads: 1, writes: 1 });
    await read(["SELECT 1"]);
    const ended: string[] = [];
    const ask = (tenant: string, uuid: string, rows: number): Promise<void> =>
      read([`${endless} SELECT count(*) FROM (SELECT n FROM c LIMIT ${rows})`], 30_000, uuid, undefined, tenant).then(
        () => void ended.push(tenant),
      );
    const busy = Array.from({ length: 12 }, (_, n) => ask("busy", `b${n}`, 100_000));
    await sleep(20);
    const served = async (): Promise<number> => {
      const before = ended.length;
      await ask("calm", "c", 10);
      return ended.length - before;
    };
    // Its own, the one that was running, and the first one, before which nobody had used anything.
    expect(await served()).toBeLessThanOrEqual(3);
    expect(await served()).toBeLessThanOrEqual(2);
    await Promise.all(busy);
  },
);

test("of the places for writes one is kept from a tenant who keeps the other busy", { timeout: 60_000 }, async () => {
  const { pool, path, read } = setup({ reads: 1, writes: 2 });
  await read(["SELECT 1"]);
  // Each on a file of its own, as databases are.
  const write = (tenant: string, n: number, text: string): Promise<{ readonly kind: string }> => {
    const file = `${path}.${tenant}${n}`;
    const owner = new Connection(file, { readonly: false, pageCacheKiB: 512 });
    createSchema(owner);
    owner.run("CREATE TABLE t (n)");
    owner.close();
    return pool.write(
      { uuid: `${tenant}${n}`, tenant },
      0,
      {
        path: file,
        ticket: ++tickets,
        batch: { statements: [{ text, paramsJson: undefined }], atomic: true, mayWrite: true },
        seal: { txid: 1, committedAtMs: 1, writerEpochId: undefined, changesKeptMs: 1 },
        logBytesMax: 2 ** 27,
      },
      20_000,
    );
  };
  const long = `INSERT INTO t ${endless} SELECT count(*) FROM c`;
  const busy = Array.from({ length: 4 }, (_, n) => write("busy", n, long));
  await sleep(sqlUsageMuchMs + 500);
  // Both places are his by now, for the length of the budget: the first that ends is for another one.
  await busy[0];
  const begunMs = performance.now();
  expect((await write("calm", 0, "INSERT INTO t VALUES (1)")).kind).toBe("done");
  expect(performance.now() - begunMs).toBeLessThan(limits.sqlWriteBudgetMs / 2);
  await pool.close();
  await Promise.all(busy);
});

test("an engine thread that is gone leaves no process that writes for it", { timeout: 60_000 }, async () => {
  const { pool, path, read } = setup({ reads: 1, writes: 1 });
  await read(["SELECT 1"]);
  const writing = pool.write(
    { uuid: "one", tenant: "one" },
    3,
    {
      path,
      ticket: ++tickets,
      batch: {
        statements: [{ text: `CREATE TABLE t AS ${endless} SELECT count(*) AS n FROM c`, paramsJson: undefined }],
        atomic: true,
        mayWrite: true,
      },
      seal: { txid: 1, committedAtMs: 1, writerEpochId: undefined, changesKeptMs: 1 },
      logBytesMax: 2 ** 27,
    },
    60_000,
  );
  await sleep(500);
  await pool.endWrites(2);
  await pool.endWrites(3);
  expect((await writing).kind).toMatch(/lost|refused/);
  const next = new Connection(path, { readonly: false, pageCacheKiB: 512 });
  next.run("BEGIN IMMEDIATE");
  next.run("ROLLBACK");
  next.close();
});
