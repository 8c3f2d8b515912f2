/**
 * What a database's pool holds, from the objects alone: for when no manifest says it.
 *
 * Always true: an object that is here was read whole and every frame of it decompressed. A reference made from it is
 * the one that its writer's manifest would have had. In memory are the references, and one object at a time.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { databasePrefix, parsePoolId } from "../../format/keys/object-keys.ts";
import { lockPage, pageBytes } from "../../format/history/pages.ts";
import type { SegmentRef } from "../../format/history/refs.ts";
import { decodeFrame, readSegmentIndexes, type SegmentIndex } from "../../format/history/segment.ts";
import { listed } from "../../store/port/listing.ts";
import type { PageSource } from "../segments/pool-objects.ts";

/** A sound object of the pool. */
export interface PoolEntry {
  readonly ref: SegmentRef;
  readonly branchId: string;
  readonly epoch: number;
  /** Size of the database at its last group, in pages. */
  readonly pages: number;
  /** Of an image: the first page that it holds, and how many. */
  readonly firstPage: number;
  readonly pageCount: number;
  /**
   * Transaction ids of groups that may be a rewind: alone in their segment, and only the state's own page changed. What
   * follows was laid upon another state than the one before, and no byte says upon which.
   */
  readonly rewinds: readonly number[];
}

export interface PoolIndex {
  readonly entries: readonly PoolEntry[];
  /** Objects that are not what was written. */
  readonly rotten: readonly string[];
  /** Largest epoch of each branch that has written anything here, histories too. */
  readonly epochs: ReadonlyMap<string, number>;
}

/** Reads the whole pool. Throws StoreError when the store does not answer. */
export async function indexPool(source: PageSource): Promise<PoolIndex> {
  const prefix = databasePrefix(source.uuid);
  const entries: PoolEntry[] = [];
  const rotten: string[] = [];
  const epochs = new Map<string, number>();
  for (const folder of ["hist/", "seg/"]) {
    for await (const { key } of listed(source.store, prefix + folder)) {
      const id = key.slice(prefix.length + folder.length);
      const named = parsePoolId(id);
      if (!named) continue;
      epochs.set(named.branchId, Math.max(named.epoch, epochs.get(named.branchId) ?? 0));
      if (folder === "hist/") continue;
      const entry = await readEntry(source, id, key);
      if (entry) entries.push({ ...entry, branchId: named.branchId, epoch: named.epoch });
      else rotten.push(id);
    }
  }
  return { entries, rotten, epochs };
}

async function readEntry(
  { store, uuid, press }: PageSource,
  id: string,
  key: string,
): Promise<Omit<PoolEntry, "branchId" | "epoch"> | undefined> {
  const stored = await store.get(key);
  if (!stored) return undefined;
  try {
    const { bytes } = stored;
    const indexes = readSegmentIndexes(bytes);
    if (indexes.some((index) => index.uuid !== uuid || index.kind !== indexes[0]!.kind)) return undefined;
    for (const index of indexes) for (const frame of index.frames.keys()) await decodeFrame(bytes, index, frame, press);
    const groups = indexes.flatMap((index) => index.groups);
    const pages = groups.reduce((sum, { pageNumbers }) => sum + pageNumbers.length, 0);
    const [first, last] = [groups[0]!, groups.at(-1)!];
    const ref: SegmentRef = {
      kind: indexes[0]!.kind,
      id,
      firstTxid: first.txid,
      lastTxid: last.txid,
      cut: false,
      lastAtMs: last.committedAtMs,
      bytes: bytes.length,
      rawBytes: pages * pageBytes,
      sha256: await press.digest(bytes),
    };
    return {
      ref,
      pages: last.pages,
      firstPage: first.pageNumbers[0] ?? 0,
      pageCount: pages,
      rewinds: indexes.flatMap(rewindsIn),
    };
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== "corrupt") throw error;
    return undefined;
  }
}

function rewindsIn({ kind, groups }: SegmentIndex): number[] {
  return kind === "delta" && groups.length === 1 && groups[0]!.pageNumbers.length === 1 ? [groups[0]!.txid] : [];
}

/** The images of the newest state that is there whole, not above the id; undefined when there is none. Pure. */
export function newestImage(entries: readonly PoolEntry[], txidMax: number): readonly PoolEntry[] | undefined {
  const images = entries.filter(({ ref }) => ref.kind === "image" && ref.lastTxid <= txidMax);
  for (const txid of [...new Set(images.map(({ ref }) => ref.lastTxid))].sort((a, b) => b - a)) {
    const parts = images.filter(({ ref }) => ref.lastTxid === txid).sort((a, b) => a.firstPage - b.firstPage);
    // A try that failed may have left some of the same state's images: one of each place will do.
    const set = parts.filter((part, at) => at === 0 || part.firstPage !== parts[at - 1]!.firstPage);
    const whole = set[0]!.pages - (set[0]!.pages >= lockPage ? 1 : 0);
    if (
      set.every(({ pages }) => pages === set[0]!.pages) &&
      set.reduce((sum, { pageCount }) => sum + pageCount, 0) === whole
    )
      return set;
  }
  return undefined;
}

/**
 * The deltas that follow each other from the id on as far as they go, not beyond `lastTxid`. Only the first one may
 * begin below its id, and only behind an image (`mayBeginBelow`): what lies at or below an image is passed over. Pure.
 */
export function chainFrom(
  entries: readonly PoolEntry[],
  txid: number,
  lastTxid: number,
  mayBeginBelow: boolean,
): readonly SegmentRef[] {
  const deltas = entries
    .map(({ ref }) => ref)
    .filter((ref) => ref.kind === "delta" && ref.lastTxid <= lastTxid)
    .sort((a, b) => b.firstTxid - a.firstTxid);
  /** How far the best chain goes whose first object begins at the id. */
  const best = new Map<number, { readonly ref: SegmentRef; readonly reach: number }>();
  const getReach = (ref: SegmentRef): number => best.get(ref.lastTxid + 1)?.reach ?? ref.lastTxid;
  for (const ref of deltas)
    if (getReach(ref) > (best.get(ref.firstTxid)?.reach ?? -1)) best.set(ref.firstTxid, { ref, reach: getReach(ref) });
  const firsts = deltas.filter(
    (ref) => (mayBeginBelow ? ref.firstTxid <= txid : ref.firstTxid === txid) && txid <= ref.lastTxid,
  );
  const chain: SegmentRef[] = [];
  let next = firsts.reduce<SegmentRef | undefined>(
    (most, ref) => (most && getReach(most) >= getReach(ref) ? most : ref),
    undefined,
  );
  for (; next; next = best.get(next.lastTxid + 1)?.ref) chain.push(next);
  return chain;
}

/** The objects of the chain up to one that may hold a rewind: what follows it may lie on another timeline. Pure. */
export function beforeRewind(
  own: readonly PoolEntry[],
  chain: readonly SegmentRef[],
  aboveTxid: number,
): readonly SegmentRef[] {
  const doubtful = new Set(
    own.filter(({ rewinds }) => rewinds.some((txid) => txid > aboveTxid)).map(({ ref }) => ref.id),
  );
  const stop = chain.findIndex(({ id }) => doubtful.has(id));
  return stop < 0 ? chain : chain.slice(0, stop);
}
