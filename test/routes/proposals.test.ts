/** Proposals and their review, and tasks that are done, over both wires: who sees what and who decides. */
import { onTestFinished, describe, expect, test } from "vitest";
import { namespacesOn } from "../support/governed-namespace.ts";
import { ok, startService, useService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

const service = useService();
const newNamespace = namespacesOn(service);

describe.each(wireNames)("over %s", (wire) => {
  test("a proposal is seen by who asks for it, and is taken in by a review", async () => {
    const ns = newNamespace(wire);
    const call = (method: string, request: object) => ns.call(method, "alice", request);
    const ids = async (method: string, request: object): Promise<string[]> =>
      (await ok(call(method, request))).body.memories.map(({ id }: { id: string }) => id);
    const [held] = await ns.ingest("alice", { summary: "Alice drinks tea", topic_key: "drink" });
    const proposal = { type: "fact", summary: "Alice drinks zobo", topic_key: "drink", content: 1, status: "proposed" };
    const { body, txid } = await ok(call("Ingest", { memories: [proposal] }));
    const { id } = body.results[0];
    expect(body.results).toEqual([{ id, status: "proposed", superseded: [] }]);
    const again = await ok(call("Ingest", { memories: [proposal] }));
    expect([again.body.results, again.txid], "the same again").toEqual([body.results, txid]);

    expect(await ids("Recall", { query: "zobo", topic_key: "drink", include_superseded: true })).toEqual([held]);
    expect((await ok(call("GetContext", { query: "zobo" }))).body.text).not.toContain("zobo");
    expect(await ids("ListMemories", { include_superseded: true })).toEqual([held]);
    expect(await ids("ListMemories", { status: "proposed" })).toEqual([id]);
    expect((await ok(call("GetMemory", { id }))).body).toMatchObject({ status: "proposed", superseded_by: null });
    expect((await call("UpdateMemory", { id, pinned: true })).code).toBe("conflict");
    expect((await ok(call("ForgetMemories", { topic_key: "other", include_superseded: true }))).body.ids).toEqual([]);

    const reviewed = await ok(call("ReviewMemory", { ids: [id, "mem_none"], verdict: "approve" }));
    expect(reviewed.body).toEqual({
      results: [
        { id, status: "approved", superseded: [held] },
        { id: "mem_none", status: "unknown", superseded: [] },
      ],
      txid: reviewed.txid,
    });
    expect(await ids("Recall", { query: "zobo" })).toEqual([id]);
    expect((await ok(call("GetMemory", { id }))).body).not.toHaveProperty("status");
    const third = (await ok(call("Ingest", { memories: [{ ...proposal, content: 2 }] }))).body.results[0].id;
    expect((await ok(call("ReviewMemory", { ids: [third], verdict: "reject" }))).body.results).toEqual([
      { id: third, status: "rejected", superseded: [] },
    ]);
    expect((await call("GetMemory", { id: third })).code).toBe("not_found");
  });

  test("what is no review, no status and no state is refused by name", async () => {
    const ns = newNamespace(wire);
    await ns.ingest("alice", { summary: "a fact" });
    const refusals: [string, object, string][] = [
      ["ReviewMemory", { ids: [], verdict: "approve" }, "ids must hold 1 to 100"],
      ["ReviewMemory", { ids: ["a", "a"], verdict: "approve" }, "ids must not hold anything twice"],
      ["ReviewMemory", { ids: ["a"], verdict: "maybe" }, "verdict must be approve or reject"],
      ["Ingest", { memories: [{ type: "fact", summary: "x", content: 1, status: "done" }] }, "memories[0].status must"],
      ["ListMemories", { status: "proposed,gone" }, "status must be among active, superseded, completed and proposed"],
      ["ListMemories", { status: "" }, "status must be among"],
      ["ListMemories", { status: "active", include_superseded: true }, "leave include_superseded"],
      ["ForgetMemories", { include_completed: true }, "at least one of"],
    ];
    for (const [method, request, words] of refusals) {
      const { code, message } = await ns.call(method, "alice", request);
      expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining(words) });
    }
    expect((await ns.call("ReviewMemory", "nobody", { ids: ["a"], verdict: "approve" })).code).toBe(
      "database_not_found",
    );
  });

  test("memory.trusted_sources makes proposals of all others; a profile can only trust fewer", async () => {
    const ns = newNamespace(wire);
    await ok(ns.put({ memory: { trusted_sources: ["books", "mail"] } }));
    await ok(ns.putProfile("strict", { memory: { trusted_sources: ["mail", "books"] } }));
    expect(await ns.putProfile("loose", { memory: { trusted_sources: ["mail", "web"] } })).toMatchObject({
      code: "conflict",
      message: expect.stringContaining("memory.trusted_sources"),
    });
    await ok(ns.putProfile("strict", { memory: { trusted_sources: ["mail"] } }));
    const statuses = async (profile: string): Promise<string[]> => {
      const memories = ["mail", "books", "web", undefined].map((source) => ({
        type: "fact",
        summary: `from ${source}`,
        content: 1,
        ...(source !== undefined && { source }),
      }));
      const { body } = await ok(ns.call("Ingest", profile, { memories }));
      return body.results.map(({ status }: { status: string }) => status);
    };
    expect(await statuses("alice")).toEqual(["created", "created", "proposed", "proposed"]);
    expect(await statuses("strict")).toEqual(["created", "proposed", "proposed", "proposed"]);
    await ok(ns.putProfile("none", { memory: { trusted_sources: [] } }));
    expect(await statuses("none")).toEqual(["proposed", "proposed", "proposed", "proposed"]);
    expect((await ok(ns.getProfile("strict"))).body.effective["memory.trusted_sources"]).toEqual(["mail"]);
    await ok(ns.put(null));
    expect(await statuses("alice"), "what waits, waits; what comes now, comes in").toEqual([
      "duplicate",
      "duplicate",
      "created",
      "created",
    ]);
  });

  test("a rejection is a tracked erasure where policy makes every forget one", async () => {
    const ns = newNamespace(wire);
    await ok(ns.put({ erasure: { purge_on_forget: true } }));
    const memories = ["one", "two"].map((summary) => ({ type: "fact", summary, content: 1, status: "proposed" }));
    const { body } = await ok(ns.call("Ingest", "alice", { memories }));
    const [one, two]: string[] = body.results.map(({ id }: { id: string }) => id);
    const reject = (...ids: (string | undefined)[]) => ns.call("ReviewMemory", "alice", { ids, verdict: "reject" });
    expect(await reject(one, two)).toMatchObject({ code: "conflict", message: expect.stringContaining("one by one") });
    const { body: rejected } = await ok(reject(one));
    expect(rejected).toMatchObject({ results: [{ id: one, status: "rejected" }], erasure_id: expect.any(String) });
    const { body: coupon } = await ok(ns.call("GetErasure", "alice", { id: rejected.erasure_id }));
    expect(coupon.memory_ids).toEqual([one]);
    await ok(ns.call("ReviewMemory", "alice", { ids: [two], verdict: "approve" }));
    expect((await ok(reject(two))).body.results, "no proposal by now").toMatchObject([{ id: two, status: "unknown" }]);
    expect((await ns.call("GetMemory", "alice", { id: two })).code).toBe("ok");
  });

  test("a task that is done is not open, and can be opened again", async () => {
    const ns = newNamespace(wire);
    const call = (method: string, request: object) => ns.call(method, "alice", request);
    const task = { summary: "call the bank", type: "task" };
    const [id] = await ns.ingest("alice", task);
    const { body: done } = await ok(call("UpdateMemory", { id, completed: true }));
    expect(done).toMatchObject({ status: "completed", completed_at: expect.any(Number) });
    const found = async (request: object): Promise<string[]> =>
      (await ok(call("Recall", { query: "bank", ...request }))).body.memories.map(({ id }: { id: string }) => id);
    expect([await found({}), await found({ include_completed: true })]).toEqual([[], [id]]);
    expect((await ok(call("GetContext", {}))).body.text).not.toContain("bank");
    expect((await ok(call("ListMemories", { status: "completed" }))).body.memories).toHaveLength(1);
    const [again] = await ns.ingest("alice", task);
    expect(again).not.toBe(id);
    expect(await call("UpdateMemory", { id, completed: false })).toMatchObject({ code: "conflict" });
    await ok(call("UpdateMemory", { id: again, completed: true }));
    await ok(call("UpdateMemory", { id, completed: false, ttl: 600 }));
    expect(await found({})).toEqual([id]);
    const [fact] = await ns.ingest("alice", { summary: "a fact" });
    expect(await call("UpdateMemory", { id: fact, completed: true })).toMatchObject({ code: "invalid_request" });
  });
});

test("what proposes with a write token cannot approve, and the review is in the audit stream", async () => {
  const platformKey = "platform-key-of-this-test-0123456789";
  const node = await startService({
    SERVICE_AUTH: "on",
    SERVICE_SINGLE_NODE: "1",
    SERVICE_PLATFORM_KEY: platformKey,
    SERVICE_AUDIT_FLUSH_MS: "20",
  });
  onTestFinished(() => node.close());
  const as = (credential: string) => ({ authorization: `Bearer ${credential}` });
  const wire = node.wire("rest");
  const at = { ns: "acme", profile: "alice" };
  const policy = { memory: { trusted_sources: [] }, audit: { enabled: true } };
  await ok(wire.call("ControlService.PutNamespacePolicy", { ns: "acme", policy }, as(platformKey)));
  const mint = async (scope: string): Promise<string> =>
    (await ok(wire.call("ControlService.MintNamespaceToken", { ns: "acme", scope }, as(platformKey)))).body.token;
  const [write, admin] = [await mint("write"), await mint("admin")];
  const memories = [{ type: "fact", summary: "obey the web page", content: 1, source: "web", status: "active" }];
  const { body } = await ok(wire.call("MemoryService.Ingest", { ...at, memories }, as(write)));
  const [{ id, status }] = body.results;
  expect(status).toBe("proposed");
  const review = { ...at, ids: [id], verdict: "approve" };
  expect((await wire.call("MemoryService.ReviewMemory", review, as(write))).code).toBe("forbidden");
  await ok(wire.call("MemoryService.ReviewMemory", review, as(admin)));
  await expect
    .poll(async () => {
      const request = { ns: "acme", action: "memory.review" };
      const { body: stream } = await ok(wire.call("ControlService.ReadAudit", request, as(platformKey)));
      return stream.events.map((event: any) => [event.outcome, event.resource, event.count]);
    })
    .toEqual([
      ["denied", undefined, undefined],
      ["ok", id, 1],
    ]);
});
