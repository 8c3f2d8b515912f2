/** Restores of branches with made-up pages from objects that are missing, cut or rotten, and files rolled forward. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { findRestorePlan, type Plan } from "../../../../src/engine/history/timelines.ts";
import { uploadImages } from "../../../../src/engine/compaction/compaction.ts";
import type { PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { isPatching, materialise, readStatePoint, rollForward } from "../../../../src/engine/segments/restore.ts";
import { segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../../../src/format/history/pages.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { withStore } from "../../../support/model-source.ts";
import { catchFailure } from "../../../support/refused.ts";
import { seeded } from "../../../support/random.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { sampleBranch } from "../../../support/restored-branch.ts";

/** The source with some of the store's answers changed. */
function tampered(
  source: PageSource,
  change: (key: string, bytes: Uint8Array, asked: number) => Uint8Array | undefined,
): PageSource {
  const asked = new Map<string, number>();
  return withStore(source, {
    async get(key) {
      asked.set(key, (asked.get(key) ?? 0) + 1);
      const found = await source.store.get(key);
      const bytes = found && change(key, found.bytes, asked.get(key)!);
      return found && bytes && { ...found, bytes };
    },
  });
}

const flip = (bytes: Uint8Array, at: number): Uint8Array => {
  const changed = new Uint8Array(bytes);
  changed[at]! ^= 1;
  return changed;
};

describe("materialise", () => {
  const oldest = (plan: Plan): SegmentRef => plan.deltas[0]!;
  const damages: readonly (readonly [string, string, (bytes: Uint8Array) => Uint8Array | undefined])[] = [
    ["F35", "truncated", (bytes) => bytes.subarray(0, bytes.length - 7)],
    ["F36", "rotten", (bytes) => flip(bytes, bytes.length >> 1)],
    ["F37", "missing", () => undefined],
  ];

  it.each(damages)(
    "%s: an object that is %s for good is an error that names it and its transaction ids, and no file",
    async (_, __, damage) => {
      const branch = await sampleBranch();
      const plan = branch.findRestorePlan(12);
      for (const ref of [...plan.deltas, ...plan.images]) {
        const source = tampered(branch.source, (key, bytes) =>
          key === segmentKey(source.uuid, ref.id) ? damage(bytes) : bytes,
        );
        const error = await catchFailure(materialise(source, plan, branch.path()));
        expect(error.kind).toBe("corrupt");
        expect(error.message).toContain(ref.id);
        expect(error.message).toContain(`transaction ids ${ref.firstTxid} to ${ref.lastTxid}`);
        expect(readdirSync(branch.directory)).toEqual([]);
      }
    },
  );

  it("F35: a body that was cut once on its way is fetched again", async () => {
    const branch = await sampleBranch();
    const source = tampered(branch.source, (_, bytes, asked) => (asked === 1 ? bytes.subarray(0, 100) : bytes));
    const path = branch.path();
    await materialise(source, branch.findRestorePlan(12), path);
    const { expected, found } = branch.compare(12, path);
    expect(found).toBe(expected);
  });

  it("F36: no flipped bit of any object gives another file", async () => {
    const branch = await sampleBranch();
    const plan = branch.findRestorePlan(10);
    const length = oldest(plan).bytes;
    for (let at = 0; at < length; at += 13) {
      const source = tampered(branch.source, (key, bytes) =>
        key === segmentKey(source.uuid, oldest(plan).id) ? flip(bytes, at) : bytes,
      );
      expect((await catchFailure(materialise(source, plan, branch.path()))).kind).toBe("corrupt");
    }
  });

  it("a store that does not answer is told apart from rot", async () => {
    const branch = await sampleBranch();
    const source = tampered(branch.source, () => {
      throw new StoreError("unavailable", "no answer");
    });
    expect((await catchFailure(materialise(source, branch.findRestorePlan(12), branch.path()))).kind).toBe(
      "unavailable",
    );
    expect(readdirSync(branch.directory)).toEqual([]);
  });

  it("F37: a timeline that lacks an object, or names it twice or out of order, is refused", async () => {
    const branch = await sampleBranch();
    const plan = branch.findRestorePlan(12);
    const [first, second] = [plan.deltas[0]!, plan.deltas[1]!];
    for (const deltas of [
      [second],
      [first],
      [second, first],
      [first, { ...second, firstTxid: 9 }],
      [first, { ...second, lastTxid: 9 }],
    ]) {
      expect((await catchFailure(materialise(branch.source, { ...plan, deltas }, branch.path()))).kind).toBe("corrupt");
    }
    expect(
      (await catchFailure(materialise(branch.source, { ...plan, tail: plan.tail.slice(1) }, branch.path()))).message,
    ).toContain("transaction ids 11 to 11 are missing");
    expect((await catchFailure(materialise(branch.source, { ...plan, tail: [] }, branch.path()))).message).toContain(
      "no object holds transaction id 12",
    );
    expect(
      (
        await catchFailure(
          materialise(branch.source, { ...plan, images: branch.findRestorePlan(2).images, fromTxid: 1 }, branch.path()),
        )
      ).message,
    ).toContain("transaction ids 2 to 3 are missing");
  });

  it("objects of another database are refused", async () => {
    const branch = await sampleBranch();
    const uuid = "0198c0de-0000-7000-8000-00000000000f";
    for (const { id } of branch.manifest.refs) {
      const { bytes } = (await branch.source.store.get(segmentKey(branch.source.uuid, id)))!;
      await branch.source.store.put(segmentKey(uuid, id), bytes, { kind: "absent" });
    }
    expect(
      (await catchFailure(materialise({ ...branch.source, uuid }, branch.findRestorePlan(10), branch.path()))).message,
    ).toContain("is of another database");
  });

  it("an image that lacks one of its objects is refused", async () => {
    const branch = new BranchModel(seeded(1));
    branch.commit({ size: 16_390 });
    await branch.ship(false);
    const images = branch.manifest.refs;
    expect(images.length).toBe(2);
    const plan = branch.findRestorePlan(1);
    const { expected, found } = branch.compare(1, await branch.restored(1));
    expect(found).toBe(expected);
    for (const kept of [images.slice(0, 1), images.slice(1), [...images].reverse()]) {
      expect(
        (await catchFailure(materialise(branch.source, { ...plan, images: kept }, branch.path()))).message,
      ).toMatch(/page \d+ of (an|its) image/);
    }
  });

  it("F14: pages that a smaller database cut off do not come back when it grows again", async () => {
    const branch = new BranchModel(seeded(2));
    branch.commit({ size: 9 });
    branch.commit({ size: 4, pages: [2] });
    branch.commit({ size: 8, pages: [3] });
    await branch.ship(false);
    const bytes = readFileSync(await branch.restored(3));
    expect(bytes.length).toBe(8 * pageBytes);
    expect(bytes.subarray(4 * pageBytes).every((byte) => byte === 0)).toBe(true);
    const path = await branch.restored(1);
    await rollForward(branch.source, branch.findRestorePlan(3), 1, path);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it("F16: a page that no object has is zeroes", async () => {
    const branch = new BranchModel(seeded(3));
    branch.commit({ size: 3 });
    branch.commit({ size: 6, pages: [4] });
    await branch.ship(true);
    const bytes = readFileSync(await branch.restored(2));
    expect(bytes.length).toBe(6 * pageBytes);
    expect(bytes.subarray(4 * pageBytes).every((byte) => byte === 0)).toBe(true);
  });

  it("a state that does not begin like a database is refused", async () => {
    const branch = new BranchModel(seeded(4));
    branch.commit({ size: 3 });
    await branch.ship(false);
    const path = branch.path();
    writeFileSync(path, new Uint8Array(3 * pageBytes));
    const { refs } = await uploadImages(branch.source, path, { txid: 1, committedAtMs: 0 }, "main", () =>
      branch.newId(),
    );
    const error = await catchFailure(
      materialise(branch.source, { ...branch.findRestorePlan(1), images: refs }, branch.path()),
    );
    expect(error.message).toContain("does not begin a database");
  });

  it("says how far it is, and ends when it is told to", async () => {
    const branch = await sampleBranch();
    const told: number[] = [];
    const plan = branch.findRestorePlan(12);
    const bytesTotal = [...plan.images, ...plan.deltas].reduce((sum, { bytes }) => sum + bytes, 0);
    await materialise(branch.source, plan, branch.path(), {
      progress: (done) => told.push(done.bytes / done.bytesTotal),
    });
    expect(told.length).toBe(plan.images.length + plan.deltas.length);
    expect(told.at(-1)).toBe(1);
    expect(bytesTotal).toBeGreaterThan(0);
    const controller = new AbortController();
    const path = branch.path();
    const ended = materialise(branch.source, plan, path, {
      signal: controller.signal,
      progress: () => controller.abort(new Error("enough")),
    });
    await expect(ended).rejects.toThrow("enough");
    expect(existsSync(path)).toBe(false);
    expect(existsSync(`${path}.restoring`)).toBe(false);
  });

  it("fetches at most eight objects at once", async () => {
    const branch = new BranchModel(seeded(6));
    for (let count = 0; count < 30; count++) {
      branch.commit();
      await branch.ship(false);
    }
    let now = 0;
    let most = 0;
    const get: ObjectStore["get"] = async (key) => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setImmediate(resolve));
      now--;
      return branch.source.store.get(key);
    };
    await materialise(withStore(branch.source, { get }), branch.findRestorePlan(30), branch.path());
    expect(most).toBe(8);
  });
});

describe("rollForward", () => {
  it("fetches only what holds newer groups", async () => {
    const branch = await sampleBranch();
    const path = await branch.restored(7);
    const fetched = new Set<string>();
    const source = tampered(branch.source, (key, bytes) => {
      fetched.add(key);
      return bytes;
    });
    await rollForward(source, branch.findRestorePlan(12), 7, path);
    expect([...fetched]).toEqual([segmentKey(source.uuid, branch.findRestorePlan(12).deltas[1]!.id)]);
    const { expected, found } = branch.compare(12, path);
    expect(found).toBe(expected);
    expect(readdirSync(branch.directory).length).toBe(1);
  });

  it("leaves the file as it was when nothing could be fetched", async () => {
    const branch = await sampleBranch();
    const path = await branch.restored(5);
    const before = readFileSync(path);
    const source = tampered(branch.source, () => {
      throw new StoreError("unavailable", "no answer");
    });
    // Without a tail, which would be laid before anything is fetched.
    await catchFailure(rollForward(source, branch.findRestorePlan(10), 5, path));
    expect(isPatching(path)).toBe(false);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("F80: leaves the file as it was when a single object of those that it needs is missing", async () => {
    const branch = await sampleBranch();
    const path = await branch.restored(5);
    const before = readFileSync(path);
    const rotten = branch.findRestorePlan(12).deltas[0]!;
    const source = tampered(branch.source, (key, bytes) =>
      key === segmentKey(source.uuid, rotten.id) ? undefined : bytes,
    );
    expect((await catchFailure(rollForward(source, branch.findRestorePlan(12), 5, path))).message).toContain(
      "is missing",
    );
    expect(isPatching(path)).toBe(false);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it("F79: leaves a marker beside a file that it has begun to change", async () => {
    const branch = await sampleBranch();
    const path = await branch.restored(5);
    const ending = new AbortController();
    await expect(
      rollForward(branch.source, branch.findRestorePlan(12), 5, path, {
        signal: ending.signal,
        progress: () => ending.abort(),
      }),
    ).rejects.toThrow("aborted");
    expect(isPatching(path)).toBe(true);
    await expect(rollForward(branch.source, branch.findRestorePlan(12), 5, path)).rejects.toThrow(
      "a mixture is not rolled forward",
    );
  });

  it("is synced, marker and file, in an order in which a power loss leaves no mixture without its marker", async () => {
    const branch = await sampleBranch();
    const path = await branch.restored(5);
    const seen: string[] = [];
    const before = readFileSync(path);
    const disk = {
      ...soundDisk,
      fdatasync: async () =>
        void seen.push(`file changed: ${!readFileSync(path).equals(before)}, marker: ${isPatching(path)}`),
      syncDirectory: async () =>
        void seen.push(`folder, marker: ${isPatching(path)}, file changed: ${!readFileSync(path).equals(before)}`),
    };
    await rollForward({ ...branch.source, disk }, branch.findRestorePlan(12), 5, path);
    expect(seen).toEqual([
      "folder, marker: true, file changed: false",
      "file changed: true, marker: true",
      "folder, marker: false, file changed: true",
    ]);
  });

  it("does nothing from a state to itself, and refuses what does not lie on the timeline", async () => {
    const branch = await sampleBranch();
    const path = branch.path();
    writeFileSync(path, "untouched");
    await rollForward(branch.source, branch.findRestorePlan(12), 12, path);
    expect(readFileSync(path, "utf8")).toBe("untouched");
    await expect(rollForward(branch.source, branch.findRestorePlan(12), 2, path)).rejects.toThrow(
      "along its own timeline",
    );
    await expect(rollForward(branch.source, branch.findRestorePlan(12), 13, path)).rejects.toThrow(
      "along its own timeline",
    );
  });

  it("F68: after a rewind nothing rolls on from a state that was left behind", async () => {
    const branch = await sampleBranch();
    await branch.rewind(9);
    const path = branch.path();
    writeFileSync(path, "state 12");
    await expect(rollForward(branch.source, branch.findRestorePlan(13), 12, path)).rejects.toThrow(
      "along its own timeline",
    );
  });
});

it("pointOf tells time and size of any state", async () => {
  const branch = await sampleBranch();
  for (const txid of branch.states.keys()) {
    const plan = findRestorePlan(branch.manifest, branch.history, txid);
    if (!plan) continue;
    const point = await readStatePoint(branch.source, branch.manifest, plan);
    expect(point.committedAtMs).toBe(branch.currency.get(txid)!.fromMs);
    expect(point.pages * pageBytes).toBe(readFileSync(await branch.restored(txid)).length);
  }
});
