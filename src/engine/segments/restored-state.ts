/**
 * States that are restored beside everything else, to be checked: whether they hold erased data, whether they are
 * sound.
 *
 * Always true: they come from objects only, never from a live file; nothing stays in the scratch directory.
 */
import { closeSync, openSync, readSync, rmSync } from "node:fs";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { pageBytes } from "../../format/history/pages.ts";
import { framePages } from "../../format/history/segment.ts";
import { TraceSearch, windowBytes } from "../../format/erasure/traces.ts";
import type { DatabaseState } from "../../model/core/database-state.ts";
import type { View } from "../../model/core/transaction.ts";
import { VectorChanges } from "../../model/index/vector-changes.ts";
import { heldRecords, recordWindows } from "../../model/erasure-records.ts";
import { vectorWindows } from "../../model/erasure-traces.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { scratchFile } from "../local/database-files.ts";
import { readStateRow } from "./image-maker.ts";
import type { Plan } from "../history/timelines.ts";
import type { PageSource } from "./pool-objects.ts";
import type { ErasedCoupon } from "../api/protocol.ts";
import { materialise } from "./restore.ts";

/** What an erasure has erased. */
type ErasedContent = Pick<ErasedCoupon, "memoryIds" | "records">;

export interface StatePlace {
  readonly source: PageSource;
  readonly world: World;
  readonly scratchDirectory: string;
}

/** Restores the state into a file of its own, lets it be looked into, and removes it. */
export async function withRestored<Value>(
  { source, world, scratchDirectory }: StatePlace,
  plan: Plan,
  look: (path: string, pages: number) => Promise<Value>,
): Promise<Value> {
  const path = scratchFile(scratchDirectory, `state-${world.ulid()}.db`);
  try {
    const { pages } = await materialise(source, plan, path);
    return await look(path, pages);
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}${suffix}`, { force: true });
  }
}

/** The end of this turn of the loop: others get the thread. */
export function turnEnd(world: World): Promise<void> {
  return new Promise((resolve) => {
    world.soon(resolve);
  });
}

/** A window that was found, as a key of maps; 32 bytes do not say more than their trace was made of. */
export function windowAt(bytes: Uint8Array, offset: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + offset, windowBytes).toString("latin1");
}

/** What expires is still there. */
function viewOf(connection: Connection): View {
  return { connection, nowMs: 0, vectors: new VectorChanges() };
}

/**
 * Whether the database holds one of the erasures' memories or records. An id that only occurs as superseded by a memory
 * that was plainly forgotten proves nothing.
 */
export function holdsErased(connection: Connection, coupons: readonly ErasedContent[]): boolean {
  const records = coupons.flatMap((coupon) => coupon.records ?? []);
  return (
    connection.get(
      "SELECT 1 FROM __service_memory WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1",
      JSON.stringify(coupons.flatMap(({ memoryIds }) => memoryIds)),
    ) !== undefined || heldRecords(viewOf(connection), { records }).held.length > 0
  );
}

/**
 * Runs the search over what the database holds as live content and may have a window in common with what was erased:
 * every vector, that of its row among them, and records that are named alike. Gives the windows that it finds.
 */
export function findLiveWindows(
  connection: Connection,
  search: TraceSearch,
  coupons: readonly ErasedContent[],
): ReadonlySet<string> {
  const windows = new Set<string>();
  const targets = coupons.flatMap(({ records }) => records?.target ?? []);
  for (const each of [vectorWindows({ connection }), recordWindows(viewOf(connection), targets)])
    for (const window of each) search.search(window, () => windows.add(windowAt(window, 0)));
  return windows;
}

/**
 * What the restored file says of itself; with `check`, once nothing was found wrong with it. It is read where segments
 * are made, or in turns.
 */
export function readRestoredState({ source, world }: StatePlace, path: string, check: boolean): Promise<DatabaseState> {
  return source.maker ? source.maker.state(path, check) : readStateRow(path, check, () => turnEnd(world));
}

/** Opens a restored file for as long as `act` runs. Throws StoreError("corrupt") for one that SQLite cannot use. */
export function inRestored<Value>(path: string, readonly: boolean, act: (connection: Connection) => Value): Value {
  try {
    const connection = new Connection(path, { readonly, pageCacheKiB: limits.pageCacheKiB });
    try {
      return act(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError("corrupt", "SQLite cannot use a restored state", { cause: error });
  }
}

/**
 * The erasures, by their ids, whose data the state still holds: their memories, or bytes of what was erased and nothing
 * else of it. A vector or record that the state holds as live content is not erased data: the same was written again.
 */
export async function holdersIn(
  place: StatePlace,
  plan: Plan,
  coupons: readonly ErasedCoupon[],
): Promise<ReadonlyMap<string, "memories" | "bytes">> {
  const search = new TraceSearch(coupons.map(({ traces }) => traces));
  return withRestored(place, plan, async (path) => {
    const holding = inRestored(path, true, (connection) =>
      coupons.filter((coupon) => holdsErased(connection, [coupon])),
    );
    const held = new Map<string, "memories" | "bytes">(holding.map(({ id }) => [id, "memories"]));
    const found = await findWindowsInFile(place.world, path, search);
    if (found.size === 0) return held;
    const live = inRestored(path, true, (connection) => findLiveWindows(connection, search, coupons));
    for (const [window, sets] of found) {
      if (live.has(window)) continue;
      for (const set of sets) if (!held.has(coupons[set]!.id)) held.set(coupons[set]!.id, "bytes");
    }
    return held;
  });
}

/** The windows that the file contains, and which searches they belong to. */
async function findWindowsInFile(
  world: World,
  path: string,
  search: TraceSearch,
): Promise<ReadonlyMap<string, ReadonlySet<number>>> {
  const found = new Map<string, Set<number>>();
  const descriptor = openSync(path, "r");
  try {
    const bytes = new Uint8Array(framePages * pageBytes);
    for (
      let at = 0, count = readSync(descriptor, bytes, 0, bytes.length, 0);
      count > 0;
      count = readSync(descriptor, bytes, 0, bytes.length, at)
    ) {
      at += count;
      search.search(bytes.subarray(0, count), (set, offset) => {
        const window = windowAt(bytes, offset);
        const sets = found.get(window);
        if (sets) sets.add(set);
        else found.set(window, new Set([set]));
      });
      await turnEnd(world);
    }
  } finally {
    closeSync(descriptor);
  }
  return found;
}
