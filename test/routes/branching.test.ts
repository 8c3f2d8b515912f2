/**
 * Branches, checkpoints and rewind over both wires: the acceptance list's Branching and the lines of others that need
 * them.
 */
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { BranchService } from "../../gen/palimpsest/v1/branch_pb.ts";
import { BranchedDatabase, everywhere, fill, marks } from "../support/branched-database.ts";
import { callWithHost, ok, startLosable, useService } from "../support/service.ts";
import { type Reply, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

async function database(name: (typeof wireNames)[number]): Promise<BranchedDatabase> {
  return new BranchedDatabase(service().wire(name), await service().database());
}

test.each(wireNames)(
  "branching-01 and segments-02 over %s: what was synced is all there on a node that has lost its disk",
  async (name) => {
    const node = await startLosable();
    const before = new BranchedDatabase(node.now.wire(name), await node.now.database());
    await fill(before, "a");
    await fill(before, "b");
    await fill(before.at((await ok(before.fork("side"))).body.branch), "c");
    const synced = await ok(before.call("DataService.Sync"));
    expect(synced).toMatchObject({ body: { txid: 10 }, txid: 10, durableTxid: 10 });
    await ok(before.at("side").call("DataService.Sync"));
    await node.loseDisk();
    const after = new BranchedDatabase(node.now.wire(name), before.name);
    expect(await marks(after)).toEqual(everywhere("a", "b"));
    expect(await marks(after.at("side"))).toEqual(everywhere("a", "b", "c"));
    expect([await after.integrity(), await after.at("side").integrity()]).toEqual(["ok", "ok"]);
    // And it goes on: a new writer epoch, larger transaction ids.
    await fill(after, "d");
    expect(await marks(after)).toEqual(everywhere("a", "b", "d"));
  },
);

onBoth(
  "branching-02 over %s: a fork answers with its spec, sees the parent's rows, and each side keeps its own writes",
  async (name) => {
    const db = await database(name);
    await fill(db, "a");
    const forked = await ok(db.fork("side"));
    expect(forked).toMatchObject({
      body: { branch: "side", parent: "main", fork_txid: 5, ttl_at: null, spec: `${db.name}@side` },
      txid: 5,
      durableTxid: 5,
    });
    const side = new BranchedDatabase(service().wire(name), forked.body.spec);
    expect(await marks(side)).toEqual(everywhere("a"));
    await fill(side, "b");
    await fill(db, "c");
    expect(await marks(side)).toEqual(everywhere("a", "b"));
    expect(await marks(db)).toEqual(everywhere("a", "c"));
  },
);

onBoth("branching-02 over %s: main is as old as its database, also while nobody has written it", async (name) => {
  const unwritten = "mainage-" + name.toLowerCase();
  const { body } = await ok(service().wire(name).call("ControlService.CreateDatabase", { name: unwritten }));
  expect(await new BranchedDatabase(service().wire(name), unwritten).branches()).toMatchObject([
    { name: "main", txid: 0, created_at: body.created_at },
  ]);
});

onBoth(
  "branching-02 over %s: main comes first in the list, then the others by name, each with its parent and state",
  async (name) => {
    const db = await database(name);
    const first = await db.add(1);
    await ok(db.fork("z"));
    await ok(db.fork("b", { ttl: 3600 }));
    await ok(db.at("z").fork("c"));
    await ok(db.fork("d", { from: "z" }));
    const later = await db.at("c").add(2);
    const born = { created_at: expect.any(Number), fork_txid: first, ttl_at: null };
    expect(await db.branches()).toEqual([
      { ...born, name: "main", parent: null, fork_txid: null, txid: first },
      { ...born, name: "b", parent: "main", txid: first, ttl_at: expect.any(Number) },
      { ...born, name: "c", parent: "z", txid: later },
      { ...born, name: "d", parent: "z", txid: first },
      { ...born, name: "z", parent: "main", txid: first },
    ]);
    const { created_at: createdAtMs, ttl_at: ttlAtMs } = (await db.branches())[1];
    expect(ttlAtMs - createdAtMs).toBe(3_600_000);
    // The header speaks of the branch that is addressed.
    expect([
      (await ok(db.call("BranchService.ListBranches"))).txid,
      (await ok(db.at("c").call("BranchService.ListBranches"))).txid,
    ]).toEqual([first, later]);
  },
);

onBoth("branching-02 over %s: a database that was never written can be forked", async (name) => {
  const db = await database(name);
  expect((await ok(db.fork("side"))).body).toMatchObject({ parent: "main", fork_txid: 0 });
  await db.at("side").add(1);
  expect(await db.at("side").rows()).toEqual([1]);
  expect((await db.sql("SELECT n FROM t")).code).toBe("invalid_request");
});

onBoth("over %s a fork can start at a checkpoint or a transaction of its parent", async (name) => {
  const db = await database(name);
  const first = await db.add(1);
  const { txid: second } = (await ok(db.add(2).then(() => db.checkpoint("two")))).body;
  await db.add(3);
  expect((await ok(db.fork("at-two", { at: "two" }))).body).toMatchObject({ fork_txid: second });
  expect((await ok(db.fork("at-first", { at: String(first) }))).body).toMatchObject({ fork_txid: first });
  expect([await db.at("at-first").rows(), await db.at("at-two").rows(), await db.rows()]).toEqual([
    [1],
    [1, 2],
    [1, 2, 3],
  ]);
  for (const at of ["never", "1000000", "-1", "1.5"]) expect((await db.fork("no", { at })).code, at).toBe("not_found");
  for (const at of ["", "x".repeat(65)])
    expect(await db.fork("no", { at }), at).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("at "),
    });
  expect((await db.branches()).map(({ name: branch }) => branch)).toEqual(["main", "at-first", "at-two"]);
});

onBoth(
  "branching-04 over %s: a burner is gone when its time is over, alone, and its parent is as it was",
  async (name) => {
    const db = await database(name);
    await db.add(1);
    await ok(db.fork("stays", { ttl: 3600 }));
    const { body } = await ok(db.fork("burner", { ttl: 1 }));
    expect(body).toMatchObject({ branch: "burner", ttl_at: expect.any(Number) });
    await db.at("burner").add(2);
    await pause(body.ttl_at - Date.now() + 10);
    expect((await db.at("burner").sql("SELECT n FROM t")).code).toBe("branch_not_found");
    expect((await db.at("burner").sql("INSERT INTO t VALUES (9)")).code).toBe("branch_not_found");
    expect((await db.checkpoint("c", "burner")).code).toBe("branch_not_found");
    expect((await db.fork("heir", { from: "burner" })).code).toBe("branch_not_found");
    expect((await db.branches()).map(({ name: branch }) => branch)).toEqual(["main", "stays"]);
    expect([await db.rows(), await db.at("stays").rows()]).toEqual([[1], [1]]);
    // The name is free, and what it stood for does not come back.
    await ok(db.fork("burner"));
    expect(await db.at("burner").rows()).toEqual([1]);
  },
);

onBoth("branching-06 over %s: what is not there, cannot be named or must not be done is refused", async (name) => {
  const db = await database(name);
  const first = await db.add(1);
  const second = await db.add(2);
  expect((await ok(db.rewind(String(first)))).body).toMatchObject({ rewound_to: first, txid: second + 1 });
  expect(await db.rows()).toEqual([1]);
  for (const to of ["unknown", String(second + 1_000), "-1", "1.5"])
    expect((await db.rewind(to)).code, to).toBe("not_found");
  expect((await db.rewind("")).code).toBe("invalid_request");
  expect(await db.call("BranchService.DeleteBranch", { branch: "main" })).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("main"),
  });
  expect(await db.call("BranchService.DeleteBranch", { branch: "side" })).toMatchObject({
    code: "branch_not_found",
    message: expect.stringContaining("side"),
  });
  expect((await db.rewind(String(first), "side")).code).toBe("branch_not_found");
  expect((await db.fork("other", { from: "side" })).code).toBe("branch_not_found");
  expect((await db.at("side").call("BranchService.ListBranches")).code).toBe("branch_not_found");
  for (const bad of ["a b", ".hidden", "a/b", "a@b", "x".repeat(65), "ü"]) {
    for (const refused of [
      db.fork(bad),
      db.fork("fine", { from: bad }),
      db.checkpoint(bad),
      db.checkpoint("fine", bad),
      db.rewind("1", bad),
      db.call("BranchService.DeleteBranch", { branch: bad }),
    ]) {
      expect((await refused).code, bad).toBe("invalid_request");
    }
  }
  for (const ttl of [0, 4_000_000_000])
    expect(await db.fork("fine", { ttl }), String(ttl)).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("ttl"),
    });
  expect((await db.branches()).map(({ name: branch }) => branch)).toEqual(["main"]);
  // Of a branch that is there, a refusal tells the state.
  for (const refused of [
    db.rewind("unknown"),
    db.fork("main"),
    db.fork("fine", { at: "unknown" }),
    db.call("BranchService.DeleteCheckpoint", { branch: "main", name: "unknown" }),
  ]) {
    expect(await refused).toMatchObject({ code: expect.stringMatching("not_found|already_exists"), txid: second + 1 });
  }
});

onBoth(
  "branching-06 over %s: of many forks to one name one is made, and a deleted branch frees its name",
  async (name) => {
    const db = await database(name);
    await db.add(1);
    const codes = (await Promise.all(Array.from({ length: 8 }, () => db.fork("side")))).map(({ code }) => code);
    expect(codes.filter((code) => code === "ok")).toHaveLength(1);
    expect(codes.filter((code) => code === "already_exists")).toHaveLength(7);
    expect(await db.fork("main")).toMatchObject({ code: "already_exists", message: expect.stringContaining("main") });
    await db.at("side").add(2);
    await ok(db.at("side").fork("grandchild"));
    await ok(db.call("BranchService.DeleteBranch", { branch: "side" }));
    expect((await db.at("side").sql("SELECT 1")).code).toBe("branch_not_found");
    expect((await db.call("BranchService.DeleteBranch", { branch: "side" })).code).toBe("branch_not_found");
    expect(await db.at("grandchild").rows()).toEqual([1, 2]);
    await ok(db.fork("side"));
    expect(await db.at("side").rows()).toEqual([1]);
  },
);

onBoth("over %s the branch of a request may be said twice but only once differently", async (name) => {
  const db = await database(name);
  await db.add(1);
  await ok(db.fork("side"));
  const side = { "Service-Branch": "side" };
  for (const [method, request] of [
    ["BranchService.CreateBranch", { name: "new", from: "main" }],
    ["BranchService.CreateCheckpoint", { branch: "main", name: "c" }],
    ["BranchService.ListCheckpoints", { branch: "main" }],
    ["BranchService.DeleteCheckpoint", { branch: "main", name: "c" }],
    ["BranchService.RewindBranch", { branch: "main", to: "1" }],
    ["BranchService.DeleteBranch", { branch: "main" }],
  ] as const) {
    expect(await db.call(method, request, side), method).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("more than once"),
    });
    expect((await db.at("side").call(method, request)).code, method).toBe("invalid_request");
  }
  expect((await ok(db.call("BranchService.CreateBranch", { name: "new" }, side))).body.parent).toBe("side");
  expect(
    (await ok(db.at("side").call("BranchService.CreateCheckpoint", { branch: "side", name: "c" }, side))).code,
  ).toBe("ok");
});

onBoth(
  "over %s Service-Min-Txid of a fork reaches its fork point, and nothing of the parent's later life",
  async (name) => {
    const db = await database(name);
    const first = await db.add(1);
    await ok(db.fork("side"));
    const later = await db.add(2);
    const read = (txid: number): Promise<Reply> =>
      db.at("side").call("DataService.ListKeys", { ns: "n" }, { "Service-Min-Txid": String(txid) });
    expect((await ok(read(first))).txid).toBe(first);
    expect((await read(later)).code).toBe("invalid_request");
  },
);

test("a fork and a rewind by a typed gRPC client", async () => {
  const name = await service().database();
  const db = new BranchedDatabase(service().wire("rest"), name);
  await db.add(1);
  await db.add(2);
  const client = service().client(BranchService);
  let headers: Headers | undefined;
  const forked = await client.createBranch(
    { db: name, name: "side", at: "1", ttl: 60 },
    { onHeader: (given) => (headers = given) },
  );
  expect(forked).toMatchObject({ branch: "side", parent: "main", forkTxid: 1n, spec: `${name}@side` });
  expect(forked.ttlAt).toBeGreaterThan(BigInt(Date.now()));
  expect([headers!.get("service-txid"), headers!.get("service-durable-txid")]).toEqual(["1", "1"]);
  const rewound = await client.rewindBranch(
    { db: name, branch: "main", to: "1" },
    { onHeader: (given) => (headers = given) },
  );
  expect([rewound.rewoundTo, rewound.txid, headers!.get("service-txid")]).toEqual([1n, 3n, "3"]);
  expect([await db.rows(), await db.at("side").rows()]).toEqual([[1], [1]]);
});

test("over REST a transaction id may be a JSON number, and every status is the documented one", async () => {
  const name = await service().database();
  const db = new BranchedDatabase(service().wire("rest"), name);
  await db.add(1);
  await db.add(2);
  const call = (method: string, path: string, body?: unknown) =>
    service().call(method, `/v1/db/${name}/branches${path}`, body);
  expect((await call("POST", "", { name: "side", at: 1 })).status).toBe(201);
  expect((await call("POST", "", { name: "side" })).status).toBe(409);
  expect((await call("GET", "")).status).toBe(200);
  expect((await call("POST", "/main/checkpoint", { name: "c" })).status).toBe(200);
  expect((await call("POST", "/main/rewind", { to: 1 })).json).toEqual({ rewound_to: 1, txid: 3 });
  expect((await call("POST", "/main/rewind", { to: 77 })).status).toBe(404);
  expect((await call("DELETE", "/main/checkpoint/c")).status).toBe(204);
  expect((await call("DELETE", "/side")).status).toBe(204);
  expect((await call("DELETE", "/side")).status).toBe(404);
  expect((await call("DELETE", "/main")).status).toBe(400);
});

test("on a database's own host a branch is addressed by Service-Branch or the host itself", async () => {
  const name = await service().database();
  const { port } = service();
  const db = new BranchedDatabase(service().wire("rest"), name);
  await db.add(1);
  const forked = await callWithHost(port, `${name}.localhost`, "POST", "/v1/branches", { name: "side" });
  expect([forked.status, forked.json.spec]).toEqual([201, `${name}@side`]);
  await db.at("side").add(2);
  const rows = async (host: string, headers: Record<string, string> = {}): Promise<unknown> =>
    (await callWithHost(port, host, "POST", "/v1/sql", { stmts: [{ q: "SELECT n FROM t ORDER BY n" }] }, headers)).json
      .results[0].rows;
  expect(await rows(`${name}.localhost`)).toEqual([[1]]);
  expect(await rows(`${name}.localhost`, { "Service-Branch": "side" })).toEqual([[1], [2]]);
  expect(await rows(`${name}@side.localhost`)).toEqual([[1], [2]]);
  expect((await callWithHost(port, `${name}.localhost`, "DELETE", "/v1/branches/side")).status).toBe(204);
});

onBoth("over %s a database is deleted with all its branches", async (name) => {
  const db = await database(name);
  await db.add(1);
  await ok(db.fork("side"));
  await db.at("side").add(2);
  await ok(service().wire(name).call("ControlService.DeleteDatabase", { db: db.name }));
  for (const at of [db, db.at("side")]) expect((await at.sql("SELECT n FROM t")).code).toBe("database_not_found");
  await ok(service().wire(name).call("ControlService.CreateDatabase", { name: db.name }));
  expect((await db.at("side").sql("SELECT n FROM t")).code).toBe("branch_not_found");
  expect((await db.branches()).map(({ name: branch }) => branch)).toEqual(["main"]);
});
