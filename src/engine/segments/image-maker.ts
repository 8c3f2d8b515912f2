/**
 * Images of a database file that has no log and does not change meanwhile: what the file says of itself, and its pages
 * as segments.
 *
 * Plain data in, plain data out, so that any thread can do it (engine/segments/threaded-maker). Always true: a frame of
 * 1 MiB and the compressed bytes are all that is held. Must not know: object storage, where the file comes from.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { lockPage, makeCanonical, pageBytes } from "../../format/history/pages.ts";
import type { Compression } from "../../format/core/compression.ts";
import { encodeFrames, framePages } from "../../format/history/segment.ts";
import { readState, type DatabaseState } from "../../model/core/database-state.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { getSqliteCode } from "../../sqlite/sql-authorizer.ts";
import { checkFile } from "../../sqlite/soundness.ts";

/** Which pages of which file become one object. */
export interface ImageOrder {
  readonly path: string;
  /** The first and the last page. */
  readonly from: number;
  readonly to: number;
  /** Size of the database. */
  readonly pages: number;
  readonly txid: number;
  readonly committedAtMs: number;
  readonly uuid: string;
  readonly branchId: string;
  readonly epoch: number;
}

export interface MadeImage {
  readonly bytes: Uint8Array;
  readonly rawBytes: number;
  /** SHA-256 of the bytes. */
  readonly sha256: Uint8Array;
}

/** The canonical images of the pages, as one segment. */
export async function makeImage({ path, from, to, ...order }: ImageOrder, press: Compression): Promise<MadeImage> {
  const { pages, txid, committedAtMs } = order;
  const pageNumbers = Uint32Array.from({ length: to - from + 1 }, (_, at) => from + at).filter(
    (page) => page !== lockPage,
  );
  const room = new Uint8Array(Math.min(pageNumbers.length, framePages) * pageBytes);
  const descriptor = openSync(path, "r");
  try {
    // One group stands in its own order.
    const frame = (numbers: Uint32Array): Uint8Array =>
      readImages(descriptor, pageNumbers.subarray(numbers[0], numbers[0]! + numbers.length), room);
    const bytes = await encodeFrames(
      { ...order, kind: "image", groups: [{ txid, committedAtMs, pages, pageNumbers }] },
      frame,
      press,
    );
    return { bytes, rawBytes: pageNumbers.length * pageBytes, sha256: await press.digest(bytes) };
  } finally {
    closeSync(descriptor);
  }
}

/** The canonical images of some pages, neighbours but for the lock page, read into `room`. */
function readImages(descriptor: number, pageNumbers: Uint32Array, room: Uint8Array): Uint8Array {
  const bytes = room.subarray(0, pageNumbers.length * pageBytes);
  for (let at = 0; at < pageNumbers.length;) {
    let end = at + 1;
    while (end < pageNumbers.length && pageNumbers[end] === pageNumbers[end - 1]! + 1) end++;
    readWhole(descriptor, bytes.subarray(at * pageBytes, end * pageBytes), (pageNumbers[at]! - 1) * pageBytes);
    at = end;
  }
  for (const [at, page] of pageNumbers.entries())
    makeCanonical(bytes.subarray(at * pageBytes, (at + 1) * pageBytes), page);
  return bytes;
}

function readWhole(descriptor: number, into: Uint8Array, position: number): void {
  for (let done = 0; done < into.length;) {
    const count = readSync(descriptor, into, done, into.length - done, position + done);
    if (count === 0) throw new StoreError("corrupt", "a database file ends while it is read");
    done += count;
  }
}

/**
 * The state row of a database file; with `check`, once nothing was found wrong with the file (sqlite/soundness), for
 * which `pause` is waited for now and then.
 */
export async function readStateRow(path: string, check: boolean, pause?: () => Promise<void>): Promise<DatabaseState> {
  try {
    if (check) for (const _turn of checkFile(path)) await pause?.();
    const connection = new Connection(path, { readonly: true, pageCacheKiB: limits.pageCacheKiB });
    try {
      return readState(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    if (getSqliteCode(error) === undefined) throw error;
    throw new StoreError("corrupt", "SQLite cannot read the restored state", { cause: error });
  }
}
