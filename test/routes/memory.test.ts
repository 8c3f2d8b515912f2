/** Typed memory over both wires: the acceptance list's Memory 1 to 16 and 22 to 30. */
import { create } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { MemoryService } from "../../gen/palimpsest/v1/memory_pb.ts";
import { fact, event, task, theme, MemoryProfile } from "../support/memory-profile.ts";
import { ok, useService } from "../support/service.ts";
import { type WireName, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

/** A profile of this file's node. */
class Profile extends MemoryProfile {
  constructor(name: WireName, at = service().profile()) {
    super(service().wire(name), at);
  }
}

onBoth("memory-01 over %s: the first ingest creates the profile", async (name) => {
  const profile = new Profile(name);
  const { body, txid } = await ok(profile.ingest(theme("dark")));
  expect(body).toEqual({
    results: [{ id: expect.stringMatching(/^mem_[0-9A-HJKMNP-TV-Z]{26}$/), status: "created", superseded: [] }],
    txid: 1,
  });
  expect(txid).toBe(1);
  const { body: listed } = await ok(profile.wire.call("MemoryService.ListProfiles", { ns: profile.at.ns }));
  expect(listed).toMatchObject({
    namespace: profile.at.ns,
    profiles: expect.arrayContaining([{ profile: profile.at.profile, created_at: expect.any(Number) }]),
  });
});

onBoth("memory-02 over %s: the same payload again is a duplicate of the same id, and no transaction", async (name) => {
  const profile = new Profile(name);
  const [first] = await profile.add(theme("dark"));
  const again = await ok(profile.ingest(theme("dark")));
  expect(again.body).toEqual({ results: [{ id: first!.id, status: "duplicate", superseded: [] }], txid: 1 });
});

onBoth("memory-03 over %s: a new fact on the topic supersedes the old one, and both say so", async (name) => {
  const profile = new Profile(name);
  const [old] = await profile.add(theme("dark"));
  const [fresh] = await profile.add(theme("light"));
  expect(fresh).toMatchObject({ status: "created", superseded: [old!.id] });
  expect((await ok(profile.get(old!.id))).body).toMatchObject({ superseded_by: fresh!.id, supersedes: [] });
  expect((await ok(profile.get(fresh!.id))).body).toEqual({
    id: fresh!.id,
    type: "fact",
    topic_key: "ui.theme",
    summary: "The user prefers the light theme",
    content: { theme: "light" },
    keywords: null,
    session_id: null,
    source: null,
    created_at: expect.any(Number),
    superseded_by: null,
    supersedes: [old!.id],
  });
});

onBoth("memory-09 over %s: dark, light, dark ends dark with an honest chain", async (name) => {
  const profile = new Profile(name);
  const [dark] = await profile.add(theme("dark"));
  const [light] = await profile.add(theme("light"));
  const [darkAgain] = await profile.add(theme("dark"));
  expect(darkAgain).toMatchObject({ status: "created", superseded: [light!.id] });
  expect(darkAgain!.id).not.toBe(dark!.id);
  expect((await profile.found({ topic_key: "ui.theme" })).map(({ id }) => id)).toEqual([darkAgain!.id]);
  expect((await profile.add(theme("dark")))[0]).toEqual({ id: darkAgain!.id, status: "duplicate", superseded: [] });
  const chain = await profile.found({ topic_key: "ui.theme", include_superseded: true });
  expect(new Map(chain.map(({ id, superseded_by }) => [id, superseded_by]))).toEqual(
    new Map([
      [dark!.id, light!.id],
      [light!.id, darkAgain!.id],
      [darkAgain!.id, null],
    ]),
  );
});

onBoth(
  "memory-14 over %s: an expired task is not recalled; ending a session removes its tasks and its row, not its facts",
  async (name) => {
    const profile = new Profile(name);
    const [expired, live, kept] = await profile.add(
      task("water the ferns", { ttl: 0, session_id: "s-1" }),
      task("water the roses", { session_id: "s-1", ttl: 600 }),
      fact("roses need water", { session_id: "s-1" }),
    );
    expect(new Set(await profile.summaries({ query: "water" }))).toEqual(
      new Set(["water the roses", "roses need water"]),
    );
    expect((await profile.get(expired!.id)).code).toBe("not_found");
    const { body } = await ok(profile.get(live!.id));
    expect(body.expires_at - body.created_at).toBe(600_000);
    expect(await profile.sessions()).toEqual(["s-1"]);
    await ok(profile.endSession("s-1"));
    expect((await profile.get(live!.id)).code).toBe("not_found");
    expect((await ok(profile.get(kept!.id))).body.summary).toBe("roses need water");
    expect(await profile.sessions()).toEqual([]);
    const [once] = await profile.add(task("lives a day"));
    const dayLong = (await ok(profile.get(once!.id))).body;
    expect(dayLong.expires_at - dayLong.created_at).toBe(86_400_000);
  },
);

onBoth("memory-16 over %s: a forgotten memory is gone, and forgetting it again is not found", async (name) => {
  const profile = new Profile(name);
  const [old] = await profile.add(theme("dark"));
  const [fresh] = await profile.add(theme("light"));
  expect((await ok(profile.forget(fresh!.id))).txid).toBe(3);
  expect(await profile.found({ query: "light theme" })).toEqual([]);
  expect(await profile.get(fresh!.id)).toMatchObject({ code: "not_found", txid: 3 });
  expect(await profile.forget(fresh!.id)).toMatchObject({ code: "not_found", txid: 3 });
  // What it superseded stays superseded.
  expect((await ok(profile.get(old!.id))).body.superseded_by).toBe(fresh!.id);
  expect(await profile.found({ topic_key: "ui.theme" })).toEqual([]);
});

onBoth(
  "memory-22 over %s: bad names, an unknown type, a topic on an event and an empty recall are refused",
  async (name) => {
    for (const bad of ["Acme", "has--dashes", "a b", "", "team-", "-team", "x".repeat(65)]) {
      for (const [at, field] of [
        [{ ns: bad, profile: "p" }, "ns must be"],
        [{ ns: "n", profile: bad }, "profile"],
      ] as const) {
        // An empty segment is no route at all on REST.
        if (bad === "" && name === "rest") continue;
        expect(await new Profile(name, at).ingest(fact("x")), JSON.stringify(at)).toMatchObject({
          code: "invalid_request",
          message: expect.stringContaining(field),
        });
      }
    }
    const profile = new Profile(name);
    expect(await profile.ingest({ type: "opinion", summary: "x", content: null })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("memories[0].type"),
    });
    expect(await profile.ingest(event("x", { topic_key: "t" }))).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("memories[0].topic_key"),
    });
    expect(await profile.recall({})).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("query"),
    });
    expect(await profile.recall({ query: "x", types: ["opinion"] })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("types"),
    });
  },
);

onBoth("memory-23 over %s: source is stored, given back and filterable, and null when absent", async (name) => {
  const profile = new Profile(name);
  const [with1, without] = await profile.add(
    fact("the bridge is closed", { source: "scout" }),
    fact("the bridge is old"),
  );
  expect((await ok(profile.get(with1!.id))).body.source).toBe("scout");
  expect((await ok(profile.get(without!.id))).body.source).toBeNull();
  const found = await profile.found({ query: "bridge" });
  expect(new Set(found.map(({ source }) => source))).toEqual(new Set(["scout", null]));
  expect(await profile.summaries({ query: "bridge", source: "scout" })).toEqual(["the bridge is closed"]);
  expect(await profile.found({ query: "bridge", source: "nobody" })).toEqual([]);
});

onBoth("memory-24 over %s: a duplicate never changes the source, and supersession crosses sources", async (name) => {
  const profile = new Profile(name);
  const [first] = await profile.add({ ...theme("dark"), source: "ann" });
  expect((await profile.add({ ...theme("dark"), source: "bob" }))[0]).toMatchObject({
    id: first!.id,
    status: "duplicate",
  });
  expect((await ok(profile.get(first!.id))).body.source).toBe("ann");
  expect((await profile.add({ ...theme("light"), source: "bob" }))[0]).toMatchObject({
    status: "created",
    superseded: [first!.id],
  });
});

onBoth(
  "memory-26 over %s: of two facts on one topic in one batch the second supersedes the first, in one transaction",
  async (name) => {
    const profile = new Profile(name);
    const { body } = await ok(profile.ingest(theme("dark"), theme("light")));
    expect(body.results[1].superseded).toEqual([body.results[0].id]);
    expect(body.txid).toBe(1);
    expect(await profile.summaries({ topic_key: "ui.theme" })).toEqual(["The user prefers the light theme"]);
  },
);

onBoth("memory-27 over %s: one invalid item fails the whole batch, and nothing lands", async (name) => {
  const profile = new Profile(name);
  await profile.add(fact("already there"));
  const refused = await profile.ingest(fact("a good one"), fact(""), fact("another good one"));
  expect(refused).toMatchObject({ code: "invalid_request", message: expect.stringContaining("memories[1].summary") });
  expect(await profile.found({ query: "good one" })).toEqual([]);
  expect((await ok(profile.recall({ query: "there" }))).txid).toBe(1);
});

onBoth("memory-27 over %s: an empty batch is refused, and creates no profile", async (name) => {
  const profile = new Profile(name);
  expect(await profile.ingest()).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("memories"),
  });
  expect((await profile.get("mem_x")).code).toBe("database_not_found");
});

onBoth(
  "memory-28 over %s: the order of keys makes no difference; type, topic, summary and content do",
  async (name) => {
    // A task's session makes one, too.
    const profile = new Profile(name);
    const [first] = await profile.add(fact("a map", { content: { a: 1, b: { c: 2, d: 3 } } }));
    expect((await profile.add(fact("a map", { content: { b: { d: 3, c: 2 }, a: 1 } })))[0]).toMatchObject({
      status: "duplicate",
      id: first!.id,
    });
    const others = await profile.add(
      event("a map", { content: { a: 1, b: { c: 2, d: 3 } } }),
      fact("another map", { content: { a: 1, b: { c: 2, d: 3 } } }),
      fact("a map", { content: { a: 1, b: { c: 2, d: 4 } } }),
      fact("a map", { content: { a: 1, b: { c: 2, d: 3 } }, topic_key: "map" }),
      task("first", { content: {} }),
      task("second", { content: {} }),
      task("first", { content: {}, session_id: "s" }),
    );
    expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 7 }, () => "created"));
  },
);

onBoth(
  "memory-30 over %s: a blank summary, an empty or non-finite vector and a ttl on a fact are refused by name",
  async (name) => {
    const profile = new Profile(name);
    for (const [memory, field] of [
      [fact("  \t"), "summary"],
      [fact("x", { embedding: [] }), "embedding"],
      // ProtoJSON has words for what JSON has no numbers for.
      [fact("x", { embedding: [name === "rest" ? 1e39 : "Infinity", 1] }), "embedding"],
      [fact("x", { embedding: [name === "rest" ? 1e39 : "NaN", 1] }), "embedding"],
      [fact("x", { embedding: [0, 0] }), "embedding"],
      [fact("x", { ttl: 60 }), "ttl"],
      [fact("x", { topic_key: "" }), "topic_key"],
      [fact("x", { session_id: "s".repeat(129) }), "session_id"],
    ] as const) {
      expect(await profile.ingest(memory), field).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(`memories[0].${field}`),
      });
    }
  },
);

onBoth(
  "over %s a missing content is refused by name, null is one, and what an item of the batch could not know is absent",
  async (name) => {
    const profile = new Profile(name);
    const missing = await profile.ingest(
      { type: "fact", summary: "whole", content: 0 },
      { type: "fact", summary: "bare" },
    );
    expect(missing).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("memories[1].content is required") as unknown,
    });
    expect(await profile.found({ query: "whole bare" })).toEqual([]);
    const [item] = await profile.add({ type: "fact", summary: "bare", content: null });
    expect(item).toEqual({ id: item!.id, status: "created", superseded: [] });
    const { body } = await ok(profile.get(item!.id));
    expect(body.content).toBeNull();
    const recalled = (await profile.found({ query: "bare" }))[0];
    expect(Object.keys(recalled).sort()).toEqual([
      "channels",
      "content",
      "created_at",
      "id",
      "keywords",
      "score",
      "session_id",
      "source",
      "summary",
      "superseded_by",
      "topic_key",
      "type",
    ]);
  },
);

test("over gRPC a content that is no JSON is refused by name", async () => {
  const client = service().client(MemoryService);
  for (const numberValue of [NaN, Infinity, -Infinity]) {
    const content = create(ValueSchema, { kind: { case: "numberValue", value: numberValue } });
    const refused = await client
      .ingest({ ...service().profile(), memories: [{ type: "fact", summary: "x", content }] })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConnectError);
    expect(refused).toMatchObject({ code: Code.InvalidArgument, rawMessage: expect.stringContaining("content") });
  }
});

test("over REST every digit of a memory's content survives, and tells memories apart", async () => {
  const { ns, profile } = service().profile();
  const at = `/v1/memory/${ns}/${profile}`;
  const memory = (id: string): string => `{"type":"fact","summary":"an order","content":{"id":${id},"all":[${id}]}}`;
  const { json } = await service().call(
    "POST",
    `${at}/memories`,
    `{"memories":[${memory("9007199254740993")},${memory("9007199254740992")},${memory("9007199254740993")}]}`,
  );
  expect(json.results.map(({ status }: { status: string }) => status)).toEqual(["created", "created", "duplicate"]);
  expect((await service().call("GET", `${at}/memories/${json.results[0].id}`)).text).toContain(
    '"content":{"id":9007199254740993,"all":[9007199254740993]}',
  );
  expect((await service().call("POST", `${at}/recall`, { query: "order" })).text).toContain(
    '{"id":9007199254740993,"all":[9007199254740993]}',
  );
});
