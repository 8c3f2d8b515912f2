/**
 * What is said of an object of the pool: its segments, and the groups in them with their page numbers.
 *
 * Always true: frames are proven by their checksums and never decompressed, so no page is looked at. Of an object that
 * is damaged in its midst, the segments before the damage are told, and where the damage begins. Must not know: where
 * the bytes came from.
 */
import { crc32 } from "node:zlib";
import { StoreError } from "../../base/faults/errors.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import { pageBytes } from "../../format/history/pages.ts";
import { readSegmentIndexes, type SegmentIndex } from "../../format/history/segment.ts";
import { plain, ranges, size, buildTable, time, type Account } from "./account.ts";
import { findShellDamage } from "./shell.ts";

/** Every segment begins with it. */
export const segmentMagic = "PLSG";

/** Places that are tried for the end of a sound segment; a frame may hold the magic by chance. */
const endsTriedMax = 4096;

/** The segments that could be read, and what is wrong with the rest. */
interface Readable {
  readonly indexes: readonly SegmentIndex[];
  readonly damage: readonly string[];
}

/** Throws what the decoder throws where not even the first segment can be read. */
export function buildSegmentAccount(object: Uint8Array): Account {
  const { indexes, damage } = findReadable(object);
  const groups = indexes.flatMap((index, segment) => index.groups.map((group) => ({ ...group, segment })));
  const images = groups.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0);
  return {
    fields: {
      database: plain(indexes[0]!.uuid),
      first_txid: plain(groups[0]!.txid),
      last_txid: plain(groups.at(-1)!.txid),
      page_images: plain(images),
      raw_bytes: size(images * pageBytes),
    },
    tables: {
      segments: buildTable([...indexes.entries()], {
        segment: ([at]) => plain(at),
        offset: ([, { offset }]) => plain(offset),
        bytes: ([, { bytes }]) => size(bytes),
        kind: ([, { kind }]) => plain(kind),
        first_txid: ([, { groups: own }]) => plain(own[0]!.txid),
        last_txid: ([, { groups: own }]) => plain(own.at(-1)!.txid),
        epoch: ([, { epoch }]) => plain(epoch),
        frames: ([, { frames }]) => plain(frames.length),
        branch_id: ([, { branchId }]) => plain(branchId),
      }),
      groups: buildTable(groups, {
        segment: ({ segment }) => plain(segment),
        txid: ({ txid }) => plain(txid),
        committed_at: ({ committedAtMs }) => time(committedAtMs),
        pages: ({ pages }) => plain(pages),
        page_images: ({ pageNumbers }) => plain(pageNumbers.length),
        page_numbers: ({ pageNumbers }) => ranges(pageNumbers),
      }),
    },
    damage: [...damage, ...indexes.flatMap((index, segment) => findFrameDamage(object, index, segment))],
  };
}

function findReadable(object: Uint8Array): Readable {
  try {
    return { indexes: readSegmentIndexes(object), damage: [] };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    const { indexes, end } = findSoundPrefix(object);
    if (indexes.length === 0) throw error;
    const rest = object.subarray(end);
    return {
      indexes,
      damage: [`from byte ${end} on: ${explainDamage(rest, error)}`, ...findShellDamage(rest, segmentMagic, end)],
    };
  }
}

function explainDamage(rest: Uint8Array, outer: StoreError): string {
  try {
    readSegmentIndexes(rest);
  } catch (error) {
    if (error instanceof StoreError) return error.message;
    throw error;
  }
  return outer.message;
}

/** The segments before the first that cannot be read, and where that one begins. */
function findSoundPrefix(object: Uint8Array): { readonly indexes: readonly SegmentIndex[]; readonly end: number } {
  const haystack = Buffer.from(object.buffer, object.byteOffset, object.byteLength);
  const indexes: SegmentIndex[] = [];
  let end = 0;
  let next = haystack.indexOf(segmentMagic, 1);
  for (let tried = 0; next >= 0 && tried < endsTriedMax; tried++) {
    const read = readOrNothing(object.subarray(end, next));
    if (read) {
      indexes.push(...read.map((index) => moveIndex(index, end)));
      end = next;
    }
    next = haystack.indexOf(segmentMagic, next + 1);
  }
  return { indexes, end };
}

function readOrNothing(bytes: Uint8Array): readonly SegmentIndex[] | undefined {
  try {
    return readSegmentIndexes(bytes);
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

/** The index as it is when the object begins so many bytes earlier. */
function moveIndex(index: SegmentIndex, bytes: number): SegmentIndex {
  return {
    ...index,
    offset: index.offset + bytes,
    frames: index.frames.map((frame) => ({ ...frame, offset: frame.offset + bytes })),
  };
}

function findFrameDamage(object: Uint8Array, { frames }: SegmentIndex, segment: number): readonly string[] {
  return frames.flatMap(({ offset, bytes, crc32: sum }, frame) =>
    crc32(object.subarray(offset, offset + bytes)) === sum
      ? []
      : [
          `frame ${frame} of segment ${segment} (bytes ${offset} to ${offset + bytes - 1}) has another checksum ` +
            "than its index says",
        ],
  );
}
