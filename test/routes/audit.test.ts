/** The audit stream through the wires: what is told, what never is, who reads it and how. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { decodeAuditEvent } from "../../src/format/audit/audit-event.ts";
import { brokenLinks } from "../../src/format/audit/audit-object.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { watches, Watching } from "../support/watchers.ts";
import { startService, type RestAnswer, type Service } from "../support/service.ts";

const platformKey = "platform-key-of-this-test-0123456789";
const flushing = { SERVICE_AUDIT_FLUSH_MS: "20" };
const withAuth = { ...flushing, SERVICE_AUTH: "on", SERVICE_SINGLE_NODE: "1", SERVICE_PLATFORM_KEY: platformKey };

/** What must stand in no event: a client gave it in the tests below. */
const secrets = [
  "ZEBRA-summary",
  "ZEBRA-content",
  "zebra.topic",
  "zebra-session",
  "ZEBRA-query",
  "ZEBRA-keyword",
  platformKey,
];

async function node(variables: Record<string, string> = flushing, directory?: string): Promise<Service> {
  const service = await startService(variables, directory);
  onTestFinished(() => service.close());
  return service;
}

const bearer = (credential: string | undefined): Record<string, string> =>
  credential === undefined ? {} : { authorization: `Bearer ${credential}` };

async function done(answer: Promise<RestAnswer>, status = 200): Promise<any> {
  const { status: got, json, text } = await answer;
  expect(got, text).toBe(status);
  return json;
}

function setPolicy(service: Service, ns: string, policy: object | null, credential?: string): Promise<any> {
  return done(service.call("PUT", `/v1/namespaces/${ns}/policy`, { policy }, bearer(credential)));
}

const switchedOn = { audit: { enabled: true } };
const fact = {
  type: "fact",
  topic_key: "zebra.topic",
  summary: "ZEBRA-summary",
  content: { is: "ZEBRA-content" },
  keywords: "ZEBRA-keyword",
  session_id: "zebra-session",
};

/** The stream once it has at least so many events. */
async function readStream(
  service: Service,
  ns: string,
  atLeast: number,
  query = "",
  credential?: string,
): Promise<any> {
  let page: any;
  await expect
    .poll(
      async () => {
        page = await done(service.call("GET", `/v1/namespaces/${ns}/audit${query}`, undefined, bearer(credential)));
        return page.events.length;
      },
      { timeout: 5_000 },
    )
    .toBeGreaterThanOrEqual(atLeast);
  return page;
}

/** Follows the changes of a database until its first event. */
async function watchOnce({ address }: Service, db: string): Promise<void> {
  const watching = new Watching(watches["rest"]!, address, { db });
  await watching.until(({ events }) => events.length === 1);
  watching.stop();
}

/** Waits until the node has had time to store whatever it was told. */
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 200));
}

/** The bytes of every stored audit object. */
function auditBytes({ directory }: Service): string {
  const root = join(directory, "objects", "audit");
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((path) => join(root, path))
    .filter((path) => statSync(path).isFile());
  return files.map((path) => `${path}\n${readFileSync(path, "utf8")}`).join("");
}

function expectNoSecret(text: string, more: readonly string[] = []): void {
  for (const secret of [...secrets, ...more]) expect(text.includes(secret), secret).toBe(false);
}

describe("what is told", () => {
  test("audit-01: enabling, ingest, forget and a denied extract are told in order, with metadata only", async () => {
    const service = await node();
    const policy = { ...switchedOn, ai_egress: { extract: "deny" } };
    await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }), 201);
    await setPolicy(service, "acme", policy);
    const { results, txid } = await done(
      service.call("POST", "/v1/memory/acme/alice/memories", {
        memories: [
          { ...fact, summary: "ZEBRA-summary 2" },
          { type: "event", summary: "ZEBRA-summary 3", content: null },
        ],
      }),
      201,
    );
    await done(service.call("DELETE", `/v1/memory/acme/alice/memories/${results[1].id}`), 204);
    await done(
      service.call("POST", "/v1/memory/acme/alice/extract", { turns: [{ role: "user", content: "ZEBRA-content" }] }),
      403,
    );
    const { events, next_cursor, complete } = await readStream(service, "acme", 4);
    expect({ next_cursor, complete }).toEqual({ next_cursor: null, complete: true });
    const anonymous = { kind: "anonymous" };
    const profile = { ns: "acme", profile: "alice", branch: "main", actor: anonymous };
    expect(events.map(({ v: _v, id: _id, ts: _ts, node: _node, prev: _prev, ...rest }: any) => rest)).toEqual([
      { ns: "acme", action: "policy.update", resource: "namespace", outcome: "ok", actor: anonymous },
      { ...profile, action: "memory.ingest", outcome: "ok", txid, count: 2 },
      { ...profile, action: "memory.forget", resource: results[1].id, outcome: "ok", txid: txid + 1, count: 1 },
      { ...profile, action: "ai.extract", outcome: "denied", error: "forbidden" },
    ]);
    for (const { v, ts, node: by, id } of events)
      expect([v, typeof ts, by, id.length]).toEqual([1, "number", events[0].node, 26]);
    // What a client reads is the very line that was stored: it can follow the chain itself.
    expect(brokenLinks(events.map((event: object) => decodeAuditEvent(JSON.stringify(event))))).toEqual([]);
    expect(events[0].prev).toBe("0".repeat(64));
    const stored = auditBytes(service);
    for (const event of events) expect(stored).toContain(`${JSON.stringify(event)}\n`);
    expectNoSecret(stored);
  });

  test("audit-02: reads are told only when the policy includes them, with their count", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    const { results } = await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }), 201);
    const recall = () => done(service.call("POST", "/v1/memory/acme/alice/recall", { query: "ZEBRA-query summary" }));
    await recall();
    await done(service.call("GET", `/v1/memory/acme/alice/memories/${results[0].id}`));
    await done(service.call("GET", `/v1/memory/acme/alice/history?id=${results[0].id}`));
    await watchOnce(service, "acme--alice");
    await settled();
    expect((await readStream(service, "acme", 2)).events.map(({ action }: any) => action)).toEqual([
      "policy.update",
      "memory.ingest",
    ]);
    await setPolicy(service, "acme", { audit: { enabled: true, include_reads: true } });
    const { memories } = await recall();
    await done(service.call("GET", `/v1/memory/acme/alice/memories/${results[0].id}`));
    await done(service.call("GET", "/v1/memory/acme/alice/memories/ZEBRA-query"), 404);
    await watchOnce(service, "acme--alice");
    const { events } = await readStream(service, "acme", 7);
    expect(
      events
        .slice(3)
        .map(({ action, count, resource, outcome, error }: any) => ({ action, count, resource, outcome, error })),
    ).toEqual([
      { action: "memory.recall", count: memories.length, resource: undefined, outcome: "ok", error: undefined },
      { action: "memory.get", count: 1, resource: results[0].id, outcome: "ok", error: undefined },
      { action: "memory.get", count: undefined, resource: undefined, outcome: "error", error: "not_found" },
      { action: "changes.watch", count: undefined, resource: undefined, outcome: "ok", error: undefined },
    ]);
    expect(memories.length).toBe(1);
    expectNoSecret(auditBytes(service));
  });

  test("audit-03: without a policy writes pass, nothing is stored, and the stream is empty and complete", async () => {
    const service = await node();
    await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }), 201);
    await settled();
    expect(await done(service.call("GET", "/v1/namespaces/acme/audit"))).toEqual({
      events: [],
      next_cursor: null,
      complete: true,
    });
    expect(readdirSync(join(service.directory, "objects"))).not.toContain("audit");
  });

  test("audit-08: streams are per namespace, a plain database has none, and one that is off is inert", async () => {
    const service = await node();
    for (const ns of ["acme", "other"]) await setPolicy(service, ns, switchedOn);
    for (const ns of ["acme", "other", "silent"])
      await done(service.call("POST", `/v1/memory/${ns}/p/memories`, { memories: [fact] }), 201);
    await done(service.call("DELETE", "/v1/memory/acme/p/sessions/zebra-session"), 204);
    await done(service.call("DELETE", `/v1/databases/${await service.database()}`), 204);
    await done(service.call("DELETE", "/v1/databases/acme--p"), 204);
    const told = async (ns: string, atLeast: number): Promise<unknown> =>
      (await readStream(service, ns, atLeast)).events.map(({ action, ns: of, profile, resource }: any) =>
        [of, profile, action, resource].join(" ").trim(),
      );
    expect(await told("acme", 4)).toEqual([
      "acme  policy.update namespace",
      "acme p memory.ingest",
      "acme p memory.session_end",
      "acme p db.delete acme--p",
    ]);
    expect(await told("other", 2)).toEqual(["other  policy.update namespace", "other p memory.ingest"]);
    expect(await told("silent", 0)).toEqual([]);
    // What was told outlives the profile, and the change that ends a stream is its last event.
    await setPolicy(service, "acme", null);
    await done(service.call("POST", "/v1/memory/acme/p/memories", { memories: [fact] }), 201);
    await settled();
    expect(await told("acme", 0)).toEqual([]);
    await setPolicy(service, "acme", switchedOn);
    expect(await told("acme", 6)).toEqual([
      "acme  policy.update namespace",
      "acme p memory.ingest",
      "acme p memory.session_end",
      "acme p db.delete acme--p",
      "acme  policy.update namespace",
      "acme  policy.update namespace",
    ]);
    expectNoSecret(auditBytes(service));
  });

  test("a profile's own policy, an extract without a model and refused calls are told too", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    await done(service.call("PUT", "/v1/memory/acme/alice/policy", { policy: { ai_egress: { ask: "deny" } } }));
    await done(
      service.call("POST", "/v1/memory/acme/alice/extract", { turns: [{ role: "user", content: "ZEBRA-content" }] }),
      503,
    );
    await done(service.call("POST", "/v1/memory/acme/alice/ask", { question: "ZEBRA-query" }), 403);
    await done(
      service.call("POST", "/v1/memory/acme/alice/memories", {
        memories: [{ type: "ZEBRA-content", summary: "ZEBRA-summary", content: null }],
      }),
      400,
    );
    await done(service.call("DELETE", "/v1/memory/acme/alice/memories/zebra.topic"), 404);
    const { events } = await readStream(service, "acme", 6);
    expect(
      events
        .slice(1)
        .map(({ action, profile, resource, outcome, error }: any) => [action, profile, resource, outcome, error]),
    ).toEqual([
      ["policy.update", "alice", "profile", "ok", undefined],
      ["memory.extract", "alice", undefined, "error", "unconfigured"],
      ["ai.ask", "alice", undefined, "denied", "forbidden"],
      ["memory.ingest", "alice", undefined, "error", "invalid_request"],
      ["memory.forget", "alice", undefined, "error", "database_not_found"],
    ]);
    expectNoSecret(auditBytes(service));
  });

  test("a node that stops stores what it was told, and its chain goes on when it starts again", async () => {
    const directory = temporaryDirectory();
    const slow = { SERVICE_AUDIT_FLUSH_MS: "60000" };
    const first = await startService(slow, directory);
    await setPolicy(first, "acme", switchedOn);
    await first.close();
    const second = await startService(slow, directory);
    await done(second.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }), 201);
    await second.close();
    const third = await node(slow, directory);
    const { events } = await readStream(third, "acme", 2);
    expect(events.map(({ action }: any) => action)).toEqual(["policy.update", "memory.ingest"]);
    expect(brokenLinks(events.map((event: object) => decodeAuditEvent(JSON.stringify(event))))).toEqual([]);
  });
});

describe("reading", () => {
  test("audit-06: filters by profile, action prefix, outcome; pages of 2 over 6 one-event objects", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    for (const [n, profile] of ["alice", "bob", "alice", "bob", "alice"].entries()) {
      await done(
        service.call("POST", `/v1/memory/acme/${profile}/memories`, {
          memories: n === 4 ? [] : [{ type: "event", summary: `ZEBRA-summary ${n}`, content: null }],
        }),
        n === 4 ? 400 : 201,
      );
      await readStream(service, "acme", n + 2);
    }
    const read = async (query: string): Promise<any> => done(service.call("GET", `/v1/namespaces/acme/audit?${query}`));
    const actions = async (query: string): Promise<string[]> =>
      (await read(query)).events.map(({ action, profile }: any) => `${action} ${profile}`);
    expect(await actions("profile=bob")).toEqual(["memory.ingest bob", "memory.ingest bob"]);
    expect(await actions("action=policy.")).toEqual(["policy.update undefined"]);
    expect(await actions("action=memory.ingest&outcome=error")).toEqual(["memory.ingest alice"]);
    expect(await actions("outcome=denied")).toEqual([]);
    const whole = (await read("")).events;
    expect(await actions(`from=${whole[5].ts + 1}`)).toEqual([]);
    expect((await read(`to=${whole[3].ts + 1}`)).events.length).toBe(4);
    const paged: any[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const page: any = await read(`limit=2${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`);
      expect(page.events).toHaveLength(2);
      expect(page.complete).toBe(page.next_cursor === null);
      paged.push(...page.events);
      cursor = page.next_cursor;
    }
    expect(paged).toEqual(whole);
    expect(new Set(paged.map(({ id }) => id)).size).toBe(6);
  });

  const badQueries = [
    "cursor=nonsense",
    "limit=0",
    "from=-1",
    "to=99999999999999999",
    "outcome=fine",
    "action=",
    "action=Memory%20all",
    "profile=A!",
    "from=yesterday",
  ];
  test("what is no filter, limit or cursor is 400", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    for (const query of badQueries) {
      const { status, json } = await service.call("GET", `/v1/namespaces/acme/audit?${query}`);
      expect([query, status, json.code]).toEqual([query, 400, "invalid_request"]);
    }
  });

  test("the default window is the last day, also for the page after a cursor", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    const [event] = (await readStream(service, "acme", 1)).events;
    const past = await done(service.call("GET", `/v1/namespaces/acme/audit?to=${event.ts}`));
    expect(past).toEqual({ events: [], next_cursor: null, complete: true });
    expect((await done(service.call("GET", `/v1/namespaces/acme/audit?to=${event.ts + 86_400_000}`))).events).toEqual([
      event,
    ]);
    expect((await done(service.call("GET", `/v1/namespaces/acme/audit?to=${event.ts + 86_400_001}`))).events).toEqual(
      [],
    );
  });

  test("gRPC gives the same events", async () => {
    const service = await node();
    await setPolicy(service, "acme", switchedOn);
    const { events } = await readStream(service, "acme", 1);
    const reply = await service.wire("grpc").call("ControlService.ReadAudit", { ns: "acme" });
    expect(reply.code).toBe("ok");
    expect(reply.body.events.map(({ id, prev, action }: any) => ({ id, prev, action }))).toEqual(
      events.map(({ id, prev, action }: any) => ({ id, prev, action })),
    );
  });
});

describe("with authentication", () => {
  test("audit-04: platform key and namespace admin read; the actor is hash and claims, never the token", async () => {
    const service = await node(withAuth);
    await setPolicy(service, "acme", switchedOn, platformKey);
    const mint = async (path: string, scope: string): Promise<string> =>
      (await done(service.call("POST", `${path}/tokens`, { scope }, bearer(platformKey)))).token;
    const [admin, write, other] = await Promise.all([
      mint("/v1/namespaces/acme", "admin"),
      mint("/v1/namespaces/acme", "write"),
      mint("/v1/namespaces/other", "admin"),
    ]);
    const profile = await mint("/v1/databases/acme--alice", "admin");
    await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }, bearer(write)), 201);
    await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }, bearer(other)), 403);
    await done(service.call("POST", "/v1/memory/acme/alice/memories", { memories: [fact] }), 401);
    const { events } = await readStream(service, "acme", 7, "", platformKey);
    expect((await readStream(service, "acme", 7, "", admin)).events).toEqual(events);
    const readStatus = async (credential?: string): Promise<number> =>
      (await service.call("GET", "/v1/namespaces/acme/audit", undefined, bearer(credential))).status;
    expect([
      await readStatus(),
      await readStatus("garbage"),
      await readStatus(write),
      await readStatus(other),
      await readStatus(profile),
    ]).toEqual([401, 401, 403, 403, 403]);

    const hash = expect.stringMatching(/^[0-9a-f]{16}$/);
    const [ingest, denied, unknown] = events.filter(({ action }: any) => action === "memory.ingest");
    expect(ingest).toMatchObject({
      outcome: "ok",
      actor: { kind: "token", token_hash: hash, scope: "write", claim_ns: "acme", iat: expect.any(Number) },
    });
    expect(denied).toMatchObject({
      outcome: "denied",
      error: "forbidden",
      actor: { kind: "token", scope: "admin", claim_ns: "other" },
    });
    expect(unknown).toMatchObject({ outcome: "denied", error: "unauthorized", actor: { kind: "anonymous" } });
    expect(events[0]).toMatchObject({ action: "policy.update", actor: { kind: "platform", token_hash: hash } });
    expect(
      events
        .filter(({ action }: any) => action === "token.mint")
        .map(({ resource, profile: of }: any) => [resource, of]),
    ).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      ["acme--alice", "alice"],
    ]);
    const tokens = [admin, write, other, profile];
    expectNoSecret(auditBytes(service), [...tokens, ...tokens.flatMap((token) => token.split("."))]);
  });
});
