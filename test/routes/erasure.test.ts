/** Erasure over both wires: the acceptance list's Erasure, and the lines of others that need it. */
import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { MemoryService } from "../../gen/palimpsest/v1/memory_pb.ts";
import { verifyReceipt } from "../../src/control/access/receipts.ts";
import { createErasingProfile, ErasingProfile } from "../support/erasing-profile.ts";
import { ok, useService, type Service } from "../support/service.ts";
import { type WireName, wireNames } from "../support/wires.ts";

/** Old objects go at once: what is tested here is the order of things, not how long they take. */
const hasty = { SERVICE_GC_GRACE_SECS: "0" };
const service = useService(hasty);
const onBoth = test.each(wireNames);

const createProfile = (name: WireName, graceSecs = 0, policy: object = {}, from = service()): Promise<ErasingProfile> =>
  createErasingProfile(from.wire(name), graceSecs, policy);

async function keySet(from: Service = service()): Promise<object> {
  return (await from.call("GET", "/.well-known/jwks.json")).json as object;
}

onBoth("erasure-01 and memory-31 over %s: a topic is gone at once, and from history after the grace", async (name) => {
  const profile = await createProfile(name);
  const [first] = await profile.add({ summary: "Aurelia lives in Torvalds", topic_key: "home" });
  const [second] = await profile.add({ summary: "Aurelia lives in Ostrava", topic_key: "home" });
  await profile.add({ summary: "Aurelia likes plums" });
  const answer = await ok(profile.erase({ topic_key: "home", type: "fact" }));
  const point = answer.txid!;
  expect(answer.body).toEqual({
    id: answer.body.erasure_id,
    erasure_id: expect.stringMatching(/^ers_[0-9A-Z]{26}$/),
    status: "pending",
    target: { topic_key: "home", type: "fact" },
    memory_ids: expect.arrayContaining([first, second]),
    requested_at: expect.any(Number),
    grace_until: answer.body.requested_at,
    erased_txid: { main: point },
    completed_at: null,
    txid: point,
  });
  expect(answer.durableTxid).toBeGreaterThanOrEqual(point);
  expect(await profile.summaries("Aurelia")).toEqual(["Aurelia likes plums"]);
  expect((await profile.call("MemoryService.GetMemory", { id: second })).code).toBe("not_found");

  const coupon = await profile.until(answer.body.id, "completed");
  expect(coupon).toMatchObject({
    memory_ids: expect.arrayContaining([first, second]),
    completed_at: expect.any(Number),
    receipt: { alg: "EdDSA", kid: expect.any(String) },
  });
  expect(coupon).not.toHaveProperty("blocked_by");
  const { payload } = coupon.receipt;
  expect(payload).toMatchObject({
    erasure_id: coupon.id,
    target: { topic_key: "home", type: "fact" },
    erased_txid: { main: point },
    evidence: { traces: { hits: 0 } },
  });
  expect(payload.evidence.oldest_restorable_txid.main).toBeGreaterThanOrEqual(point);
  expect(payload.evidence.objects.scanned).toBe(payload.evidence.objects.listed);
  expect(payload.evidence.traces.looked_for).toBeGreaterThan(0);
  expect((await profile.database.rewind(String(point - 1))).code).toBe("not_found");
  expect(await profile.coupons()).toEqual([coupon]);
  expect(await profile.summaries("Aurelia")).toEqual(["Aurelia likes plums"]);
});

onBoth(
  "erasure-02 over %s: a checkpoint from before the erasure blocks it, is named, and frees it when it goes",
  async (name) => {
    const profile = await createProfile(name);
    const [id] = await profile.add({ summary: "a secret of yesterday" });
    await ok(profile.database.checkpoint("before"));
    const { id: erasure } = await profile.erased({ memory_id: id });
    await ok(profile.database.checkpoint("after"));
    expect(await profile.until(erasure, "blocked")).toMatchObject({
      blocked_by: { checkpoints: ["main/before"], branches: [] },
      completed_at: null,
    });
    expect(await profile.until(erasure, "blocked")).not.toHaveProperty("receipt");
    await ok(profile.database.call("BranchService.DeleteCheckpoint", { branch: "main", name: "before" }));
    await profile.until(erasure, "completed");
    // What stands behind the erasure is still there to go back to.
    await ok(profile.database.rewind("after"));
  },
);

onBoth("erasure-03 over %s: where the policy says so, a forget is a tracked erasure", async (name) => {
  const profile = await createProfile(name, 3_600, {
    erasure: { grace_secs: 3_600, purge_on_forget: true },
    audit: { enabled: true },
  });
  const [id, other] = await profile.add({ summary: "forget me" }, { summary: "keep me" });
  const forgotten = await ok(profile.call("MemoryService.ForgetMemory", { id }));
  const [coupon, ...more] = await profile.coupons();
  expect(more).toEqual([]);
  expect(coupon).toMatchObject({
    status: "pending",
    target: { memory_id: id },
    memory_ids: [id],
    erased_txid: { main: forgotten.txid },
  });
  expect(coupon.grace_until).toBe(coupon.requested_at + 3_600_000);
  const { ns, profile: called } = profile;
  if (name === "grpc") {
    expect((await service().client(MemoryService).forgetMemory({ ns, profile: called, id: other! })).erasureId).toMatch(
      /^ers_/,
    );
  } else {
    const again = await service().call("DELETE", `/v1/memory/${ns}/${called}/memories/${other}`);
    expect([again.status, again.headers.get("service-erasure-id")]).toEqual([204, expect.stringMatching(/^ers_/)]);
  }
  expect((await profile.call("MemoryService.ForgetMemory", { id: "mem_01J00000000000000000000000" })).code).toBe(
    "not_found",
  );
  expect(await profile.coupons()).toHaveLength(2);
});

onBoth(
  "erasure-04 over %s: bad targets are refused, unknown ones not found, and neither leaves a coupon",
  async (name) => {
    const profile = await createProfile(name);
    const [id] = await profile.add({ summary: "here to stay", topic_key: "t" });
    const refusals: readonly [object, string][] = [
      [{}, "exactly one"],
      [{ memory_id: id, session_id: "s" }, "exactly one"],
      [{ topic_key: "t" }, "type"],
      [{ type: "fact" }, "type goes with topic_key only"],
      [{ topic_key: "t", type: "thought" }, "fact, event"],
      [{ memory_id: id, turns: true }, "turns"],
      [{ memory_id: id, type: "fact" }, "type"],
      [{ session_id: "" }, "session_id"],
      [{ topic_key: "", type: "fact" }, "topic_key"],
      [{ seq: 1 }, "session_id"],
      [{ session_id: "s", seq: 0 }, "seq"],
      [{ session_id: "s", seq: 1, turns: true }, "exclude each other"],
      [{ session_id: "s", path: "a" }, "exactly one"],
      [{ path: "../a" }, "path"],
      [{ kv_ns: "n" }, "go together"],
      [{ key: "k" }, "go together"],
      [{ kv_ns: "n", key: "" }, "key"],
      [{ collection: "c" }, "go together"],
      [{ collection: "c", doc_id: "" }, "doc_id"],
      [{ vector_collection: "c" }, "go together"],
      [{ vector_collection: "no such name", vector_id: "v" }, "vector_collection"],
    ];
    for (const [target, words] of refusals) {
      const reply = await profile.erase(target);
      expect(reply.code, JSON.stringify(target)).toBe("invalid_request");
      expect(reply.message).toContain(words);
    }
    for (const target of [
      { memory_id: "mem_01J00000000000000000000000" },
      { memory_id: "what somebody said" },
      { topic_key: "other", type: "fact" },
      { topic_key: "t", type: "instruction" },
      { session_id: "s", seq: 1 },
      { path: "nowhere" },
      { kv_ns: "n", key: "k" },
      { collection: "c", doc_id: "d" },
      { vector_collection: "c", vector_id: "v" },
    ]) {
      expect((await profile.erase(target)).code, JSON.stringify(target)).toBe("not_found");
    }
    expect((await new ErasingProfile(service().wire(name), profile.ns, "nobody").erase({ memory_id: id })).code).toBe(
      "database_not_found",
    );
    expect((await profile.at("nowhere").erase({ memory_id: id })).code).toBe("branch_not_found");
    expect((await profile.call("MemoryService.GetErasure", { id: "ers_01J00000000000000000000000" })).code).toBe(
      "not_found",
    );
    expect(await profile.coupons()).toEqual([]);
    expect(await profile.summaries("here")).toEqual(["here to stay"]);
  },
);

onBoth("hostile text in place of an erasure's id over %s is nobody's id, and never a fault", async (name) => {
  const profile = await createProfile(name);
  await profile.add({ summary: "a bystander" });
  const shapes = [
    "x",
    "../../policies",
    "a/b",
    "\0",
    "日本",
    "~/1",
    "x".repeat(5_000),
    "ers_01j00000000000000000000000",
    " ers_01J00000000000000000000000",
  ];
  for (const id of shapes)
    expect((await profile.call("MemoryService.GetErasure", { id })).code, JSON.stringify(id)).toBe("not_found");
});

onBoth("erasure-05 over %s: the receipt verifies with the published keys, and nothing else does", async (name) => {
  const profile = await createProfile(name);
  const [id] = await profile.add({ summary: "sign for me" });
  const { receipt } = await profile.until((await profile.erased({ memory_id: id })).id, "completed");
  const keys = await keySet();
  expect(verifyReceipt(receipt, keys)).toMatchObject({ isValid: true });
  const forged = { ...receipt, payload: { ...receipt.payload, completed_at: receipt.payload.completed_at + 1 } };
  expect(verifyReceipt(forged, keys)).toMatchObject({ isValid: false });
  const other = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
  expect(verifyReceipt(receipt, { keys: [{ ...other, kid: receipt.kid, alg: "EdDSA", use: "sig" }] })).toMatchObject({
    isValid: false,
  });
});

onBoth("erasure by session over %s: its provenance goes everywhere, its transcript when asked for", async (name) => {
  const profile = await createProfile(name);
  await profile.add({ summary: "said in one", session_id: "one" });
  const [shared] = await profile.add({ summary: "said in both", session_id: "one" });
  await profile.add({ summary: "said in both", session_id: "two" });
  const turn = { session: "one", role: "user", content: "hello" };
  await ok(profile.database.call("DataService.AppendTurn", turn));
  const kept = await profile.erased({ session_id: "one" });
  expect(kept).toMatchObject({ target: { session_id: "one", turns: false } });
  expect(kept.memory_ids).toHaveLength(1);
  expect((await ok(profile.database.call("DataService.ListTurns", { session: "one" }))).body.turns).toHaveLength(1);
  expect(await profile.summaries("said")).toEqual(["said in both"]);
  expect((await ok(profile.call("MemoryService.GetMemory", { id: shared }))).body.session_id).toBe("two");
  await profile.until((await profile.erased({ session_id: "one", turns: true })).id, "completed");
  expect((await ok(profile.database.call("DataService.ListTurns", { session: "one" }))).body.turns).toEqual([]);
  expect(await profile.erased({ session_id: "never heard of" })).toMatchObject({ memory_ids: [] });
});

onBoth(
  "erasure-08 and F86 over %s: a rewind brings the data back and blocks the erasure, which erasing again frees",
  async (name) => {
    const profile = await createProfile(name, 1);
    const [id] = await profile.add({ summary: "comes and goes" });
    const { id: erasure, txid } = await profile.erased({ memory_id: id });
    await ok(profile.database.rewind(String(txid - 1)));
    expect(await profile.summaries("comes")).toEqual(["comes and goes"]);
    expect(await profile.until(erasure, "blocked")).toMatchObject({ blocked_by: { branches: ["main"] } });
    const again = await profile.erased({ memory_id: id });
    expect(again.id).not.toBe(erasure);
    for (const one of [erasure, again.id]) {
      const { receipt } = await profile.until(one, "completed");
      expect(receipt.payload.evidence.oldest_restorable_txid.main).toBeGreaterThanOrEqual(again.txid);
    }
    expect(await profile.summaries("comes")).toEqual([]);
  },
);

onBoth("erasure-08 and F88 over %s: a branch that holds the data blocks, and frees it when it goes", async (name) => {
  const profile = await createProfile(name);
  const [id] = await profile.add({ summary: "on two branches" });
  await ok(profile.database.fork("side"));
  const { id: erasure } = await profile.erased({ memory_id: id });
  expect(await profile.until(erasure, "blocked")).toMatchObject({
    blocked_by: { branches: ["side"], checkpoints: [] },
  });
  expect(await profile.at("side").summaries("branches")).toEqual(["on two branches"]);
  await ok(profile.database.call("BranchService.DeleteBranch", { branch: "side" }));
  await profile.until(erasure, "completed");
});

onBoth("an erasure on a branch over %s concerns that branch, and waits for main", async (name) => {
  const profile = await createProfile(name);
  const [id] = await profile.add({ summary: "everywhere" });
  await ok(profile.database.fork("side"));
  const side = await profile.at("side").erased({ memory_id: id });
  expect(side.erased_txid).toEqual({ side: side.txid });
  expect(await profile.until(side.id, "blocked")).toMatchObject({ blocked_by: { branches: ["main"] } });
  const main = await profile.erased({ memory_id: id });
  await profile.until(side.id, "completed");
  await profile.until(main.id, "completed");
  expect(
    (await ok(profile.at("side").call("MemoryService.ListErasures"))).body.erasures.map(
      ({ id: one }: { id: string }) => one,
    ),
  ).toEqual([side.id]);
});

onBoth("erasure-08 over %s: deleting the database completes its erasures, and their receipts stay", async (name) => {
  const profile = await createProfile(name, 0, { audit: { enabled: true } });
  const [id] = await profile.add({ summary: "goes with its house" });
  await ok(profile.database.checkpoint("keeps"));
  const { id: erasure } = await profile.erased({ memory_id: id });
  await profile.until(erasure, "blocked");
  await ok(
    service()
      .wire(name)
      .call("ControlService.DeleteDatabase", { db: `${profile.ns}--${profile.profile}` }),
  );
  const { receipt } = await profile.until(erasure, "completed");
  expect(receipt.payload.evidence.objects).toMatchObject({ listed: 0, live: 0 });
  expect(verifyReceipt(receipt, await keySet())).toMatchObject({ isValid: true });
  // One whose grace would still run has nothing to wait for either.
  const patient = await createProfile(name, 86_400);
  const [kept] = await patient.add({ summary: "still undoable" });
  const { id: undue } = await patient.erased({ memory_id: kept });
  await ok(
    service()
      .wire(name)
      .call("ControlService.DeleteDatabase", { db: `${patient.ns}--${patient.profile}` }),
  );
  await patient.until(undue, "completed");
  // Somebody else's profile of the same name sees nothing of it.
  await profile.add({ summary: "new tenant" });
  expect(await profile.coupons()).toEqual([]);
});
