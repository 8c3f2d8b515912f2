/** One suite over every adapter of the object-store port. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file-store.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore } from "../../src/store/object-store.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const adapters: Record<string, () => Promise<ObjectStore>> = {
  "mem://": async () => new MemoryStore(),
  "file://": async () => FileStore.open(join(temporaryDirectory(), "objects"), realWorld()),
};
const text = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString();

for (const [name, open] of Object.entries(adapters)) {
  describe(name, () => {
    test("an absent object is undefined; a stored one comes back byte for byte, the empty one too", async () => {
      const store = await open();
      expect(await store.get("a/b.json")).toBeUndefined();
      const bytes = Uint8Array.from({ length: 300 }, (_, index) => index % 256);
      await store.put("a/b.json", bytes, { kind: "absent" });
      expect(Buffer.compare((await store.get("a/b.json"))!.bytes, bytes)).toBe(0);
      await store.put("empty", new Uint8Array(0), { kind: "absent" });
      expect((await store.get("empty"))!.bytes.length).toBe(0);
    });

    test("conditions: create once, replace only what was seen", async () => {
      const store = await open();
      const first = await store.put("k", Buffer.from("1"), { kind: "absent" });
      expect(first.kind).toBe("stored");
      expect(await store.put("k", Buffer.from("x"), { kind: "absent" })).toEqual({ kind: "conflict" });
      expect(await store.put("k", Buffer.from("x"), { kind: "version", version: "nonsense" })).toEqual({ kind: "conflict" });
      expect(await store.put("none", Buffer.from("x"), { kind: "version", version: "1" })).toEqual({ kind: "conflict" });
      const seen = (await store.get("k"))!;
      const second = await store.put("k", Buffer.from("2"), { kind: "version", version: seen.version });
      expect(second.kind).toBe("stored");
      expect(await store.put("k", Buffer.from("3"), { kind: "version", version: seen.version })).toEqual({ kind: "conflict" });
      expect(text((await store.get("k"))!.bytes)).toBe("2");
    });

    test("a deleted object is gone, its old version never matches again, and it can be created anew", async () => {
      const store = await open();
      await store.put("k", Buffer.from("1"), { kind: "absent" });
      const seen = (await store.get("k"))!;
      await store.delete("k");
      await store.delete("k");
      await store.delete("never");
      expect(await store.get("k")).toBeUndefined();
      expect((await store.list("", { limit: 10 })).objects).toEqual([]);
      expect(await store.put("k", Buffer.from("2"), { kind: "version", version: seen.version })).toEqual({ kind: "conflict" });
      expect((await store.put("k", Buffer.from("2"), { kind: "absent" })).kind).toBe("stored");
      expect(await store.put("k", Buffer.from("3"), { kind: "version", version: seen.version })).toEqual({ kind: "conflict" });
      expect(text((await store.get("k"))!.bytes)).toBe("2");
    });

    test("lists keys under a prefix in bytewise order, page by page", async () => {
      const store = await open();
      const keys = ["n/a.json", "n/a-b.json", "n/a/x", "n/ab.json", "n/b.json", "m/z", "o"];
      for (const key of keys) await store.put(key, Buffer.from(key), { kind: "absent" });
      const found: string[] = [];
      for (let after: string | undefined; ; ) {
        const page = await store.list("n/a", { after, limit: 2 });
        found.push(...page.objects.map(({ key }) => key));
        expect(page.objects.every(({ key, bytes }) => bytes === key.length)).toBe(true);
        if (page.next === undefined) break;
        after = page.next;
      }
      expect(found).toEqual(keys.filter((key) => key.startsWith("n/a")).sort());
    });

    test("32 writers race for one key, again and again: exactly one wins each time", async () => {
      const store = await open();
      for (let round = 0; round < 20; round++) {
        const seen = await store.get("k");
        const outcomes = await Promise.all(Array.from({ length: 32 }, (_, writer) =>
          store.put("k", Buffer.from(`${round}/${writer}`), seen ? { kind: "version", version: seen.version } : { kind: "absent" })));
        const winners = outcomes.flatMap(({ kind }, writer) => (kind === "stored" ? [writer] : []));
        expect(winners).toHaveLength(1);
        expect(text((await store.get("k"))!.bytes)).toBe(`${round}/${winners[0]}`);
      }
    });
  });
}

test("file://: several processes count to 200 on one key and no step is lost or taken twice", async () => {
  const root = join(temporaryDirectory(), "objects");
  const racer = join(import.meta.dirname, "../support/put-racer.ts");
  const runs = await Promise.all(Array.from({ length: 4 }, () => promisify(execFile)(process.execPath, [racer, root, "count", "200"])));
  const totals = runs.map(({ stdout }) => JSON.parse(stdout) as { wins: number; unknown: number });
  const wins = totals.reduce((sum, one) => sum + one.wins, 0);
  const unknown = totals.reduce((sum, one) => sum + one.unknown, 0);
  expect(wins).toBeLessThanOrEqual(200);
  expect(wins + unknown).toBeGreaterThanOrEqual(200);
  expect(unknown).toBeLessThan(20);
});
