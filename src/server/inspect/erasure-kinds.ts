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
  toTarget,
  type ErasureTarget,
  type ErasureReceipt,
  type TargetFields,
} from "../../format/erasure/erasure-receipt.ts";
import { traceBytes } from "../../format/erasure/traces.ts";
import { isObject } from "../../format/core/json-shape.ts";
import { formats, requireVersion } from "../../format/core/versions.ts";
import { plain, size, buildTable, time, type Account, type Fields, type Table } from "./account.ts";
import { parseJsonObject } from "./record-kinds.ts";

/** Throws StoreError("corrupt") and NewerFormat, as the other one here. */
export function buildCouponAccount(bytes: Uint8Array): Account {
  const coupon = decodeCoupon(bytes);
  const { blockedBy, awaiting, traces, receipt } = coupon;
  return {
    fields: {
      id: plain(coupon.id),
      status: plain(coupon.status),
      database: plain(coupon.uuid),
      database_name: plain(coupon.database),
      branch: plain(coupon.branch),
      ...buildTargetFields(targetFields(coupon.target)),
      requested_at: time(coupon.requestedAtMs),
      grace_until: time(coupon.graceUntilMs),
      completed_at: time(coupon.completedAtMs),
      waiting_for: plain(coupon.waitingFor),
      traces: plain(traces && traces.windows.length / traceBytes),
      traces_total: plain(traces?.windowsTotal),
      receipt_kid: plain(receipt?.kid),
    },
    tables: {
      points: buildTable(coupon.points, {
        branch: ({ branch }) => plain(branch),
        branch_id: ({ branchId }) => plain(branchId),
        txid: ({ txid }) => plain(txid),
        ancestors: ({ ancestors }) => plain(ancestors?.length ?? 0),
      }),
      memory_ids: buildIdsTable(coupon.memoryIds),
      records: buildIdsTable(coupon.records ?? []),
      blocked_by_checkpoints: buildNamesTable(blockedBy?.checkpoints),
      blocked_by_branches: buildNamesTable(blockedBy?.branches),
      awaited_copies: buildTable(awaiting?.copies ?? [], {
        node_id: ({ node }) => plain(node),
        copy: ({ copy }) => plain(copy),
      }),
    },
    damage: [],
  };
}

export function buildReceiptAccount(bytes: Uint8Array): Account {
  const value = parseJsonObject(bytes, "a receipt");
  if (isObject(value["payload"])) requireVersion(formats.receipt, value["payload"]["v"]);
  const receipt = readReceipt(value);
  if (!receipt) throw new StoreError("corrupt", "a receipt has a form that no receipt has");
  return buildReceiptFields(receipt);
}

function buildReceiptFields({ payload, kid, alg }: ErasureReceipt): Account {
  const { evidence } = payload;
  return {
    fields: {
      kid: plain(kid),
      alg: plain(alg),
      id: plain(payload.erasure_id),
      database: plain(payload.uuid),
      database_name: plain(payload.db),
      ...buildTargetFields(payload.target),
      requested_at: time(payload.requested_at),
      completed_at: time(payload.completed_at),
      method: plain(payload.method),
      objects_scanned: plain(evidence.objects.scanned),
      object_bytes: size(evidence.objects.bytes),
      pages_scanned: plain(evidence.pages_scanned),
      traces: plain(evidence.traces.looked_for),
    },
    tables: {
      erased_txids: buildTable(Object.entries(payload.erased_txid), {
        branch: ([branch]) => plain(branch),
        txid: ([, txid]) => plain(txid),
      }),
      memory_ids: buildIdsTable(payload.memory_ids),
      unattested_nodes: buildTable(evidence.unattested ?? [], { node_id: (node) => plain(node) }),
    },
    damage: [],
  };
}

/** What was asked for, without what the tenant has written. */
function buildTargetFields(target: TargetFields): Fields {
  if ("memory_id" in target) return { target: plain("memory"), target_memory_id: plain(target.memory_id) };
  if ("topic_key" in target)
    return {
      target: plain("topic"),
      target_type: plain(target.type),
      target_topic_key_bytes: size(utf8Length(target.topic_key)),
    };
  if (!("turns" in target)) return buildRecordFields(toTarget(target));
  return {
    target: plain("session"),
    target_turns: plain(target.turns),
    target_session_id_bytes: size(utf8Length(target.session_id)),
  };
}

/** Of records: how long their names are, and the number of a turn. */
function buildRecordFields({ kind, ...names }: ErasureTarget): Fields {
  const told = Object.entries(names).map(([name, value]: [string, string | number]) =>
    typeof value === "number"
      ? [`target_${snakeCase(name)}`, plain(value)]
      : [`target_${snakeCase(name)}_bytes`, size(utf8Length(value))],
  );
  return { target: plain(kind), ...(Object.fromEntries(told) as Fields) };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function buildIdsTable(ids: readonly string[]): Table {
  return buildTable(ids, { id: (id) => plain(id) });
}

function buildNamesTable(names: readonly string[] = []): Table {
  return buildTable(names, { name: (name) => plain(name) });
}
