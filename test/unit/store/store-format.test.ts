/** What a store says of itself: the layout that it was made with, until somebody raises it. */
import { expect, test } from "vitest";
import { decodeUtf8, encodeUtf8 } from "../../../src/base/bytes.ts";
import { NewerFormat, newestLayout } from "../../../src/format/core/versions.ts";
import { MemoryStore } from "../../../src/store/memory-store.ts";
import { claimStoreFormat, raiseStoreFormat, requireStoreFormat } from "../../../src/store/store-format.ts";

const key = "format.json";

async function layoutOf(store: MemoryStore): Promise<unknown> {
  return JSON.parse(decodeUtf8((await store.get(key))!.bytes)!) as unknown;
}

/** A store as one that holds something, of the layout that it says, or that says none. */
async function usedStore(layout?: unknown): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.put("names/a.json", encodeUtf8("{}"), { kind: "absent" });
  if (layout !== undefined) await store.put(key, encodeUtf8(JSON.stringify({ v: 1, layout })), { kind: "absent" });
  return store;
}

test("a store that holds nothing but what starting nodes try out gets the newest layout", async () => {
  const store = new MemoryStore();
  for (let at = 0; at < 120; at++) await store.put(`probe/${at}`, encodeUtf8("x"), { kind: "absent" });
  expect(await claimStoreFormat(store, "1.2.3")).toBe(newestLayout);
  expect(await layoutOf(store)).toEqual({ v: 1, layout: newestLayout, written_by: "1.2.3" });
  expect(await claimStoreFormat(store, "9")).toBe(newestLayout);
  expect(await raiseStoreFormat(store, "9")).toBe(newestLayout);
  expect(await layoutOf(store)).toMatchObject({ written_by: "1.2.3" });
});

test("a store keeps the layout that it has, the first one where earlier builds left no word of it", async () => {
  for (const store of [await usedStore(), await usedStore(1)]) {
    expect(await claimStoreFormat(store, "1.2.3")).toBe(1);
    expect(await layoutOf(store)).toMatchObject({ layout: 1 });
  }
});

test("raising a layout is said once and stays", async () => {
  for (const store of [await usedStore(), await usedStore(1)]) {
    expect(await raiseStoreFormat(store, "1.2.3")).toBe(1);
    expect(await claimStoreFormat(store, "1.2.3")).toBe(newestLayout);
    expect(await raiseStoreFormat(store, "1.2.3")).toBe(newestLayout);
  }
  await expect(raiseStoreFormat(new MemoryStore(), "1.2.3")).rejects.toMatchObject({ kind: "misconfigured" });
});

test("a newer layout is refused as such, and no layout at all as corrupt; neither is written over", async () => {
  for (const [layout, refusal] of [
    [newestLayout + 1, NewerFormat],
    ["2", /no format version/],
  ] as const) {
    const store = await usedStore(layout);
    for (const act of [requireStoreFormat, claimStoreFormat, raiseStoreFormat])
      await expect(act(store, "1.2.3")).rejects.toThrow(refusal);
    expect(await layoutOf(store)).toMatchObject({ layout });
  }
});

test("of several that claim or raise at once all have the same layout in the end", async () => {
  const fresh = new MemoryStore();
  expect(new Set(await Promise.all(["a", "b", "c"].map((build) => claimStoreFormat(fresh, build))))).toEqual(
    new Set([newestLayout]),
  );
  const used = await usedStore(1);
  const raised = await Promise.allSettled(["a", "b"].map((build) => raiseStoreFormat(used, build)));
  expect(raised.some(({ status }) => status === "fulfilled")).toBe(true);
  expect(await layoutOf(used)).toMatchObject({ layout: newestLayout });
});
