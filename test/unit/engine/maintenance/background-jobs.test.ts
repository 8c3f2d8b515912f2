/** What a thread remembers to do for its databases, at its bound. */
import { expect, test } from "vitest";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { Catalogs } from "../../../../src/engine/history/catalogs.ts";
import { Alarms } from "../../../../src/engine/api/alarms.ts";
import { BackgroundJobs, purgeAgainMsMax } from "../../../../src/engine/maintenance/background-jobs.ts";
import { GarbageCollector, lateGraces } from "../../../../src/engine/maintenance/garbage-collector.ts";
import { databasePrefix, purgeKey } from "../../../../src/format/keys/object-keys.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { VirtualTime } from "../../../support/timed-engine.ts";

interface Keeping {
  readonly time: VirtualTime;
  readonly jobs: BackgroundJobs;
  readonly records: CopyRecords;
  readonly notices: string[];
  /** Lets so much time go by, with the jobs begun that are due. */
  work(ms: number, stepMs?: number): Promise<void>;
}

const graceMs = 10_000;

function keeping(most?: number): Keeping {
  const time = new VirtualTime();
  const world = time.world();
  const records = new CopyRecords(time.store, world);
  const notices: string[] = [];
  const collector = new GarbageCollector({
    store: time.store,
    world,
    catalogs: new Catalogs(time.store, world),
    places: { isPast: () => false, newest: () => undefined },
    records,
    graceMs,
    notice: () => {},
  });
  const alarms = new Alarms(() => {});
  const jobs = new BackgroundJobs({
    alarms,
    world,
    collector,
    graceMs,
    groom: async () => {},
    resolveDoubt: async () => {},
    isOurs: () => true,
    notice: (message) => void notices.push(message),
    ...(most !== undefined && { most }),
  });
  const work = async (ms: number, stepMs = 1_000): Promise<void> => {
    for (let at = 0; at < ms; at += stepMs) {
      jobs.tick();
      await time.pass(stepMs);
    }
  };
  return { time, jobs, records, notices, work };
}

test("a deleted database with a copy on a dead node is looked at ever more rarely until it is gone", async () => {
  const { time, jobs, records, notices, work } = keeping();
  const [uuid, dayMs] = [uuidOf(1), 86_400_000];
  const dead = { node: "01HF7YAT000000000000000001", name: "dead" };
  await time.of(records.register(uuid, dead));
  await time.of(time.store.put(purgeKey(uuid), Buffer.from("n"), { kind: "absent" }));
  const looks = (): number => time.store.count("list");
  jobs.purge(uuid);
  await work(dayMs, 10_000);
  const first = looks();
  expect(notices).toEqual([expect.stringContaining("a copy on node dead (01HF7YAT000000000000000001)")]);
  await work(dayMs, 10_000);
  // A look lists three times.
  expect(looks() - first).toBeLessThanOrEqual(3 * 25);
  expect(looks()).toBeGreaterThan(first);
  await time.of(records.purged(uuid, dead.node, 1, undefined));
  await work(purgeAgainMsMax + 20_000, 10_000);
  expect(time.store.keys("")).toEqual([]);
  expect(notices).toHaveLength(1);
  const after = looks();
  await work(dayMs, 10_000);
  expect(looks()).toBe(after);
});

test("collections beyond the bound are left for later; deletions are refused until some are purged", async () => {
  const { time, jobs, work } = keeping(4);
  for (let n = 1; n <= 10; n++) jobs.leftBehind(uuidOf(n), 1_000);
  await work(20_000);
  expect(jobs.collections).toBe(4);
  // There is room again.
  for (let n = 1; n <= 10; n++) jobs.leftBehind(uuidOf(n), 1_000);
  await work(20_000);
  expect(jobs.collections).toBe(8);
  for (let n = 11; n <= 14; n++) {
    await time.of(time.store.put(`${databasePrefix(uuidOf(n))}catalog`, new Uint8Array(1), { kind: "absent" }));
    expect(jobs.mayPurge).toBe(true);
    jobs.purge(uuidOf(n));
  }
  expect(jobs.mayPurge).toBe(false);
  // However many wait to be purged, garbage is collected.
  jobs.leftBehind(uuidOf(20), 1_000);
  await work(30_000);
  expect(jobs.collections).toBe(9);
  expect(time.store.keys("db/")).toEqual([]);
  // Until they were looked for once more, however late an object may come.
  await work(lateGraces * graceMs + 30_000);
  expect(jobs.mayPurge).toBe(true);
});
