/**
 * The commands of a person against a live node: what they do there, what a program and what a person gets, and how they
 * end. Each run is the whole command line.
 */
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { personCommandNames } from "../../src/server/cli/command-line.ts";
import { palimpsest, type Run, spawned } from "../support/command-runs.ts";
import { freePort } from "../support/node-process.ts";
import { useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const service = useService();

/** A command against the node, on a profile. */
async function run(words: readonly string[], input = "", profile = "cli--ada"): Promise<Run> {
  const env = { PALIMPSEST_ADDRESS: service().address, PALIMPSEST_DATABASE: profile };
  return palimpsest(words, env, input);
}

/** The values that a command prints, one a line. */
async function told(words: readonly string[], input = "", profile?: string): Promise<any[]> {
  const { code, out, error } = await run(words, input, profile);
  expect(code, error).toBe(0);
  return out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as unknown);
}

/** The lines of a table, with ids and times as words of one length. */
async function shown(words: readonly string[], input = "", profile?: string): Promise<string> {
  const { code, out, error } = await run([...words, "--table"], input, profile);
  expect(code, error).toBe(0);
  return out.replaceAll(/mem_[0-9A-Z]{26}/g, "mem_ID").replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\dZ/g, "TIME");
}

describe("memories", () => {
  test("what is remembered is recalled, listed, shown and forgotten", async () => {
    const [first] = await told(["remember", "The", "keeper", "is", "Ada", "--topic", "keeper", "--content", '{"a":1}']);
    expect(first).toMatchObject({ status: "created", superseded: [] });
    const [second] = await told(["remember", "The keeper is Bela", "--topic", "keeper", "--pinned", "--source", "t"]);
    expect(second).toMatchObject({ status: "created", superseded: [first.id] });
    expect(await told(["recall", "keeper"])).toMatchObject([{ memories: [{ id: second.id, topic_key: "keeper" }] }]);
    expect(await told(["list", "--superseded", "--oldest"])).toMatchObject([{ id: first.id }, { id: second.id }]);
    expect(await told(["list", "--since", "2020-01-01T00:00:00Z"])).toMatchObject([{ id: second.id }]);
    expect(await told(["list", "--until", "2020-01-01T00:00:00Z"])).toEqual([]);
    expect(await told(["show", first.id])).toMatchObject([{ content: { a: 1 }, superseded_by: second.id }]);
    expect(await told(["history", "keeper"])).toMatchObject([{ id: first.id }, { id: second.id }]);
    expect(await told(["history", second.id])).toMatchObject([{ id: first.id }, { id: second.id }]);
    expect(await told(["forget", first.id])).toEqual([{ forgotten: 1, ids: [first.id] }]);
    expect((await run(["show", first.id])).code).toBe(3);
    expect(await told(["forget", "--topic", "keeper", "--yes"])).toEqual([{ forgotten: 1, ids: [second.id] }]);
  });

  test("a file of memories is kept line by line, and is not kept twice", async () => {
    const lines = Array.from({ length: 1_203 }, (_, at) =>
      JSON.stringify({ type: "event", summary: `event ${at}`, content: at, topic_key: null, metadata: { n_th: at } }),
    );
    const run1 = await run(["remember", "--file", "-"], lines.join("\n"), "cli--file");
    expect(run1.error).toBe("palimpsest: 1203 created\n");
    expect(run1.out.trim().split("\n")).toHaveLength(1_203);
    const again = await run(["remember", "--file", "-"], `${lines.join("\n")}\n\n`, "cli--file");
    expect(again.error).toBe("palimpsest: 1203 duplicate\n");
    const [found] = await told(["list", "--filter", '{"n_th":7}'], "", "cli--file");
    expect(found).toMatchObject({ summary: "event 7", content: 7, metadata: { n_th: 7 } });
    const wrong = await run(["remember", "--file", "-"], '{"type":"fact","summary":"x","content":1}\nno', "cli--file");
    expect([wrong.code, wrong.error]).toEqual([2, expect.stringContaining("line 2 is no JSON object")]);
  });

  test("tables for a person", async () => {
    await told(["remember", "Ada prefers the light theme", "--topic", "theme"], "", "cli--table");
    await told(["remember", "Ada met Bela in 上海 🏯", "--type", "event", "--pinned"], "", "cli--table");
    expect(await shown(["list"], "", "cli--table")).toBe(
      [
        "ID      TYPE   TOPIC  SUMMARY                      STATE   STORED",
        "mem_ID  event         * Ada met Bela in 上海 🏯    active  TIME",
        "mem_ID  fact   theme  Ada prefers the light theme  active  TIME",
        "",
      ]
        .join("\n")
        .replace("ID      TYPE", `ID${" ".repeat(28 + 2)}TYPE`),
    );
    expect(await shown(["recall", "which", "themes?", "--explain"], "", "cli--table")).toMatch(
      new RegExp(
        "^ 1\\. Ada prefers the light \\[theme\\]\n {4}fact · theme · mem_ID · TIME\n" +
          " {4}\\+ its words: rank 1, score [\\d.]+\n {4}\\+ matched themes, 100 % of the question\n$",
      ),
    );
  });

  test("what came near is told with --explain", async () => {
    const words = "The harbour master keeps the ledger of all ships in the blue tower by the sea".split(" ");
    await told(["remember", ...words], "", "cli--near");
    const answer = await shown(["recall", "ledger", "zeppelins", "quarks", "molasses", "--explain"], "", "cli--near");
    expect(answer).toMatch(/Near, and left out:\n {2}- mem_ID \(holds ledger\): its words: below gate, 0\.\d+ where/);
  });
});

test("states: branches, checkpoints, differences, and the way back", async () => {
  const on = (...words: string[]): Promise<any[]> => told(words, "", "cli--states");
  await on("remember", "one", "--type", "event");
  const [{ txid }] = await on("checkpoint", "create", "first");
  await on("remember", "two", "--type", "event");
  expect(await on("checkpoint", "list")).toMatchObject([{ checkpoint: "first", txid }]);
  expect(await on("diff", "first")).toMatchObject([{ kind: "memory", change: "added" }]);
  expect(await on("list", "--at", "first")).toMatchObject([{ summary: "one" }]);
  expect(await on("branch", "create", "draft", "--at", "first", "--ttl", "600")).toEqual([
    { branch: "draft", parent: "main" },
  ]);
  await on("remember", "three", "--type", "event", "--branch", "draft");
  expect(await on("list", "--branch", "draft", "--oldest")).toMatchObject([{ summary: "one" }, { summary: "three" }]);
  expect(await on("branch")).toMatchObject([{ name: "main" }, { name: "draft", parent: "main" }]);
  expect(await on("diff", "--from-branch", "draft")).toHaveLength(2);
  expect(await on("rewind", "first", "--yes")).toMatchObject([{ rewound_to: txid }]);
  expect(await on("list")).toMatchObject([{ summary: "one" }]);
  const asked = await run(["rewind", "first"], "", "cli--states");
  expect([asked.code, asked.error]).toEqual([2, expect.stringContaining("--yes")]);
  await on("branch", "delete", "draft", "--yes");
  await on("checkpoint", "delete", "first", "--yes");
  expect(await on("checkpoint")).toEqual([]);
});

test("data: statements, turns and files", async () => {
  const on = (words: string[], input = ""): Promise<any[]> => told(words, input, "cli--data");
  await on(["remember", "the first memory makes the database"]);
  await on(["sql", "CREATE TABLE t (a, b)"]);
  expect(await on(["sql", "-"], "INSERT INTO t VALUES (1, 'x'), (2, NULL)")).toMatchObject([{ rows_affected: 2 }]);
  expect(await on(["sql", "SELECT * FROM t WHERE a < ? AND b = ?", "--param", "2", "x"])).toMatchObject([
    { columns: ["a", "b"], rows: [[1, "x"]] },
  ]);
  expect(await shown(["sql", "SELECT * FROM t"], "", "cli--data")).toBe("a  b\n1  x\n2  NULL\n");
  await on(["turns", "add", "chat", "Which theme do I like?"]);
  await on(["turns", "add", "chat", "-", "--role", "assistant"], "The light one.");
  expect(await on(["turns", "list", "chat"])).toMatchObject([{ role: "user" }, { content: "The light one." }]);
  expect(await on(["turns"])).toMatchObject([{ id: "chat", turns: 2 }]);
  expect(await on(["turns", "delete", "chat", "--last", "1", "--yes"])).toEqual([{ deleted: 1 }]);
  expect(await on(["files", "put", "notes/today.md"], "light theme\n")).toMatchObject([{ version: 1 }]);
  const got = await run(["files", "get", "notes/today.md"], "", "cli--data");
  expect([got.out, got.code]).toEqual(["light theme\n", 0]);
  expect(await on(["files"])).toMatchObject([{ path: "notes", kind: "folder" }]);
  expect(await on(["files", "search", "light"])).toMatchObject([{ path: "notes/today.md" }]);
  await on(["files", "move", "notes/today.md", "notes/old.md"]);
  expect(await on(["files", "versions", "notes/old.md"])).toMatchObject([{ change: "moved_here" }]);
  expect(await on(["files", "delete", "notes", "--recursive", "--yes"])).toMatchObject([{ deleted: 1 }]);
  expect((await run(["files", "get", "notes/old.md"], "", "cli--data")).code).toBe(3);
});

test("an erasure is asked for, waited for, and looked at", async () => {
  const on = (...words: string[]): Promise<any[]> => told(words, "", "cli--erase");
  const [{ id }] = await on("remember", "a secret", "--type", "event");
  const [coupon] = await on("erase", "--memory", id, "--yes");
  expect(coupon).toMatchObject({ memory_ids: [id], target: { memory_id: id } });
  expect(await on("erase", coupon.id)).toMatchObject([{ id: coupon.id }]);
  const late = await run(["erase", coupon.id, "--within", "1"], "", "cli--erase");
  expect(late.code === 0 ? late.out : late.error).toMatch(/"receipt"|not completed yet/);
});

test("top tells of a node what it counts", async () => {
  const [view] = await told(["top", "--once", "--every", "1"]);
  expect(view).toMatchObject({ ready: true, calls_waiting: 0, endpoints: expect.any(Array) });
  expect(view.databases_open).toBeGreaterThan(0);
  expect(await shown(["top", "--once", "--every", "1"])).toContain("calls 0 running");
});

describe("what others have stored commands no terminal", () => {
  const hostile = "a\u001b]0;owned\u0007b\u009b2Jc\u202egnp\u200bd\r\ne\u{e0041}f";
  beforeAll(async () => {
    const memories = [
      { type: "fact", summary: hostile, topic_key: "hostile", content: { text: hostile }, source: "\u001bc" },
    ];
    expect((await service().call("POST", "/v1/memory/cli/hostile/memories", { memories })).status).toBe(201);
    const turn = { role: "\u001b[2J", content: hostile };
    expect((await service().call("POST", "/v1/db/cli--hostile/memory/s/turns", turn)).status).toBe(200);
    await service().call("PUT", "/v1/db/cli--hostile/files/x.md", { text: hostile });
  });

  test.each([
    [["list"]],
    [["recall", "a", "--topic", "hostile", "--explain"]],
    [["history", "hostile"]],
    [["turns", "list", "s"]],
    [["files", "search", "owned"]],
    [["sql", "SELECT char(27) || '[2J' AS \"\u001bc\""]],
  ])("%j", async (words) => {
    for (const form of ["--table", "--json"]) {
      const { code, out, error } = await run([...words, form], "", "cli--hostile");
      expect(code, error).toBe(0);
      expect(out.length).toBeGreaterThan(10);
      expect(out + error).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u202e]|\u{e0041}/u);
    }
  });

  test("JSON means the same as before", async () => {
    expect(await told(["list"], "", "cli--hostile")).toMatchObject([{ summary: hostile, content: { text: hostile } }]);
  });

  test("one in full", async () => {
    const [{ id }] = await told(["list"], "", "cli--hostile");
    const out = await shown(["show", id], "", "cli--hostile");
    expect(out).toContain("a\\x1b]0;owned\\x07b\\x9b2Jc\\u{202e}gnp\\u{200b}d\\r\\ne\\u{e0041}f");
  });

  test("nor does a node's refusal", async () => {
    const server = createServer((_, response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: "no\u001b[2J", code: "invalid_request" }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { code, error } = await palimpsest(["list", "--address", `http://127.0.0.1:${port}`]);
    expect([code, error]).toEqual([1, "palimpsest: no\\x1b[2J (invalid_request)\n"]);
  });
});

describe("how they end", () => {
  test.each([
    ["a wrong flag", ["list", "--nonsense"], 2, "--nonsense"],
    ["nothing to remember", ["remember"], 2, "say what to remember"],
    ["a name that is no profile's", ["list", "--database", "plain"], 2, "namespace--profile"],
    ["both ids and conditions", ["forget", "mem_x", "--topic", "t"], 2, "not both"],
    ["a file that is not there", ["remember", "--file", "/nonexistent"], 2, "ENOENT"],
    ["no such memory", ["show", "mem_00000000000000000000000000"], 3, "there is no memory"],
    ["no such branch", ["list", "--branch", "nowhere"], 3, "branch_not_found"],
    ["a request that is not allowed", ["sql", "nonsense"], 1, "invalid_request"],
  ])("%s", async (_, words, code, reason) => {
    const ended = await run(words);
    expect([ended.code, ended.out, ended.error]).toEqual([code, "", expect.stringContaining(reason)]);
  });

  test("a node that does not answer", async () => {
    const address = `http://127.0.0.1:${await freePort()}`;
    const { code, error } = await palimpsest(["list", "--address", address]);
    expect([code, error]).toEqual([5, expect.stringContaining(`${address} does not answer (ECONNREFUSED)`)]);
  });

  test("names of commands are known before they are loaded", async () => {
    const { out } = await palimpsest(["--help"]);
    const [, ofPeople = ""] = /\n(Memories:\n[^]*?)\nOperators:/.exec(out) ?? [];
    const listed = [...ofPeople.matchAll(/^ {2}([a-z|]+) /gm)].flatMap(([, name]) => name!.split("|"));
    expect(listed.toSorted()).toEqual([...personCommandNames].toSorted());
    for (const name of personCommandNames) expect((await palimpsest([name, "--help"])).code, name).toBe(0);
  });

  test.each(
    personCommandNames.filter((name) => !["branch", "checkpoint", "turns", "files", "token", "tokens"].includes(name)),
  )("%s --help has an example", async (name) => {
    expect((await palimpsest([name, "--help"])).out).toContain(`Example:\n  palimpsest ${name}`);
  });
});

describe("connections", () => {
  test("a name keeps an address, a database and a token, for the user alone", async () => {
    const home = temporaryDirectory();
    const env = { XDG_CONFIG_HOME: home };
    const secret = join(home, "token");
    writeFileSync(secret, "a-token-of-this-test\n");
    const made = await palimpsest(
      ["connect", "work", "--address", service().address, "--database", "cli--kept", "--token-file", secret],
      env,
    );
    expect([made.code, made.out]).toEqual([0, ""]);
    const path = join(home, "palimpsest/connections.json");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toContain("a-token-of-this-test");
    expect((await palimpsest(["remember", "kept"], env)).code).toBe(0);
    expect((await palimpsest(["list", "--connection", "work"], env)).out).toContain('"kept"');
    const list = await palimpsest(["connections"], env);
    expect(JSON.parse(list.out)).toEqual({
      name: "work",
      address: service().address,
      database: "cli--kept",
      has_token: true,
      current: true,
    });
    chmodSync(path, 0o644);
    expect(await palimpsest(["list"], env)).toMatchObject({ code: 2, error: expect.stringContaining("chmod 600") });
    chmodSync(path, 0o600);
    expect((await palimpsest(["disconnect", "work"], env)).code).toBe(0);
    expect((await palimpsest(["list", "--connection", "work"], env)).code).toBe(2);
  });

  test("a kept token goes to no other address", async () => {
    const heard: (string | undefined)[] = [];
    const server = createServer(({ headers }, response) => {
      heard.push(headers.authorization);
      response.writeHead(404, { "content-type": "application/json" });
      response.end('{"error":"none","code":"not_found"}');
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const home = temporaryDirectory();
    mkdirSync(join(home, "palimpsest"));
    const kept = { current: "a", connections: { a: { address, token: "kept-token" } } };
    writeFileSync(join(home, "palimpsest/connections.json"), JSON.stringify(kept), { mode: 0o600 });
    const env = { XDG_CONFIG_HOME: home };
    await palimpsest(["list"], env);
    await palimpsest(["list", "--address", address], env);
    await palimpsest(["list"], { ...env, PALIMPSEST_ADDRESS: address });
    await palimpsest(["connect", "a", "--address", address.replace("127.0.0.1", "localhost"), "--no-check"], env);
    expect(readFileSync(join(home, "palimpsest/connections.json"), "utf8")).not.toContain("kept-token");
    expect(heard).toEqual(["Bearer kept-token", undefined, undefined]);
  });
});

test("as a process: JSON in a pipe, and nothing of the engine is loaded", async () => {
  const env = { PALIMPSEST_ADDRESS: service().address, PALIMPSEST_DATABASE: "cli--process" };
  expect((await spawned(["remember", "in a pipe"], env)).code).toBe(0);
  const { out, code } = await spawned(["list"], { ...env, NODE_DEBUG: "" });
  expect([code, JSON.parse(out)]).toMatchObject([0, { summary: "in a pipe" }]);
});
