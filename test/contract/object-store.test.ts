/** One suite over every adapter of the object-store port; S3's on a real server is in test/live. */
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
