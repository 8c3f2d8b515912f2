/** Hostile SQL through the wires: it ends when its time is over, and meanwhile everybody else is served. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ok, startService, useService } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const MiB = 1024 * 1024;
const timeoutSecs = 4;
const service = useService({ SERVICE_REQUEST_TIMEOUT: String(timeoutSecs) });

const endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)";
const hostile: readonly (readonly [string, string])[] = [
  ["an endless count", `${endless} SELECT count(*) FROM c`],
  ["a giant sort", `${endless} SELECT n FROM c ORDER BY n % 1000003, hex(n)`],
];
const cases = test.each(hostile.flatMap(([what, q]) => wireNames.map((wire) => [what, wire, q] as const)));

function sql(wire: Wire, db: string, q: string): Promise<Reply> {
  return wire.call("DataService.ExecuteSql", { db, stmts: [{ q }] });
}

interface Neighbours {
  readonly wire: Wire;
  /** The database that is attacked. */
  readonly db: string;
  readonly other: string;
}

async function prepare(wire: Wire): Promise<Neighbours> {
  const at = service().profile();
  await ok(
    wire.call("MemoryService.Ingest", {
      ...at,
      memories: [{ type: "fact", summary: "the lighthouse still shines", content: null }],
    }),
  );
  const db = `${at.ns}--${at.profile}`;
  const other = await service().database();
  for (const name of [db, other]) await ok(sql(wire, name, "CREATE TABLE t AS SELECT 7 AS n"));
  return { wire, db, other };
}

/** Every kind of request, on the attacked database and on another. */
async function useEverything({ wire, db, other }: Neighbours, round: number, sqlOn: readonly string[]): Promise<void> {
  const [ns, profile] = db.split("--");
  for (const name of [db, other]) {
    await ok(wire.call("DataService.PutValue", { db: name, ns: "n", key: "k", value: Buffer.from(`v${round}`) }));
    expect((await ok(wire.call("DataService.GetValue", { db: name, ns: "n", key: "k" }))).body.toString()).toBe(
      `v${round}`,
    );
    await ok(wire.call("DataService.InsertDocs", { db: name, coll: "c", docs: [{ round }] }));
  }
  for (const name of sqlOn) {
    expect((await ok(sql(wire, name, "SELECT n FROM t"))).body.results[0].rows).toEqual([[7]]);
    await ok(sql(wire, name, `UPDATE t SET n = 7 + 0 * ${round}`));
  }
  expect(
    (await ok(wire.call("MemoryService.Recall", { ns, profile, query: "lighthouse" }))).body.memories,
  ).toHaveLength(1);
}

/**
 * Attacks, uses the node as long as the attack lasts, and gives what came of both and how often the node was used
 * meanwhile.
 */
async function attack(
  neighbours: Neighbours,
  statements: readonly string[],
  sqlOn: readonly string[],
): Promise<{ replies: Reply[]; rounds: number; rssGrowth: number }> {
  const rssBefore = process.memoryUsage.rss();
  let rssMost = rssBefore;
  let lasting = true;
  const attacks = Promise.all(statements.map((q) => sql(neighbours.wire, neighbours.db, q))).finally(
    () => (lasting = false),
  );
  let rounds = 0;
  while (lasting) {
    await useEverything(neighbours, rounds++, sqlOn);
    rssMost = Math.max(rssMost, process.memoryUsage.rss());
  }
  return { replies: await attacks, rounds, rssGrowth: rssMost - rssBefore };
}

cases("%s over %s ends in request_timeout while everything else is answered", async (_, name, q) => {
  const neighbours = await prepare(service().wire(name));
  const { replies, rounds, rssGrowth } = await attack(neighbours, [q], [neighbours.db, neighbours.other]);
  expect(replies.map(({ code }) => code)).toEqual(["request_timeout"]);
  expect(replies[0]!.txid).toBeGreaterThan(0);
  // Many rounds went by: nobody waited for the attack to end.
  expect(rounds).toBeGreaterThan(5);
  expect(rssGrowth).toBeLessThan(400 * MiB);
  await useEverything(neighbours, rounds, [neighbours.db, neighbours.other]);
});

test("two hostile statements at once hold up no other database, and no key-value or recall of their own", async () => {
  const neighbours = await prepare(service().wire("rest"));
  const statements = hostile.map(([, q]) => q);
  const { replies, rounds, rssGrowth } = await attack(
    neighbours,
    [...statements, ...statements],
    [neighbours.db, neighbours.other],
  );
  expect(replies.map(({ code }) => code)).toEqual(Array.from({ length: 4 }, () => "request_timeout"));
  expect(rounds).toBeGreaterThan(5);
  expect(rssGrowth).toBeLessThan(400 * MiB);
  await useEverything(neighbours, rounds, [neighbours.db, neighbours.other]);
});

test("hostile statements of two databases at once leave key-value and recall to everybody", async () => {
  const wire = service().wire("rest");
  const [one, two] = [await prepare(wire), await prepare(wire)];
  const [first, second] = await Promise.all([
    attack(one, [hostile[0]![1]], [one.db]),
    attack(two, [hostile[1]![1]], [two.db]),
  ]);
  for (const { replies, rounds } of [first!, second!]) {
    expect(replies.map(({ code }) => code)).toEqual(["request_timeout"]);
    expect(rounds).toBeGreaterThan(5);
  }
  await useEverything(one, 0, [one.db, one.other, two.db]);
});

test("a write that takes too long is told how long it may take", async () => {
  const patient = await startService();
  onTestFinished(() => patient.close());
  const db = await patient.database();
  const { status, json } = await patient.call("POST", `/v1/db/${db}/sql`, {
    stmts: [
      { q: "CREATE TABLE t (n)" },
      { q: "INSERT INTO t WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c" },
    ],
  });
  expect([status, json.error]).toEqual([408, expect.stringContaining("a batch that may write has 5 s")]);
});

test("a hostile write ends in request_timeout within its own short budget and leaves nothing", async () => {
  const neighbours = await prepare(service().wire("rest"));
  const { wire, db } = neighbours;
  // It computes and stores nothing: one that stores would meet the bound of a transaction first.
  expect((await sql(wire, db, `INSERT INTO t ${endless} SELECT count(*) FROM c`)).code).toBe("request_timeout");
  expect((await ok(sql(wire, db, "SELECT n FROM t"))).body.results[0].rows).toEqual([[7]]);
  await useEverything(neighbours, 0, [db, neighbours.other]);
});

test("statements that grow without bound are refused, and the scratch directory is empty afterwards", async () => {
  const neighbours = await prepare(service().wire("rest"));
  const { wire, db } = neighbours;
  for (const q of [
    "SELECT randomblob(1000000000)",
    "SELECT zeroblob(2000000000)",
    "SELECT printf('%.*c', 1000000000, 'x')",
    `${endless} SELECT group_concat(hex(randomblob(100000))) FROM c`,
    "SELECT replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000)))",
    `SELECT 1${" + 1".repeat(2000)}`,
  ]) {
    expect(["invalid_request", "request_timeout"], q).toContain((await sql(wire, db, q)).code);
  }
  // An engine thread keeps a folder of its own there; what must not stay is a file.
  const left = readdirSync(join(service().directory, "scratch"), { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => !entry.isDirectory())).toEqual([]);
  await useEverything(neighbours, 0, [db, neighbours.other]);
});
