/** Answers of user SQL that are larger than a wire carries in one: told before anything is written. */
import { expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Wire } from "../support/wires.ts";

const service = useService();
const numbers = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 10000)";
const columns = (count: number): string => Array.from({ length: count }, (_, n) => `n + ${n} AS c${n}`).join(", ");

async function prepared(wire: Wire): Promise<string> {
  const db = await service().database();
  await ok(wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "CREATE TABLE t (n)" }] }));
  return db;
}

for (const name of wireNames) {
  test(
    `${name}: a batch whose answer the wire cannot carry is refused before it is committed`,
    { timeout: 60_000 },
    async () => {
      const wire = service().wire(name);
      const db = await prepared(wire);
      const run = (q: string) => wire.call("DataService.ExecuteSql", { db, stmts: [{ q }] });
      const many = await run(`INSERT INTO t ${numbers} SELECT n FROM c RETURNING ${columns(20)}`);
      const count = async (): Promise<unknown> => (await ok(run("SELECT count(*) FROM t"))).body.results[0].rows[0][0];
      if (name === "rest") {
        expect(many.body.results[0].rows).toHaveLength(10_000);
        expect(await count()).toBe(10_000);
        return;
      }
      expect(many).toMatchObject({ code: "invalid_request", message: expect.stringContaining("over REST") });
      expect(await count()).toBe(0);
      expect(
        (await ok(run(`INSERT INTO t ${numbers} SELECT n FROM c RETURNING ${columns(18)}`))).body.results[0].rows,
      ).toHaveLength(10_000);
      expect(await count()).toBe(10_000);
      // One value, whatever it holds.
      const text = `[{,"\\ `.repeat(100_000);
      expect(
        (await ok(wire.call("DataService.ExecuteSql", { db, stmts: [{ q: "SELECT ?", params: [text] }] }))).body
          .results[0].rows[0][0],
      ).toBe(text);
    },
  );
}
