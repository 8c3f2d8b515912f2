/** Slack of a database file is zeroed in place, under open connections, and never anything else. */
import { existsSync, readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { Slack } from "../../../../src/sqlite/pages/slack.ts";
import { realDisk, type Disk } from "../../../../src/base/disk.ts";
import { WalFile } from "../../../../src/sqlite/wal/wal.ts";
import { seeded } from "../../../support/random.ts";
import { canary, residueIn } from "../../../support/residue.ts";
import { newDatabase, openConnection } from "../../../support/wal-log.ts";

class Churned {
  readonly path = newDatabase().path;
  readonly connection = openConnection(this.path, 8_192);
  readonly wal = new WalFile(this.path, realDisk);
  readonly slack: Slack;
  readonly random = seeded(5);
  readonly live = new Map<number, string>();
  readonly gone: string[] = [];
  #next = 0;

  constructor(disk: Disk = realDisk) {
    this.slack = new Slack(this.path, disk);
    this.connection.exec("CREATE TABLE texts (word TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID");
    onTestFinished(() => {
      this.wal.close();
      if (this.connection.raw.open) this.connection.close();
    });
  }

  churn(rounds: number): this {
    this.connection.exec("BEGIN");
    for (let round = 0; round < rounds; round++) {
      const word = canary(this.random);
      this.live.set(++this.#next, word);
      this.connection.run(
        "INSERT INTO t (k, v) VALUES (?, ?)",
        this.#next,
        word + "x".repeat(Math.floor(this.random() * 200)),
      );
      this.connection.run("INSERT INTO texts (word, n) VALUES (?, ?)", word, this.#next);
      if (this.random() < 0.4) this.remove([...this.live.keys()][Math.floor(this.random() * this.live.size)]!);
    }
    this.connection.exec("COMMIT");
    return this;
  }

  remove(key: number): void {
    const word = this.live.get(key)!;
    this.connection.run("DELETE FROM t WHERE k = ?", key);
    this.connection.run("DELETE FROM texts WHERE word = ?", word);
    this.live.delete(key);
    this.gone.push(word);
  }

  /** Changes a byte of every row, so that every page is written again. */
  touchAll(): void {
    this.connection.exec("UPDATE t SET k = k + 1000000 WHERE k < 1000000");
    this.connection.exec("UPDATE texts SET n = n + 1");
  }

  /** Gives the pages that the log had. */
  fold(): readonly number[] {
    const logged = [...this.wal.pageNumbers(0, this.wal.extent(this.connection).frames)];
    this.slack.note(logged);
    expect(this.wal.checkpoint(this.connection, "truncate")).toBe(true);
    return logged;
  }

  residue(path = this.path): number {
    return existsSync(path) ? residueIn(readFileSync(path), { words: this.gone, vectors: [] }) : 0;
  }

  rows(): unknown {
    return ["t", "texts"].map((table) => this.connection.all(`SELECT * FROM ${table} ORDER BY 1`));
  }
}

test("pages that the log had written lose their slack, and nothing else changes", () => {
  const churned = new Churned().churn(2_000);
  const rows = churned.rows();
  const logged = new Set(churned.fold());
  const before = readFileSync(churned.path);
  expect(churned.residue()).toBeGreaterThan(0);
  expect(churned.slack.zeroNoted()).toBeGreaterThan(0);
  const after = readFileSync(churned.path);
  expect(churned.residue()).toBe(0);
  for (const page of logged) makeCanonical(before.subarray((page - 1) * pageBytes, page * pageBytes), page);
  expect(after.equals(before)).toBe(true);
  expect(churned.rows()).toEqual(rows);
  expect(churned.connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
  expect(churned.slack.zeroNoted()).toBe(0);
});

test("only noted pages are looked at, and all of them when the whole file is gone through", () => {
  const churned = new Churned().churn(2_000);
  churned.connection.run("INSERT INTO t (k, v) VALUES (-1, zeroblob(2000000))");
  churned.fold();
  const other = new Slack(churned.path, realDisk);
  expect(other.zeroNoted()).toBe(0);
  other.note([1, 999_999]);
  other.zeroNoted();
  expect(churned.residue()).toBeGreaterThan(0);
  let zeroed = 0;
  let steps = 0;
  for (let page: number | undefined = 1; page !== undefined; steps++) {
    const step = other.zeroFrom(page);
    zeroed += step.zeroed;
    page = step.next;
  }
  expect([zeroed > 0, steps > 1, churned.residue()]).toEqual([true, true, 0]);
});

test("readers of an older state see it unchanged, and the log that they held up says all that it had written", () => {
  const churned = new Churned().churn(800);
  const reader = new Connection(churned.path, { readonly: true, pageCacheKiB: 16 });
  onTestFinished(() => reader.close());
  reader.run("BEGIN");
  const seen = reader.all("SELECT * FROM t ORDER BY k");
  churned.churn(800);
  churned.slack.note(churned.wal.pageNumbers(0, churned.wal.extent(churned.connection).frames));
  expect(churned.wal.checkpoint(churned.connection, "truncate")).toBe(false);
  for (let page: number | undefined = 1; page !== undefined; page = churned.slack.zeroFrom(page).next);
  expect(reader.all("SELECT * FROM t ORDER BY k")).toEqual(seen);
  reader.run("COMMIT");
  // All was moved, so this commit begins the log anew over the old frames.
  churned.slack.note(churned.wal.pageNumbers(0, churned.wal.extent(churned.connection).frames));
  expect(churned.wal.checkpoint(churned.connection, "truncate")).toBe(true);
  churned.churn(1);
  churned.fold();
  churned.slack.zeroNoted();
  expect(churned.residue()).toBe(0);
});

test("a cached page brings its old slack back when it is written again, unless the cache was dropped", () => {
  const outcomes = [false, true].map((drops) => {
    const churned = new Churned().churn(2_000);
    churned.fold();
    churned.slack.zeroNoted();
    if (drops) churned.connection.raw.pragma("shrink_memory");
    churned.touchAll();
    return churned.residue(`${churned.path}-wal`);
  });
  expect(outcomes).toEqual([expect.any(Number), 0]);
  expect(outcomes[0]).toBeGreaterThan(0);
});

test("what was zeroed is synced through the door of the disk", async () => {
  const synced: string[] = [];
  const churned = new Churned({ ...realDisk, fdatasync: async (_, path) => void synced.push(path) }).churn(500);
  churned.fold();
  churned.slack.zeroNoted();
  await churned.slack.sync();
  expect(synced).toEqual([churned.path]);
  // The connection still writes and folds though another descriptor of its file was closed.
  churned.churn(500);
  churned.fold();
  churned.slack.zeroNoted();
  churned.slack.syncNow();
  churned.wal.close();
  churned.connection.close();
  expect([churned.residue(), existsSync(`${churned.path}-wal`)]).toEqual([0, false]);
});
