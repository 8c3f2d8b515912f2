/**
 * Packs and images of a real database: its log is read, shipped and restored, and every state is compared with SQLite's
 * own.
 */
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { limits } from "../../../../src/base/limits.ts";
import { findRestorePlan, rebased } from "../../../../src/engine/history/timelines.ts";
import {
  imageStep,
  pack,
  uploadImages,
  writeImages,
  imageRefsMax,
  imageObjectPages,
} from "../../../../src/engine/compaction/compaction.ts";
import { fetchObject, type PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { materialise, rollForward } from "../../../../src/engine/segments/restore.ts";
import { computeSha256, type Manifest } from "../../../../src/format/history/manifest.ts";
import { poolId, segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { makeCanonical, pageBytes } from "../../../../src/format/history/pages.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { encodeSegment, type PageGroup, segmentPagesMax } from "../../../../src/format/history/segment.ts";
import { createSchema, readState, decodeStatePage, stateRootPage, writeState } from "../../../../src/model/schema.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { WalReader } from "../../../../src/sqlite/wal/wal-reader.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { BranchModel, emptyManifest, memorySource, Ulids, withStore } from "../../../support/branch-model.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

/** A database that is written through SQLite and shipped from its log, with what each state was like. */
class ShippedDatabase {
  readonly source = memorySource();
  readonly directory = temporaryDirectory();
  readonly path = join(this.directory, "main.db");
  readonly connection = new Connection(this.path, { readonly: false, pageCacheKiB: 1024 });
  readonly contents = new Map<number, string>();
  readonly canonical = new Map<number, string>();
  readonly #log: WalReader;
  readonly #statePage: number;
  readonly #ulids = new Ulids();
  readonly #writerEpoch = new Uint8Array(16).fill(9);
  #pages: Uint8Array[] = [];
  #txid = 0;
  manifest: Manifest = emptyManifest("main");

  constructor() {
    createSchema(this.connection);
    this.connection.exec(
      "CREATE TABLE items (id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX by_body ON items (body); CREATE " +
        "VIRTUAL TABLE words USING fts5(body);",
    );
    this.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    this.#statePage = stateRootPage(this.connection);
    this.#log = new WalReader(this.path);
  }

  makeId = (): string => poolId("main", 1, this.#ulids.next());

  /** The images of the state that the database begins with. */
  async begin(): Promise<void> {
    const state = readState(this.connection);
    const { refs, pages } = await uploadImages(this.source, this.path, state, "main", this.makeId);
    const bytes = readFileSync(this.path);
    this.#pages = Array.from({ length: pages }, (_, index) => {
      const page = new Uint8Array(bytes.subarray(index * pageBytes, (index + 1) * pageBytes));
      makeCanonical(page, index + 1);
      return page;
    });
    this.#remember();
    this.manifest = { ...this.manifest, refs, pages, fromTxid: 0 };
  }

  /** One commit group with its state row. */
  commit(act: (connection: Connection) => void): void {
    this.connection.exec("BEGIN IMMEDIATE");
    act(this.connection);
    this.#txid++;
    writeState(this.connection, {
      txid: this.#txid,
      committedAtMs: this.#txid * 1_000,
      writerEpochId: this.#writerEpoch,
    });
    this.connection.exec("COMMIT");
    this.contents.set(this.#txid, readContent(this.connection));
  }

  #remember(): void {
    this.contents.set(this.#txid, readContent(this.connection));
    this.canonical.set(this.#txid, Buffer.from(computeSha256(Buffer.concat(this.#pages))).toString("hex"));
  }

  /** Ships everything in the log as one object. */
  async ship(): Promise<void> {
    const groups = this.#log
      .read(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
      .map(({ pages, images }): PageGroup => {
        for (const { page, bytes } of images) makeCanonical(bytes, page);
        const { txid, committedAtMs } = decodeStatePage(images.find(({ page }) => page === this.#statePage)!.bytes);
        this.#pages.length = Math.min(this.#pages.length, pages);
        while (this.#pages.length < pages) this.#pages.push(new Uint8Array(pageBytes));
        for (const { page, bytes } of images) this.#pages[page - 1] = bytes;
        this.canonical.set(txid, Buffer.from(computeSha256(Buffer.concat(this.#pages))).toString("hex"));
        return { txid, committedAtMs, pages, images };
      });
    const last = groups.at(-1);
    if (!last) return;
    const bytes = await encodeSegment(
      { kind: "delta", uuid: this.source.uuid, branchId: "main", epoch: 1, groups },
      inlinePress,
    );
    const ref: SegmentRef = {
      kind: "delta",
      id: this.makeId(),
      firstTxid: groups[0]!.txid,
      lastTxid: last.txid,
      cut: false,
      lastAtMs: last.committedAtMs,
      bytes: bytes.length,
      rawBytes: groups.reduce((sum, { images }) => sum + images.length * pageBytes, 0),
      sha256: computeSha256(bytes),
    };
    await this.source.store.put(segmentKey(this.source.uuid, ref.id), bytes, { kind: "absent" });
    const writerEpochs = [{ epoch: 1, id: this.#writerEpoch, firstTxid: 1, lastTxid: last.txid }];
    this.manifest = {
      ...this.manifest,
      refs: [...this.manifest.refs, ref],
      writerEpochs,
      txid: last.txid,
      committedAtMs: last.committedAtMs,
      pages: last.pages,
    };
  }

  /** Folds the log in, as its owner does when all of it is shipped. */
  checkpoint(): void {
    this.connection.raw.pragma("wal_checkpoint(TRUNCATE)");
    this.#log.restarted();
  }

  close(): void {
    this.#log.close();
    this.connection.close();
  }
}

function readContent(connection: Connection): string {
  const rows = [
    connection.all("SELECT id, body FROM items ORDER BY id"),
    connection.all("SELECT rowid, body FROM words ORDER BY rowid"),
  ];
  return Buffer.from(computeSha256(Buffer.from(JSON.stringify(rows)))).toString("hex");
}

/** What a restored file is like, if SQLite finds nothing wrong with it. */
function inspect(path: string): { readonly txid: number; readonly content: string; readonly canonical: string } {
  const canonical = Buffer.from(computeSha256(readFileSync(path))).toString("hex");
  const connection = new Connection(path, { readonly: false, pageCacheKiB: 1024 });
  try {
    expect(connection.raw.pragma("integrity_check", { simple: true })).toBe("ok");
    connection.exec("INSERT INTO words (words) VALUES ('integrity-check')");
    return { txid: readState(connection).txid, content: readContent(connection), canonical };
  } finally {
    connection.close();
  }
}

/** A random life of the database: rows come, change and go, and now and then most go at once. */
function randomChange(random: () => number): (connection: Connection) => void {
  const id = Math.floor(random() * 400);
  const body = `token${Math.floor(random() * 1e9)} ${"x".repeat(Math.floor(random() ** 3 * 9_000))}`;
  return (connection) => {
    if (random() < 0.65) {
      connection.run("INSERT OR REPLACE INTO items (id, body) VALUES (?, ?)", id, body);
      connection.run("INSERT OR REPLACE INTO words (rowid, body) VALUES (?, ?)", id, body);
    } else {
      const until = random() < 0.1 ? 1_000 : id + 10;
      connection.run("DELETE FROM items WHERE id BETWEEN ? AND ?", id, until);
      connection.run("DELETE FROM words WHERE rowid BETWEEN ? AND ?", id, until);
    }
  };
}

describe("a real database", () => {
  it.each([1, 2])(
    "F78: every state is restored as SQLite had it, through checkpoints, mass deletes, packs and new bases (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      const database = new ShippedDatabase();
      await database.begin();
      const pasts: Manifest[] = [];
      for (let round = 0; round < 14; round++) {
        for (let count = 0; count < 6; count++) database.commit(randomChange(random));
        await database.ship();
        if (round % 4 === 1) database.checkpoint();
        if (round === 6) {
          // Most of the file is free pages then, which the log leaves as they were.
          database.commit(
            (connection) =>
              void connection.exec(
                "DELETE FROM items; DELETE FROM words; INSERT INTO words (words) VALUES ('optimize')",
              ),
          );
          await database.ship();
        }
        const { refs } = database.manifest;
        if (round === 5 || round === 11) {
          const inputs = refs.slice(-3);
          database.manifest = {
            ...database.manifest,
            refs: [...refs.slice(0, -3), await pack(database.source, inputs, database.makeId())],
          };
        }
        if (round === 8) {
          const { txid } = database.manifest;
          const scratch = join(database.directory, "scratch");
          mkdirSync(scratch);
          const images = await writeImages(
            database.source,
            findRestorePlan(database.manifest, undefined, txid)!,
            scratch,
            "main",
            database.makeId,
          );
          expect(images.pages).toBe(database.manifest.pages);
          expect(readdirSync(scratch)).toEqual([]);
          pasts.push(database.manifest);
          const next = rebased(database.manifest, images.refs, 0)!;
          database.manifest = { ...database.manifest, refs: next.refs, fromTxid: next.fromTxid };
        }
      }
      database.close();
      pasts.push(database.manifest);
      const path = join(database.directory, "restored.db");
      let restored = 0;
      for (const txid of database.contents.keys()) {
        for (const manifest of pasts) {
          const plan = findRestorePlan(manifest, undefined, txid);
          if (!plan) continue;
          rmSync(path, { force: true });
          await materialise(database.source, plan, path);
          expect(inspect(path)).toEqual({
            txid,
            content: database.contents.get(txid),
            canonical: database.canonical.get(txid),
          });
          restored++;
        }
      }
      expect(restored).toBeGreaterThan(database.contents.size);
    },
  );

  it("a file that stopped long ago is rolled forward to the newest state", async () => {
    const random = seeded(3);
    const database = new ShippedDatabase();
    await database.begin();
    for (let count = 0; count < 40; count++) {
      database.commit(randomChange(random));
      if (count % 7 === 0) await database.ship();
    }
    await database.ship();
    database.close();
    const path = join(database.directory, "old.db");
    for (const txid of [0, 11, 39]) {
      rmSync(path, { force: true });
      await materialise(database.source, findRestorePlan(database.manifest, undefined, txid)!, path);
      await rollForward(database.source, findRestorePlan(database.manifest, undefined, 40)!, txid, path);
      expect(inspect(path)).toEqual({
        txid: 40,
        content: database.contents.get(40),
        canonical: database.canonical.get(40),
      });
    }
  });
});

/** A branch of four objects over an image. */
async function sampleBranch(): Promise<BranchModel> {
  const branch = new BranchModel(seeded(11));
  for (let count = 0; count < 5; count++) {
    branch.commit();
    await branch.ship(false);
  }
  return branch;
}

async function catchFailure(act: Promise<unknown>): Promise<StoreError> {
  const error = await act.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreError);
  return error as StoreError;
}

async function listKeys(source: PageSource): Promise<readonly string[]> {
  return (await source.store.list("", { limit: 1_000 })).objects.map(({ key }) => key);
}

describe("pack", () => {
  it("F72: of a rotten or missing input puts nothing", async () => {
    const branch = await sampleBranch();
    const inputs = branch.manifest.refs.slice(1);
    for (const damage of [(bytes: Uint8Array) => bytes.fill(7, 100, 101), () => undefined]) {
      const get: ObjectStore["get"] = async (key) => {
        const found = await branch.source.store.get(key);
        if (!found || !key.endsWith(inputs[2]!.id)) return found;
        const bytes = damage(new Uint8Array(found.bytes));
        return bytes && { ...found, bytes };
      };
      const before = await listKeys(branch.source);
      const source = withStore(branch.source, { get });
      const error = await catchFailure(pack(source, inputs, branch.newId()));
      expect(error.kind).toBe("corrupt");
      expect(error.message).toContain(inputs[2]!.id);
      expect(await listKeys(branch.source)).toEqual(before);
    }
  });

  it("F71: killed at any moment leaves the inputs and at most one object that nobody names", async () => {
    const branch = await sampleBranch();
    const before = await listKeys(branch.source);
    const source = withStore(branch.source, {
      async put(...put) {
        await branch.source.store.put(...put);
        throw new StoreError("unavailable", "killed");
      },
    });
    const refs = branch.manifest.refs.slice(1);
    await catchFailure(pack(source, refs, branch.newId()));
    const after = await listKeys(branch.source);
    expect(after.filter((key) => before.includes(key))).toEqual(before);
    expect(after.length).toBe(before.length + 1);
    expect(await branch.pack({ from: 1, to: 5 })).toBe(true);
    const { expected, found } = branch.compare(5, await branch.restored(5));
    expect(found).toBe(expected);
  });

  it("F71: of two that pack the same objects one takes their place", async () => {
    const branch = await sampleBranch();
    const inputs = branch.manifest.refs.slice(1);
    const [first, second] = await Promise.all([
      pack(branch.source, inputs, branch.newId()),
      pack(branch.source, inputs, branch.newId()),
    ]);
    expect(first!.sha256).toEqual(second!.sha256);
    expect(await branch.pack({ from: 1, to: 5 })).toBe(true);
    expect(branch.manifest.refs.length).toBe(2);
  });

  it("F30: knows its own object when the answer to its put was lost", async () => {
    const branch = await sampleBranch();
    const source = withStore(branch.source, {
      async put(...put) {
        await branch.source.store.put(...put);
        throw new StoreError("unknown_outcome", "the answer was lost");
      },
    });
    const ref = await pack(source, branch.manifest.refs.slice(1), branch.newId());
    expect(ref).toMatchObject({ firstTxid: 2, lastTxid: 5, kind: "delta", cut: false });
  });

  it("leaves out what was cut off, and what it restores is what it was", async () => {
    const branch = await sampleBranch();
    await branch.rewind(3);
    branch.commit();
    await branch.ship(false);
    // 2, 3, of which 4 and 5 were cut together with the rest of the timeline, then 6 and 7.
    await branch.pack({ from: 1, to: branch.manifest.refs.length });
    expect(branch.manifest.refs.map(({ kind, firstTxid, lastTxid, cut }) => [kind, firstTxid, lastTxid, cut])).toEqual([
      ["image", 1, 1, false],
      ["delta", 2, 7, false],
    ]);
    for (const txid of [4, 5, 6, 7]) {
      const { expected, found } = branch.compare(txid, await branch.restored(txid));
      expect(found, String(txid)).toBe(expected);
    }
  });

  it("takes an object apart that holds groups on both sides of a cut", async () => {
    const branch = new BranchModel(seeded(12));
    for (let count = 0; count < 9; count++) branch.commit();
    await branch.ship(false);
    await branch.rewind(4);
    expect(branch.manifest.refs[1]).toMatchObject({ firstTxid: 2, lastTxid: 4, cut: true });
    const made = await pack(branch.source, branch.manifest.refs.slice(1), branch.newId());
    expect(made).toMatchObject({ firstTxid: 2, lastTxid: 10, cut: false });
    const { indexes } = await fetchObject(branch.source, made);
    expect(indexes.flatMap(({ groups }) => groups.map(({ txid }) => txid))).toEqual([2, 3, 4, 10]);
    expect(made.rawBytes).toBe(
      indexes.flatMap(({ groups }) => groups).reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0) * pageBytes,
    );
  });
});

describe("writeImages", () => {
  it("F72: puts nothing of a state that SQLite finds unsound, and leaves no file", async () => {
    const branch = await sampleBranch();
    const scratch = temporaryDirectory();
    const before = await listKeys(branch.source);
    // The model's pages begin like a database, but are none.
    const error = await catchFailure(
      writeImages(branch.source, branch.findRestorePlan(5), scratch, "main", () => branch.newId()),
    );
    expect(error.kind).toBe("corrupt");
    expect(await listKeys(branch.source)).toEqual(before);
    expect(readdirSync(scratch)).toEqual([]);
  });

  it("F72: puts nothing of a state that says it is another one", async () => {
    const database = new ShippedDatabase();
    await database.begin();
    database.commit((connection) => void connection.run("INSERT INTO items (body) VALUES ('a')"));
    database.commit((connection) => void connection.run("INSERT INTO items (body) VALUES ('b')"));
    await database.ship();
    database.close();
    const scratch = temporaryDirectory();
    const old = join(scratch, "old.db");
    await materialise(database.source, findRestorePlan(database.manifest, undefined, 1)!, old);
    const { refs } = await uploadImages(database.source, old, { txid: 2, committedAtMs: 0 }, "main", database.makeId);
    rmSync(old);
    const before = await listKeys(database.source);
    const error = await catchFailure(
      writeImages(
        database.source,
        { ...findRestorePlan(database.manifest, undefined, 2)!, images: refs, deltas: [] },
        scratch,
        "main",
        database.makeId,
      ),
    );
    expect(error.message).toContain("says of itself that it is 1");
    expect(await listKeys(database.source)).toEqual(before);
    expect(readdirSync(scratch)).toEqual([]);
  });
});

it("a base image never has more objects than leave room in a manifest, whatever the database's size", () => {
  for (const pages of [1, imageObjectPages, 8_388_608, 8_388_609, limits.databasePagesMax]) {
    expect(Math.ceil(pages / imageStep(pages))).toBeLessThanOrEqual(imageRefsMax);
    expect(imageStep(pages)).toBeLessThanOrEqual(segmentPagesMax);
  }
  expect(imageStep(8_388_608)).toBe(imageObjectPages);
});

it("F15: a database beyond 1 GiB has every page but the lock page in its images", async () => {
  const branch = new BranchModel(seeded(1));
  const path = branch.path();
  writeFileSync(path, Buffer.from("SQLite format 3\0\x10"));
  // All holes but for the header and the last page.
  const last = Buffer.alloc(pageBytes, 3);
  truncateSync(path, 262_146 * pageBytes);
  appendFileSync(path, last);
  const { refs, pages } = await uploadImages(branch.source, path, { txid: 1, committedAtMs: 0 }, "main", () =>
    branch.newId(),
  );
  expect(pages).toBe(262_147);
  expect(refs.map(({ rawBytes }) => rawBytes / pageBytes)).toEqual([...Array<number>(16).fill(imageObjectPages), 2]);
  const restored = branch.path();
  const plan = { txid: 1, fromTxid: 1, lost: [], images: refs, deltas: [], tail: [] };
  expect(await materialise(branch.source, plan, restored)).toEqual({ pages: 262_147 });
  expect(statSync(restored).size).toBe(262_147 * pageBytes);
  const page = Buffer.alloc(pageBytes);
  const descriptor = openSync(restored, "r");
  readSync(descriptor, page, 0, pageBytes, 262_146 * pageBytes);
  closeSync(descriptor);
  expect(page.equals(last)).toBe(true);
}, 120_000);
