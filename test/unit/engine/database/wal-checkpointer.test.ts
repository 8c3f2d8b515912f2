/** When a log is folded in, by what its file and SQLite say of it. */
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { WalCheckpointer } from "../../../../src/engine/database/wal-checkpointer.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { realDisk } from "../../../../src/base/disk.ts";
import { WalFile } from "../../../../src/sqlite/wal/wal.ts";
import { commitRow, newDatabase, openConnection, openReader, spill } from "../../../support/wal-log.ts";

const stepBytes = 64 * 1024;

/** An open database's log, on a clock that stands still until it is moved. */
function buildCheckpointer(path: string) {
  const clock = { nowMs: 0 };
  const connection = openConnection(path, 64);
  const wal = new WalFile(path, realDisk);
  const folder = new WalCheckpointer(
    wal,
    { connection, log: openReader(path), slackUnknown: false },
    { ...realWorld(), monotonicMs: () => clock.nowMs },
    realDisk,
    stepBytes,
  );
  const rollBack = (): void => {
    spill(connection, 100);
    connection.run("ROLLBACK");
    folder.rolledBack();
  };
  const close = (): void => {
    wal.close();
    connection.close();
  };
  return { clock, connection, wal, folder, rollBack, close };
}

test("a file far longer than its log is cut at once; behind a reader it is tried now and then", () => {
  const { path } = newDatabase();
  const { clock, connection, wal, folder, rollBack, close } = buildCheckpointer(path);
  commitRow(connection, 1);
  folder.written(10);
  const reader = new Connection(path, { readonly: true, pageCacheKiB: 64 });
  reader.run("BEGIN");
  reader.all("SELECT count(*) FROM t");
  rollBack();
  expect(folder.due).toBe(true);
  expect(folder.checkpointWal()).toBe("held-up");
  for (let round = 0; round < 3; round++) {
    rollBack();
    expect(folder.due).toBe(false);
  }
  clock.nowMs += limits.checkpointRetryMs;
  expect(folder.due).toBe(true);
  reader.close();
  expect([folder.checkpointWal(), wal.fileBytes(), folder.due]).toEqual(["folded", 0, false]);
  close();
});

test("the log grows by what SQLite says, over old frames too, and a fold counts it from nothing", () => {
  const { path } = newDatabase();
  const { connection, wal, folder, close } = buildCheckpointer(path);
  const grown = [1, 2].map((cycle) => {
    let bytes = 0;
    for (let key = 0; !folder.due; key++) {
      commitRow(connection, cycle * 100 + key, 3_000);
      bytes += folder.written(3_000);
    }
    expect([bytes, folder.bytes >= stepBytes]).toEqual([folder.bytes, true]);
    expect([folder.checkpointWal(), folder.bytes]).toEqual(["folded", 0]);
    return { bytes, fileBytes: wal.fileBytes() };
  });
  // The second one was written over the first.
  expect(grown[1]!.fileBytes).toBeLessThan(grown[0]!.bytes + grown[1]!.bytes);
  close();
});
