/** One suite over every adapter of the object-store port; S3's on a real server is in test/live. */
import { linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { realWorld } from "../../src/base/world.ts";
import { FileStore } from "../../src/store/file/file-store.ts";
import { realFileSystem, type FileSystem } from "../../src/store/file/file-system.ts";
import { MemoryStore } from "../../src/store/memory-store.ts";
import type { ObjectStore, PutCondition, PutOutcome } from "../../src/store/port/object-store.ts";
import { openStore } from "../../src/store/open-store.ts";
import { proveStore } from "../../src/store/probe.ts";
import { FaultyFiles } from "../support/faulty-files.ts";
import { racePuts } from "../support/put-racer.ts";
import { startS3Double } from "../support/s3-double.ts";
import { describeStore } from "../support/store-suite.ts";
import { temporaryDirectory } from "../support/temporary.ts";

describeStore("mem://", async () => new MemoryStore());
describeStore("file://", async () => FileStore.open(join(temporaryDirectory(), "objects"), realWorld()));
describeStore("file:// on a file system in memory", async () =>
  FileStore.open("/objects", realWorld(), new FaultyFiles({ nowMs: () => Date.now() })),
);
describeStore("s3://", async () => openStore((await startS3Double()).location, realWorld()));

const getVersion = (outcome: PutOutcome): string => (outcome.kind === "stored" ? outcome.version : "");

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

  test("F91: a delete empties what it deletes, a purge what was replaced and what a crash left behind", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    await store.put("db/u/seg/1", Buffer.from("old secret"), { kind: "absent" });
    await store.delete("db/u/seg/1");
    expect(holding(directory, "secret")).toEqual([]);

    let version = getVersion(await store.put("db/u/head", Buffer.from("old secret 0"), { kind: "absent" }));
    for (let round = 1; round < 5; round++)
      version = getVersion(
        await store.put("db/u/head", Buffer.from(`old secret ${round}`), { kind: "version", version }),
      );
    version = getVersion(await store.put("db/u/head", Buffer.from("clean"), { kind: "version", version }));
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
      for (; !isOver;)
        await other.purgeVersions("").catch((error: unknown) => expect(error).toMatchObject({ kind: "unavailable" }));
    })();
    // The object is the names of the steps that made it, so that each step is known by name.
    const [won, inDoubt] = [new Set<string>(), new Set<string>()];
    await Promise.all(
      Array.from({ length: 4 }, async (_, writer) => {
        for (let tries = 0; tries < 60; tries++) {
          const seen = await store.get("k");
          const name = `${writer}/${tries}`;
          const next = Buffer.from([...(seen ? [seen.bytes.toString()] : []), name].join(" "));
          try {
            if (
              (await store.put("k", next, seen ? { kind: "version", version: seen.version } : { kind: "absent" }))
                .kind === "stored"
            )
              won.add(name);
          } catch (error) {
            // Swept away again and again, or superseded and purged before it had looked for itself.
            expect(["unavailable", "unknown_outcome"]).toContain((error as { kind?: string }).kind);
            if ((error as { kind?: string }).kind === "unknown_outcome") inDoubt.add(name);
          }
        }
      }),
    );
    isOver = true;
    await purging;
    expect(won.size).toBeGreaterThan(0);
    const steps = (await store.get("k"))!.bytes.toString().split(" ");
    expect(new Set(steps).size).toBe(steps.length);
    expect([...won].filter((name) => !steps.includes(name))).toEqual([]);
    expect(steps.filter((name) => !won.has(name) && !inDoubt.has(name))).toEqual([]);
  });

  test("a purge removes what was replaced wholly, and the version that stands keeps its number", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    let version = getVersion(await store.put("k", Buffer.from("0"), { kind: "absent" }));
    for (let round = 1; round < 4; round++)
      version = getVersion(await store.put("k", Buffer.from(String(round)), { kind: "version", version }));
    await store.purgeVersions("");
    expect(readdirSync(join(directory, "k~"))).toEqual([version]);
    expect(await store.put("k", Buffer.from("4"), { kind: "version", version })).toMatchObject({ kind: "stored" });
  });

  test("a delete leaves no file, no directory and no empty folder, however often keys are used again", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    await store.put("db/u/head/main", Buffer.from("head"), { kind: "absent" });
    const before = readdirSync(directory, { recursive: true }).toSorted();
    for (let round = 0; round < 100; round++) {
      const first = getVersion(await store.put(`db/u/seg/${round}`, Buffer.from("1"), { kind: "absent" }));
      await store.put("erasing/u/e", Buffer.from("1"), { kind: "absent" });
      await store.put(`db/u/seg/${round}`, Buffer.from("2"), { kind: "version", version: first });
      await store.delete(`db/u/seg/${round}`);
      await store.delete("erasing/u/e");
    }
    expect(readdirSync(directory, { recursive: true }).toSorted()).toEqual(before);
  });
});

describe("file://: a directory of an earlier build", () => {
  /** As earlier builds left it: versions from 1 on, emptied ones under their names, tombstones. */
  function earlier(directory: string, key: string, files: Record<string, Uint8Array>): void {
    mkdirSync(join(directory, `${key}~`), { recursive: true });
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(directory, `${key}~`, name), bytes);
  }
  const data = (text: string): Buffer => Buffer.concat([Buffer.from([1]), Buffer.from(text)]);
  const [purged, tombstone] = [Buffer.from([2]), Buffer.alloc(0)];

  test("is read and written as it is, and by its build again", async () => {
    const directory = join(temporaryDirectory(), "objects");
    earlier(directory, "head", { 7: purged, 8: data("older"), 9: data("newest") });
    earlier(directory, "gone", { 1: purged, 2: tombstone });
    const store = await FileStore.open(directory, realWorld());
    expect(await store.get("head")).toEqual({ bytes: Buffer.from("newest"), version: "9" });
    expect(await store.put("head", Buffer.from("next"), { kind: "version", version: "9" })).toEqual({
      kind: "stored",
      version: "10",
    });
    expect(await store.put("gone", Buffer.from("again"), { kind: "absent" })).toMatchObject({ kind: "stored" });
    await store.put("new", Buffer.from("new"), { kind: "absent" });
    // What it does: the highest number of the directory is the object, behind one byte.
    for (const [key, text] of [
      ["head", "next"],
      ["gone", "again"],
      ["new", "new"],
    ] as const) {
      const names = readdirSync(join(directory, `${key}~`));
      const newest = Math.max(...names.map(Number));
      expect(Number.isSafeInteger(newest)).toBe(true);
      expect(readFileSync(join(directory, `${key}~`, String(newest)))).toEqual(data(text));
    }
  });

  test("is as it was when somebody has only read it", async () => {
    const directory = join(temporaryDirectory(), "objects");
    earlier(directory, "db/u/head/main", { 8: data("older"), 9: data("newest") });
    earlier(directory, "db/u/seg/1", { 1: purged, 2: tombstone });
    mkdirSync(join(directory, ".tmp"));
    // The mark of a put that its writer did not see to its end.
    linkSync(join(directory, "db/u/head/main~", "9"), join(directory, ".tmp", "mark"));
    const before = readdirSync(directory, { recursive: true });
    const store = FileStore.at(directory, realWorld());
    expect((await store.list("", { limit: 10 })).objects.map(({ key }) => key)).toEqual(["db/u/head/main"]);
    expect((await store.get("db/u/head/main"))!.bytes.toString()).toBe("newest");
    expect((await store.olderVersions("db/u/head/main")).map(({ bytes }) => bytes.toString())).toEqual(["older"]);
    await expect(store.put("k", Buffer.from("1"), { kind: "absent" })).rejects.toMatchObject({ kind: "unavailable" });
    expect(readdirSync(directory, { recursive: true })).toEqual(before);
  });

  test(
    "what was deleted goes with the listings, and a listing after 3,000 deletes costs as if they had never been",
    { timeout: 300_000 },
    async () => {
      const directory = join(temporaryDirectory(), "objects");
      for (let index = 0; index < 3_000; index++) earlier(directory, `db/u/seg/${index}`, { 1: purged, 2: tombstone });
      earlier(directory, "db/u/head/main", { 1: data("head") });
      const files = new CountedFiles();
      const store = await FileStore.open(directory, realWorld(), files);
      for (let listings = 0; listings < Math.ceil(3_000 / 32); listings++)
        expect((await store.list("db/", { limit: 1_000 })).objects).toHaveLength(1);
      await store.list("db/", { limit: 1_000 });
      expect(readdirSync(directory, { recursive: true }).filter((name) => !String(name).startsWith("."))).toEqual([
        "db",
        "db/u",
        "db/u/head",
        "db/u/head/main~",
        "db/u/head/main~/1",
      ]);
      files.steps = 0;
      await store.list("db/", { limit: 1_000 });
      expect(files.steps).toBeLessThan(10);
    },
  );
});

/** The machine's file system; counts the reads of directories and of what is known of files. */
class CountedFiles implements FileSystem {
  steps = 0;
  readonly create = realFileSystem.create;
  readonly read = realFileSystem.read;
  readonly link = realFileSystem.link;
  readonly rename = realFileSystem.rename;
  readonly unlink = realFileSystem.unlink;
  readonly mkdir = realFileSystem.mkdir;
  readonly rmdir = realFileSystem.rmdir;
  readonly syncDirectory = realFileSystem.syncDirectory;

  readdir(path: string): Promise<string[]> {
    this.steps++;
    return realFileSystem.readdir(path);
  }

  stat(path: string): ReturnType<FileSystem["stat"]> {
    this.steps++;
    return realFileSystem.stat(path);
  }
}

describe("file://: older versions, for tools", () => {
  test("come newest first, without what was purged or deleted", async () => {
    const directory = join(temporaryDirectory(), "objects");
    const store = await FileStore.open(directory, realWorld());
    expect(await store.olderVersions("k")).toEqual([]);
    let version = getVersion(await store.put("k", Buffer.from("0"), { kind: "absent" }));
    for (let round = 1; round < 30; round++)
      version = getVersion(await store.put("k", Buffer.from(String(round)), { kind: "version", version }));
    const older = await store.olderVersions("k");
    expect(older.map(({ bytes }) => Number(bytes.toString()))).toEqual(
      Array.from({ length: 15 }, (_, index) => 28 - index),
    );
    expect(older[0]!.modifiedAtMs).toBeGreaterThan(Date.now() - 60_000);
    // What its reader cannot use is there as it is, and so is what it superseded.
    writeFileSync(join(directory, "k~", version), Buffer.from([1, 50]));
    expect((await store.olderVersions("k"))[0]!.bytes.toString()).toBe("28");
    await store.purgeVersions("");
    expect(await store.olderVersions("k")).toEqual([]);
    await store.delete("k");
    expect(await store.olderVersions("k")).toEqual([]);
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
    // Neither waits for anything before it acts, so that nothing comes between them: this put replaces whatever is
    // there.
    const [, outcome] = await Promise.all([this.delete(key), super.put(key, bytes, { kind: "absent" })]);
    return outcome;
  }
}

describe("F34: the proof of a start refuses", () => {
  test("a store that ignores conditions", async () => {
    const store = new UnsoundStore(async () => true);
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("were told that they had"),
    });
    expect((await store.list("", { limit: 10 })).objects).toEqual([]);
  });

  test("a store that checks a condition and then acts", async () => {
    const store = new UnsoundStore(async (itself, key, condition) => {
      const current = await itself.get(key);
      return condition.kind === "absent" ? current === undefined : current?.version === condition.version;
    });
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("were told that they had"),
    });
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
    await expect(proveStore(store, realWorld())).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("cannot be used"),
    });
  });

  test("a store that never lets anybody win", async () => {
    await expect(proveStore(new UnsoundStore(async () => false), realWorld())).rejects.toMatchObject({
      kind: "misconfigured",
      message: expect.stringContaining("none could"),
    });
  });
});
