/**
 * What a database does while a process runs a batch of user SQL for it: nothing else is written, reads go on, and
 * nobody is told of a commit that is not noted and synced.
 */
import { expect, onTestFinished, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { readState } from "../../../../src/model/schema.ts";
import { realWorld } from "../../../../src/base/world.ts";
import {
  runWriteCall,
  type SqlWriteEnd,
  type SqlWriter,
  type WriteCall,
} from "../../../../src/engine/process-calls/sql-write.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { SqlGuard } from "../../../../src/sqlite/sql-authorizer.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const world = realWorld();
const target = { uuid: uuidOf(1), branch: "main" };
/** From here on the log is due to be folded in. */
const logBytes = 128 * 1024;
const batch = (text: string) => ({ statements: [{ text, paramsJson: undefined }], atomic: true, mayWrite: true });

/** Runs batches on a connection of its own, and stops before them and after their commit until it is told to go on. */
class SteppedSql implements SqlWriter {
  stops = false;
  #given = Promise.withResolvers<WriteCall>();
  #go = Promise.withResolvers<void>();
  #answer = Promise.withResolvers<SqlWriteEnd | undefined>();

  async run(call: WriteCall): Promise<SqlWriteEnd> {
    if (this.stops) {
      this.#given.resolve(call);
      await this.#go.promise;
    }
    const connection = new Connection(call.path, { readonly: false, pageCacheKiB: 1_024 });
    const guard = SqlGuard.attach(connection);
    try {
      const end = runWriteCall(connection, guard, call, () => world.ulid());
      return (this.stops ? await this.#answer.promise : undefined) ?? end;
    } finally {
      guard.detach();
      connection.close();
    }
  }

  /** A batch is about to begin. */
  get given(): Promise<WriteCall> {
    return this.#given.promise;
  }

  commit(): void {
    this.#go.resolve();
  }

  answer(end?: SqlWriteEnd): void {
    this.#answer.resolve(end);
  }
}

async function setup() {
  const sql = new SteppedSql();
  const engine = openInlineEngine(temporaryDirectory(), { sql, options: { logCheckpointBytes: logBytes } });
  onTestFinished(async () => void (await engine.client.close()));
  const { client, soon } = engine;
  const put = (key: string) => client.write(target, "kv.put", { ns: "n", key, value: Buffer.from(key) }, soon());
  const get = (key: string) => client.read(target, "kv.get", { ns: "n", key } as never, soon());
  const write = (text: string) => client.sqlWrite(target, batch(text), soon());
  await put("k");
  await write("CREATE TABLE t (n)");
  sql.stops = true;
  return { sql, client, soon, put, get, write };
}

const turns = (ms = 60): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Whether the promise has settled by now. */
async function isOver(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([
    promise.then(
      () => true,
      () => true,
    ),
    turns().then(() => false),
  ]);
}

test("other writes wait for it, in their order; reads are answered meanwhile", async () => {
  const { sql, put, get, write } = await setup();
  const running = write("INSERT INTO t VALUES (1)");
  await sql.given;
  const behind = put("behind");
  expect(await get("k")).toMatchObject({ txid: 2 });
  expect(await isOver(behind)).toBe(false);
  sql.commit();
  sql.answer();
  expect(await running).toMatchObject({ txid: 3, value: [{ rowsAffected: 1 }] });
  expect(await behind).toMatchObject({ txid: 4 });
});

test("a read that sees its commit is answered when the commit is noted, with its transaction id", async () => {
  const { sql, get, write } = await setup();
  const running = write("INSERT INTO t VALUES (1)");
  const { path } = await sql.given;
  sql.commit();
  await turns();
  const seen = new Connection(path, { readonly: true, pageCacheKiB: 64 });
  expect(readState(seen).txid).toBe(3);
  seen.close();
  const reads = [get("k"), get("nothing")];
  for (const read of reads) expect(await isOver(read)).toBe(false);
  sql.answer();
  expect(await running).toMatchObject({ txid: 3 });
  expect(await reads[0]).toMatchObject({ txid: 3 });
  await reads[1]!.then(
    ({ txid }) => expect(txid).toBe(3),
    (error: unknown) => expect(error).toMatchObject({ detail: { txid: 3 } }),
  );
});

test("a commit whose process was lost is told as written, its results as lost; the next goes on", async () => {
  const { sql, put, write } = await setup();
  const running = write("INSERT INTO t VALUES (1)").catch((error: unknown) => error);
  await sql.given;
  sql.commit();
  await turns();
  sql.answer({ kind: "lost", code: "overloaded", message: "it was killed" });
  expect(await running).toMatchObject({
    code: "request_timeout",
    message: expect.stringContaining("was written, as transaction 3"),
  });
  expect(await put("after")).toMatchObject({ txid: 4 });
});

test(
  "the log is not folded in while it runs, however long it is and whatever is shipped, and is when it is " + "over",
  async () => {
    const { sql, client, soon, put, write } = await setup();
    // More than makes it due, less than holds writers up; standard writes are shipped a second later.
    await Promise.all(
      [1, 2, 3].map((at) =>
        client.write(target, "kv.put", { ns: "n", key: `large${at}`, value: Buffer.alloc(64 * 1024, at) }, soon()),
      ),
    );
    const running = write("INSERT INTO t VALUES (1)");
    const { path } = await sql.given;
    const extent = (): { readonly log: number; readonly checkpointed: number } => {
      const connection = new Connection(path, { readonly: true, pageCacheKiB: 64 });
      try {
        return connection.get("PRAGMA wal_checkpoint(NOOP)")!;
      } finally {
        connection.close();
      }
    };
    const before = extent();
    expect((before.log - before.checkpointed) * 4_096).toBeGreaterThan(logBytes);
    await client.run(target, { kind: "sync" }, soon());
    await turns(2 * limits.foldHoldMsMax);
    expect(extent()).toEqual(before);
    sql.commit();
    sql.answer();
    await running;
    await client.run(target, { kind: "sync" }, soon());
    await put("next");
    await client.run(target, { kind: "sync" }, soon());
    await turns();
    const after = extent();
    expect(after.checkpointed === after.log || after.log < before.log).toBe(true);
  },
);
