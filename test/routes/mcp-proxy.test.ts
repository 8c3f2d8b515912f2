/** The stdio proxy as a program of its own, under the official library's client, in front of a node. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, onTestFinished, test } from "vitest";
import { bearer } from "../support/credentials.ts";
import { useGuarded } from "../support/guarded-service.ts";
import { revisions } from "../support/mcp-client.ts";
import { freePort, serviceEntry } from "../support/node-process.ts";
import { useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const folder = join(import.meta.dirname, "../../packages/mcp");
const main = join(folder, "main.js");
const service = useService();
const guarded = useGuarded();

type Variables = Readonly<Record<string, string>>;

async function connect(args: readonly string[], env: Variables, revision: (typeof revisions)[number]): Promise<Client> {
  const mode = revision === "2026-07-28" ? { pin: revision } : "legacy";
  const client = new Client({ name: "stdio-client", version: "1" }, { versionNegotiation: { mode } });
  onTestFinished(() => client.close());
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [main, ...args], env: { ...env }, stderr: "ignore" }),
  );
  return client;
}

/** Runs the program on lines of input, and gives what it said and how it ended. */
async function run(
  args: readonly string[],
  lines: readonly string[],
  env: Variables = {},
): Promise<{ code: number; out: any[]; told: string }> {
  const child = spawn(process.execPath, [main, ...args], { env: { ...env } });
  let out = "";
  let told = "";
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (told += chunk.toString()));
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  const [code] = (await once(child, "close")) as [number];
  return { code, out: out.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : [])), told };
}

const request = (id: unknown, method: string, params: object = {}): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });

test.each(revisions)("by %s a client of stdio has the node's tools and resources", async (revision) => {
  const { ns, profile } = service().profile();
  const client = await connect([`${ns}/${profile}`, "--url", service().address], {}, revision);
  expect((await client.listTools()).tools).toHaveLength(6);
  const call = (name: string, given: Record<string, unknown>): Promise<any> =>
    client.callTool({ name, arguments: given });
  const stored = await call("remember", { type: "fact", summary: "Zürich is far — ✓" });
  expect(stored.structuredContent).toMatchObject({ status: "created" });
  const found = await call("recall", { query: "Zürich" });
  expect(found.structuredContent.memories).toMatchObject([{ summary: "Zürich is far — ✓", source: "stdio-client" }]);
  expect((await call("forget", { id: "mem_none" })).isError).toBe(true);
  const { resources } = await client.listResources();
  expect((await client.readResource({ uri: resources[0]!.uri })).contents).toHaveLength(1);
  await expect(client.callTool({ name: "Ünknown" })).rejects.toMatchObject({ code: -32602 });
});

test("the token comes from the environment, and a refusal of the node is told in its words", async () => {
  const { address } = guarded().service;
  const token = await guarded().mint({ ns: "stdio" }, "write");
  const list = request(1, "tools/list");
  const refused = await run(["stdio/alice", "--url", address], [list]);
  expect(refused.out).toMatchObject([{ id: 1, error: { message: expect.stringMatching(/^unauthorized: /) } }]);
  const given = await run(["stdio/alice", "--url", address], [list], { PALIMPSEST_TOKEN: token });
  expect(given.out).toMatchObject([{ id: 1, result: { tools: expect.any(Array) } }]);
  const other = await run([], [list], { PALIMPSEST_TOKEN: token, PALIMPSEST_URL: address, PALIMPSEST_PROFILE: "x/y" });
  expect(other.out).toMatchObject([{ id: 1, error: { message: expect.stringMatching(/^forbidden: /) } }]);
  expect(bearer(token)["authorization"]).toContain(given.out.length === 1 ? token : "");
});

test("many requests at once have an answer each, and all of them are waited for when the input ends", async () => {
  const { ns, profile } = service().profile();
  const remember = (id: number): string =>
    request(id, "tools/call", { name: "remember", arguments: { type: "event", summary: `thing ${id}` } });
  const lines = Array.from({ length: 100 }, (_, id) => remember(id));
  const { out, code } = await run([`${ns}/${profile}`, "--url", service().address], lines);
  expect(code).toBe(0);
  expect(out.map(({ id }) => id).toSorted((one, other) => one - other)).toEqual(lines.map((_, id) => id));
  expect(out.every(({ result }) => result.isError !== true)).toBe(true);
});

test("what is no message is refused by itself, and the next one is answered", async () => {
  const long = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "x".repeat(5 * 1024 * 1024) });
  const lines = ["{", "[]", "null", "", long, request(2, "ping"), '{"jsonrpc":"2.0","method":"notifications/none"}'];
  const { out } = await run(["a/b", "--url", service().address], lines);
  expect(out.filter(({ id }) => id === null).map(({ error }) => error.code)).toEqual(Array(4).fill(-32700));
  expect(out.filter(({ id }) => id === 2)).toMatchObject([{ result: {} }]);
});

test.each([
  [["Acme/alice"], "is no NAMESPACE/PROFILE"],
  [["acme"], "is no NAMESPACE/PROFILE"],
  [["--url"], "--url needs a value"],
  [["--url", "ftp://x"], "must be http or https"],
  [["--port", "1"], "there is no option --port"],
  [["--start", "--url", "http://memory.example"], "--start is for a node on this machine"],
])("%j is refused before anything is called", async (args, words) => {
  const { code, told, out } = await run(args, [request(1, "ping")]);
  expect([code, out]).toEqual([2, []]);
  expect(told).toContain(words);
});

test("where no node answers each request is told so, and none is started unasked", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const { out, code } = await run(["--url", url], [request(1, "ping"), request("b", "ping")]);
  expect(code).toBe(0);
  for (const { error } of out) expect(error.message).toContain("no node answers");
  expect(out.map(({ id }) => id)).toEqual([1, "b"]);
  const missing = await run(["--url", url, "--start"], [request(1, "ping")], {
    PALIMPSEST_COMMAND: join(temporaryDirectory(), "nothing"),
    PALIMPSEST_DATA: temporaryDirectory(),
  });
  expect(missing.out).toMatchObject([{ id: 1, error: { message: expect.stringContaining("cannot be run") } }]);
});

test(
  "several that start a node at once all come to the same one, which outlives them",
  { timeout: 60_000 },
  async () => {
    const data = join(temporaryDirectory(), "data");
    const command = join(temporaryDirectory(), "palimpsest");
    // Notes the process, so that the test can end it.
    writeFileSync(command, `#!/bin/sh\necho $$ >>"$0.pids"\nexec "${process.execPath}" "${serviceEntry}" "$@"\n`);
    chmodSync(command, 0o755);
    onTestFinished(() => {
      for (const pid of readFileSync(`${command}.pids`, "utf8").trim().split("\n"))
        try {
          process.kill(Number(pid), "SIGTERM");
        } catch {
          // It ended when it found the port taken.
        }
    });
    const url = `http://127.0.0.1:${await freePort()}`;
    const env = { PALIMPSEST_COMMAND: command, PALIMPSEST_DATA: data, PATH: process.env["PATH"] ?? "" };
    const remember = (id: number): string =>
      request(id, "tools/call", { name: "remember", arguments: { type: "event", summary: `started ${id}` } });
    const all = await Promise.all([1, 2, 3].map((id) => run(["--url", url, "--start"], [remember(id)], env)));
    for (const { out, told } of all)
      expect(out, told).toMatchObject([{ result: { structuredContent: { status: "created" } } }]);
    expect(existsSync(join(data, "node.log"))).toBe(true);
    const answer = await fetch(`${url}/v1/memory/agents/default/memories`);
    expect(((await answer.json()) as { memories: object[] }).memories).toHaveLength(3);
  },
);

test("the package holds every module that it loads, and nothing of others, nothing that is compiled", () => {
  const { files, scripts, ...manifest } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  for (const kind of ["dependencies", "optionalDependencies", "peerDependencies"])
    expect(manifest[kind]).toBeUndefined();
  expect(scripts, "nothing is built where it is installed").toBeUndefined();
  for (const file of files as string[]) expect(file).toMatch(/\.js$|^(README\.md|LICENSE)$/);
  for (const file of (files as string[]).filter((name) => name.endsWith(".js"))) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, specifier] of text.matchAll(/^import .* from "([^"]+)";$/gm))
      expect(specifier!.startsWith("node:") || files.includes(specifier!.slice(2)), `${file}: ${specifier}`).toBe(true);
  }
});
