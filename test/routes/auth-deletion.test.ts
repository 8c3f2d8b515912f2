/** Tokens of a database or a profile that is deleted, and of the next one of its name. */
import { describe, expect, test } from "vitest";
import { platformKey } from "../support/credentials.ts";
import { startGuarded, type Guarded, useGuarded } from "../support/guarded-service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames } from "../support/wires.ts";

const node = useGuarded();

const onBoth = test.each(wireNames.map((name) => [name] as const));

const fact = (summary: string): object => ({ memories: [{ type: "fact", summary, content: { summary } }] });
let names = 0;

const freshNamespace = (): string => `ns${++names}`;

describe("deletion", () => {
  onBoth(
    "auth-17 over %s: old tokens write no more; the old namespace token still recalls; one minted right after works",
    async (name) => {
      const ns = freshNamespace();
      const profile = "alice";
      const old = node().over(name, await node().mint({ ns }, "admin"));
      const oldDb = node().over(name, await node().mint({ db: `${ns}--${profile}` }, "admin"));
      expect((await old("MemoryService.Ingest", { ns, profile, ...fact("first life") })).code).toBe("ok");
      expect(
        (await node().over(name, platformKey)("ControlService.DeleteDatabase", { db: `${ns}--${profile}` })).code,
      ).toBe("ok");

      const predates = {
        code: "forbidden",
        message: expect.stringMatching(/predates.*deletion.*fresh token/) as unknown,
      };
      const nobodyWrites = async (): Promise<void> => {
        for (const call of [old, oldDb]) {
          expect(await call("MemoryService.Ingest", { ns, profile, ...fact("late") })).toMatchObject(predates);
          expect(await call("MemoryService.EndSession", { ns, profile, sid: "s" })).toMatchObject(predates);
          expect(await call("BranchService.CreateBranch", { db: `${ns}--${profile}`, name: "side" })).toMatchObject(
            predates,
          );
        }
        // Nor does the old token make itself a new one.
        expect(
          await old("ControlService.MintDatabaseToken", { db: `${ns}--${profile}`, scope: "write" }),
        ).toMatchObject(predates);
      };
      await nobodyWrites();
      expect((await old("MemoryService.Recall", { ns, profile, query: "life" })).body.memories).toEqual([]);
      expect((await oldDb("DataService.ListKeys", { db: `${ns}--${profile}`, ns: "n" })).code).toBe(
        "database_not_found",
      );

      const fresh = node().over(name, await node().mint({ ns }, "write"));
      expect((await fresh("MemoryService.Ingest", { ns, profile, ...fact("second life") })).code).toBe("ok");
      await nobodyWrites();
      expect(
        await old("DataService.ExecuteSql", { db: `${ns}--${profile}`, stmts: [{ q: "CREATE TABLE t (a)" }] }),
      ).toMatchObject(predates);
      expect(
        (await old("MemoryService.Recall", { ns, profile, query: "life" })).body.memories.map(
          ({ summary }: { summary: string }) => summary,
        ),
      ).toEqual(["second life"]);
      // A per-database token is of the first life's database, and this is another one.
      expect(await oldDb("MemoryService.Recall", { ns, profile, query: "life" })).toMatchObject(predates);
      expect(
        (
          await node().over(name, await node().mint({ db: `${ns}--${profile}` }, "read"))("MemoryService.Recall", {
            ns,
            profile,
            query: "life",
          })
        ).code,
      ).toBe("ok");
      // The rest of the namespace never noticed.
      expect((await old("MemoryService.Ingest", { ns, profile: "bob", ...fact("unharmed") })).code).toBe("ok");
    },
    20_000,
  );

  test("auth-17: a restart forgets no deletion, and tokens stay good over it", async () => {
    const directory = temporaryDirectory();
    const put = (on: Guarded, token: string): Promise<number> =>
      on.call(token, "POST", "/v1/memory/acme/alice/memories", fact("x")).then(({ status }) => status);
    const first = await startGuarded({}, directory);
    const old = await first.mint({ ns: "acme" }, "write");
    expect(await put(first, old)).toBe(201);
    expect((await first.call(platformKey, "DELETE", "/v1/databases/acme--alice")).status).toBe(204);
    const current = await first.mint({ db: "acme--alice" }, "write");
    expect(await put(first, current)).toBe(201);
    await first.service.close();
    const second = await startGuarded({}, directory);
    try {
      expect([await put(second, old), await put(second, current)]).toEqual([403, 201]);
    } finally {
      await second.service.close();
    }
  });
});
