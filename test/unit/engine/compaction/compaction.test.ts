/** What a pack and a base image hold, what they cost, and that a failure leaves the inputs as they were. */
import {
  appendFileSync,
  closeSync,
  openSync,
  readdirSync,
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
import { findRestorePlan } from "../../../../src/engine/history/timelines.ts";
import {
  imageStep,
  pack,
  uploadImages,
  writeImages,
  imageRefsMax,
  imageObjectPages,
} from "../../../../src/engine/compaction/compaction.ts";
import { fetchObject, type PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { materialise } from "../../../../src/engine/segments/restore.ts";
import { pageBytes } from "../../../../src/format/history/pages.ts";
import { segmentPagesMax } from "../../../../src/format/history/segment.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { withStore } from "../../../support/model-source.ts";
import { catchFailure } from "../../../support/refused.ts";
import { seeded } from "../../../support/random.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { ShippedDatabase } from "../../../support/shipped-database.ts";

/** A branch of four objects over an image. */
async function sampleBranch(): Promise<BranchModel> {
  const branch = new BranchModel(seeded(11));
  for (let count = 0; count < 5; count++) {
    branch.commit();
    await branch.ship(false);
  }
  return branch;
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
