/** Databases that nobody uses: what expires in them goes all the same, and they are left alone otherwise. */
import { describe, expect, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import type { Retention } from "../../../../src/engine/api/protocol.ts";
import { IdleDatabaseSweeper, dueLookMs } from "../../../../src/service/jobs/idle-database-sweeper.ts";
import { shardsWhile } from "../../../support/all-shards.ts";
import { LeasedNode, sharedTime } from "../../../support/leased-node.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

const hourMs = 3_600_000;
const day = 24 * hourMs;
const idle = { idleCloseMs: 30_000, gcGraceMs: 0 };

interface Sweeping {
  readonly sweeps: IdleDatabaseSweeper;
  retention: Retention | undefined;
  readonly asked: (string | undefined)[];
  owns: boolean;
}

/** The sweeps of the node, looked for as often as it does. */
function buildSweeps(node: TimedEngine): Sweeping {
  const { world, time, client: engine } = node;
  const made: Sweeping = {
    sweeps: new IdleDatabaseSweeper({
      world,
      log: silentLog,
      store: time.store,
      engine,
      shards: shardsWhile(() => made.owns),
      readRetention: async (database) => {
        made.asked.push(database);
        return made.retention;
      },
    }),
    retention: undefined,
    asked: [],
    owns: true,
  };
  return made;
}

const dueKeys = (time: VirtualTime): string[] => time.store.keys("due/");
const countMemories = async (node: TimedEngine): Promise<number> => {
  const { value } = await node.time.of(node.client.read(node.at("main"), "memory.list", { limit: 10 }, node.soon()));
  return value.memories.length;
};

/** Whether the newest state in object storage holds a row that expires or has. */
async function mayExpire(time: VirtualTime): Promise<boolean> {
  const looker = new TimedEngine(time, { nodeId: "looker" });
  const { value } = await time.of(looker.client.read(looker.at("main"), "due", { isSwept: true }, looker.soon()));
  looker.kill();
  return value.dueAtMs !== undefined;
}

const putting = (node: TimedEngine, key: string, ttlSecs: number): Promise<unknown> =>
  node.client.write(node.at("main"), "kv.put", { ns: "n", key, value: Uint8Array.of(1), ttlSecs }, node.soon());

describe("a cold database", () => {
  test("is swept within hours of what expires, over a restart; then it closes and its entry goes", async () => {
    const time = new VirtualTime();
    const first = new TimedEngine(time, idle);
    await time.of(putting(first, "passing", 600));
    await time.of(putting(first, "stays", 100 * 86_400));
    await time.pass(100_000);
    expect(dueKeys(time)).toHaveLength(1);
    const node = await first.again();
    const { sweeps } = buildSweeps(node);
    expect(await mayExpire(time)).toBe(true);
    const manifestBefore = time.manifest(node.uuid);
    sweeps.start();
    await time.pass(2 * hourMs);
    const manifest = time.manifest(node.uuid);
    expect(manifest.epoch).toBe(manifestBefore.epoch + 1);
    expect(manifest.txid).toBe(manifestBefore.txid + 1);
    // What is due next is noted for its own hour.
    expect(dueKeys(time)).toEqual([expect.stringMatching(/^due\/2030041\d/)]);
    await time.pass(10 * day);
    expect(time.manifest(node.uuid)).toEqual(manifest);
    expect(node.engine.counters.opened).toBe(1);
    await time.of(sweeps.close());
  });

  test("that has nothing to expire leaves no entry, and one without an entry is never opened", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, idle);
    await node.put("k");
    await time.pass(100_000);
    const { sweeps } = buildSweeps(node);
    sweeps.start();
    await time.pass(2 * day);
    expect(dueKeys(time)).toEqual([]);
    expect(node.engine.counters.opened).toBe(1);
    await time.of(sweeps.close());
  });

  test("loses an expired branch, though its node was started anew and nobody asks for the database", async () => {
    const time = new VirtualTime();
    const first = new TimedEngine(time, idle);
    await first.put("k");
    await first.branch({ act: "fork", name: "burner", ttlSecs: 7_000 });
    await time.pass(100_000);
    const node = await first.again();
    const { sweeps } = buildSweeps(node);
    sweeps.start();
    await time.pass(hourMs);
    expect(time.catalog(node.uuid).branches.map(({ name }) => name)).toEqual(["main", "burner"]);
    await time.pass(4 * hourMs);
    expect(time.catalog(node.uuid).branches.map(({ name }) => name)).toEqual(["main"]);
    expect(time.store.keys("db/").filter((key) => key.includes("/head/"))).toHaveLength(1);
    expect(dueKeys(time)).toEqual([]);
    // The branch that stays was not even opened.
    expect(node.engine.counters.opened).toBe(0);
    await time.of(sweeps.close());
  });

  test("lets go of history that has left the window, once", async () => {
    const time = new VirtualTime();
    const first = new TimedEngine(time, { ...idle, pitrMs: day });
    await first.put("k");
    await first.sync();
    const { txid } = await first.branch({ act: "checkpoint", name: "kept" });
    await first.put("l");
    await first.branch({ act: "rewind", to: String(txid) });
    await first.branch({ act: "forget-checkpoint", name: "kept" });
    await first.put("m");
    await time.pass(100_000);
    expect(time.history(first.uuid).timelines).toHaveLength(1);
    const node = await first.again();
    const { sweeps } = buildSweeps(node);
    sweeps.start();
    await time.pass(30 * hourMs);
    expect(time.history(node.uuid).timelines).toHaveLength(0);
    await time.pass(3 * day);
    const { opened } = node.engine.counters;
    await time.pass(10 * day);
    expect(node.engine.counters.opened).toBe(opened);
    expect(opened).toBeLessThanOrEqual(2);
    expect(dueKeys(time)).toEqual([]);
    await time.of(sweeps.close());
  });

  test("keeps its due events for as long as its policy says, untouched while that cannot be read", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, idle);
    const retention: Retention = { pitrMs: day, eventMaxAgeMs: hourMs };
    const memories = [
      { type: "event", summary: "something happened", content: "{}" },
      { type: "fact", summary: "something is", content: "{}" },
    ];
    await time.of(
      node.client.write(
        { ...node.at("main"), retention, database: "acme--alice" },
        "memory.ingest",
        { memories },
        node.soon(),
      ),
    );
    await time.pass(100_000);
    const one = buildSweeps(node);
    // The policy is looser by then.
    one.retention = { pitrMs: day, eventMaxAgeMs: 5 * hourMs };
    one.sweeps.start();
    await time.pass(3 * hourMs);
    expect(one.asked).toEqual(["acme--alice"]);
    expect(await countMemories(node)).toBe(2);
    await time.pass(6 * hourMs);
    expect(await countMemories(node)).toBe(1);
    await time.of(one.sweeps.close());
  });

  test("that is deleted is left alone, and its entry goes", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, idle);
    await time.of(putting(node, "passing", 600));
    await time.pass(100_000);
    expect(dueKeys(time)).toHaveLength(1);
    await time.of(node.client.deleteTarget(node.at("main"), node.soon()));
    const { sweeps } = buildSweeps(node);
    sweeps.start();
    await time.pass(3 * hourMs);
    expect(dueKeys(time)).toEqual([]);
    expect(node.engine.counters.opened).toBe(1);
    await time.of(sweeps.close());
  });

  test("whose sweep fails keeps its entry, and is swept when object storage answers again", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, idle);
    await time.of(putting(node, "passing", 600));
    await time.pass(100_000);
    const { sweeps } = buildSweeps(node);
    time.store.decideFate = (verb, key) => (verb !== "list" && key.startsWith("db/") ? "refused" : "fine");
    sweeps.start();
    await time.pass(3 * hourMs);
    expect(dueKeys(time)).toHaveLength(1);
    time.store.decideFate = () => "fine";
    await time.pass(dueLookMs + 60_000);
    expect(dueKeys(time)).toEqual([]);
    expect(await mayExpire(time)).toBe(false);
    await time.of(sweeps.close());
  });
});

describe("several nodes", () => {
  test("sweep what they tend, and two at once do what one does", async () => {
    const time = sharedTime();
    const [a, b] = [new LeasedNode(time, "a", idle), new LeasedNode(time, "b", idle)];
    await a.hold(1, 1e12);
    await time.of(putting(a, "passing", 600));
    await time.pass(100_000);
    await a.releaseDatabase();
    expect(dueKeys(time)).toHaveLength(1);
    await b.hold(2, 1e12);
    const [one, two] = [buildSweeps(b), buildSweeps(b)];
    const idleOne = buildSweeps(a);
    idleOne.owns = false;
    for (const { sweeps } of [one, two, idleOne]) sweeps.start();
    await time.pass(2 * hourMs);
    expect(dueKeys(time)).toEqual([]);
    expect(time.manifest(b.uuid)).toMatchObject({ node: "b", txid: 2 });
    expect(time.store.violations).toEqual([]);
    await time.of(Promise.all([one, two, idleOne].map(({ sweeps }) => sweeps.close())));
  });

  test("a database that is handed over leaves what is due of it in the index", async () => {
    const time = sharedTime();
    const a = new LeasedNode(time, "a");
    await a.hold(1);
    await time.of(putting(a, "passing", 600));
    await a.releaseDatabase();
    expect(dueKeys(time)).toHaveLength(1);
  });
});

describe("F42: a clock that is ahead", () => {
  test("uses up no entry: what is due is swept when it is", async () => {
    const time = new VirtualTime();
    const node = new TimedEngine(time, idle);
    await time.of(putting(node, "passing", 2 * 86_400));
    await time.pass(60_000);
    const { sweeps } = buildSweeps(node);
    const entries = dueKeys(time);
    expect(entries).toHaveLength(1);
    node.world.skewMs = 4 * day;
    await time.of(sweeps.look());
    expect(dueKeys(time)).toEqual(entries);
    node.world.skewMs = 0;
    await time.pass(2 * day + 2 * hourMs);
    await time.of(sweeps.look());
    await time.pass(60_000);
    expect(dueKeys(time)).toEqual([]);
    expect(await mayExpire(time)).toBe(false);
  });
});
