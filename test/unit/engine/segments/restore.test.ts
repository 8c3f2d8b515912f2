/**
 * Restores of branches with made-up pages: every state through random histories, and objects that are missing, cut or
 * rotten.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { isRestorable, findRestorePlan, type Plan } from "../../../../src/engine/history/timelines.ts";
import { uploadImages } from "../../../../src/engine/compaction/compaction.ts";
import type { PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { isPatching, materialise, readStatePoint, rollForward } from "../../../../src/engine/segments/restore.ts";
import { segmentKey } from "../../../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../../../src/format/history/pages.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { BranchModel, withStore } from "../../../support/branch-model.ts";
import { seeded } from "../../../support/random.ts";
import { soundDisk } from "../../../support/sound-disk.ts";

/** The window in which states stay restorable; a commit takes a second. */
const windowMs = 20_000;

/** Images that a step has made and a later one will use. */
interface MadeImages {
  refs?: readonly SegmentRef[] | undefined;
}

/** One random step of a branch's life; gives the branches there are now. */
async function step(branch: BranchModel, images: MadeImages): Promise<BranchModel | undefined> {
  const restorable = [...branch.states.keys()].filter((txid) => findRestorePlan(branch.manifest, branch.history, txid));
  const chosen = restorable[branch.below(restorable.length)];
  switch (branch.below(16)) {
    case 0:
      if (branch.manifest.txid > 0 && chosen !== undefined) await branch.rewind(chosen);
      return undefined;
    case 1:
      return chosen === undefined || branch.random() < 0.5 ? undefined : branch.fork(chosen);
    case 2:
    case 3:
      // Images take their time: what they are made of is decided now, and they arrive some steps later.
      if (images.refs) branch.rebase(images.refs);
      images.refs = branch.baseTxid === undefined ? undefined : await branch.images(branch.baseTxid);
      return undefined;
    case 4:
    case 5: {
      const { refs } = branch.manifest;
      let from = refs.length;
      while (from > 0 && refs[from - 1]!.kind === "delta" && !refs[from - 1]!.cut && refs.length - from < 6) from--;
      if (refs.length - from >= 2) await branch.pack({ from, to: refs.length - branch.below(2) });
      return undefined;
    }
    case 6:
      if (branch.random() < 0.4) branch.trim(branch.nowMs - windowMs);
      return undefined;
    case 7:
      if (chosen !== undefined && branch.history.checkpoints.length < 3) branch.checkpoint(`c${branch.nowMs}`, chosen);
      return undefined;
    case 8:
      if (branch.manifest.txid > 0 && branch.random() < 0.3) await branch.failOver();
      return undefined;
    case 9:
    case 10:
    case 11:
      await branch.ship(branch.random() < 0.5);
      return undefined;
    default:
      for (let count = 1 + branch.below(3); count > 0; count--) branch.commit();
      return undefined;
  }
}

/** Every state that has a plan is what it was, and every state that must have one has it. */
async function verify(branch: BranchModel): Promise<number> {
  const cutoffMs = branch.nowMs - windowMs;
  let restored = 0;
  for (let txid = 0; txid <= branch.manifest.txid + 2; txid++) {
    const plan = findRestorePlan(branch.manifest, branch.history, txid);
    const known = branch.states.has(txid) && txid <= branch.manifest.txid;
    if (plan) {
      expect(known, `transaction id ${txid} was never given`).toBe(true);
      const { expected, found } = branch.compare(txid, await branch.restored(txid));
      expect(found, `transaction id ${txid}`).toBe(expected);
      restored++;
    }
    const named = branch.history.checkpoints.some((checkpoint) => checkpoint.txid === txid);
    if (known && (named || branch.currency.get(txid)!.untilMs >= cutoffMs)) {
      expect(
        isRestorable(branch.manifest, branch.history, txid, cutoffMs),
        `transaction id ${txid} must be restorable`,
      ).toBe(true);
    }
  }
  return restored;
}

describe("random histories", () => {
  it.each(Array.from({ length: 12 }, (_, at) => at + 1))(
    "F14 F78: every state stays what it was through forks, rewinds, rebases and packs (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      const branches = [new BranchModel(random)];
      const images = new Map<BranchModel, MadeImages>();
      for (let count = 0; count < 160; count++) {
        const branch = branches[Math.floor(random() * branches.length)]!;
        if (!images.has(branch)) images.set(branch, {});
        const child = await step(branch, images.get(branch)!);
        if (child && branches.length < 3) branches.push(child);
      }
      let restored = 0;
      for (const branch of branches) {
        await branch.ship(random() < 0.5);
        if (branch.manifest.txid > 0) restored += await verify(branch);
      }
      expect(restored).toBeGreaterThan(20);
    },
  );

  it.each([true, false])(
    "a fork in the middle of what the manifest holds goes on from there, its groups in the manifest: %s",
    async (inline) => {
      const branch = await sampleBranch();
      for (let count = 0; count < 4; count++) branch.commit();
      await branch.ship(true);
      for (const txid of [11, 13, 14, 15, 16]) {
        const child = await branch.fork(txid);
        expect(child.manifest.tail.at(-1)?.lastTxid).toBe(txid);
        expect(child.manifest.tail.reduce((sum, { rawBytes }) => sum + rawBytes, 0)).toBeLessThanOrEqual(
          branch.manifest.tail.reduce((sum, { rawBytes }) => sum + rawBytes, 0),
        );
        for (let count = 0; count < 2; count++) child.commit();
        await child.ship(inline);
        expect(await verify(child)).toBe(3);
      }
    },
  );

  it.each([1, 2, 3, 4, 5, 6])(
    "F14: a file rolled forward along its timeline is the same as one restored (seed %i)",
    async (seed) => {
      const branch = new BranchModel(seeded(seed * 31));
      const images = {};
      let rolled = 0;
      for (let count = 0; count < 200; count++) {
        await step(branch, images);
        if (branch.below(3) > 0) continue;
        const states = [...branch.states.keys()]
          .filter((txid) => txid >= branch.manifest.fromTxid && findRestorePlan(branch.manifest, undefined, txid))
          .sort((a, b) => a - b);
        if (states.length < 2) continue;
        const from = branch.below(states.length);
        const to = from + branch.below(states.length - from);
        const path = await branch.restored(states[from]!);
        await rollForward(branch.source, branch.findRestorePlan(states[to]!), states[from]!, path);
        const { expected, found } = branch.compare(states[to]!, path);
        expect(found, `${states[from]} to ${states[to]}`).toBe(expected);
        if (to > from) rolled++;
      }
      expect(rolled).toBeGreaterThan(0);
    },
  );
});

/**
 * A branch with images at 1 and at 3, an object of 2 and 3, one of 4 to 7, one of 8 to 10, and 11 and 12 in the
 * manifest.
 */
async function sampleBranch(): Promise<BranchModel> {
  const branch = new BranchModel(seeded(5));
  for (const [count, inline] of [
    [3, false],
    [4, false],
    [3, false],
    [1, true],
    [1, true],
  ] as const) {
    for (let made = 0; made < count; made++) branch.commit();
    await branch.ship(inline);
    if (branch.manifest.txid === 3) branch.rebase(await branch.images(3));
  }
  return branch;
}

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

async function catchFailure(act: Promise<unknown>): Promise<StoreError> {
  const error = await act.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreError);
  return error as StoreError;
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
