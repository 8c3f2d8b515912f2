/**
 * Many keys at once, listings with values, between keys and backwards, and lifetimes that are shown, over each wire.
 */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const service = useService();
const hashOf = (value: string | Uint8Array): string => createHash("sha256").update(value).digest("hex");

describe.each(wireNames)("over %s", (name) => {
  const call = (method: string, request: object): Promise<Reply> =>
    service().wire(name).call(`DataService.${method}`, request);
  const must = (method: string, request: object): Promise<Reply> => ok(call(method, request));
  const refused = async (method: string, request: object, code: string, words: string): Promise<void> => {
    const reply = await call(method, request);
    expect({ code: reply.code, message: reply.message }, JSON.stringify(request)).toEqual({
      code,
      message: expect.stringContaining(words),
    });
  };

  test("many are put, got and deleted in one transaction, texts as texts and bytes as bytes", async () => {
    const at = { db: await service().database(), ns: "n" };
    const bytes = Buffer.from([0xff, 0, 1]);
    const { body } = await must("PutValues", {
      ...at,
      items: [
        { key: "a", text: "é" },
        { key: "b", bytes: bytes.toString("base64"), ttl: 3_600 },
        { key: "gone", text: "x", ttl: 0 },
        { key: "empty", text: "" },
      ],
    });
    expect(body.hashes).toEqual([hashOf("é"), hashOf(bytes), hashOf("x"), hashOf("")]);
    const got = await must("GetValues", { ...at, keys: ["empty", "b", "gone", "none", "a"] });
    expect(got.body).toMatchObject({
      entries: [
        { key: "empty", size: 0, text: "", hash: hashOf("") },
        { key: "b", size: 3, bytes: bytes.toString("base64"), expires_at: expect.any(Number) },
        { key: "a", size: 2, text: "é", hash: hashOf("é") },
      ],
      remaining: [],
    });
    expect(Object.keys(got.body.entries[2])).not.toContain("expires_at");
    expect(
      (await must("DeleteValues", { ...at, items: [{ key: "a" }, { key: "none" }, { key: "b" }] })).body,
    ).toMatchObject({ deleted: 2 });
    expect((await must("ListKeys", at)).body.keys).toEqual(["empty"]);
  });

  test("one condition that does not hold undoes all of them, and is named", async () => {
    const at = { db: await service().database(), ns: "n" };
    await must("PutValues", { ...at, items: ["a", "b"].map((key) => ({ key, text: key })) });
    const { txid } = await must("ListKeys", at);
    const changed = { key: "a", text: "changed" };
    await refused(
      "PutValues",
      { ...at, items: [changed, { key: "b", text: "x", if_absent: true }] },
      "conflict",
      "items[1]",
    );
    await refused(
      "PutValues",
      { ...at, items: [changed, { key: "b", text: "x", if_match: hashOf("other") }] },
      "conflict",
      "has changed",
    );
    await refused(
      "DeleteValues",
      { ...at, items: [{ key: "a" }, { key: "c", if_match: "*" }] },
      "conflict",
      "items[1]",
    );
    const { body } = await must("GetValues", { ...at, keys: ["a", "b"] });
    expect([body.txid, ...body.entries.map(({ text }: { text: string }) => text)]).toEqual([txid, "a", "b"]);
    await must("PutValues", {
      ...at,
      items: [
        { key: "a", text: "2", if_match: hashOf("a") },
        { key: "c", text: "3", if_absent: true },
      ],
    });
    await must("DeleteValues", {
      ...at,
      items: [
        { key: "a", if_match: hashOf("2") },
        { key: "b", if_match: "*" },
      ],
    });
    expect((await must("ListKeys", at)).body.keys).toEqual(["c"]);
  });

  test("what is not valid is named and changes nothing", async () => {
    const at = { db: await service().database(), ns: "n" };
    const good = { key: "good", text: "x" };
    for (const [items, words] of [
      [[], "1 to 1000"],
      [[good, { key: "k" }], "items[1] must have either text or bytes"],
      [[good, { key: "k", text: "a", bytes: "YQ==" }], "items[1] must have either"],
      [[good, { key: "", text: "a" }], "items[1].key"],
      [[good, { key: "k", text: "a", ttl: 4_000_000_000 }], "items[1].ttl"],
      [[good, good], "items[1].key names a key"],
      [[good, { key: "k", text: "a", if_match: "x" }], "64 hexadecimal digits"],
      [Array.from({ length: 1_001 }, (_, n) => ({ key: `k${n}`, text: "" })), "1 to 1000"],
    ] as const)
      await refused("PutValues", { ...at, items }, "invalid_request", words);
    await refused("GetValues", { ...at, keys: [] }, "invalid_request", "1 to 1000");
    await refused("GetValues", { ...at, keys: ["a", "a"] }, "invalid_request", "keys");
    await refused("GetValues", { ...at, ns: "no/name", keys: ["a"] }, "invalid_request", "ns");
    await refused("DeleteValues", { ...at, items: [{ key: "a" }, { key: "a" }] }, "invalid_request", "items[1]");
    for (const bad of [{ order: "up" }, { include: "hash" }, { cursor: "!" }, { limit: 0 }])
      expect((await call("ListKeys", { ...at, ...bad })).code, JSON.stringify(bad)).toBe("invalid_request");
    expect((await must("ListKeys", at)).body.keys).toEqual([]);
  });

  test("a listing has sizes, times and values where they are asked for, a bounded number of bytes a page", async () => {
    const at = { db: await service().database(), ns: "n" };
    const large = "v".repeat(1_500_000);
    for (const key of ["a", "b", "c", "d"])
      await must("PutValues", { ...at, items: [{ key, text: large, ...(key === "b" && { ttl: 3_600 }) }] });
    const keys = (await must("ListKeys", at)).body;
    expect([keys.keys, keys.entries]).toEqual([["a", "b", "c", "d"], undefined]);
    const details = (await must("ListKeys", { ...at, include: "details" })).body;
    expect(details.entries.map(({ size }: { size: number }) => size)).toEqual(Array(4).fill(large.length));
    expect(details.entries[1]).toEqual({ key: "b", size: large.length, expires_at: expect.any(Number) });
    const first = (await must("ListKeys", { ...at, include: "values" })).body;
    expect([first.keys, first.entries[0].text === large]).toEqual([["a", "b"], true]);
    const second = (await must("ListKeys", { ...at, include: "values", cursor: first.next_cursor })).body;
    expect([second.keys, second.next_cursor]).toEqual([["c", "d"], null]);
    const some = (await must("GetValues", { ...at, keys: ["d", "c", "b", "a"] })).body;
    expect([some.entries.map(({ key }: { key: string }) => key), some.remaining]).toEqual([
      ["d", "c"],
      ["b", "a"],
    ]);
  });

  test("keys are listed between two of them and backwards", async () => {
    const at = { db: await service().database(), ns: "n" };
    await must("PutValues", { ...at, items: ["a1", "a2", "a3", "b1", "é", "😀"].map((key) => ({ key, text: key })) });
    const keys = async (request: object): Promise<string[]> => {
      const found: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null;) {
        const { body } = await must("ListKeys", { ...at, limit: 2, ...request, ...(cursor && { cursor }) });
        found.push(...body.keys);
        cursor = body.next_cursor;
      }
      return found;
    };
    expect(await keys({ order: "desc" })).toEqual(["😀", "é", "b1", "a3", "a2", "a1"]);
    expect(await keys({ start: "a2", end: "é" })).toEqual(["a2", "a3", "b1"]);
    expect(await keys({ prefix: "a", start: "a2", order: "desc" })).toEqual(["a3", "a2"]);
    expect(await keys({ prefix: "a", end: "a2" })).toEqual(["a1"]);
    expect(await keys({ start: "z" })).toEqual(["é", "😀"]);
    expect(await keys({ start: "b", end: "a" })).toEqual([]);
  });

  test("a repeated batch is carried out once", async () => {
    const at = { db: await service().database(), ns: "n" };
    const put = { ...at, items: [{ key: "k", text: "1", if_absent: true }] };
    const key = { "Idempotency-Key": `many-${name}` };
    const first = await ok(service().wire(name).call("DataService.PutValues", put, key));
    const again = await ok(service().wire(name).call("DataService.PutValues", put, key));
    expect([again.body, again.txid, again.isRepeat]).toEqual([first.body, first.txid, true]);
  });
});

test("a value's end of life is in a header of its GET", async () => {
  const path = `/v1/db/${await service().database()}/kv/n/k`;
  const before = Date.now();
  await service().call("PUT", `${path}?ttl=3600`, "v");
  const { headers } = await service().call("GET", path);
  const expiresAt = Number(headers.get("service-expires-at"));
  expect(expiresAt).toBeGreaterThanOrEqual(before + 3_600_000);
  expect(expiresAt).toBeLessThanOrEqual(Date.now() + 3_600_000);
  const held = await service().call("GET", path, undefined, { "if-none-match": headers.get("etag")! });
  expect([held.status, held.headers.get("service-expires-at")]).toEqual([304, String(expiresAt)]);
  await service().call("PUT", path, "v");
  expect((await service().call("GET", path)).headers.get("service-expires-at")).toBeNull();
});
