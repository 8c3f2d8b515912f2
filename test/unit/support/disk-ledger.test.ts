/** The ledger of a disk sees what SQLite and our own code do to files, and what a loss of power may take back of it. */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Connection } from "../../../src/sqlite/connection/connection.ts";
import { DiskLedger } from "../../support/disk-ledger.ts";
import { faultVfs } from "../../support/fault-vfs.ts";
import { seeded } from "../../support/random.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

const losses = 60;

function watched(): {
  ledger: DiskLedger;
  path: (name: string) => string;
  states: (look: (folder: string) => string) => Set<string>;
} {
  const directory = temporaryDirectory();
  const root = join(directory, "live");
  mkdirSync(root);
  const ledger = new DiskLedger(root, 1);
  onTestFinished(() => ledger.close());
  const random = seeded(1);
  /** What is found after many losses of power at this moment. */
  const states = (look: (folder: string) => string): Set<string> => {
    const found = new Set<string>();
    for (let loss = 0; loss < losses; loss++) {
      const folder = join(directory, "after");
      ledger.lose(folder, random);
      found.add(look(folder));
      rmSync(folder, { recursive: true });
    }
    return found;
  };
  return { ledger, path: (name) => join(root, name), states };
}

function overwrite(path: string, text: string): number {
  const descriptor = openSync(path, "r+");
  writeSync(descriptor, Buffer.from(text), 0, text.length, 0);
  return descriptor;
}

function syncFolder(path: string): void {
  const descriptor = openSync(path, "r");
  fsyncSync(descriptor);
  closeSync(descriptor);
}

test("bytes: what was written may be there or not until it is synced, and then it is there", () => {
  const { path, states } = watched();
  writeFileSync(path("a"), "old", { flush: true });
  syncFolder(path("."));
  const look = (folder: string): string => readFileSync(join(folder, "a"), "utf8");
  const descriptor = overwrite(path("a"), "new and longer");
  expect(states(look)).toContain("old");
  expect(states(look)).toContain("new and longer");
  fdatasyncSync(descriptor);
  closeSync(descriptor);
  expect(states(look)).toEqual(new Set(["new and longer"]));
});

test("bytes: a sync covers what was written before it began; a failed one nothing until written again", () => {
  const { ledger, path, states } = watched();
  writeFileSync(path("a"), "first", { flush: true });
  syncFolder(path("."));
  const { ino } = statSync(path("a"));
  const look = (folder: string): string => readFileSync(join(folder, "a"), "utf8");
  closeSync(overwrite(path("a"), "secnd"));
  const mark = ledger.mark();
  closeSync(overwrite(path("a"), "third"));
  ledger.synced(ino, mark);
  expect(states(look)).toEqual(new Set(["secnd", "third"]));
  ledger.syncFailed(ino, ledger.mark());
  ledger.synced(ino, ledger.mark());
  expect(states(look)).toEqual(new Set(["secnd", "third"]));
  closeSync(overwrite(path("a"), "forth"));
  ledger.synced(ino, ledger.mark());
  expect(states(look)).toEqual(new Set(["forth"]));
});

test("names: a rename is there whole or not at all, and is there when the folder was synced", () => {
  const { path, states } = watched();
  writeFileSync(path("a"), "old", { flush: true });
  syncFolder(path("."));
  writeFileSync(path("b"), "new", { flush: true });
  renameSync(path("b"), path("a"));
  const look = (folder: string): string =>
    readdirSync(folder)
      .toSorted()
      .map((name) => `${name}=${readFileSync(join(folder, name), "utf8")}`)
      .join();
  expect(states(look)).toEqual(new Set(["a=old", "a=old,b=new", "a=new"]));
  syncFolder(path("."));
  expect(states(look)).toEqual(new Set(["a=new"]));
  rmSync(path("a"));
  expect(states(look)).toEqual(new Set(["a=new", ""]));
});

test("SQLite: pages that a checkpoint has not synced may be lost, those of a whole one are there", () => {
  const { path, states } = watched();
  const connection = new Connection(path("a.db"), { readonly: false, pageCacheKiB: 512 });
  connection.exec("CREATE TABLE t (v)");
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  syncFolder(path("."));
  const rows = (folder: string): string => {
    rmSync(join(folder, "a.db-wal"), { force: true });
    const found = new Connection(join(folder, "a.db"), { readonly: false, pageCacheKiB: 512 });
    try {
      return String(found.get<{ n: number }>("SELECT count(*) AS n FROM t")!.n);
    } finally {
      found.close();
    }
  };
  connection.exec("INSERT INTO t VALUES (1)");
  expect(states(rows)).toEqual(new Set(["0"]));
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  expect(states(rows)).toEqual(new Set(["1"]));
  connection.exec("PRAGMA synchronous = 0");
  connection.exec("INSERT INTO t VALUES (2)");
  connection.raw.pragma("wal_checkpoint(TRUNCATE)");
  expect(states(rows)).toEqual(new Set(["1", "2"]));
  connection.close();
});

test("SQLite: the n-th operation fails as it was scripted, and the handle says how", () => {
  const { ledger, path } = watched();
  const connection = new Connection(path("a.db"), { readonly: false, pageCacheKiB: 512 });
  connection.exec("CREATE TABLE t (v)");
  const insert = (): void => connection.exec("INSERT INTO t VALUES (zeroblob(20000))");
  for (const [fault, code] of [
    ["writeFull", "SQLITE_FULL"],
    ["writeShort", "SQLITE_FULL"],
    ["writeFails", "SQLITE_IOERR_WRITE"],
  ] as const) {
    faultVfs().script(ledger.vfsFolder, fault, 2);
    expect(insert).toThrow(expect.objectContaining({ code }));
  }
  insert();
  faultVfs().script(ledger.vfsFolder, "syncFails", 1);
  expect(() => connection.raw.pragma("wal_checkpoint(TRUNCATE)")).toThrow(
    expect.objectContaining({ code: "SQLITE_IOERR_FSYNC" }),
  );
  expect(faultVfs().failed(ledger.vfsFolder)).toBe(4);
  expect(connection.get<{ n: number }>("SELECT count(*) AS n FROM t")).toEqual({ n: 1 });
  connection.close();
});

test("a process that ends takes what is not synced along to whoever comes after it", () => {
  const { ledger, path } = watched();
  writeFileSync(path("a"), "old", { flush: true });
  syncFolder(path("."));
  closeSync(overwrite(path("a"), "new"));
  const directory = temporaryDirectory();
  const next = join(directory, "next");
  mkdirSync(next);
  const heir = new DiskLedger(next, 2);
  onTestFinished(() => heir.close());
  ledger.move(heir);
  expect(readFileSync(join(next, "a"), "utf8")).toBe("new");
  const random = seeded(1);
  const found = new Set<string>();
  for (let loss = 0; loss < losses; loss++) {
    heir.lose(join(directory, `after${loss}`), random);
    found.add(readFileSync(join(directory, `after${loss}`, "a"), "utf8"));
  }
  expect(found).toEqual(new Set(["old", "new"]));
  expect(existsSync(join(next, "b"))).toBe(false);
});
