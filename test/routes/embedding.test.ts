/** Vectors that the node makes itself, over real wires and against a server that speaks the real protocols. */
import { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { limits } from "../../src/base/limits.ts";
import { runCommandLine, type Surroundings } from "../../src/server/cli/command-line.ts";
import { startGuarded } from "../support/guarded-service.ts";
import { openModelServer, computeVector, type ModelServer } from "../support/model-server.ts";
import { ok, startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames, type Wire } from "../support/wires.ts";
import { embedRecallMs } from "../../src/service/embedding/embedding.ts";
import { embedRetiredRowsMax } from "../../src/service/memory/reembed.ts";
import { contentBytesMax } from "../../src/model/core/content.ts";

let model: ModelServer;
let service: Service;

function variables(more: Record<string, string> = {}): Record<string, string> {
  return {
    SERVICE_EMBED_API_KEY: "key-of-the-test",
    SERVICE_EMBED_PROVIDER: "openai",
    SERVICE_EMBED_BASE_URL: model.address,
    SERVICE_AUDIT_FLUSH_MS: "20",
    ...more,
  };
}

beforeAll(async () => {
  model = await openModelServer();
  service = await startService(variables());
});
afterAll(async () => {
  await service.close();
  await model.close();
});
beforeEach(() => {
  model.requests.length = 0;
  model.misbehave = undefined;
});

/** The texts that have reached the model. */
function sent(): string[] {
  return model.requests.flatMap(({ body }) => body.input);
}

/** A node of one test. */
async function nodeWith(more: Record<string, string>, directory?: string): Promise<Service> {
  const node = await startService(variables(more), directory);
  onTestFinished(() => node.close());
  return node;
}

let names = 0;

/** A profile of one test, in a namespace of its own. */
class Profile {
  readonly at = { ns: `ns${++names}`, profile: "p" };
  wire: Wire;

  constructor(wire: Wire) {
    this.wire = wire;
  }

  /** What each memory of an ingest was told of its vector. */
  async ingest(...memories: readonly object[]): Promise<(string | undefined)[]> {
    const { body } = await ok(
      this.wire.call("MemoryService.Ingest", {
        ...this.at,
        memories: memories.map((memory) => ({ type: "fact", content: null, ...memory })),
      }),
    );
    return body.results.map(({ embedding }: { embedding?: string }) => embedding);
  }

  /** Summary and channels of what is found. */
  async recall(request: object): Promise<string[]> {
    const { body } = await ok(this.wire.call("MemoryService.Recall", { ...this.at, ...request }));
    return body.memories.map(
      ({ summary, channels }: { summary: string; channels: string[] }) => `${summary}: ${channels.join("+")}`,
    );
  }

  append(session: string, content: unknown): ReturnType<typeof ok> {
    return ok(this.wire.call("DataService.AppendTurn", { db: `${this.at.ns}--p`, session, role: "user", content }));
  }

  policy(policy: object): ReturnType<typeof ok> {
    return ok(this.wire.call("ControlService.PutNamespacePolicy", { ns: this.at.ns, policy }));
  }

  async events(action?: string): Promise<Record<string, any>[]> {
    const { body } = await ok(
      this.wire.call("ControlService.ReadAudit", { ns: this.at.ns, ...(action === undefined ? {} : { action }) }),
    );
    return body.events;
  }

  /** Goes through all steps of a reembed, and says how many there were and what they came to. */
  async reembed(request: object = {}): Promise<{ steps: number; embedded: number; left: number }> {
    const sum = { steps: 0, embedded: 0, left: 0 };
    for (let cursor: string | null | undefined; cursor !== null; sum.steps++) {
      const { body } = await ok(
        this.wire.call("MemoryService.Reembed", {
          ...this.at,
          ...request,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      );
      sum.embedded += body.embedded;
      sum.left += body.left;
      cursor = body.next_cursor;
    }
    return sum;
  }
}

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

const wire = (): Wire => service.wire("rest");

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

/** `palimpsest reembed` in this process. */
async function command(
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number; error: string }> {
  let error = "";
  const streams = {
    stdin: Readable.from([]),
    stdout: { write: () => true },
    stderr: { write: (text: string) => (error += text) },
  };
  const code = await runCommandLine({
    argv: ["node", "palimpsest", "reembed", ...words],
    env,
    pid: 1,
    ...streams,
  } as unknown as Surroundings);
  return { code, error };
}

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
  const words = ["--address", guarded.service.address, "--database", "acme--alice"];
  const { code, error } = await command(words, { PALIMPSEST_TOKEN: token });
  expect(error).toMatch(/palimpsest: \d+ embedded; done\n$/);
  expect(code).toBe(0);
  const recalled = await guarded.call(token, "POST", "/v1/memory/acme/alice/recall", { query: "bees", k: 100 });
  expect(
    recalled.json.memories.filter(({ channels }: { channels: string[] }) => channels.includes("vector")),
  ).toHaveLength(70);
  expect(await command([...words, "--branch", "nowhere"], { PALIMPSEST_TOKEN: token })).toMatchObject({
    code: 1,
    error: expect.stringContaining("branch_not_found"),
  });
  expect(await command(words, { PALIMPSEST_TOKEN: await guarded.mint({ ns: "acme" }, "write") })).toMatchObject({
    code: 1,
    error: expect.stringContaining("forbidden"),
  });
  expect(await command(["--address", guarded.service.address, "--database", "plain"])).toMatchObject({
    code: 2,
    error: expect.stringContaining("namespace--profile"),
  });
});
