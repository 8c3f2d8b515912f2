/**
 * From objects to a database file, and from an older state of it to a newer one.
 *
 * Groups are laid from the newest to the oldest (engine/segments/page-file). Always true: a file appears under its name
 * whole, proven and synced, or not at all; a file that is being rolled forward has a marker beside it while it is a
 * mixture. What is missing or rotten is a StoreError, never a page that is not the state's. Must not know: SQLite
 * connections, manifests, branches.
 *
 * Memory: the objects that are fetched ahead (engine/segments/pool-objects), one frame of 1 MiB and its compressed
 * bytes, one bit per page of the database and four bytes per image of one segment. The thread is held for as long as
 * one SHA-256 of an object or one write of a frame takes.
 */
import { closeSync, existsSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { assert } from "../../base/faults/assert.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { databaseMagic, lockPage, pageBytes } from "../../format/history/pages.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import type { Plan } from "../history/timelines.ts";
import { corrupt, PageFile, type Laying } from "./page-file.ts";
import {
  fetchObject,
  fetchObjects,
  fetchUnread,
  provenObject,
  provenTail,
  type PageSource,
  type PoolObject,
} from "./pool-objects.ts";
import type { FetchedObject, SegmentMaker } from "./segment-maker.ts";

/** What a copy lacks is fetched before it is closed and touched, unless there is more of it. */
const rollBytesHeldMax = 16 * 1024 * 1024;

/** How a restore is watched and ended early. */
export interface RestoreOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called after each object. */
  readonly progress?: ((done: { readonly bytes: number; readonly bytesTotal: number }) => void) | undefined;
}

/** Where the database's header says its page size. */
const pageSizeAt = 16;

/** Proves that the objects of an image, one after the other, hold every page of one state. */
class WholeImage {
  #pages: number | undefined;
  #next = 1;

  add({ ref, indexes }: PoolObject): void {
    for (const { groups } of indexes) {
      const { pages, pageNumbers } = groups[0]!;
      this.#pages ??= pages;
      if (pages !== this.#pages) throw corrupt(`object ${ref.id} is of an image of another size`);
      for (const page of pageNumbers) {
        if (page !== this.#expected())
          throw corrupt(`object ${ref.id} does not hold page ${this.#expected()} of its image`);
        this.#next = page + 1;
      }
    }
  }

  end(): void {
    if (this.#pages !== undefined && this.#expected() <= this.#pages)
      throw corrupt(`no object holds page ${this.#expected()} of an image`);
  }

  #expected(): number {
    return this.#next === lockPage ? lockPage + 1 : this.#next;
  }
}

type Objects = Iterable<PoolObject> | AsyncIterable<PoolObject>;

/** What holds groups above `aboveTxid`, newest first, the images last. */
function refsAbove({ images, deltas }: Plan, aboveTxid: number): readonly SegmentRef[] {
  return [...deltas.toReversed(), ...images].filter(({ lastTxid }) => lastTxid > aboveTxid);
}

function sumBytes(refs: readonly SegmentRef[]): number {
  return refs.reduce((sum, ref) => sum + ref.bytes, 0);
}

/**
 * Lays every group of the plan above `aboveTxid`, newest first, and the images if they are above it. `objects` are
 * those that hold them.
 */
async function layPlan(
  file: PageFile,
  source: Laying,
  plan: Plan,
  aboveTxid: number,
  objects: Objects,
  { signal, progress }: RestoreOptions,
): Promise<void> {
  const refs = refsAbove(plan, aboveTxid);
  const deltasAboveTxid = refs.find(({ kind }) => kind === "image")?.lastTxid ?? aboveTxid;
  for (const segment of plan.tail.toReversed())
    await file.lay(provenTail(source.uuid, segment), deltasAboveTxid, plan.txid);
  const image = new WholeImage();
  const bytesTotal = sumBytes(refs);
  let bytes = 0;
  for await (const object of objects) {
    signal?.throwIfAborted();
    const { kind, lastTxid } = object.ref;
    if (kind === "image") {
      image.add(object);
      await file.lay(object, aboveTxid, lastTxid);
    } else {
      await file.lay(object, deltasAboveTxid, Math.min(lastTxid, plan.txid));
    }
    bytes += object.bytes.length;
    progress?.({ bytes, bytesTotal });
  }
  image.end();
}

/** Refuses a file that SQLite would not take for a database of our pages. */
function requireDatabase(descriptor: number): void {
  const header = Buffer.alloc(pageSizeAt + 2);
  readSync(descriptor, header, 0, header.length, 0);
  if (header.toString("latin1", 0, pageSizeAt) !== databaseMagic || header.readUInt16BE(pageSizeAt) !== pageBytes) {
    throw corrupt("the first page of the restored state does not begin a database");
  }
}

/**
 * Writes the plan's state to `path`, a new file, and syncs it. Until it is whole it lies beside it as
 * `<path>.restoring`; after a failure neither is there. Throws StoreError.
 */
export async function materialise(
  source: PageSource,
  plan: Plan,
  path: string,
  options: RestoreOptions = {},
): Promise<{ readonly pages: number }> {
  return restoreFrom(source, plan, path, fetchUnread(source, refsAbove(plan, -1)), options);
}

/** As materialise, by what makes segments: the thread only fetches. */
export async function materialiseBy(
  maker: SegmentMaker,
  source: PageSource,
  plan: Plan,
  path: string,
): Promise<{ readonly pages: number }> {
  return { pages: await maker.restore({ uuid: source.uuid, plan, path }, fetchUnread(source, refsAbove(plan, -1))) };
}

/** As materialise, from objects that the caller fetches, in the order in which `materialise` does. */
export async function restoreFrom(
  source: Laying,
  plan: Plan,
  path: string,
  fetched: AsyncIterable<FetchedObject>,
  options: RestoreOptions = {},
): Promise<{ readonly pages: number }> {
  assert(!existsSync(path), "a restore writes a new file");
  assert(plan.images.length > 0, "every timeline begins with an image");
  const temporary = `${path}.restoring`;
  const descriptor = openSync(temporary, "w+", 0o600);
  try {
    let pages: number;
    try {
      const file = new PageFile(descriptor, temporary, plan, source, options.signal);
      await layPlan(file, source, plan, -1, proven(source.uuid, fetched), options);
      file.finish();
      requireDatabase(descriptor);
      await source.disk.fdatasync(descriptor, temporary);
      pages = file.pages;
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
    await source.disk.syncDirectory(dirname(path));
    return { pages };
  } catch (error) {
    rmSync(temporary, { force: true });
    rmSync(path, { force: true });
    throw error;
  }
}

async function* proven(uuid: string, fetched: AsyncIterable<FetchedObject>): AsyncGenerator<PoolObject> {
  for await (const object of fetched) yield provenObject(uuid, object);
}

function getMarkerPath(path: string): string {
  return `${path}.patching`;
}

/** Whether the file is a mixture of two states: a roll forward began and did not end. Only a new restore mends that. */
export function isPatching(path: string): boolean {
  return existsSync(getMarkerPath(path));
}

/**
 * Brings a closed database file without a log from the state `fromTxid`, which it is proven to have and which lies on
 * the plan's timeline (`fromTxid` is not below `plan.fromTxid`), to the plan's state, and syncs it. Fetches only what
 * holds newer groups. After a failure the file is as it was, or a mixture: then `isPatching` stays true. Unless there
 * is much to fetch, all of it is there before the file is touched: a store that falls silent then leaves the file
 * whole.
 */
export async function rollForward(
  source: PageSource,
  plan: Plan,
  fromTxid: number,
  path: string,
  options: RestoreOptions = {},
): Promise<void> {
  assert(fromTxid >= plan.fromTxid && fromTxid <= plan.txid, "a file is rolled forward along its own timeline");
  assert(!isPatching(path), "a mixture is not rolled forward");
  if (fromTxid === plan.txid) return;
  const refs = refsAbove(plan, fromTxid);
  const objects =
    sumBytes(refs) <= rollBytesHeldMax ? await collectAll(fetchObjects(source, refs)) : fetchObjects(source, refs);
  const marker = getMarkerPath(path);
  const descriptor = openSync(path, "r+");
  const file = new PageFile(descriptor, path, plan, source, options.signal);
  try {
    closeSync(openSync(marker, "w", 0o600));
    await source.disk.syncDirectory(dirname(path));
    await layPlan(file, source, plan, fromTxid, objects, options);
    file.reachDownTo(fromTxid);
    file.finish();
    requireDatabase(descriptor);
    await source.disk.fdatasync(descriptor, path);
    rmSync(marker);
    await source.disk.syncDirectory(dirname(path));
  } catch (error) {
    if (!file.touched) rmSync(marker, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

async function collectAll(objects: AsyncIterable<PoolObject>): Promise<readonly PoolObject[]> {
  const all: PoolObject[] = [];
  for await (const object of objects) all.push(object);
  return all;
}

/**
 * Commit time of the plan's state and size of its database, from the manifest if it is the manifest's, else from the
 * object that holds it.
 */
export async function readStatePoint(
  source: PageSource,
  manifest: Manifest,
  plan: Plan,
): Promise<{ readonly committedAtMs: number; readonly pages: number }> {
  if (plan.txid === manifest.txid) return { committedAtMs: manifest.committedAtMs, pages: manifest.pages };
  const tail = plan.tail.at(-1);
  const newest = plan.deltas.at(-1) ?? plan.images[0];
  assert(newest, "every timeline begins with an image");
  const { indexes } = tail ? provenTail(source.uuid, tail) : await fetchObject(source, newest);
  const group = indexes.flatMap(({ groups }) => groups).find(({ txid }) => txid === plan.txid);
  if (!group) throw corrupt(`no object holds transaction id ${plan.txid}`);
  return { committedAtMs: group.committedAtMs, pages: group.pages };
}
