/** The further sets of tools of /mcp: all that `?tools=full` offers, and the graph of `?tools=graph`. */
import { describe, expect, test } from "vitest";
import { connectMcp, type McpClient, revisions } from "../support/mcp-client.ts";
import { useService } from "../support/service.ts";

const service = useService();

async function open(tools: string, of = service().profile()): Promise<McpClient> {
  return connectMcp(`${service().address}/mcp/${of.ns}/${of.profile}?tools=${tools}`, revisions[0]);
}

describe("full", () => {
  test("every tool says what it does, and none is offered twice", async () => {
    const { tools } = await (await open("full")).client.listTools();
    const names = tools.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names).toHaveLength(19);
    const destroying = tools.filter(({ annotations }) => annotations?.destructiveHint).map(({ name }) => name);
    expect(destroying).toEqual(["forget", "rewind"]);
  });

  test("turns are appended, listed and found by their words", async () => {
    const { ok, call } = await open("full");
    const turns = [
      { role: "user", content: "where did we deploy billing?", turn_id: "1" },
      { role: "assistant", content: "billing runs in Frankfurt" },
    ];
    expect(await call("add_turns", { session: "chat", turns })).toMatchObject({ code: "database_not_found" });
    await ok("remember", { type: "event", summary: "It begins" });
    expect((await ok("add_turns", { session: "chat", turns })).turns).toHaveLength(2);
    expect((await ok("list_turns", { session: "chat", last: 1 })).turns).toMatchObject([{ role: "assistant" }]);
    expect((await ok("search_turns", { query: "Frankfurt" })).turns[0]).toMatchObject({ session_id: "chat" });
    expect(await call("add_turns", { session: "chat", turns: [{ role: "user" }] })).toMatchObject({
      code: "invalid_request",
    });
    expect(await call("ask", { question: "where?" })).toMatchObject({ code: "unconfigured" });
  });

  test("a state is named, differs, is forked and comes back", async () => {
    const at = service().profile();
    const { ok, call } = await open("full", at);
    await ok("remember", { type: "event", summary: "before" });
    expect(await ok("checkpoint", { name: "start" })).toMatchObject({ checkpoint: "start" });
    const later = await ok("remember", { type: "event", summary: "after" });
    expect(JSON.stringify((await ok("diff", { from: "start" })).differences)).toContain(later.id);
    expect(await ok("fork", { name: "draft" })).toMatchObject({ branch: "draft" });
    expect(await call("rewind", { to: "start" })).toMatchObject({ code: "invalid_request" });
    await ok("rewind", { to: "start", confirm: true });
    expect((await ok("list_memories")).memories).toMatchObject([{ summary: "before" }]);
    const draft = await open("full", { ...at, profile: `${at.profile}@draft` });
    expect((await draft.ok("list_memories")).memories).toHaveLength(2);
    await draft.ok("checkpoint", { name: "on-draft" });
    const erased = await draft.ok("forget", { id: later.id, mode: "erase", confirm: true });
    expect(await draft.ok("erasure_status", { id: erased.erasure_id })).toMatchObject({ id: erased.erasure_id });
  });

  test("files are written, read in part, edited under a condition and listed", async () => {
    const { ok, call } = await open("full");
    await ok("remember", { type: "event", summary: "It begins" });
    const { hash } = await ok("write_file", { path: "notes/a.md", text: "one\ntwo\nthree\n" });
    expect(await ok("read_file", { path: "notes/a.md", first_line: 2, last_line: 2 })).toMatchObject({ text: "two\n" });
    await ok("edit_file", { path: "notes/a.md", old_text: "two", new_text: "zwei" });
    expect(await call("write_file", { path: "notes/a.md", text: "lost", if_match: hash })).toMatchObject({
      code: "conflict",
    });
    expect((await ok("list_files", { recursive: true })).entries).toMatchObject([{ path: "notes/a.md" }]);
    expect(await call("read_file", { path: "notes/b.md" })).toMatchObject({ code: "not_found" });
  });
});

describe("graph", () => {
  const alice = { name: "Alice", entityType: "person", observations: ["likes tea", "likes tea", "a.b*c"] };
  const acme = { name: "Acme", entityType: "company", observations: [] };

  test("entities, observations and relations are made, found, and deleted", async () => {
    const { ok, call, client } = await open("graph");
    expect((await client.listTools()).tools).toHaveLength(9);
    const nothing = { entities: [], relations: [] };
    expect(await ok("read_graph")).toEqual(nothing);
    expect((await ok("create_entities", { entities: [alice, acme] })).entities).toEqual([
      { ...alice, observations: ["likes tea", "a.b*c"] },
      acme,
    ]);
    expect((await ok("create_entities", { entities: [{ ...alice, entityType: "cat" }] })).entities).toEqual([]);
    const works = { from: "Alice", to: "Acme", relationType: "works at" };
    expect((await ok("create_relations", { relations: [works, works] })).relations).toEqual([works]);
    const observations = [{ entityName: "Alice", contents: ["likes tea", "lives in Bern"] }];
    expect((await ok("add_observations", { observations })).results).toEqual([
      { entityName: "Alice", addedObservations: ["lives in Bern"] },
    ]);
    expect(await call("add_observations", { observations: [{ entityName: "Bob", contents: ["x"] }] })).toMatchObject({
      code: "not_found",
    });
    const whole = await ok("read_graph");
    expect(whole.relations).toEqual([works]);
    expect((await ok("search_nodes", { query: "BERN" })).entities).toMatchObject([{ name: "Alice" }]);
    expect((await ok("search_nodes", { query: "a.b*" })).entities).toHaveLength(1);
    expect((await ok("search_nodes", { query: "a.b*x" })).entities).toEqual([]);
    expect(await ok("open_nodes", { names: ["Acme"] })).toEqual({ entities: [acme], relations: [] });
    await ok("delete_observations", { deletions: [{ entityName: "Alice", observations: ["likes tea"] }] });
    expect((await ok("open_nodes", { names: ["Alice"] })).entities[0].observations).toEqual(["a.b*c", "lives in Bern"]);
    await ok("delete_relations", { relations: [works] });
    expect((await ok("read_graph")).relations).toEqual([]);
    await ok("create_relations", { relations: [works] });
    await ok("delete_entities", { entityNames: ["Acme"] });
    expect(await ok("read_graph")).toMatchObject({ entities: [{ name: "Alice" }], relations: [] });
  });

  test.each([
    ["create_entities", { entities: [{ name: "x" }] }, "entities must be a list of which each is an object whose"],
    ["create_entities", { entities: [{ ...alice, observations: "x" }] }, "observations is a list"],
    ["create_entities", { entities: [{ ...acme, name: "" }] }, "name must be a text"],
    ["create_entities", { entities: Array.from({ length: 101 }, () => acme) }, "entities may hold 100 at once"],
    ["open_nodes", { names: [1] }, "names must be a list of which each is a string"],
    ["search_nodes", {}, "search_nodes needs query"],
  ])("%s refuses what is no graph", async (tool, given, words) => {
    const { call } = await open("graph");
    const { code, text } = await call(tool, given);
    expect(code).toBe("invalid_request");
    expect(text).toContain(words);
  });

  test("agents at once on one entity lose none of each other's observations", { timeout: 60_000 }, async () => {
    const of = service().profile();
    const agents = await Promise.all(Array.from({ length: 8 }, () => open("graph", of)));
    await Promise.all(agents.map(({ ok }) => ok("create_entities", { entities: [acme] })));
    await Promise.all(
      agents.map(async ({ ok }, agent) => {
        for (let i = 0; i < 5; i++)
          await ok("add_observations", { observations: [{ entityName: "Acme", contents: [`${agent}.${i}`] }] });
      }),
    );
    const { entities } = await agents[0]!.ok("read_graph");
    expect(entities).toHaveLength(1);
    expect(entities[0].observations.toSorted()).toEqual(
      agents.flatMap((_, agent) => [0, 1, 2, 3, 4].map((i) => `${agent}.${i}`)).toSorted(),
    );
  });
});
