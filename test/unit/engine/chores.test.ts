/** What a thread remembers to do for its databases, at its bound. */
import { expect, test } from "vitest";
import { limits } from "../../../src/base/limits.ts";
import { CopyRecords } from "../../../src/control/copy-records.ts";
import { Catalogs } from "../../../src/engine/catalogs.ts";
import { Alarms } from "../../../src/engine/alarms.ts";
import { Chores } from "../../../src/engine/chores.ts";
import { Collector } from "../../../src/engine/collector.ts";
import { databasePrefix } from "../../../src/format/object-keys.ts";
import { uuidOf } from "../../support/inline-engine.ts";
import { VirtualTime } from "../../support/timed-engine.ts";

test("collections beyond the bound are left to what brings them back; deletions beyond it are refused until some are purged", async () => {
  const time = new VirtualTime();
  const world = time.world();
  const catalogs = new Catalogs(time.store, world);
  const graceMs = 10_000;
  const collector = new Collector({ store: time.store, world, catalogs, places: { isPast: () => false, newest: () => undefined }, records: new CopyRecords(time.store, world), graceMs, notice: () => {} });
  const chores = new Chores({ alarms: new Alarms(() => {}), world, collector, graceMs, groom: async () => {}, isOurs: () => true, notice: () => {}, most: 4 });
  const work = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 1_000) {
      chores.tick();
      await time.pass(1_000);
    }
  };
  for (let n = 1; n <= 10; n++) chores.leftBehind(uuidOf(n), 1_000);
  await work(20_000);
  expect(chores.collections).toBe(4);
  // There is room again.
  for (let n = 1; n <= 10; n++) chores.leftBehind(uuidOf(n), 1_000);
  await work(20_000);
  expect(chores.collections).toBe(8);
  for (let n = 11; n <= 14; n++) {
    await time.of(time.store.put(`${databasePrefix(uuidOf(n))}catalog`, new Uint8Array(1), { kind: "absent" }));
    expect(chores.mayPurge).toBe(true);
    chores.purge(uuidOf(n));
  }
  expect(chores.mayPurge).toBe(false);
  // However many wait to be purged, garbage is collected.
  chores.leftBehind(uuidOf(20), 1_000);
  await work(30_000);
  expect(chores.collections).toBe(9);
  expect(time.store.keys("db/")).toEqual([]);
  // Until they were looked for once more, however late an object may come.
  await work(limits.lateGraces * graceMs + 30_000);
  expect(chores.mayPurge).toBe(true);
});
