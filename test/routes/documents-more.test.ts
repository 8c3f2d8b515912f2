/** Upserts, projections, counts, groups, and lists of collections and indexes, over all wires. */
import { expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames } from "../support/wires.ts";

const service = useService();

test.each(wireNames)("over %s: what is upserted, given in part, counted, grouped and listed", async (name) => {
  const wire = service().wire(name);
  const at = { db: await service().database(), coll: "trips" };
  const call = async (method: string, request: object = {}): Promise<any> =>
    (await ok(wire.call(`DataService.${method}`, { ...at, ...request }))).body;
  const update = { $inc: { n: 1 }, $setOnInsert: { tags: ["a"] } };
  const upsert = { filter: { _id: "x", city: "Rome" }, update, upsert: true };
  expect(await call("UpdateDocs", upsert)).toEqual({ matched: 0, modified: 0, upserted_id: "x", txid: 1 });
  const { upserted_id, ...again } = await call("UpdateDocs", upsert);
  expect([again, upserted_id ?? ""]).toEqual([{ matched: 1, modified: 1, txid: 2 }, ""]);
  await call("InsertDocs", {
    docs: [
      { _id: "y", city: "Oslo", tags: ["a", "b"], big: "z" },
      { _id: "z", city: "Oslo" },
    ],
  });
  const filter = { city: { $regex: "^OS", $options: "i" } };
  expect((await call("FindDocs", { filter, projection: { city: 1, _id: 0 }, sort: { _id: -1 } })).docs).toEqual([
    { city: "Oslo" },
    { city: "Oslo" },
  ]);
  expect((await call("FindDocs", { filter: { _id: "y" }, projection: { big: 0 } })).docs).toEqual([
    { _id: "y", city: "Oslo", tags: ["a", "b"] },
  ]);
  expect(await call("CountDocs", { filter })).toEqual({ count: 2, more: false, txid: 3 });
  expect(await call("CountDocs", { limit: 1 })).toEqual({ count: 1, more: true, txid: 3 });
  expect(await call("GroupDocs", { path: "tags", limit: 2 })).toEqual({
    groups: [
      { value: "a", count: 2 },
      { value: null, count: 1 },
    ],
    distinct: 3,
    txid: 3,
  });
  await call("CreateDocIndex", { path: "a.tags" });
  await call("CreateDocIndex", { path: "city" });
  expect((await call("ListDocIndexes")).indexes.map(({ path }: { path: string }) => path)).toEqual(["a.tags", "city"]);
  const list = async (request: object = {}): Promise<any> =>
    (await ok(wire.call("DataService.ListDocCollections", { db: at.db, ...request }))).body.collections;
  expect(await list()).toEqual([{ name: "trips", count: 3, indexes: 2 }]);
  expect(await list({ after: "trips" })).toEqual([]);
  expect(await call("DropDocIndex", { path: "a.tags" })).toMatchObject({ dropped: true, txid: 6 });
  expect(await call("DropDocIndex", { path: "a.tags" })).toMatchObject({ dropped: false, txid: 6 });
  expect((await call("FindDocs", { filter: { city: "Rome" } })).docs).toEqual([
    { _id: "x", city: "Rome", n: 2, tags: ["a"] },
  ]);
});

test.each(wireNames)("over %s: what is wrong is named, and nothing is changed", async (name) => {
  const wire = service().wire(name);
  const at = { db: await service().database(), coll: "trips" };
  for (const [method, request, words] of [
    ["FindDocs", { projection: { a: 1, b: 0 } }, "projection mixes"],
    ["FindDocs", { filter: { a: { $regex: "(a" } } }, "filter.a.$regex"],
    ["CountDocs", { limit: 1_000_001 }, "limit"],
    ["CountDocs", { filter: { a: { $x: 1 } } }, "filter.a.$x"],
    ["GroupDocs", { path: "a..b" }, "path"],
    ["GroupDocs", { path: "a", limit: 0 }, "limit"],
    ["DropDocIndex", { path: "_id" }, "path"],
    ["CreateDocIndex", { path: "a.0.b" }, "path"],
    ["UpdateDocs", { filter: { _id: 5 }, update: { $set: { a: 1 } }, upsert: true }, "_id"],
  ] as const)
    expect(await wire.call(`DataService.${method}`, { ...at, ...request }), method).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining(words),
    });
  expect((await ok(wire.call("DataService.ListDocCollections", { db: at.db }))).body.collections).toEqual([]);
});

test("an upsert that is repeated with its key makes one document", async () => {
  const at = `/v1/db/${await service().database()}/docs/c`;
  const body = JSON.stringify({ filter: { k: 1 }, update: { $inc: { n: 1 } }, upsert: true });
  const post = () => service().call("POST", `${at}/update`, body, { "idempotency-key": "once" });
  const first = await post();
  expect(first.json.upserted_id).toBeTypeOf("string");
  expect((await post()).json).toEqual(first.json);
  expect((await service().call("POST", `${at}/find`, "{}")).json.docs).toMatchObject([{ k: 1, n: 1 }]);
});
