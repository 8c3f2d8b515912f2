/** `palimpsest restore` against the object storage of a node that runs or is gone. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { restore, restoreCommand, type RestoreFlags } from "../../src/server/cli/restore-command.ts";
import { segmentKey } from "../../src/format/keys/object-keys.ts";
import { type Run, spawned } from "../support/command-runs.ts";
import { startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** The command in this process, which begins sooner. */
async function run(...flags: string[]): Promise<Run> {
  const parsed = restoreCommand().parse(flags, { from: "user" }).opts<RestoreFlags>();
  let [out, error] = ["", ""];
  const code = await restore(
    {
      env: {},
      stdout: { write: (text) => (out += text) },
      stderr: { write: (text) => (error += text) },
      signal: new AbortController().signal,
    },
    parsed,
  );
  return { code, out, error };
}

/** The rows of a restored file, if SQLite finds nothing wrong with it; the file needs no log, and can be written. */
function readRows(path: string): unknown[] {
  const database = new Database(path);
  try {
    expect(database.pragma("integrity_check", { simple: true })).toBe("ok");
    expect(database.pragma("journal_mode", { simple: true })).toBe("delete");
    database.exec("CREATE TABLE mine (n)");
    return database.prepare("SELECT n FROM t ORDER BY n").pluck().all();
  } finally {
    database.close();
  }
}

interface Stored {
  readonly service: Service;
  readonly db: string;
  readonly store: string;
  readonly directory: string;
  /** Writes a row, ships it and gives its transaction id. */
  row(n: number, branch?: string): Promise<number>;
}

/** A node with one database of one table. */
async function stored(): Promise<Stored> {
  const directory = temporaryDirectory();
  // What a node makes ahead would come to be in the midst.
  const service = await startService({ SERVICE_SPARE_DATABASES: "0" }, directory);
  const db = await service.database();
  const sql = (branch: string, q: string): Promise<{ status: number; headers: Headers }> =>
    service.call("POST", `/v1/db/${db}${branch}/sql`, { stmts: [{ q }] }, { "service-durability": "durable" });
  expect((await sql("", "CREATE TABLE t (n)")).status).toBe(200);
  return {
    service,
    db,
    directory,
    store: `file://${join(directory, "objects")}`,
    async row(n, branch = "") {
      const answer = await sql(branch, `INSERT INTO t VALUES (${n})`);
      expect(answer.status).toBe(200);
      return Number(answer.headers.get("service-txid"));
    },
  };
}

describe("palimpsest restore", () => {
  test("F78: rebuilds the newest state, a txid, a checkpoint, another branch, beside a running node", async () => {
    const { service, db, store, row, directory } = await stored();
    try {
      const first = await row(1);
      expect((await service.call("POST", `/v1/db/${db}/branches/main/checkpoint`, { name: "one" })).status).toBe(200);
      await row(2);
      expect((await service.call("POST", `/v1/db/${db}/branches`, { name: "side" })).status).toBe(201);
      await row(3, "@side");
      await row(4);
      const before = readdirSync(join(directory, "db"), { recursive: true });
      for (const [flags, rows] of [
        [[], [1, 2, 4]],
        [["--at", String(first)], [1]],
        [["--at", "one"], [1]],
        [
          ["--branch", "side"],
          [1, 2, 3],
        ],
      ] as const) {
        const out = join(temporaryDirectory(), "out.db");
        const done = await run("--object-store", store, "--database", db, "--out", out, ...flags);
        expect(done, done.error).toMatchObject({ code: 0 });
        expect(done.out).toMatch(new RegExp(`^restored ${db}@\\w+ at transaction id \\d+: \\d+ pages, \\d+ bytes in `));
        expect(done.error).toContain("100 % of");
        expect(readRows(out)).toEqual(rows);
      }
      expect(readdirSync(join(directory, "db"), { recursive: true })).toEqual(before);
    } finally {
      await service.close();
    }
  });

  test("restores by identity from objects alone, and says what it cannot do", async () => {
    const { service, db, store, row, directory } = await stored();
    await row(1);
    await service.close();
    rmSync(join(directory, "db"), { recursive: true });
    const [uuid] = readdirSync(join(directory, "objects", "db"));
    const folder = temporaryDirectory();
    const out = join(folder, "out.db");
    expect(await spawned(["restore", "--object-store", store, "--uuid", uuid!, "--out", out])).toMatchObject({
      code: 0,
    });
    expect(readRows(out)).toEqual([1]);

    const fresh = join(folder, "fresh.db");
    for (const [flags, code, words] of [
      [["--database", db, "--out", out], 2, "exists; the restored file must be a new one"],
      [["--out", fresh], 2, "give --database or --uuid"],
      [["--database", "nobody", "--out", fresh], 1, "there is no database nobody"],
      [["--database", db, "--branch", "none", "--out", fresh], 1, "has no branch none"],
      [["--database", db, "--at", "never", "--out", fresh], 1, "checkpoint never does not exist"],
      [["--database", db, "--at", "999999", "--out", fresh], 1, "cannot be restored"],
    ] as const) {
      const done = await run("--object-store", store, ...flags);
      expect(done.error).toContain(words);
      expect(done.code).toBe(code);
    }
    expect(await run("--object-store", `file://${folder}/nothing`, "--database", db, "--out", fresh)).toMatchObject({
      code: 2,
    });
    expect(existsSync(join(folder, "nothing"))).toBe(false);
    const both = await spawned(["restore", "--object-store", store, "--database", db, "--uuid", uuid!, "--out", fresh]);
    expect(both.error).toContain("cannot be used with");
    expect(both.code).toBe(2);
    expect(readdirSync(folder)).toEqual(["out.db"]);
  });

  test("F36 F37: objects that are rotten or gone give an error that names one, and no file", async () => {
    const { service, db, store, row, directory } = await stored();
    await row(1);
    await service.close();
    const [uuid] = readdirSync(join(directory, "objects", "db"));
    const pool = join(directory, "objects", segmentKey(uuid!, ""));
    const folder = temporaryDirectory();
    for (const id of readdirSync(pool)) {
      const version = join(pool, id, readdirSync(join(pool, id))[0]!);
      const bytes = readFileSync(version);
      bytes[bytes.length - 9]! ^= 1;
      writeFileSync(version, bytes);
    }
    const rotten = await run("--object-store", store, "--database", db, "--out", join(folder, "out.db"));
    expect(rotten.code).toBe(1);
    expect(rotten.error).toMatch(/object main-1-\w+ \(transaction ids \d+ to \d+\) is not what was written/);
    rmSync(pool, { recursive: true });
    const gone = await run("--object-store", store, "--database", db, "--out", join(folder, "out.db"));
    expect(gone.error).toMatch(/object main-1-\w+ \(transaction ids \d+ to \d+\) is missing/);
    expect(readdirSync(folder)).toEqual([]);
  });
});
