import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import { create } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import type { HttpBody } from "../../../../gen/google/api/httpbody_pb.ts";
import type {
  FindDocsRequest,
  ListKeysRequest,
  PutValueRequest,
  UpsertVectorRequest,
} from "../../../../gen/palimpsest/v1/data_pb.ts";
import { type IngestRequest, MemorySchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import { jsonText, setJson } from "../../../../src/service/call/exact-json.ts";
import { emptyAnswer, type EchoNode, openEcho } from "../../../support/echo-node.ts";
import { discardedBytesMax } from "../../../../src/server/wire/body.ts";

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  readonly json: any;
}

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array | undefined;
}

/** A bare request: fetch would tidy the path, the Host and the headers that these tests are about. */
async function send({ port }: EchoNode, { method = "GET", path, headers = {}, body }: Sent): Promise<Answer> {
  const request = http.request({ host: "127.0.0.1", port, method, path, headers, agent: false });
  request.end(body);
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return {
    status: response.statusCode!,
    headers: response.headers,
    text,
    json: text !== "" && response.headers["content-type"] === "application/json" ? JSON.parse(text) : undefined,
  };
}

/** Resolves when the request is over, for whatever reason. */
function closing(request: http.ClientRequest): Promise<void> {
  request.on("error", () => {});
  return new Promise((resolve) => request.on("close", resolve));
}

const post = (node: EchoNode, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  send(node, {
    method: "POST",
    path,
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

const refusal = (code: string, error: RegExp | string) => ({
  code,
  error: typeof error === "string" ? error : expect.stringMatching(error),
});
const memories = "/v1/memory/acme/bot/memories";

describe("routes", () => {
  test("path, query and body are folded into the request", async () => {
    const node = await openEcho();
    const answer = await post(node, `${memories}?branch=dev`, {
      memories: [{ type: "fact", summary: "s", content: { a: 1 }, ttl: 5, embedding: [0.5, 1] }],
    });
    expect([answer.status, answer.json, answer.headers["service-txid"]]).toEqual([201, { results: [], txid: 0 }, "7"]);
    const { endpoint, message } = node.calls[0]!;
    expect(endpoint.name).toBe("MemoryService.Ingest");
    const {
      ns,
      profile,
      branch,
      memories: [first],
    } = message as IngestRequest;
    expect([ns, profile, branch]).toEqual(["acme", "bot", "dev"]);
    expect([first!.type, first!.ttl, first!.embedding?.values, jsonText(first!, "content")]).toEqual([
      "fact",
      5,
      [0.5, 1],
      '{"a":1}',
    ]);
  });

  test("hardening-09: names are percent-decoded once, slashes in them are theirs", async () => {
    const node = await openEcho();
    for (const key of ["a/b", "a?b", "a&b=c", "a#b", "a b", "a+b", "a%2Fb", "..", "ключ", "\u{0}", "%"]) {
      const answer = await send(node, { path: `/v1/db/d/kv/n/${encodeURIComponent(key)}` });
      expect(answer.status).toBe(200);
      expect((node.calls.at(-1)!.message as unknown as { key: string }).key).toBe(key);
    }
    await send(node, { path: "/v1/db/d/kv/n?prefix=a+b%2Bc&limit=5&cursor=%C3%A9" });
    expect(node.calls.at(-1)!.message as ListKeysRequest).toMatchObject({ prefix: "a b+c", limit: 5, cursor: "é" });
  });

  test.each([
    ["/v1/db/d/kv/n/%", "invalid_request"],
    ["/v1/db/d/kv/n/%zz", "invalid_request"],
    ["/v1/db/d/kv/n/%ff", "invalid_request"],
    ["/v1/db/d/kv/n?prefix=%", "invalid_request"],
    ["/v1/db/d/kv/n/", "not_found"],
    ["/v1/db//kv/n/k", "not_found"],
    ["/v1/databases/", "not_found"],
    ["//v1/databases", "not_found"],
    ["/v1/nothing", "not_found"],
    ["/V1/databases", "not_found"],
    ["/", "not_found"],
    ["*", "not_found"],
    ["http://other/v1/databases", "not_found"],
    ["/v1/db/d/kv/n/a/b", "not_found"],
  ])("GET %s is %s", async (path, code) => {
    const node = await openEcho();
    const answer = await send(node, { path });
    expect(answer.json).toEqual(refusal(code, /./));
    expect(answer.status).toBe(code === "not_found" ? 404 : 400);
    expect(node.calls).toHaveLength(0);
  });

  test("a method that a path does not have is 405 with those that it has", async () => {
    const node = await openEcho();
    for (const [method, path, allow] of [
      ["PUT", "/v1/databases", "GET, POST"],
      ["HEAD", "/v1/databases", "GET, POST"],
      ["POST", "/v1/db/d/kv/n/k", "DELETE, GET, PUT"],
      ["POST", "/health", "GET, HEAD"],
    ] as const) {
      const answer = await send(node, { method, path });
      expect([answer.status, answer.headers["allow"]]).toEqual([405, allow]);
      if (method !== "HEAD") expect(answer.json).toEqual(refusal("invalid_request", /^this path takes /));
    }
  });

  test("204 has the headers and no body", async () => {
    const answer = await send(await openEcho(), { method: "DELETE", path: `${memories}/mem_1` });
    expect([answer.status, answer.text, answer.headers["service-txid"], answer.headers["content-length"]]).toEqual([
      204,
      "",
      "7",
      undefined,
    ]);
  });
});

describe("query parameters", () => {
  test.each([
    ["/v1/db/d/kv/n?limt=5", /^limt is not a query parameter of this route; allowed here: prefix, limit, cursor$/],
    ["/v1/databases?x=1", /allowed here: none$/],
    ["/v1/db/d/kv/n?limit=", /^limit must be a whole number that is not negative$/],
    ["/v1/db/d/kv/n?limit=1.0", /^limit must be a whole number/],
    ["/v1/db/d/kv/n?limit=-1", /^limit must be a whole number/],
    ["/v1/db/d/kv/n?limit=4294967296", /^limit must be a whole number/],
    ["/v1/db/d/kv/n?limit=1&limit=2", /^limit is given twice with different values$/],
    ["/v1/namespaces/n/audit?from=9223372036854775808", /^from must be an integer of 64 bits$/],
    ["/v1/namespaces/n/audit?from=1e3", /^from must be an integer of 64 bits$/],
    ["/v1/db/d/kv/n?%3Cscript%3E%0a=5", /^"<script>\\n" is not/],
  ])("%s is refused", async (path, error) => {
    expect((await send(await openEcho(), { path })).json).toEqual(refusal("invalid_request", error));
  });

  test("truth values, 64-bit integers, the same value twice, empty pairs", async () => {
    const node = await openEcho();
    await send(node, { method: "DELETE", path: "/v1/memory/a/b/sessions/s?turns=true&branch=x&branch=x&&" });
    expect(node.calls[0]!.message).toMatchObject({ turns: true, branch: "x", sid: "s" });
    await send(node, { path: "/v1/namespaces/n/audit?from=-9223372036854775808&to=9007199254740993" });
    expect(node.calls[1]!.message).toMatchObject({ from: -(2n ** 63n), to: 9007199254740993n });
    expect((await send(node, { method: "DELETE", path: "/v1/memory/a/b/sessions/s?turns=yes" })).json).toEqual(
      refusal("invalid_request", "turns must be true or false"),
    );
  });
});

describe("bodies", () => {
  const fact = { type: "fact", summary: "s", content: null };
  test.each<[string, unknown, RegExp]>([
    [memories, {}, /^memories is required$/],
    [memories, { memories: null }, /^memories is required$/],
    [memories, { memories: {} }, /^memories must be an array$/],
    [memories, { memories: [fact, null] }, /^memories\[1\] must be an object$/],
    [memories, { memories: [{ summary: "s" }] }, /^memories\[0\]\.type is required$/],
    [
      memories,
      { memories: [fact, fact, fact, { ...fact, ttl: 1.5 }] },
      /^memories\[3\]\.ttl must be a whole number that is not negative$/,
    ],
    [
      memories,
      { memories: [{ ...fact, ttl: "5" }] },
      /^memories\[0\]\.ttl must be a whole number that is not negative/,
    ],
    [memories, { memories: [{ ...fact, ttl: -1 }] }, /^memories\[0\]\.ttl must be a whole number that is not negative/],
    [memories, { memories: [{ ...fact, summary: 5 }] }, /^memories\[0\]\.summary must be a string$/],
    [
      memories,
      { memories: [{ ...fact, sumary: "x" }] },
      /^memories\[0\]\.sumary is not a field of this request; allowed here: type, summary, content, topic_key/,
    ],
    [memories, { memories: [{ ...fact, sessionId: "x" }] }, /^memories\[0\]\.sessionId is not a field/],
    [
      memories,
      { memories: [{ ...fact, embedding: [0.1, "x"] }] },
      /^memories\[0\]\.embedding\[1\] must be a number in range$/,
    ],
    [
      memories,
      { memories: [{ ...fact, embedding: [1e39] }] },
      /^memories\[0\]\.embedding\[0\] must be a number in range$/,
    ],
    [memories, { memories: [{ ...fact, embedding: { values: [1] } }] }, /^memories\[0\]\.embedding must be an array$/],
    [memories, { memories: [], branch: "x" }, /^branch is not a field of this request; allowed here: memories$/],
    [memories, { memories: [], ns: "x" }, /^ns is not a field/],
    [memories, [], /^the body must be an object$/],
    [memories, "5", /^the body must be an object$/],
    [memories, "", /^memories is required$/],
    [memories, '{"memories":[{"type":"fact","summary":"\\ud800"}]}', /^memories\[0\]\.summary must be Unicode text/],
    [
      memories,
      `{"memories":[{"type":"fact","summary":"s","content":${"[".repeat(65)}${"]".repeat(65)}}]}`,
      /^memories\[0\]\.content is nested deeper than 64 levels$/,
    ],
    [memories, '{"memories":[],"__proto__":{}}', /^__proto__ is not a field/],
    [memories, '{"memories":[],"constructor":{}}', /^constructor is not a field/],
    [memories, '{"memories":[]', /^the body is not JSON/],
    [memories, '{"memories": secret}', /^the body is not JSON(: it goes wrong at character \d+)?$/],
    ["/v1/db/d/docs/c/insert", { docs: [{}, []] }, /^docs must be an array of objects$/],
    ["/v1/db/d/docs/c/find", { filter: [] }, /^filter must be an object$/],
    ["/v1/db/d/docs/c/find", { sort: { a: 1.5 } }, /^sort\.a must be a whole number$/],
    ["/v1/db/d/docs/c/find", { sort: [1] }, /^sort must be an object$/],
    ["/v1/db/d/docs/c/update", { filter: {} }, /^update is required$/],
    ["/v1/db/d/docs/c/update", { filter: {}, update: {}, multi: 1 }, /^multi must be true or false$/],
    ["/v1/db/d/docs/c/update", { filter: 12345678901234567890, update: {} }, /^filter must be an object$/],
    ["/v1/db/d/branches/b/rewind", { to: true }, /^to must be a string$/],
    ["/v1/db/d/sql", { stmts: [{ q: "x", params: 1 }, { params: [] }] }, /^stmts\[1\]\.q is required$/],
    ["/v1/memory/a/b/recall", { min_score: { keyword: "x" } }, /^min_score\.keyword must be a number in range$/],
    ["/v1/memory/a/b/recall", { types: ["fact", 1] }, /^types\[1\] must be a string$/],
    ["/v1/memory/a/b/recall", { types: {} }, /^types must be an array$/],
  ])("POST %s %j is refused", async (path, body, error) => {
    const node = await openEcho();
    const answer = await post(node, path, body);
    expect([answer.status, answer.json]).toEqual([400, refusal("invalid_request", error)]);
    expect(answer.text).not.toContain("secret");
    expect(node.calls).toHaveLength(0);
  });

  test("null is absence, but a value where any JSON is", async () => {
    const node = await openEcho();
    await post(node, memories, { memories: [{ ...fact, topic_key: null, embedding: null, ttl: null, content: null }] });
    const [first] = (node.calls[0]!.message as IngestRequest).memories;
    expect([first!.topicKey, first!.embedding, first!.ttl, jsonText(first!, "content")]).toEqual([
      undefined,
      undefined,
      undefined,
      "null",
    ]);
    await send(node, {
      method: "PUT",
      path: "/v1/namespaces/n/policy",
      headers: { "content-type": "application/json" },
      body: '{"policy":null}',
    });
    expect(jsonText(node.calls[1]!.message, "policy")).toBe("null");
    const missing = await send(node, {
      method: "PUT",
      path: "/v1/namespaces/n/policy",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    expect(missing.json).toEqual(refusal("invalid_request", "policy is required"));
  });

  test("an explicitly empty list differs from none", async () => {
    const node = await openEcho();
    await post(node, "/v1/memory/a/b/recall", { query: "q", types: [] });
    await post(node, "/v1/memory/a/b/recall", { query: "q" });
    expect(node.calls.map((call) => (call.message as { types?: { values: string[] } }).types?.values)).toEqual([
      [],
      undefined,
    ]);
  });

  test("integers beyond a double reach the handler digit by digit", async () => {
    const node = await openEcho();
    await post(node, "/v1/db/d/docs/c/insert", '{"docs":[{"id":9223372036854775807, "f":0.10}]}');
    await post(node, "/v1/db/d/docs/c/find", '{"filter":{"id":9007199254740993},"sort":{"b":1,"a":-1},"limit":3}');
    await post(node, "/v1/db/d/branches/b/rewind", '{"to":9007199254740993}');
    expect(jsonText(node.calls[0]!.message, "docs")).toBe('[{"id":9223372036854775807,"f":0.1}]');
    expect(jsonText(node.calls[1]!.message, "filter")).toBe('{"id":9007199254740993}');
    expect((node.calls[1]!.message as FindDocsRequest).sort).toMatchObject([
      { path: "b", direction: 1 },
      { path: "a", direction: -1 },
    ]);
    expect((node.calls[2]!.message as unknown as { to: string }).to).toBe("9007199254740993");
    const large = `{"id":"a","embedding":[1,${"9".repeat(30)}]}`;
    expect((await post(node, "/v1/db/d/vectors/c", large)).status).toBe(200);
    expect((node.calls[3]!.message as UpsertVectorRequest).embedding!.values).toEqual([1, 1e30]);
  });

  test("of a name given twice the last counts", async () => {
    const node = await openEcho();
    await post(node, "/v1/databases", '{"name":"a","name":"b"}');
    expect(node.calls[0]!.message).toMatchObject({ name: "b" });
  });

  test("bytes that are not UTF-8, and a byte order mark, are refused", async () => {
    const node = await openEcho();
    const headers = { "content-type": "application/json" };
    for (const body of [
      Buffer.from([0x7b, 0xff, 0x7d]),
      Buffer.from('"\ud800"', "utf16le"),
      Buffer.from([0xed, 0xa0, 0x80]),
    ]) {
      expect((await send(node, { method: "POST", path: "/v1/databases", headers, body })).status).toBe(400);
    }
    expect(
      (await send(node, { method: "POST", path: "/v1/databases", headers, body: '\u{feff}{"name":"a"}' })).json,
    ).toEqual(refusal("invalid_request", /^the body is not JSON/));
  });

  test("content types: JSON in UTF-8 or nothing", async () => {
    const node = await openEcho();
    const status = async (type: string | undefined, body: string) =>
      (
        await send(node, {
          method: "POST",
          path: "/v1/databases",
          headers: type === undefined ? {} : { "content-type": type },
          body,
        })
      ).status;
    const body = '{"name":"a"}';
    for (const type of [
      "application/json",
      "Application/JSON; charset=utf-8",
      'application/json;charset="UTF-8"',
      "application/json;",
    ])
      expect([type, await status(type, body)]).toEqual([type, 201]);
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/json; charset=utf-16",
      "application/jsonp",
      "text/application/json",
      "application/json, text/plain",
      undefined,
      "",
    ])
      expect([type, await status(type, body)]).toEqual([type, 415]);
    // Nothing is required of a sync, so neither is a body nor its type.
    expect((await send(node, { method: "POST", path: "/v1/db/d/sync" })).status).toBe(200);
    expect(
      (
        await send(node, {
          method: "POST",
          path: "/v1/db/d/sync",
          headers: { "content-type": "application/x-www-form-urlencoded" },
        })
      ).status,
    ).toBe(415);
    const zipped = await post(node, "/v1/databases", body, { "content-encoding": "gzip" });
    expect([zipped.status, zipped.json]).toEqual([
      415,
      refusal("invalid_request", "content-encoding must be identity"),
    ]);
  });

  test("a raw value is any bytes of any type, and comes back as stored", async () => {
    const bytes = Buffer.from([0, 255, 34, 10, 13, 0]);
    const node = await openEcho({
      dispatch: (call) => Promise.resolve(emptyAnswer(call, { contentType: "text/plain", data: bytes })),
    });
    const put = await send(node, {
      method: "PUT",
      path: "/v1/db/d/kv/n/k?ttl=0",
      headers: { "content-type": "image/png" },
      body: bytes,
    });
    expect(put.status).toBe(200);
    const { value, ttl } = node.calls[0]!.message as PutValueRequest;
    expect([Buffer.from(value!.data), value!.contentType, ttl]).toEqual([bytes, "image/png", 0]);
    const response = await fetch(`${node.address}/v1/db/d/kv/n/k`);
    expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes);
    expect([
      response.headers.get("content-type"),
      response.headers.get("x-content-type-options"),
      response.headers.get("service-txid"),
    ]).toEqual(["text/plain", "nosniff", "7"]);
    await send(node, { method: "PUT", path: "/v1/db/d/kv/n/k" });
    expect((node.calls.at(-1)!.message as { value?: HttpBody }).value?.data).toHaveLength(0);
  });
});

describe("sizes", () => {
  test("hardening-01: 2 MiB on a control route is 413, announced or not, and the connection goes on", async () => {
    const node = await openEcho();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const body = Buffer.alloc(2 * 1024 * 1024, 32);
    for (const length of [{ "content-length": String(body.length) }, { "transfer-encoding": "chunked" }]) {
      const request = http.request({
        port: node.port,
        host: "127.0.0.1",
        method: "POST",
        path: "/v1/databases",
        agent,
        headers: { "content-type": "application/json", ...length },
      });
      request.end(body);
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      let text = "";
      for await (const chunk of response) text += String(chunk);
      expect([response.statusCode, JSON.parse(text)]).toEqual([413, refusal("payload_too_large", /1048576 bytes/)]);
    }
    const [socket, ...others] = Object.values(agent.freeSockets).flat();
    expect([socket?.destroyed, others.length]).toEqual([false, 0]);
    expect(node.calls).toHaveLength(0);
  });

  test("a route that carries data takes the configured size and one byte more is 413", async () => {
    const node = await openEcho({ doors: { dataBodyBytesMax: 2 * 1024 * 1024 } });
    const put = (bytes: number) => send(node, { method: "PUT", path: "/v1/db/d/kv/n/k", body: Buffer.alloc(bytes) });
    expect((await put(2 * 1024 * 1024)).status).toBe(200);
    expect((await put(2 * 1024 * 1024 + 1)).status).toBe(413);
  });

  test("over HTTP/2 a refused body leaves the session whole", async () => {
    const node = await openEcho();
    const session = http2.connect(node.address);
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": "/v1/databases", "content-type": "application/json" });
    stream.on("error", () => {});
    stream.end(Buffer.alloc(3 * 1024 * 1024, 32));
    const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    expect(headers[":status"]).toBe(413);
    stream.resume();
    const next = session.request({ ":path": "/health" });
    let text = "";
    for await (const chunk of next) text += String(chunk);
    expect(text).toBe("ok");
  });

  test("a refused body that never ends is cut", async () => {
    const node = await openEcho();
    const request = http.request({
      port: node.port,
      host: "127.0.0.1",
      method: "POST",
      path: "/v1/databases",
      agent: false,
      headers: { "content-type": "application/json" },
    });
    const closed = closing(request);
    const chunk = Buffer.alloc(1024 * 1024);
    let sent = 0;
    while (!request.destroyed) {
      sent += chunk.length;
      await Promise.race([closed, new Promise((resolve) => request.write(chunk, resolve))]);
      expect(sent).toBeLessThan(2 * discardedBytesMax);
    }
  });

  test("a client that goes away in the middle is nobody's fault", async () => {
    const node = await openEcho();
    const request = http.request({
      port: node.port,
      host: "127.0.0.1",
      method: "POST",
      path: "/v1/databases",
      agent: false,
      headers: { "content-type": "application/json", "content-length": "10" },
    });
    const closed = closing(request);
    request.write("{", () => request.destroy());
    await closed;
    expect((await send(node, { path: "/health" })).status).toBe(200);
    expect([node.calls.length, node.faults.length]).toEqual([0, 0]);
  });
});

describe("answers", () => {
  test("nulls, absences, lists and exact numbers are written as the interface has them", async () => {
    const memory = create(MemorySchema, {
      id: "mem_1",
      type: "fact",
      summary: 'a "b"\n\u{2028}',
      createdAt: 2n ** 60n,
      score: 0.25,
      channels: { values: [] },
    });
    setJson(memory, "content", '{"id":9223372036854775807}');
    const node = await openEcho({ dispatch: (call) => Promise.resolve({ ...emptyAnswer(call), message: memory }) });
    const { text } = await send(node, { path: `${memories}/mem_1` });
    expect(text.trimEnd()).toBe(
      `{"id":"mem_1","type":"fact","topic_key":null,"summary":${JSON.stringify('a "b"\n\u{2028}')},` +
        '"content":{"id":9223372036854775807},"keywords":null,"session_id":null,"source":null,' +
        '"created_at":1152921504606846976,"superseded_by":null,"score":0.25,"channels":[]}',
    );
  });

  test("a map and nested messages", async () => {
    const fields = {
      id: "ers_1",
      status: "blocked",
      target: { sessionId: "s" },
      erasedTxid: { main: 5n, dev: 9n },
      blockedBy: { branches: ["dev"] },
    };
    const node = await openEcho({ dispatch: (call) => Promise.resolve(emptyAnswer(call, fields)) });
    const { json } = await send(node, { path: "/v1/memory/a/b/erasures/ers_1" });
    expect(json).toEqual({
      id: "ers_1",
      status: "blocked",
      target: { session_id: "s" },
      memory_ids: [],
      requested_at: 0,
      grace_until: 0,
      erased_txid: { main: 5, dev: 9 },
      blocked_by: { checkpoints: [], branches: ["dev"] },
      completed_at: null,
    });
  });

  test.each([
    [new ServiceError("unauthorized", "no token"), 401, { "www-authenticate": "Bearer" }],
    [new ServiceError("overloaded", "busy", { retryAfterSecs: 2.2 }), 429, { "retry-after": "3" }],
    [new ServiceError("overloaded", "busy"), 429, { "retry-after": "1" }],
    [new ServiceError("unavailable", "later"), 503, { "retry-after": "1" }],
    [new ServiceError("unconfigured", "no key"), 503, { "retry-after": undefined }],
    [new ServiceError("branch_not_found", "no branch", { txid: 12 }), 404, { "service-txid": "12" }],
    [new ServiceError("request_timeout", "too slow"), 408, {}],
    [new ServiceError("conflict", "loosens"), 409, {}],
  ])("hardening-06: %s", async (error, status, headers) => {
    const node = await openEcho({ dispatch: () => Promise.reject(error) });
    const answer = await send(node, { path: "/v1/databases" });
    expect([answer.status, answer.json]).toEqual([status, { error: error.message, code: error.code }]);
    for (const [name, value] of Object.entries(headers)) expect([name, answer.headers[name]]).toEqual([name, value]);
    expect(node.faults).toEqual([]);
  });

  test("a bug shows an id, not its text, and is in the log; a fault of storage is unavailable", async () => {
    const bug = new TypeError("secret of ours");
    const node = await openEcho({ dispatch: () => Promise.reject(bug) });
    const answer = await send(node, { path: "/v1/databases" });
    expect([answer.status, answer.json]).toEqual([500, refusal("internal", /^internal error [0-9A-Z]{26}:/)]);
    expect(answer.text).not.toContain("secret");
    expect(node.faults).toEqual([bug]);
    const storage = await openEcho({ dispatch: () => Promise.reject(new StoreError("unavailable", "secret host")) });
    expect(await send(storage, { path: "/v1/databases" })).toMatchObject({
      status: 503,
      json: { code: "unavailable" },
      headers: { "retry-after": "1" },
    });
    const corrupt = await openEcho({ dispatch: () => Promise.reject(new StoreError("corrupt", "x")) });
    expect((await send(corrupt, { path: "/v1/databases" })).status).toBe(500);
  });
});

describe("what a call is told of its request", () => {
  test("credential, headers, address", async () => {
    const node = await openEcho();
    const headers = {
      authorization: "bearer  abc.def ",
      "Service-Min-Txid": "5",
      "Service-Branch": "dev",
      "Service-Consistency": "cached",
      "Service-Durability": "durable",
      "Service-Internal": "x",
    };
    await send(node, { path: "/v1/databases", headers });
    const { credential, headers: given, remoteAddress, hostDatabase, deadlineMs, signal } = node.calls[0]!;
    expect([credential, given, remoteAddress, hostDatabase, deadlineMs, signal?.aborted]).toEqual([
      "abc.def",
      { branch: "dev", minTxid: "5", consistency: "cached", durability: "durable", internal: "x" },
      "127.0.0.1",
      undefined,
      undefined,
      false,
    ]);
    await send(node, { path: "/v1/databases", headers: { authorization: "Basic abc" } });
    expect(node.calls[1]!.credential).toBeUndefined();
  });

  test("the signal fires when the client goes, on both versions, and only then", async () => {
    const node = await openEcho({
      dispatch: (call) =>
        new Promise((_resolve, reject) =>
          call.signal!.addEventListener("abort", () => reject(new ServiceError("request_timeout", "gone"))),
        ),
    });
    const request = http.get({ port: node.port, host: "127.0.0.1", path: "/v1/databases", agent: false });
    request.on("error", () => {});
    const session = http2.connect(node.address);
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":path": "/v1/databases" });
    stream.on("error", () => {});
    while (node.calls.length < 2) await new Promise((resolve) => void setImmediate(resolve));
    const aborted = node.calls.map((call) => once(call.signal!, "abort"));
    request.destroy();
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await Promise.all(aborted);
    const quiet = await openEcho({
      dispatch: (call) =>
        Promise.resolve(call.signal!.aborted ? emptyAnswer(call, { databases: [{}] }) : emptyAnswer(call)),
    });
    expect((await send(quiet, { path: "/v1/databases" })).json).toEqual({ databases: [] });
    expect(quiet.calls[0]!.signal!.aborted).toBe(false);
  });
});

describe("the address of a database", () => {
  test.each([
    ["notes.localhost", "/v1/kv/n/k", "notes"],
    ["NOTES.LocalHost:8080", "/v1/kv/n/k", "notes"],
    ["notes.localhost.:80", "/v1/kv/n/k", "notes"],
    ["acme--bot.localhost", "/v1/kv/n/k", "acme--bot"],
    ["notes@Dev.1.localhost", "/v1/kv/n/k", "notes@Dev.1"],
  ])("Host %s is the database of its own routes", async (host, path, database) => {
    const node = await openEcho();
    expect((await send(node, { path, headers: { host } })).status).toBe(200);
    expect(node.calls[0]!.message).toMatchObject({ db: database, ns: "n", key: "k" });
    expect(node.calls[0]!.hostDatabase).toBe(database);
  });

  test("its transcript is there, the memory of namespaces and all else is not", async () => {
    const node = await openEcho();
    const headers = { host: "notes.localhost" };
    expect((await send(node, { path: "/v1/memory/s1/turns?last=3", headers })).status).toBe(200);
    expect(node.calls[0]!.message).toMatchObject({ db: "notes", session: "s1", last: 3 });
    for (const path of ["/v1/memory/acme", "/v1/memory/acme/bot/sessions", "/v1/db/notes/kv/n/k", "/v1/databases"])
      expect((await send(node, { path, headers })).status).toBe(404);
    expect((await send(node, { path: "/health", headers })).text).toBe("ok");
  });

  test.each([
    "localhost",
    "localhost:8080",
    "127.0.0.1:8080",
    "[::1]:8080",
    "example.com",
    "notes.localhost.example.com",
    ".localhost",
    "a.b.localhost",
    "noteslocalhost",
    "@x.localhost",
  ])("Host %s is no database's", async (host) => {
    const node = await openEcho({
      doors: { hostNames: ["example.com", "notes.localhost.example.com", "noteslocalhost"] },
    });
    expect((await send(node, { path: "/v1/databases", headers: { host } })).status).toBe(200);
    expect(node.calls[0]!.hostDatabase).toBeUndefined();
  });

  test("the suffix is the configured one, over HTTP/2 too", async () => {
    const node = await openEcho({ doors: { databaseHostSuffix: "Db.Example.com" } });
    expect((await send(node, { path: "/v1/databases", headers: { host: "notes.localhost" } })).status).toBe(200);
    const session = http2.connect(node.address);
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":authority": "notes.db.example.com:80", ":path": "/v1/kv/n/k" });
    const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    stream.resume();
    expect([headers[":status"], node.calls.at(-1)!.hostDatabase]).toEqual([200, "notes"]);
  });
});
