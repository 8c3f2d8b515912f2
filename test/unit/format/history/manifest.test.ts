/** Manifests at rest: they come back as they were, fit their bound, and are refused when damaged. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { limits } from "../../../../src/base/limits.ts";
import {
  decodeManifest,
  encodeManifest,
  type Manifest,
  nodeIdBytesMax,
  manifestBytesMax,
} from "../../../../src/format/history/manifest.ts";
import { countingBytes, expectDamageRefused, sampleManifest, sampleRefs } from "../../../support/format-samples.ts";

/** As many of each as a manifest may have, each as large as it gets. */
const fullManifest: Manifest = {
  ...sampleManifest,
  writerEpochs: Array(limits.manifestWriterEpochsMax).fill(sampleManifest.writerEpochs[0]),
  lost: Array(limits.manifestLostMax).fill({ firstTxid: 2 ** 52, lastTxid: 2 ** 53 - 1 }),
  refs: Array(limits.timelineRefsMax).fill({
    ...sampleRefs[1],
    firstTxid: 0,
    lastAtMs: 2 ** 53 - 1,
    bytes: 2 ** 53 - 1,
    rawBytes: 2 ** 53 - 1,
  }),
  tail: Array(limits.tailSegmentsMax).fill({
    ...sampleManifest.tail[0],
    bytes: countingBytes(limits.tailBytesMax / limits.tailSegmentsMax, 1),
  }),
  node: "n".repeat(nodeIdBytesMax),
};

test("a manifest comes back as it was", () => {
  expect(decodeManifest(encodeManifest(sampleManifest))).toEqual(sampleManifest);
  const first: Manifest = {
    ...sampleManifest,
    branchId: "main",
    node: "",
    writerEpochs: [],
    lost: [],
    refs: [],
    tail: [],
    history: undefined,
    garbageBelowUlid: "",
  };
  expect(decodeManifest(encodeManifest(first))).toEqual(first);
});

test("any numbers come back", () => {
  const numbers = ["epoch", "seq", "txid", "committedAtMs", "reservedTo", "fromTxid", "floorTxid"] as const;
  fc.assert(
    fc.property(
      fc.tuple(...numbers.map(() => fc.maxSafeNat())),
      fc.nat(2 ** 25 - 1),
      fc.uuid(),
      fc.nat(2 ** 52),
      fc.nat(2 ** 52),
      (values, pages, uuid, firstTxid, span) => {
        const range = { firstTxid, lastTxid: firstTxid + span };
        const manifest: Manifest = {
          ...sampleManifest,
          ...Object.fromEntries(numbers.map((name, index) => [name, values[index]])),
          uuid,
          pages,
          lost: [range],
          writerEpochs: [{ ...sampleManifest.writerEpochs[0]!, firstTxid, lastTxid: firstTxid + span - 1 }],
          refs: [{ ...sampleRefs[0]!, ...range }],
          tail: [{ ...sampleManifest.tail[0]!, ...range }],
        };
        expect(decodeManifest(encodeManifest(manifest))).toEqual(manifest);
      },
    ),
  );
});

test("a manifest with as many of everything as it may have fits its bound", () => {
  const bytes = encodeManifest(fullManifest);
  expect(bytes.length).toBeLessThanOrEqual(manifestBytesMax);
  expect(decodeManifest(bytes)).toEqual(fullManifest);
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(encodeManifest(sampleManifest), decodeManifest);
});

const more = <Item>(items: readonly Item[]): Item[] => [...items, items[0]!];
const tail = sampleManifest.tail[0]!;

test.each<[string, Partial<Manifest>]>([
  ["one writer epoch too many", { writerEpochs: more(fullManifest.writerEpochs) }],
  ["one lost range too many", { lost: more(fullManifest.lost) }],
  ["one reference too many", { refs: more(fullManifest.refs) }],
  ["one tail segment too many", { tail: Array(limits.tailSegmentsMax + 1).fill(tail) }],
  [
    "a tail of one byte too many",
    {
      tail: [
        { ...tail, bytes: new Uint8Array(1) },
        { ...tail, bytes: new Uint8Array(limits.tailBytesMax) },
      ],
    },
  ],
  ["an empty range", { lost: [{ firstTxid: 2, lastTxid: 1 }] }],
  ["a short nonce", { nonce: new Uint8Array(15) }],
  ["a short hash", { prevHash: new Uint8Array(31) }],
  ["a foreign object in its timeline", { refs: [{ ...sampleRefs[0]!, id: "x" }] }],
  ["a foreign settled mark", { garbageBelowUlid: "x" }],
  ["a foreign branch id", { branchId: "dev" }],
  ["too many pages", { pages: 2 ** 25 }],
  ["a negative time", { committedAtMs: -1 }],
])("a manifest with %s is a bug", (_name, change) => {
  expect(() => encodeManifest({ ...sampleManifest, ...change })).toThrow(AssertionFault);
});
