/**
 * The way from a call to a decision: what is looked up, when, and what becomes of a name that changes hands meanwhile.
 */
import { create } from "@bufbuild/protobuf";
import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { Credentials } from "../../../../src/control/access/credentials.ts";
import { Databases } from "../../../../src/control/databases/databases.ts";
import { buildSigningKey } from "../../../../src/control/access/signing-key.ts";
import { Tokens } from "../../../../src/control/access/tokens.ts";
import { Concurrency } from "../../../../src/service/pipeline/admission.ts";
import { Authorization } from "../../../../src/service/pipeline/caller-check.ts";
import type { Call, Dispatch } from "../../../../src/service/call/call.ts";
import type { Context, Handler } from "../../../../src/service/call/context.ts";
import { endpoints } from "../../../../src/service/call/methods.ts";
import { createPipeline, type PipelineOptions } from "../../../../src/service/pipeline/pipeline.ts";
import { databaseTarget } from "../../../../src/service/handlers/targets.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { StoredObject } from "../../../../src/store/port/object-store.ts";
import type { NodeParts } from "../../../../src/service/handlers/node-parts.ts";

class StoreWithOutages extends MemoryStore {
  isDown = false;
  gets = 0;
  override async get(key: string): Promise<StoredObject | undefined> {
    this.gets++;
    if (this.isDown) throw new StoreError("unavailable", "nobody is there");
    return super.get(key);
  }
}

const world = realWorld();
const signingKey = await buildSigningKey(generateKeyPairSync("ed25519").privateKey);
const tokens = new Tokens(signingKey, world);

function open() {
  const store = new StoreWithOutages();
  const databases = new Databases(store, world);
  const authorization = new Authorization(
    new Credentials({ tokens, signingKey, platformKey: "key", world }),
    databases,
  );
  const build = (method: string, handler: Handler, audit?: PipelineOptions["audit"]): Dispatch =>
    createPipeline({
      handlers: new Map([[method, handler]]),
      world,
      requestTimeoutMs: 1_000,
      concurrency: new Concurrency(1),
      controlPerSecond: 10,
      durability: "standard",
      authorization,
      audit,
    });
  const call = (method: string, request: Record<string, unknown>, token: string, handler: Handler): Promise<unknown> =>
    build(method, handler)(buildCall(method, request, token));
  return { store, databases, build, call };
}

function buildCall(method: string, request: Record<string, unknown>, credential: string): Call {
  const endpoint = endpoints.find(({ name }) => name === method)!;
  return {
    endpoint,
    message: Object.assign(create(endpoint.method.input), request),
    credential,
    remoteAddress: "",
    hostDatabase: undefined,
    headers: {},
    deadlineMs: undefined,
    signal: undefined,
  };
}

const reached: Handler = async () => ({});

test("a name that changes hands between the check and the look-up is not served", async () => {
  const { databases, call } = open();
  const { uuid } = await databases.create("plain");
  const node = { world, databases } as NodeParts;
  const token = await tokens.mint({ database: { name: "plain", uuid } }, "read", 60);
  const lookUp =
    (before: () => Promise<unknown>): Handler =>
    async (_request, context: Context) => {
      await before();
      expect((await databaseTarget(node, context, "plain")).uuid).toBe(uuid);
      return {};
    };
  await call(
    "DataService.ListKeys",
    { db: "plain", ns: "n" },
    token,
    lookUp(async () => {}),
  );
  const taken = call(
    "DataService.ListKeys",
    { db: "plain", ns: "n" },
    token,
    lookUp(async () => {
      await databases.remove("plain");
      await databases.create("plain");
    }),
  );
  await expect(taken).rejects.toMatchObject({ code: "forbidden", message: expect.stringContaining("predates") });
});

test("a standing that cannot be looked up refuses writes; a namespace token's reads do not ask for it", async () => {
  const { store, call } = open();
  const token = await tokens.mint({ namespace: "acme" }, "write", 60);
  const at = { ns: "acme", profile: "alice" };
  await call("MemoryService.Ingest", at, token, reached);
  store.isDown = true;
  await expect(call("MemoryService.Ingest", at, token, reached)).rejects.toMatchObject({ kind: "unavailable" });
  const before = store.gets;
  await call("MemoryService.Recall", at, token, reached);
  expect(store.gets).toBe(before);
});

test("nothing is looked up for a caller who may not know", async () => {
  const { store, call } = open();
  const token = await tokens.mint({ namespace: "other" }, "admin", 60);
  await expect(call("MemoryService.Ingest", { ns: "acme", profile: "alice" }, token, reached)).rejects.toMatchObject({
    code: "forbidden",
  });
  await expect(
    call("MemoryService.Ingest", { ns: "acme", profile: "alice" }, "garbage", reached),
  ).rejects.toMatchObject({ code: "unauthorized" });
  expect(store.gets).toBe(0);
});

test("a handler's own demand is judged on the call's target and by its standing", async () => {
  const { databases, call } = open();
  const demanding: Handler = async (_request, context) => {
    await context.demand("write");
    return {};
  };
  const sql = (token: string): Promise<unknown> =>
    call("DataService.ExecuteSql", { db: "acme--alice", stmts: [{ q: "SELECT 1" }] }, token, demanding);
  const [read, write] = [
    await tokens.mint({ namespace: "acme" }, "read", 60),
    await tokens.mint({ namespace: "acme" }, "write", 60),
  ];
  await databases.ensure("acme--alice");
  await expect(sql(read)).rejects.toMatchObject({ code: "forbidden", message: expect.stringContaining("scope write") });
  await sql(write);
  await databases.remove("acme--alice");
  await databases.ensure("acme--alice");
  await expect(sql(write)).rejects.toMatchObject({ code: "forbidden", message: expect.stringContaining("predates") });
});

test("a call that its wire has refused reaches no handler, whatever it brings", async () => {
  const method = "ControlService.ListDatabases";
  const ends: string[] = [];
  let wasReached = false;
  const pipeline = open().build(
    method,
    async () => ((wasReached = true), {}),
    (_context, { outcome }) => void ends.push(outcome),
  );
  const call = buildCall(method, {}, "key");
  await expect(pipeline({ ...call, caller: Promise.reject(new Error("refused")) })).rejects.toThrow("refused");
  expect(wasReached).toBe(false);
  await pipeline(call);
  expect([wasReached, ends]).toEqual([true, ["error", "ok"]]);
});
