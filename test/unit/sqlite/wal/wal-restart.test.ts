/**
 * Whether the log is still the one that was read: our own new beginnings are followed, everybody else's are noticed.
 */
import { readFileSync, rmSync, truncateSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { readState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { WalChanged, type WalCommit, type WalReader } from "../../../../src/sqlite/wal/wal-reader.ts";
import { realDisk } from "../../../../src/base/disk.ts";
import { WalFile } from "../../../../src/sqlite/wal/wal.ts";
import {
  applied,
  commitRow,
  frameBytes,
  logLength,
  logPath,
  MiB,
  newDatabase,
  openConnection,
  readAll,
  openReader,
  readFresh,
  smallLog,
  spill,
} from "../../../support/wal-log.ts";

describe("a checkpoint", () => {
  test("that restarts leaves the file, and tells what is in it by the frames that count", () => {
    const { path } = newDatabase();
    const connection = openConnection(path);
    const wal = new WalFile(path, realDisk);
    expect([wal.extent(connection), wal.fileBytes()]).toEqual([{ frames: 0, moved: 0 }, 0]);
    for (let key = 1; key <= 10; key++) commitRow(connection, key, 9_000);
    const { frames } = wal.extent(connection);
    const length = 32 + frames * frameBytes;
    expect([wal.extent(connection).moved, wal.fileBytes()]).toEqual([0, length]);
    expect(wal.checkpoint(connection, "restart")).toBe(true);
    expect([wal.extent(connection), wal.fileBytes()]).toEqual([{ frames, moved: frames }, length]);
    commitRow(connection, 11);
    const after = wal.extent(connection);
    expect([after.frames > 0, after.frames < frames, after.moved, wal.fileBytes()]).toEqual([true, true, 0, length]);
    expect(wal.checkpoint(connection, "truncate")).toBe(true);
    expect([wal.extent(connection), wal.fileBytes()]).toEqual([{ frames: 0, moved: 0 }, 0]);
    wal.close();
    connection.close();
  });

  test("that a reader holds up says so, in either mode; frames that were rolled back never count", () => {
    const { path } = newDatabase();
    const connection = openConnection(path, 64);
    const wal = new WalFile(path, realDisk);
    commitRow(connection, 1);
    const slow = new Connection(path, { readonly: true, pageCacheKiB: 64 });
    slow.run("BEGIN");
    slow.all("SELECT count(*) FROM t");
    commitRow(connection, 2);
    const { frames } = wal.extent(connection);
    spill(connection, 100);
    connection.run("ROLLBACK");
    expect([wal.extent(connection).frames, wal.fileBytes() > 100 * frameBytes]).toEqual([frames, true]);
    for (const mode of ["restart", "truncate"] as const) expect(wal.checkpoint(connection, mode)).toBe(false);
    expect(wal.extent(connection).frames).toBe(frames);
    slow.close();
    wal.close();
    connection.close();
  });
});

describe("a log that begins anew", () => {
  test("F08: frames of an older log behind the end of a restarted one are never read", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path);
    for (let key = 1; key <= 10; key++) commitRow(connection, key, 9_000);
    const reader = openReader(path);
    const commits = readAll(reader);
    const length = logLength(path);
    // Moves everything and cuts nothing: the next writer goes back to the beginning of the file.
    connection.raw.pragma("wal_checkpoint(RESTART)");
    reader.mayRestart();
    expect(reader.read(1, MiB)).toEqual([]);
    commitRow(connection, 11);
    expect(logLength(path)).toBe(length);
    const fresh = readFresh(path);
    expect(fresh).toHaveLength(1);
    expect(reader.read(10, MiB)).toEqual(fresh);
    expect([reader.count(), reader.offset < length]).toEqual([0, true]);
    connection.close();
    expect(readFileSync(path).equals(applied(base, [...commits, ...fresh]))).toBe(true);
  });

  test("F09: after our own cut the reading goes on at the first frame, without a gap", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path);
    const reader = openReader(path);
    const commits: WalCommit[] = [];
    for (let round = 0; round < 5; round++) {
      // The later logs are longer than the one before in some rounds and shorter in others.
      for (let key = 0; key < [3, 9, 2, 2, 7][round]!; key++) commitRow(connection, round * 100 + key);
      commits.push(...readAll(reader));
      connection.raw.pragma("wal_checkpoint(TRUNCATE)");
      reader.restarted();
      expect([reader.offset, reader.read(1, MiB), reader.count()]).toEqual([0, [], 0]);
    }
    expect(commits).toHaveLength(23);
    connection.close();
    expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
  });

  test("F26: a checkpoint that a reader held up may or may not begin the log anew; both are read without a gap", () => {
    const { path, base } = newDatabase();
    const connection = openConnection(path);
    const slow = new Connection(path, { readonly: true, pageCacheKiB: 64 });
    const reader = openReader(path);
    const commits: WalCommit[] = [];
    const starts: boolean[] = [];
    for (let round = 0; round < 6; round++) {
      for (let key = 0; key < 4; key++) commitRow(connection, round * 10 + key);
      commits.push(...readAll(reader));
      const { offset } = reader;
      slow.run("BEGIN");
      slow.all("SELECT count(*) FROM t");
      expect(connection.raw.pragma("wal_checkpoint(TRUNCATE)")).toMatchObject([{ busy: 1 }]);
      reader.mayRestart();
      expect([reader.offset, reader.read(1, MiB)]).toEqual([offset, []]);
      if (round % 2 === 0) slow.run("COMMIT");
      commitRow(connection, round * 10 + 5);
      if (round % 2 === 1) slow.run("COMMIT");
      commits.push(...readAll(reader));
      starts.push(reader.offset < offset);
    }
    expect(starts).toEqual([true, false, true, false, true, false]);
    expect(commits).toHaveLength(30);
    for (const one of [slow, connection]) one.close();
    expect(readFileSync(path).equals(applied(base, commits))).toBe(true);
  });

  test("a header that nothing was committed behind binds nobody", () => {
    const { path } = newDatabase();
    const connection = openConnection(path, 64);
    const reader = openReader(path);
    spill(connection, 100);
    connection.run("ROLLBACK");
    const header = readFileSync(logPath(path)).subarray(0, 32);
    expect([reader.read(1, MiB), reader.count(), reader.offset]).toEqual([[], 0, 0]);
    commitRow(connection, 1);
    expect(readFileSync(logPath(path)).subarray(0, 32).equals(header)).toBe(false);
    expect(reader.read(9, MiB)).toHaveLength(1);
    connection.close();
  });
});

describe("F10: somebody else at the log", () => {
  /** A reader that has read four of eight commits, and a foreign connection. */
  function opened(): {
    readonly reader: WalReader;
    readonly own: Connection;
    readonly foreign: Connection;
    readonly path: string;
  } {
    const path = smallLog(8).path;
    const [own, foreign] = [openConnection(path), openConnection(path)];
    onTestFinished(() => [own, foreign].forEach((connection) => connection.close()));
    readState(own);
    const reader = openReader(path);
    reader.skip(4);
    return { reader, own, foreign, path };
  }

  function expectChanged(reader: WalReader): void {
    const { offset } = reader;
    for (const act of [() => reader.read(1, MiB), () => reader.count(), () => reader.skip(1)])
      expect(act).toThrow(WalChanged);
    expect(reader.offset).toBe(offset);
  }

  test("a cut", () => {
    const { reader, foreign } = opened();
    foreign.raw.pragma("wal_checkpoint(TRUNCATE)");
    expectChanged(reader);
  });

  test("a cut, and more written than there was", () => {
    const { reader, foreign, path } = opened();
    foreign.raw.pragma("wal_checkpoint(TRUNCATE)");
    for (let key = 50; key < 70; key++) commitRow(foreign, key);
    expect(logLength(path)).toBeGreaterThan(reader.offset);
    expectChanged(reader);
  });

  test("a checkpoint without a cut, and a write that begins the log anew", () => {
    const { reader, foreign } = opened();
    foreign.raw.pragma("wal_checkpoint(PASSIVE)");
    commitRow(foreign, 50);
    expectChanged(reader);
  });

  test("a file cut short behind the header", () => {
    const { reader, path } = opened();
    truncateSync(logPath(path), reader.offset - 1);
    expectChanged(reader);
  });

  test("a deletion", () => {
    const path = smallLog(8).path;
    const reader = openReader(path);
    reader.skip(4);
    rmSync(logPath(path));
    expectChanged(reader);
  });

  test("a cut that the owner speaks of and that has not happened", () => {
    const { reader } = opened();
    reader.restarted();
    for (const act of [() => reader.read(1, MiB), () => reader.count(), () => reader.skip(1)])
      expect(act).toThrow(WalChanged);
  });
});
