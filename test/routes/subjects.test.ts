/** Records of a subject over both wires: written, shown, narrowed to, and erased together, whatever their kinds. */
import { expect, test } from "vitest";
import { verifyReceipt } from "../../src/control/access/receipts.ts";
import { createErasingProfile } from "../support/erasing-profile.ts";
import { palimpsest } from "../support/command-runs.ts";
import { ok, startService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { wireNames, type Reply } from "../support/wires.ts";

test.each(wireNames)(
  "over %s: all that is of one subject is erased by one call, blocked, and proven gone",
  async (name) => {
    const directory = temporaryDirectory();
    const service = await startService({ SERVICE_GC_GRACE_SECS: "0" }, directory);
    const profile = await createErasingProfile(service.wire(name), 0);
    const db = profile.database;
    const must = (method: string, request: object): Promise<Reply> => ok(db.call(`DataService.${method}`, request));
    const memory = (method: string, request: object): Promise<Reply> =>
      ok(profile.call(`MemoryService.${method}`, request));
    const [own, other] = ["zqownwordzq", "zqotherwordzq"];

    // Of each kind one record of user-7, and one of user-8.
    for (const [subject, word, n] of [
      ["user-7", own, 7],
      ["user-8", other, 8],
    ] as const) {
      await profile.add({ type: "event", summary: `said ${word}`, subject });
      await must("AppendTurn", { session: "talk", role: "user", content: word, subject });
      await must("AppendTurns", { session: "talk", turns: [{ role: "user", content: `more ${word}`, subject }] });
      await must("PutValue", { ns: "n", key: `k${n}`, value: Buffer.from(word), subject });
      await must("PutValues", { ns: "n", items: [{ key: `m${n}`, text: word, subject }] });
      await must("InsertDocs", { coll: "c", docs: [{ _id: `i${n}`, word }], subject });
      await must("PutDoc", { coll: "c", id: `d${n}`, doc: { word }, subject });
      await must("UpsertVector", { coll: "v", id: `v${n}`, embedding: [n, 1], metadata: { word }, subject });
      await must("UpsertVectors", { coll: "v", vectors: [{ id: `w${n}`, embedding: [n, 2], subject }] });
      await ok(db.call("FileService.PutFile", { path: `f${n}.md`, text: word, subject }));
      await ok(db.call("FileService.PutFile", { path: `f${n}.md`, text: `${word} again` }));
    }
    await must("PutValue", { ns: "n", key: "nobody", value: Buffer.from("stays") });

    // Shown, where one record is given and in lists; and what narrows, narrows.
    expect((await memory("ListMemories", { subject: "user-7" })).body.memories).toMatchObject([{ subject: "user-7" }]);
    const recalled = (await memory("Recall", { query: "said", subject: "user-8", min_score: { keyword: 0 } })).body
      .memories;
    expect(recalled.map(({ subject }: any) => subject)).toEqual(["user-8"]);
    const turns = (await must("ListTurns", { session: "talk", subject: "user-7" })).body.turns;
    expect(turns.map(({ subject, content }: any) => [subject, content])).toEqual([
      ["user-7", own],
      ["user-7", `more ${own}`],
    ]);
    expect((await must("GetValues", { ns: "n", keys: ["k7", "nobody"] })).body.entries[0]).toMatchObject({
      subject: "user-7",
    });
    expect((await must("GetDoc", { coll: "c", id: "i7" })).body.subject).toBe("user-7");
    expect((await must("GetVector", { coll: "v", id: "w7" })).body.subject).toBe("user-7");
    expect((await must("SearchVectors", { coll: "v", vector: [7, 1], k: 1 })).body.hits[0].subject).toBe("user-7");
    expect((await ok(db.call("FileService.GetFile", { path: "f7.md" }))).body.subject).toBe("user-7");
    const facets = async (): Promise<unknown> =>
      (await must("ListFacets", { kind: "subjects" })).body.groups[0].facets.map(({ name: of, count }: any) => [
        of,
        count,
      ]);
    expect(await facets()).toEqual([
      ["user-7", 11],
      ["user-8", 11],
    ]);
    for (const [method, request] of [
      ["PutValue", { ns: "n", key: "k", value: Buffer.from("v"), subject: "x".repeat(257) }],
      ["AppendTurn", { session: "s", role: "u", content: 1, subject: "" }],
      ["UpsertVector", { coll: "v", id: "x", embedding: [1, 1], subject: "x".repeat(257) }],
    ] as const)
      expect((await db.call(`DataService.${method}`, request)).code, method).toBe("invalid_request");

    // A fork keeps its own.
    await must("Sync", {});
    await ok(db.fork("side"));
    expect((await profile.erase({ subject: "nobody" })).code).toBe("not_found");
    expect((await profile.erase({ subject: "user-7", path: "f7.md" })).code).toBe("invalid_request");
    const { body, txid } = await ok(profile.erase({ subject: "user-7" }));
    const erased = { memories: 1, turns: 2, keys: 2, documents: 2, vectors: 2, file_versions: 2 };
    expect(body).toMatchObject({
      status: "pending",
      target: { subject: "user-7" },
      erased_txid: { main: txid },
      erased,
    });
    expect([body.memory_ids.length, body.records]).toEqual([1, 10]);
    expect((await profile.erase({ subject: "user-7" })).body.id, "asked again").toBe(body.id);
    expect(await facets()).toEqual([["user-8", 11]]);
    expect((await must("ListTurns", { session: "talk" })).body.turns).toHaveLength(2);
    expect((await must("ListKeys", { ns: "n" })).body.keys).toEqual(["k8", "m8", "nobody"]);
    expect((await profile.until(body.id, "blocked")).blocked_by).toMatchObject({ branches: ["side"] });
    expect((await ok(db.at("side").call("DataService.ListKeys", { ns: "n" }))).body.keys).toContain("k7");
    await ok(db.call("BranchService.DeleteBranch", { branch: "side" }));

    const { receipt } = await profile.until(body.id, "completed");
    expect(receipt.payload).toMatchObject({
      v: 3,
      target: { subject: "user-7" },
      erased,
      evidence: { traces: { hits: 0 } },
    });
    const keys = (await service.call("GET", "/.well-known/jwks.json")).json as object;
    expect(verifyReceipt(receipt, keys)).toMatchObject({ isValid: true });
    expect(verifyReceipt({ ...receipt, payload: { ...receipt.payload, erased: { turns: 1 } } }, keys)).toMatchObject({
      isValid: false,
    });
    const scan = async (word: string): Promise<number> => (await palimpsest(["scan", directory, "--for", word])).code;
    await expect.poll(() => scan(own), { timeout: 60_000, interval: 1_000 }).toBe(0);
    expect(await scan(other), "another's is still there").not.toBe(0);
    expect(await db.integrity()).toBe("ok");
    await service.close();
  },
);

test("a rewind to before the erasure brings the subject back, and the erasure says so", async () => {
  const service = await startService({ SERVICE_GC_GRACE_SECS: "0" }, temporaryDirectory());
  const profile = await createErasingProfile(service.wire("rest"), 3_600);
  const db = profile.database;
  await profile.add({ summary: "a memory", subject: "user-7" });
  await ok(db.call("DataService.PutValue", { ns: "n", key: "k", value: Buffer.from("v"), subject: "user-7" }));
  const { txid } = await ok(db.call("DataService.Sync"));
  const { body } = await ok(profile.erase({ subject: "user-7" }));
  await ok(db.call("BranchService.RewindBranch", { branch: "main", to: String(txid) }));
  expect((await ok(db.call("DataService.ListFacets", { kind: "subjects" }))).body.groups[0].facets).toMatchObject([
    { name: "user-7", count: 2 },
  ]);
  expect((await profile.until(body.id, "blocked")).blocked_by).toMatchObject({ branches: ["main"] });
  expect((await ok(profile.erase({ subject: "user-7" }))).body.erased).toEqual({ memories: 1, keys: 1 });
  await service.close();
});

test("the subject of a value is in a header of its GET", async () => {
  const service = await startService({}, temporaryDirectory());
  await service.call("POST", "/v1/databases", { name: "values" });
  await service.call("PUT", "/v1/db/values/kv/n/k?subject=%C3%A9%20x", "v");
  expect((await service.call("GET", "/v1/db/values/kv/n/k")).headers.get("service-subject")).toBe("%C3%A9%20x");
  await service.call("PUT", "/v1/db/values/kv/n/k?subject=", "v");
  expect((await service.call("GET", "/v1/db/values/kv/n/k")).headers.get("service-subject")).toBeNull();
  await service.close();
});
