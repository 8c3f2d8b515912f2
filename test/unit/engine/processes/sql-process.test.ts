/** A process that runs user SQL: its quotas, what it leaves of a database, and its end. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { readState } from "../../../../src/model/schema.ts";
import { lockDirectory } from "../../../../src/sqlite/connection/directory-lock.ts";
import { WalFile } from "../../../../src/sqlite/wal/wal.ts";
import { realDisk } from "../../../../src/base/disk.ts";
import { ProcessUnderTest } from "../../../support/sql-process.ts";
import { sqlProcessBytesMax } from "../../../../src/sqlite/native.ts";

const MiB = 1024 * 1024;
const rows = (count: number): string =>
  `WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${count})`;

test(
  "temporary files together stay within their quota, in reads and in writes, and the next statement has all of it",
  { timeout: 180_000 },
  async () => {
    const process = new ProcessUnderTest();
    const sort = (count: number): string =>
      `${rows(count)} SELECT sum(length(b)) FROM (SELECT randomblob(200000) AS b FROM c ORDER BY b LIMIT -1 OFFSET 1)`;
    await process.run("write", [["CREATE TABLE t (n)"]]);
    const most = Math.ceil(limits.sqlSpillBytesMax / 200_000);
    expect((await process.run("read", [[sort(most + 200)]])).refusal).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("temporary data"),
    });
    expect((await process.run("write", [[`INSERT INTO t ${sort(most + 200)}`]])).refusal).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("temporary data"),
    });
    expect((await process.run("read", [[sort(300)]])).rows).toEqual([`[[${299 * 200_000}]]`]);
    expect((await process.run("read", [["SELECT count(*) FROM t"]])).rows).toEqual(["[[0]]"]);
  },
);

test(
  "a transaction's log stays within its bound, refused by the write that would go beyond",
  { timeout: 180_000 },
  async () => {
    const process = new ProcessUnderTest();
    await process.run("write", [["CREATE TABLE t (b)"]]);
    const reply = await process.run("write", [[`INSERT INTO t ${rows(2_000)} SELECT randomblob(100000) FROM c`]]);
    expect(reply.refusal).toMatchObject({ code: "invalid_request", message: expect.stringContaining("changed pages") });
    expect(new WalFile(process.path, realDisk).fileBytes()).toBeLessThanOrEqual(limits.transactionLogBytesMax);
    expect((await process.run("read", [["SELECT count(*) FROM t"]])).rows).toEqual(["[[0]]"]);
  },
);

test("memory is bounded by the system, for SQLite and for everything else", { timeout: 180_000 }, async () => {
  const process = new ProcessUnderTest();
  await process.start();
  const before = readDataBytes(process.pid);
  const bound = Number(/Max data size\s+(\d+)/.exec(readFileSync(`/proc/${process.pid}/limits`, "utf8"))![1]);
  expect(bound - before).toBeLessThan(sqlProcessBytesMax + 64 * MiB);
  // Sums of texts that SQLite keeps in memory, many at once.
  const columns = Array.from({ length: 200 }, (_, at) => `length(group_concat(hex(zeroblob(2000 + ${at}))))`);
  const reply = await process.run("read", [[`${rows(2_000)} SELECT ${columns.join(", ")} FROM c`]]);
  expect(reply.refusal?.code ?? reply.ended).toMatch(/invalid_request|SIG/);
});

function readDataBytes(pid: number): number {
  return 1024 * Number(/VmData:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]);
}

test("a process that closes leaves the log as it is, also when the owner's lock on the file was dropped", async () => {
  const process = new ProcessUnderTest();
  const { owner, path } = process;
  const log = new WalFile(path, realDisk);
  await process.run("write", [["CREATE TABLE t (n)"]]);
  // Whoever of the owner's process closes a descriptor of the file, as taking out slack does, drops its locks on it.
  readFileSync(path);
  const before = log.extent(owner);
  expect(before.frames).toBeGreaterThan(before.moved);
  await process.run("read", [["SELECT * FROM t"]]);
  const { txid } = readState(owner);
  await process.run("write", [["INSERT INTO t VALUES (1)"]]);
  expect(readState(owner).txid).toBe(txid + 1);
  expect(log.extent(owner).frames).toBeGreaterThan(before.frames);
  expect(log.extent(owner).moved).toBe(before.moved);
  expect(log.fileBytes()).toBeGreaterThan(0);
  log.close();
});

test("a statement's process has no descriptor but its pipes and SQLite's files", async () => {
  const process = new ProcessUnderTest();
  await process.run("read", [["SELECT 1"]]);
  const open = readdirSync(`/proc/${process.pid}/fd`).map((name) => readlinkSync(`/proc/${process.pid}/fd/${name}`));
  const strange = open.filter(
    (target) => !/^(?:socket:|pipe:|anon_inode:|\/dev\/null$)/.test(target) && !target.startsWith(process.directory),
  );
  expect(strange).toEqual([]);
  expect(open.filter((target) => target.startsWith("socket:"))).toHaveLength(2);
});

test("whoever starts on the data directory waits for processes of the node before", async () => {
  const process = new ProcessUnderTest();
  await process.start();
  setTimeout(() => void process.kill(), 400);
  const startedMs = performance.now();
  const waited = await new Promise<number>((resolve) => {
    // The wait blocks: it is another process's.
    void import("node:child_process").then(({ spawn }) => {
      const { href } = new URL("../../../../src/sqlite/connection/directory-lock.ts", import.meta.url);
      const text =
        `const { lockDirectory } = await import(${JSON.stringify(href)}); ` +
        `lockDirectory(${JSON.stringify(process.directory)}).release();`;
      spawn(globalThis.process.execPath, ["--input-type=module", "-e", text]).on("exit", (code) =>
        resolve(code === 0 ? performance.now() - startedMs : -1),
      );
    });
  });
  expect(waited).toBeGreaterThan(350);
  expect(() => lockDirectory(process.directory).release()).not.toThrow();
});
