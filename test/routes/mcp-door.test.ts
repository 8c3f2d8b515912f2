/** Who may come to /mcp, with what, and what is told of it afterwards. */
import { describe, expect, test } from "vitest";
import { platformKey, bearer } from "../support/credentials.ts";
import { useGuarded } from "../support/guarded-service.ts";
import { connectMcp, revisions } from "../support/mcp-client.ts";
import { callWithHost, ok, useService } from "../support/service.ts";

const open = useService({ SERVICE_ALLOWED_ORIGINS: "https://allowed.example", SERVICE_AUDIT_FLUSH_MS: "20" });
const guarded = useGuarded();

const message = (method: string, params: object = {}): object => ({ jsonrpc: "2.0", id: 1, method, params });
const types = { "content-type": "application/json", accept: "application/json, text/event-stream" };

function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return fetch(`${open().address}${path}`, { method: "POST", headers: { ...types, ...headers }, body: text });
}

describe("without authentication", () => {
  test.each([
    ["GET", "/mcp/acme/alice", 405],
    ["DELETE", "/mcp/acme/alice", 405],
    ["POST", "/mcp/acme", 400],
    ["POST", "/mcp/acme/alice/", 400],
    ["POST", "/mcp/acme/alice/more", 400],
    ["POST", "/mcp/Acme/alice", 400],
    ["POST", "/mcp/acme/al--ice", 400],
    ["POST", "/mcp/acme/alice@.x", 400],
    ["POST", "/mcp/acme/%zz", 400],
    ["POST", "/mcp", 400],
    ["POST", "/mcp/acme/alice?tools=all", 400],
    ["POST", "/mcp/acme/alice?tool=full", 400],
    ["POST", "/mcps", 404],
  ])("%s %s is %i, in the envelope", async (method, path, status) => {
    const body = method === "POST" ? JSON.stringify(message("ping")) : null;
    const answer = await fetch(`${open().address}${path}`, { method, headers: types, body });
    expect(answer.status).toBe(status);
    expect(await answer.json()).toMatchObject({ code: status === 404 ? "not_found" : "invalid_request" });
    if (status === 405) expect(answer.headers.get("allow")).toBe("POST");
  });

  test.each([
    ["a batch", [message("ping"), message("ping")], -32600],
    ["an empty batch", [], -32600],
    ["no object", '"ping"', -32600],
    ["null", "null", -32600],
    ["nothing", "", -32700],
    ["no JSON", "{", -32700],
    ["deep brackets", "[".repeat(100_000), -32700],
  ])("a body that is %s is refused in the protocol's own words", async (_, body, code) => {
    const answer = await post("/mcp/acme/alice", body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
  });

  test("other types, compressed bodies and large ones are refused before they are looked at", async () => {
    const ping = message("ping");
    expect((await post("/mcp/acme/alice", ping, { "content-type": "text/plain" })).status).toBe(415);
    expect((await post("/mcp/acme/alice", ping, { "content-encoding": "gzip" })).status).toBe(415);
    const large = await post("/mcp/acme/alice", message("ping", { x: "y".repeat(2 * 1024 * 1024) }));
    expect(large.status).toBe(413);
    expect(await large.json()).toMatchObject({ code: "payload_too_large" });
  });

  test("no foreign name and no foreign page is answered; an allowed page is, and may read the session", async () => {
    const rebound = await callWithHost(open().port, "evil.example", "POST", "/mcp/acme/alice", message("ping"), types);
    expect([rebound.status, rebound.json.code]).toEqual([403, "forbidden"]);
    const ping = message("ping");
    expect((await post("/mcp/acme/alice", ping, { origin: "https://evil.example" })).status).toBe(403);
    const allowed = await post("/mcp/acme/alice", ping, { origin: "https://allowed.example" });
    expect(allowed.status).toBe(200);
    expect(allowed.headers.get("access-control-expose-headers")).toContain("Mcp-Session-Id");
  });

  test("a session id is a name and nothing else, whatever is written into it", async () => {
    const initialize = message("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "Näme\n\u0000of a client", version: "1" },
    });
    const session = (await post("/mcp/acme/named", initialize)).headers.get("mcp-session-id")!;
    expect(Buffer.from(session.slice("client.".length), "base64url").toString()).toBe("Nämeof a client");
    const remember = (summary: string): object =>
      message("tools/call", { name: "remember", arguments: { type: "event", summary } });
    const sessions = [session, "client.%%%", "x", `client.${"A".repeat(4_000)}`];
    for (const [i, id] of sessions.entries())
      expect((await post("/mcp/acme/named", remember(`event ${i}`), { "mcp-session-id": id })).status).toBe(200);
    const { json } = await open().call("GET", "/v1/memory/acme/named/memories?order=asc");
    const sources = (json as { memories: { source: string }[] }).memories.map(({ source }) => source);
    expect(sources.slice(0, 3)).toEqual(["Nämeof a client", "mcp", "mcp"]);
    expect(Buffer.byteLength(sources[3]!)).toBeLessThanOrEqual(256);
  });

  test("a tool's call is audited and counted as the call that it stands for", async () => {
    const at = { ns: "audited", profile: "alice" };
    await open().call("PUT", "/v1/namespaces/audited/policy", { policy: { audit: { enabled: true } } });
    const agent = await connectMcp(`${open().address}/mcp/${at.ns}/${at.profile}`, revisions[0]);
    await agent.ok("remember", { type: "fact", summary: "ZEBRA one" });
    const memories = [{ type: "fact", summary: "ZEBRA two", content: null, source: "test-client" }];
    await ok(
      open()
        .wire("rest")
        .call("MemoryService.Ingest", { ...at, memories }),
    );
    await agent.ok("recall", { query: "ZEBRA" });
    const ingests = async (): Promise<any[]> => {
      const { json } = await open().call("GET", "/v1/namespaces/audited/audit");
      return (json as { events: any[] }).events.filter(({ action }) => action === "memory.ingest");
    };
    await expect.poll(async () => (await ingests()).length).toBe(2);
    const [byTool, byRest] = (await ingests()).map(({ id: _i, ts: _t, txid: _x, prev: _p, ...event }) => event);
    expect(byTool).toEqual(byRest);
    const metrics = await (await fetch(`${open().address}/metrics`)).text();
    expect(metrics).toMatch(/requests_total\{endpoint="MemoryService.Recall",wire="mcp",code="ok"\} 1/);
  });
});

describe("with authentication", () => {
  const at = "/mcp/acme/alice";
  const ping = JSON.stringify(message("ping"));
  const answer = async (path: string, credential: string | undefined, headers = {}): Promise<any> => {
    const { status, headers: got, json } = await postAs(path, credential, headers);
    return { status, code: json?.code, challenge: got.get("www-authenticate") };
  };
  async function postAs(
    path: string,
    credential: string | undefined,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; headers: Headers; json: any }> {
    const url = `${guarded().service.address}${path}`;
    const response = await fetch(url, {
      method: "POST",
      headers: { ...types, ...bearer(credential), ...headers },
      body: ping,
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      json: text.startsWith("{") ? JSON.parse(text) : undefined,
    };
  }

  test("strangers are asked for a token, and others' tokens and the platform key are for something else", async () => {
    expect(await answer(at, undefined)).toEqual({ status: 401, code: "unauthorized", challenge: "Bearer" });
    expect(await answer(at, "garbage")).toMatchObject({ status: 401 });
    expect(await answer(at, platformKey)).toMatchObject({ status: 403, code: "forbidden" });
    const other = await guarded().mint({ ns: "other" }, "admin");
    expect(await answer(at, other)).toMatchObject({ status: 403, code: "forbidden" });
    expect(await answer("/mcp", other)).toMatchObject({ status: 400 });
    const own = await guarded().mint({ ns: "acme" }, "read");
    expect(await answer(at, own)).toMatchObject({ status: 200 });
    expect(await answer(at, own, { origin: "https://evil.example" })).toMatchObject({ status: 403 });
  });

  test.each(revisions)("by %s: a token's scope holds for every tool, and /mcp is its own profile", async (revision) => {
    const ns = `scoped${revisions.indexOf(revision)}`;
    const { address } = guarded().service;
    const writer = await guarded().mint({ ns }, "write");
    const first = await connectMcp(`${address}/mcp/${ns}/alice`, revision, { headers: bearer(writer) });
    await first.ok("remember", { type: "fact", summary: "Alice lives in Bern" });
    const reader = await guarded().mint({ db: `${ns}--alice` }, "read");
    const second = await connectMcp(`${address}/mcp`, revision, { headers: bearer(reader) });
    expect((await second.ok("recall", { query: "where does Alice live?" })).memories).toHaveLength(1);
    const refused = await second.call("remember", { type: "fact", summary: "Alice lives in Rome" });
    expect(refused.code).toBe("forbidden");
    expect(refused.text).toContain("scope write");
    await expect(connectMcp(`${address}/mcp/${ns}/bob`, revision, { headers: bearer(reader) })).rejects.toThrow();
  });
});
