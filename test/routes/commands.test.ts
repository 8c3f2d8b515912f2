/** The commands that speak to a running node: what they print, where their credentials come from, how they fail. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { decodeAuditEvent } from "../../src/format/audit/audit-event.ts";
import { brokenLinks } from "../../src/format/audit/audit-object.ts";
import { palimpsest, type Run, spawned } from "../support/command-runs.ts";
import { freePort } from "../support/node-process.ts";
import { useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const platformKey = "platform-key-of-this-test-0123456789";
const withKey = { SERVICE_PLATFORM_KEY: platformKey };

/** The command in this process. */
async function run(words: readonly string[], env: Record<string, string> = {}, input = ""): Promise<Run> {
  const ran = await palimpsest(words, env, input);
  for (const secret of Object.values(env))
    expect(ran.out + ran.error, "a credential is never written").not.toContain(secret);
  return ran;
}

async function succeed(words: readonly string[], env: Record<string, string> = {}, input = ""): Promise<string> {
  const { code, out, error } = await run(words, env, input);
  expect(code, error).toBe(0);
  return out;
}

describe("against a node with authentication", () => {
  const service = useService({
    SERVICE_AUTH: "on",
    SERVICE_SINGLE_NODE: "1",
    SERVICE_PLATFORM_KEY: platformKey,
    SERVICE_AUDIT_FLUSH_MS: "20",
  });
  const at = (): string[] => ["--address", service().address];

  test("token mint prints a token that works, and nothing else", async () => {
    const token = (
      await succeed(
        ["token", "mint", ...at(), "--namespace", "mint", "--scope", "write", "--expires-in", "60"],
        withKey,
      )
    ).trim();
    expect(token.split(".")).toHaveLength(3);
    const authorization = { authorization: `Bearer ${token}` };
    expect(
      (
        await service().call(
          "POST",
          "/v1/memory/mint/p/memories",
          { memories: [{ type: "event", summary: "x", content: null }] },
          authorization,
        )
      ).status,
    ).toBe(201);
    const own = (await succeed(["token", "mint", ...at(), "--database", "mint--p", "--scope", "read"], withKey)).trim();
    expect(
      (await service().call("POST", "/v1/memory/mint/p/recall", { query: "x" }, { authorization: `Bearer ${own}` }))
        .status,
    ).toBe(200);
  });

  test("policy put, get and clear, of a namespace with the key and of a profile with a token", async () => {
    const namespace = [...at(), "--namespace", "rules"];
    const policy = { audit: { enabled: true }, "x-note": "ours" };
    const file = join(temporaryDirectory(), "policy.json");
    writeFileSync(file, JSON.stringify(policy));
    const put = JSON.parse(await succeed(["policy", "put", ...namespace, "--file", file], withKey));
    expect(put).toMatchObject({ namespace: "rules", revision: 1, policy });
    expect(JSON.parse(await succeed(["policy", "get", ...namespace], withKey))).toEqual(
      (({ warnings: _warned, ...stored }) => stored)(put),
    );
    const token = (await succeed(["token", "mint", ...namespace, "--scope", "admin"], withKey)).trim();
    const both = { ...withKey, PALIMPSEST_TOKEN: token };
    const profile = [...namespace, "--profile", "p"];
    expect(
      JSON.parse(await succeed(["policy", "put", ...profile], both, '{"ai_egress":{"ask":"deny"}}')),
    ).toMatchObject({ profile: "p", override: { ai_egress: { ask: "deny" } } });
    expect(JSON.parse(await succeed(["policy", "clear", ...profile], both))).toMatchObject({ override: null });
    expect(JSON.parse(await succeed(["policy", "clear", ...namespace], both))).toMatchObject({ policy: null });
  });

  test("audit prints every event of all pages as lines that can be checked, and filters", async () => {
    const namespace = [...at(), "--namespace", "told"];
    await succeed(["policy", "put", ...namespace], withKey, '{"audit":{"enabled":true}}');
    const token = (await succeed(["token", "mint", ...namespace, "--scope", "admin"], withKey)).trim();
    const reader = { PALIMPSEST_TOKEN: token };
    for (let n = 0; n < 3; n++) {
      expect(
        (
          await service().call(
            "POST",
            "/v1/memory/told/p/memories",
            { memories: [{ type: "event", summary: `x${n}`, content: null }] },
            { authorization: `Bearer ${token}` },
          )
        ).status,
      ).toBe(201);
    }
    const audit = async (...flags: string[]): Promise<any[]> =>
      (await succeed(["audit", ...namespace, ...flags], reader))
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line));
    await expect.poll(async () => (await audit()).length, { timeout: 5_000 }).toBe(5);
    const events = await audit();
    expect(events.map(({ action }) => action)).toEqual([
      "policy.update",
      "token.mint",
      "memory.ingest",
      "memory.ingest",
      "memory.ingest",
    ]);
    expect(brokenLinks(events.map((event) => decodeAuditEvent(JSON.stringify(event))))).toEqual([]);
    expect(await audit("--limit", "2")).toEqual(events.slice(0, 2));
    expect(await audit("--action", "memory.", "--profile", "p", "--outcome", "ok")).toEqual(events.slice(2));
    expect(
      await audit("--from", String(events[2].ts), "--to", new Date(events[2].ts + 1).toISOString()),
    ).toContainEqual(events[2]);
    const checked = await run(["audit", ...namespace, "--verify"], reader);
    expect(checked).toMatchObject({ code: 0, error: "palimpsest: 5 events follow from each other\n" });
  });

  test("a refusal shows the service's words and its code, and ends with 1", async () => {
    const get = ["policy", "get", ...at(), "--namespace", "nobody"];
    expect(await run(get, withKey)).toEqual({
      code: 1,
      out: "",
      error: "palimpsest: namespace nobody has no policy (not_found)\n",
    });
    const refused = await run(get, { SERVICE_PLATFORM_KEY: "another-key-0123456789" });
    expect(refused.code).toBe(1);
    expect(refused.error).toMatch(/\(unauthorized\)\n$/);
    expect(
      (await run(["policy", "put", ...at(), "--namespace", "nobody"], withKey, '{"audit":{"enabled":"yes"}}')).error,
    ).toContain("audit.enabled");
    expect(
      (await run(["token", "mint", ...at(), "--namespace", "No Name", "--scope", "read"], withKey)).error,
    ).toContain("(invalid_request)");
  });

  test("a credential may lie in a file", async () => {
    const file = join(temporaryDirectory(), "key");
    writeFileSync(file, `${platformKey}\n`);
    const mint = ["token", "mint", ...at(), "--namespace", "filed", "--scope", "read"];
    expect((await succeed([...mint, "--key-file", file])).trim().split(".")).toHaveLength(3);
    expect(
      (await succeed([...mint, "--key-file", file], { SERVICE_PLATFORM_KEY: "another-key-0123456789" }))
        .trim()
        .split("."),
    ).toHaveLength(3);
    expect(await run([...mint, "--key-file", `${file}-none`])).toMatchObject({
      code: 2,
      error: expect.stringContaining("ENOENT"),
    });
  });

  test("as a process of its own", async () => {
    const put = ["policy", "put", ...at(), "--namespace", "piped"];
    const { code, out, error } = await spawned(put, withKey, '{"erasure":{"grace_secs":0}}');
    expect(code, error).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ namespace: "piped", policy: { erasure: { grace_secs: 0 } } });
  });
});

/** A server that answers everything the same; it counts what it is asked. */
async function stranger(
  status: number,
  headers: Record<string, string>,
  body: string,
): Promise<{ readonly address: string; readonly seen: string[] }> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url!);
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

describe("what can go wrong", () => {
  const get = ["policy", "get", "--namespace", "n", "--address"];

  test("nobody is there", async () => {
    const free = `http://127.0.0.1:${await freePort()}`;
    expect(await run([...get, free])).toMatchObject({
      code: 1,
      out: "",
      error: expect.stringContaining(`${free} does not answer`),
    });
  });

  test("another service is there", async () => {
    for (const [status, headers, body] of [
      [200, {}, "<html>"],
      [404, { "content-type": "text/html" }, "no"],
      [200, { "content-type": "application/json" }, "{"],
    ] as const) {
      const { address } = await stranger(status, headers, body);
      const { code, error } = await run([...get, address], withKey);
      expect(code).toBe(1);
      expect(error).toMatch(/^palimpsest: .+\n$/);
    }
  });

  test("a redirect is not followed, so that no credential goes elsewhere", async () => {
    const elsewhere = await stranger(200, { "content-type": "application/json" }, "{}");
    const { address } = await stranger(307, { location: `${elsewhere.address}/stolen` }, "");
    expect((await run([...get, address], withKey)).code).toBe(1);
    expect(elsewhere.seen).toEqual([]);
  });

  test("a stream from which an event was removed", async () => {
    const line = (n: number, prev: string): object => ({
      v: 1,
      id: `01HF7YAT00000000000000000${n}`,
      ts: 1_700_000_000_000,
      node: "01HF7YAT00000000000000000N",
      ns: "n",
      action: "memory.ingest",
      outcome: "ok",
      prev: prev.repeat(64),
    });
    const { address } = await stranger(
      200,
      { "content-type": "application/json" },
      JSON.stringify({ events: [line(1, "0"), line(3, "a")], next_cursor: null, complete: true }),
    );
    expect(await run(["audit", "--namespace", "n", "--address", address])).toMatchObject({ code: 0 });
    const { code, error } = await run(["audit", "--namespace", "n", "--verify", "--address", address]);
    expect({ code, error }).toEqual({
      code: 1,
      error:
        "palimpsest: events were removed or changed before 01HF7YAT000000000000000003 of node " +
        "01HF7YAT00000000000000000N\n",
    });
  });

  test.each([
    ["no target of a token", ["token", "mint", "--scope", "read"], "--database or --namespace"],
    [
      "two targets of a token",
      ["token", "mint", "--scope", "read", "--database", "a", "--namespace", "b"],
      "cannot be used with",
    ],
    ["an unknown scope", ["token", "mint", "--scope", "all", "--namespace", "b"], "read, write, admin"],
    [
      "a lifetime that is none",
      ["token", "mint", "--scope", "read", "--namespace", "b", "--expires-in", "soon"],
      "whole number",
    ],
    ["no namespace", ["audit"], "--namespace"],
    ["a time that is none", ["audit", "--namespace", "n", "--from", "yesterday"], "Unix milliseconds"],
    [
      "a check of some events only",
      ["audit", "--namespace", "n", "--verify", "--action", "memory."],
      "cannot be used with",
    ],
    ["an address that is none", ["policy", "get", "--namespace", "n", "--address", "localhost:1"], "http://host:port"],
    ["a policy that is no JSON", ["policy", "put", "--namespace", "n"], "JSON object"],
    ["a key on the command line", ["policy", "get", "--namespace", "n", "--key", "k"], "unknown option"],
  ])("%s: exit code 2", async (_, words, reason) => {
    const { code, error } = await run(words);
    expect(code).toBe(2);
    expect(error).toContain(reason);
  });
});
