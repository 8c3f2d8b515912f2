/**
 * The receipt of an erasure: what the holder of a signing key says was erased, and how it was proven.
 *
 * `{payload, alg: "EdDSA", kid, sig}`; `sig` is the base64url of an Ed25519 signature over the text
 * `palimpsest-erasure-receipt-v1` (or `-v2`, `-v3`, after the payload's version), a NUL and the canonical JSON (RFC
 * 8785) of the payload. The text before keeps a signature from meaning anything else.
 *
 * | member       | type    | meaning                                                                              |
 * |--------------|---------|--------------------------------------------------------------------------------------|
 * | v            | integer | version of the payload: 3 of a subject, else 2 where the evidence has `unattested`, or 1 |
 * | db, uuid     | string  | the database: its name when the erasure was asked for, and its identity              |
 * | erasure_id   | string  | the coupon                                                                           |
 * | target       | object  | what was asked for, in the names of the wire                                         |
 * | memory_ids   | array   | the memories that were erased                                                        |
 * | erased       | object  | of a subject only: how many records of each kind                                     |
 * | erased_txid  | object  | by branch, the newest transaction that erased the target there                       |
 * | requested_at, completed_at | integer | Unix ms                                                                |
 * | method       | string  | how it was done and proven; documented under this name                               |
 * | evidence     | object  | ErasureEvidence, as below                                                            |
 * | limits       | array   | in words, what the receipt does not prove                                            |
 *
 * Always true: a receipt holds ids, counts and what its reader asked for, never erased content; one that `readReceipt`
 * takes has exactly these members, so nothing in it is unsigned. Must not know: keys, who signs.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { limits } from "../../base/limits.ts";
import { canonicalJson } from "../core/canonical-json.ts";
import {
  isCount,
  isText,
  isTimeMs,
  listOf,
  mapOf,
  matching,
  maybe,
  oneOf,
  shapeOf,
  type Check,
} from "../core/json-shape.ts";
import { isErasureId, isMemoryId } from "../core/ids.ts";

/** Entries of one list of a receipt's evidence: a few states of every branch. */
const erasureEvidenceEntriesMax = 10_000;

/** What is to be erased: exactly one of these. */
export type ErasureTarget =
  | RecordTarget
  | { readonly kind: "memory"; readonly memoryId: string }
  /** Every memory of the topic, superseded ones included. */
  | { readonly kind: "topic"; readonly topicKey: string; readonly type: string }
  /**
   * A session's provenance everywhere and every memory whose last provenance that was; with `turns` its transcript too.
   */
  | { readonly kind: "session"; readonly sessionId: string; readonly turns: boolean };

/** Records that are erased by their names. */
export type RecordTarget =
  | { readonly kind: "turn"; readonly sessionId: string; readonly seq: number }
  /** The file at the path, or every file below it, each with all of its versions. */
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "key"; readonly ns: string; readonly key: string }
  | { readonly kind: "document"; readonly collection: string; readonly id: string }
  | { readonly kind: "vector"; readonly collection: string; readonly id: string }
  /** Records of every kind that carry the subject, memories among them. */
  | { readonly kind: "subject"; readonly subject: string };

/** How many records of each kind an erasure by subject has removed, by the kinds' names on the wire. */
export type ErasedKinds = Readonly<Record<string, number>>;

/** How it was established that erased data is gone; goes into the receipt as it is, in these very names. */
export interface ErasureEvidence {
  /**
   * Objects of the database. All that were listed are live: referred to, or made since the cut of states that are kept,
   * or foreign. All of them were scanned.
   */
  readonly objects: {
    readonly listed: number;
    readonly live: number;
    readonly scanned: number;
    readonly bytes: number;
  };
  readonly heads_checked: number;
  readonly catalogs_checked: number;
  /** Pages that the objects held once decompressed; every one was scanned. */
  readonly pages_scanned: number;
  /** Identities of rows and windows of vectors that were looked for, and how many of them were found. */
  readonly traces: { readonly looked_for: number; readonly hits: 0 };
  /** States that were restored from the remaining objects, opened, checked and asked for the erased memories. */
  readonly states_restored: readonly { readonly branch: string; readonly txid: number; readonly pages: number }[];
  /** Least transaction id that can be restored, by branch. */
  readonly oldest_restorable_txid: Readonly<Record<string, number>>;
  /** Older versions of objects, and unfinished uploads, that the store kept and that were removed. */
  readonly store: { readonly versioned: boolean; readonly versions_removed: number; readonly uploads_aborted: number };
  /** Copies on the disks of nodes. */
  readonly local: readonly { readonly node: string; readonly files_scrubbed: number; readonly files_removed: number }[];
  /**
   * Nodes that may have had a copy and never came back to say that it is gone: an operator has declared them and their
   * disks destroyed.
   */
  readonly unattested?: readonly string[] | undefined;
}

/** A target in the names of the wire. */
export type TargetFields =
  | { readonly session_id: string; readonly seq: number }
  | { readonly path: string }
  | { readonly kv_ns: string; readonly key: string }
  | { readonly collection: string; readonly doc_id: string }
  | { readonly vector_collection: string; readonly vector_id: string }
  | { readonly subject: string }
  | { readonly memory_id: string }
  | { readonly topic_key: string; readonly type: string }
  | { readonly session_id: string; readonly turns: boolean };

/** An erasure that is complete, as its coupon tells of it. */
export interface CompletedErasure {
  readonly id: string;
  readonly uuid: string;
  readonly database: string;
  readonly target: ErasureTarget;
  readonly memoryIds: readonly string[];
  readonly kinds?: ErasedKinds | undefined;
  readonly requestedAtMs: number;
  /** Where the target was erased, and by which transaction. */
  readonly points: readonly { readonly branch: string; readonly txid: number }[];
}

/** What is signed, in the names of the wire. */
export interface ReceiptPayload {
  readonly v: 1 | 2 | 3;
  /** The database's name when the erasure was asked for. */
  readonly db: string;
  readonly uuid: string;
  readonly erasure_id: string;
  readonly target: TargetFields;
  readonly memory_ids: readonly string[];
  /** Of an erasure by subject, how many records of each kind. */
  readonly erased?: ErasedKinds | undefined;
  /** By branch, the newest transaction that erased the target there. */
  readonly erased_txid: Readonly<Record<string, number>>;
  /** Unix milliseconds. */
  readonly requested_at: number;
  readonly completed_at: number;
  /** How it was done and proven. */
  readonly method: string;
  readonly evidence: ErasureEvidence;
  /** What the receipt does not prove. */
  readonly limits: readonly string[];
}

/** A signed statement that an erasure is complete. */
export interface ErasureReceipt {
  readonly payload: ReceiptPayload;
  readonly alg: "EdDSA";
  /** RFC 7638 thumbprint of the key that signed. */
  readonly kid: string;
  /** base64url of the Ed25519 signature over `signedBytes(payload)`. */
  readonly sig: string;
}

const domains = {
  1: "palimpsest-erasure-receipt-v1",
  2: "palimpsest-erasure-receipt-v2",
  3: "palimpsest-erasure-receipt-v3",
} as const;
const method = "palimpsest-erasure-1";

/** In every receipt: a proof whose bounds are not stated is taken for more than it is. */
const notProven = [
  "copies that clients took: answers, exports, restored files",
  "backups and replicas of the object store or of disks that the evidence does not list",
  "physical remanence: what media still hold after the store or the system has deleted data",
  "what was sent to model providers before the erasure",
  "that the node which signed ran the published program unchanged: a receipt is its operator's signed word",
] as const;

/** The target that its fields say. */
export function toTarget(fields: TargetFields): ErasureTarget {
  if ("memory_id" in fields) return { kind: "memory", memoryId: fields.memory_id };
  if ("topic_key" in fields) return { kind: "topic", topicKey: fields.topic_key, type: fields.type };
  if ("path" in fields) return { kind: "path", path: fields.path };
  if ("kv_ns" in fields) return { kind: "key", ns: fields.kv_ns, key: fields.key };
  if ("doc_id" in fields) return { kind: "document", collection: fields.collection, id: fields.doc_id };
  if ("vector_id" in fields) return { kind: "vector", collection: fields.vector_collection, id: fields.vector_id };
  if ("subject" in fields) return { kind: "subject", subject: fields.subject };
  if ("seq" in fields) return { kind: "turn", sessionId: fields.session_id, seq: fields.seq };
  return { kind: "session", sessionId: fields.session_id, turns: fields.turns };
}

/** A target in the names of the wire. */
export function targetFields(target: ErasureTarget): TargetFields {
  switch (target.kind) {
    case "memory":
      return { memory_id: target.memoryId };
    case "topic":
      return { topic_key: target.topicKey, type: target.type };
    case "session":
      return { session_id: target.sessionId, turns: target.turns };
    case "turn":
      return { session_id: target.sessionId, seq: target.seq };
    case "path":
      return { path: target.path };
    case "key":
      return { kv_ns: target.ns, key: target.key };
    case "document":
      return { collection: target.collection, doc_id: target.id };
    case "vector":
      return { vector_collection: target.collection, vector_id: target.id };
    case "subject":
      return { subject: target.subject };
  }
}

/** By branch, the newest transaction that erased the target there. */
export function erasedTxids(points: CompletedErasure["points"]): Readonly<Record<string, number>> {
  const newest = new Map<string, number>();
  for (const { branch, txid } of points) newest.set(branch, Math.max(txid, newest.get(branch) ?? 0));
  return Object.fromEntries(newest);
}

/** What a receipt says of a coupon that is complete now. */
export function receiptPayload(
  coupon: CompletedErasure,
  completedAtMs: number,
  evidence: ErasureEvidence,
): ReceiptPayload {
  return {
    // A reader that does not know of nodes that never came back must not take the receipt for one in which every node
    // has answered; nor one that does not know of subjects take it for one of memories alone.
    v: coupon.kinds ? 3 : evidence.unattested ? 2 : 1,
    db: coupon.database,
    uuid: coupon.uuid,
    erasure_id: coupon.id,
    target: targetFields(coupon.target),
    memory_ids: coupon.memoryIds,
    ...(coupon.kinds && { erased: coupon.kinds }),
    erased_txid: erasedTxids(coupon.points),
    requested_at: coupon.requestedAtMs,
    completed_at: completedAtMs,
    method,
    evidence,
    limits: notProven,
  };
}

/** What is signed. */
export function signedBytes(payload: ReceiptPayload): Uint8Array {
  return encodeUtf8(`${domains[payload.v]}\0${canonicalJson(payload)}`);
}

const isMemory = shapeOf({ memory_id: isText });
const isTopic = shapeOf({ topic_key: isText, type: isText });
const isSession = shapeOf({ session_id: isText, turns: oneOf(true, false) });

const recordTargets: readonly Check[] = [
  shapeOf({ session_id: isText, seq: isCount }),
  shapeOf({ path: isText }),
  shapeOf({ kv_ns: isText, key: isText }),
  shapeOf({ collection: isText, doc_id: isText }),
  shapeOf({ vector_collection: isText, vector_id: isText }),
  shapeOf({ subject: isText }),
];

/** Whether the value is a target of records, in the names of the wire. */
export const isRecordFields: Check = (value) => recordTargets.some((fits) => fits(value));

/** Whether the value is a target in the names of the wire. */
export const isTargetFields: Check = (value) =>
  isMemory(value) || isTopic(value) || isSession(value) || isRecordFields(value);

const evidenceChecks = {
  objects: shapeOf({ listed: isCount, live: isCount, scanned: isCount, bytes: isCount }),
  heads_checked: isCount,
  catalogs_checked: isCount,
  pages_scanned: isCount,
  traces: shapeOf({ looked_for: isCount, hits: oneOf(0) }),
  states_restored: listOf(shapeOf({ branch: isText, txid: isCount, pages: isCount }), erasureEvidenceEntriesMax),
  oldest_restorable_txid: mapOf(isCount, limits.branchesMax),
  store: shapeOf({ versioned: oneOf(true, false), versions_removed: isCount, uploads_aborted: isCount }),
  local: listOf(shapeOf({ node: isText, files_scrubbed: isCount, files_removed: isCount }), erasureEvidenceEntriesMax),
};

const payloadChecks = {
  db: isText,
  uuid: isText,
  erasure_id: isErasureId,
  target: isTargetFields,
  memory_ids: listOf(isMemoryId, limits.erasureMemoriesMax),
  erased_txid: mapOf(isCount, limits.branchesMax),
  requested_at: isTimeMs,
  completed_at: isTimeMs,
  method: isText,
  limits: listOf(isText, erasureEvidenceEntriesMax),
};

/** Kinds of records that there are, and more to come. */
export const erasedKindsMax = 32;

const isPlain = shapeOf({ ...payloadChecks, v: oneOf(1), evidence: shapeOf(evidenceChecks) });
const isUnattested = shapeOf({
  ...payloadChecks,
  v: oneOf(2),
  evidence: shapeOf({ ...evidenceChecks, unattested: listOf(isText, erasureEvidenceEntriesMax) }),
});
const isOfSubject = shapeOf({
  ...payloadChecks,
  v: oneOf(3),
  erased: mapOf(isCount, erasedKindsMax),
  evidence: shapeOf({ ...evidenceChecks, unattested: maybe(listOf(isText, erasureEvidenceEntriesMax)) }),
});
const isPayload: Check = (value) => isPlain(value) || isUnattested(value) || isOfSubject(value);

const isReceipt = shapeOf({
  payload: isPayload,
  alg: oneOf("EdDSA"),
  kid: isText,
  sig: matching(/^[A-Za-z0-9_-]{86}$/),
});

/** The receipt, if the JSON value has the form of one; says nothing of its signature. */
export function readReceipt(value: unknown): ErasureReceipt | undefined {
  return isReceipt(value) ? (value as ErasureReceipt) : undefined;
}
