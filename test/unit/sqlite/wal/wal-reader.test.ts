/** What is read from the log is what SQLite would recover from it, commit by commit, each once. */
import { closeSync, ftruncateSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readState, decodeStatePage, stateRootPage } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { WalChanged, WalReader, type WalCommit } from "../../../../src/sqlite/wal/wal-reader.ts";
import { seeded } from "../../../support/random.ts";
import {
  applied,
  closeKeeping,
  commit,
  commitRow,
  encodeLog,
  frameBytes,
  parseFrames,
  logLength,
  logPath,
  MiB,
  newDatabase,
  openConnection,
  put,
  readAll,
  openReader,
  readFresh,
  recovered,
  smallLog,
  spill,
  type Frame,
} from "../../../support/wal-log.ts";

function expectRecovered(base: Buffer, log: Buffer, commits: readonly WalCommit[]): void {
  const { file, txid, integrity } = recovered(base, log);
  expect([txid, integrity]).toEqual([commits.length, "ok"]);
  expect(file.equals(applied(base, commits))).toBe(true);
}

describe("a log as SQLite left it", () => {
  test("every commit once, in order, with the state that its own page tells", () => {
    const { path } = newDatabase();
    const connection = openConnection(path);
    const reader = openReader(path);
    expect([reader.read(10, MiB), reader.count(), reader.offset]).toEqual([[], 0, 0]);
    const statePage = stateRootPage(connection);
    let offset = 0;
    for (let key = 1; key <= 20; key++) {
      commitRow(connection, key, 5_000);
      const [read, ...more] = reader.read(10, MiB);
      expect(more).toEqual([]);
      expect(decodeStatePage(read!.images.find(({ page }) => page === statePage)!.bytes)).toEqual(
        readState(connection),
      );
      expect(read!.pages).toBe(connection.raw.pragma("page_count", { simple: true }));
      const numbers = read!.images.map(({ page }) => page);
      expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
      expect(reader.offset).toBe((offset === 0 ? 32 : offset) + read!.logBytes);
      offset = reader.offset;
    }
    expect(offset).toBe(logLength(path));
    connection.close();
  });

  test("a read ends at either bound but gives one commit; count stays, skip goes", () => {
    const { path, log, ends } = smallLog(12);
    const reader = openReader(path);
    expect([reader.count(), reader.offset]).toEqual([12, 0]);
    expect([reader.read(3, MiB).length, reader.offset]).toEqual([3, ends[2]]);
    expect(reader.read(10, 1)).toHaveLength(1);
    expect(reader.read(10, ends[5]! - ends[3]!)).toHaveLength(2);
    reader.skip(0);
    reader.skip(4);
    expect([reader.count(), reader.offset]).toEqual([2, ends[9]]);
    expect(() => reader.skip(3)).toThrow(WalChanged);
    expect(reader.offset).toBe(ends[9]);
    expect(reader.read(10, MiB)).toHaveLength(2);
    expect([reader.read(10, MiB), reader.count(), reader.offset]).toEqual([[], 0, log.length]);
  });

  test("two readers on one thread, in turns, do not disturb each other", () => {
    const [one, other] = [smallLog(9), smallLog(5)];
    const readers = [one, other].map(({ path }) => openReader(path));
    const read: WalCommit[][] = [[], []];
    for (let turn = 0; turn < 18; turn++) read[turn % 2]!.push(...readers[turn % 2]!.read(1, MiB));
    expect(applied(one.base, read[0]!).equals(recovered(one.base, one.log).file)).toBe(true);
    expect(applied(other.base, read[1]!).equals(recovered(other.base, other.log).file)).toBe(true);
  });

  test("F06: a log cut at any byte gives a prefix of whole commits, the one that SQLite recovers", () => {
    const { path, base, log, ends } = smallLog(6);
    const commits = readFresh(path);
    const descriptor = openSync(logPath(path), "r+");
    const random = seeded(6);
    const boundaries = Array.from({ length: log.length / frameBytes }, (_, frame) => 32 + frame * frameBytes).flatMap(
      (at) => [at - 1, at, at + 1],
    );
    const compared = new Set([
      ...boundaries,
      0,
      1,
      log.length - 1,
      ...Array.from({ length: 20 }, () => Math.floor(random() * log.length)),
    ]);
    for (let length = log.length; length >= 0; length--) {
      // Between the header and the last commits only the ends of frames are of interest.
      if (length > 40 && length < ends[3]! && !compared.has(length)) continue;
      ftruncateSync(descriptor, length);
      const reader = new WalReader(path);
      const whole = ends.filter((end) => end <= length).length;
      expect(reader.count(), `cut at ${length}`).toBe(whole);
      reader.close();
      if (!compared.has(length)) continue;
      const read = readFresh(path);
      expect(read).toEqual(commits.slice(0, whole));
      expectRecovered(base, log.subarray(0, length), read);
    }
    closeSync(descriptor);
  });

  test("F07: one flipped bit ends the log before the commit that it is in, as it does for SQLite", () => {
    const { path, base, log, ends } = smallLog(8);
    const commits = readFresh(path);
    const random = seeded(7);
    const places = [
      ...Array.from({ length: 32 }, (_, at) => at),
      ...Array.from({ length: 24 }, (_, at) => ends[4]! + at),
      ...Array.from({ length: 200 }, () => Math.floor(random() * log.length)),
    ];
    for (const [round, place] of places.entries()) {
      const flipped = Buffer.from(log);
      flipped[place]! ^= 1 << Math.floor(random() * 8);
      writeFileSync(logPath(path), flipped);
      const whole = place < 32 ? 0 : ends.filter((end) => end <= place).length;
      const read = readFresh(path);
      expect(read, `byte ${place}`).toEqual(commits.slice(0, whole));
      if (round % 4 === 0) expectRecovered(base, flipped, read);
    }
  });

  test("F07: a flipped bit beyond what was read stops it there; one in the header is noticed at once", () => {
    const { path, log, ends } = smallLog(8);
    for (const [place, left] of [
      [ends[5]! + 100, 2],
      [ends[4]! - 1, 0],
    ] as const) {
      writeFileSync(logPath(path), log);
      const reader = openReader(path);
      reader.skip(4);
      const flipped = Buffer.from(log);
      flipped[place]! ^= 4;
      writeFileSync(logPath(path), flipped);
      expect(reader.count()).toBe(left);
      expect(() => reader.skip(4)).toThrow(WalChanged);
      expect(reader.read(10, MiB)).toHaveLength(left);
    }
    const reader = openReader(path);
    writeFileSync(logPath(path), log);
    reader.skip(4);
    const flipped = Buffer.from(log);
    flipped[13]! ^= 1;
    writeFileSync(logPath(path), flipped);
    expect(() => reader.read(10, MiB)).toThrow(WalChanged);
  });
});

describe("large transactions", () => {
  test.each([200, 700])(
    "F13: one of %s pages, far beyond the cache, is unseen while it is open, and then one commit of the final pages",
    (pages) => {
      const { path, base } = newDatabase();
      const connection = openConnection(path, 64);
      commitRow(connection, 1);
      const reader = openReader(path);
      const commits = reader.read(1, MiB);
      spill(connection, pages);
      expect(logLength(path) - reader.offset).toBeGreaterThan(pages * 4096);
      expect([reader.read(1, MiB), reader.count()]).toEqual([[], 0]);
      connection.run("UPDATE __service_state SET txid = txid + 1");
      connection.run("COMMIT");
      expect(reader.count()).toBe(1);
      commits.push(...reader.read(5, MiB));
      commitRow(connection, 2);
      commits.push(...reader.read(5, MiB));
      expect(commits).toHaveLength(3);
      connection.close();
      expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
    },
  );

  test("one that spilled and was rolled back leaves nothing, whatever comes over it", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path, 64);
    const reader = openReader(path);
    const commits: WalCommit[] = [];
    for (let round = 0; round < 3; round++) {
      commitRow(connection, round);
      spill(connection, 300);
      connection.run("ROLLBACK");
      expect(reader.count()).toBe(1);
      commits.push(...reader.read(5, MiB));
      expect([reader.read(1, MiB), reader.count()]).toEqual([[], 0]);
    }
    commitRow(connection, 9);
    commits.push(...readAll(reader));
    expect(commits).toHaveLength(4);
    connection.close();
    expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
  });

  test("F14: a commit that makes the database smaller has no image beyond its size", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path, 64);
    commit(connection, () => Array.from({ length: 400 }, (_, key) => put(connection, key, Buffer.alloc(3_900, key))));
    connection.run("DELETE FROM t WHERE k > 3");
    connection.exec("VACUUM");
    commitRow(connection, 500);
    const commits = readFresh(path);
    expect(commits).toHaveLength(4);
    const [grown, , vacuumed, last] = commits;
    expect(vacuumed!.pages).toBeLessThan(grown!.pages - 390);
    for (const { pages, images } of commits) expect(images.at(-1)!.page).toBeLessThanOrEqual(pages);
    expect(last!.pages).toBeLessThan(vacuumed!.pages + 10);
    connection.close();
    expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
  });
});

describe("logs made by hand", () => {
  function install(frames: readonly Frame[], order?: "big"): { readonly path: string; readonly log: Buffer } {
    const { path } = newDatabase();
    const log = encodeLog(frames, order);
    writeFileSync(logPath(path), log);
    return { path, log };
  }

  const image = (page: number, pages = 0): Frame => ({ page, pages, bytes: Buffer.alloc(4096, page) });

  test("words of either order: SQLite and the reader find the same", () => {
    const { path, base, log } = smallLog(4);
    const commits = readFresh(path);
    for (const order of ["little", "big"] as const) {
      const other = encodeLog(parseFrames(log), order);
      writeFileSync(logPath(path), other);
      expect(readFresh(path)).toEqual(commits);
      expectRecovered(base, other, commits);
    }
  });

  test("the last image of a page counts; images beyond the size and the lock page do not", () => {
    const second = { ...image(5), bytes: Buffer.alloc(4096, 99) };
    const { path } = install([
      image(7),
      image(5),
      image(300_000),
      image(262_145),
      image(262_144),
      second,
      image(262_146, 262_146),
      image(3, 3),
    ]);
    const read = readFresh(path).map(({ pages, images, logBytes }) => [
      pages,
      logBytes / frameBytes,
      images.map(({ page, bytes }) => [page, bytes[0]]),
    ]);
    expect(read).toEqual([
      [
        262_146,
        7,
        [
          [5, 99],
          [7, 7],
          [262_144, 0],
          [262_146, 2],
        ],
      ],
      [3, 1, [[3, 3]]],
    ]);
  });

  test("a frame of no page ends the log", () => {
    expect(readFresh(install([image(3, 60), image(0), image(4, 60), image(5, 60)]).path)).toHaveLength(1);
  });

  test("F16: a page that a commit grew past without writing it is passed over, and is zeroes for SQLite too", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path);
    commit(connection, () => {
      connection.exec("CREATE TABLE passing (v BLOB)");
      for (let row = 0; row < 20; row++) connection.run("INSERT INTO passing VALUES (?)", Buffer.alloc(3_000, 1));
      connection.exec("DROP TABLE passing");
    });
    closeKeeping(connection);
    const frames = parseFrames(readFileSync(logPath(path)));
    // Freed within the transaction and zeroed by secure_delete: SQLite may as well leave it out.
    const missing = frames.findIndex(
      ({ page, pages, bytes }) => page > base.length / 4096 && pages === 0 && bytes.every((byte) => byte === 0),
    );
    expect(missing).toBeGreaterThan(0);
    const log = encodeLog(frames.toSpliced(missing, 1));
    writeFileSync(logPath(path), log);
    const commits = readFresh(path);
    expect(commits[0]!.images.some(({ page }) => page === frames[missing]!.page)).toBe(false);
    expect(commits[0]!.pages).toBeGreaterThanOrEqual(frames[missing]!.page);
    expectRecovered(base, log, commits);
  });
});

test.each([1, 2, 3, 4, 5, 6])(
  "whatever is written, the commits in their order make the database file byte for byte (seed %s)",
  (seed) => {
    const random = seeded(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    const { path, base } = newDatabase();
    const connection = openConnection(path, below(2) === 0 ? 64 : 1024);
    const slow = new Connection(path, { readonly: true, pageCacheKiB: 64 });
    const reader = openReader(path);
    const commits: WalCommit[] = [];
    const acts: readonly (() => void)[] = [
      () =>
        Array.from({ length: 1 + below(30) }, () =>
          put(connection, below(500), Buffer.alloc(below(9_000), below(256))),
        ),
      () => connection.run("DELETE FROM t WHERE k BETWEEN ? AND ? + 50", below(500), below(500)),
      () => connection.exec(`CREATE TABLE IF NOT EXISTS u${below(5)} (v TEXT UNIQUE)`),
      () => connection.exec(`DROP TABLE IF EXISTS u${below(5)}`),
    ];
    const act = (): void => acts[below(acts.length)]!();
    const checkpoint = (): void => {
      commits.push(...readAll(reader));
      const held = below(2) === 0;
      if (held) slow.run("BEGIN");
      if (held) slow.all("SELECT count(*) FROM t");
      const [row] = connection.raw.pragma("wal_checkpoint(TRUNCATE)") as { busy: number }[];
      if (row!.busy === 0) reader.restarted();
      else reader.mayRestart();
      if (held) slow.run("COMMIT");
    };
    for (let step = 0; step < 150; step++) {
      const kind = below(20);
      if (kind === 0) checkpoint();
      else if (kind === 1) connection.exec("VACUUM");
      else if (kind < 5) {
        connection.run("BEGIN IMMEDIATE");
        for (let times = below(4); times >= 0; times--) act();
        connection.run("ROLLBACK");
      } else commit(connection, act);
      if (below(3) === 0) commits.push(...reader.read(1 + below(5), below(100_000)));
    }
    commits.push(...readAll(reader));
    slow.close();
    connection.close();
    expect(commits.length).toBeGreaterThan(60);
    expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
  },
);
