/** Timelines as plain data: what restores what, and what follows from what. */
import { describe, expect, it } from "vitest";
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
import type { TailSegment } from "../../../../src/format/history/manifest.ts";
import type { History } from "../../../../src/format/history/history.ts";
import { poolId } from "../../../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { modelUuid } from "../../../support/model-source.ts";
import { ulids, delta, image, buildManifest } from "../../../support/timeline-parts.ts";

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
