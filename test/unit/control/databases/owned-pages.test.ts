/** Listings of some shards: nothing of them is left out, and what lies between costs nothing. */
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { listDue } from "../../../../src/control/databases/expiry-index.ts";
import { ownedPage, owns, type OwnedShards } from "../../../../src/control/databases/owned-pages.ts";
import { dueKey } from "../../../../src/format/keys/expiry-keys.ts";
import { computeShard, shardsCount, shardText } from "../../../../src/format/core/shards.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ListPage } from "../../../../src/store/port/object-store.ts";
import { seeded } from "../../../support/random.ts";

/** Counts listings, and has pages of a few objects. */
class PagedStore extends MemoryStore {
  lists = 0;
  readonly #pageMax: number;

  constructor(pageMax: number) {
    super();
    this.#pageMax = pageMax;
  }

  override list(prefix: string, options: { after?: string | undefined; limit: number }): Promise<ListPage> {
    this.lists++;
    return super.list(prefix, { ...options, limit: Math.min(options.limit, this.#pageMax) });
  }
}

function buildShards(...owned: number[]): OwnedShards {
  return { has: (shard) => owned.includes(shard), from: (shard) => owned.find((one) => one >= shard) };
}

const random = seeded(7);
const uuidIn = (shard: number): string => {
  const digits = (count: number): string =>
    Array.from({ length: count }, () => Math.floor(random() * 16).toString(16)).join("");
  return `${shardText(shard)}${digits(5)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`;
};

async function put(store: MemoryStore, key: string): Promise<void> {
  await store.put(key, Uint8Array.of(1), { kind: "absent" });
}

async function listKeys(store: PagedStore, prefix: string, uuidAt: number, shards: OwnedShards): Promise<string[]> {
  const keys: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await ownedPage(store, prefix, uuidAt, shards, after);
    keys.push(...page.objects.map(({ key }) => key));
    if (page.next === undefined) return keys;
    after = page.next;
  }
}

test("every shard has a name, and every uuid and every other name is in one", () => {
  expect(shardText(0)).toBe("000");
  expect(shardText(shardsCount - 1)).toBe("fff");
  expect(computeShard("abc00000-0000-4000-8000-000000000001")).toBe(0xabc);
  const names = Array.from({ length: 200 }, (_, index) => computeShard(`audit/${index}`));
  for (const shard of names)
    expect(shard).toSatisfy((one: number) => Number.isInteger(one) && one >= 0 && one < shardsCount);
  expect(new Set(names).size).toBeGreaterThan(180);
  expect(owns(buildShards(0xabc), "abc00000-0000-4000-8000-000000000001")).toBe(true);
  expect(owns(buildShards(0xabd), "abc00000-0000-4000-8000-000000000001")).toBe(false);
});

test("what is listed is what lies in the owned shards, whatever else is there, in pages of any size", async () => {
  for (let round = 0; round < 30; round++) {
    const store = new PagedStore(1 + Math.floor(random() * 20));
    const isGrouped = round % 2 === 1;
    const owned = Array.from({ length: 1 + Math.floor(random() * 6) }, () => Math.floor(random() * 64)).sort(
      (a, b) => a - b,
    );
    const keys = Array.from(
      { length: 200 },
      () => `p/${isGrouped ? `${Math.floor(random() * 4)}0/` : ""}${uuidIn(Math.floor(random() * 64))}/x`,
    );
    for (const key of [...keys, "p/zz", "p/~", "p/", "o/000", "q/000"]) await put(store, key);
    const uuidAt = isGrouped ? "p/10/".length : "p/".length;
    expect(await listKeys(store, "p/", uuidAt, buildShards(...owned))).toEqual(
      keys.filter((key) => owned.includes(parseInt(key.slice(uuidAt, uuidAt + 3), 16))).sort(),
    );
  }
});

test("the requests are as many as own pages and owned shards, never more than pages of everything", async () => {
  // One while there is little, none where nothing is owned.
  const store = new PagedStore(limits.storeListMax);
  const all = buildShards(...Array.from({ length: shardsCount }, (_, shard) => shard));
  expect(await listKeys(store, "p/", 2, all)).toEqual([]);
  expect(store.lists).toBe(1);
  store.lists = 0;
  expect(await listKeys(store, "p/", 2, buildShards())).toEqual([]);
  expect(store.lists).toBe(0);
  const dense = new PagedStore(10);
  for (let shard = 0; shard < 300; shard++) for (let each = 0; each < 5; each++) await put(dense, `p/${uuidIn(shard)}`);
  expect(await listKeys(dense, "p/", 2, buildShards(3, 100, 200, 4_000))).toHaveLength(15);
  expect(dense.lists).toBeLessThanOrEqual(4);
  dense.lists = 0;
  expect(await listKeys(dense, "p/", 2, all)).toHaveLength(1_500);
  expect(dense.lists).toBe(150);
});

test("what is due is looked for hour by hour in the owned shards, and not beyond the present one", async () => {
  const hourMs = 3_600_000;
  const startMs = Date.UTC(2031, 11, 31, 20);
  const store = new PagedStore(10);
  const places = Array.from({ length: 600 }, () => ({
    uuid: uuidIn(Math.floor(random() * 200)),
    branchId: "main",
    atMs: startMs + Math.floor(random() * 6) * hourMs,
  }));
  for (const place of places) await put(store, dueKey(place));
  const nowMs = startMs + 3 * hourMs + 1;
  const found: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await listDue(store, nowMs, after, buildShards(7, 77, 177));
    found.push(...page.entries.map(dueKey));
    if (page.next === undefined) break;
    after = page.next;
  }
  const wanted = places.filter(({ uuid, atMs }) => [7, 77, 177].includes(computeShard(uuid)) && atMs <= nowMs);
  expect(found).toEqual(wanted.map(dueKey).sort());
  // For each of four hours: one to find it, and one for each shard but the last; besides, one that finds the next hour.
  expect(store.lists).toBeLessThanOrEqual(4 * 4 + 1);
});
