/**
 * The shapes of acts on branches in forwarded calls. A build that does not know an act refuses it.
 *
 * Must not know how payloads are written.
 */
import type { BranchAct, ErasedCoupon } from "../../engine/api/protocol.ts";
import type { Traces } from "../../format/erasure/erasure-coupon.ts";
import { erasedRecords, erasureTarget } from "./command-shapes.ts";
import { boolean, bytes, list, maybe, number, oneOf, record, type Shape, text, variants } from "./payload-shapes.ts";

const coupon = record<ErasedCoupon>({
  id: text,
  memoryIds: list(text),
  records: maybe(erasedRecords),
  points: list(
    record({
      branch: text,
      branchId: text,
      txid: number,
      ancestors: maybe(list(record({ branchId: text, forkTxid: number }))),
    }),
  ),
  traces: record<Traces>({ key: bytes, windows: bytes, windowsTotal: number }),
  awaiting: maybe(record({ branches: list(text), copies: list(record({ node: text, copy: text })) })),
  isDue: boolean,
});

export const actShape: Shape<BranchAct> = variants<"act", BranchAct>("act", {
  fork: record({ act: oneOf("fork"), name: text, at: maybe(text), ttlSecs: maybe(number) }),
  list: record({ act: oneOf("list") }),
  delete: record({ act: oneOf("delete"), name: text }),
  checkpoint: record({ act: oneOf("checkpoint"), name: text }),
  checkpoints: record({ act: oneOf("checkpoints") }),
  "forget-checkpoint": record({ act: oneOf("forget-checkpoint"), name: text }),
  rewind: record({ act: oneOf("rewind"), to: text }),
  sweep: record({ act: oneOf("sweep"), branchId: text }),
  erase: record({ act: oneOf("erase"), couponId: text, erase: erasureTarget, traceKey: bytes }),
  expunge: record({ act: oneOf("expunge"), coupons: list(coupon) }),
});
