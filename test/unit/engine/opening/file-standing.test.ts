/** What a local file is to its branch's history: every case of the one rule. */
import { expect, test } from "vitest";
import { computeStanding, type Standing } from "../../../../src/engine/opening/file-standing.ts";
import type { Manifest } from "../../../../src/format/history/manifest.ts";

const id = (number: number): Uint8Array => new Uint8Array(16).fill(number);

/**
 * Claims 3 and 4 of a branch whose older ones have left the manifest's table; claim 4 is ours and has shipped up to
 * 350.
 */
const manifest: Manifest = {
  uuid: "00000000-0000-4000-8000-000000000001",
  branchId: "main",
  epoch: 4,
  seq: 30,
  nonce: id(0),
  prevHash: new Uint8Array(32),
  node: "us",
  writerEpochs: [
    { epoch: 3, id: id(3), firstTxid: 201, lastTxid: 250 },
    { epoch: 4, id: id(4), firstTxid: 301, lastTxid: 350 },
  ],
  lost: [{ firstTxid: 251, lastTxid: 300 }],
  txid: 350,
  committedAtMs: 0,
  reservedTo: 400,
  pages: 1,
  fromTxid: 220,
  floorTxid: 0,
  refs: [],
  tail: [],
  history: undefined,
  garbageBelowUlid: "",
};
const unwritten: Manifest = {
  ...manifest,
  epoch: 1,
  node: "us",
  writerEpochs: [{ epoch: 1, id: id(1), firstTxid: 1, lastTxid: 0 }],
  lost: [],
  txid: 0,
  reservedTo: 100,
  fromTxid: 0,
};
/** Forked at 90, of a time whose claim its parent's manifest listed no more. */
const fork: Manifest = {
  ...manifest,
  epoch: 0,
  writerEpochs: [],
  lost: [],
  txid: 90,
  reservedTo: 90,
  fromTxid: 90,
  floorTxid: 90,
};

test.each<
  [
    what: string,
    manifest: Manifest,
    claim: number | undefined,
    txid: number,
    shippedTo: number | undefined,
    expected: Standing,
  ]
>([
  ["the manifest's state", manifest, 4, 350, undefined, "current"],
  ["an earlier state of its timeline", manifest, 4, 320, undefined, "behind"],
  ["an earlier claim's on its timeline", manifest, 3, 230, undefined, "behind"],
  ["a state of a timeline that was left by a rewind", manifest, 3, 210, undefined, "stale"],
  ["our own, not shipped", manifest, 4, 360, undefined, "ahead"],
  ["our own, up to what was reserved", manifest, 4, 400, undefined, "ahead"],
  ["our own, above what the manifest ever reserved", manifest, 4, 401, undefined, "beyond"],
  ["an older claim's, not shipped", manifest, 3, 260, undefined, "orphaned"],
  ["a claim's that has left the table, shipped", manifest, 2, 150, 150, "stale"],
  ["a claim's that has left the table, shipped further", manifest, 2, 150, 160, "stale"],
  ["a claim's that has left the table, not all of it shipped", manifest, 2, 151, 150, "unknown"],
  ["a claim's that has left the table, of which nothing is known", manifest, 2, 150, undefined, "unknown"],
  ["a claim's that this history never had, above the manifest", manifest, 9, 360, 360, "beyond"],
  ["a claim's that this history never had, above all that was reserved", manifest, 9, 500, 500, "beyond"],
  [
    "a claim's that this history never had, and others have gone on, though it was shipped to another history",
    manifest,
    9,
    240,
    240,
    "unknown",
  ],
  ["nobody's and empty, of a history that began with it", unwritten, undefined, 0, undefined, "current"],
  [
    "nobody's and empty, of a history that has gone on from it",
    { ...unwritten, txid: 5 },
    undefined,
    0,
    undefined,
    "behind",
  ],
  [
    "nobody's and empty, of a history that began elsewhere",
    { ...unwritten, node: "them" },
    undefined,
    0,
    undefined,
    "stale",
  ],
  ["nobody's and not empty", manifest, undefined, 3, undefined, "unknown"],
  ["what a fork inherits of a claim that is forgotten", fork, 2, 90, undefined, "current"],
  [
    "what a fork inherits, claimed since, as it was noted",
    {
      ...fork,
      epoch: 1,
      writerEpochs: [{ epoch: 1, id: id(5), firstTxid: 91, lastTxid: 95 }],
      txid: 95,
      reservedTo: 190,
    },
    2,
    90,
    90,
    "stale",
  ],
])("%s", (_what, of, claim, txid, shippedTo, expected) => {
  const state = { txid, committedAtMs: 0, writerEpochId: claim === undefined ? undefined : id(claim) };
  expect(computeStanding(of, state, "us", () => shippedTo)).toBe(expected);
});

test("another node's claim in between makes what is not shipped nobody's", () => {
  expect(
    computeStanding(
      { ...manifest, node: "them" },
      { txid: 360, committedAtMs: 0, writerEpochId: id(4) },
      "us",
      () => undefined,
    ),
  ).toBe("orphaned");
  // We have claimed again, right behind what we had: a node that died between a claim and its first commit.
  const again = {
    ...manifest,
    writerEpochs: [...manifest.writerEpochs, { epoch: 5, id: id(5), firstTxid: 361, lastTxid: 360 }],
  };
  expect(computeStanding(again, { txid: 360, committedAtMs: 0, writerEpochId: id(4) }, "us", () => undefined)).toBe(
    "ahead",
  );
  expect(computeStanding(again, { txid: 359, committedAtMs: 0, writerEpochId: id(4) }, "us", () => undefined)).toBe(
    "orphaned",
  );
});

test("our claims that give up what would follow our file leave it as it is; others do not", () => {
  const state = { txid: 360, committedAtMs: 0, writerEpochId: id(4) };
  const claims = (...firstTxids: number[]): Manifest["writerEpochs"] => [
    ...manifest.writerEpochs,
    ...firstTxids.map((firstTxid, index) => ({
      epoch: 5 + index,
      id: id(5 + index),
      firstTxid,
      lastTxid: firstTxid - 1,
    })),
  ];
  const of = (firstLost: number, writerEpochs: Manifest["writerEpochs"]): Manifest => ({
    ...manifest,
    writerEpochs,
    lost: [...manifest.lost, { firstTxid: firstLost, lastTxid: writerEpochs.at(-1)!.firstTxid - 1 }],
    reservedTo: writerEpochs.at(-1)!.firstTxid + 99,
  });
  const standing = (one: Manifest, nodeId = "us"): Standing => computeStanding(one, state, nodeId, () => undefined);
  expect(standing(of(361, claims(401)))).toBe("ahead");
  // The first of them was given up by the second.
  expect(standing(of(361, claims(401, 501)))).toBe("ahead");
  expect(standing(of(351, claims(401)))).toBe("orphaned");
  expect(standing(of(362, claims(401)))).toBe("orphaned");
  expect(standing(of(361, claims(401)), "them")).toBe("orphaned");
});
