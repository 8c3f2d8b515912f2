/** Ask over both wires, against a server that speaks the provider's protocol. */
import { describe, expect, onTestFinished, test } from "vitest";
import { AskingProfile, honest, shownIds } from "../support/asking-profile.ts";
import { parseBlock, startAssistantServer } from "../support/assistant-server.ts";
import { assistedBy, useAssistedService } from "../support/assisted-service.ts";
import { ok, startService } from "../support/service.ts";
import { wireNames, type Reply, type Wire, type WireName } from "../support/wires.ts";

const assisted = useAssistedService({ SERVICE_AUDIT_FLUSH_MS: "20" });
const onBoth = test.each(wireNames);

/** A profile of one test on this file's node, or on that of the wire. */
class Asker extends AskingProfile {
  constructor(wire: WireName | Wire, profile?: string, ns?: string) {
    super(typeof wire === "string" ? assisted().service.wire(wire) : wire, profile, ns);
  }
}

onBoth(
  "memory-20 over %s: an answer, its sources and memories; of nothing relevant null, without a call",
  async (wire) => {
    // Null for a profile that is not there, too.
    const { server } = assisted();
    server.say(honest);
    const asker = new Asker(wire);
    const [harbour] = await asker.ingest(
      { summary: "The harbour is in Lisbon", content: { since: 1755 } },
      { summary: "Tea is at five" },
    );
    const { body } = await ok(asker.ask("Where is the harbour?"));
    expect(body).toEqual({
      answer: "The harbour is in Lisbon.",
      sources: [harbour],
      memories: [
        expect.objectContaining({ id: harbour, summary: "The harbour is in Lisbon", content: { since: 1755 } }),
      ],
      txid: 1,
    });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({
      model: "model-of-ask",
      headers: { authorization: "Bearer key-of-ask" },
    });
    const nothing = { sources: [], memories: [] };
    const unanswered = async (reply: Promise<Reply>): Promise<unknown> => {
      const { answer = null, ...rest } = (await ok(reply)).body;
      return { answer, ...rest };
    };
    expect(await unanswered(asker.ask("Who sings zebra operas?"))).toEqual({ answer: null, ...nothing, txid: 1 });
    expect(await unanswered(asker.ask("Where is the harbour?", { types: [] }))).toEqual({
      answer: null,
      ...nothing,
      txid: 1,
    });
    expect(await unanswered(new Asker(wire, "nobody", asker.at.ns).ask("Where is the harbour?"))).toEqual({
      answer: null,
      ...nothing,
      txid: 0,
    });
    expect((await ok(asker.wire.call("MemoryService.ListProfiles", { ns: asker.at.ns }))).body.profiles).toHaveLength(
      1,
    );
    expect(server.requests).toHaveLength(1);
  },
);

onBoth("over %s: a question about a time is answered by what holds then", async (wire) => {
  const { server } = assisted();
  server.say(honest);
  const asker = new Asker(wire);
  const [from, until] = [Date.now() + 3_600_000, Date.now() + 7_200_000];
  const [now, then] = await asker.ingest(
    { topic_key: "home", summary: "The harbour is in Lisbon" },
    { topic_key: "home", summary: "The harbour is in Porto", valid_from: from, valid_until: until },
  );
  const sources = async (request: object): Promise<unknown> =>
    (await ok(asker.ask("Where is the harbour?", request))).body.sources;
  expect(await sources({})).toEqual([now]);
  expect(await sources({ valid_at: from })).toEqual([then]);
  expect(await sources({ valid_at: until })).toEqual([now]);
});

test("on REST the answer to nothing is null, with status 200", async () => {
  const { service } = assisted();
  const { status, json } = await service.call("POST", "/v1/memory/asked/nobody/ask", { question: "who?" });
  expect([status, json]).toEqual([200, { answer: null, sources: [], memories: [], txid: 0 }]);
});

onBoth("memory-19 over %s: without a key 503 unconfigured, whatever else is wrong with the question", async (wire) => {
  const node = await startService();
  onTestFinished(() => node.close());
  for (const question of ["who?", " "])
    expect(await new Asker(node.wire(wire)).ask(question)).toMatchObject({
      code: "unconfigured",
      message: expect.stringContaining("SERVICE_ASSISTANT_API_KEY"),
    });
});

describe.each(wireNames)("policy over %s", (wire) => {
  test("governance-10: denied is 403 naming the field, before all else; other namespaces are asked", async () => {
    // Nothing else is judged or sent before.
    const { server } = assisted();
    server.say(honest);
    const [denied, other] = [new Asker(wire), new Asker(wire)];
    for (const asker of [denied, other]) await asker.ingest({ summary: "the harbour" });
    await denied.policy({ ai_egress: { ask: "deny" } });
    for (const question of ["Where is the harbour?", ""])
      expect(await denied.ask(question)).toMatchObject({
        code: "forbidden",
        message: expect.stringContaining("ai_egress.ask"),
      });
    expect(server.requests).toHaveLength(0);
    expect((await ok(other.ask("Where is the harbour?"))).body.sources).toHaveLength(1);
    await denied.policy({ ai_egress: { extract: "deny", embed: "deny" } });
    expect((await ok(denied.ask("Where is the harbour?"))).body.sources).toHaveLength(1);
  });

  test("self_hosted_only lets a server of one's own be asked, and no other unless it is listed", async () => {
    const { server } = assisted();
    server.say(honest);
    const own = new Asker(wire);
    await own.ingest({ summary: "the harbour" });
    await own.policy({ ai_egress: { ask: "self_hosted_only" } });
    expect((await ok(own.ask("Where is the harbour?"))).body.sources).toHaveLength(1);
    const elsewhere = { ...assistedBy(server), SERVICE_ASSISTANT_BASE_URL: "https://models.example.com" };
    for (const [listed, code] of [
      ["other.example.com", "forbidden"],
      ["models.example.com", "ok"],
    ] as const) {
      const node = await startService({ ...elsewhere, SERVICE_EMBED_SELF_HOSTED_HOSTS: listed });
      onTestFinished(() => node.close());
      const asker = new Asker(node.wire(wire));
      await asker.policy({ ai_egress: { ask: "self_hosted_only" } });
      // Nothing is there to be found, so nothing would be sent.
      expect((await asker.ask("Where is the harbour?")).code).toBe(code);
    }
  });
});

onBoth("a question that is none is 400 over %s, and a filter that is none too, without a call", async (wire) => {
  const asker = new Asker(wire);
  await asker.ingest({ summary: "the harbour" });
  for (const question of ["", " \n\t ", "x".repeat(16 * 1024 + 1)])
    expect(await asker.ask(question)).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("question"),
    });
  for (const wrong of [{ types: ["rumour"] }, { k: 0 }, { session_id: "" }, { source: "x".repeat(257) }]) {
    expect(await asker.ask("Where is the harbour?", wrong)).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining(Object.keys(wrong)[0]!),
    });
  }
  expect((await new Asker(wire, "not--one").ask("who?")).code).toBe("invalid_request");
  expect((await asker.ask("Where?", { branch: "side" })).code).toBe("branch_not_found");
  expect((await new Asker(wire).call("Ask", { question: "who?" }, { "Service-Min-Txid": "1" })).code).toBe(
    "database_not_found",
  );
  expect(assisted().server.requests).toHaveLength(0);
});

onBoth(
  "what a model is shown over %s is what recall finds by the same words and filters; a read writes nothing",
  async (wire) => {
    const { server } = assisted();
    server.say(honest);
    const asker = new Asker(wire);
    await asker.ingest(
      ...Array.from({ length: 12 }, (_, at) => ({
        summary: `harbour number ${at}`,
        source: at % 2 ? "odd" : "even",
        session_id: `s${at % 3}`,
      })),
    );
    await asker.ingest(
      { summary: "harbour of old", topic_key: "t" },
      { summary: "harbour of now", topic_key: "t" },
      { type: "event", summary: "a harbour burnt" },
    );
    for (const narrowed of [
      {},
      { k: 3 },
      { k: 100 },
      { source: "odd" },
      { session_id: "s1", k: 2 },
      { types: ["event"] },
      { include_superseded: true, k: 100 },
    ]) {
      const found = (await ok(asker.call("Recall", { query: "which harbour?", ...narrowed }))).body.memories;
      const { body } = await ok(asker.ask("which harbour?", narrowed));
      expect(body.memories).toEqual(found);
      expect(shownIds(server.requests.at(-1)!)).toEqual(found.map(({ id }: { id: string }) => id));
    }
    expect((await ok(asker.ask("which harbour?"))).body.memories).toHaveLength(8);
    expect((await ok(asker.ask("which harbour?"))).txid).toBe(2);
    const old = parseBlock(server.requests.at(-3)!.data, "memories").find(
      ({ summary }: { summary: string }) => summary === "harbour of old",
    );
    expect(old).toMatchObject({ superseded: true, topic: "t" });
  },
);

describe.each(wireNames)("when the model fails, over %s", (wire) => {
  test.each([
    ["refuses", { text: "no", stop: "refusal" }, "refused"],
    ["is cut off", { text: '{"answer":"The har', stop: "max_tokens" }, "cut off"],
    ["writes something else", { json: { answer: 7, sources: [] } }, "form"],
    ["writes no object", { json: null }, "form"],
    ["has no sources", { json: { answer: "yes" } }, "form"],
    ["rejects the key", { status: 401 }, "key"],
    ["is overloaded for long", { status: 529, headers: { "retry-after": "60" } }, "no room"],
  ] as const)("it %s: 503 unavailable, without a word of what was sent", async (_, reply, words) => {
    const asker = new Asker(wire);
    await asker.ingest({ summary: "the harbour is SECRET" });
    assisted().server.say(reply);
    const refused = await asker.ask("Where is the harbour? SECRET");
    expect(refused).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining(words),
      txid: 1,
      retryAfterSecs: words === "no room" ? 60 : undefined,
    });
    expect(refused.message).not.toMatch(/SECRET|harbour|key-of/);
  });

  test("it passes: the second attempt is taken", async () => {
    const asker = new Asker(wire);
    await asker.ingest({ summary: "the harbour" });
    assisted().server.say({ status: 529 }, honest);
    expect((await ok(asker.ask("Where is the harbour?"))).body.sources).toHaveLength(1);
  });

  test("it hangs: 408 when the call's time is over", async () => {
    const server = await startAssistantServer();
    const node = await startService({ ...assistedBy(server), SERVICE_REQUEST_TIMEOUT: "2" });
    onTestFinished(() => node.close());
    const asker = new Asker(node.wire(wire));
    // The first call of a busy machine may take longer than that.
    await expect
      .poll(
        async () =>
          (await asker.call("Ingest", { memories: [{ type: "fact", summary: "the harbour", content: null }] })).code,
        { timeout: 15_000 },
      )
      .toBe("ok");
    server.say("hang");
    expect((await asker.ask("Where is the harbour?")).code).toBe("request_timeout");
    await expect.poll(() => server.abandoned.count).toBe(1);
  }, 20_000);
});

test("audit: what was sent is told in sizes, a refusal with its destination, and never a word of it", async () => {
  const { server, service } = assisted();
  const asker = new Asker("rest");
  const stream = async (atLeast: number): Promise<any[]> => {
    let events: any[] = [];
    await expect
      .poll(
        async () => (events = (await service.call("GET", `/v1/namespaces/${asker.at.ns}/audit`)).json.events).length,
        { timeout: 5_000 },
      )
      .toBeGreaterThanOrEqual(atLeast);
    return events;
  };
  await asker.policy({ audit: { enabled: true } });
  await asker.ingest({ summary: "ZEBRA harbour", content: "ZEBRA" }, { summary: "another ZEBRA harbour" });
  server.say(honest, { status: 401 });
  await ok(asker.ask("ZEBRA harbour?"));
  await ok(asker.ask("nothing of the kind?"));
  expect((await asker.ask("ZEBRA harbour?")).code).toBe("unavailable");
  await asker.policy({ audit: { enabled: true, include_reads: true }, ai_egress: { ask: "deny" } });
  expect((await asker.ask("ZEBRA harbour?")).code).toBe("forbidden");
  await asker.policy({ audit: { enabled: true, include_reads: true } });
  server.say(honest);
  await ok(asker.ask("ZEBRA harbour?"));
  const events = await stream(9);
  const host = { provider: "anthropic", model: "model-of-ask", endpoint_host: "127.0.0.1", self_hosted: true };
  const sent = {
    ...host,
    input_items: 2,
    input_bytes: Buffer.byteLength(server.requests[0]!.data),
    duration_ms: expect.any(Number),
  };
  const told = { ns: asker.at.ns, profile: "alice", branch: "main", actor: { kind: "anonymous" } };
  expect(events.filter(({ action }) => action !== "policy.update" && action !== "memory.ingest")).toEqual([
    expect.objectContaining({ ...told, action: "ai.ask", outcome: "ok", egress: { ...sent, output_items: 1 } }),
    expect.objectContaining({
      ...told,
      action: "ai.ask",
      outcome: "error",
      error: "unavailable",
      egress: { ...sent, output_items: 0 },
    }),
    expect.objectContaining({
      ...told,
      action: "ai.ask",
      outcome: "denied",
      error: "forbidden",
      egress: { ...host, input_items: 0, input_bytes: 0, output_items: 0, duration_ms: 0 },
    }),
    expect.objectContaining({ ...told, action: "ai.ask", outcome: "ok" }),
    expect.objectContaining({ ...told, action: "memory.ask", outcome: "ok", count: 2 }),
  ]);
  expect(JSON.stringify(events)).not.toMatch(/ZEBRA|harbour|key-of/i);
});
