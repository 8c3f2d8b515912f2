/** References, manifests and histories as plain data. */
import type { Manifest } from "../../src/format/history/manifest.ts";
import { poolId } from "../../src/format/keys/object-keys.ts";
import type { SegmentRef } from "../../src/format/history/refs.ts";
import { emptyManifest, Ulids } from "./model-source.ts";

export const ulids = new Ulids();

export function delta(firstTxid: number, lastTxid: number, more: Partial<SegmentRef> = {}): SegmentRef {
  return {
    kind: "delta",
    id: poolId("main", 1, ulids.next()),
    firstTxid,
    lastTxid,
    cut: false,
    lastAtMs: lastTxid * 10,
    bytes: 1000,
    rawBytes: 4096,
    sha256: new Uint8Array(32),
    ...more,
  };
}

export function image(txid: number, more: Partial<SegmentRef> = {}): SegmentRef {
  return delta(txid, txid, { kind: "image", ...more });
}

export function buildManifest(refs: readonly SegmentRef[], more: Partial<Manifest> = {}): Manifest {
  const txid = more.txid ?? refs.at(-1)!.lastTxid;
  return {
    ...emptyManifest("main"),
    txid,
    reservedTo: txid + 100,
    pages: 10,
    fromTxid: refs[0]!.firstTxid,
    refs,
    writerEpochs: [{ epoch: 1, id: new Uint8Array(16), firstTxid: 1, lastTxid: txid }],
    ...more,
  };
}
