/** The change feed over every wire: what it tells, to whom, from where, and how it ends. */
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { streamsOfDatabaseMax } from "../../src/service/feed/stream-places.ts";
import { bearer, platformKey } from "../support/credentials.ts";
import { startGuarded, useGuarded } from "../support/guarded-service.ts";
import { startService, useService } from "../support/service.ts";
import { type Refused, watches, Watching, type Watched } from "../support/watchers.ts";

const text = { "content-type": "text/plain" };
const service = useService({ SERVICE_DURABILITY: "standard" });
const guarded = useGuarded();
const wires = Object.keys(watches);

function watch(
  wire: string,
  asked: Watched,
  headers: Record<string, string> = {},
  address = service().address,
): Watching {
  const watching = new Watching(watches[wire]!, address, asked, headers);
  onTestFinished(() => watching.stop());
  return watching;
}

async function put(db: string, key: string, node = service()): Promise<number> {
  const { json, status, text: answer } = await node.call("PUT", `/v1/db/${db}/kv/n/${key}`, key, text);
  expect(status, answer).toBe(200);
  return json.txid as number;
}

const keysOf = (watching: Watching): unknown[] =>
  watching.transactions.flatMap(({ changes }) => changes.map(({ key }) => key));

/** No gap and no repeat: each event follows the one before. */
function expectChain(watching: Watching): void {
  const { events } = watching;
  for (const [at, { kind, txid, afterTxid }] of events.entries()) {
    if (at === 0) expect(kind).toBe("position");
    else if (kind === "changes") expect(afterTxid).toBe(events[at - 1]!.txid);
    if (kind === "position") expect(afterTxid).toBe(txid);
  }
}

describe.each(wires)("over %s", (wire) => {
  test("everything that is written comes, in order, while it is written and afterwards", async () => {
    const db = await service().database();
    const live = watch(wire, { db });
    await live.until(({ events }) => events.length === 1);
    expect(live.events[0]).toMatchObject({ kind: "position", txid: 0 });
    await put(db, "a");
    await service().call("POST", `/v1/db/${db}/docs/people/insert`, { docs: [{ _id: "ada" }] });
    await service().call("POST", `/v1/db/${db}/sql`, { stmts: [{ q: "CREATE TABLE visits (at)" }] });
    await service().call("PUT", `/v1/db/${db}/files/notes%2Fa`, { text: "x" });
    await service().call("POST", `/v1/db/${db}/memory/s-1/turns`, { role: "user", content: "hi" });
    await service().call("DELETE", `/v1/db/${db}/kv/n/a`);
    const expected = [
      { kind: "kv", op: "put", namespace: "n", key: "a" },
      { kind: "doc", op: "created", collection: "people", id: "ada" },
      { kind: "sql", op: "written", table: "visits" },
      { kind: "file", op: "written", path: "notes/a" },
      { kind: "turn", op: "created", session_id: "s-1", seq: 1 },
      { kind: "kv", op: "deleted", namespace: "n", key: "a" },
    ];
    await live.until(({ transactions }) => transactions.length === expected.length);
    expect(live.transactions.flatMap(({ changes }) => changes)).toEqual(expected);
    expectChain(live);
    const later = watch(wire, { db, after: 0 });
    await later.until(({ transactions }) => transactions.length === expected.length);
    expect(later.transactions).toEqual(live.transactions);
    const rest = watch(wire, { db, after: 4 });
    await rest.until(({ transactions }) => transactions.length === 2);
    expect(rest.transactions).toEqual(live.transactions.slice(4));
  });

  test("a memory that supersedes another is told with it", async () => {
    const { ns, profile } = service().profile();
    for (const summary of ["light", "dark"])
      await service().call("POST", `/v1/memory/${ns}/${profile}/memories`, {
        memories: [{ type: "fact", topic_key: "theme", summary, content: {} }],
      });
    const watching = watch(wire, { db: `${ns}--${profile}`, after: 0 });
    await watching.until(({ transactions }) => transactions.length === 2);
    const [first, second] = watching.transactions;
    expect(first!.changes).toMatchObject([{ kind: "memory", op: "created" }]);
    expect(second!.changes).toMatchObject([
      { kind: "memory", op: "created" },
      { kind: "memory", op: "superseded", id: first!.changes[0]!["id"] },
    ]);
  });

  test("a rewind is told, to those who had seen what it undoes and to those who had not", async () => {
    const db = await service().database();
    for (const key of ["a", "b", "c"]) await put(db, key);
    const seenAll = watch(wire, { db, after: 0 });
    await seenAll.until(({ transactions }) => transactions.length === 3);
    const { status, json } = await service().call("POST", `/v1/db/${db}/branches/main/rewind`, { to: "1" });
    expect(status).toBe(200);
    await put(db, "d");
    await seenAll.until(({ transactions }) => transactions.length === 5);
    expect(seenAll.transactions[3]).toMatchObject({ kind: "rewound", afterTxid: 1, txid: json.txid });
    const fresh = watch(wire, { db, after: 0 });
    await fresh.until(({ transactions }) => transactions.length === 3);
    expect(keysOf(fresh)).toEqual(["a", "d"]);
    expect(fresh.transactions[1]).toMatchObject({ kind: "rewound", afterTxid: 1 });
  });

  test("a branch has its own, which begins with those of what it was forked from", async () => {
    const db = await service().database();
    await put(db, "a");
    expect((await service().call("POST", `/v1/db/${db}/branches`, { name: "side" })).status).toBe(201);
    await put(db, "main-only");
    await put(`${db}@side`, "side-only");
    const side = watch(wire, { db: `${db}@side`, after: 0 });
    await side.until(({ transactions }) => transactions.length === 2);
    expect(keysOf(side)).toEqual(["a", "side-only"]);
  });

  test.each([
    ["a database that is not there", { db: "no-such" }, "database_not_found"],
    ["a branch that is not there", { db: "$db@no-such" }, "branch_not_found"],
    ["a transaction that never was", { db: "$db", after: 1_000_000 }, "invalid_request"],
    ["a negative transaction", { db: "$db", after: -1 }, "invalid_request"],
    ["a name that is none", { db: "No Name" }, "invalid_request"],
  ])("%s is refused", async (_what, asked: Watched, code) => {
    const db = await service().database();
    const watching = watch(wire, { ...asked, db: asked.db.replace("$db", db) });
    expect(await watching.end()).toMatchObject({ code });
    expect(watching.events).toEqual([]);
  });

  test("scopes open it as its rule says, and a token that is revoked meanwhile ends it", async () => {
    const node = guarded();
    const db = await node.create(`scoped-${wires.indexOf(wire)}`);
    const other = await node.create(`other-${wires.indexOf(wire)}`);
    const { address } = node.service;
    for (const scope of ["read", "write", "admin"]) {
      const good = watch(wire, { db }, bearer(await node.mint({ db }, scope)), address);
      await good.until(({ events }) => events.length === 1);
      good.stop();
    }
    const codes = [];
    for (const credential of [undefined, "garbage", platformKey, await node.mint({ db: other }, "admin")])
      codes.push(((await watch(wire, { db }, bearer(credential), address).end()) as Refused).code);
    expect(codes).toEqual(["unauthorized", "unauthorized", "forbidden", "forbidden"]);
    const token = await node.mint({ db }, "read");
    const watching = watch(wire, { db }, bearer(token), address);
    await watching.until(({ events }) => events.length === 1);
    const { jti } = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString()) as { jti: string };
    expect((await node.call(platformKey, "DELETE", `/v1/databases/${db}/tokens/${jti}`)).status).toBeLessThan(300);
    expect(await watching.end()).toMatchObject({ code: "unauthorized" });
  }, 40_000);

  test("a node that leaves says so, and another goes on behind the last event", async () => {
    const node = await startService();
    const db = await node.database();
    const watching = watch(wire, { db, after: 0 }, {}, node.address);
    await put(db, "a", node);
    await watching.until(({ transactions }) => transactions.length === 1);
    const closed = node.close();
    expect(await watching.end()).toMatchObject({ code: "unavailable" });
    await closed;
  });
});

test("Last-Event-ID goes before the query, as a client that comes again repeats that", async () => {
  const db = await service().database();
  for (const key of ["a", "b", "c"]) await put(db, key);
  const watching = watch("rest", { db, after: 0 }, { "last-event-id": "2" });
  await watching.until(({ transactions }) => transactions.length === 1);
  expect(keysOf(watching)).toEqual(["c"]);
  expect(await watch("rest", { db }, { "last-event-id": "x" }).end()).toMatchObject({ code: "invalid_request" });
});

test("a client of REST that takes no events is told which there are", async () => {
  const db = await service().database();
  const { status, json } = await service().call("GET", `/v1/db/${db}/changes`, undefined, {
    accept: "application/json",
  });
  expect([status, json.code, json.error]).toEqual([
    406,
    "invalid_request",
    expect.stringContaining("text/event-stream"),
  ]);
});

test("a type of Connect's other form is refused", async () => {
  const db = await service().database();
  const path = "/palimpsest.v1.ChangeService/Watch";
  const { status } = await service().call("POST", path, { db });
  expect(status).toBe(415);
  const unary = await service().call("POST", "/palimpsest.v1.DataService/GetValue", "x", {
    "content-type": "application/connect+json",
  });
  expect(unary.status).toBe(415);
});

test("a database has so many streams at once; each that ends makes room", async () => {
  const db = await service().database();
  const open = Array.from({ length: streamsOfDatabaseMax }, (_, at) => watch(wires[at % 2]!, { db }));
  for (const watching of open) await watching.until(({ events }) => events.length === 1);
  expect(await watch("rest", { db }).end()).toMatchObject({ code: "overloaded" });
  const other = watch("rest", { db: await service().database() });
  await other.until(({ events }) => events.length === 1);
  for (const watching of open.slice(0, 2)) watching.stop();
  for (;;) {
    const again = watch("grpc", { db });
    await Promise.race([again.until(({ events }) => events.length === 1), again.end()]).catch(() => {});
    if (again.events.length === 1) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("nothing of a stream is left when its client goes without a word", async () => {
  const db = await service().database();
  for (let round = 0; round < 2 * streamsOfDatabaseMax; round++) {
    const socket = connect(service().port, "127.0.0.1");
    await new Promise<void>((resolve) => socket.once("connect", resolve));
    socket.write(`GET /v1/db/${db}/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    if (round % 2 === 0) await new Promise((resolve) => socket.once("data", resolve));
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const watching = watch("rest", { db });
  await watching.until(({ events }) => events.length === 1);
});

test("a deleted database ends its streams", async () => {
  const node = await startGuarded();
  onTestFinished(() => node.service.close());
  const db = await node.create("short-lived");
  const watching = watch("rest", { db }, bearer(await node.mint({ db }, "read")), node.service.address);
  await watching.until(({ events }) => events.length === 1);
  expect((await node.call(platformKey, "DELETE", `/v1/databases/${db}`)).status).toBeLessThan(300);
  const ended = (await watching.end()) as Refused;
  expect(["database_not_found", "unauthorized", "forbidden"]).toContain(ended.code);
});
