/** Typed memory over both wires: the acceptance list's Memory 1 to 16 and 22 to 30. */
import { create } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { MemoryService } from "../../gen/palimpsest/v1/memory_pb.ts";
import { ok, useService } from "../support/service.ts";
import { type Reply, type Wire, type WireName, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

interface Item {
  readonly id: string;
  readonly status: string;
  readonly superseded: readonly string[];
}

/** One profile over one wire. */
class Profile {
  readonly wire: Wire;
  readonly at: { readonly ns: string; readonly profile: string };

  constructor(name: WireName, at = service().profile()) {
    this.wire = service().wire(name);
    this.at = at;
  }

  ingest(...memories: readonly object[]): Promise<Reply> {
    return this.wire.call("MemoryService.Ingest", { ...this.at, memories });
  }

  /** Ingests what must be taken, and gives what became of each. */
  async add(...memories: readonly object[]): Promise<Item[]> {
    return (await ok(this.ingest(...memories))).body.results;
  }

  recall(request: object, headers: Record<string, string> = {}): Promise<Reply> {
    return this.wire.call("MemoryService.Recall", { ...this.at, ...request }, headers);
  }

  async found(request: object): Promise<any[]> {
    return (await ok(this.recall(request))).body.memories;
  }

  async summaries(request: object): Promise<string[]> {
    return (await this.found(request)).map(({ summary }) => summary);
  }

  get(id: string): Promise<Reply> {
    return this.wire.call("MemoryService.GetMemory", { ...this.at, id });
  }

  forget(id: string): Promise<Reply> {
    return this.wire.call("MemoryService.ForgetMemory", { ...this.at, id });
  }

  async sessions(): Promise<string[]> {
    return (await ok(this.wire.call("MemoryService.ListSessions", this.at))).body.sessions.map(
      ({ id }: { id: string }) => id,
    );
  }

  endSession(sid: string, extra: object = {}): Promise<Reply> {
    return this.wire.call("MemoryService.EndSession", { ...this.at, sid, ...extra });
  }
}

const fact = (summary: string, extra: object = {}): object => ({ type: "fact", summary, content: null, ...extra });
const event = (summary: string, extra: object = {}): object => ({ type: "event", summary, content: null, ...extra });
const task = (summary: string, extra: object = {}): object => ({ type: "task", summary, content: null, ...extra });
const theme = (colour: string): object =>
  fact(`The user prefers the ${colour} theme`, { topic_key: "ui.theme", content: { theme: colour } });

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

onBoth(
  "memory-04 over %s: words of summary, keywords and content find a memory on the keyword channel",
  async (name) => {
    const profile = new Profile(name);
    await profile.add(
      fact("Ann plays the cello on Sundays", { keywords: "music orchestra", content: { teacher: "Wilhelmina" } }),
      fact("Bob repairs bicycles"),
    );
    for (const query of ["cello", "orchestra", "Wilhelmina"]) {
      const [memory, ...others] = await profile.found({ query });
      expect(memory, query).toMatchObject({
        summary: "Ann plays the cello on Sundays",
        channels: ["keyword"],
        score: expect.any(Number),
      });
      expect(others).toEqual([]);
    }
  },
);

onBoth("memory-05 over %s: a topic hit outranks keyword hits and reports its channel", async (name) => {
  const profile = new Profile(name);
  await profile.add(
    fact("Coffee: black, no sugar", { topic_key: "drink.morning" }),
    ...["espresso", "filter", "beans"].map((word) => event(`The tea kettle and the ${word}: tea, tea, tea`)),
  );
  const found = await profile.found({ query: "tea kettle", topic_key: "drink.morning" });
  expect(found).toHaveLength(4);
  expect(found[0]).toMatchObject({ summary: "Coffee: black, no sugar", channels: ["topic"] });
  for (const memory of found.slice(1)) {
    expect(memory.channels).toEqual(["keyword"]);
    expect(memory.score).toBeLessThan(found[0].score);
  }
});

onBoth("memory-06 over %s: recall by vector alone gives the nearest first, on the vector channel", async (name) => {
  const profile = new Profile(name);
  await profile.add(
    fact("east", { embedding: [1, 0, 0] }),
    fact("north", { embedding: [0, 1, 0] }),
    fact("nearly east", { embedding: [0.9, 0.3, 0] }),
  );
  const found = await profile.found({ embedding: [1, 0.05, 0], k: 2 });
  expect(found.map(({ summary, channels }) => [summary, channels])).toEqual([
    ["east", ["vector"]],
    ["nearly east", ["vector"]],
  ]);
});

onBoth("memory-07 over %s: the type filter gives that type only, and a nonsense query nothing", async (name) => {
  const profile = new Profile(name);
  await profile.add(fact("The harbour is foggy"), event("Fog rolled into the harbour"), {
    type: "instruction",
    summary: "Mention the harbour",
    content: "x",
  });
  expect((await profile.found({ query: "harbour", types: ["event"] })).map(({ type }) => type)).toEqual(["event"]);
  expect(await profile.found({ query: "harbour" })).toHaveLength(3);
  expect(await profile.found({ query: "zyxwvut qqqq" })).toEqual([]);
});

onBoth(
  "memory-08 over %s: an unknown profile recalls nothing and is not created; with Min-Txid it is not found",
  async (name) => {
    const profile = new Profile(name);
    expect((await ok(profile.recall({ query: "anything" }))).body).toEqual({ memories: [], turns: [], txid: 0 });
    expect(await profile.sessions()).toEqual([]);
    expect((await ok(profile.endSession("s"))).txid).toBe(0);
    expect(await profile.recall({ query: "anything" }, { "Service-Min-Txid": "1" })).toMatchObject({
      code: "database_not_found",
    });
    expect((await profile.get("mem_x")).code).toBe("database_not_found");
    expect((await profile.forget("mem_x")).code).toBe("database_not_found");
    const { body } = await ok(profile.wire.call("MemoryService.ListProfiles", { ns: profile.at.ns }));
    expect(body.profiles.map((item: { profile: string }) => item.profile)).not.toContain(profile.at.profile);
  },
);

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

onBoth("memory-10 over %s: 60 events that match never hide one task, one session or one source", async (name) => {
  const profile = new Profile(name);
  const crowd = Array.from({ length: 60 }, (_, at) =>
    event(`deploy the release number ${at}`, { embedding: [1, at / 1000], session_id: "crowd", source: "robot" }),
  );
  await profile.add(
    ...crowd,
    task("deploy the release after lunch, with many more words that make it rank lower", {
      session_id: "lone",
      source: "human",
      embedding: [0.5, 1],
    }),
  );
  for (const filter of [{ types: ["task"] }, { session_id: "lone" }, { source: "human" }]) {
    for (const query of [{ query: "deploy release" }, { embedding: [1, 0] }]) {
      expect(
        (await profile.found({ ...query, ...filter })).map(({ type }) => type),
        JSON.stringify({ ...query, ...filter }),
      ).toEqual(["task"]);
    }
  }
});

onBoth("memory-11 over %s: an explicit empty list of types matches nothing", async (name) => {
  const profile = new Profile(name);
  await profile.add(theme("dark"));
  expect(await profile.found({ topic_key: "ui.theme", types: [] })).toEqual([]);
  expect(await profile.found({ topic_key: "ui.theme" })).toHaveLength(1);
});

onBoth(
  "memory-12 over %s: a vector of the wrong dimension keeps the memory, and one in a query degrades it",
  async (name) => {
    const profile = new Profile(name);
    const first = await ok(profile.ingest(fact("apples are red", { embedding: [1, 0, 0] })));
    expect(first.body.results[0].embedding).toBeUndefined();
    const odd = await ok(profile.ingest(fact("bananas are yellow", { embedding: [1, 0] })));
    expect(odd.body.results[0]).toMatchObject({ status: "created", embedding: "skipped_dimension" });
    expect(await profile.summaries({ query: "bananas" })).toEqual(["bananas are yellow"]);
    const degraded = await ok(profile.recall({ query: "bananas", embedding: [1, 0] }));
    expect(degraded.body.memories.map(({ channels }: { channels: string[] }) => channels)).toEqual([["keyword"]]);
    expect((await ok(profile.recall({ embedding: [1, 0] }))).body.memories).toEqual([]);
  },
);

onBoth("memory-13 over %s: superseded memories are hidden unless asked for", async (name) => {
  const profile = new Profile(name);
  await profile.add(theme("dark"));
  await profile.add(theme("light"));
  expect(await profile.summaries({ query: "theme" })).toEqual(["The user prefers the light theme"]);
  expect(await profile.summaries({ query: "theme", include_superseded: true })).toHaveLength(2);
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

onBoth(
  "memory-15 over %s: include_turns with a vector gives turns verbatim, and nothing without flag or vector",
  async (name) => {
    const profile = new Profile(name);
    await profile.add(fact("there is a profile"));
    const db = `${profile.at.ns}--${profile.at.profile}`;
    const append = (session: string, content: unknown, embedding: readonly number[]): Promise<Reply> =>
      ok(profile.wire.call("DataService.AppendTurn", { db, session, role: "user", content, embedding }));
    await append("one", { said: "I moved to Lima" }, [1, 0]);
    await append("two", "I moved to Oslo", [0.9, 0.1]);
    const turns = async (request: object): Promise<any[]> => (await ok(profile.recall(request))).body.turns;
    const both = await turns({ embedding: [1, 0], include_turns: true });
    expect(both).toEqual([
      {
        session_id: "one",
        seq: 1,
        role: "user",
        content: { said: "I moved to Lima" },
        created_at: expect.any(Number),
        distance: expect.any(Number),
      },
      {
        session_id: "two",
        seq: 1,
        role: "user",
        content: "I moved to Oslo",
        created_at: expect.any(Number),
        distance: expect.any(Number),
      },
    ]);
    expect(
      (await turns({ embedding: [1, 0], include_turns: true, session_id: "two" })).map(({ session_id }) => session_id),
    ).toEqual(["two"]);
    expect(await turns({ embedding: [1, 0] })).toEqual([]);
    expect(await turns({ query: "Lima", include_turns: true })).toEqual([]);
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
        [{ ns: bad, profile: "p" }, "namespace"],
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
  "memory-28 over %s: the order of JSON keys makes no difference; type, topic, summary, content and a " +
    "task's session do",
  async (name) => {
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

onBoth("memory-29 over %s: operators and quotes in a query are plain words", async (name) => {
  const profile = new Profile(name);
  await profile.add(fact('She said "hello AND goodbye" to the world'), fact("nothing of the kind"));
  for (const query of [
    '"hello',
    "hello AND",
    "NOT world",
    'hello" OR "',
    "goodbye*",
    "hello NEAR(world, 2)",
    "summary:hello",
    "(hello",
    "-hello ^hello",
    "hello' --",
    "hello; DELETE the world",
    "{hello} +world",
  ]) {
    const found = await profile.summaries({ query });
    expect(found, query).toContain('She said "hello AND goodbye" to the world');
  }
  for (const query of ['"', "***", "AND OR NOT", "()"])
    expect((await profile.recall({ query })).code, query).toBe("ok");
});

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
