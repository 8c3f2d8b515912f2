/** One object of each format at rest that uses all of its fields, and the ways in which objects get damaged. */
import { createPrivateKey } from "node:crypto";
import { expect } from "vitest";
import { StoreError } from "../../src/base/faults/errors.ts";
import type { AuditEvent } from "../../src/format/audit/audit-event.ts";
import type { Catalog } from "../../src/format/history/catalog.ts";
import type { CopyRecord } from "../../src/format/records/copy-record.ts";
import type { ErasureCoupon } from "../../src/format/erasure/erasure-coupon.ts";
import { receiptPayload, type ErasureEvidence } from "../../src/format/erasure/erasure-receipt.ts";
import type { Manifest } from "../../src/format/history/manifest.ts";
import type { History } from "../../src/format/history/history.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import type { SegmentRef } from "../../src/format/history/refs.ts";
import type { Segment } from "../../src/format/history/segment.ts";

const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
const branchId = "01HF7YAT000000000000000001";
const startMs = 1_700_000_000_000;

/** Bytes that count up from `first`, over and over. */
export function countingBytes(count: number, first: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, index) => (first + index) & 0xff);
}

/** The groups of a delta: one with two pages, one that shrinks the database and changes none, one with one page. */
export const sampleDelta: Segment = {
  kind: "delta",
  uuid,
  branchId,
  epoch: 3,
  groups: [
    {
      txid: 41,
      committedAtMs: startMs,
      pages: 300_000,
      images: [
        { page: 1, bytes: countingBytes(pageBytes, 1) },
        { page: 300_000, bytes: countingBytes(pageBytes, 2) },
      ],
    },
    { txid: 42, committedAtMs: startMs + 1, pages: 7, images: [] },
    { txid: 43, committedAtMs: startMs - 1, pages: 7, images: [{ page: 7, bytes: new Uint8Array(pageBytes) }] },
  ],
};

/** A page that changes with each group, as the second version puts it in order. */
export const sampleOrderedDelta: Segment = {
  ...sampleDelta,
  version: 2,
  groups: [41, 42, 43].map((txid) => ({
    txid,
    committedAtMs: startMs + txid,
    pages: 9,
    images: [1, 9].map((page) => ({ page, bytes: countingBytes(pageBytes, txid * page) })),
  })),
};

/** An image of a state of two pages. */
export const sampleImage: Segment = {
  kind: "image",
  uuid,
  branchId: "main",
  epoch: 1,
  groups: [
    {
      txid: 9,
      committedAtMs: startMs,
      pages: 2,
      images: [
        { page: 1, bytes: countingBytes(pageBytes, 3) },
        { page: 2, bytes: countingBytes(pageBytes, 4) },
      ],
    },
  ],
};

export const sampleRefs: readonly SegmentRef[] = [
  {
    kind: "image",
    id: "main-1-01HF7YAT000000000000000002",
    firstTxid: 9,
    lastTxid: 9,
    cut: false,
    lastAtMs: startMs,
    bytes: 1_000,
    rawBytes: 8_192,
    sha256: countingBytes(32, 5),
  },
  {
    kind: "delta",
    id: `${branchId}-9007199254740991-01HF7YAT000000000000000003`,
    firstTxid: 10,
    lastTxid: 2 ** 53 - 1,
    cut: true,
    lastAtMs: startMs + 9,
    bytes: 2_000,
    rawBytes: 2 ** 40,
    sha256: countingBytes(32, 6),
  },
];

export const sampleManifest: Manifest = {
  uuid,
  branchId,
  epoch: 3,
  seq: 1_000,
  nonce: countingBytes(16, 7),
  prevHash: countingBytes(32, 8),
  node: "node-α",
  writerEpochs: [
    { epoch: 2, id: countingBytes(16, 9), firstTxid: 1, lastTxid: 30 },
    { epoch: 3, id: countingBytes(16, 10), firstTxid: 41, lastTxid: 40 },
  ],
  lost: [{ firstTxid: 31, lastTxid: 40 }],
  txid: 30,
  committedAtMs: startMs,
  reservedTo: 10_040,
  pages: 7,
  fromTxid: 9,
  floorTxid: 5,
  refs: sampleRefs,
  tail: [{ firstTxid: 41, lastTxid: 43, lastAtMs: startMs + 5, rawBytes: 12_288, bytes: countingBytes(40, 11) }],
  history: { id: `${branchId}-3-01HF7YAT000000000000000004`, bytes: 333, sha256: countingBytes(32, 12) },
  garbageBelowUlid: "01HF7YAT000000000000000005",
};

export const sampleHistory: History = {
  uuid,
  branchId: "main",
  timelines: [
    { fromTxid: 9, toTxid: 20, endedAtMs: startMs, refs: sampleRefs },
    { fromTxid: 21, toTxid: 21, endedAtMs: startMs + 1, refs: [] },
  ],
  checkpoints: [{ name: "before the übung", txid: 12, createdAtMs: startMs }],
};

export const sampleCatalog: Catalog = {
  uuid,
  seq: 12,
  nonce: countingBytes(16, 13),
  createdAtMs: startMs,
  branches: [
    { name: "main", id: "main", createdAtMs: startMs, parent: undefined, ttlAtMs: undefined },
    {
      name: "Later",
      id: branchId,
      createdAtMs: startMs + 1,
      parent: { name: "main", id: "main", forkTxid: 17 },
      ttlAtMs: startMs + 60_000,
    },
    {
      name: "dev",
      id: "01HF7YAT000000000000000006",
      createdAtMs: startMs + 2,
      parent: { name: "Later", id: branchId, forkTxid: 18 },
      ttlAtMs: undefined,
    },
  ],
  condemned: [{ key: "seg/main-1-01HF7YAT000000000000000002", atMs: startMs + 3 }],
  deletedAtMs: startMs + 4,
};

/** A change by the bearer of a token, what left for a model, and a refusal of nobody in particular. */
export const sampleAuditEvents: readonly AuditEvent[] = [
  {
    id: "01HF7YAT000000000000000001",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    profile: "alice",
    branch: "main",
    action: "memory.ingest",
    outcome: "ok",
    txid: 7,
    count: 3,
    actor: { kind: "token", tokenHash: "0123456789abcdef", scope: "write", claimNs: "acme", iatSecs: startMs / 1_000 },
    prev: "0".repeat(64),
  },
  {
    id: "01HF7YAT000000000000000002",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    profile: "alice",
    action: "ai.embed",
    outcome: "ok",
    egress: {
      provider: "local",
      model: "small-1",
      endpointHost: "embed.test:8000",
      selfHosted: true,
      inputItems: 2,
      inputBytes: 345,
      outputItems: 2,
      durationMs: 12,
    },
    prev: "ab".repeat(32),
  },
  {
    id: "01HF7YAT000000000000000003",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    profile: "alice",
    branch: "main",
    action: "memory.forget",
    resource: "mem_01HF7YAT000000000000000009",
    outcome: "denied",
    actor: { kind: "anonymous" },
    errorCode: "unauthorized",
    prev: "cd".repeat(32),
  },
];

/** What version 2 of an event came for: a token that was minted, one that was revoked, and a rewind. */
export const sampleLaterAuditEvents: readonly AuditEvent[] = [
  {
    id: "01HF7YAT000000000000000004",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    profile: "alice",
    action: "token.mint",
    resource: "acme--alice",
    outcome: "ok",
    actor: { kind: "platform", tokenHash: "0123456789abcdef" },
    grant: { jti: "01HF7YAT00000000000000000J", scope: "write", expiresInSecs: 3_600, database: "acme--alice" },
    prev: "ef".repeat(32),
  },
  {
    id: "01HF7YAT000000000000000005",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    action: "token.revoke",
    outcome: "ok",
    actor: { kind: "platform", tokenHash: "0123456789abcdef" },
    grant: { jti: "01HF7YAT00000000000000000K", namespace: "acme" },
    prev: "ab".repeat(32),
  },
  {
    id: "01HF7YAT000000000000000006",
    node: "01HF7YAT00000000000000000N",
    namespace: "acme",
    profile: "alice",
    branch: "main",
    action: "branch.rewind",
    outcome: "ok",
    txid: 9,
    actor: { kind: "anonymous" },
    prev: "cd".repeat(32),
  },
];

/** A private key that everybody knows: the first one of RFC 8032, section 7.1. */
export const sampleSigningKey = createPrivateKey({
  key: Buffer.from(
    "302e020100300506032b6570042204209d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "hex",
  ),
  format: "der",
  type: "pkcs8",
});

/** An erasure that is not complete yet, on two branches. */
export const sampleCoupon: ErasureCoupon = {
  id: "ers_01HF7YAT000000000000000007",
  uuid,
  database: "acme--alice",
  branch: "main",
  target: { kind: "topic", topicKey: "ui.übung\n\u0007", type: "fact" },
  status: "blocked",
  memoryIds: ["mem_01HF7YAT000000000000000008", "mem_01HF7YAT000000000000000009"],
  requestedAtMs: startMs,
  graceUntilMs: startMs + 86_400_000,
  points: [
    { branch: "main", branchId: "main", txid: 41 },
    { branch: "Later", branchId, txid: 2 ** 53 - 1 },
  ],
  blockedBy: { checkpoints: ["main/before the übung"], branches: ["dev"] },
  waitingFor: "another erasure's grace",
  traces: { key: countingBytes(32, 14), windows: countingBytes(60, 15), windowsTotal: 70 },
};

/** The same, of which nothing is known yet but that it was asked for. */
export const sampleBegunCoupon: ErasureCoupon = {
  ...sampleCoupon,
  status: "begun",
  memoryIds: [],
  points: [],
  blockedBy: undefined,
  waitingFor: undefined,
  traces: undefined,
};

/** An erasure that waits for the copies of two nodes. */
export const sampleAwaitingCoupon: ErasureCoupon = {
  ...sampleCoupon,
  status: "pending",
  blockedBy: undefined,
  waitingFor: "a copy on node db-2 (01HF7YAT00000000000000000N)",
  awaiting: {
    branches: ["main", branchId],
    copies: [
      { node: "01HF7YAT00000000000000000N", copy: "01HF7YAT0000000000000000C1" },
      { node: "node_b", copy: "01HF7YAT0000000000000000C2" },
    ],
  },
};

/** An erasure of records by their names: a folder of three files. */
export const sampleRecordsCoupon: ErasureCoupon = {
  ...sampleCoupon,
  target: { kind: "path", path: "/notes/übung" },
  memoryIds: [],
  records: ["000102030405060708090a0b0c0d0e0f", "f".repeat(32), "0".repeat(32)],
};

/** A copy that its node has purged. */
export const sampleCopy: CopyRecord = {
  uuid,
  node: "01HF7YAT00000000000000000N",
  copy: "01HF7YAT0000000000000000C1",
  name: "db-2.übung",
  createdAtMs: startMs,
  purged: { atMs: startMs + 5, filesRemoved: 3 },
  forgottenAtMs: startMs + 6,
};

/** How an erasure was proven, with something in every list. */
export const sampleEvidence: ErasureEvidence = {
  objects: { listed: 12, live: 12, scanned: 12, bytes: 123_456 },
  heads_checked: 2,
  catalogs_checked: 1,
  pages_scanned: 345,
  traces: { looked_for: 3, hits: 0 },
  states_restored: [
    { branch: "main", txid: 41, pages: 17 },
    { branch: "Later", txid: 2 ** 53 - 1, pages: 18 },
  ],
  oldest_restorable_txid: { main: 41, Later: 2 ** 53 - 1, ["__proto__"]: 5 },
  store: { versioned: true, versions_removed: 9, uploads_aborted: 1 },
  local: [{ node: "node-α", files_scrubbed: 2, files_removed: 3 }],
};

/** What the receipt of the sample erasure says. */
export const sampleReceiptPayload = receiptPayload(sampleCoupon, startMs + 86_400_001, sampleEvidence);

/** The same where a node never came back. */
export const sampleUnattestedPayload = receiptPayload(sampleCoupon, startMs + 86_400_001, {
  ...sampleEvidence,
  unattested: ["01HF7YAT00000000000000000N"],
});

/** What the receipt of an erasure by subject says. */
export const sampleSubjectPayload = receiptPayload(
  { ...sampleCoupon, target: { kind: "subject", subject: "user-7" }, kinds: { memories: 1, turns: 2 } },
  startMs + 86_400_001,
  sampleEvidence,
);

/** Expects an object that was cut anywhere, lengthened, or has any one bit flipped to be refused as corrupt. */
export async function expectDamageRefused(bytes: Uint8Array, decode: (bytes: Uint8Array) => unknown): Promise<void> {
  const damaged: [how: string, bytes: Uint8Array][] = [["lengthened", Uint8Array.of(...bytes, 0)]];
  for (const at of bytes.keys()) {
    damaged.push([`cut to ${at} bytes`, bytes.slice(0, at)]);
    for (let bit = 1; bit <= 0x80; bit *= 2)
      damaged.push([`bit ${bit} of byte ${at} flipped`, bytes.with(at, bytes[at]! ^ bit)]);
  }
  const accepted: string[] = [];
  for (const [how, object] of damaged) {
    try {
      await decode(object);
      accepted.push(how);
    } catch (error) {
      if (!(error instanceof StoreError && error.kind === "corrupt"))
        throw new Error(`${how}: not refused as corrupt`, { cause: error });
    }
  }
  expect(accepted).toEqual([]);
}
