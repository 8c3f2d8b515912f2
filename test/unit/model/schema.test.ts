/** The state row, read by SQL and read from the page that it lies in. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../src/base/faults/errors.ts";
import {
  createSchema,
  readState,
  decodeStatePage,
  stateRootPage,
  writeState,
  type DatabaseState,
} from "../../../src/model/schema.ts";
import { Connection } from "../../../src/sqlite/connection/connection.ts";
import { WalReader } from "../../../src/sqlite/wal/wal-reader.ts";
import { seeded } from "../../support/random.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

function newDatabase(): Connection {
  const connection = new Connection(join(temporaryDirectory(), "main.db"), { readonly: false, pageCacheKiB: 256 });
  createSchema(connection);
  return connection;
}

/** The image of the state page after the last commit. */
function statePage(connection: Connection): Uint8Array {
  const reader = new WalReader(connection.path);
  const commits = reader.read(100_000, Number.MAX_SAFE_INTEGER);
  reader.close();
  const root = stateRootPage(connection);
  return commits.flatMap(({ images }) => images).findLast(({ page }) => page === root)!.bytes;
}

test("a new database is at transaction 0, and nobody's", () => {
  const connection = newDatabase();
  expect(readState(connection)).toEqual({ txid: 0, committedAtMs: 0, writerEpochId: undefined });
  expect(decodeStatePage(statePage(connection))).toEqual({ txid: 0, committedAtMs: 0, writerEpochId: undefined });
  connection.close();
});

test("the page says what the row says, over all sizes of numbers, with and without a writer epoch", () => {
  const connection = newDatabase();
  const random = seeded(11);
  const count = (): number => Math.floor(random() * 2 ** (random() * 53));
  const edges = [
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    2 ** 23 - 1,
    2 ** 23,
    2 ** 31 - 1,
    2 ** 31,
    2 ** 47 - 1,
    2 ** 47,
    Number.MAX_SAFE_INTEGER,
  ];
  const reader = new WalReader(connection.path);
  reader.skip(reader.count());
  for (let round = 0; round < 600; round++) {
    const writerEpochId =
      random() < 0.5 ? undefined : Uint8Array.from({ length: 16 }, () => Math.floor(random() * 256));
    const state: DatabaseState = {
      txid: edges[round] ?? count(),
      committedAtMs: edges.at(-round) ?? count(),
      writerEpochId,
    };
    writeState(connection, state);
    expect(readState(connection)).toEqual(state);
    const image = reader.read(1, 1)[0]!.images.find(({ page }) => page === stateRootPage(connection))!;
    expect(decodeStatePage(image.bytes)).toEqual(state);
  }
  reader.close();
  connection.close();
});

test("the writer epoch is the caller's own copy, also of a Buffer", () => {
  const connection = newDatabase();
  writeState(connection, { txid: 1, committedAtMs: 1, writerEpochId: new Uint8Array(16).fill(7) });
  const page = Buffer.from(statePage(connection));
  const { writerEpochId } = decodeStatePage(page);
  page.fill(0);
  expect(writerEpochId).toEqual(new Uint8Array(16).fill(7));
  connection.close();
});

test("the state page stays where it is and a leaf, whatever else the database holds", () => {
  const connection = newDatabase();
  const root = stateRootPage(connection);
  connection.exec("CREATE TABLE t (v BLOB)");
  for (let row = 0; row < 100; row++) connection.run("INSERT INTO t VALUES (?)", Buffer.alloc(3_000, row));
  connection.exec("DROP TABLE t");
  writeState(connection, { txid: 5, committedAtMs: 6, writerEpochId: undefined });
  expect(stateRootPage(connection)).toBe(root);
  const { path } = connection;
  connection.close();
  expect(decodeStatePage(readFileSync(path).subarray((root - 1) * 4096, root * 4096))).toEqual({
    txid: 5,
    committedAtMs: 6,
    writerEpoch: undefined,
  });
});

describe("what is no state page is refused as corrupt", () => {
  const refusal = (act: () => unknown): unknown => {
    try {
      return act();
    } catch (error) {
      return error;
    }
  };
  const corrupt = (page: Uint8Array): void => {
    const error = refusal(() => decodeStatePage(page));
    expect(error).toBeInstanceOf(StoreError);
    expect(error).toMatchObject({ kind: "corrupt" });
  };

  test("other pages of the database, nothing, and a page cut short", () => {
    const connection = newDatabase();
    connection.exec(
      "CREATE TABLE one (id INTEGER PRIMARY KEY, a, b, c, d, e); INSERT INTO one VALUES (1, 1, 1, 1, NULL, NULL)",
    );
    connection.exec(
      "CREATE TABLE real (id INTEGER PRIMARY KEY, a, b, c, d); INSERT INTO real VALUES (1, 1, 0.5, 1, NULL)",
    );
    const root = stateRootPage(connection);
    const page = statePage(connection);
    const { path } = connection;
    connection.close();
    const file = readFileSync(path);
    for (let number = 1; number <= file.length / 4096; number++)
      if (number !== root) corrupt(file.subarray((number - 1) * 4096, number * 4096));
    for (const bytes of [new Uint8Array(0), new Uint8Array(4096), page.subarray(0, 4095), page.subarray(0, 9)])
      corrupt(bytes);
  });

  test("a row of another format, which both ways of reading name", () => {
    const connection = newDatabase();
    connection.run("UPDATE __service_state SET format = 99");
    const message = expect.stringContaining("99");
    expect(refusal(() => decodeStatePage(statePage(connection)))).toMatchObject({ kind: "misconfigured", message });
    expect(refusal(() => readState(connection))).toMatchObject({ kind: "misconfigured", message });
    connection.close();
  });

  test("numbers below 0 or beyond 2^53, and writer epochs of another length", () => {
    const connection = newDatabase();
    for (const value of [-1n, -(2n ** 40n), 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      connection.run("UPDATE __service_state SET txid = ?", value);
      corrupt(statePage(connection));
      expect(refusal(() => readState(connection))).toMatchObject({ kind: "corrupt" });
    }
    expect(() => connection.run("UPDATE __service_state SET txid = 1, tenure = ?", new Uint8Array(15))).toThrow(
      "CHECK",
    );
    connection.close();
  });

  test("a row that is not the only one, not row 1, of another kind of page, or does not fill its cell", () => {
    const connection = newDatabase();
    const shaped = ["two", "second"];
    for (const name of shaped)
      connection.exec(`CREATE TABLE ${name} (id INTEGER PRIMARY KEY, format, txid, committed_at, writer epoch)`);
    connection.exec(
      "INSERT INTO two VALUES (1, 1, 5, 6, NULL), (2, 1, 5, 6, NULL); INSERT INTO second VALUES (2, 1, 5, 6, NULL)",
    );
    writeState(connection, { txid: 100, committedAtMs: 100, writerEpochId: new Uint8Array(16).fill(7) });
    const page = statePage(connection);
    const roots = shaped.map(
      (name) =>
        connection.get<{ rootpage: number }>("SELECT rootpage FROM sqlite_schema WHERE name = ?", name)!.rootpage,
    );
    const { path } = connection;
    connection.close();
    const file = readFileSync(path);
    for (const root of roots) corrupt(file.subarray((root - 1) * 4096, root * 4096));
    const cell = page[8]! * 256 + page[9]!;
    // Lengths of payload and header, and the types of the id, the format, the two numbers, writer epoch and changes.
    expect([...page.subarray(cell, cell + 9)]).toEqual([26, 1, 7, 0, 1, 1, 1, 44, 0]);
    for (const type of [2, 5, 10]) corrupt(page.with(0, type));
    corrupt(page.with(4, 0));
    corrupt(page.with(cell + 1, 2));
    for (const type of [0, 42, 46, 45, 7, 10]) corrupt(page.with(cell + 7, type));
    expect(refusal(() => decodeStatePage(page.with(cell + 7, 46)))).toMatchObject({
      message: expect.stringContaining("ends within a value"),
    });
  });

  test("any byte of the page changed gives another state or a refusal, never another fault", () => {
    const connection = newDatabase();
    writeState(connection, {
      txid: 2 ** 50,
      committedAtMs: 1_700_000_000_000,
      writerEpochId: new Uint8Array(16).fill(7),
    });
    const page = statePage(connection);
    let refused = 0;
    for (let at = 0; at < page.length; at++) {
      for (const flip of [1, 0x40, 0x80, 0xff]) {
        const changed = page.slice();
        changed[at]! ^= flip;
        const outcome = refusal(() => decodeStatePage(changed));
        if (outcome instanceof Error) {
          expect(outcome).toBeInstanceOf(StoreError);
          refused++;
        }
      }
    }
    expect(refused).toBeGreaterThan(40);
    connection.close();
  });
});
