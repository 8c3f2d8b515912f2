/** Bodies of requests over REST: what is taken for what, what is refused, and how large one may be. */
import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import { describe, expect, onTestFinished, test } from "vitest";
import type { HttpBody } from "../../../../gen/google/api/httpbody_pb.ts";
import type { FindDocsRequest, PutValueRequest, UpsertVectorRequest } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { type IngestRequest } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { jsonText } from "../../../../src/service/call/exact-json.ts";
import { emptyAnswer, openEcho } from "../../../support/echo-node.ts";
import { discardedBytesMax } from "../../../../src/server/wire/body.ts";
import { send, post, refusal } from "../../../support/rest-requests.ts";

/** Resolves when the request is over, for whatever reason. */
function closing(request: http.ClientRequest): Promise<void> {
  request.on("error", () => {});
  return new Promise((resolve) => request.on("close", resolve));
}

/** A request whose body is not sent yet, on a connection of its own. */
function beginPost(port: number, headers: Record<string, string> = {}): http.ClientRequest {
  return http.request({
    port,
    host: "127.0.0.1",
    method: "POST",
    path: "/v1/databases",
    agent: false,
    headers: { "content-type": "application/json", ...headers },
  });
}

const memories = "/v1/memory/acme/bot/memories";

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
    const request = beginPost(node.port);
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
    const request = beginPost(node.port, { "content-length": "10" });
    const closed = closing(request);
    request.write("{", () => request.destroy());
    await closed;
    expect((await send(node, { path: "/health" })).status).toBe(200);
    expect([node.calls.length, node.faults.length]).toEqual([0, 0]);
  });
});
