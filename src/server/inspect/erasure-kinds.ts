/**
 * What is said of the coupon of an erasure, and of a receipt that stands alone.
 *
 * Always true: a topic or a session that was to be erased is content and is told by its length; of traces only their
 * number is. That a receipt is signed by whom it says is not looked at: `verify-receipt` does that. Must not know:
 * where the bytes came from.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { utf8Length } from "../../base/bytes.ts";
import { decodeCoupon } from "../../format/erasure/erasure-coupon.ts";
import {
  readReceipt,
  targetFields,
  type ErasureReceipt,
  type TargetFields,
} from "../../format/erasure/erasure-receipt.ts";
import { traceBytes } from "../../format/erasure/traces.ts";
import { isObject } from "../../format/core/json-shape.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";
import { plain, size, buildTableName, time, type Account, type Fields, type Table } from "./account.ts";
import { jsonOf } from "./record-kinds.ts";

/** Throws StoreError("corrupt") and NewerFormat, as the other one here. */
export function couponAccount(bytes: Uint8Array): Account {
  const coupon = decodeCoupon(bytes);
  const { blockedBy, awaiting, traces, receipt } = coupon;
  return {
    fields: {
      id: plain(coupon.id),
      status: plain(coupon.status),
      database: plain(coupon.uuid),
      database_name: plain(coupon.database),
      branch: plain(coupon.branch),
      ...toldTarget(targetFields(coupon.target)),
      requested_at: time(coupon.requestedAtMs),
      grace_until: time(coupon.graceUntilMs),
      completed_at: time(coupon.completedAtMs),
      waiting_for: plain(coupon.waitingFor),
      traces: plain(traces && traces.windows.length / traceBytes),
      traces_total: plain(traces?.windowsTotal),
      receipt_kid: plain(receipt?.kid),
    },
    tables: {
      points: buildTableName(coupon.points, {
        branch: ({ branch }) => plain(branch),
        branch_id: ({ branchId }) => plain(branchId),
        txid: ({ txid }) => plain(txid),
        ancestors: ({ ancestors }) => plain(ancestors?.length ?? 0),
      }),
      memory_ids: idsTable(coupon.memoryIds),
      blocked_by_checkpoints: namesTable(blockedBy?.checkpoints),
      blocked_by_branches: namesTable(blockedBy?.branches),
      awaited_copies: buildTableName(awaiting?.copies ?? [], {
        node_id: ({ node }) => plain(node),
        copy: ({ copy }) => plain(copy),
      }),
    },
    damage: [],
  };
}

export function receiptAccount(bytes: Uint8Array): Account {
  const value = jsonOf(bytes, "a receipt");
  if (isObject(value["payload"])) requireVersion(formats.receipt, value["payload"]["v"]);
  const receipt = readReceipt(value);
  if (!receipt) throw new StoreError("corrupt", "a receipt has a form that no receipt has");
  return accountOfReceipt(receipt);
}

function accountOfReceipt({ payload, kid, alg }: ErasureReceipt): Account {
  const { evidence } = payload;
  return {
    fields: {
      kid: plain(kid),
      alg: plain(alg),
      id: plain(payload.erasure_id),
      database: plain(payload.uuid),
      database_name: plain(payload.db),
      ...toldTarget(payload.target),
      requested_at: time(payload.requested_at),
      completed_at: time(payload.completed_at),
      method: plain(payload.method),
      objects_scanned: plain(evidence.objects.scanned),
      object_bytes: size(evidence.objects.bytes),
      pages_scanned: plain(evidence.pages_scanned),
      traces: plain(evidence.traces.looked_for),
    },
    tables: {
      erased_txids: buildTableName(Object.entries(payload.erased_txid), {
        branch: ([branch]) => plain(branch),
        txid: ([, txid]) => plain(txid),
      }),
      memory_ids: idsTable(payload.memory_ids),
      unattested_nodes: buildTableName(evidence.unattested ?? [], { node_id: (node) => plain(node) }),
    },
    damage: [],
  };
}

/** What was asked for, without what the tenant has written. */
function toldTarget(target: TargetFields): Fields {
  if ("memory_id" in target) return { target: plain("memory"), target_memory_id: plain(target.memory_id) };
  if ("topic_key" in target)
    return {
      target: plain("topic"),
      target_type: plain(target.type),
      target_topic_key_bytes: size(utf8Length(target.topic_key)),
    };
  return {
    target: plain("session"),
    target_turns: plain(target.turns),
    target_session_id_bytes: size(utf8Length(target.session_id)),
  };
}

function idsTable(ids: readonly string[]): Table {
  return buildTableName(ids, { id: (id) => plain(id) });
}

function namesTable(names: readonly string[] = []): Table {
  return buildTableName(names, { name: (name) => plain(name) });
}
