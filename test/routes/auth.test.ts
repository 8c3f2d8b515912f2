/** Authentication and authorisation, line by line, through REST and, where it makes a difference, gRPC. */
import { expect, test } from "vitest";
import { platformKey } from "../support/credentials.ts";
import { guarded, useGuarded } from "../support/guarded-service.ts";
import { startService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const node = useGuarded();

const onBoth = test.each(wireNames.map((name) => [name] as const));

const fact = (summary: string): object => ({ memories: [{ type: "fact", summary, content: { summary } }] });
let names = 0;
const freshName = (): string => `db-${++names}`;
const freshNamespace = (): string => `ns${++names}`;

onBoth("auth-01 over %s: control routes want the platform key", async (name) => {
  for (const credential of [undefined, "a wrong key", `${platformKey}x`, platformKey.slice(1)]) {
    expect((await node().over(name, credential)("ControlService.ListDatabases", {})).code).toBe("unauthorized");
    expect((await node().over(name, credential)("ControlService.CreateDatabase", { name: freshName() })).code).toBe(
      "unauthorized",
    );
  }
  expect((await node().over(name, platformKey)("ControlService.ListDatabases", {})).code).toBe("ok");
  expect((await node().over(name, platformKey)("ControlService.CreateDatabase", { name: freshName() })).code).toBe(
    "ok",
  );
});

test("auth-01: every 401 is the envelope with WWW-Authenticate, and only Bearer is a scheme", async () => {
  for (const headers of [
    {},
    { authorization: `Basic ${platformKey}` },
    { authorization: platformKey },
    { authorization: "Bearer" },
    { authorization: `Bearer ${platformKey} more` },
  ]) {
    const { status, json, headers: answered } = await node().service.call("GET", "/v1/databases", undefined, headers);
    expect([status, json.code, answered.get("www-authenticate")]).toEqual([401, "unauthorized", "Bearer"]);
  }
  expect(
    (await node().service.call("GET", "/v1/databases", undefined, { authorization: `bearer ${platformKey}` })).status,
  ).toBe(200);
});

onBoth("auth-02, auth-10 over %s: tokens are JWTs of three parts, minted with the platform key alone", async (name) => {
  const db = await node().create(freshName());
  for (const [method, request] of [
    ["ControlService.MintDatabaseToken", { db, scope: "read" }],
    ["ControlService.MintNamespaceToken", { ns: "acme", scope: "write", expires_in: 60 }],
  ] as const) {
    const { code, body } = await node().over(name, platformKey)(method, request);
    expect(code).toBe("ok");
    expect(body).toEqual({
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_in: "expires_in" in request ? 60 : 3_600,
      jti: expect.stringMatching(/^[0-9A-Z]{26}$/),
    });
    for (const credential of [undefined, "a wrong key"])
      expect((await node().over(name, credential)(method, request)).code).toBe("unauthorized");
    const own = await node().mint("db" in request ? { db } : { ns: "acme" }, "write");
    expect((await node().over(name, own)(method, request)).code).toBe("forbidden");
  }
});

test("auth-02: what is asked of a token is checked", async () => {
  const db = await node().create(freshName());
  const mint = (path: string, body: object): Promise<number> =>
    node()
      .call(platformKey, "POST", path, body)
      .then(({ status }) => status);
  for (const body of [
    {},
    { scope: "root" },
    { scope: "READ" },
    { scope: "" },
    { scope: "read", expires_in: 0 },
    { scope: "read", expires_in: 2_592_001 },
    { scope: "read", expires_in: -1 },
  ]) {
    expect(await mint(`/v1/databases/${db}/tokens`, body), JSON.stringify(body)).toBe(400);
    expect(await mint("/v1/namespaces/acme/tokens", body), JSON.stringify(body)).toBe(400);
  }
  expect(await mint(`/v1/databases/${db}/tokens`, { scope: "read", expires_in: 2_592_000 })).toBe(200);
  for (const path of [
    "/v1/databases/no-such/tokens",
    "/v1/databases/a--b--c/tokens",
    `/v1/databases/${db}@dev/tokens`,
    "/v1/namespaces/a--b/tokens",
    "/v1/namespaces/-a/tokens",
  ]) {
    expect([400, 404], path).toContain(await mint(path, { scope: "read" }));
  }
});

onBoth("auth-03 over %s: no token and garbage on a data route", async (name) => {
  const db = await node().create(freshName());
  const token = await node().mint({ db }, "admin");
  const [header, payload, signature] = token.split(".") as [string, string, string];
  const other = JSON.parse(Buffer.from(payload, "base64url").toString()) as object;
  const widened = Buffer.from(JSON.stringify({ ...other, db: "another" })).toString("base64url");
  const unsigned = Buffer.from('{"alg":"none"}').toString("base64url");
  const bad = [
    undefined,
    "garbage",
    "a.b.c",
    `${header}.${payload}.`,
    `${header}.${payload}`,
    `${header}.${widened}.${signature}`,
    `${unsigned}.${payload}.`,
    `${token}x`,
    "x".repeat(5_000),
  ];
  for (const credential of bad) {
    const { code, message } = await node().over(name, credential)("DataService.GetValue", { db, ns: "n", key: "k" });
    expect([code, message], credential ?? "none").toEqual([
      "unauthorized",
      expect.not.stringMatching(/signature|alg|claim|kid/i),
    ]);
    expect(
      (await node().over(name, credential)("DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("v") }))
        .code,
    ).toBe("unauthorized");
  }
  expect((await node().over(name, token)("DataService.GetValue", { db, ns: "n", key: "k" })).code).toBe("not_found");
});

onBoth("auth-04 over %s: the write token writes, the read token only reads", async (name) => {
  const db = await node().create(freshName());
  const value = { db, ns: "n", key: "k", value: Buffer.from("v") };
  const [read, write] = [
    node().over(name, await node().mint({ db }, "read")),
    node().over(name, await node().mint({ db }, "write")),
  ];
  expect((await write("DataService.PutValue", value)).code).toBe("ok");
  expect((await read("DataService.PutValue", { ...value, value: Buffer.from("w") })).code).toBe("forbidden");
  expect((await read("DataService.DeleteValue", { db, ns: "n", key: "k" })).code).toBe("forbidden");
  expect((await read("DataService.GetValue", { db, ns: "n", key: "k" })).body).toEqual(Buffer.from("v"));
});

onBoth("auth-05 over %s: a branch is created by an admin", async (name) => {
  const db = await node().create(freshName());
  const [write, admin] = [
    node().over(name, await node().mint({ db }, "write")),
    node().over(name, await node().mint({ db }, "admin")),
  ];
  await write("DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from("v") });
  expect((await write("BranchService.CreateBranch", { db, name: "side" })).code).toBe("forbidden");
  expect((await write("BranchService.ListBranches", { db })).code).toBe("ok");
  expect((await admin("BranchService.CreateBranch", { db, name: "side" })).code).toBe("ok");
});

onBoth(
  "auth-06 over %s: a token of another database, also by its branches and for a database that does not exist",
  async (name) => {
    const [db, other] = [await node().create(freshName()), await node().create(freshName())];
    const call = node().over(name, await node().mint({ db: other }, "admin"));
    for (const spec of [db, `${db}@main`, `${db}@dev`, "no-such-database"]) {
      expect((await call("DataService.ListKeys", { db: spec, ns: "n" })).code, spec).toBe("forbidden");
      expect((await call("BranchService.ListBranches", { db: spec })).code, spec).toBe("forbidden");
    }
    expect((await call("DataService.ListKeys", { db: `${other}@main`, ns: "n" })).code).toBe("ok");
  },
);

onBoth("auth-07 over %s: the read token selects; a batch that writes anywhere is forbidden whole", async (name) => {
  const db = await node().create(freshName());
  const [read, write] = [
    node().over(name, await node().mint({ db }, "read")),
    node().over(name, await node().mint({ db }, "write")),
  ];
  const run = (call: typeof read, ...statements: string[]): Promise<Reply> =>
    call("DataService.ExecuteSql", { db, stmts: statements.map((q) => ({ q })) });
  expect((await run(write, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")).code).toBe("ok");
  for (const good of [
    "SELECT a FROM t",
    "WITH x AS (SELECT a FROM t) SELECT * FROM x",
    "VALUES (1)",
    "PRAGMA table_info(t)",
    "PRAGMA integrity_check",
    "EXPLAIN SELECT 1",
  ]) {
    expect((await run(read, good)).code, good).toBe("ok");
  }
  const writes = [
    ["INSERT INTO t VALUES (2)"],
    ["SELECT 1", "INSERT INTO t VALUES (2)"],
    ["INSERT INTO t VALUES (2)", "SELECT 1"],
    ["INSERT INTO t VALUES (2) RETURNING a"],
    ["WITH x AS (SELECT 5 AS a) INSERT INTO t SELECT a FROM x"],
    ["WITH x AS (SELECT 1) UPDATE t SET a = 3"],
    ["DELETE FROM t"],
    ["DROP TABLE t"],
    ["CREATE TABLE u (a)"],
    ["REPLACE INTO t VALUES (2)"],
  ];
  for (const batch of writes) {
    for (const txn of [true, false])
      expect(
        (await read("DataService.ExecuteSql", { db, stmts: batch.map((q) => ({ q })), txn })).code,
        batch.join("; "),
      ).toBe("forbidden");
  }
  expect((await run(read, "SELECT a FROM t")).body.results[0].rows).toEqual([[1]]);
  // The guard speaks before the scope, whatever the credential.
  expect((await run(read, "ATTACH 'x' AS y")).code).toBe("invalid_request");
});

onBoth(
  "auth-08 over %s: an expired token, after the leeway",
  async (name) => {
    const db = await node().create(freshName());
    const token = await node().mint({ db }, "read", 1);
    const read = (): Promise<Reply> => node().over(name, token)("DataService.ListKeys", { db, ns: "n" });
    expect((await read()).code).toBe("ok");
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect((await read()).code).toBe("ok");
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    expect(await read()).toMatchObject({ code: "unauthorized", message: "the token has expired" });
  },
  20_000,
);

onBoth("auth-09 over %s: no plain database can be smuggled under a namespace", async (name) => {
  for (const bad of ["acme--x", "acme---x", "a--", "--a"])
    expect((await node().over(name, platformKey)("ControlService.CreateDatabase", { name: bad })).code, bad).toBe(
      "invalid_request",
    );
});

onBoth("auth-11, auth-12 over %s: a namespace token serves the profiles of its namespace", async (name) => {
  const [ns, elsewhere] = [freshNamespace(), freshNamespace()];
  const write = node().over(name, await node().mint({ ns }, "write"));
  const read = node().over(name, await node().mint({ ns }, "read"));
  const stranger = node().over(name, await node().mint({ ns: elsewhere }, "admin"));
  const ids: string[] = [];
  for (const profile of ["alice", "bob"]) {
    const { code, body } = await write("MemoryService.Ingest", { ns, profile, ...fact(`of ${profile}`) });
    expect(code).toBe("ok");
    ids.push(body.results[0].id as string);
    expect((await stranger("MemoryService.Ingest", { ns, profile, ...fact("foreign") })).code).toBe("forbidden");
    expect((await stranger("MemoryService.Recall", { ns, profile, query: "of" })).code).toBe("forbidden");
    expect((await read("MemoryService.Recall", { ns, profile, query: "of" })).body.memories).toHaveLength(1);
    expect((await read("MemoryService.Ingest", { ns, profile, ...fact("more") })).code).toBe("forbidden");
    expect((await read("MemoryService.ForgetMemory", { ns, profile, id: ids.at(-1)! })).code).toBe("forbidden");
    expect((await read("MemoryService.EndSession", { ns, profile, sid: "s" })).code).toBe("forbidden");
  }
  expect((await read("MemoryService.GetMemory", { ns, profile: "alice", id: ids[0]! })).code).toBe("ok");
});

onBoth(
  "auth-13 over %s: a per-database token of a profile, before its first ingest and after, and not of its sibling",
  async (name) => {
    const ns = freshNamespace();
    const write = node().over(name, await node().mint({ db: `${ns}--alice` }, "write"));
    expect((await write("MemoryService.Ingest", { ns, profile: "alice", ...fact("mine") })).code).toBe("ok");
    expect(
      (await write("DataService.PutValue", { db: `${ns}--alice`, ns: "n", key: "k", value: Buffer.from("v") })).code,
    ).toBe("ok");
    for (const profile of ["bob", "alice2"]) {
      expect((await write("MemoryService.Ingest", { ns, profile, ...fact("not mine") })).code).toBe("forbidden");
      expect((await write("MemoryService.Recall", { ns, profile, query: "mine" })).code).toBe("forbidden");
    }
  },
);

onBoth("auth-14 over %s: any namespace token lists the profiles; nobody else does", async (name) => {
  const ns = freshNamespace();
  await node().over(name, await node().mint({ ns }, "write"))("MemoryService.Ingest", {
    ns,
    profile: "alice",
    ...fact("x"),
  });
  for (const scope of ["read", "write", "admin"]) {
    const { code, body } = await node().over(name, await node().mint({ ns }, scope))("MemoryService.ListProfiles", {
      ns,
    });
    expect([code, body.profiles.map(({ profile }: { profile: string }) => profile)]).toEqual(["ok", ["alice"]]);
    expect(
      (await node().over(name, await node().mint({ db: `${ns}--alice` }, scope))("MemoryService.ListProfiles", { ns }))
        .code,
    ).toBe("forbidden");
    expect(
      (
        await node().over(name, await node().mint({ ns: freshNamespace() }, scope))("MemoryService.ListProfiles", {
          ns,
        })
      ).code,
    ).toBe("forbidden");
  }
  expect((await node().over(name, platformKey)("MemoryService.ListProfiles", { ns })).code).toBe("forbidden");
});

onBoth(
  "auth-15 over %s: a namespace admin token checkpoints a profile, mints for it, and nothing elsewhere",
  async (name) => {
    const [ns, plain] = [freshNamespace(), await node().create(freshName())];
    const admin = node().over(name, await node().mint({ ns }, "admin"));
    await admin("MemoryService.Ingest", { ns, profile: "alice", ...fact("x") });
    expect(
      (await admin("BranchService.CreateCheckpoint", { db: `${ns}--alice`, branch: "main", name: "c" })).code,
    ).toBe("ok");
    expect((await admin("BranchService.CreateCheckpoint", { db: plain, branch: "main", name: "c" })).code).toBe(
      "forbidden",
    );
    const { code, body } = await admin("ControlService.MintDatabaseToken", { db: `${ns}--alice`, scope: "write" });
    expect(code).toBe("ok");
    expect(
      (await node().over(name, body.token as string)("MemoryService.Recall", { ns, profile: "alice", query: "x" }))
        .code,
    ).toBe("ok");
    for (const db of [plain, "other--alice"])
      expect((await admin("ControlService.MintDatabaseToken", { db, scope: "read" })).code, db).toBe("forbidden");
    expect((await admin("ControlService.MintNamespaceToken", { ns, scope: "read" })).code).toBe("forbidden");
    expect((await admin("ControlService.PutNamespacePolicy", { ns, policy: null })).code).toBe("forbidden");
    const write = node().over(name, await node().mint({ ns }, "write"));
    expect((await write("ControlService.MintDatabaseToken", { db: `${ns}--alice`, scope: "read" })).code).toBe(
      "forbidden",
    );
  },
);

onBoth("the platform key opens no data over %s", async (name) => {
  const db = await node().create(freshName());
  const call = node().over(name, platformKey);
  expect((await call("DataService.ListKeys", { db, ns: "n" })).code).toBe("forbidden");
  expect((await call("MemoryService.Recall", { ns: "acme", profile: "alice", query: "x" })).code).toBe("forbidden");
  expect((await call("BranchService.ListBranches", { db })).code).toBe("forbidden");
});

test("with authentication off everybody may, whatever they bring, and tokens are minted all the same", async () => {
  const open = guarded(await startService());
  try {
    for (const credential of [undefined, "garbage", platformKey])
      expect((await open.call(credential, "GET", "/v1/databases")).status).toBe(200);
    const { status, json } = await open.call(undefined, "POST", "/v1/namespaces/acme/tokens", { scope: "read" });
    expect([status, (json as { token: string }).token.split(".").length]).toEqual([200, 3]);
    expect((await open.call(undefined, "POST", "/v1/memory/acme/alice/memories", fact("x"))).status).toBe(201);
  } finally {
    await open.service.close();
  }
});
