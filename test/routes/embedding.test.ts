/** Vectors that the node makes itself, over real wires and against a server that speaks the real protocols. */
import { describe, expect, test } from "vitest";
import { limits } from "../../src/base/limits.ts";
import { ok } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";
import { embedRecallMs } from "../../src/service/embedding/embedding.ts";
import { contentBytesMax } from "../../src/model/core/content.ts";
import { model, nodeWith, Profile, sent, service, useEmbeddingNode, wire } from "../support/embedding-node.ts";

useEmbeddingNode();

describe.each(wireNames)("over %s", (name) => {
  const profile = (): Profile => new Profile(service.wire(name));

  test("memory-21: a text-only ingest and recall light the vector channel; tasks are not embedded", async () => {
    const p = profile();
    expect(
      await p.ingest(
        { summary: "Ada keeps bees", content: { where: "behind the orchard" } },
        { type: "task", summary: "Order new frames" },
      ),
    ).toEqual([undefined, undefined]);
    expect(sent()).toEqual(["Ada keeps bees\nbehind the orchard"]);
    expect(await p.recall({ query: "the bees" })).toEqual(["Ada keeps bees: keyword+vector"]);
    // One word of three is not enough for the keyword channel here, but makes the vectors near.
    expect(await p.recall({ query: "orchard zebra quokka", min_score: { keyword: 0.9 } })).toEqual([
      "Ada keeps bees: vector",
    ]);
    expect(await p.recall({ query: "zebra quokka" })).toEqual([]);
    expect(await p.recall({ query: "Order new frames", types: ["task"] })).toEqual(["Order new frames: keyword"]);
  });

  test("memory-21: include_turns works with a bare query; a turn is findable as soon as appended", async () => {
    const p = profile();
    await p.ingest({ summary: "seed" });
    await p.append("s-1", "the goldfinch sings at dawn");
    await p.append("s-1", { text: "the tax return is due" });
    await p.append("s-1", 42);
    const { body } = await ok(
      p.wire.call("MemoryService.Recall", {
        ...p.at,
        query: "when does the goldfinch sing",
        include_turns: true,
        k: 1,
      }),
    );
    expect(body.turns.map(({ content }: { content: unknown }) => content)).toEqual(["the goldfinch sings at dawn"]);
    expect(sent()).not.toContain("42");
  });

  test("governance-11: a denied embedding sends nothing, is told, and stops no write or keyword recall", async () => {
    const p = profile();
    await p.policy({ ai_egress: { embed: "deny" }, audit: { enabled: true } });
    expect(await p.ingest({ summary: "Ada keeps bees" })).toEqual([undefined]);
    expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword"]);
    await p.append("s", "hello");
    expect((await p.wire.call("MemoryService.Reembed", p.at)).code).toBe("forbidden");
    expect(model.requests).toEqual([]);
    await expect
      .poll(async () =>
        (await p.events("ai.embed")).map(({ outcome, error, egress }) => [
          outcome,
          error,
          egress.input_items,
          egress.input_bytes,
          egress.output_items,
        ]),
      )
      .toEqual([
        ["denied", "forbidden", 1, 14, 0],
        ["denied", "forbidden", 1, 4, 0],
        ["denied", "forbidden", 1, 5, 0],
      ]);
  });

  test("audit-05: each embedding is told with provider, model, host and sizes, and without text", async () => {
    const p = profile();
    await p.policy({ audit: { enabled: true } });
    await p.ingest(
      { summary: "Secret gardens" },
      { summary: "Öffnung" },
      { summary: "mine", embedding: Array.from({ length: model.dimension }, () => 1) },
    );
    await expect.poll(async () => (await p.events("ai.")).length).toBe(1);
    const [event] = await p.events("ai.");
    expect(event).toMatchObject({ action: "ai.embed", outcome: "ok", profile: "p", branch: "main" });
    const { duration_ms, ...egress } = event!["egress"];
    expect(egress).toEqual({
      provider: "openai",
      model: "text-embedding-3-small",
      endpoint_host: "127.0.0.1",
      self_hosted: true,
      input_items: 2,
      input_bytes: 22,
      output_items: 2,
    });
    expect(duration_ms).toBeGreaterThanOrEqual(0);
    const text = JSON.stringify(await p.events());
    for (const secret of ["Secret gardens", "gardens", "ffnung", "key-of-the-test"]) expect(text).not.toContain(secret);
  });

  test("vectors of callers are not mixed with the node's: neither stored nor compared, and said so", async () => {
    const p = profile();
    expect(
      await p.ingest({
        summary: "Brought along",
        embedding: Array.from({ length: model.dimension }, (_, at) => at + 1),
      }),
    ).toEqual([undefined]);
    expect(await p.ingest({ summary: "Ada keeps bees" }, { type: "task", summary: "later" })).toEqual([
      "skipped_model",
      undefined,
    ]);
    expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword"]);
    expect(sent(), "nothing is made that could not be used").not.toContain("Ada keeps bees");
    expect(await p.recall({ embedding: Array.from({ length: model.dimension }, (_, at) => at + 1) })).toEqual([
      "Brought along: vector",
    ]);
    await p.reembed();
    expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword+vector"]);
    expect(await p.recall({ query: "brought", min_score: { vector: 0.3 } })).toEqual(["Brought along: keyword+vector"]);
  });

  test("an embedder that fails stops neither writes nor recalls, and what it missed is made up for", async () => {
    const p = profile();
    await p.policy({ audit: { enabled: true } });
    await p.ingest({ summary: "first" });
    model.misbehave = () => ({ kind: "status", status: 404 });
    expect(await p.ingest({ summary: "Ada keeps bees" })).toEqual([undefined]);
    expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword"]);
    await expect
      .poll(async () =>
        (await p.events("ai.embed"))
          .filter(({ outcome }) => outcome === "error")
          .map(({ error, egress }) => [error, egress.output_items]),
      )
      .toContainEqual(["unavailable", 0]);
    model.misbehave = undefined;
    await expect
      .poll(() => p.recall({ query: "bees" }), { timeout: 20_000 })
      .toEqual(["Ada keeps bees: keyword+vector"]);
    await expect.poll(async () => (await p.events("ai.embed")).at(-1)).toMatchObject({ outcome: "ok" });
  });
});

test("governance-12: self_hosted_only lets text out to an embedder of one's own, and to no other", async () => {
  const p = new Profile(wire());
  await p.policy({ ai_egress: { embed: "self_hosted_only" } });
  await p.ingest({ summary: "Ada keeps bees" });
  expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword+vector"]);
  // A public host, which a policy must keep from being asked at all: that it does not exist would otherwise be an
  // error.
  const node = await nodeWith({ SERVICE_EMBED_BASE_URL: "http://embedder.example.com/v1" });
  const q = new Profile(node.wire("rest"));
  await q.policy({ ai_egress: { embed: "self_hosted_only" }, audit: { enabled: true } });
  expect(await q.ingest({ summary: "Ada keeps bees" })).toEqual([undefined]);
  expect(await q.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword"]);
  expect((await q.wire.call("MemoryService.Reembed", q.at)).code).toBe("forbidden");
  await expect
    .poll(async () =>
      (await q.events("ai.embed")).map(({ outcome, egress }) => [outcome, egress.self_hosted, egress.endpoint_host]),
    )
    .toEqual([
      ["denied", false, "embedder.example.com"],
      ["denied", false, "embedder.example.com"],
    ]);
});

test("a host that the operator lists is self-hosted", async () => {
  const node = await nodeWith({
    SERVICE_EMBED_BASE_URL: "http://embedder.example.com/v1",
    SERVICE_EMBED_SELF_HOSTED_HOSTS: "other, Embedder.Example.com",
  });
  const p = new Profile(node.wire("rest"));
  await p.policy({ ai_egress: { embed: "self_hosted_only" }, audit: { enabled: true } });
  await p.ingest({ summary: "Ada keeps bees" });
  await expect
    .poll(async () => (await p.events("ai.embed"))[0])
    .toMatchObject({ outcome: "error", egress: { self_hosted: true } });
});

test("a caller's own vector is taken as it is, and a duplicate's vector is not stored twice", async () => {
  const p = new Profile(wire());
  await p.ingest({ summary: "one" });
  model.requests.length = 0;
  const vector = Array.from({ length: model.dimension }, (_, at) => (at === 5 ? 1 : 0));
  expect(await p.ingest({ summary: "two", embedding: vector }, { summary: "three", embedding: [1, 2] })).toEqual([
    undefined,
    "skipped_dimension",
  ]);
  expect(await p.ingest({ summary: "one" })).toEqual([undefined]);
  expect(await p.recall({ embedding: vector, min_score: { vector: 0.99 } })).toEqual(["two: vector"]);
  // What the caller's vector could not be is made up for.
  expect(sent().filter((text) => text !== "three")).toEqual(["one"]);
});

test("a query is not sent when there is nothing to compare it with, nor a plain database's turns", async () => {
  const p = new Profile(wire());
  await p.ingest({ type: "task", summary: "only a task" });
  await p.recall({ query: "is there a task" });
  await p.recall({ topic_key: "none" });
  const db = await service.database();
  await ok(wire().call("DataService.AppendTurn", { db, session: "s", role: "user", content: "hello of a plain one" }));
  await ok(wire().call("MemoryService.Recall", { ns: "nobody", profile: "here", query: "anything" }));
  for (const text of ["only a task", "is there a task", "hello of a plain one", "anything"])
    expect(sent()).not.toContain(text);
});

test("what would be refused is refused before anything is sent", async () => {
  const p = new Profile(wire());
  await p.ingest({ summary: "seed" });
  model.requests.length = 0;
  expect(
    (
      await p.wire.call("MemoryService.Ingest", {
        ...p.at,
        memories: [
          { type: "fact", summary: "fine", content: 1 },
          { type: "fact", summary: " ", content: 1 },
        ],
      })
    ).code,
  ).toBe("invalid_request");
  expect(
    (
      await p.wire.call("DataService.AppendTurn", {
        db: `${p.at.ns}--p`,
        session: "s",
        role: "r".repeat(limits.roleBytesMax + 1),
        content: "hello",
      })
    ).code,
  ).toBe("invalid_request");
  expect(
    (
      await p.wire.call("DataService.AppendTurn", {
        db: `${p.at.ns}--p`,
        session: "s",
        role: "r",
        content: "x".repeat(contentBytesMax),
      })
    ).code,
  ).toBe("invalid_request");
  expect((await p.wire.call("MemoryService.Recall", { ...p.at, query: "fine", k: 0 })).code).toBe("invalid_request");
  expect((await p.wire.call("MemoryService.Recall", { ...p.at, branch: "nowhere", query: "fine" })).code).toBe(
    "branch_not_found",
  );
  expect(model.requests).toEqual([]);
});

test("a hanging embedder delays a recall by its own bound only", async () => {
  const p = new Profile(wire());
  await p.ingest({ summary: "Ada keeps bees" });
  model.misbehave = () => ({ kind: "hang" });
  const startMs = performance.now();
  expect(await p.recall({ query: "bees" })).toEqual(["Ada keeps bees: keyword"]);
  expect(performance.now() - startMs).toBeLessThan(embedRecallMs + 2_000);
});
