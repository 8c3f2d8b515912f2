/** What stands already gets vectors: of an embedder that came later, and of another model by a reembed. */
import { expect, onTestFinished, test } from "vitest";
import { palimpsest } from "../support/command-runs.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { computeVector } from "../support/model-server.ts";
import { ok, startService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { embedRetiredRowsMax } from "../../src/service/memory/reembed.ts";
import { model, nodeWith, Profile, sent, useEmbeddingNode, variables, wire } from "../support/embedding-node.ts";

useEmbeddingNode();

test("what was written before the embedder gets vectors once the database is used, turns too", async () => {
  const directory = temporaryDirectory();
  const before = await startService({}, directory);
  const p = new Profile(before.wire("rest"));
  await p.ingest(...Array.from({ length: 150 }, (_, at) => ({ summary: `Note ${at} on beekeeping` })), {
    type: "task",
    summary: "not this one",
  });
  await p.append("s-1", "the goldfinch sings at dawn");
  await before.close();
  p.wire = (await nodeWith({}, directory)).wire("rest");
  await p.recall({ query: "beekeeping" });
  await expect
    .poll(
      async () =>
        (await p.recall({ query: "on beekeeping note", k: 1000, min_score: { vector: 0.5 } })).filter((found) =>
          found.endsWith("+vector"),
        ).length,
      { timeout: 20_000 },
    )
    .toBe(150);
  await expect
    .poll(
      async () =>
        (await ok(p.wire.call("MemoryService.Recall", { ...p.at, query: "goldfinch dawn", include_turns: true }))).body
          .turns.length,
      { timeout: 20_000 },
    )
    .toBe(1);
  expect(sent()).not.toContain("not this one");
});

test("another model of the same dimension is not mixed in before a reembed, which may be interrupted", async () => {
  // An interrupted reembed is begun again.
  const directory = temporaryDirectory();
  const before = await startService(variables({ SERVICE_EMBED_MODEL: "model-a" }), directory);
  const p = new Profile(before.wire("rest"));
  await p.ingest(...Array.from({ length: 150 }, (_, at) => ({ summary: `Note ${at} on beekeeping` })));
  for (const at of [1, 2, 3]) await p.append("s-1", `goldfinch ${at}`);
  await before.close();
  const node = await nodeWith({ SERVICE_EMBED_MODEL: "model-b" }, directory);
  p.wire = node.wire("rest");
  model.requests.length = 0;
  expect(await p.ingest({ summary: "a new one" })).toEqual(["skipped_model"]);
  expect(await p.recall({ query: "a new one", k: 1, include_turns: true })).toEqual(["a new one: keyword"]);
  for (const name of wireNames) {
    const { body } = await ok(node.wire(name).call("MemoryService.Recall", { ...p.at, query: "a new one" }));
    expect(body.embedding, name).toBe("skipped_model");
  }
  const appended = await p.append("s-1", "goldfinch 4");
  expect(appended.body.embedding).toBe("skipped_model");
  expect(model.requests).toEqual([]);

  // The embedder fails in the middle.
  const first = await ok(p.wire.call("MemoryService.Reembed", p.at));
  expect(first.body.next_cursor).toBe("memory-0");
  const second = await ok(p.wire.call("MemoryService.Reembed", { ...p.at, cursor: first.body.next_cursor }));
  model.misbehave = () => ({ kind: "status", status: 401 });
  expect(
    (await p.wire.call("MemoryService.Reembed", { ...p.at, cursor: second.body.next_cursor ?? "memory-0" })).code,
  ).toBe("unavailable");
  model.misbehave = undefined;
  await p.reembed();
  expect(new Set(model.requests.map(({ body }) => body.model))).toEqual(new Set(["model-b"]));
  expect(
    (await p.recall({ query: "on beekeeping note", k: 1000, min_score: { vector: 0.5 } })).filter((found) =>
      found.endsWith("+vector"),
    ),
  ).toHaveLength(150);
  expect(
    (await ok(p.wire.call("MemoryService.Recall", { ...p.at, query: "goldfinch", include_turns: true }))).body.turns,
  ).toHaveLength(4);
  const { body: mended } = await ok(p.wire.call("MemoryService.Recall", { ...p.at, query: "a new one" }));
  expect(mended.embedding).toBeUndefined();
  // All is done: nothing is sent again.
  model.requests.length = 0;
  expect(await p.reembed()).toMatchObject({ embedded: 0, left: 0 });
  expect(model.requests).toEqual([]);
  expect(await p.ingest({ summary: "the next" })).toEqual([undefined]);
});

test("a reembed is of one branch: its vectors are its own", async () => {
  const p = new Profile(wire());
  await p.ingest({ summary: "Brought along", embedding: [1, 2, 3] });
  await ok(wire().call("BranchService.CreateBranch", { db: `${p.at.ns}--p`, name: "trial" }));
  await p.reembed({ branch: "trial" });
  expect(await p.recall({ query: "brought", branch: "trial" })).toEqual(["Brought along: keyword+vector"]);
  expect(await p.recall({ embedding: [1, 2, 3] })).toEqual(["Brought along: vector"]);
  expect(await p.recall({ query: "brought" })).toEqual(["Brought along: keyword"]);
});

test("a reembed: unconfigured without embedder, not found without profile, refused with another cursor", async () => {
  const bare = await startService();
  onTestFinished(() => bare.close());
  expect((await bare.wire("rest").call("MemoryService.Reembed", { ns: "a", profile: "b" })).code).toBe("unconfigured");
  expect((await wire().call("MemoryService.Reembed", { ns: "nobody", profile: "here" })).code).toBe(
    "database_not_found",
  );
  const p = new Profile(wire());
  await p.ingest({ summary: "seed" });
  for (const cursor of ["", "memory", "memory--1", "other-3", "memory-1e3"])
    expect((await wire().call("MemoryService.Reembed", { ...p.at, cursor })).code, cursor).toBe("invalid_request");
});

test("an erased or forgotten memory leaves no vector, in a space that is being given up neither", async () => {
  const directory = temporaryDirectory();
  const before = await startService(variables({ SERVICE_EMBED_MODEL: "model-a" }), directory);
  const p = new Profile(before.wire("rest"));
  await p.ingest(...Array.from({ length: embedRetiredRowsMax + 5 }, (_, at) => ({ summary: `n${at}` })));
  await before.close();
  p.wire = (await nodeWith({ SERVICE_EMBED_MODEL: "model-b" }, directory)).wire("rest");
  const step = await ok(p.wire.call("MemoryService.Reembed", p.at));
  expect(step.body).toMatchObject({ embedded: 0, next_cursor: "memory-0" });
  const found = async (query: string): Promise<string[]> =>
    (await ok(p.wire.call("MemoryService.Recall", { ...p.at, query }))).body.memories.map(
      ({ id: of }: { id: string }) => of,
    );
  const { body } = await ok(p.wire.call("MemoryService.Recall", { ...p.at, query: `n${embedRetiredRowsMax + 2}` }));
  const [{ id }] = body.memories;
  await ok(p.wire.call("MemoryService.ForgetMemory", { ...p.at, id }));
  const isErased = await ok(p.wire.call("MemoryService.CreateErasure", { ...p.at, memory_id: (await found("n0"))[0] }));
  expect(isErased.body.status).toBe("pending");
  await p.reembed();
  const { body: all } = await ok(
    p.wire.call("MemoryService.Recall", {
      ...p.at,
      embedding: computeVector("n0", model.dimension),
      min_score: { vector: 0.9 },
      include_superseded: true,
    }),
  );
  expect(all.memories.map(({ summary }: { summary: string }) => summary)).not.toContain("n0");
  expect(
    new Set(
      model.requests.filter((request) => request.body.model === "model-b").flatMap(({ body: { input } }) => input),
    ).size,
  ).toBeGreaterThanOrEqual(embedRetiredRowsMax + 3);
});

test("palimpsest reembed goes through all steps, with an admin token, and says how far it has come", async () => {
  const guarded = await startGuarded(variables());
  onTestFinished(() => guarded.service.close());
  const token = await guarded.mint({ ns: "acme" }, "admin");
  const memories = Array.from({ length: 70 }, (_, at) => ({
    type: "event",
    summary: `bees ${at}`,
    content: null,
    embedding: [1, at],
  }));
  expect((await guarded.call(token, "POST", "/v1/memory/acme/alice/memories", { memories })).status).toBe(201);
  const words = ["reembed", "--address", guarded.service.address, "--database", "acme--alice"];
  const { code, error } = await palimpsest(words, { PALIMPSEST_TOKEN: token });
  expect(error).toMatch(/palimpsest: \d+ embedded; done\n$/);
  expect(code).toBe(0);
  const recalled = await guarded.call(token, "POST", "/v1/memory/acme/alice/recall", { query: "bees", k: 100 });
  expect(
    recalled.json.memories.filter(({ channels }: { channels: string[] }) => channels.includes("vector")),
  ).toHaveLength(70);
  expect(await palimpsest([...words, "--branch", "nowhere"], { PALIMPSEST_TOKEN: token })).toMatchObject({
    code: 1,
    error: expect.stringContaining("branch_not_found"),
  });
  expect(await palimpsest(words, { PALIMPSEST_TOKEN: await guarded.mint({ ns: "acme" }, "write") })).toMatchObject({
    code: 1,
    error: expect.stringContaining("forbidden"),
  });
  expect(await palimpsest(["reembed", "--address", guarded.service.address, "--database", "plain"])).toMatchObject({
    code: 2,
    error: expect.stringContaining("namespace--profile"),
  });
});
