/**
 * Webhooks through a real node and a real receiver: what is posted, in which order, signed how; what becomes of what is
 * not taken; pauses, deletions, erasures, policies.
 */
import { spawn } from "node:child_process";
import { createPublicKey, verify } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseBlocks, root } from "../support/documents.ts";
import { ErasingProfile } from "../support/erasing-profile.ts";
import { freePort } from "../support/node-process.ts";
import { Receiver, until, type Received } from "../support/receiver.ts";
import { ok, startService, useService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";
import { watches, Watching } from "../support/watchers.ts";

const node = useService({ SERVICE_WEBHOOK_HOSTS: "127.0.0.1", SERVICE_WEBHOOK_RETRY_SECS: "1,1" });

async function must(answer: ReturnType<Service["call"]>): Promise<any> {
  const { status, json, text } = await answer;
  expect(status, text).toBeLessThan(300);
  return json;
}

async function put(db: string, key: string): Promise<number> {
  const { txid } = await must(node().call("PUT", `/v1/db/${db}/kv/n/${key}`, key, { "content-type": "text/plain" }));
  return txid;
}

/** A webhook of the database; gives its path. */
async function hook(db: string, receiver: Receiver, more: object = {}): Promise<string> {
  const made = await must(node().call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url, ...more }));
  return `/v1/db/${db.split("@")[0]}/webhooks/${made.id}`;
}

async function show(path: string): Promise<any> {
  const id = path.split("/").at(-1);
  const { webhooks } = await must(node().call("GET", path.slice(0, path.lastIndexOf("/"))));
  return webhooks.find((one: any) => one.id === id);
}

const keysOf = (posts: readonly Received[]): string[] =>
  posts.flatMap(({ json }) => (json.changes ?? []).map(({ key }: { key: string }) => key));

/** By the scheme's own words, and nothing of the service's code. */
async function isSigned({ headers, body }: Received): Promise<boolean> {
  const { keys } = await must(node().call("GET", "/.well-known/jwks.json"));
  const content = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`;
  const [version, signature = ""] = String(headers["webhook-signature"]).split(",");
  return keys.some(
    (key: any) =>
      version === "v1a" &&
      verify(null, Buffer.from(content), createPublicKey({ key, format: "jwk" }), Buffer.from(signature, "base64")),
  );
}

test("each transaction is posted once, in order, as the feed tells it, and signed", async () => {
  const db = await node().database();
  await put(db, "before");
  const receiver = await Receiver.start();
  await hook(db, receiver);
  for (let n = 0; n < 40; n++) await put(db, `k${n}`);
  await must(node().call("POST", `/v1/db/${db}/memory/s/turns`, { role: "user", content: "never told" }));
  await until(() => receiver.taken.length === 41);
  const posted = receiver.taken.map(({ json }) => json);
  const watching = new Watching(watches["rest"]!, node().address, { db, after: posted[0].after_txid });
  await watching.until(({ transactions }) => transactions.length === 41);
  watching.stop();
  expect(posted).toMatchObject(
    watching.transactions.map(({ kind, txid, afterTxid, changes, isPartial }) => ({
      kind,
      database: db,
      branch: "main",
      txid,
      after_txid: afterTxid,
      changes,
      partial: isPartial,
    })),
  );
  expect(posted.at(-1).changes).toEqual([{ kind: "turn", op: "created", session_id: "s", seq: 1 }]);
  expect(receiver.taken.every(({ body }) => !body.includes("never told"))).toBe(true);
  for (const received of receiver.taken.slice(0, 3)) expect(await isSigned(received)).toBe(true);
  const [first] = receiver.taken;
  expect(await isSigned({ ...first!, body: first!.body.replace("k0", "k1") })).toBe(false);
  const age = Date.now() / 1_000 - Number(first!.headers["webhook-timestamp"]);
  expect(Math.abs(age)).toBeLessThan(60);
});

test("`after` begins in the past, kinds narrow, and a rewind is told", async () => {
  const db = await node().database();
  const first = await put(db, "a");
  const [all, docs] = [await Receiver.start(), await Receiver.start()];
  await hook(db, all, { after: 0 });
  await hook(db, docs, { kinds: ["doc"] });
  await must(node().call("POST", `/v1/db/${db}/docs/c/insert`, { docs: [{ _id: "one" }] }));
  await put(db, "b");
  // What is undone before it was posted is not told.
  await until(() => keysOf(all.taken).includes("b") && docs.taken.length === 1);
  await must(node().call("POST", `/v1/db/${db}/branches/main/rewind`, { to: String(first) }));
  await until(() => all.taken.at(-1)?.json.kind === "rewound" && docs.taken.length === 2);
  expect(keysOf(all.taken)).toEqual(["a", undefined, "b"]);
  expect(docs.taken.map(({ json }) => json.kind)).toEqual(["changes", "rewound"]);
  expect(docs.taken[0]!.json.changes).toEqual([{ kind: "doc", op: "created", collection: "c", id: "one" }]);
  expect(all.taken.at(-1)!.json.after_txid).toBe(first);
});

test("what is not taken is posted again with one id, then given up, and the next one follows", async () => {
  const db = await node().database();
  const receiver = await Receiver.start(({ json }) => (json.changes?.[0]?.key === "bad" ? 500 : 200));
  const path = await hook(db, receiver);
  await put(db, "one");
  const bad = await put(db, "bad");
  await put(db, "two");
  await until(() => receiver.posts.some(({ status }) => status === 500));
  await until(async () => (await show(path)).trying?.txid === bad);
  await until(() => keysOf(receiver.taken).includes("two"));
  const tries = receiver.posts.filter(({ status }) => status === 500);
  expect(tries.length).toBe(3);
  expect(new Set(tries.map(({ id }) => id)).size).toBe(1);
  expect(keysOf(receiver.taken)).toEqual(["one", "two"]);
  const { failures, next_cursor } = await must(node().call("GET", `${path}/failures?limit=10`));
  expect(failures).toMatchObject([{ txid: bad, tries: 3, reason: "status", status: 500, queued: false }]);
  expect(next_cursor).toBeNull();
  expect((await show(path)).failures).toBe(1);

  // Posted once more it stays in the list while it is not taken, and leaves it when it is.
  expect(await must(node().call("POST", `${path}/redeliver`, { txids: [bad] }))).toEqual({ count: 1 });
  await until(async () => (await must(node().call("GET", `${path}/failures`))).failures[0].tries === 4);
  receiver.answering = () => 204;
  await must(node().call("POST", `${path}/redeliver`, {}));
  await until(() => keysOf(receiver.taken).includes("bad"));
  expect(receiver.taken.at(-1)!.id).toBe(tries[0]!.id);
  await until(async () => (await must(node().call("GET", `${path}/failures`))).failures.length === 0);
});

test("failures are dropped, and listed in pages", async () => {
  const db = await node().database();
  const receiver = await Receiver.start(() => 500);
  const path = await hook(db, receiver);
  await put(db, "a");
  await put(db, "b");
  await until(async () => (await show(path)).failures === 2, 30_000);
  const first = await must(node().call("GET", `${path}/failures?limit=1`));
  const second = await must(node().call("GET", `${path}/failures?limit=1&cursor=${first.next_cursor}`));
  expect(first.failures[0].txid).toBeGreaterThan(second.failures[0].txid);
  expect(second.next_cursor).toBeNull();
  expect(await must(node().call("POST", `${path}/redeliver`, { drop: true }))).toEqual({ count: 2 });
  expect((await show(path)).failures).toBe(0);
});

test("a redirect is not followed, a broken connection is one more try, and Retry-After is waited for", async () => {
  const db = await node().database();
  const elsewhere = await Receiver.start();
  const answers = [
    { status: 307, headers: { location: elsewhere.url } },
    { status: 503, headers: { "retry-after": "3" } },
    200,
  ];
  const times: number[] = [];
  const receiver = await Receiver.start(() => (times.push(performance.now()), answers.shift() ?? 200));
  await hook(db, receiver);
  await put(db, "a");
  await until(() => receiver.taken.length === 1);
  expect(elsewhere.posts).toEqual([]);
  expect(times[2]! - times[1]!).toBeGreaterThan(2_900);
  receiver.answering = () => 0;
  await put(db, "b");
  await until(() => receiver.posts.some(({ status }) => status === 0));
  receiver.answering = () => 200;
  await until(() => keysOf(receiver.taken).join() === "a,b");
});

test("a webhook is paused, changed, told gone by its receiver, and goes on behind what it was done with", async () => {
  const db = await node().database();
  const receiver = await Receiver.start();
  const path = await hook(db, receiver, { description: "mine" });
  await put(db, "a");
  await until(() => receiver.taken.length === 1);
  expect(await must(node().call("PATCH", path, { paused: true }))).toMatchObject({
    state: "paused",
    paused_because: "asked",
    description: "mine",
  });
  await put(db, "b");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(receiver.posts.length).toBe(1);
  receiver.answering = () => 410;
  await must(node().call("PATCH", path, { paused: false }));
  await until(async () => (await show(path)).paused_because === "gone");
  const other = await Receiver.start();
  expect(await must(node().call("PATCH", path, { url: other.url, kinds: ["kv"], paused: false }))).toMatchObject({
    state: "active",
    kinds: ["kv"],
  });
  await until(() => keysOf(other.taken).join() === "b");
});

test("a ping is posted now, and says what came of it", async () => {
  const db = await node().database();
  const receiver = await Receiver.start();
  const path = await hook(db, receiver);
  expect(await must(node().call("POST", `${path}/test`))).toMatchObject({ delivered: true, status: 200 });
  expect(receiver.posts[0]!.json).toMatchObject({ kind: "ping", database: db, branch: "main" });
  expect(await isSigned(receiver.posts[0]!)).toBe(true);
  receiver.answering = () => 404;
  expect(await must(node().call("POST", `${path}/test`))).toMatchObject({
    delivered: false,
    status: 404,
    reason: "status",
  });
  await receiver.stop();
  expect(await must(node().call("POST", `${path}/test`))).toMatchObject({ delivered: false, reason: "connection" });
});

test("addresses that must not be reached are refused, and nothing of an address is told to others", async () => {
  const db = await node().database();
  for (const url of [
    "http://example.org/x",
    "https://10.0.0.1/x",
    "https://[::ffff:169.254.169.254]/x",
    "https://user:secret@example.org/x",
    "https://example.org/x#y",
    "ftp://example.org",
    "nonsense",
    `https://example.org/${"x".repeat(2_048)}`,
  ]) {
    const { status, json, text } = await node().call("POST", `/v1/db/${db}/webhooks`, { url });
    expect([url.slice(0, 40), status, json?.code]).toEqual([url.slice(0, 40), 400, "invalid_request"]);
    expect(text).not.toContain("secret");
  }
  // A name whose address is not public is found out when it is posted to.
  const { id } = await must(node().call("POST", `/v1/db/${db}/webhooks`, { url: "https://localhost:1/x" }));
  expect(await must(node().call("POST", `/v1/db/${db}/webhooks/${id}/test`))).toMatchObject({
    delivered: false,
    reason: "address",
  });
  expect((await node().call("GET", `/v1/db/${db}/webhooks/nonsense/failures`)).json.code).toBe("not_found");
});

test("a database has 16; a fork has none; what is deleted posts nothing more", async () => {
  const db = await node().database();
  const receiver = await Receiver.start();
  await put(db, "a");
  const paths: string[] = [];
  for (let n = 0; n < 16; n++) paths.push(await hook(db, receiver));
  const refused = await node().call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url });
  expect([refused.status, refused.json.code]).toEqual([409, "conflict"]);
  for (const path of paths.slice(1)) expect((await node().call("DELETE", path)).status).toBe(204);
  expect((await node().call("DELETE", paths[1]!)).status).toBe(404);
  await must(node().call("POST", `/v1/db/${db}/branches`, { name: "side" }));
  const side = await Receiver.start();
  const ofSide = await hook(`${db}@side`, side);
  await put(`${db}@side`, "s");
  await put(db, "m");
  await until(() => keysOf(side.taken).join() === "s" && keysOf(receiver.taken).join() === "m");
  await must(node().call("DELETE", `/v1/db/${db}/branches/side`));
  expect(await show(ofSide)).toBeUndefined();
  expect(await show(paths[0]!)).toBeDefined();
  expect((await node().call("DELETE", `/v1/databases/${db}`)).status).toBe(204);
  await must(node().call("POST", "/v1/databases", { name: db }));
  expect(await must(node().call("GET", `/v1/db/${db}/webhooks`))).toEqual({ webhooks: [] });
  await put(db, "new");
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(keysOf(receiver.taken)).toEqual(["m"]);
  const folder = join(node().directory, "objects", "hooks");
  const left = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }) : [];
  expect(left.filter((name) => paths.some((path) => name.includes(path.split("/").at(-1)!)))).toEqual([]);
});

test("a policy keeps webhooks in, at the making and later, until it lets them out", async () => {
  const { ns, profile } = { ns: "hooked", profile: "alice" };
  const db = `${ns}--${profile}`;
  const policy = (webhooks: string) =>
    must(node().call("PUT", `/v1/namespaces/${ns}/policy`, { policy: { egress: { webhooks } } }));
  const ingest = (summary: string) =>
    must(
      node().call("POST", `/v1/memory/${ns}/${profile}/memories`, {
        memories: [{ type: "fact", summary, content: {} }],
      }),
    );
  await ingest("one");
  const receiver = await Receiver.start();
  await policy("deny");
  const refused = await node().call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url });
  expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
  await policy("self_hosted_only");
  const path = await hook(db, receiver);
  const foreign = await node().call("POST", `/v1/db/${db}/webhooks`, { url: "https://example.org/x" });
  expect(foreign.json.code).toBe("forbidden");
  await policy("deny");
  expect(await must(node().call("POST", `${path}/test`))).toMatchObject({ delivered: false, reason: "policy" });
  await ingest("two");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(receiver.posts).toEqual([]);
  await policy("allow");
  // A change of the webhook has it looked at now.
  await must(node().call("PATCH", path, { description: "again" }));
  await until(() => receiver.taken.length === 1);
});

test("an erasure takes its names out of what was given up, and nothing at rest names what was erased", async () => {
  const directory = temporaryDirectory();
  const service = await startService(
    { SERVICE_WEBHOOK_HOSTS: "127.0.0.1", SERVICE_WEBHOOK_RETRY_SECS: "1", SERVICE_GC_GRACE_SECS: "1" },
    directory,
  );
  onTestFinished(() => service.close());
  const profile = new ErasingProfile(service.wire("grpc"), "acme");
  await profile.policy({ erasure: { grace_secs: 0 }, audit: { enabled: true } });
  await profile.add({ summary: "the first one" });
  const db = `${profile.ns}--${profile.profile}`;
  let isTaking = false;
  const receiver = await Receiver.start(() => (isTaking ? 200 : 500));
  const { id } = await must(service.call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url }));
  const path = `/v1/db/${db}/webhooks/${id}`;
  const key = "k-to-be-erased";
  await ok(profile.database.call("DataService.PutValue", { ns: "n", key, value: Buffer.from("x") }));
  await until(async () => (await must(service.call("GET", `${path}/failures`))).failures.length === 1);
  expect(receiver.posts.some(({ body }) => body.includes(key))).toBe(true);
  const { id: coupon } = await profile.erased({ kv_ns: "n", key });
  isTaking = true;
  const before = receiver.posts.length;
  await must(service.call("POST", `${path}/redeliver`, {}));
  await until(async () => (await must(service.call("GET", `${path}/failures`))).failures.length === 0);
  await until(() => receiver.taken.some(({ json }) => json.changes?.[0]?.kind === "erasure"));
  expect(receiver.posts.slice(before).some(({ body }) => body.includes(key))).toBe(false);
  await profile.until(coupon, "completed");
  const audit = async (): Promise<any[]> => (await must(service.call("GET", "/v1/namespaces/acme/audit"))).events;
  await until(async () => (await audit()).some(({ action }) => action === "webhook.redeliver"));
  const made = (await audit()).find(({ action }) => action === "webhook.create");
  expect(made).toMatchObject({ profile: profile.profile, resource: id, outcome: "ok" });
  expect(JSON.stringify(await audit())).not.toContain("secret-path");
  const rest = readdirSync(join(directory, "objects"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.includes("hooks"))
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8"));
  expect(rest.length).toBeGreaterThan(0);
  for (const text of rest) expect(text).not.toContain(key);
});

test("a node with webhooks switched off makes none and posts nothing", async () => {
  const directory = temporaryDirectory();
  const variables = { SERVICE_WEBHOOK_HOSTS: "127.0.0.1" };
  let service = await startService(variables, directory);
  const db = await service.database();
  const receiver = await Receiver.start();
  const { id } = await must(service.call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url }));
  await service.close();
  service = await startService({ ...variables, SERVICE_WEBHOOKS: "off" }, directory);
  onTestFinished(() => service.close());
  await must(service.call("PUT", `/v1/db/${db}/kv/n/a`, "a", { "content-type": "text/plain" }));
  const refused = await service.call("POST", `/v1/db/${db}/webhooks`, { url: receiver.url });
  expect([refused.status, refused.json.code]).toEqual([503, "unconfigured"]);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(receiver.posts).toEqual([]);
  await must(service.call("DELETE", `/v1/db/${db}/webhooks/${id}`));
});

test("the receiver of the documentation takes what is signed, once, and nothing else", async () => {
  const example = readFileSync(join(root, "examples/receive-webhook.ts"), "utf8");
  const printed = parseBlocks({ path: "", text: readFileSync(join(root, "docs/webhooks.md"), "utf8") }).find(
    ({ language }) => language === "ts",
  )!;
  expect(example.slice(example.indexOf("import {")).trim()).toBe(printed.text.trim());
  const port = await freePort();
  const child = spawn(process.execPath, ["examples/receive-webhook.ts", node().address, `${port}`], { cwd: root });
  onTestFinished(() => void child.kill());
  const lines: string[] = [];
  child.stdout.setEncoding("utf8").on("data", (text: string) => lines.push(...text.split("\n").filter(Boolean)));
  await until(() => lines.includes("ready"));
  const db = await node().database();
  const url = `http://127.0.0.1:${port}/x`;
  const { id } = await must(node().call("POST", `/v1/db/${db}/webhooks`, { url }));
  const txid = await put(db, "told");
  await until(() => lines.some((line) => line.includes("told")));
  expect(JSON.parse(lines.at(-1)!)).toMatchObject({ kind: "changes", database: db, txid });
  expect(await must(node().call("POST", `/v1/db/${db}/webhooks/${id}/test`))).toMatchObject({ status: 204 });
  const forged = { "webhook-id": "x", "webhook-timestamp": `${Math.floor(Date.now() / 1_000)}` };
  const signature = `v1a,${Buffer.alloc(64, 1).toString("base64")}`;
  const answer = await fetch(url, {
    method: "POST",
    body: "{}",
    headers: { ...forged, "webhook-signature": signature },
  });
  expect(answer.status).toBe(401);
});

test("the metrics tell of what was posted, and hold no address", async () => {
  const { text } = await node().call("GET", "/metrics");
  expect(text).toMatch(/webhook_posts_total\{outcome="delivered"\} [1-9]/);
  expect(text).toContain("webhook_lag_seconds");
  expect(text).not.toContain("secret-path");
});
