import * as fc from "fast-check";
import { expect, test } from "vitest";
import { AssertionFault } from "../../../../src/base/faults/assert.ts";
import { limits } from "../../../../src/base/limits/limits.ts";
import { decodeHead, encodeHead, type Head } from "../../../../src/format/history/head.ts";
import { countingBytes, expectDamageRefused, sampleHead, sampleRefs } from "../../../support/format-samples.ts";

/** As many of each as a head may have, each as large as it gets. */
const fullHead: Head = {
  ...sampleHead,
  writerEpochs: Array(limits.manifestWriterEpochsMax).fill(sampleHead.writerEpochs[0]),
  lost: Array(limits.headLostMax).fill({ firstTxid: 2 ** 52, lastTxid: 2 ** 53 - 1 }),
  refs: Array(limits.lineRefsMax).fill({
    ...sampleRefs[1],
    firstTxid: 0,
    lastAtMs: 2 ** 53 - 1,
    bytes: 2 ** 53 - 1,
    rawBytes: 2 ** 53 - 1,
  }),
  tail: Array(limits.tailSegmentsMax).fill({
    ...sampleHead.tail[0],
    bytes: countingBytes(limits.tailBytesMax / limits.tailSegmentsMax, 1),
  }),
  node: "n".repeat(limits.nodeIdBytesMax),
};

test("a head comes back as it was", () => {
  expect(decodeHead(encodeHead(sampleHead))).toEqual(sampleHead);
  const first: Head = {
    ...sampleHead,
    branchId: "main",
    node: "",
    writerEpochs: [],
    lost: [],
    refs: [],
    tail: [],
    history: undefined,
    settledUlid: "",
  };
  expect(decodeHead(encodeHead(first))).toEqual(first);
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
        const head: Head = {
          ...sampleHead,
          ...Object.fromEntries(numbers.map((name, index) => [name, values[index]])),
          uuid,
          pages,
          lost: [range],
          writerEpochs: [{ ...sampleHead.writerEpochs[0]!, firstTxid, lastTxid: firstTxid + span - 1 }],
          refs: [{ ...sampleRefs[0]!, ...range }],
          tail: [{ ...sampleHead.tail[0]!, ...range }],
        };
        expect(decodeHead(encodeHead(head))).toEqual(head);
      },
    ),
  );
});

test("a head with as many of everything as it may have fits its bound", () => {
  const bytes = encodeHead(fullHead);
  expect(bytes.length).toBeLessThanOrEqual(limits.headBytesMax);
  expect(decodeHead(bytes)).toEqual(fullHead);
});

test("damage anywhere is refused as corrupt", async () => {
  await expectDamageRefused(encodeHead(sampleHead), decodeHead);
});

const more = <Item>(items: readonly Item[]): Item[] => [...items, items[0]!];
const tail = sampleHead.tail[0]!;

test.each<[string, Partial<Head>]>([
  ["one writer epoch too many", { writerEpochs: more(fullHead.writerEpochs) }],
  ["one lost range too many", { lost: more(fullHead.lost) }],
  ["one reference too many", { refs: more(fullHead.refs) }],
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
  ["a foreign object in its line", { refs: [{ ...sampleRefs[0]!, id: "x" }] }],
  ["a foreign settled mark", { settledUlid: "x" }],
  ["a foreign branch id", { branchId: "dev" }],
  ["too many pages", { pages: 2 ** 25 }],
  ["a negative time", { committedAtMs: -1 }],
])("a head with %s is a bug", (_name, change) => {
  expect(() => encodeHead({ ...sampleHead, ...change })).toThrow(AssertionFault);
});
