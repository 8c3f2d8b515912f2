/** Timelines as plain data: what restores what, and what follows from what. */
import { describe, expect, it } from "vitest";
import { packDue, packed, rebaseDue } from "../../../../src/engine/compaction/timeline-length.ts";
import {
  closedTimeline,
  forkedManifest,
  isRestorable,
  findRestorePlan,
  rebased,
  referenced,
  rewound,
  trimmed,
} from "../../../../src/engine/history/timelines.ts";
import type { Manifest, TailSegment } from "../../../../src/format/history/manifest.ts";
import type { History } from "../../../../src/format/history/history.ts";
import { poolId } from "../../../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { emptyManifest, modelUuid, Ulids } from "../../../support/branch-model.ts";
import { seeded } from "../../../support/random.ts";

const ulids = new Ulids();
const KiB = 1024;

function delta(firstTxid: number, lastTxid: number, more: Partial<SegmentRef> = {}): SegmentRef {
  return {
    kind: "delta",
    id: poolId("main", 1, ulids.next()),
    firstTxid,
    lastTxid,
    cut: false,
    lastAtMs: lastTxid * 10,
    bytes: 1000,
    rawBytes: 4096,
    sha256: new Uint8Array(32),
    ...more,
  };
}

function image(txid: number, more: Partial<SegmentRef> = {}): SegmentRef {
  return delta(txid, txid, { kind: "image", ...more });
}

function buildManifest(refs: readonly SegmentRef[], more: Partial<Manifest> = {}): Manifest {
  const txid = more.txid ?? refs.at(-1)!.lastTxid;
  return {
    ...emptyManifest("main"),
    txid,
    reservedTo: txid + 100,
    pages: 10,
    fromTxid: refs[0]!.firstTxid,
    refs,
    writerEpochs: [{ epoch: 1, id: new Uint8Array(16), firstTxid: 1, lastTxid: txid }],
    ...more,
  };
}

function buildHistory(timelines: History["timelines"], checkpoints: History["checkpoints"] = []): History {
  return { uuid: modelUuid, branchId: "main", timelines, checkpoints };
}

function spans(refs: readonly SegmentRef[] | undefined): string[] | undefined {
  return refs?.map(({ kind, firstTxid, lastTxid, cut }) => `${kind} ${firstTxid}-${lastTxid}${cut ? " cut" : ""}`);
}

describe("planOf", () => {
  const manifest = buildManifest([image(5), image(5), delta(6, 9), delta(10, 20)]);

  it("takes the image and only the deltas that reach up to the transaction id", () => {
    expect(spans(findRestorePlan(manifest, undefined, 5)?.images)).toEqual(["image 5-5", "image 5-5"]);
    expect(findRestorePlan(manifest, undefined, 5)?.deltas).toEqual([]);
    expect(spans(findRestorePlan(manifest, undefined, 9)?.deltas)).toEqual(["delta 6-9"]);
    expect(spans(findRestorePlan(manifest, undefined, 10)?.deltas)).toEqual(["delta 6-9", "delta 10-20"]);
  });

  it("takes the newest image not above the transaction id, and packs that begin below it", () => {
    const twice = buildManifest([image(1), image(8), delta(2, 9), delta(10, 12)], { fromTxid: 1 });
    expect(spans(findRestorePlan(twice, undefined, 7)?.images)).toEqual(["image 1-1"]);
    expect(spans(findRestorePlan(twice, undefined, 9)?.images)).toEqual(["image 8-8"]);
    expect(spans(findRestorePlan(twice, undefined, 9)?.deltas)).toEqual(["delta 2-9"]);
  });

  it("takes the tail as far as it is needed", () => {
    const tail: TailSegment[] = [
      [21, 22],
      [23, 25],
    ].map(([firstTxid, lastTxid]) => ({
      firstTxid: firstTxid!,
      lastTxid: lastTxid!,
      lastAtMs: 1,
      rawBytes: 1,
      bytes: new Uint8Array(1),
    }));
    const withTail = buildManifest(manifest.refs, { tail, txid: 25 });
    expect(findRestorePlan(withTail, undefined, 20)?.tail).toEqual([]);
    expect(findRestorePlan(withTail, undefined, 22)?.tail).toEqual([tail[0]]);
    expect(findRestorePlan(withTail, undefined, 24)?.tail).toEqual(tail);
  });

  it("F70: has none below the timeline, above the manifest, below the floor", () => {
    expect(findRestorePlan(manifest, undefined, 4)).toBeUndefined();
    expect(findRestorePlan(manifest, undefined, 21)).toBeUndefined();
    expect(findRestorePlan({ ...manifest, floorTxid: 7 }, undefined, 6)).toBeUndefined();
    expect(findRestorePlan({ ...manifest, floorTxid: 7 }, undefined, 7)).toBeDefined();
  });

  it("F70: has none for an id that was lost, lies between two claims, or in no object", () => {
    const gap = buildManifest([image(1), delta(2, 5), delta(30, 40)], {
      writerEpochs: [
        { epoch: 1, id: new Uint8Array(16), firstTxid: 1, lastTxid: 5 },
        { epoch: 2, id: new Uint8Array(16), firstTxid: 20, lastTxid: 40 },
      ],
      lost: [{ firstTxid: 33, lastTxid: 33 }],
    });
    for (const txid of [5, 30, 32, 34, 40]) expect(findRestorePlan(gap, undefined, txid), String(txid)).toBeDefined();
    for (const txid of [6, 19, 20, 29, 33]) expect(findRestorePlan(gap, undefined, txid), String(txid)).toBeUndefined();
  });

  it("judges claims that the manifest no longer remembers by the timelines alone", () => {
    const old = buildManifest([image(1), delta(2, 5), delta(6, 9)], {
      writerEpochs: [{ epoch: 9, id: new Uint8Array(16), firstTxid: 8, lastTxid: 9 }],
    });
    expect(findRestorePlan(old, undefined, 4)).toBeDefined();
  });

  it("has none for a timeline without an image", () => {
    expect(findRestorePlan(buildManifest([delta(1, 5)]), undefined, 3)).toBeUndefined();
  });

  it("looks at the past when the manifest's timeline does not hold it, and only then", () => {
    const past = buildHistory([
      { fromTxid: 1, toTxid: 3, endedAtMs: 1, refs: [image(1), delta(2, 3)] },
      { fromTxid: 3, toTxid: 5, endedAtMs: 1, refs: [image(3), delta(4, 5)] },
    ]);
    expect(findRestorePlan(manifest, undefined, 4)).toBeUndefined();
    expect(spans(findRestorePlan(manifest, past, 4)?.images)).toEqual(["image 3-3"]);
    expect(spans(findRestorePlan(manifest, past, 3)?.images)).toEqual(["image 3-3"]);
    expect(spans(findRestorePlan(manifest, past, 5)?.images)).toEqual(["image 5-5", "image 5-5"]);
  });
});

describe("isRestorable", () => {
  const manifest = buildManifest([image(1), delta(2, 5), delta(6, 9)], { fromTxid: 1 });
  const past = buildHistory([{ fromTxid: 1, toTxid: 1, endedAtMs: 40, refs: [image(1)] }]);

  it("allows what may have been current at the cutoff, by the times of whole objects", () => {
    // State 5 ended with 6, which was committed by 90 at the latest.
    expect(isRestorable(manifest, undefined, 5, 90)).toBe(true);
    expect(isRestorable(manifest, undefined, 5, 91)).toBe(false);
    expect(isRestorable(manifest, undefined, 4, 50)).toBe(true);
    expect(isRestorable(manifest, undefined, 4, 51)).toBe(false);
  });

  it("always allows the manifest's own state", () => {
    expect(isRestorable(manifest, undefined, 9, Number.MAX_SAFE_INTEGER)).toBe(true);
  });

  it("allows the last state of a timeline of the past until the timeline was closed", () => {
    const later = buildManifest([image(5), delta(6, 9)]);
    expect(isRestorable(later, past, 1, 40)).toBe(true);
    expect(isRestorable(later, past, 1, 41)).toBe(false);
  });

  it("allows what has a name, if it is still held", () => {
    const named = buildHistory(
      [],
      [
        { name: "a", txid: 3, createdAtMs: 0 },
        { name: "b", txid: 99, createdAtMs: 0 },
      ],
    );
    expect(isRestorable(manifest, named, 3, 1_000)).toBe(true);
    expect(isRestorable(manifest, named, 99, 0)).toBe(false);
    expect(isRestorable({ ...manifest, floorTxid: 4 }, named, 3, 0)).toBe(false);
  });
});

describe("succession", () => {
  it("a fork takes the timeline cut at its point, and no past", async () => {
    const lost = [
      { firstTxid: 4, lastTxid: 4 },
      { firstTxid: 50, lastTxid: 60 },
    ];
    const writerEpochs = [
      { epoch: 1, id: new Uint8Array(16), firstTxid: 1, lastTxid: 3 },
      { epoch: 2, id: new Uint8Array(16), firstTxid: 5, lastTxid: 20 },
      { epoch: 3, id: new Uint8Array(16), firstTxid: 21, lastTxid: 25 },
    ];
    const parent = buildManifest([image(1), delta(2, 9), delta(10, 20), delta(21, 25)], { lost, writerEpochs });
    const child = await forkedManifest(
      parent,
      undefined,
      15,
      { branchId: ulids.next(), nonce: new Uint8Array(16), node: "n", committedAtMs: 150, pages: 7 },
      inlinePress,
    );
    expect(spans(child?.refs)).toEqual(["image 1-1", "delta 2-9", "delta 10-15 cut"]);
    expect(child).toMatchObject({
      epoch: 0,
      seq: 1,
      txid: 15,
      fromTxid: 15,
      floorTxid: 15,
      reservedTo: 15,
      committedAtMs: 150,
      pages: 7,
      history: undefined,
      lost: [lost[0]],
    });
    expect(child?.writerEpochs.map(({ lastTxid }) => lastTxid)).toEqual([3, 15]);
    expect(findRestorePlan(child!, undefined, 14)).toBeUndefined();
  });

  it("a rewind keeps what lies below its target, cut, and closes the rest", () => {
    const manifest = buildManifest([image(1), delta(2, 9), delta(10, 20), delta(21, 25)]);
    const next = rewound(manifest, findRestorePlan(manifest, undefined, 15)!, delta(26, 26), 500);
    expect(spans(next.refs)).toEqual(["image 1-1", "delta 2-9", "delta 10-15 cut", "delta 26-26"]);
    expect(next.fromTxid).toBe(26);
    expect(next.closed).toMatchObject({ fromTxid: 1, toTxid: 25, endedAtMs: 500, refs: manifest.refs });
  });

  it("a rewind to the end of an object cuts nothing", () => {
    const manifest = buildManifest([image(1), delta(2, 9), delta(10, 20)]);
    expect(spans(rewound(manifest, findRestorePlan(manifest, undefined, 9)!, delta(21, 21), 0).refs)).toEqual([
      "image 1-1",
      "delta 2-9",
      "delta 21-21",
    ]);
  });

  it("a new base closes the timeline at its own state and keeps what lies above", () => {
    const manifest = buildManifest([image(1), delta(2, 9), delta(10, 20)]);
    const next = rebased(manifest, [image(9)], 500)!;
    expect(spans(next.refs)).toEqual(["image 9-9", "delta 10-20"]);
    expect(next.fromTxid).toBe(9);
    expect(spans(next.closed.refs)).toEqual(["image 1-1", "delta 2-9"]);
    expect(next.closed).toMatchObject({ fromTxid: 1, toTxid: 9 });
  });

  it("F73: a new base fits after its last delta was packed, not after a rewind below it", () => {
    const repacked = buildManifest([image(1), delta(2, 20)]);
    const next = rebased(repacked, [image(9)], 500)!;
    expect(spans(next.refs)).toEqual(["image 9-9", "delta 2-20"]);
    expect(spans(next.closed.refs)).toEqual(["image 1-1", "delta 2-9 cut"]);
    const before = buildManifest([image(1), delta(2, 9), delta(10, 20)]);
    const { refs, fromTxid } = rewound(before, findRestorePlan(before, undefined, 5)!, delta(21, 21), 0);
    expect(
      rebased(
        { ...before, refs, fromTxid, txid: 21, writerEpochs: [{ ...before.writerEpochs[0]!, lastTxid: 21 }] },
        [image(9)],
        500,
      ),
    ).toBeUndefined();
  });

  it("a timeline with a tail is not closed", () => {
    const manifest = buildManifest([image(1), delta(2, 2)], {
      txid: 3,
      tail: [{ firstTxid: 3, lastTxid: 3, lastAtMs: 0, rawBytes: 0, bytes: new Uint8Array(0) }],
    });
    expect(() => closedTimeline(manifest, 3, 0)).toThrow("has no tail");
    expect(closedTimeline(manifest, 2, 0).toTxid).toBe(2);
  });
});

describe("trimmed", () => {
  const timeline = {
    fromTxid: 1,
    toTxid: 30,
    endedAtMs: 100,
    refs: [image(1), delta(2, 10), delta(11, 20), delta(21, 30)],
  };

  it("F77: keeps timelines that ended inside the window, drops the others", () => {
    expect(trimmed(buildHistory([timeline]), 100).timelines).toEqual([timeline]);
    expect(trimmed(buildHistory([timeline]), 101).timelines).toEqual([]);
  });

  it("F77: keeps what a checkpoint needs and nothing above it", () => {
    const checkpoints = [
      { name: "a", txid: 4, createdAtMs: 0 },
      { name: "b", txid: 15, createdAtMs: 0 },
      { name: "c", txid: 40, createdAtMs: 0 },
    ];
    const [kept] = trimmed(buildHistory([timeline], checkpoints), 101).timelines;
    expect(kept).toMatchObject({ fromTxid: 1, toTxid: 15 });
    expect(spans(kept?.refs)).toEqual(["image 1-1", "delta 2-10", "delta 11-15 cut"]);
    expect(trimmed(buildHistory([timeline], [checkpoints[2]!]), 101).timelines).toEqual([]);
  });
});

describe("packDue", () => {
  const small = (count: number, from = 2, more: Partial<SegmentRef> = {}): SegmentRef[] =>
    Array.from({ length: count }, (_, at) => delta(from + at, from + at, more));
  const due = (refs: readonly SegmentRef[]): readonly [number, number] | undefined => {
    const range = packDue(buildManifest([image(1), ...refs]));
    return range && [range.from, range.to];
  };

  it("waits for sixteen of one size at the end", () => {
    expect(due(small(15))).toBeUndefined();
    expect(due(small(16))).toEqual([1, 17]);
    expect(due([...small(16), delta(18, 18, { bytes: 300 * KiB })])).toBeUndefined();
  });

  it("does not write a large one again for a few small ones", () => {
    const larger = small(15, 2, { bytes: 300 * KiB });
    expect(due([...larger, ...small(15, 17)])).toBeUndefined();
    expect(due([...larger, ...small(16, 17)])).toEqual([16, 32]);
    expect(due([...small(16, 2, { bytes: 300 * KiB }), ...small(3, 18)])).toEqual([1, 20]);
  });

  it("puts together whatever sizes when they alternate for too long", () => {
    const mixed = Array.from({ length: 70 }, (_, at) =>
      delta(at + 2, at + 2, { bytes: at % 12 === 0 ? 300 * KiB : 1000 }),
    );
    expect(due(mixed)).toEqual([1, 71]);
  });

  it("makes packs of at most 64 MiB, and a full one is left alone", () => {
    const large = small(20, 2, { bytes: 20 * KiB * KiB });
    expect(due(large)).toEqual([1, 4]);
    expect(due(small(40, 2, { bytes: 40 * KiB * KiB }))).toBeUndefined();
  });

  it("leaves images, cut references and other branches' objects where they are", () => {
    const cut = delta(9, 9, { cut: true });
    const foreign = delta(9, 9, { id: poolId(ulids.next(), 1, ulids.next()) });
    for (const barrier of [cut, foreign, image(9)]) {
      expect(due([...small(10), barrier, ...small(15, 20)])).toBeUndefined();
      expect(due([...small(10), barrier, ...small(16, 20)])).toEqual([12, 28]);
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
    expect(most).toBeLessThan(100);
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

  it("waits until deltas take as much room as the images, or hold four times the database", () => {
    const timeline = (bytes: number, rawBytes: number) => [
      image(1, { bytes: 1_000 * KiB }),
      delta(2, 9, { bytes, rawBytes }),
    ];
    expect(rebaseDue(buildManifest(timeline(999 * KiB, 8_000 * KiB), { pages: 1_000 }))).toBeUndefined();
    expect(rebaseDue(buildManifest(timeline(1_000 * KiB, 8_000 * KiB), { pages: 1_000 }))).toBe(9);
    expect(rebaseDue(buildManifest(timeline(999 * KiB, 16_000 * KiB), { pages: 1_000 }))).toBe(9);
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

it("referenced names every object of the manifest and of its past once", () => {
  const [base, shared, old] = [image(1), delta(2, 9), delta(10, 12)];
  const manifest = buildManifest([base, shared], {
    history: { id: poolId("main", 1, ulids.next()), bytes: 1, sha256: new Uint8Array(32) },
  });
  const past = buildHistory([{ fromTxid: 1, toTxid: 12, endedAtMs: 0, refs: [base, shared, old] }]);
  expect([...referenced(manifest, past)].sort()).toEqual(
    [...[base, shared, old].map(({ id }) => `seg/${id}`), `hist/${manifest.history!.id}`].sort(),
  );
  expect(referenced(buildManifest([base]), undefined).size).toBe(1);
});
