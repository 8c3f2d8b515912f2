/** The floor of the node's embedder, set by what a profile holds: over the wires, and by the command. */
import { expect, onTestFinished, test } from "vitest";
import { palimpsest } from "../support/command-runs.ts";
import { model, Profile, service, useEmbeddingNode, variables, wire } from "../support/embedding-node.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { ok, startService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

useEmbeddingNode();

/** Summaries that have words in common, so that the embedder puts all of them near to each other. */
const summaries = Array.from(
  { length: 40 },
  (_, at) => `the weekly note of team number ${at} says word${at} word${at}`,
);

async function filled(p: Profile): Promise<Profile> {
  await p.ingest(...summaries.map((summary) => ({ summary })));
  return p;
}

const calibrate = (p: Profile, request: object = {}) => p.wire.call("MemoryService.Calibrate", { ...p.at, ...request });
const answer = async (p: Profile, request?: object): Promise<any> => (await ok(calibrate(p, request))).body;
/** How many a question finds by vector alone that has little but the common words. */
const found = async (p: Profile): Promise<number> =>
  (await p.recall({ query: "the weekly note of a submarine says zebra", min_score: { keyword: 1 }, k: 100 })).length;

test.each(wireNames)("over %s a floor is found, set, used, and replaced", async (name) => {
  const p = await filled(new Profile(service.wire(name)));
  const before = await found(p);
  const measured = await answer(p, { dry_run: true, seed: 7 });
  expect(measured).toEqual({
    embedder: "openai/text-embedding-3-small",
    floor_before: 0.2,
    floor: expect.any(Number),
    seed: 7,
    memories: 40,
    unrelated: {
      pairs: 780,
      median: expect.any(Number),
      highest: expect.any(Number),
      share_before: 1,
      share: expect.any(Number),
    },
    related: { pairs: 0 },
    txid: expect.any(Number),
  });
  expect(measured.unrelated.share).toBeLessThanOrEqual(0.02);
  expect(await found(p)).toBe(before);
  const set = await answer(p, { seed: 7 });
  expect(set).toEqual({ ...measured, txid: measured.txid + 1 });
  expect(before).toBe(40);
  expect(await found(p)).toBeLessThan(5);
  expect(await p.recall({ query: summaries[3]!, k: 1 })).toEqual([`${summaries[3]}: keyword+vector`]);
  const { body } = await ok(
    p.wire.call("MemoryService.Recall", {
      ...p.at,
      embedding: Array.from({ length: model.dimension }, () => 1),
      explain: true,
    }),
  );
  expect(body.near_misses[0].reasons[0].needed).toBe(set.floor);
  const again = await answer(p, { unrelated_share: 0.5, seed: 8 });
  expect(again.floor_before).toBe(set.floor);
  expect(again.floor).toBeLessThan(set.floor);
  expect(again.seed).toBe(8);
  // By chance, and told.
  expect((await answer(p, { dry_run: true })).floor_before).toBe(again.floor);
});

test("forks take the floor along, and a rewind brings the earlier one back", async () => {
  const p = await filled(new Profile(wire()));
  const db = `${p.at.ns}--p`;
  await ok(wire().call("BranchService.CreateCheckpoint", { db, branch: "main", name: "before" }));
  const { floor } = await answer(p);
  await ok(wire().call("BranchService.CreateBranch", { db, name: "trial" }));
  const held = async (branch?: string): Promise<number> =>
    (await answer(p, { dry_run: true, ...(branch !== undefined && { branch }) })).floor_before;
  expect(await held("trial")).toBe(floor);
  const other = (await answer(p, { branch: "trial", unrelated_share: 0.5 })).floor;
  expect([await held(), await held("trial")]).toEqual([floor, other]);
  await ok(wire().call("BranchService.RewindBranch", { db, branch: "main", to: "before" }));
  expect(await held()).toBe(0.2);
});

test("what cannot be calibrated is refused, and says why", async () => {
  const bare = await startService();
  onTestFinished(() => bare.close());
  expect((await bare.wire("rest").call("MemoryService.Calibrate", { ns: "a", profile: "b" })).code).toBe(
    "unconfigured",
  );
  expect((await wire().call("MemoryService.Calibrate", { ns: "nobody", profile: "here" })).code).toBe(
    "database_not_found",
  );
  const p = new Profile(wire());
  await p.ingest({ type: "task", summary: "seed" });
  expect(await calibrate(p)).toMatchObject({ code: "conflict", message: "no memory of the profile has a vector yet" });
  await p.ingest({ summary: "one" }, { summary: "two" });
  expect(await calibrate(p)).toMatchObject({
    code: "conflict",
    message: expect.stringMatching(/^the profile has 1 pairs .* at least 200 are needed$/),
  });
  for (const unrelated_share of [0, -0.1, 0.6])
    expect(await calibrate(p, { unrelated_share })).toMatchObject({
      code: "invalid_request",
      message: "unrelated_share must be a number above 0 and at most 0.5",
    });
  const callers = new Profile(wire());
  await callers.ingest({ summary: "brought along", embedding: [1, 2, 3] });
  expect(await calibrate(callers)).toMatchObject({
    code: "conflict",
    message: "the memories' vectors are brought by callers, not of openai/text-embedding-3-small: reembed first",
  });
});

test("a floor that is set is an audit event without content, a dry run is none", async () => {
  const p = await filled(new Profile(wire()));
  await p.policy({ audit: { enabled: true } });
  await answer(p, { dry_run: true });
  const { txid } = await answer(p);
  await expect.poll(async () => (await p.events("policy.update")).length).toBe(2);
  const [, event] = await p.events("policy.update");
  expect(event).toMatchObject({ action: "policy.update", resource: "embedder", profile: "p", outcome: "ok", txid });
  expect(JSON.stringify(event)).not.toContain("weekly");
});

test("palimpsest calibrate sets it with an admin token, and says what it found", async () => {
  const guarded = await startGuarded(variables());
  onTestFinished(() => guarded.service.close());
  const token = await guarded.mint({ ns: "acme" }, "admin");
  const memories = summaries.map((summary) => ({ type: "event", summary, content: null }));
  expect((await guarded.call(token, "POST", "/v1/memory/acme/alice/memories", { memories })).status).toBe(201);
  const words = ["calibrate", "--address", guarded.service.address, "--database", "acme--alice"];
  const dry = await palimpsest([...words, "--dry-run", "--seed", "9"], { PALIMPSEST_TOKEN: token });
  expect([dry.code, JSON.parse(dry.out)]).toEqual([0, expect.objectContaining({ floor_before: 0.2, seed: 9 })]);
  const { floor } = JSON.parse(dry.out);
  expect(dry.error.split("\n")).toEqual([
    "palimpsest: 40 memories with vectors of openai/text-embedding-3-small, seed 9",
    expect.stringMatching(
      /^palimpsest: 780 unrelated pairs: median 0\.\d{3}, highest 0\.\d{3}; \d\.\d % reach the floor/,
    ),
    "palimpsest: no related pairs",
    `palimpsest: floor ${floor} found, and not set; it was 0.2`,
    "",
  ]);
  const set = await palimpsest([...words, "--unrelated-share", "0.02", "--seed", "9"], { PALIMPSEST_TOKEN: token });
  expect(set.error).toContain(`palimpsest: floor ${floor} set; it was 0.2\n`);
  expect((await palimpsest(words, { PALIMPSEST_TOKEN: token })).error).toContain(`it was ${floor}\n`);
  expect(await palimpsest(words, { PALIMPSEST_TOKEN: await guarded.mint({ ns: "acme" }, "write") })).toMatchObject({
    code: 1,
    error: expect.stringContaining("forbidden"),
  });
  for (const wrong of [
    ["--unrelated-share", "0"],
    ["--unrelated-share", "half"],
    ["--unrelated-share", ""],
    ["--seed", "-1"],
  ])
    expect((await palimpsest([...words, ...wrong], { PALIMPSEST_TOKEN: token })).code, wrong.join(" ")).toBe(2);
});
