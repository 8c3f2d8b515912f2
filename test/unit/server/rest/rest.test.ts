/** Calls over REST: routes, query parameters, answers, and what a call is told of its request. */
import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import { create } from "@bufbuild/protobuf";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ListKeysRequest } from "../../../../gen/palimpsest/v1/data_pb.ts";
import { type IngestRequest, MemorySchema } from "../../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import { jsonText, setJson } from "../../../../src/service/call/exact-json.ts";
import { emptyAnswer, openEcho } from "../../../support/echo-node.ts";
import { send, post, refusal } from "../../../support/rest-requests.ts";

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
    [
      "/v1/db/d/kv/n?limt=5",
      /^limt is not a query parameter of this route; allowed here: prefix, limit, cursor, .*, at$/,
    ],
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
