/** One suite over every adapter of the object-store port; S3's on a real server is in test/live. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file-store.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore, PutCondition, PutOutcome } from "../../src/store/object-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import { proveStore } from "../../src/store/probe.ts";
import { racePuts } from "../support/put-racer.ts";
import { startS3Double } from "../support/s3-double.ts";
import { describeStore } from "../support/store-suite.ts";
import { temporaryDirectory } from "../support/temporary.ts";

describeStore("mem://", async () => new MemoryStore());
describeStore("file://", async () => FileStore.open(join(temporaryDirectory(), "objects"), realWorld()));
describeStore("s3://", async () => openStore((await startS3Double()).location, realWorld()));

test("file://: several processes count to 200 on one key and no step is lost or taken twice", async () => {
  const { wins, unknown } = await racePuts({ kind: "file", directory: join(temporaryDirectory(), "objects") }, 4, 200);
  expect(wins).toBeLessThanOrEqual(200);
  expect(wins + unknown).toBeGreaterThanOrEqual(200);
  expect(unknown).toBeLessThan(20);
});

describe("file://: what is gone is gone from the disk", () => {
  /** Files below the directory whose bytes hold the text. */
  const holding = (directory: string, text: string): string[] =>
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && readFileSync(join(entry.parentPath, entry.name)).includes(text))
      .map((entry) => join(entry.parentPath, entry.name));
  const versionOf = (outcome: PutOutcome): string => (outcome.kind === "stored" ? outcome.version : "");

  test("F91: a delete empties what it deletes, a purge what was replaced and what a crash left behind", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    await store.put("db/u/seg/1", Buffer.from("old secret"), { kind: "absent" });
    await store.delete("db/u/seg/1");
    expect(holding(directory, "secret")).toEqual([]);

    let version = versionOf(await store.put("db/u/head", Buffer.from("old secret 0"), { kind: "absent" }));
    for (let round = 1; round < 5; round++) version = versionOf(await store.put("db/u/head", Buffer.from(`old secret ${round}`), { kind: "version", version }));
    version = versionOf(await store.put("db/u/head", Buffer.from("clean"), { kind: "version", version }));
    await store.put("db/v/head", Buffer.from("another's secret"), { kind: "absent" });
    writeFileSync(join(directory, ".tmp", "left-behind"), "old secret");
    expect(holding(directory, "old secret")).toHaveLength(6);

    expect(await store.purgeVersions("db/u/")).toEqual({ versioned: true, removed: 5, uploadsAborted: 1, locked: 0 });
    expect(holding(directory, "old secret")).toEqual([]);
    expect(holding(directory, "another's secret")).toHaveLength(1);
    expect(await store.get("db/u/head")).toEqual({ bytes: Buffer.from("clean"), version });
  });

  test("purges beside puts: every put wins or conflicts, no step is lost or taken twice", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const [store, other] = [await FileStore.open(directory, realWorld()), await FileStore.open(directory, realWorld())];
    let isOver = false;
    const purging = (async () => {
      for (; !isOver; ) await other.purgeVersions("").catch((error: unknown) => expect(error).toMatchObject({ kind: "unavailable" }));
    })();
    let wins = 0;
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (let tries = 0; tries < 60; tries++) {
        const seen = await store.get("k");
        const next = Buffer.from(String(Number(seen?.bytes.toString() ?? 0) + 1));
        try {
          if ((await store.put("k", next, seen ? { kind: "version", version: seen.version } : { kind: "absent" })).kind === "stored") wins++;
        } catch (error) {
          // Swept away twice in a row; nothing was stored.
          expect(error).toMatchObject({ kind: "unavailable" });
        }
      }
    }));
    isOver = true;
    await purging;
    expect(wins).toBeGreaterThan(0);
    expect((await store.get("k"))!.bytes.toString()).toBe(String(wins));
  });

  test("a purge leaves the names of what it empties, so that a writer that slept cannot take one anew and believe it has won", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    let version = versionOf(await store.put("k", Buffer.from("0"), { kind: "absent" }));
    for (let round = 1; round < 4; round++) version = versionOf(await store.put("k", Buffer.from(String(round)), { kind: "version", version }));
    await store.purgeVersions("");
    expect(readdirSync(join(directory, "k~")).toSorted()).toEqual(["1", "2", "3", "4"]);
    await store.delete("k");
    expect(readdirSync(join(directory, "k~")).toSorted()).toEqual(["1", "2", "3", "4", "5"]);
  });
});

/** A store that is sound but for its puts. */
class UnsoundStore extends MemoryStore {
  readonly #decide: (store: ObjectStore, key: string, condition: PutCondition) => Promise<boolean>;

  constructor(decide: (store: ObjectStore, key: string, condition: PutCondition) => Promise<boolean>) {
    super();
    this.#decide = decide;
  }

  override async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    if (!(await this.#decide(this, key, condition))) return { kind: "conflict" };
    // Neither waits for anything before it acts, so that nothing comes between them: this put replaces whatever is there.
    const [, outcome] = await Promise.all([this.delete(key), super.put(key, bytes, { kind: "absent" })]);
    return outcome;
  }
}

describe("F34: the proof of a start refuses", () => {
  test("a store that ignores conditions", async () => {
    const store = new UnsoundStore(async () => true);
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({ kind: "misconfigured", message: expect.stringContaining("were told that they had") });
    expect((await store.list("", { limit: 10 })).objects).toEqual([]);
  });

  test("a store that checks a condition and then acts", async () => {
    const store = new UnsoundStore(async (itself, key, condition) => {
      const current = await itself.get(key);
      return condition.kind === "absent" ? current === undefined : current?.version === condition.version;
    });
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({ kind: "misconfigured", message: expect.stringContaining("were told that they had") });
  });

  test("a store that decides If-None-Match alone", async () => {
    let turn = Promise.resolve();
    const store = new UnsoundStore(async (itself, key, condition) => {
      const decided = turn.then(async () => condition.kind === "version" || (await itself.get(key)) === undefined);
      turn = decided.then(() => {});
      return decided;
    });
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({ kind: "misconfigured" });
  });

  test("a server that ignores conditions, seen through the S3 adapter", async () => {
    const store = await openStore((await startS3Double({ ignoresConditions: true })).location, realWorld());
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({ kind: "misconfigured", message: expect.stringContaining("cannot be used") });
  });

  test("a store that never lets anybody win", async () => {
    await expect(proveStore(new UnsoundStore(async () => false), realWorld())).rejects.toMatchObject({ kind: "misconfigured", message: expect.stringContaining("none could") });
  });
});
