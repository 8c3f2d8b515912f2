/** What every adapter of the object-store port must do: one suite, run over each of them. */
import { describe, expect, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import type { ObjectStore, StoredObject } from "../../src/store/port/object-store.ts";
import { proveStore } from "../../src/store/probe.ts";

const text = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString();

async function listKeys(store: ObjectStore, prefix: string, limit: number): Promise<readonly string[]> {
  const found: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.list(prefix, { after, limit });
    expect(page.objects.length).toBeLessThanOrEqual(limit);
    found.push(...page.objects.map(({ key }) => key));
    if (page.next === undefined) return found;
    after = page.next;
  }
}

/** Runs the suite; every `open` answers an empty store. */
export function describeStore(name: string, open: () => Promise<ObjectStore>): void {
  describe(name, () => {
    test("an absent object is undefined; a stored one comes back byte for byte, empty or large", async () => {
      const store = await open();
      expect(await store.get("a/b.json")).toBeUndefined();
      for (const [key, length] of [
        ["a/b.json", 300],
        ["empty", 0],
        ["large", 5_000_000],
      ] as const) {
        const bytes = Uint8Array.from({ length }, (_, index) => index % 251);
        await store.put(key, bytes, { kind: "absent" });
        expect(Buffer.compare((await store.get(key))!.bytes, bytes)).toBe(0);
      }
    });

    test("conditions: create once, replace only what was seen", async () => {
      const store = await open();
      const first = await store.put("k", Buffer.from("1"), { kind: "absent" });
      expect(first.kind).toBe("stored");
      expect(await store.put("k", Buffer.from("x"), { kind: "absent" })).toEqual({ kind: "conflict" });
      expect(await store.put("k", Buffer.from("x"), { kind: "version", version: "nonsense" })).toEqual({
        kind: "conflict",
      });
      expect(await store.put("none", Buffer.from("x"), { kind: "version", version: "1" })).toEqual({
        kind: "conflict",
      });
      const seen = (await store.get("k"))!;
      const second = await store.put("k", Buffer.from("2"), { kind: "version", version: seen.version });
      expect(second.kind).toBe("stored");
      expect(await store.put("k", Buffer.from("3"), { kind: "version", version: seen.version })).toEqual({
        kind: "conflict",
      });
      expect(text((await store.get("k"))!.bytes)).toBe("2");
      expect(await store.get("none")).toBeUndefined();
    });

    test("a put, and a get after it, tell the same version; other bytes have another one", async () => {
      const store = await open();
      const versions: string[] = [];
      for (let round = 0; round < 20; round++) {
        const outcome = await store.put(
          "k",
          Buffer.from(`nonce ${round}`),
          round === 0 ? { kind: "absent" } : { kind: "version", version: versions.at(-1)! },
        );
        if (outcome.kind !== "stored") throw new Error("a put with the version of the put before must succeed");
        expect((await store.get("k"))!.version).toBe(outcome.version);
        versions.push(outcome.version);
      }
      expect(new Set(versions).size).toBe(20);
    });

    test("a get by whoever has the object gets it only when it is another one", async () => {
      const store = await open();
      expect(await store.get("k", "nonsense")).toBeUndefined();
      await store.put("k", Buffer.from("1"), { kind: "absent" });
      const first = (await store.get("k", undefined)) as StoredObject;
      expect(text(first.bytes)).toBe("1");
      expect(await store.get("k", first.version)).toBe("same");
      await store.put("k", Buffer.from("2"), { kind: "version", version: first.version });
      expect(text(((await store.get("k", first.version)) as StoredObject).bytes)).toBe("2");
      await store.delete("k");
      expect(await store.get("k", first.version)).toBeUndefined();
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
      expect(await store.put("k", Buffer.from("2"), { kind: "version", version: seen.version })).toEqual({
        kind: "conflict",
      });
      expect((await store.put("k", Buffer.from("2"), { kind: "absent" })).kind).toBe("stored");
      expect(await store.put("k", Buffer.from("3"), { kind: "version", version: seen.version })).toEqual({
        kind: "conflict",
      });
      expect(text((await store.get("k"))!.bytes)).toBe("2");
    });

    test("lists keys under a prefix in bytewise order, page by page", async () => {
      const store = await open();
      const keys = ["n/a.json", "n/a-b.json", "n/a/x", "n/a/X", "n/ab.json", "n/b.json", "m/z", "o"];
      for (const key of keys) await store.put(key, Buffer.from(key), { kind: "absent" });
      const sorted = keys.toSorted();
      expect(await listKeys(store, "n/a", 2)).toEqual(sorted.filter((key) => key.startsWith("n/a")));
      expect(await listKeys(store, "n/a/", 1)).toEqual(["n/a/X", "n/a/x"]);
      expect(await listKeys(store, "", 3)).toEqual(sorted);
      expect(await listKeys(store, "p", 3)).toEqual([]);
    });

    test("a listing tells an object's size and when it was last put", async () => {
      const store = await open();
      // A store's clock may be cut to seconds.
      const leastMs = Math.floor(Date.now() / 1000) * 1000;
      await store.put("a/k", Buffer.from("12345"), { kind: "absent" });
      const { objects } = await store.list("a/", { limit: 10 });
      expect(objects).toEqual([{ key: "a/k", bytes: 5, modifiedAtMs: expect.any(Number) }]);
      expect(objects[0]!.modifiedAtMs).toBeGreaterThanOrEqual(leastMs);
      expect(objects[0]!.modifiedAtMs).toBeLessThan(leastMs + 60_000);
    });

    test("32 writers race for one key, again and again: exactly one wins each time", async () => {
      const store = await open();
      for (let round = 0; round < 20; round++) {
        const seen = await store.get("k");
        const outcomes = await Promise.all(
          Array.from({ length: 32 }, (_, writer) =>
            store.put(
              "k",
              Buffer.from(`${round}/${writer}`),
              seen ? { kind: "version", version: seen.version } : { kind: "absent" },
            ),
          ),
        );
        const winners = outcomes.flatMap(({ kind }, writer) => (kind === "stored" ? [writer] : []));
        expect(winners).toHaveLength(1);
        expect(text((await store.get("k"))!.bytes)).toBe(`${round}/${winners[0]}`);
      }
    });

    test("F91: a purge of older versions leaves current objects as they are, and deleted ones deleted", async () => {
      const store = await open();
      const first = await store.put("a/replaced", Buffer.from("1"), { kind: "absent" });
      const second = await store.put("a/replaced", Buffer.from("2"), {
        kind: "version",
        version: first.kind === "stored" ? first.version : "",
      });
      for (const key of ["a/empty", "a/gone", "b/other"])
        await store.put(key, Buffer.from(key === "a/empty" ? "" : key), { kind: "absent" });
      await store.delete("a/gone");
      const before = await store.list("", { limit: 10 });
      const purged = await store.purgeVersions("a/");
      expect(purged).toMatchObject({ uploadsAborted: 0, locked: 0 });
      expect(await store.purgeVersions("a/")).toEqual({ ...purged, removed: 0 });
      expect(await store.list("", { limit: 10 })).toEqual(before);
      expect(await store.get("a/replaced")).toEqual({
        bytes: expect.objectContaining({ length: 1 }),
        version: second.kind === "stored" ? second.version : "",
      });
      expect(text((await store.get("a/empty"))!.bytes)).toBe("");
      expect(await store.get("a/gone")).toBeUndefined();
      // Whoever saw the older state is told so still.
      expect(
        await store.put("a/replaced", Buffer.from("3"), {
          kind: "version",
          version: first.kind === "stored" ? first.version : "",
        }),
      ).toEqual({ kind: "conflict" });
      expect((await store.put("a/gone", Buffer.from("anew"), { kind: "absent" })).kind).toBe("stored");
    });

    test("F34: passes the proof of a start, which leaves nothing behind", async () => {
      const store = await open();
      await proveStore(store, realWorld());
      expect((await store.list("", { limit: 10 })).objects).toEqual([]);
    });
  });
}
