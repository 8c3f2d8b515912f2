/** A file of as many pages as a database may have. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { noRoom } from "../../../src/engine/database/refusals.ts";
import { Connection } from "../../../src/sqlite/connection/connection.ts";
import { isDiskFull, runGroup } from "../../../src/sqlite/group.ts";
import { temporaryDirectory } from "../../support/temporary.ts";

test("takes no more, says that the database is full, and takes writes again after a deletion", () => {
  const connection = new Connection(join(temporaryDirectory(), "full.db"), { readonly: false, pageCacheKiB: 1024 });
  expect(connection.raw.pragma("max_page_count", { simple: true })).toBe(limits.databasePagesMax);
  expect(connection.isNearlyFull).toBe(false);
  connection.exec("CREATE TABLE t (n INTEGER PRIMARY KEY, body TEXT)");
  // As if it had grown to all that there may be.
  connection.raw.pragma("max_page_count = 100");
  const put = (n: number): unknown =>
    runGroup(connection, [() => connection.run("INSERT INTO t VALUES (?, ?)", n, "x".repeat(40_000))], () => {});
  let failure: unknown;
  let rows = 0;
  for (; failure === undefined && rows < 100; rows++) {
    try {
      put(rows);
    } catch (error) {
      failure = error;
    }
  }
  expect(rows).toBeGreaterThan(5);
  expect(isDiskFull(failure)).toBe(true);
  expect(noRoom(connection.isNearlyFull)).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("delete something first") as string,
  });
  expect(noRoom(false)).toMatchObject({ code: "unavailable" });
  runGroup(connection, [() => connection.run("DELETE FROM t WHERE n < 3")], () => {});
  put(1_000);
  connection.close();
});
