/** Timelines at their bounds: what of a long one is packed, and that nothing of it is lost. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import {
  isFull,
  isLong,
  packDue,
  packed,
  rebaseDue,
  timelineRefsHard,
  packBytesMax,
} from "../../../../src/engine/compaction/timeline-length.ts";
import { findRestorePlan } from "../../../../src/engine/history/timelines.ts";
import type { Manifest } from "../../../../src/format/history/manifest.ts";
import { poolId } from "../../../../src/format/keys/object-keys.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { emptyManifest, Ulids } from "../../../support/model-source.ts";
import { seeded } from "../../../support/random.ts";
import { timelineRefsShipped } from "../../../../src/engine/shipping/shipper.ts";
import { imageRefsMax } from "../../../../src/engine/compaction/compaction.ts";

const MiB = 1024 * 1024;
const ulids = new Ulids();

function buildRef(txid: number, more: Partial<SegmentRef> = {}): SegmentRef {
  return {
    kind: "delta",
    id: poolId("main", 1, ulids.next()),
    firstTxid: txid,
    lastTxid: txid,
    cut: false,
    lastAtMs: txid,
    bytes: 1_000,
    rawBytes: 4096,
    sha256: new Uint8Array(32),
    ...more,
  };
}

function buildManifest(refs: readonly SegmentRef[]): Manifest {
  return {
    ...emptyManifest("main"),
    refs,
    fromTxid: refs[0]!.firstTxid,
    txid: refs.at(-1)!.lastTxid,
    pages: 1_000_000,
  };
}

/** Packs what is due until nothing is, and gives the references that are left. */
function settled(refs: readonly SegmentRef[], options: Parameters<typeof packDue>[1]): readonly SegmentRef[] {
  let left = refs;
  for (let range = packDue(buildManifest(left), options); range; range = packDue(buildManifest(left), options)) {
    const inputs = left.slice(range.from, range.to);
    expect(inputs.length).toBeGreaterThan(1);
    expect(inputs.every(({ kind }) => kind === "delta")).toBe(true);
    const bytes = inputs.reduce((sum, ref) => sum + ref.bytes, 0);
    expect(bytes).toBeLessThanOrEqual(packBytesMax);
    const base = options?.baseTxid ?? -1;
    expect(inputs[0]!.lastTxid > base || inputs.at(-1)!.lastTxid <= base).toBe(true);
    expect(inputs.some(({ id }) => options?.isRotten?.(id))).toBe(false);
    left = packed(
      left,
      inputs,
      buildRef(0, { firstTxid: inputs[0]!.firstTxid, lastTxid: inputs.at(-1)!.lastTxid, bytes }),
    )!;
  }
  return left;
}

describe("a long timeline", () => {
  test("is packed across cut objects, other branches' and any sizes, unless full of rotten or large", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seeded(seed);
      const bounds = { timelineDeltasSoft: 10, timelineRefsPressing: 20 };
      const rotten = new Set<string>();
      let refs: readonly SegmentRef[] = [buildRef(1, { kind: "image" })];
      for (let txid = 2; txid < 400; txid++) {
        const foreign = random() < 0.2 ? { id: poolId(ulids.next(), 1, ulids.next()) } : {};
        const ref = buildRef(txid, { cut: random() < 0.2, bytes: Math.ceil(2 ** (8 + random() * 18)), ...foreign });
        if (random() < 0.02) rotten.add(ref.id);
        const options = {
          bounds,
          isRotten: (id: string) => rotten.has(id),
          ...(random() < 0.3 ? { baseTxid: Math.floor(random() * txid) } : {}),
        };
        refs = settled([...refs, ref], options);
        if (options.baseTxid !== undefined || refs.length < bounds.timelineRefsPressing) continue;
        for (const [at, one] of refs.entries()) {
          const next = refs[at + 1];
          const canPack =
            one.kind === "delta" &&
            next &&
            !rotten.has(one.id) &&
            !rotten.has(next.id) &&
            one.bytes + next.bytes <= packBytesMax;
          expect(canPack ?? false).toBe(false);
        }
      }
      expect(refs.length).toBeLessThan(80);
    }
  });

  test("of small objects comes down to one in one go; a short one is left to its sizes", () => {
    const many = [
      buildRef(1, { kind: "image" }),
      ...Array.from({ length: 500 }, (_, at) => buildRef(at + 2, { cut: at % 3 === 0 })),
    ];
    expect(packDue(buildManifest(many))).toEqual({ from: 1, to: 501 });
    expect(packDue(buildManifest(many.slice(0, limits.timelineDeltasSoft)))).toBeUndefined();
    expect(isLong(buildManifest(many))).toBe(true);
    expect(isLong(buildManifest(many.slice(0, limits.timelineDeltasSoft)))).toBe(false);
  });

  test("has its full packs written again only when it is about to take no more", () => {
    const full = (count: number): SegmentRef[] => [
      buildRef(1, { kind: "image" }),
      ...Array.from({ length: count }, (_, at) => buildRef(at + 2, { bytes: 32 * MiB, rawBytes: 0 })),
    ];
    expect(packDue(buildManifest(full(limits.timelineRefsPressing - 2)))).toBeUndefined();
    expect(rebaseDue(buildManifest(full(limits.timelineRefsPressing - 2)))).toBeUndefined();
    expect(packDue(buildManifest(full(limits.timelineRefsPressing)))).toEqual({ from: 1, to: 3 });
    expect(rebaseDue(buildManifest(full(limits.timelineRefsPressing)))).toBe(limits.timelineRefsPressing + 1);
  });

  test("keeps its images and its deltas apart from each other, however many images there are", () => {
    const images = Array.from({ length: imageRefsMax }, () => buildRef(1, { kind: "image" }));
    expect(
      packDue(buildManifest([...images, ...Array.from({ length: 200 }, (_, at) => buildRef(at + 2, { cut: true }))])),
    ).toBeUndefined();
    expect(
      packDue(buildManifest([...images, ...Array.from({ length: 384 }, (_, at) => buildRef(at + 2, { cut: true }))])),
    ).toEqual({ from: 512, to: 896 });
  });
});

describe("a timeline's room", () => {
  const ofLength = (count: number): Manifest =>
    buildManifest(Array.from({ length: count }, (_, at) => buildRef(at + 1)));

  test("ends for writes while there is room for what was committed, and for what else changes a manifest", () => {
    expect(isFull(ofLength(timelineRefsHard - 1), 0)).toBe(false);
    expect(isFull(ofLength(timelineRefsHard), 0)).toBe(true);
    expect(isFull(ofLength(timelineRefsHard - 10), 9 * limits.segmentLogBytes)).toBe(false);
    expect(isFull(ofLength(timelineRefsHard - 10), 9 * limits.segmentLogBytes + 1)).toBe(true);
    // A log that is long because the store is away is no matter of the timeline.
    expect(isFull(ofLength(100), 100_000 * limits.segmentLogBytes)).toBe(false);
    expect([
      limits.timelineDeltasSoft,
      limits.timelineRefsPressing,
      timelineRefsHard,
      timelineRefsShipped,
      limits.timelineRefsMax,
    ]).toEqual(
      [
        limits.timelineDeltasSoft,
        limits.timelineRefsPressing,
        timelineRefsHard,
        timelineRefsShipped,
        limits.timelineRefsMax,
      ].toSorted((a, b) => a - b),
    );
  });
});

test(
  "F78: every state stays what it was through packs, rewinds, failovers, forks and base images",
  { timeout: 60_000 },
  async () => {
    const bounds = { timelineDeltasSoft: 3, timelineRefsPressing: 6 };
    for (let seed = 1; seed <= 6; seed++) {
      const random = seeded(seed);
      let branch = new BranchModel(random);
      const held = (): number[] =>
        [...branch.states.keys()].filter(
          (txid) => findRestorePlan(branch.manifest, branch.history, txid) !== undefined,
        );
      for (let step = 0; step < 60; step++) {
        const draw = random();
        for (let count = branch.below(3); count >= 0; count--) branch.commit();
        await branch.ship(false);
        const states = held();
        const some = states[branch.below(states.length)]!;
        if (draw < 0.15) await branch.rewind(some);
        else if (draw < 0.2) await branch.failOver();
        else if (draw < 0.25 && branch.states.size > 10) branch = await branch.fork(some);
        else if (draw < 0.35 && branch.baseTxid !== undefined) {
          // Packed while the image was made.
          const baseTxid = branch.baseTxid;
          const images = await branch.images(baseTxid);
          branch.commit();
          await branch.ship(false);
          await branch.pack(packDue(branch.manifest, { bounds, baseTxid }));
          expect(branch.rebase(images)).toBe(true);
        }
        const before = held();
        while (await branch.pack(packDue(branch.manifest, { bounds })));
        expect(branch.manifest.refs.length).toBeLessThanOrEqual(bounds.timelineRefsPressing + 1);
        expect(held()).toEqual(before);
      }
      for (const txid of held()) {
        const { expected, found } = branch.compare(txid, await branch.restored(txid));
        expect(found, `seed ${seed} txid ${txid}`).toBe(expected);
      }
    }
  },
);
