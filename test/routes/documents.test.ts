/** Documents and vectors over both wires: the acceptance list's Documents but the lines that need branches. */
import { expect, test } from "vitest";
import { seeded } from "../support/random.ts";
import { ok, useService } from "../support/service.ts";
import { type Reply, type Wire, wireNames } from "../support/wires.ts";

const service = useService();
const onBoth = test.each(wireNames);

/** A collection of one database over one wire. */
class Collection {
  readonly #wire: Wire;
  readonly #at: { readonly db: string; readonly coll: string };

  constructor(wire: Wire, db: string, coll = "people") {
    this.#wire = wire;
    this.#at = { db, coll };
  }

  insert(docs: readonly object[]): Promise<Reply> {
    return this.#wire.call("DataService.InsertDocs", { ...this.#at, docs });
  }

  find(request: object = {}): Promise<Reply> {
    return this.#wire.call("DataService.FindDocs", { ...this.#at, ...request });
  }

  update(filter: object, update: object, multi?: boolean): Promise<Reply> {
    return this.#wire.call("DataService.UpdateDocs", {
      ...this.#at,
      filter,
      update,
      ...(multi === undefined ? {} : { multi }),
    });
  }

  delete(filter: object, multi?: boolean): Promise<Reply> {
    return this.#wire.call("DataService.DeleteDocs", {
      ...this.#at,
      filter,
      ...(multi === undefined ? {} : { multi }),
    });
  }

  index(path: string): Promise<Reply> {
    return this.#wire.call("DataService.CreateDocIndex", { ...this.#at, path });
  }

  /** The `_id`s that a find gives, in its order. */
  async ids(request: object = {}): Promise<string[]> {
    return (await ok(this.find({ limit: 1000, ...request }))).body.docs.map((doc: { _id: string }) => doc._id);
  }
}

const people = [
  { _id: "ann", age: 30, city: "Rome", tags: ["a", "b"] },
  { _id: "bob", age: 41, city: "Oslo" },
  { _id: "cid", age: 25, address: { city: "Lima", zip: "07" } },
];

async function collection(name: (typeof wireNames)[number]): Promise<Collection> {
  return new Collection(service().wire(name), await service().database());
}

onBoth("documents-01 over %s: equality, range with sort and limit, $or with $in, $exists", async (name) => {
  const docs = await collection(name);
  const inserted = await ok(docs.insert(people));
  expect(inserted.body).toEqual({ ids: ["ann", "bob", "cid"], txid: 1 });
  expect(await docs.ids({ filter: { city: "Oslo" } })).toEqual(["bob"]);
  expect(await docs.ids({ filter: { age: { $gt: 20 } }, sort: { age: -1 }, limit: 2 })).toEqual(["bob", "ann"]);
  expect(
    new Set(await docs.ids({ filter: { $or: [{ city: { $in: ["Rome", "Paris"] } }, { age: { $gte: 41 } }] } })),
  ).toEqual(new Set(["ann", "bob"]));
  expect(new Set(await docs.ids({ filter: { city: { $exists: true } } }))).toEqual(new Set(["ann", "bob"]));
  expect(await docs.ids({ filter: { city: { $exists: false } } })).toEqual(["cid"]);
  expect(await docs.ids({ filter: { tags: "b" } })).toEqual(["ann"]);
  expect(await docs.ids({ filter: { "address.zip": "07" } })).toEqual(["cid"]);
  expect((await ok(docs.find({ filter: { _id: "cid" } }))).body).toEqual({ docs: [people[2]], txid: 1 });
});

onBoth("documents-01 over %s: several sort keys count in the order given, and skip pages through", async (name) => {
  const docs = await collection(name);
  await ok(
    docs.insert([
      { _id: "1", a: 2, b: 1 },
      { _id: "2", a: 1, b: 2 },
      { _id: "3", a: 2, b: 0 },
      { _id: "4", a: 1, b: 1 },
    ]),
  );
  expect(await docs.ids({ sort: { a: 1, b: -1 } })).toEqual(["2", "4", "1", "3"]);
  expect(await docs.ids({ sort: { b: -1, a: -1 } })).toEqual(["2", "1", "4", "3"]);
  expect(await docs.ids({ sort: { b: 1, a: -1 }, skip: 1, limit: 2 })).toEqual(["1", "4"]);
});

onBoth("documents-02 over %s: an unknown collection is empty, and nothing comes of asking", async (name) => {
  const docs = await collection(name);
  expect((await ok(docs.find())).body).toEqual({ docs: [], txid: 0 });
  expect((await ok(docs.update({}, { $set: { a: 1 } }, true))).body).toEqual({ matched: 0, modified: 0, txid: 0 });
  expect((await ok(docs.delete({}, true))).body).toEqual({ deleted: 0, txid: 0 });
});

onBoth(
  "documents-03 over %s: $set, $inc, $push and $unset change what they name; delete multi counts",
  async (name) => {
    const docs = await collection(name);
    await ok(docs.insert(people));
    expect(
      (
        await ok(
          docs.update({ _id: "ann" }, { $set: { city: "Bern", "home.floor": 2 }, $inc: { age: 1, requestMetrics: 5 } }),
        )
      ).body,
    ).toEqual({ matched: 1, modified: 1, txid: 2 });
    await ok(docs.update({ _id: "ann" }, { $push: { tags: { deep: [1] } } }));
    await ok(docs.update({ _id: "ann" }, { $push: { list: 1 }, $unset: { requestMetrics: "" } }));
    expect((await ok(docs.find({ filter: { _id: "ann" } }))).body.docs).toEqual([
      { _id: "ann", age: 31, city: "Bern", tags: ["a", "b", { deep: [1] }], home: { floor: 2 }, list: [1] },
    ]);
    // Nothing differs: matched, not modified, and no new transaction.
    expect((await ok(docs.update({ _id: "ann" }, { $set: { age: 31 } }))).body).toEqual({
      matched: 1,
      modified: 0,
      txid: 4,
    });
    expect((await ok(docs.update({ age: { $gt: 0 } }, { $inc: { age: 1 } }, true))).body).toEqual({
      matched: 3,
      modified: 3,
      txid: 5,
    });
    expect((await ok(docs.delete({ age: { $gt: 30 } }, true))).body).toEqual({ deleted: 2, txid: 6 });
    expect(await docs.ids()).toEqual(["cid"]);
  },
);

onBoth(
  "documents-03 over %s: a duplicate _id fails the whole batch; a document without one gets a ULID",
  async (name) => {
    const docs = await collection(name);
    const { body } = await ok(docs.insert([{ a: 1 }, { _id: "mine" }]));
    expect(body.ids).toEqual([expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/), "mine"]);
    expect(await docs.insert([{ _id: "new" }, { _id: "mine" }])).toMatchObject({ code: "already_exists", txid: 1 });
    expect(await docs.ids({ filter: { _id: "new" } })).toEqual([]);
    for (const bad of [
      docs.insert([{ _id: 5 }]),
      docs.update({}, { a: 1 }),
      docs.update({}, { $set: { _id: "x" } }),
      docs.update({ _id: "mine" }, { $inc: { _id: 1 } }),
    ]) {
      expect(await bad).toMatchObject({ code: "invalid_request" });
    }
    await ok(docs.update({ _id: "mine" }, { $set: { name: "text" } }));
    expect(await docs.update({ _id: "mine" }, { $inc: { name: 1 } })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("name"),
    });
  },
);

onBoth("documents-04 over %s: an index is created once, and queries stay correct", async (name) => {
  const docs = await collection(name);
  await ok(docs.insert(people));
  expect((await ok(docs.index("address.city"))).body).toEqual({ indexed: "address.city", txid: 2 });
  expect((await ok(docs.index("address.city"))).txid).toBe(2);
  await ok(docs.insert([{ _id: "dot", address: { city: "Lima" } }]));
  expect(await docs.ids({ filter: { "address.city": "Lima" }, sort: { _id: 1 } })).toEqual(["cid", "dot"]);
  expect(await docs.index("")).toMatchObject({ code: "invalid_request", message: expect.stringContaining("path") });
});

onBoth("documents-05 over %s: vectors are upserted and found, the nearest first", async (name) => {
  const wire = service().wire(name);
  const at = { db: await service().database(), coll: "shapes" };
  const upsert = (id: string, embedding: readonly number[]): Promise<Reply> =>
    wire.call("DataService.UpsertVector", { ...at, id, embedding });
  const search = (request: object): Promise<Reply> => wire.call("DataService.SearchVectors", { ...at, ...request });
  expect((await ok(search({ vector: [1, 0] }))).body).toMatchObject({ hits: [], txid: 0 });
  expect((await ok(upsert("east", [1, 0]))).body).toEqual({ txid: 1 });
  await ok(upsert("north", [0, 2]));
  await ok(upsert("north-east", [3, 3]));
  const { body, txid } = await ok(search({ vector: [5, 0.5], k: 2 }));
  expect(txid).toBe(3);
  expect(body.hits.map(({ id }: { id: string }) => id)).toEqual(["east", "north-east"]);
  expect(body.hits[0].distance).toBeLessThan(body.hits[1].distance);
  await ok(upsert("east", [-1, 0]));
  expect((await ok(search({ vector: [1, 0] }))).body.hits.map(({ id }: { id: string }) => id)).toEqual([
    "north-east",
    "north",
    "east",
  ]);
  expect((await ok(search({ vector: [1, 0] }))).body.hits[2].distance).toBeCloseTo(2, 5);
  for (const embedding of [[1, 2, 3], [0, 0], []]) {
    expect(await upsert("bad", embedding), JSON.stringify(embedding)).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("embedding"),
    });
  }
  expect(await search({ vector: [1, 2, 3] })).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("vector"),
  });
});

type Value = null | number | string;
interface Row {
  readonly _id: string;
  readonly a?: Value;
  readonly b?: { readonly c?: Value };
}
type Matches = (row: Row) => boolean;

const equal = (left: Value | undefined, right: Value): boolean => (left ?? null) === right;
const inRange = (value: Value | undefined, low: number, high: number): boolean =>
  typeof value === "number" && value >= low && value < high;

/** Filters beside what they mean, said again in the plainest way. */
const filters: readonly (readonly [object, Matches])[] = [
  [{}, () => true],
  [{ _id: "d7" }, ({ _id }) => _id === "d7"],
  [{ a: 3 }, ({ a }) => equal(a, 3)],
  [{ a: null }, ({ a }) => equal(a, null)],
  [{ a: 3, "b.c": { $gt: 1 } }, ({ a, b }) => equal(a, 3) && inRange(b?.c, 1.5, Infinity)],
  [{ a: { $gte: 2, $lt: 5 } }, ({ a }) => inRange(a, 2, 5)],
  [{ "b.c": { $in: [1, 99, "x", "absent"] } }, ({ b }) => [1, 99, "x", "absent"].some((value) => equal(b?.c, value))],
  [{ a: { $in: [null, 2] } }, ({ a }) => equal(a, null) || equal(a, 2)],
  [{ a: { $nin: [1, 2, 3] } }, ({ a }) => ![1, 2, 3].some((value) => equal(a, value))],
  [
    { $or: [{ a: 1 }, { "b.c": 2 }, { a: { $gt: 5 } }] },
    ({ a, b }) => equal(a, 1) || equal(b?.c, 2) || inRange(a, 5.5, Infinity),
  ],
  [{ a: { $not: { $gt: 3 } } }, ({ a }) => !inRange(a, 3.5, Infinity)],
  [{ a: { $exists: true } }, ({ a }) => a !== undefined],
  [{ "b.c": { $exists: false } }, ({ b }) => b?.c === undefined],
  [{ "b.c": "x" }, ({ b }) => equal(b?.c, "x")],
  [{ a: { $ne: 4 } }, ({ a }) => !equal(a, 4)],
  [{ a: { $eq: 4 } }, ({ a }) => equal(a, 4)],
  [
    { $and: [{ a: { $lte: 6 } }, { $or: [{ "b.c": 1 }, { "b.c": null }] }] },
    ({ a, b }) => inRange(a, -Infinity, 6.5) && (equal(b?.c, 1) || equal(b?.c, null)),
  ],
];

function someRows(count: number, random: () => number): Row[] {
  const value = (): Value | undefined => [undefined, null, "x", "y", 0, 1, 2, 3, 4, 5, 6, 7][Math.floor(random() * 12)];
  return Array.from({ length: count }, (_, at) => {
    const [a, c, fate] = [value(), value(), random()];
    return {
      _id: `d${at}`,
      ...(a === undefined ? {} : { a }),
      ...(fate < 0.15 ? {} : { b: c === undefined ? {} : { c } }),
    };
  });
}

onBoth(
  "documents-08 over %s: every filter gives what a naive matcher gives, without indexes and with them",
  async (name) => {
    const docs = await collection(name);
    const rows = someRows(200, seeded(11));
    await ok(docs.insert(rows));
    for (const indexed of [false, true]) {
      if (indexed) for (const path of ["a", "b.c"]) await ok(docs.index(path));
      for (const [filter, matches] of filters) {
        const expected = rows
          .filter(matches)
          .map(({ _id }) => _id)
          .sort();
        expect(
          (await docs.ids({ filter })).sort(),
          `${JSON.stringify(filter)} ${indexed ? "with" : "without"} indexes`,
        ).toEqual(expected);
      }
    }
  },
);

onBoth(
  "documents-09 over %s: an update moves a document between index entries, and a delete by the index counts 1",
  async (name) => {
    const docs = await collection(name);
    await ok(docs.index("state"));
    await ok(
      docs.insert([
        { _id: "1", state: "open" },
        { _id: "2", state: "open" },
      ]),
    );
    await ok(docs.update({ _id: "1" }, { $set: { state: "done" } }));
    expect(await docs.ids({ filter: { state: "open" } })).toEqual(["2"]);
    expect(await docs.ids({ filter: { state: "done" } })).toEqual(["1"]);
    await ok(docs.update({ _id: "2" }, { $unset: { state: "" } }));
    expect(await docs.ids({ filter: { state: null } })).toEqual(["2"]);
    expect((await ok(docs.delete({ state: "done" }))).body.deleted).toBe(1);
    expect(await docs.ids()).toEqual(["2"]);
  },
);

function nots(depth: number): object {
  let condition: object = { $gt: 1 };
  for (let level = 0; level < depth; level++) condition = { $not: condition };
  return { a: condition };
}

onBoth(
  "documents-10 over %s: filters of 60 levels and lists of 1001 are refused, 31 levels and 1000 are not",
  async (name) => {
    const docs = await collection(name);
    await ok(
      docs.insert([
        { _id: "1", a: 2 },
        { _id: "2", a: 0 },
      ]),
    );
    expect(await docs.find({ filter: nots(60) })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("filter"),
    });
    expect(await docs.ids({ filter: nots(31) })).toEqual(["2"]);
    const values = Array.from({ length: 1001 }, (_, at) => at);
    expect(await docs.find({ filter: { a: { $in: values } } })).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("$in"),
    });
    expect(await docs.ids({ filter: { a: { $in: values.slice(1) } } })).toEqual(["1"]);
  },
);

test("over REST every digit of a document's number survives", async () => {
  const at = `/v1/db/${await service().database()}/docs/exact`;
  const doc =
    '{"_id":"x","id":9007199254740993,"list":[18446744073709551615,0.1,null],"deep":{"n":-9223372036854775808}}';
  expect((await service().call("POST", `${at}/insert`, `{"docs":[${doc}]}`)).status).toBe(200);
  expect(
    (await service().call("POST", `${at}/update`, '{"filter":{"id":9007199254740993},"update":{"$inc":{"id":2}}}'))
      .json,
  ).toMatchObject({ modified: 1 });
  const found = await service().call("POST", `${at}/find`, '{"filter":{"id":9007199254740995}}');
  expect(found.text).toContain(doc.replace("9007199254740993", "9007199254740995"));
  expect((await service().call("POST", `${at}/find`, '{"filter":{"id":9007199254740996}}')).json.docs).toEqual([]);
});

onBoth("over %s collections whose names differ only in case or a sign are two", async (name) => {
  const db = await service().database();
  const names = ["users", "Users", "us-ers", "us_ers"];
  for (const coll of names) await ok(new Collection(service().wire(name), db, coll).insert([{ _id: "1", coll }]));
  for (const coll of names)
    expect((await ok(new Collection(service().wire(name), db, coll).find())).body.docs).toEqual([{ _id: "1", coll }]);
});
