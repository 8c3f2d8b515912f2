/**
 * A branch's timeline in as many objects as it has groups: what an older build, or a failure that lasted, leaves
 * behind.
 */
import { limits } from "../../src/base/limits.ts";
import { ulidAfter } from "../../src/base/world.ts";
import { encodeManifest, computeSha256, type Manifest } from "../../src/format/history/manifest.ts";
import { manifestKey, parsePoolId, poolId, segmentKey } from "../../src/format/keys/object-keys.ts";
import { pageBytes } from "../../src/format/history/pages.ts";
import { inlinePress } from "../../src/format/core/compression.ts";
import type { SegmentRef } from "../../src/format/history/refs.ts";
import { decodeSegments, encodeSegment } from "../../src/format/history/segment.ts";
import type { VirtualTime } from "./timed-engine.ts";

/**
 * Splits the deltas of the branch's timeline, the newest first, until it has `refsMax` references. Whoever writes it
 * must be stopped.
 */
export async function splitTimeline(
  time: VirtualTime,
  uuid: string,
  refsMax: number = limits.timelineRefsMax,
  branchId = "main",
): Promise<Manifest> {
  const { store } = time;
  const manifest = time.manifest(uuid, branchId);
  const refs: SegmentRef[] = [];
  for (const [at, ref] of manifest.refs.toReversed().entries()) {
    const room = refsMax - refs.length - (manifest.refs.length - at) + 1;
    refs.unshift(
      ...(ref.kind === "delta" && !ref.cut && room > 1 ? await cutIntoPieces(time, uuid, ref, room) : [ref]),
    );
  }
  const key = manifestKey(uuid, branchId);
  const { bytes, version } = store.read(key)!;
  const next: Manifest = {
    ...manifest,
    seq: manifest.seq + 1,
    nonce: new Uint8Array(16).fill(manifest.seq % 256),
    prevHash: computeSha256(bytes),
    refs,
  };
  await store.calm.put(key, encodeManifest(next), { kind: "version", version });
  return next;
}

/** At most so many objects; the last one has the rest. */
async function cutIntoPieces(
  { store }: VirtualTime,
  uuid: string,
  ref: SegmentRef,
  most: number,
): Promise<SegmentRef[]> {
  const segments = await decodeSegments(store.read(segmentKey(uuid, ref.id))!.bytes, inlinePress);
  const all = segments.flatMap(({ groups }) => groups);
  const { branchId, epoch, ulid } = parsePoolId(ref.id)!;
  const pieces: SegmentRef[] = [];
  for (
    let at = 0, next = ulidAfter(ulid);
    at < all.length;
    at += pieces.at(-1)!.lastTxid - pieces.at(-1)!.firstTxid + 1, next = ulidAfter(next)
  ) {
    const groups = pieces.length === most - 1 ? all.slice(at) : [all[at]!];
    const [first, last] = [groups[0]!, groups.at(-1)!];
    const bytes = await encodeSegment({ ...segments[0]!, groups }, inlinePress);
    const id = poolId(branchId, epoch, next);
    await store.calm.put(segmentKey(uuid, id), bytes, { kind: "absent" });
    const rawBytes = groups.reduce((sum, { images }) => sum + images.length, 0) * pageBytes;
    pieces.push({
      kind: "delta",
      id,
      firstTxid: first.txid,
      lastTxid: last.txid,
      cut: false,
      lastAtMs: last.committedAtMs,
      bytes: bytes.length,
      rawBytes,
      sha256: computeSha256(bytes),
    });
  }
  return pieces;
}
