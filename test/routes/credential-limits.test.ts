/** What one credential may take of a node's data plane, and that it takes nothing of the others. */
import { expect, onTestFinished, test } from "vitest";
import { bearer, platformKey } from "../support/credentials.ts";
import { startGuarded, type Guarded } from "../support/guarded-service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

async function start(variables: Record<string, string>): Promise<Guarded> {
  const node = await startGuarded(variables);
  onTestFinished(() => node.service.close());
  return node;
}

test.each(wireNames)(
  "over %s a rate is one credential's own, and says when to come back; the control plane has its own",
  async (name) => {
    const node = await start({ SERVICE_CREDENTIAL_RATE: "5" });
    const tokens = [await node.mint({ ns: "acme" }, "read"), await node.mint({ ns: "acme" }, "read")] as const;
    const recall = (token: string): Promise<Reply> =>
      node.service.wire(name).call("MemoryService.Recall", { ns: "acme", profile: "p", query: "x" }, bearer(token));
    const replies = await Promise.all(Array.from({ length: 40 }, () => recall(tokens[0])));
    const refused = replies.filter(({ code }) => code !== "ok");
    expect(refused.length).toBeGreaterThanOrEqual(20);
    for (const reply of refused)
      expect(reply).toMatchObject({
        code: "overloaded",
        message: expect.stringContaining("of this credential a second") as unknown,
        retryAfterSecs: 1,
      });
    expect((await recall(tokens[1])).code).toBe("ok");
    expect((await node.service.wire(name).call("ControlService.ListDatabases", {}, bearer(platformKey))).code).toBe(
      "ok",
    );
  },
);

test("no more calls of one credential run at once than it may have; those of others go on", async () => {
  const node = await start({ SERVICE_CREDENTIAL_CONCURRENCY: "2", SERVICE_REQUEST_TIMEOUT: "12" });
  const db = await node.create("d");
  const [first, second] = [await node.mint({ db }, "write"), await node.mint({ db }, "write")];
  const slow = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";
  const sql = (token: string, q: string): Promise<{ status: number; json: any }> =>
    node.call(token, "POST", `/v1/db/${db}/sql`, { stmts: [{ q }] });
  const look = async (token: string): Promise<number> => (await node.call(token, "GET", `/v1/db/${db}/kv/n`)).status;
  expect([await look(first), await look(second)]).toEqual([200, 200]);
  const running = [sql(first, slow), sql(first, slow)];
  await expect.poll(() => look(first), { timeout: 8_000 }).toBe(429);
  expect(await look(second)).toBe(200);
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([408, 408]);
  expect(await look(first)).toBe(200);
});
