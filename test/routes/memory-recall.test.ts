/** Recall of typed memory over both wires: the acceptance list's lines on channels, filters and queries. */
import { expect, test } from "vitest";
import { fact, event, task, theme, MemoryProfile } from "../support/memory-profile.ts";
import { ok, useService } from "../support/service.ts";
import { type Reply, type WireName, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

/** A profile of this file's node. */
class Profile extends MemoryProfile {
  constructor(name: WireName, at = service().profile()) {
    super(service().wire(name), at);
  }
}

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
    expect((await ok(profile.recall({ query: "anything" }))).body).toEqual({
      memories: [],
      turns: [],
      txid: 0,
      empty_reason: "nothing_stored",
    });
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
    expect(degraded.body.embedding).toBe("skipped_dimension");
    expect((await ok(profile.recall({ embedding: [1, 0] }))).body).toMatchObject({
      memories: [],
      embedding: "skipped_dimension",
      empty_reason: "vector_skipped",
    });
    expect((await ok(profile.recall({ embedding: [1, 0, 0] }))).body.embedding).toBeUndefined();
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
