/** Histories at rest: they come back as they were, fit their bound, and are refused when damaged. */
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  decodeHistory,
  encodeHistory,
  type History,
  historyBytesMax,
  checkpointNameBytesMax,
} from "../../../../src/format/history/history.ts";
import { expectDamageRefused, sampleHistory, sampleRefs } from "../../../support/format-samples.ts";
import { historyRefsMax } from "../../../../src/engine/history/branch-history.ts";

const checkpoint = { name: "c".repeat(checkpointNameBytesMax), txid: 2 ** 53 - 1, createdAtMs: 0 };

test("a history comes back as it was", () => {
  for (const history of [sampleHistory, { ...sampleHistory, timelines: [], checkpoints: [] }])
    expect(decodeHistory(encodeHistory(history))).toEqual(history);
});

test("a history of many timelines and checkpoints comes back as it was", () => {
  const timelines = Array.from({ length: limits.historyTimelinesMax }, (_, index) => ({
    fromTxid: index,
    toTxid: 2 * index,
    endedAtMs: index,
    refs: sampleRefs,
  }));
  const history: History = { ...sampleHistory, timelines, checkpoints: Array(limits.checkpointsMax).fill(checkpoint) };
  expect(decodeHistory(encodeHistory(history))).toEqual(history);
});

test("F74: a history with as many of everything as it may have fits its bound", () => {
  const ref = { ...sampleRefs[1]!, firstTxid: 0, lastAtMs: 2 ** 53 - 1, bytes: 2 ** 53 - 1, rawBytes: 2 ** 53 - 1 };
  const timelines = Array.from({ length: limits.historyTimelinesMax }, () => ({
    fromTxid: 0,
    toTxid: 2 ** 53 - 1,
    endedAtMs: 2 ** 53 - 1,
    refs: Array(historyRefsMax / limits.historyTimelinesMax).fill(ref),
  }));
  const history: History = {
    ...sampleHistory,
    timelines,
    checkpoints: Array(limits.checkpointsMax).fill({ ...checkpoint, createdAtMs: 2 ** 53 - 1 }),
  };
  expect(encodeHistory(history).length).toBeLessThanOrEqual(historyBytesMax);
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(encodeHistory(sampleHistory), decodeHistory);
});

test.each<[string, Partial<History>]>([
  ["one timeline too many", { timelines: Array(limits.historyTimelinesMax + 1).fill(sampleHistory.timelines[1]) }],
  ["one checkpoint too many", { checkpoints: Array(limits.checkpointsMax + 1).fill(checkpoint) }],
  [
    "more bytes than its bound",
    {
      timelines: Array(160).fill({
        ...sampleHistory.timelines[0],
        refs: Array(limits.timelineRefsMax).fill(sampleRefs[1]),
      }),
    },
  ],
  ["a checkpoint of too long a name", { checkpoints: [{ ...checkpoint, name: `${checkpoint.name}c` }] }],
  ["a timeline that ends before it begins", { timelines: [{ ...sampleHistory.timelines[0]!, toTxid: 1 }] }],
  ["a foreign branch id", { branchId: "dev" }],
])("a history with %s is a bug", (_name, change) => {
  expect(() => encodeHistory({ ...sampleHistory, ...change })).toThrow(AssertionFault);
});
