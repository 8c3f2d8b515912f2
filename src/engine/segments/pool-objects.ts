/**
 * Objects of the pool, fetched and proven to be what their references say.
 *
 * Always true: an object that leaves here has the length and SHA-256 of its reference, belongs to the database, is of
 * the right kind, and its groups rise from exactly the first to the last transaction id that the reference names. What
 * is missing, truncated or rotten is a StoreError that names the object and its transaction ids. Must not know:
 * timelines, files.
 */
import { assert } from "../../base/faults/assert.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { TailSegment, TxidRange } from "../../format/history/manifest.ts";
import { segmentKey } from "../../format/keys/object-keys.ts";
import type { Compression } from "../../format/core/compression.ts";
import type { SegmentKind, SegmentRef } from "../../format/history/refs.ts";
import { readSegmentIndexes, type SegmentIndex } from "../../format/history/segment.ts";
import type { Disk } from "../../base/disk.ts";
import type { FetchedObject, SegmentMaker } from "./segment-maker.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { putImmutable, sameBytes } from "../../store/port/sure-put.ts";

const restoreBytesMax = 128 * 1024 * 1024;

/** Where a database's page data comes from, and what reading it takes. */
export interface PageSource {
  readonly store: ObjectStore;
  readonly uuid: string;
  readonly press: Compression;
  readonly disk: Disk;
  /** What makes segments; by default the caller's thread does. */
  readonly maker?: SegmentMaker;
}

/** Bytes of segments, and what they say. */
export interface SegmentBytes {
  readonly bytes: Uint8Array;
  readonly indexes: readonly SegmentIndex[];
}

/** An object that is what its reference says. */
export interface PoolObject extends SegmentBytes {
  readonly ref: SegmentRef;
}

/** An object is missing, or not what its references say. */
export class RottenObject extends StoreError {
  readonly id: string;

  constructor(id: string, message: string, options?: { cause?: unknown }) {
    super("corrupt", message, options);
    this.id = id;
  }
}

/** What an object or a tail segment must turn out to be. */
interface Promised extends TxidRange {
  /** Undefined for a tail segment. */
  readonly id?: string;
  readonly kind: SegmentKind;
  readonly cut: boolean;
}

/** Reads an object and proves it. */
export async function fetchObject(source: PageSource, ref: SegmentRef): Promise<PoolObject> {
  return provenObject(source.uuid, await fetchBytes(source, ref));
}

/**
 * Reads an object's bytes and proves that they are those of the reference. What is not is fetched once more: it may
 * have been cut on its way.
 */
async function fetchBytes({ store, uuid, press }: PageSource, ref: SegmentRef): Promise<FetchedObject> {
  const what = `object ${ref.id}`;
  for (let attempt = 1; ; attempt++) {
    const bytes = (await store.get(segmentKey(uuid, ref.id)))?.bytes;
    if (!bytes) throw corrupt(what, ref, "is missing");
    if (bytes.length === ref.bytes && sameBytes(await press.digest(bytes), ref.sha256)) return { ref, bytes };
    if (attempt > 1) throw corrupt(what, ref, "is not what was written");
  }
}

/** Proves that a fetched object holds what its reference says. */
export function provenObject(uuid: string, { ref, bytes }: FetchedObject): PoolObject {
  return { ref, bytes, indexes: provenIndexes(`object ${ref.id}`, uuid, ref, bytes) };
}

/** Proves a segment that came within a manifest, whose own checksum covers its bytes. */
export function provenTail(uuid: string, { bytes, ...range }: TailSegment): SegmentBytes {
  return {
    bytes,
    indexes: provenIndexes("a manifest's tail segment", uuid, { ...range, kind: "delta", cut: false }, bytes),
  };
}

function corrupt(what: string, { id, firstTxid, lastTxid }: Promised, how: string, cause?: unknown): StoreError {
  const message = `${what} (transaction ids ${firstTxid} to ${lastTxid}) ${how}`;
  return id === undefined ? new StoreError("corrupt", message, { cause }) : new RottenObject(id, message, { cause });
}

/** What the segments say, if that is what was promised. */
function provenIndexes(what: string, uuid: string, promised: Promised, bytes: Uint8Array): readonly SegmentIndex[] {
  const { kind, firstTxid, lastTxid, cut } = promised;
  const indexes = readIndexes(what, promised, bytes);
  if (indexes.some((index) => index.uuid !== uuid)) throw corrupt(what, promised, "is of another database");
  if (indexes.some((index) => index.kind !== kind)) throw corrupt(what, promised, `is not of kind ${kind}`);
  const txids = indexes.flatMap(({ groups }) => groups.map(({ txid }) => txid));
  const rises = txids.every(
    (txid, at) => at === 0 || txid > txids[at - 1]! || (kind === "image" && txid === firstTxid),
  );
  const ends = cut ? txids.at(-1)! > lastTxid && txids.includes(lastTxid) : txids.at(-1) === lastTxid;
  if (!rises || txids[0] !== firstTxid || !ends) throw corrupt(what, promised, "holds other transaction ids");
  return indexes;
}

function readIndexes(what: string, promised: Promised, bytes: Uint8Array): readonly SegmentIndex[] {
  try {
    return readSegmentIndexes(bytes);
  } catch (error) {
    if (error instanceof StoreError) throw corrupt(what, promised, "cannot be read", error);
    throw error;
  }
}

type Fetched = { readonly object: FetchedObject } | { readonly error: unknown };

/** As fetchUnread, and proven to hold what the references say. */
export async function* fetchObjects(source: PageSource, refs: readonly SegmentRef[]): AsyncGenerator<PoolObject> {
  for await (const object of fetchUnread(source, refs)) yield provenObject(source.uuid, object);
}

/**
 * The objects in the order of their references, with the bytes that these say, fetched ahead: at most
 * `restoreFetchesMax` of them and, unless one alone has more, `restoreBytesMax` in memory, the one that was handed out
 * last included. After an error nothing more is begun.
 */
export async function* fetchUnread(source: PageSource, refs: readonly SegmentRef[]): AsyncGenerator<FetchedObject> {
  const ahead: { readonly bytes: number; readonly fetched: Promise<Fetched> }[] = [];
  let begun = 0;
  let bytes = 0;
  const beginMore = (): void => {
    for (let next = refs[begun]; next; next = refs[begun]) {
      if (ahead.length >= limits.restoreFetchesMax || (ahead.length > 0 && bytes + next.bytes > restoreBytesMax))
        return;
      // A failure waits as a value until its turn comes, or is not wanted any more.
      const fetched = fetchBytes(source, next).then(
        (object): Fetched => ({ object }),
        (error: unknown): Fetched => ({ error }),
      );
      ahead.push({ bytes: next.bytes, fetched });
      bytes += next.bytes;
      begun++;
    }
  };
  for (beginMore(); ahead.length > 0; beginMore()) {
    const first = ahead[0]!;
    const fetched = await first.fetched;
    if ("error" in fetched) throw fetched.error;
    yield fetched.object;
    ahead.shift();
    bytes -= first.bytes;
  }
}

/** What is put into the pool: whole segments, and what they hold. */
export interface NewObject extends TailSegment {
  readonly kind: SegmentKind;
  readonly id: string;
  /** Of the bytes, if it is known. */
  readonly sha256?: Uint8Array | undefined;
}

/** Puts an object of the pool, under a name that is used once, and gives the reference to it. */
export async function putObject(
  { store, uuid, press }: PageSource,
  { bytes, ...object }: NewObject,
): Promise<SegmentRef> {
  const sha256 = object.sha256 ?? (await press.digest(bytes));
  await putImmutable(store, segmentKey(uuid, object.id), bytes);
  return { ...object, cut: false, bytes: bytes.length, sha256 };
}

/** Segments that follow each other, as one. */
export function joined(segments: readonly TailSegment[]): TailSegment {
  const [first, last] = [segments[0], segments.at(-1)];
  assert(first && last, "something is joined");
  return {
    firstTxid: first.firstTxid,
    lastTxid: last.lastTxid,
    lastAtMs: last.lastAtMs,
    rawBytes: segments.reduce((sum, { rawBytes }) => sum + rawBytes, 0),
    bytes: segments.length === 1 ? first.bytes : Buffer.concat(segments.map(({ bytes }) => bytes)),
  };
}
