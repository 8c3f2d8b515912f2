/** When a timeline has grown enough for a pack or a new base image. */
import { describe, expect, it } from "vitest";
import { packDue, packed, packRefsMin, rebaseDue } from "../../../../src/engine/compaction/timeline-length.ts";
import { poolId } from "../../../../src/format/keys/object-keys.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { seeded } from "../../../support/random.ts";
import { ulids, delta, image, buildManifest } from "../../../support/timeline-parts.ts";

const KiB = 1024;

describe("packDue", () => {
  const small = (count: number, from = 2, more: Partial<SegmentRef> = {}): SegmentRef[] =>
    Array.from({ length: count }, (_, at) => delta(from + at, from + at, more));
  const due = (refs: readonly SegmentRef[]): readonly [number, number] | undefined => {
    const range = packDue(buildManifest([image(1), ...refs]));
    return range && [range.from, range.to];
  };

  const few = packRefsMin - 1;
  const enough = packRefsMin;

  it("waits for enough of one size at the end", () => {
    expect(due(small(few))).toBeUndefined();
    expect(due(small(enough))).toEqual([1, 1 + enough]);
    const larger = delta(2 + enough, 2 + enough, { bytes: 300 * KiB });
    expect(due([...small(enough), larger])).toBeUndefined();
  });

  it("does not write a large one again for a few small ones", () => {
    const larger = small(few, 2, { bytes: 300 * KiB });
    expect(due([...larger, ...small(few, 2 + few)])).toBeUndefined();
    expect(due([...larger, ...small(enough, 2 + few)])).toEqual([enough, 2 * enough]);
    const beside = small(3, 2 + enough);
    expect(due([...small(enough, 2, { bytes: 300 * KiB }), ...beside])).toEqual([1, enough + 4]);
  });

  it("puts together whatever sizes when they alternate for too long", () => {
    const mixed = Array.from({ length: 140 }, (_, at) =>
      delta(at + 2, at + 2, { bytes: at % 24 === 0 ? 300 * KiB : 1000 }),
    );
    expect(due(mixed)).toEqual([1, 141]);
  });

  it("makes packs of at most 64 MiB, and a full one is left alone", () => {
    const large = small(enough + 4, 2, { bytes: 20 * KiB * KiB });
    expect(due(large)).toEqual([1, 4]);
    expect(due(small(2 * enough, 2, { bytes: 40 * KiB * KiB }))).toBeUndefined();
  });

  it("leaves images, cut references and other branches' objects where they are", () => {
    const cut = delta(9, 9, { cut: true });
    const foreign = delta(9, 9, { id: poolId(ulids.next(), 1, ulids.next()) });
    for (const barrier of [cut, foreign, image(9)]) {
      expect(due([...small(10), barrier, ...small(few, 20)])).toBeUndefined();
      expect(due([...small(10), barrier, ...small(enough, 20)])).toEqual([12, 12 + enough]);
    }
  });

  it("bounds the number of references over a long life of odd sizes", () => {
    const random = seeded(7);
    let refs: SegmentRef[] = [image(1)];
    let most = 0;
    let written = 0;
    let shipped = 0;
    for (let txid = 2; txid < 20_000; txid++) {
      const bytes = Math.ceil(2 ** (8 + random() * 12));
      shipped += bytes;
      refs.push(delta(txid, txid, { bytes }));
      for (let range = packDue(buildManifest(refs)); range; range = packDue(buildManifest(refs))) {
        const inputs = refs.slice(range.from, range.to);
        const size = inputs.reduce((sum, ref) => sum + ref.bytes, 0);
        expect(size).toBeLessThanOrEqual(64 * KiB * KiB);
        expect(inputs.length).toBeGreaterThan(1);
        written += size;
        refs = [...packed(refs, inputs, delta(inputs[0]!.firstTxid, inputs.at(-1)!.lastTxid, { bytes: size }))!];
      }
      most = Math.max(most, refs.length - refs.filter((ref) => ref.bytes >= 32 * KiB * KiB).length);
    }
    expect(most).toBeLessThan(160);
    expect(written / shipped).toBeLessThan(12);
  });
});

describe("rebaseDue", () => {
  it("waits until the deltas hold as much as the database, and 4 MiB", () => {
    const refs = [image(1), delta(2, 9, { rawBytes: 3_000 * KiB }), delta(10, 12, { rawBytes: 2_000 * KiB })];
    expect(rebaseDue(buildManifest(refs, { pages: 10 }))).toBe(12);
    expect(rebaseDue(buildManifest(refs, { pages: 1_250 }))).toBe(12);
    expect(rebaseDue(buildManifest(refs, { pages: 1_251 }))).toBeUndefined();
    expect(rebaseDue(buildManifest(refs.slice(0, 2), { pages: 10 }))).toBeUndefined();
  });

  it("waits until deltas take twice as much room as the images, or hold eight times the database", () => {
    const timeline = (bytes: number, rawBytes: number) => [
      image(1, { bytes: 1_000 * KiB }),
      delta(2, 9, { bytes, rawBytes }),
    ];
    expect(rebaseDue(buildManifest(timeline(1_999 * KiB, 31_000 * KiB), { pages: 1_000 }))).toBeUndefined();
    expect(rebaseDue(buildManifest(timeline(2_000 * KiB, 31_000 * KiB), { pages: 1_000 }))).toBe(9);
    expect(rebaseDue(buildManifest(timeline(1_999 * KiB, 32_000 * KiB), { pages: 1_000 }))).toBe(9);
  });

  it("comes early when there are too many objects", () => {
    const refs = [image(1), ...Array.from({ length: 800 }, (_, at) => delta(at + 2, at + 2))];
    expect(rebaseDue(buildManifest(refs, { pages: 1_000_000 }))).toBe(801);
  });

  it("needs a state of its own timeline that ends an object", () => {
    const refs = [image(1), delta(2, 9, { rawBytes: 8_000 * KiB }), delta(10, 12, { cut: true })];
    expect(rebaseDue(buildManifest(refs, { fromTxid: 12 }))).toBeUndefined();
    expect(rebaseDue(buildManifest([...refs, delta(13, 13)], { fromTxid: 12 }))).toBe(13);
  });
});
