/** Histories at their bounds: what gives way, what stays, who is refused. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { refuseCheckpoint, withTimeline, historyRefsMax } from "../../../../src/engine/history/branch-history.ts";
import { findRestorePlan, withLost } from "../../../../src/engine/history/timelines.ts";
import type { TxidRange } from "../../../../src/format/history/manifest.ts";
import { encodeHistory, type History, historyBytesMax } from "../../../../src/format/history/history.ts";
import { poolId } from "../../../../src/format/keys/object-keys.ts";
import type { Timeline, NamedCheckpoint, SegmentRef } from "../../../../src/format/history/refs.ts";
import { emptyManifest, modelUuid, Ulids } from "../../../support/model-source.ts";
import { seeded } from "../../../support/random.ts";

const ulids = new Ulids();

function buildRef(kind: SegmentRef["kind"], firstTxid: number, lastTxid: number): SegmentRef {
  return {
    kind,
    id: poolId("main", 1, ulids.next()),
    firstTxid,
    lastTxid,
    cut: false,
    lastAtMs: lastTxid,
    bytes: 1_000,
    rawBytes: 4_096,
    sha256: new Uint8Array(32),
  };
}

/** A timeline of so many references, each of ten states, that begins with the image of `fromTxid`. */
function buildTimeline(fromTxid: number, refs: number): Timeline {
  const deltas = Array.from({ length: refs - 1 }, (_, at) =>
    buildRef("delta", fromTxid + at * 10 + 1, fromTxid + at * 10 + 10),
  );
  return {
    fromTxid,
    toTxid: fromTxid + 10 * (refs - 1),
    endedAtMs: fromTxid,
    refs: [buildRef("image", fromTxid, fromTxid), ...deltas],
  };
}

function buildHistory(timelines: readonly Timeline[], checkpoints: readonly NamedCheckpoint[] = []): History {
  return { uuid: modelUuid, branchId: "main", timelines, checkpoints };
}

const named = (txid: number): NamedCheckpoint => ({ name: `at ${txid}`, txid, createdAtMs: 0 });

describe("a history at its bound", () => {
  test("F74: lets go of the oldest timelines that no checkpoint needs, and keeps every named state", () => {
    const random = seeded(5);
    let history = buildHistory([]);
    let oldestKept = 0;
    for (let n = 0, fromTxid = 1; n < 400; n++) {
      const timeline = buildTimeline(fromTxid, limits.timelineRefsMax);
      // One in forty timelines has a name, somewhere within.
      if (n % 40 === 7)
        history = {
          ...history,
          checkpoints: [...history.checkpoints, named(fromTxid + Math.floor(random() * 10_000))],
        };
      history = withTimeline(history, timeline);
      expect(history.timelines.at(-1)).toBe(timeline);
      fromTxid = timeline.toTxid + 1;
      oldestKept = history.timelines.find(
        ({ fromTxid: from, toTxid }) => !history.checkpoints.some(({ txid }) => txid >= from && txid <= toTxid),
      )!.fromTxid;
    }
    expect(oldestKept).toBeGreaterThan(1);
    expect(history.timelines.reduce((sum, { refs }) => sum + refs.length, 0)).toBeLessThanOrEqual(historyRefsMax);
    expect(encodeHistory(history).length).toBeLessThanOrEqual(historyBytesMax);
    const manifest = { ...emptyManifest("main"), writerEpochs: [], txid: 10_000_000, fromTxid: 10_000_000 };
    for (const { txid } of history.checkpoints) expect(findRestorePlan(manifest, history, txid)).toBeDefined();
  });

  test("filled by an older build's checkpoints is cut to what they need; else they must be deleted", () => {
    // Every timeline holds the same named state, as after rewinds: the newest one is enough for it.
    const again = Array.from({ length: 120 }, () => buildTimeline(1, limits.timelineRefsMax));
    const full = withTimeline(buildHistory(again, [named(500)]), buildTimeline(1, limits.timelineRefsMax));
    expect(full.timelines).toHaveLength(1);
    expect(full.timelines[0]).toMatchObject({ fromTxid: 1, toTxid: 500 });
    expect(full.timelines[0]!.refs).toHaveLength(51);
    const apart = Array.from({ length: 120 }, (_, n) => buildTimeline(1 + 20_000 * n, limits.timelineRefsMax));
    const checkpoints = apart.map(({ toTxid }) => named(toTxid));
    expect(() => withTimeline(buildHistory(apart, checkpoints), buildTimeline(10_000_000, 3))).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        message: expect.stringContaining("delete some first") as string,
      }),
    );
    expect(
      withTimeline(buildHistory(apart, checkpoints.slice(40)), buildTimeline(10_000_000, 3)).timelines.length,
    ).toBeGreaterThan(80);
  });

  test("is bound in its number of timelines too", () => {
    let history = buildHistory(
      Array.from({ length: limits.historyTimelinesMax }, (_, n) => buildTimeline(1 + 20 * n, 1)),
    );
    history = withTimeline(history, buildTimeline(1_000_000, 1));
    expect(history.timelines).toHaveLength(limits.historyTimelinesMax);
    expect(history.timelines[0]!.fromTxid).toBe(21);
  });

  test("refuses a checkpoint that it might have no room for, before anything is stuck; one less makes room", () => {
    const most = historyRefsMax / limits.timelineRefsMax;
    const timelines = Array.from({ length: most }, (_, n) => buildTimeline(1 + 20_000 * n, limits.timelineRefsMax));
    const checkpoints = timelines.map(({ toTxid }) => named(toTxid));
    const refusal = expect.objectContaining({
      code: "invalid_request",
      message: expect.stringContaining("delete some first") as string,
    });
    expect(() => refuseCheckpoint(buildHistory(timelines, checkpoints), limits.timelineRefsMax)).toThrow(refusal);
    expect(() => refuseCheckpoint(buildHistory(timelines, checkpoints.slice(1)), limits.timelineRefsMax)).not.toThrow();
    // Timelines that only the window needs give way.
    expect(() => refuseCheckpoint(buildHistory(timelines, []), limits.timelineRefsMax)).not.toThrow();
    expect(() => refuseCheckpoint(buildHistory([], Array(limits.checkpointsMax).fill(named(1))), 1)).toThrow(refusal);
  });
});

describe("lost ranges", () => {
  const listIds = (ranges: readonly TxidRange[]): number[] =>
    [
      ...new Set(
        ranges.flatMap(({ firstTxid, lastTxid }) =>
          Array.from({ length: lastTxid - firstTxid + 1 }, (_, at) => firstTxid + at),
        ),
      ),
    ].sort((a, b) => a - b);

  test("that touch or overlap become one, and name the same ids", () => {
    const random = seeded(3);
    for (let round = 0; round < 50; round++) {
      let lost: readonly TxidRange[] = [];
      const all: TxidRange[] = [];
      for (let count = 0; count < 60; count++) {
        const firstTxid = Math.floor(random() * 400);
        const range = { firstTxid, lastTxid: firstTxid + Math.floor(random() * 8) };
        all.push(range);
        lost = withLost(lost, [range]);
      }
      expect(listIds(lost)).toEqual(listIds(all));
      for (const [at, range] of lost.entries())
        if (at > 0) expect(range.firstTxid).toBeGreaterThan(lost[at - 1]!.lastTxid + 1);
    }
    // A node that claims again and again without a commit.
    expect(
      withLost(withLost([{ firstTxid: 9, lastTxid: 100 }], [{ firstTxid: 9, lastTxid: 200 }]), [
        { firstTxid: 201, lastTxid: 300 },
      ]),
    ).toEqual([{ firstTxid: 9, lastTxid: 300 }]);
  });

  test("beyond their bound forget none: the oldest two become one that covers both", () => {
    let lost: readonly TxidRange[] = [];
    for (let n = 1; n <= limits.manifestLostMax + 10; n++)
      lost = withLost(lost, [{ firstTxid: 10 * n, lastTxid: 10 * n + 1 }]);
    expect(lost).toHaveLength(limits.manifestLostMax);
    expect(lost[0]).toEqual({ firstTxid: 10, lastTxid: 111 });
    expect(lost.at(-1)).toEqual({ firstTxid: 2_660, lastTxid: 2_661 });
  });
});
