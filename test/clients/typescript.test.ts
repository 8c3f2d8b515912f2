/**
 * The TypeScript client beside a real node: every route of the node's own description is called by some method, and
 * what the methods promise holds.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { Palimpsest, type Profile } from "../../clients/typescript/src/index.ts";
import { findUncalled } from "../support/called-routes.ts";
import { startService, type Service } from "../support/service.ts";

let service: Service;
let client: Palimpsest;
/** The requests that were sent, as `METHOD /path`. */
const sent: string[] = [];

beforeAll(async () => {
  service = await startService();
  client = new Palimpsest({
    url: service.address,
    fetch: (input, init) => {
      sent.push(`${init?.method} ${new URL(String(input)).pathname}`);
      return fetch(input, init);
    },
  });
  return () => service.close();
});

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const taken: Item[] = [];
  for await (const item of items) taken.push(item);
  return taken;
}

describe("every route has a method", () => {
  test("of memories", async () => {
    const db = client.profile("acme", "alice");
    const [fact, task] = await db.remember([
      { type: "fact", topicKey: "theme", summary: "Alice likes it light", content: { snake_case: { camelCase: 1 } } },
      { type: "task", summary: "call the bank", sessionId: "s1", metadata: { a_b: 1 } },
    ]);
    expect((await db.get(fact!.id))?.content).toEqual({ snake_case: { camelCase: 1 } });
    expect(await db.get("mem_unknown")).toBeUndefined();
    const found = await db.recall("what does Alice like?", { k: 3, explain: true });
    expect(found.memories[0]).toMatchObject({ id: fact!.id, topicKey: "theme", supersededBy: null });
    expect(found.memories[0]!.explain).toBeDefined();
    expect((await db.context("Alice", { maxTokens: 200 })).text).toContain("light");
    expect((await db.update(task!.id, { pinned: true })).pinned).toBe(true);
    expect((await all(db.memories({ filter: { a_b: 1 }, limit: 1 }))).map(({ id }) => id)).toEqual([task!.id]);
    expect((await all(db.memories({ limit: 1 }))).length).toBe(2);
    expect((await all(db.memories({ types: ["fact", "event"] }))).map(({ id }) => id)).toEqual([fact!.id]);
    await db.turns("s1").add({ role: "user", content: "hello" });
    expect((await all(db.sessions({ includeTurns: true })))[0]).toMatchObject({ id: "s1", turns: 1 });
    await db.endSession("s1", { turns: true });
    const [event] = await db.remember({ type: "event", summary: "to be forgotten" });
    await db.forget(event!.id);
    await expect(db.forget(event!.id)).rejects.toBeInstanceOf(Palimpsest.NotFound);
    const erasure = db.erase({ topicKey: "theme", type: "fact" });
    const coupon = await erasure;
    expect(coupon.memoryIds).toEqual([fact!.id]);
    expect((await db.erasure(coupon.id)).id).toBe(coupon.id);
    expect((await db.erasures()).map(({ id }) => id)).toEqual([coupon.id]);
    await expect(db.erasure(coupon.id).completed({ withinMs: 1 })).rejects.toBeInstanceOf(Palimpsest.DeadlineExceeded);
    await db.remember([
      { type: "event", summary: "one" },
      { type: "event", summary: "two" },
    ]);
    expect((await db.forgetAll({ types: ["event"], limit: 1 })).length).toBe(2);
    await db.remember({ type: "fact", topicKey: "coat", summary: "Alice wears a red coat" });
    await db.remember({ type: "fact", topicKey: "coat", summary: "Alice wears a blue coat" });
    expect((await all(db.history({ topicKey: "coat", type: "fact", limit: 1 }))).length).toBe(2);
    const [proposal] = await db.remember({ type: "event", summary: "maybe", status: "proposed" });
    expect((await db.review([proposal!.id], "reject"))[0]).toMatchObject({ id: proposal!.id, status: "rejected" });
    await expect(db.ask("anything")).rejects.toBeInstanceOf(Palimpsest.Unconfigured);
    await expect(db.extract({ turns: [{ role: "user", content: "hi" }] })).rejects.toBeInstanceOf(
      Palimpsest.Unconfigured,
    );
    await expect(db.reembed()).rejects.toBeInstanceOf(Palimpsest.Unconfigured);
    await expect(db.calibrate()).rejects.toBeInstanceOf(Palimpsest.Unconfigured);
    await db.putPolicy({ memory: { task_ttl_max_secs: 60 } });
    expect((await db.policy()).override).toEqual({ memory: { task_ttl_max_secs: 60 } });
  });

  test("of values, documents, vectors, SQL", async () => {
    const db = await client.createDatabase("tools");
    const kv = db.kv("settings");
    await kv.put("k/1", "text", { ifAbsent: true });
    await expect(kv.put("k/1", "text", { ifAbsent: true })).rejects.toBeInstanceOf(Palimpsest.Conflict);
    const value = await kv.get("k/1");
    expect(value?.text()).toBe("text");
    await kv.put("k/1", new Uint8Array([1, 0]), { ifMatch: value!.hash });
    expect((await kv.get("k/1"))?.bytes).toEqual(new Uint8Array([1, 0]));
    expect(await all(kv.keys())).toEqual(["k/1"]);
    await kv.delete("k/1");
    expect(await kv.get("k/1")).toBeUndefined();
    await kv.putMany([
      { key: "a", text: "1" },
      { key: "b", text: "2", ifAbsent: true },
    ]);
    expect((await kv.getMany(["b", "x", "a"])).map(({ text }) => text)).toEqual(["2", "1"]);
    expect((await all(kv.entries({ values: true, limit: 1 }))).map(({ key }) => key)).toEqual(["a", "b"]);
    expect((await kv.deleteMany([{ key: "a" }])).deleted).toBe(1);

    const notes = db.docs<{ title_of: string; n?: number }>("notes");
    await notes.insert([
      { title_of: "a", n: 1 },
      { title_of: "b", n: 2 },
    ]);
    expect(await notes.find({ filter: { n: { $gte: 2 } }, sort: { title_of: -1 } })).toMatchObject([{ title_of: "b" }]);
    await notes.put("x", { title_of: "x" }, { ifAbsent: true });
    expect((await notes.get("x"))?.doc).toMatchObject({ title_of: "x" });
    expect(await notes.get("y")).toBeUndefined();
    await notes.update({ filter: { title_of: "a" }, update: { $set: { n: 5 } } });
    await notes.delete("x");
    await notes.deleteMany({ filter: { n: 5 } });
    await notes.createIndex("n");
    expect((await notes.indexes()).map(({ path }) => path)).toEqual(["n"]);
    expect(await notes.dropIndex("n")).toBe(true);
    expect((await notes.count()).count).toBe(1);
    expect((await notes.group("title_of")).groups.length).toBe(1);
    expect((await db.collections()).length).toBe(1);
    expect((await db.facets()).length).toBeGreaterThan(0);

    const faces = db.vectors("faces");
    await faces.upsert({ id: "f1", embedding: [0, 1], metadata: { is_a: 1 } });
    await faces.upsertMany({ vectors: [{ id: "f2", embedding: [1, 0] }] });
    expect(await faces.search({ vector: [0, 1], k: 1 })).toMatchObject([{ id: "f1", metadata: { is_a: 1 } }]);
    expect((await faces.get("f2"))?.embedding).toEqual([1, 0]);
    expect((await all(faces.list({ limit: 1 }))).map(({ id }) => id)).toEqual(["f1", "f2"]);
    await faces.delete("f1");
    await faces.deleteMany({ ids: ["f2"] });

    await db.sql("CREATE TABLE t (a_b TEXT)");
    expect((await db.sql("INSERT INTO t VALUES (?)", ["x"])).rowsAffected).toBe(1);
    expect((await db.batch([{ q: "SELECT a_b FROM t WHERE a_b = :v", params: { v: "x" } }]))[0]).toMatchObject({
      columns: ["a_b"],
      rows: [["x"]],
    });
    expect((await db.sync()).txid).toBeGreaterThan(0);
  });

  test("of turns and files", async () => {
    const db = await client.createDatabase("talk");
    const turns = db.turns("chat");
    await turns.append(
      [
        { role: "user", content: { a_b: 1 } },
        { role: "assistant", content: "two" },
      ],
      { operationId: "1" },
    );
    expect((await turns.last(1))[0]).toMatchObject({ content: "two" });
    expect((await all(turns.list({ limit: 1 }))).map(({ seq }) => seq)).toEqual([1, 2]);
    await turns.replace({ expected: [{ seq: 2 }], turns: [{ role: "assistant", content: "2" }] });
    await turns.search({ vector: [1, 0] });
    await turns.delete({ last: 1 });
    expect((await all(turns.list())).length).toBe(1);

    await db.files.put("notes/été.md", "one\ntwo\n");
    const file = await db.files.get("notes/été.md");
    expect(file).toMatchObject({ text: "one\ntwo\n", lines: 2 });
    await db.files.edit("notes/été.md", {
      edits: [{ oldText: "two", text: "2", replaceAll: false }],
      ifMatch: file!.hash,
    });
    expect((await all(db.files.list({ recursive: true }))).map(({ path }) => path)).toEqual(["notes/été.md"]);
    await db.files.move("notes", { to: "kept" });
    expect((await db.files.search({ query: "one" }))[0]).toMatchObject({ path: "kept/été.md" });
    expect((await db.files.versions("kept/été.md")).length).toBe(1);
    await db.files.delete("kept", { recursive: true });
    expect(await db.files.get("kept/été.md")).toBeUndefined();
  });

  test("of branches", async () => {
    const db = client.profile("acme", "brancher");
    await db.remember({ type: "fact", topicKey: "t", summary: "on main" });
    await db.checkpoint("before");
    const draft = await db.fork("draft", { ttl: 600 });
    await draft.remember({ type: "fact", topicKey: "t", summary: "on the draft" });
    const holds = async (branch: Profile) =>
      (await branch.recall({ topicKey: "t" })).memories.map(({ summary }) => summary);
    expect([await holds(db), await holds(draft)]).toEqual([["on main"], ["on the draft"]]);
    expect((await db.branches()).map(({ name }) => name)).toEqual(["main", "draft"]);
    await draft.checkpoint("mine");
    expect((await draft.checkpoints()).map(({ checkpoint }) => checkpoint)).toContain("mine");
    await draft.deleteCheckpoint("mine");
    await draft.deleteBranch();
    await expect(holds(draft)).rejects.toBeInstanceOf(Palimpsest.BranchNotFound);
    await db.remember({ type: "fact", topicKey: "t", summary: "later" });
    expect(await all(db.diff({ from: "before" }))).toMatchObject([{ kind: "memory" }, { kind: "memory" }]);
    expect((await db.recall({ topicKey: "t" }, {}, { at: "before" })).memories[0]!.summary).toBe("on main");
    await db.remember({ type: "fact", topicKey: "t", summary: "undone" });
    const { txid } = await db.sync();
    const { changes } = await db.undo(txid, { dryRun: true });
    expect(changes).toMatchObject([{ op: "created" }, { op: "superseded" }]);
    expect((await db.undo(txid)).undone).toBe(txid);
    expect(await holds(db)).toEqual(["later"]);
    await db.rewind("before");
    expect(await holds(db)).toEqual(["on main"]);
  });

  test("of webhooks", async () => {
    const db = client.profile("acme", "hooked");
    await db.remember({ type: "fact", topicKey: "t", summary: "one" });
    const hook = await db.webhooks.create("https://localhost:1/x", { kinds: ["memory"], description: "d" });
    expect(await db.webhooks.list()).toMatchObject([{ id: hook.id, state: "active", kinds: ["memory"] }]);
    expect(await db.webhooks.update(hook.id, { paused: true })).toMatchObject({ pausedBecause: "asked" });
    expect(await db.webhooks.test(hook.id)).toMatchObject({ delivered: false, reason: "address" });
    expect(await all(db.webhooks.failures(hook.id))).toEqual([]);
    expect(await db.webhooks.redeliver(hook.id, { txids: [1] })).toEqual({ count: 0 });
    await db.webhooks.delete(hook.id);
    await expect(db.webhooks.test(hook.id)).rejects.toBeInstanceOf(Palimpsest.NotFound);
  });

  test("of exports and imports", async () => {
    const db = client.profile("acme", "mover");
    await db.remember({ type: "fact", topicKey: "t", summary: "to be moved", subject: "ada" });
    const text = "lorem ipsum ".repeat(60_000);
    for (const path of ["a", "b", "c", "d"]) await db.files.put(path, path + text);
    await db.checkpoint("whole");
    await db.files.delete("d");
    const parts = await all(db.export({ at: "whole" }));
    expect(parts.length).toBeGreaterThan(1);
    const copy = client.profile("acme", "moved");
    await copy.remember({ type: "event", summary: "was there" });
    const dry = await copy.import(parts, { dryRun: true });
    expect(dry).toMatchObject({ complete: true, errors: [] });
    const lines = Buffer.concat(parts);
    const pieces = Array.from({ length: 7 }, (_, n) => lines.subarray(n * 500_000, (n + 1) * 500_000));
    const taken = await copy.import(pieces);
    expect(taken).toMatchObject({ complete: true, counts: dry.counts, left: [] });
    expect((await copy.files.get("d"))!.text).toBe(`d${text}`);
    expect((await copy.recall({ topicKey: "t" })).memories[0]).toMatchObject({
      summary: "to be moved",
      subject: "ada",
    });
    expect((await copy.import(db.export(), { mode: "replace" })).complete).toBe(true);
    await copy.rewind(taken.checkpoint!);
    expect(await copy.files.get("d")).toBeUndefined();
    await expect(copy.import("}{\n")).rejects.toBeInstanceOf(Palimpsest.InvalidRequest);
    await expect(copy.import(Buffer.concat([lines, lines]))).rejects.toThrow(/trailer/);
  });

  test("of the change feed", async () => {
    const db = client.profile("acme", "watched");
    await db.remember({ type: "fact", topicKey: "t", summary: "told" });
    const told = [];
    for await (const event of db.watch({ after: 0 })) {
      told.push(event);
      if (event.kind === "changes") break;
    }
    expect(told).toMatchObject([
      { kind: "position", txid: 0 },
      { kind: "changes", txid: 1, afterTxid: 0, changes: [{ kind: "memory", op: "created" }], partial: false },
    ]);
  });

  test("of the control plane and the node", async () => {
    const names = (await client.databases()).map(({ name }) => name);
    expect(names).toContain("acme--alice");
    const acme = client.namespace("acme");
    expect((await all(acme.profiles({ limit: 1 }))).map(({ profile }) => profile)).toContain("alice");
    await acme.putPolicy({ memory: { task_ttl_max_secs: 3600 } });
    expect((await acme.policy()).policy).toEqual({ memory: { task_ttl_max_secs: 3600 } });
    expect((await acme.usage()).databases).toBeGreaterThan(0);
    const minted = await acme.mintToken({ scope: "read" });
    await acme.revokeToken(minted.jti);
    await client.revokeToken("tools", (await client.mintToken("tools", { scope: "read", expiresIn: 60 })).jti);
    await all(acme.audit({ limit: 5 }));
    await client.deleteDatabase("tools");
    await expect(client.database("tools").sql("SELECT 1")).rejects.toBeInstanceOf(Palimpsest.DatabaseNotFound);
    await client.health();
    expect((await client.ready()).ready).toBe(true);
    expect((await client.keys()).length).toBeGreaterThan(0);
    expect(await client.llms()).toMatch(/^# Palimpsest\n/);
  });

  test("and there is no other", async () => {
    const { paths } = (await client.openapi()) as { paths: Parameters<typeof findUncalled>[0] };
    expect(findUncalled(paths, sent)).toEqual([]);
  });
});
