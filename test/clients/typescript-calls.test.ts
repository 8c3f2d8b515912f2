/**
 * What the TypeScript client does when a call does not go well: it repeats what is safe and nothing else, ends in time,
 * says what happened, and keeps what it has seen.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { context, propagation, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { Palimpsest, type ClientOptions } from "../../clients/typescript/src/index.ts";
import { startService, type Service } from "../support/service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService();
  return () => service.close();
});

type Send = typeof fetch;

/** A client whose requests go through `send`, with the requests that it made. */
function clientThrough(
  send: (number: number, go: () => Promise<Response>) => Promise<Response>,
  more: ClientOptions = {},
) {
  const requests: Request[] = [];
  const through: Send = (input, init) => {
    requests.push(new Request(input, { ...init, signal: null }));
    return send(requests.length, () => fetch(input, init));
  };
  return { client: new Palimpsest({ url: service.address, fetch: through, ...more }), requests };
}

/** The first answers are lost on their way, after the node has done what was asked. */
const losing =
  (lost: number) =>
  async (number: number, go: () => Promise<Response>): Promise<Response> => {
    const response = await go();
    if (number > lost) return response;
    await response.body?.cancel();
    throw new TypeError("fetch failed");
  };

let profiles = 0;
const profileOf = (client: Palimpsest) => client.profile("acme", `calls-${++profiles}`);

/** A profile that is there, made by a client that loses nothing. */
async function madeProfile(client: Palimpsest) {
  const profile = profileOf(client);
  const plain = new Palimpsest({ url: service.address }).profile("acme", `calls-${profiles}`);
  await plain.remember({ type: "event", summary: "it began" });
  return profile;
}

async function count(items: AsyncIterable<unknown>): Promise<number> {
  let number = 0;
  for await (const _ of items) number++;
  return number;
}

describe("repeated calls", () => {
  test("an append whose answers are lost is there once, under one key", async () => {
    const { client, requests } = clientThrough(losing(2));
    const turns = (await madeProfile(client)).turns("chat");
    await turns.append([{ role: "user", content: "hello" }]);
    expect(new Set(requests.map((request) => request.headers.get("idempotency-key"))).size).toBe(1);
    expect(requests[0]!.headers.get("idempotency-key")).toMatch(/^[0-9a-f-]{36}$/);
    expect(await count(turns.list())).toBe(1);
  });

  test("a write that leaves the same when done twice needs no key, one on a condition does", async () => {
    const { client, requests } = clientThrough(losing(1));
    const kv = (await madeProfile(client)).kv("k");
    await kv.put("a", "1");
    await kv.put("a", "2", { ifMatch: (await kv.get("a"))!.hash });
    expect(requests.map(({ headers }) => headers.has("idempotency-key"))).toEqual([false, false, false, true]);
    const lossy = clientThrough(losing(1));
    await lossy.client.profile("acme", `calls-${profiles}`).kv("k").put("b", "1", { ifAbsent: true });
    expect(lossy.requests.length).toBe(2);
  });

  test("what may not be repeated is not", async () => {
    const { client, requests } = clientThrough(losing(1));
    await expect(client.createDatabase("once")).rejects.toBeInstanceOf(Palimpsest.ConnectionError);
    expect(requests.length).toBe(1);
    expect((await client.databases()).map(({ name }) => name)).toContain("once");
  });

  test("the node's time to come back is waited for, within the deadline", async () => {
    const answer = (status: number, code: string, headers: Record<string, string> = {}) =>
      Promise.resolve(Response.json({ code, error: "not now" }, { status, headers }));
    const busy = clientThrough((number, go) => (number < 3 ? answer(429, "overloaded", { "retry-after": "0" }) : go()));
    await busy.client.createDatabase("later");
    expect(busy.requests.length).toBe(3);
    const away = clientThrough(() => answer(429, "overloaded", { "retry-after": "60" }), { timeoutMs: 5_000 });
    const refused = await away.client.databases().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Palimpsest.Overloaded);
    expect(refused).toMatchObject({
      code: "overloaded",
      status: 429,
      retryAfterMs: 60_000,
      operation: "listDatabases",
    });
    expect(away.requests.length).toBe(1);
    const gone = clientThrough((number, go) => (number < 2 ? answer(503, "unavailable") : go()));
    await expect(gone.client.createDatabase("never")).rejects.toBeInstanceOf(Palimpsest.Unavailable);
    expect((await gone.client.databases()).length).toBeGreaterThan(0);
    const bare = clientThrough(() => Promise.resolve(new Response("<html>", { status: 502 })), { timeoutMs: 300 });
    await expect(bare.client.databases()).rejects.toMatchObject({ code: "unavailable", status: 502 });
    expect(bare.requests.length).toBeGreaterThan(1);
  });
});

describe("the end of a call", () => {
  const never: Send = (_, init) =>
    new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));

  test("comes with its deadline, or with the caller's signal", async () => {
    const client = new Palimpsest({ url: service.address, fetch: never, timeoutMs: 50 });
    await expect(client.health()).rejects.toBeInstanceOf(Palimpsest.DeadlineExceeded);
    const reason = new Error("no longer needed");
    const controller = new AbortController();
    const call = client.databases({ signal: controller.signal, timeoutMs: 60_000 });
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
    await expect(client.databases({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  test("where nobody listens is a ConnectionError", async () => {
    const client = new Palimpsest({ url: "http://127.0.0.1:1", timeoutMs: 400 });
    await expect(client.databases()).rejects.toBeInstanceOf(Palimpsest.ConnectionError);
  });
});

describe("what was seen", () => {
  test("goes along with reads, to another process too, and is dropped where it is lost", async () => {
    const writer = clientThrough((_, go) => go());
    const db = profileOf(writer.client);
    await db.remember({ type: "event", summary: "it happened" });
    const token = writer.client.token();
    expect(JSON.parse(token)).toEqual({ [`${db.name}@main`]: 1 });
    const reader = clientThrough((_, go) => go(), { resume: token });
    const same = reader.client.profile("acme", `calls-${profiles}`);
    await same.recall("happened");
    await same.recall("happened", {}, { consistency: "none" });
    await same.recall("happened", {}, { consistency: "primary" });
    expect(reader.requests.map(({ headers }) => headers.get("service-min-txid"))).toEqual(["1", null, null]);
    expect(reader.requests[2]!.headers.get("service-consistency")).toBe("primary");
    for (const bad of ["", "[]", "null", '{"a@main": "x"}', '{"a@main": -1}'])
      expect(() => reader.client.resume(bad), bad).toThrow();

    const lost = clientThrough((number, go) =>
      number === 1 ? Promise.resolve(Response.json({ code: "conflict", error: "it was lost" }, { status: 409 })) : go(),
    );
    lost.client.resume(JSON.stringify({ [`${db.name}@main`]: 1 }));
    const again = lost.client.profile("acme", `calls-${profiles}`);
    await expect(again.recall("happened")).rejects.toBeInstanceOf(Palimpsest.LostWrite);
    expect((await again.recall("happened")).memories.length).toBe(1);
  });
});

describe("a credential", () => {
  test("is asked for before each try, and is in no error", async () => {
    let number = 0;
    const { client, requests } = clientThrough(losing(1), { token: () => Promise.resolve(`secret-${++number}`) });
    await client.databases();
    expect(requests.map(({ headers }) => headers.get("authorization"))).toEqual(["Bearer secret-1", "Bearer secret-2"]);
    const failing = new Palimpsest({ url: "http://127.0.0.1:1", token: "secret-x", timeoutMs: 200 });
    const error = await failing.databases().catch((reason: unknown) => reason);
    expect(JSON.stringify(error) + String(error)).not.toContain("secret-x");
  });
});

describe("traces", () => {
  test("of calls on memory are spans without content, where a program has them", async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
    trace.setGlobalTracerProvider(provider);
    try {
      const { client } = clientThrough((_, go) => go(), { telemetry: true });
      const db = profileOf(client);
      await db.remember({ type: "fact", topicKey: "pin", summary: "the secret pin" });
      await db.recall("secret pin");
      await db.get("mem_x");
      await db.forget("mem_x").catch(() => undefined);
      const spans = exporter.getFinishedSpans();
      expect(spans.map(({ name }) => name)).toEqual([
        `upsert_memory ${db.name}`,
        `search_memory ${db.name}`,
        `delete_memory ${db.name}`,
      ]);
      expect(spans[2]!.attributes["error.type"]).toBe("not_found");
      expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.toContain("secret");
    } finally {
      trace.disable();
      context.disable();
      propagation.disable();
    }
  });
});
