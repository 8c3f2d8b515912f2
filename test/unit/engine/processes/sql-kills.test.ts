/**
 * A process that writes for a database is killed at any moment, in the middle of its commit too: what it wrote is there
 * as a whole or not at all, the engine says which, and a crash right then would say the same.
 */
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readState } from "../../../../src/model/schema.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { runWriteCall, type SqlWriter, type WriteCall } from "../../../../src/engine/process-calls/sql-write.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { SqlGuard } from "../../../../src/sqlite/sql-authorizer.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { MortalSql } from "../../../support/mortal-sql.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const world = realWorld();
const isLong = process.env["PALIMPSEST_LONG"] === "1";
const seed = Number(process.env["PALIMPSEST_SEED"] ?? 1);
const rounds = isLong ? 600 : 25;
const rowsEach = 4_000;
const target = { uuid: uuidOf(1), branch: "main" };

interface Standing {
  readonly txid: number;
  readonly rows: ReadonlyMap<number, number>;
  readonly check: string;
}

/**
 * What a node would find that starts now: from the file and its log, without the log's index, which is memory of those
 * who are gone.
 */
function afterCrash(path: string, folder: string): Standing {
  mkdirSync(folder, { recursive: true });
  const copy = join(folder, "copy.db");
  for (const suffix of ["", "-wal"]) if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
  const connection = new Connection(copy, { readonly: false, pageCacheKiB: 2_048 });
  try {
    const rows = connection.all<{ token: number; n: number }>("SELECT token, count(*) AS n FROM t GROUP BY token");
    return {
      txid: readState(connection).txid,
      rows: new Map(rows.map(({ token, n }) => [token, n])),
      check: String(connection.raw.pragma("quick_check", { simple: true })),
    };
  } finally {
    connection.close();
    rmSync(folder, { recursive: true });
  }
}

const filling = (token: number): string =>
  "INSERT INTO t (token, body) WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n " +
  `< ${rowsEach}) SELECT ${token}, hex(randomblob(60)) FROM c`;

test(
  `a writing process that is killed leaves its batch whole or not at all (${rounds} rounds, seed ${seed})`,
  { timeout: isLong ? 3_600_000 : 180_000 },
  async () => {
    const random = seeded(seed);
    const directory = temporaryDirectory();
    const sql = new MortalSql(directory);
    onTestFinished(() => sql.close());
    const engine = openInlineEngine(directory, { sql, options: { logCheckpointBytes: 4 * 1024 * 1024 } });
    const write = (text: string): Promise<unknown> =>
      engine.client.sqlWrite(
        target,
        { statements: [{ text, paramsJson: undefined }], atomic: true, mayWrite: true },
        engine.soon(),
      );
    const scratch = join(directory, "crash");
    await write("CREATE TABLE t (id INTEGER PRIMARY KEY, token INTEGER, body TEXT)");
    await write("CREATE INDEX by_body ON t (body)");
    const there = new Map<number, number>();
    const counts = { killed: 0, unwritten: 0, written: 0, phantoms: 0 };
    let usualMs = 0;
    let recovered: number | undefined;
    sql.lost = () => (recovered = afterCrash(sql.path, scratch).txid);
    for (let token = 1; token <= rounds; token++) {
      // Every few rounds one lives, and says how long a batch takes; half of the others die about the commit.
      sql.killAfterMs = token % 5 === 1 ? undefined : usualMs * (random() < 0.5 ? random() : 0.8 + 0.3 * random());
      recovered = undefined;
      const before = afterCrash(sql.path, scratch).txid;
      const refusal = await write(filling(token)).then(
        () => undefined,
        (error: unknown) => error as Error,
      );
      const isThere = refusal === undefined || refusal.message.includes("was written, as transaction");
      if (refusal) {
        expect(refusal).toMatchObject({ code: "request_timeout" });
        counts.killed++;
        counts[isThere ? "written" : "unwritten"]++;
        // What the log alone says may be more than what its index says, until the engine has cut it off.
        if (!isThere && recovered! > before) counts.phantoms++;
      } else if (sql.killAfterMs === undefined) {
        usualMs = sql.lastMs;
      }
      if (isThere) there.set(token, rowsEach);
      expect(afterCrash(sql.path, scratch)).toEqual({ txid: before + (isThere ? 1 : 0), rows: there, check: "ok" });
      if (token % 10 !== 0) continue;
      sql.killAfterMs = undefined;
      await write(`DELETE FROM t WHERE token <= ${token - 3}`);
      for (const old of there.keys()) if (old <= token - 3) there.delete(old);
      await engine.client.sync(target, engine.soon());
    }
    if (isLong) process.stderr.write(`${JSON.stringify(counts)}\n`);
    expect(counts.killed).toBeGreaterThan(rounds / 3);
    await engine.client.close();
    expect(afterCrash(sql.path, scratch)).toMatchObject({ rows: there, check: "ok" });
  },
);

/**
 * The frames of a whole commit under the next transaction id, as they would follow in the log of the file: made on a
 * copy of both.
 */
function nextCommit(call: WriteCall, folder: string): Buffer {
  mkdirSync(folder, { recursive: true });
  const copy = join(folder, "copy.db");
  for (const suffix of ["", "-wal"]) copyFileSync(call.path + suffix, copy + suffix);
  const before = statSync(`${copy}-wal`).size;
  const connection = new Connection(copy, { readonly: false, pageCacheKiB: 2_048 });
  runWriteCall(connection, SqlGuard.attach(connection), { ...call, path: copy }, () => world.ulid());
  const frames = readFileSync(`${copy}-wal`).subarray(before);
  connection.close();
  return frames;
}

test("a whole commit that the log's index has not come to know is taken back before it is denied", async () => {
  const directory = temporaryDirectory();
  let path = "";
  let cutShort = false;
  const mortal = new MortalSql(directory, 1);
  onTestFinished(() => mortal.close());
  const sql: SqlWriter = {
    async run(call) {
      path = call.path;
      if (!cutShort) return mortal.run(call);
      appendFileSync(`${path}-wal`, nextCommit(call, join(directory, "next")));
      return { kind: "lost", code: "request_timeout", message: "killed by a test" };
    },
  };
  const engine = openInlineEngine(directory, { sql });
  const write = (text: string): Promise<unknown> =>
    engine.client.sqlWrite(
      target,
      { statements: [{ text, paramsJson: undefined }], atomic: true, mayWrite: true },
      engine.soon(),
    );
  await write("CREATE TABLE t (id INTEGER PRIMARY KEY, token INTEGER)");
  const { txid } = afterCrash(path, join(directory, "crash"));
  cutShort = true;
  await expect(write("INSERT INTO t (token) VALUES (1)")).rejects.toMatchObject({
    message: expect.stringContaining("nothing was written"),
  });
  expect(afterCrash(path, join(directory, "crash"))).toMatchObject({ txid, rows: new Map() });
  cutShort = false;
  await write("INSERT INTO t (token) VALUES (2)");
  expect(afterCrash(path, join(directory, "crash"))).toEqual({
    txid: txid + 1,
    rows: new Map([[2, 1]]),
    check: "ok",
  });
  await engine.client.close();
});
