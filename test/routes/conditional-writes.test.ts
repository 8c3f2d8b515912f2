/** Values and documents that are written on a condition, over both wires; and HTTP's own words for that on REST. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { useService, ok } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

let databases = 0;

async function database(wire: Wire): Promise<string> {
  const name = `conditional-${wire.name}-${++databases}`;
  await ok(wire.call("ControlService.CreateDatabase", { name }));
  return name;
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

/** What is written on a condition, the same for each kind. */
interface Kind {
  put(text: string, condition?: object): Promise<Reply>;
  remove(condition?: object): Promise<Reply>;
  /** What is there; undefined when nothing is. */
  get(): Promise<{ readonly text: string; readonly hash: string } | undefined>;
}

async function found(call: Promise<Reply>, said: (body: any) => string): ReturnType<Kind["get"]> {
  const { code, body, entityTag } = await call;
  if (code === "not_found") return undefined;
  expect(code).toBe("ok");
  return { text: said(body), hash: JSON.parse(entityTag!) };
}

const kinds: { readonly [name: string]: (wire: Wire, db: string) => Kind } = {
  value: (wire, db) => ({
    put: (text, condition) =>
      wire.call("DataService.PutValue", { db, ns: "n", key: "k", value: Buffer.from(text), ...condition }),
    remove: (condition) => wire.call("DataService.DeleteValue", { db, ns: "n", key: "k", ...condition }),
    get: () => found(wire.call("DataService.GetValue", { db, ns: "n", key: "k" }), (body) => body.toString()),
  }),
  document: (wire, db) => ({
    put: (text, condition) => wire.call("DataService.PutDoc", { db, coll: "c", id: "d", doc: { text }, ...condition }),
    remove: (condition) => wire.call("DataService.DeleteDoc", { db, coll: "c", id: "d", ...condition }),
    get: () => found(wire.call("DataService.GetDoc", { db, coll: "c", id: "d" }), ({ doc }) => doc.text),
  }),
};

onBoth("over %s: a write happens on its condition, and otherwise changes nothing", async (name) => {
  const wire = service().wire(name);
  for (const [kind, open] of Object.entries(kinds)) {
    const { put, remove, get } = open(wire, await database(wire));
    const refused = async (call: Promise<Reply>, words: string): Promise<void> => {
      const before = await get();
      const { code, message } = await call;
      expect({ code, message }, kind).toMatchObject({ code: "conflict", message: expect.stringContaining(words) });
      expect(await get(), kind).toEqual(before);
    };
    await refused(put("one", { if_match: "*" }), "there is no");
    await refused(put("one", { if_match: hashOf("one") }), "there is no");
    await refused(remove({ if_match: "*" }), "there is no");
    const { entityTag } = await ok(put("one", { if_absent: true }));
    const first = (await get())!;
    expect(first, kind).toEqual({ text: "one", hash: JSON.parse(entityTag!) });
    await refused(put("two", { if_absent: true }), "there is a");
    await refused(put("two", { if_match: hashOf("other") }), "has changed");
    await ok(put("two", { if_match: first.hash }));
    await refused(put("three", { if_match: first.hash }), "has changed");
    await refused(remove({ if_match: first.hash }), "has changed");
    await ok(put("three", { if_match: "*" }));
    await ok(put("one"));
    expect((await get())!.hash, "the same again has the same hash").toBe(first.hash);
    await ok(remove({ if_match: first.hash }));
    expect(await get(), kind).toBeUndefined();
    // What is not there can be deleted without a condition, and made again.
    await ok(remove());
    await ok(put("anew", { if_absent: true }));
    for (const [condition, words] of [
      [{ if_match: "abc" }, "64 hexadecimal digits"],
      [{ if_match: hashOf("x").toUpperCase() }, "64 hexadecimal digits"],
      [{ if_match: "*", if_absent: true }, "exclude each other"],
    ] as const) {
      const { code, message } = await put("x", condition);
      expect({ code, message }, kind).toMatchObject({
        code: "invalid_request",
        message: expect.stringContaining(words),
      });
    }
  }
});

onBoth("over %s: of many clients that count by what they read, no step is lost", async (name) => {
  const wire = service().wire(name);
  for (const [kind, open] of Object.entries(kinds)) {
    const { put, get } = open(wire, await database(wire));
    await ok(put("0"));
    let refusals = 0;
    const count = async (): Promise<void> => {
      for (let steps = 0; steps < 5;) {
        const { text, hash } = (await get())!;
        const { code, message } = await put(String(Number(text) + 1), { if_match: hash });
        if (code === "ok") steps++;
        else refusals++;
        expect(["ok", "conflict"], message).toContain(code);
      }
    };
    await Promise.all(Array.from({ length: 8 }, count));
    expect((await get())!.text, kind).toBe("40");
    expect(refusals, "they did race").toBeGreaterThan(0);
  }
});

onBoth("over %s: a value that has expired is none", async (name) => {
  const wire = service().wire(name);
  const db = await database(wire);
  const put = { db, ns: "n", key: "k", value: Buffer.from("v") };
  await ok(wire.call("DataService.PutValue", { ...put, ttl: 0 }));
  expect((await wire.call("DataService.PutValue", { ...put, if_match: "*" })).code).toBe("conflict");
  await ok(wire.call("DataService.PutValue", { ...put, if_absent: true }));
});

onBoth("over %s: a document is put whole under its _id, in indexes too", async (name) => {
  const wire = service().wire(name);
  const at = { db: await database(wire), coll: "c" };
  await ok(wire.call("DataService.CreateDocIndex", { ...at, path: "n" }));
  const put = (id: string, doc: object): Promise<Reply> => wire.call("DataService.PutDoc", { ...at, id, doc });
  const found = async (n: number): Promise<string[]> =>
    (await ok(wire.call("DataService.FindDocs", { ...at, filter: { n } }))).body.docs.map((doc: any) => doc._id);
  expect((await ok(put("a/b", { n: 1, x: { y: [1, "2", null] } }))).body).toMatchObject({ created: true });
  expect((await ok(wire.call("DataService.GetDoc", { ...at, id: "a/b" }))).body.doc).toEqual({
    _id: "a/b",
    n: 1,
    x: { y: [1, "2", null] },
  });
  expect(await found(1)).toEqual(["a/b"]);
  expect((await ok(put("a/b", { n: 2 }))).body).toMatchObject({ created: false });
  expect([await found(1), await found(2)]).toEqual([[], ["a/b"]]);
  const { txid } = await ok(put("a/b", { _id: "a/b", n: 2 }));
  expect((await ok(put("a/b", { n: 2 }))).txid, "the same again changes nothing").toBe(txid);
  for (const [id, doc, words] of [
    ["a/b", { _id: "other" }, "the id that the document is put under"],
    ["a/b", { $set: { n: 1 } }, "starts with $"],
    ["x".repeat(513), {}, "512"],
  ] as const) {
    const { code, message } = await put(id, doc);
    expect({ code, message }).toMatchObject({ code: "invalid_request", message: expect.stringContaining(words) });
  }
  expect((await ok(wire.call("DataService.DeleteDoc", { ...at, id: "a/b" }))).body).toMatchObject({ deleted: true });
  expect((await ok(wire.call("DataService.DeleteDoc", { ...at, id: "a/b" }))).body).toMatchObject({ deleted: false });
  expect((await wire.call("DataService.GetDoc", { ...at, id: "a/b" })).code).toBe("not_found");
});

test("HTTP's own headers: ETag, If-Match, If-None-Match, 304 and 412", async () => {
  const db = await database(service().wire("rest"));
  const call = service().call;
  for (const [path, body, other] of [
    [`/v1/db/${db}/kv/n/k`, "one", "two"],
    [`/v1/db/${db}/docs/c/items/d`, { doc: { n: 1 } }, { doc: { n: 2 } }],
  ] as const) {
    const made = await call("PUT", path, body, { "if-none-match": "*" });
    expect(made.status, made.text).toBe(200);
    const tag = made.headers.get("etag")!;
    expect(tag).toMatch(/^"[0-9a-f]{64}"$/);
    expect((await call("PUT", path, other, { "if-none-match": "*" })).status).toBe(412);
    const read = await call("GET", path);
    expect([read.status, read.headers.get("etag")]).toEqual([200, tag]);
    for (const held of [tag, `W/${tag}`, `"x", ${tag}`, "*"]) {
      const unchanged = await call("GET", path, undefined, { "if-none-match": held });
      expect([unchanged.status, unchanged.text, unchanged.headers.get("etag")], held).toEqual([304, "", tag]);
    }
    const changed = await call("PUT", path, other, { "if-match": tag });
    expect([changed.status, changed.headers.get("etag") === tag]).toEqual([200, false]);
    const late = await call("PUT", path, body, { "if-match": tag });
    expect(late).toMatchObject({ status: 412, json: { code: "conflict" } });
    expect((await call("GET", path, undefined, { "if-none-match": tag })).status).toBe(200);
    expect((await call("DELETE", path, undefined, { "if-match": tag })).status).toBe(412);
    expect((await call("DELETE", path, undefined, { "if-match": changed.headers.get("etag")! })).status).toBeLessThan(
      300,
    );
    for (const header of ['"abc"', "abc", '"a", "b"'])
      expect((await call("PUT", path, body, { "if-match": header })).status, header).toBe(400);
    expect((await call("PUT", path, body, { "if-none-match": tag })).status).toBe(400);
  }
});
