/** Recall of turns by words over both wires, and the same bytes for the same request wherever the state is. */
import { expect, test } from "vitest";
import { BranchedDatabase } from "../support/branched-database.ts";
import { ok, startService, useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { type Wire, wireNames } from "../support/wires.ts";

const service = useService();

const birds = ["heron", "egret", "kestrel", "parrot", "wren", "falcon"];

async function fill(wire: Wire, ns: string, profile: string): Promise<BranchedDatabase> {
  const long = "and then they talked about something else ".repeat(20);
  const memories = Array.from({ length: 40 }, (_, at) => ({
    type: "event",
    summary: `a ${birds[at % 6]} and a ${birds[(at * 5 + 1) % 6]} were seen`,
    content: at % 7 === 0 ? `${long} ${birds[(at + 3) % 6]} ${long}` : { at },
    embedding: [1, at / 10, 0.5],
  }));
  await ok(wire.call("MemoryService.Ingest", { ns, profile, memories }));
  const database = new BranchedDatabase(wire, `${ns}--${profile}`);
  for (let at = 0; at < 30; at++) {
    await ok(
      database.call("DataService.AppendTurn", {
        session: `s-${at % 3}`,
        role: "user",
        content: `turn ${at} about the ${birds[at % 6]}`,
        ...(at % 2 === 0 ? { embedding: [1, at] } : {}),
      }),
    );
  }
  return database;
}

test.each(wireNames)(
  "over %s turns are searched by words when asked to, beside memories, and the fields are as documented",
  async (name) => {
    const wire = service().wire(name);
    const { ns, profile } = service().profile();
    const database = await fill(wire, ns, profile);
    const recall = async (request: object): Promise<any> =>
      (await ok(wire.call("MemoryService.Recall", { ns, profile, ...request }))).body;
    const said = await recall({ query: "kestrel", search_turns: true, k: 5 });
    expect(said.turns[0]).toEqual({
      session_id: "s-2",
      seq: expect.any(Number),
      role: "user",
      content: expect.stringContaining("kestrel"),
      created_at: expect.any(Number),
    });
    expect(said.memories).toHaveLength(5);
    expect((await recall({ query: "kestrel" })).turns).toEqual([]);
    expect((await recall({ query: "submarine", search_turns: true })).turns).toEqual([]);
    expect(
      (await recall({ query: "kestrel", search_turns: true, session_id: "s-0", min_score: { keyword: 0.9 } })).turns,
    ).toEqual([]);
    await ok(wire.call("MemoryService.EndSession", { ns, profile, sid: "s-2", turns: true }));
    expect((await recall({ query: "kestrel", search_turns: true })).turns).toEqual([]);
    expect(await database.integrity()).toBe("ok");
  },
);

test("the same request at the same state gives the same bytes after a restart and on a fork", async () => {
  const directory = temporaryDirectory();
  let node = await startService({}, directory);
  const database = await fill(node.wire("rest"), "acme", "same");
  const requests = [
    { query: "heron parrot seen", explain: true, k: 20 },
    { query: "heron egret", embedding: [1, 2, 0.5], explain: true },
    { query: "falcon wren", search_turns: true, k: 12, min_score: { keyword: 0 } },
    { query: "falcon", embedding: [1, 3], include_turns: true, search_turns: true },
  ];
  const answers = async (branch: string): Promise<string[]> => {
    const replies = await Promise.all(
      requests.map((request) => node.call("POST", `/v1/memory/acme/same/recall?branch=${branch}`, request)),
    );
    expect(replies.map(({ status }) => status)).toEqual(requests.map(() => 200));
    return replies.map(({ text }) => text);
  };
  const first = await answers("main");
  expect(first.every((text) => text.length > 300)).toBe(true);
  await ok(database.fork("twin"));
  expect(await answers("twin")).toEqual(first);
  await node.close();
  node = await startService({}, directory);
  expect(await answers("main")).toEqual(first);
  expect(await answers("twin")).toEqual(first);
  await node.close();
});
