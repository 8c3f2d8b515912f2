/** Lists of memories, metadata and filters, and forgetting many, over both wires. */
import { describe, expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { type Reply, type Wire, type WireName, wireNames } from "../support/wires.ts";

const service = useService({ SERVICE_AUDIT_FLUSH_MS: "20" });
const onBoth = describe.each(wireNames);

/** One profile over one wire. */
class Profile {
  readonly wire: Wire;
  readonly name: WireName;
  readonly at: { readonly ns: string; readonly profile: string };

  constructor(name: WireName, at = service().profile()) {
    this.name = name;
    this.wire = service().wire(name);
    this.at = at;
  }

  async add(...memories: readonly object[]): Promise<string[]> {
    const full = memories.map((memory) => ({ type: "event", content: null, ...memory }));
    const { body } = await ok(this.wire.call("MemoryService.Ingest", { ...this.at, memories: full }));
    return body.results.map(({ id }: { id: string }) => id);
  }

  list(request: object = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.wire.call("MemoryService.ListMemories", { ...this.at, ...request }, headers);
  }

  async summaries(request: object = {}): Promise<string[]> {
    return (await ok(this.list(request))).body.memories.map(({ summary }: { summary: string }) => summary);
  }

  recall(request: object): Promise<Reply> {
    return this.wire.call("MemoryService.Recall", { ...this.at, ...request });
  }

  async recalled(request: object): Promise<string[]> {
    return (await ok(this.recall(request))).body.memories.map(({ summary }: { summary: string }) => summary);
  }

  forget(request: object): Promise<Reply> {
    return this.wire.call("MemoryService.ForgetMemories", { ...this.at, ...request });
  }
}

onBoth("a list over %s", (name) => {
  test("has every memory once, page by page, newest first or oldest first", async () => {
    const profile = new Profile(name);
    const ids = await profile.add(...Array.from({ length: 5 }, (_, at) => ({ summary: `memory ${at}` })));
    for (const [order, expected] of [
      ["desc", ids.toReversed()],
      ["asc", ids],
    ] as const) {
      const first = await ok(profile.list({ order, limit: 2 }));
      expect(first.body).toMatchObject({
        memories: [{ id: expected[0] }, { id: expected[1] }],
        next_cursor: expect.any(String),
        txid: first.txid,
      });
      await profile.add({ summary: `between ${order}` });
      const { body: rest } = await ok(
        profile.list({
          order,
          limit: 1000,
          cursor: first.body.next_cursor,
          until: first.body.memories[0].created_at + 60_000,
        }),
      );
      expect(rest.memories.map(({ id }: { id: string }) => id).slice(0, 3)).toEqual(expected.slice(2));
      expect(rest.next_cursor).toBeNull();
    }
  });

  test("gives a memory as a get does, with its metadata, and without it where there was none", async () => {
    const profile = new Profile(name);
    const [tagged] = await profile.add(
      {
        summary: "tagged",
        type: "fact",
        topic_key: "t",
        content: { n: 1 },
        metadata: { tags: ["a"], n: 1.5, none: null },
      },
      { summary: "bare" },
    );
    const { supersedes, ...got } = (
      await ok(profile.wire.call("MemoryService.GetMemory", { ...profile.at, id: tagged }))
    ).body;
    const { memories } = (await ok(profile.list())).body;
    expect([memories[1], supersedes]).toEqual([got, []]);
    expect(got.metadata).toEqual({ tags: ["a"], n: 1.5, none: null });
    expect(memories[0]).not.toHaveProperty("metadata");
    expect((await ok(profile.recall({ query: "tagged" }))).body.memories).toMatchObject([{ metadata: got.metadata }]);
  });

  test("takes every condition", async () => {
    const profile = new Profile(name);
    await profile.add(
      { summary: "old", type: "fact", topic_key: "t" },
      { summary: "new", type: "fact", topic_key: "t" },
      { summary: "said", session_id: "s", source: "me", metadata: { v: 1 } },
    );
    await profile.add({ summary: "over", type: "task", ttl: 0 }, { summary: "to do", type: "task" });
    expect(await profile.summaries()).toEqual(["to do", "said", "new"]);
    expect(await profile.summaries({ types: "task,fact" })).toEqual(["to do", "new"]);
    expect(await profile.summaries({ topic_key: "t", include_superseded: true })).toEqual(["new", "old"]);
    expect(await profile.summaries({ session_id: "s", source: "me" })).toEqual(["said"]);
    expect(await profile.summaries({ filter: '{"v":{"$gte":1}}' })).toEqual(["said"]);
    expect(await profile.summaries({ since: 4_000_000_000_000 })).toEqual([]);
    expect(await profile.summaries({ since: 0, until: 4_000_000_000_000 })).toHaveLength(3);
  });

  test("of an unknown profile is empty and makes none; with a txid it has seen it is 404", async () => {
    const profile = new Profile(name);
    expect((await ok(profile.list())).body).toEqual({ memories: [], next_cursor: null, txid: 0 });
    expect((await profile.list({}, { "service-min-txid": "1" })).code).toBe("database_not_found");
    expect((await profile.forget({ filter: {} })).code).toBe("database_not_found");
  });

  test("is of the branch that is named", async () => {
    const profile = new Profile(name);
    await profile.add({ summary: "on main", metadata: { v: 1 } });
    await ok(
      profile.wire.call("BranchService.CreateBranch", { db: `${profile.at.ns}--${profile.at.profile}`, name: "side" }),
    );
    expect((await ok(profile.forget({ branch: "side", filter: { v: 1 } }))).body).toMatchObject({
      forgotten: 1,
      next_cursor: null,
    });
    expect([await profile.summaries(), await profile.summaries({ branch: "side" })]).toEqual([["on main"], []]);
    expect((await profile.list({ branch: "none" })).code).toBe("branch_not_found");
  });

  test.each<[object, string]>([
    [{ cursor: "nonsense" }, "cursor must be"],
    [{ cursor: "" }, "cursor must be"],
    [{ limit: 0 }, "limit must be"],
    [{ order: "up" }, "order must be"],
    [{ types: "fact,facts" }, "types must be among"],
    [{ since: -1 }, "since must be"],
    [{ since: 5, until: 5 }, "since must be before until"],
    [{ filter: "{" }, "filter must be valid JSON"],
    [{ filter: '{"$where":"1"}' }, "filter.$where is not an operator"],
  ])("refuses %j", async (request, message) => {
    const reply = await new Profile(name).list(request);
    expect(reply).toMatchObject({ code: "invalid_request", message: expect.stringContaining(message) });
  });
});

onBoth("a filter over %s", (name) => {
  test("narrows a recall, and 300 that match better starve nothing", async () => {
    const profile = new Profile(name);
    await profile.add(
      ...Array.from({ length: 300 }, (_, at) => ({
        summary: `deploy deploy ${at}`,
        metadata: { team: "crowd" },
        embedding: [1, at / 1e6],
      })),
    );
    await profile.add(
      {
        summary: "some day deploy it all and then write a long report",
        metadata: { team: "quiet" },
        embedding: [0.5, 1],
      },
      { summary: "deploy without a team" },
    );
    const quiet = ["some day deploy it all and then write a long report"];
    expect(await profile.recalled({ query: "deploy", k: 1, filter: { team: "quiet" } })).toEqual(quiet);
    expect(await profile.recalled({ embedding: [1, 0], k: 1, filter: { team: { $ne: "crowd" } } })).toEqual(quiet);
    expect((await profile.recalled({ query: "deploy", k: 5, filter: { team: { $ne: "crowd" } } })).toSorted()).toEqual([
      "deploy without a team",
      ...quiet,
    ]);
    expect(await profile.recalled({ query: "deploy", filter: { team: "none" } })).toEqual([]);
  });

  const nested = (depth: number): object => (depth === 0 ? { a: 1 } : { $not: nested(depth - 1) });
  test.each<[string, object, string]>([
    ["too deep", nested(33), "filter nests $and, $or, $nor, $not, $all and $elemMatch more than 32 deep"],
    [
      "a list too long",
      { a: { $in: Array.from({ length: 1_001 }, (_, at) => at) } },
      "filter.a.$in must have at most 1000 values",
    ],
    [
      "too large",
      { $or: Array.from({ length: 32 }, () => ({ [Array.from({ length: 64 }, () => "a").join(".")]: 1 })) },
      "filter is too large",
    ],
    ["an unknown operator", { a: { $where: "x" } }, "filter.a.$where is not an operator of a field"],
    ["an operator out of place", { $gt: 1 }, "filter.$gt is not an operator that can stand here"],
    ["a path that is none", { "a..b": 1 }, "a field name in filter must be a path"],
  ])("%s is refused by recall, list and forget, naming it", async (_what, filter, message) => {
    const profile = new Profile(name);
    const replies = await Promise.all([
      profile.recall({ query: "x", filter }),
      profile.list({ filter: JSON.stringify(filter) }),
      profile.forget({ filter }),
    ]);
    for (const reply of replies)
      expect(reply).toMatchObject({ code: "invalid_request", message: expect.stringContaining(message) });
  });

  test("metadata that is none is refused, naming the item", async () => {
    const profile = new Profile(name);
    for (const metadata of [{ $a: 1 }, { a: "x".repeat(20_000) }]) {
      const reply = await profile.wire.call("MemoryService.Ingest", {
        ...profile.at,
        memories: [{ type: "event", summary: "x", content: null, metadata }],
      });
      expect(reply).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining("memories[0].metadata"),
      });
    }
  });
});

onBoth("forgetting many over %s", (name) => {
  test("takes away what the conditions hold of, and says which", async () => {
    const profile = new Profile(name);
    const ids = await profile.add(
      { summary: "one heron", metadata: { v: 1 } },
      { summary: "two herons", metadata: { v: 2 } },
      { summary: "three herons", metadata: { v: 1 } },
    );
    expect((await ok(profile.forget({ filter: { v: 1 }, types: ["event"], limit: 1 }))).body).toEqual({
      forgotten: 1,
      ids: [ids[2]],
      next_cursor: expect.any(String),
      txid: 2,
    });
    expect((await ok(profile.forget({ filter: { v: 1 } }))).body).toEqual({
      forgotten: 1,
      ids: [ids[0]],
      next_cursor: null,
      txid: 3,
    });
    expect((await ok(profile.forget({ filter: { v: 1 } }))).body).toEqual({
      forgotten: 0,
      ids: [],
      next_cursor: null,
      txid: 3,
    });
    expect(await profile.recalled({ query: "herons" })).toEqual(["two herons"]);
    expect((await ok(profile.forget({ types: [] }))).body.forgotten).toBe(0);
  });

  test("without a condition is refused, and nothing is forgotten", async () => {
    const profile = new Profile(name);
    await profile.add({ summary: "kept" });
    expect(await profile.forget({ limit: 5 })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("give at least one of types"),
    });
    expect(await profile.summaries()).toEqual(["kept"]);
    expect((await ok(profile.forget({ filter: {} }))).body.forgotten).toBe(1);
  });

  test("is a conflict where every forget must be a tracked erasure", async () => {
    const profile = new Profile(name, { ns: `purging-${name}`, profile: "p" });
    await profile.add({ summary: "kept", metadata: { v: 1 } });
    await ok(
      profile.wire.call("ControlService.PutNamespacePolicy", {
        ns: profile.at.ns,
        policy: { erasure: { purge_on_forget: true } },
      }),
    );
    expect(await profile.forget({ filter: { v: 1 } })).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("erasure.purge_on_forget"),
    });
    expect(await profile.summaries()).toEqual(["kept"]);
  });

  test("and lists are told in the audit stream, in numbers only", async () => {
    const profile = new Profile(name, { ns: `told-${name}`, profile: "p" });
    await ok(
      profile.wire.call("ControlService.PutNamespacePolicy", {
        ns: profile.at.ns,
        policy: { audit: { enabled: true, include_reads: true } },
      }),
    );
    await profile.add(
      { summary: "ZEBRA one", metadata: { secret: "ZEBRA" } },
      { summary: "ZEBRA two", metadata: { secret: "ZEBRA" } },
    );
    await ok(profile.list({ filter: '{"secret":"ZEBRA"}' }));
    await ok(profile.forget({ filter: { secret: "ZEBRA" } }));
    let events: { action: string; count: number; txid?: number }[] = [];
    await expect
      .poll(
        async () => {
          events = (await ok(profile.wire.call("ControlService.ReadAudit", { ns: profile.at.ns, action: "memory." })))
            .body.events;
          return events.length;
        },
        { timeout: 5_000 },
      )
      .toBe(3);
    expect(events.map(({ action, count, txid }) => [action, count, txid])).toEqual([
      ["memory.ingest", 2, 1],
      ["memory.list", 2, undefined],
      ["memory.forget", 2, 2],
    ]);
    expect(JSON.stringify(events)).not.toContain("ZEBRA");
  });
});

test("over REST, the numbers of metadata keep every digit, and are found by it", async () => {
  const path = "/v1/memory/acme/digits";
  const memory = '{"type":"event","summary":"exact","content":null,"metadata":{"id":9007199254740993}}';
  expect(
    (
      await service().call("POST", `${path}/memories`, `{"memories":[${memory}]}`, {
        "content-type": "application/json",
      })
    ).status,
  ).toBe(201);
  const filter = encodeURIComponent('{"id":9007199254740993}');
  expect((await service().call("GET", `${path}/memories?filter=${filter}`)).text).toContain(
    '"metadata":{"id":9007199254740993}',
  );
  expect((await service().call("GET", `${path}/memories?filter=${filter.replace("993", "992")}`)).json).toMatchObject({
    memories: [],
  });
  expect(
    (
      await service().call("POST", `${path}/recall`, '{"query":"exact","filter":{"id":9007199254740993}}', {
        "content-type": "application/json",
      })
    ).json.memories,
  ).toHaveLength(1);
  expect(
    (
      await service().call(
        "POST",
        `${path}/memories`,
        `{"memories":[${memory.replace('{"id":9007199254740993}', "[1]")}]}`,
        { "content-type": "application/json" },
      )
    ).json.error,
  ).toContain("memories[0].metadata must be an object");
});

test("the names that a span of time had before are refused with those that it has", async () => {
  const { ns, profile } = service().profile();
  const at = `/v1/memory/${ns}/${profile}`;
  for (const reply of [
    await service().call("GET", `${at}/memories?created_from=5`),
    await service().call("POST", `${at}/forget`, { created_from: 5, filter: {} }),
  ]) {
    expect([reply.status, reply.json.code]).toEqual([400, "invalid_request"]);
    expect(reply.json.error).toMatch(/^created_from is not a .*: .*since, until/);
  }
});
