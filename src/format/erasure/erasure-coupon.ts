/**
 * The coupon of an erasure: what was asked for, how far it has come, and in the end its receipt.
 *
 * At rest a JSON object. Its first member is `sum`, the first half of the SHA-256, in hex digits, of all bytes behind
 * it: a wrong transaction id or a lost trace would be signed for as the truth.
 *
 * | member                    | type    | meaning                                                                |
 * |---------------------------|---------|------------------------------------------------------------------------|
 * | v                         | integer | format version: 3 of records, else 2 where `awaiting` is present, or 1 |
 * | nonce                     | string  | 32 hex digits of chance: no two puts write the same bytes              |
 * | id, uuid                  | string  | the erasure, and the database that it is of                            |
 * | database, branch          | string  | names of what it was asked for on, as they were then                   |
 * | target                    | object  | what was asked for, in the names of the wire (see erasure-receipt)     |
 * | status                    | string  | `begun`, `pending`, `blocked` or `completed`                           |
 * | memory_ids                | array   | the memories that were erased                                          |
 * | kinds                     | object  | how many of each kind; where a subject was erased only                 |
 * | records                   | array   | keyed hashes of the records, in hex; where such were erased only       |
 * | requested_at, grace_until | integer | Unix ms                                                                |
 * | points                    | array   | `{branch, branch_id, txid, ancestors}`: where it was erased; see below |
 * | blocked_by                | object  | `{checkpoints, branches}`; on blocked coupons only                     |
 * | waiting_for               | string  | why it is not further; never on completed ones                         |
 * | awaiting                  | object  | `{branches, copies}`: those that were cut, and nodes' copies           |
 * | traces                    | object  | `{key, windows, windows_total}`, bytes as base64; on unsettled ones    |
 * | completed_at, receipt     | integer, object | on completed ones only                                         |
 *
 * `ancestors` belongs to a branch that came from others: `{branch_id, fork_txid}`, nearest first. `awaiting` is present
 * on some pending ones: it has the copies of nodes that were there when history had been cut. A begun coupon may have
 * no traces yet.
 *
 * Always true: what is read has the members that its status asks for and no others; a completed coupon holds nothing
 * that could tell a guess at the erased data from the truth. Must not know: who may ask, how data is erased or looked
 * for.
 */
import { assert } from "../../base/faults/assert.ts";
import { decodeUtf8, encodeUtf8, toHex } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import {
  erasedKindsMax,
  isRecordFields,
  isTargetFields,
  readReceipt,
  targetFields,
  toTarget,
  type ErasedKinds,
  type ErasureReceipt,
  type TargetFields,
  type ErasureTarget,
} from "./erasure-receipt.ts";
import {
  isCount,
  isObject,
  isText,
  isTimeMs,
  listOf,
  mapOf,
  matching,
  maybe,
  oneOf,
  shapeOf,
  textThat,
} from "../core/json-shape.ts";
import { isErasureId, isMemoryId, isNodeId, isUlid } from "../core/ids.ts";
import { isBranchId } from "../keys/object-keys.ts";
import { computeSha256 } from "../core/seal.ts";
import { formats, requireVersion } from "../core/versions.ts";

/** Checkpoints, and branches, that a blocked coupon names; further ones are named when these are gone. */
export const erasureBlockersMax = 1_000;

/**
 * What identifies erased rows and vectors without saying what they were; looked for in whatever remains, then
 * destroyed.
 */
export interface Traces {
  /** 32 random bytes. */
  readonly key: Uint8Array;
  /** One trace after the other (format/erasure/traces), `traceBytes` each. */
  readonly windows: Uint8Array;
  /** Windows that the erased data had; more than are kept when there were too many. */
  readonly windowsTotal: number;
}

/**
 * The copies on the disks of nodes that may hold what was erased: those that existed when all of history had been cut.
 * A later copy comes from what is left, unless there is a new branch that was not looked at.
 */
export interface AwaitedCopies {
  /** Ids of the branches that had been cut. */
  readonly branches: readonly string[];
  readonly copies: readonly { readonly node: string; readonly copy: string }[];
}

/** Where the target was erased, and by which transaction. */
export interface ErasurePoint {
  readonly branch: string;
  /** The name may have gone to another branch since. */
  readonly branchId: string;
  readonly txid: number;
  /**
   * The branches that it came from, nearest first: it may be deleted when it is to be found out which others can have
   * had the data.
   */
  readonly ancestors?: readonly Ancestor[] | undefined;
}

/** A branch that another one came from, maybe by way of others, and the transaction id at which it was left. */
export interface Ancestor {
  readonly branchId: string;
  readonly forkTxid: number;
}

/** What keeps erased data in history. */
export interface ErasureBlockers {
  /** `branch/name`. */
  readonly checkpoints: readonly string[];
  readonly branches: readonly string[];
}

/**
 * How far an erasure has come: `begun` until the data is gone from the branch and its point is known; `pending` until
 * it is provably gone from history; `blocked` while something named keeps it there; `completed` for good.
 */
type ErasureStatus = "begun" | "pending" | "blocked" | "completed";

/** An erasure as object storage keeps it. */
export interface ErasureCoupon {
  /** `ers_` and a ULID. */
  readonly id: string;
  /** The database. */
  readonly uuid: string;
  /** The database's name when it was asked. */
  readonly database: string;
  /** The branch that it was asked for on. */
  readonly branch: string;
  readonly target: ErasureTarget;
  readonly status: ErasureStatus;
  /** The memories that were erased; none while begun. */
  readonly memoryIds: readonly string[];
  /**
   * Where records were erased by their names: keyed hashes of them, in hex, which tell nothing once the traces' key is
   * destroyed. Absent while begun.
   */
  readonly records?: readonly string[] | undefined;
  /** How many of each kind were erased; where a subject was. */
  readonly kinds?: ErasedKinds | undefined;
  readonly requestedAtMs: number;
  readonly graceUntilMs: number;
  /** Where it was erased; none while begun. */
  readonly points: readonly ErasurePoint[];
  /** On blocked coupons only. */
  readonly blockedBy?: ErasureBlockers | undefined;
  /** In words, why it is not further; never on completed coupons. */
  readonly waitingFor?: string | undefined;
  /** On some pending coupons only. */
  readonly awaiting?: AwaitedCopies | undefined;
  /** On pending and blocked coupons, and maybe on begun ones; destroyed on completion. */
  readonly traces?: Traces | undefined;
  /** On completed coupons only, as is `receipt`. */
  readonly completedAtMs?: number | undefined;
  readonly receipt?: ErasureReceipt | undefined;
}

const plainVersion = 1;
const awaitingVersion = 2;
/** From which on a coupon can be of records by their names. */
export const recordsVersion = 3;
/** Of the keyed hash of a record that was erased. */
export const recordIdBytes = 16;
const nonceBytes = 16;
const traceKeyBytes = 32;
const sumDigits = 32;
const sumStart = '{"sum":"';
const sumEnd = '",';
const sumBytes = sumStart.length + sumDigits + sumEnd.length;

const isBase64 = matching(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
const isNames = listOf(isText, erasureBlockersMax);

/** The members that every coupon has, and those that some have. */
const isId = textThat(isBranchId);
const isNode = textThat(isNodeId);
const isCopy = textThat(isUlid);

const isRecord = shapeOf({
  v: oneOf(plainVersion, awaitingVersion, recordsVersion),
  nonce: matching(/^[0-9a-f]{32}$/),
  id: isErasureId,
  uuid: matching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  database: isText,
  branch: isText,
  target: isTargetFields,
  status: oneOf("begun", "pending", "blocked", "completed"),
  memory_ids: listOf(isMemoryId, limits.erasureMemoriesMax),
  records: maybe(listOf(matching(/^[0-9a-f]{32}$/), limits.erasureMemoriesMax)),
  kinds: maybe(mapOf(isCount, erasedKindsMax)),
  requested_at: isTimeMs,
  grace_until: isTimeMs,
  points: listOf(
    shapeOf({
      branch: isText,
      branch_id: isId,
      txid: isCount,
      ancestors: maybe(listOf(shapeOf({ branch_id: isId, fork_txid: isCount }), limits.branchesMax)),
    }),
    limits.branchesMax,
  ),
  blocked_by: maybe(shapeOf({ checkpoints: isNames, branches: isNames })),
  waiting_for: maybe(isText),
  awaiting: maybe(
    shapeOf({
      branches: listOf(isId, limits.branchesMax),
      copies: listOf(shapeOf({ node: isNode, copy: isCopy }), limits.copiesMax),
    }),
  ),
  traces: maybe(shapeOf({ key: isBase64, windows: isBase64, windows_total: isCount })),
  completed_at: maybe(isTimeMs),
  receipt: maybe((receipt) => readReceipt(receipt) !== undefined),
});

interface PointRecord {
  readonly branch: string;
  readonly branch_id: string;
  readonly txid: number;
  readonly ancestors?: readonly { readonly branch_id: string; readonly fork_txid: number }[] | undefined;
}

/** What isRecord takes. */
interface CouponRecord {
  readonly v: 1 | 2 | 3;
  readonly nonce: string;
  readonly id: string;
  readonly uuid: string;
  readonly database: string;
  readonly branch: string;
  readonly target: TargetFields;
  readonly status: ErasureStatus;
  readonly memory_ids: readonly string[];
  readonly records?: readonly string[] | undefined;
  readonly kinds?: ErasedKinds | undefined;
  readonly requested_at: number;
  readonly grace_until: number;
  readonly points: readonly PointRecord[];
  readonly blocked_by?: ErasureBlockers | undefined;
  readonly waiting_for?: string | undefined;
  readonly awaiting?: AwaitedCopies | undefined;
  readonly traces?: { readonly key: string; readonly windows: string; readonly windows_total: number } | undefined;
  readonly completed_at?: number | undefined;
  readonly receipt?: ErasureReceipt | undefined;
}

/** Whether the coupon has what its status asks for, and nothing that it forbids. */
function fitsStatus({
  status,
  memoryIds,
  points,
  blockedBy,
  waitingFor,
  awaiting,
  traces,
  completedAtMs,
  receipt,
  id,
  uuid,
  target,
  records,
  kinds,
}: ErasureCoupon): boolean {
  const isCompleted = status === "completed";
  const isOfRecords = isRecordFields(targetFields(target));
  if ((records !== undefined) !== (isOfRecords && status !== "begun")) return false;
  if ((kinds !== undefined) !== (target.kind === "subject" && status !== "begun")) return false;
  if ((completedAtMs !== undefined) !== isCompleted || (receipt !== undefined) !== isCompleted) return false;
  if ((blockedBy !== undefined) !== (status === "blocked")) return false;
  if (awaiting !== undefined && status !== "pending") return false;
  if (traces !== undefined && (isCompleted || traces.key.length !== traceKeyBytes)) return false;
  if (isCompleted)
    return waitingFor === undefined && receipt?.payload.erasure_id === id && receipt.payload.uuid === uuid;
  if (status === "begun") return memoryIds.length === 0 && points.length === 0;
  return traces !== undefined && points.length > 0;
}

/**
 * A program that does not know of copies must not carry on an erasure that waits for some, nor one that does not know
 * of records an erasure of them.
 */
function versionOf({ target, awaiting }: ErasureCoupon): CouponRecord["v"] {
  if (isRecordFields(targetFields(target))) return recordsVersion;
  return awaiting ? awaitingVersion : plainVersion;
}

/** The object of a coupon. Every put has a nonce of its own, 16 random bytes. */
export function encodeCoupon(coupon: ErasureCoupon, nonce: Uint8Array): Uint8Array {
  const { id, uuid, database, branch, status, blockedBy, awaiting, traces } = coupon;
  assert(nonce.length === nonceBytes, "a nonce has 16 bytes");
  const record: CouponRecord = {
    v: versionOf(coupon),
    nonce: toHex(nonce),
    id,
    uuid,
    database,
    branch,
    target: targetFields(coupon.target),
    status,
    memory_ids: coupon.memoryIds,
    records: coupon.records,
    kinds: coupon.kinds,
    requested_at: coupon.requestedAtMs,
    grace_until: coupon.graceUntilMs,
    points: coupon.points.map((point) => ({
      branch: point.branch,
      branch_id: point.branchId,
      txid: point.txid,
      ancestors: point.ancestors?.map((one) => ({ branch_id: one.branchId, fork_txid: one.forkTxid })),
    })),
    blocked_by: blockedBy && {
      checkpoints: blockedBy.checkpoints.slice(0, erasureBlockersMax),
      branches: blockedBy.branches.slice(0, erasureBlockersMax),
    },
    waiting_for: coupon.waitingFor,
    awaiting,
    traces: traces && {
      key: Buffer.from(traces.key).toString("base64"),
      windows: Buffer.from(traces.windows).toString("base64"),
      windows_total: traces.windowsTotal,
    },
    completed_at: coupon.completedAtMs,
    receipt: coupon.receipt,
  };
  assert(isRecord(record) && fitsStatus(coupon), "a coupon has what its status asks for");
  const summed = JSON.stringify(record).slice(1);
  const bytes = encodeUtf8(`${sumStart}${computeSum(encodeUtf8(summed))}${sumEnd}${summed}`);
  assert(bytes.length <= limits.erasureCouponBytesMax, `a coupon has at most ${limits.erasureCouponBytesMax} bytes`);
  return bytes;
}

/**
 * Throws StoreError("corrupt") for anything but a coupon, NewerFormat for one of a newer build: never "no such
 * erasure".
 */
export function decodeCoupon(bytes: Uint8Array): ErasureCoupon {
  const value = parseJson(bytes);
  if (isObject(value)) requireVersion(formats.coupon, value["v"]);
  const coupon = isRecord(value) ? toCoupon(value as unknown as CouponRecord) : undefined;
  if (!coupon || !fitsStatus(coupon) || (value as { v?: unknown }).v !== versionOf(coupon))
    throw new StoreError("corrupt", "a coupon has a form that no coupon has");
  return coupon;
}

/** What the object says, if it is whole. The parser's own message would quote it. */
function parseJson(bytes: Uint8Array): unknown {
  const [text, summed] = [decodeUtf8(bytes), bytes.subarray(sumBytes)];
  if (!text?.startsWith(`${sumStart}${computeSum(summed)}${sumEnd}`))
    throw new StoreError("corrupt", "a coupon is cut or changed: its checksum is wrong");
  try {
    return JSON.parse(`{${text.slice(sumBytes)}`);
  } catch {
    throw new StoreError("corrupt", "a coupon is not JSON");
  }
}

function toCoupon(record: CouponRecord): ErasureCoupon {
  const { id, uuid, database, branch, status, traces } = record;
  return {
    id,
    uuid,
    database,
    branch,
    target: toTarget(record.target),
    status,
    memoryIds: record.memory_ids,
    ...(record.records && { records: record.records }),
    ...(record.kinds && { kinds: record.kinds }),
    requestedAtMs: record.requested_at,
    graceUntilMs: record.grace_until,
    points: record.points.map((point) => ({
      branch: point.branch,
      branchId: point.branch_id,
      txid: point.txid,
      ancestors: point.ancestors?.map((one) => ({ branchId: one.branch_id, forkTxid: one.fork_txid })),
    })),
    blockedBy: record.blocked_by,
    waitingFor: record.waiting_for,
    ...(record.awaiting && { awaiting: record.awaiting }),
    traces: traces && {
      key: new Uint8Array(Buffer.from(traces.key, "base64")),
      windows: new Uint8Array(Buffer.from(traces.windows, "base64")),
      windowsTotal: traces.windows_total,
    },
    completedAtMs: record.completed_at,
    receipt: record.receipt,
  };
}

function computeSum(bytes: Uint8Array): string {
  return toHex(computeSha256(bytes)).slice(0, sumDigits);
}
