/** A node whose objects are collected when the test says so. */
import { limits } from "../../src/base/limits.ts";
import { CopyRecords } from "../../src/control/databases/copy-records.ts";
import { Catalogs } from "../../src/engine/history/catalogs.ts";
import { GarbageCollector, type Collected } from "../../src/engine/maintenance/garbage-collector.ts";
import type { ObjectStore } from "../../src/store/port/object-store.ts";
import { TimedEngine, VirtualTime } from "./timed-engine.ts";
import { packRefsMin } from "../../src/engine/compaction/timeline-length.ts";

export const graceMs = 60_000;

/** A node that never collects by itself, and a collector of the test's own. */
export function startCollected(options = {}): {
  time: VirtualTime;
  node: TimedEngine;
  collect: () => Promise<Collected>;
  collector: (store?: ObjectStore) => GarbageCollector;
} {
  const time = new VirtualTime();
  time.store.audit();
  const node = new TimedEngine(time, { gcGraceMs: 1e12, idleCloseMs: 1e12, ...options });
  const world = time.world();
  const collector = (store: ObjectStore = time.store): GarbageCollector =>
    new GarbageCollector({
      store,
      world,
      catalogs: new Catalogs(store, world),
      records: new CopyRecords(store, world),
      places: node.engine.places,
      graceMs,
      notice: (message) => node.notices.push(message),
    });
  return { time, node, collector, collect: () => time.of(collector().collect(node.uuid)) };
}

/** Enough single segments for a pack, whose inputs are garbage then. */
export async function packSome(node: TimedEngine, count = packRefsMin + 1): Promise<void> {
  for (let n = 0; n < count; n++) {
    await node.put(`p${n}`);
    await node.time.pass(limits.shipIntervalMs + 20);
  }
}
