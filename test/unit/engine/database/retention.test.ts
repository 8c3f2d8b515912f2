/** What calls say of a database's policy: how far back it goes, and what its sweeps let go of. */
import { describe, expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import type { Retention } from "../../../../src/engine/api/protocol.ts";
import { Retentions } from "../../../../src/engine/pool/retentions.ts";
import type { MemoryInput } from "../../../../src/model/memory/memory-ingest.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";
import { sweepIntervalMs } from "../../../../src/engine/maintenance/expired-row-sweeper.ts";

const minute = 60_000;
const sweepMs = sweepIntervalMs + 2_000;

function setup(options = {}): { time: VirtualTime; node: TimedEngine } {
  const time = new VirtualTime();
  time.store.audit();
  return { time, node: new TimedEngine(time, { idleCloseMs: 1e12, pitrMs: 60 * minute, ...options }) };
}

/** One database of a node, whose calls say what its policy is. */
class Governed {
  readonly node: TimedEngine;
  readonly uuid: string;
  retention: Retention | undefined;

  constructor(node: TimedEngine, number: number, retention?: Retention) {
    this.node = node;
    this.uuid = uuidOf(number);
    this.retention = retention;
  }

  get #target() {
    return { uuid: this.uuid, branch: "main", retention: this.retention };
  }

  async ingest(...memories: readonly (Partial<MemoryInput> & { readonly summary: string })[]): Promise<number> {
    const whole = memories.map((memory) => ({ type: "fact", content: "{}", ...memory }));
    return (
      await this.node.time.of(
        this.node.client.write(this.#target, "memory.ingest", { memories: whole }, this.node.soon()),
      )
    ).txid;
  }

  async left(): Promise<string[]> {
    const { value } = await this.node.time.of(
      this.node.client.read(
        this.#target,
        "memory.recall",
        { topicKey: "t", includeSuperseded: true, k: 100 },
        this.node.soon(),
      ),
    );
    return value.memories.map(({ summary }) => summary).sort();
  }

  async events(): Promise<string[]> {
    const { value } = await this.node.time.of(
      this.node.client.read(this.#target, "memory.recall", { query: "event", k: 100 }, this.node.soon()),
    );
    return value.memories.map(({ summary }) => summary).sort();
  }

  async txid(): Promise<number> {
    return (await this.node.time.of(this.node.client.read(this.#target, "kv.list", { ns: "n" }, this.node.soon())))
      .txid;
  }

  sync(): Promise<unknown> {
    return this.node.time.of(this.node.client.sync(this.#target, this.node.soon()));
  }

  /** Whether the state can be forked, by name of the refusal when it cannot. */
  async reach(at: number): Promise<string> {
    try {
      const act = { act: "fork", name: `f${at}-${this.node.world.ulid()}`, at: String(at) } as const;
      await this.node.time.of(this.node.client.branch(this.#target, act, this.node.soon()));
      return "restored";
    } catch (error) {
      return (error as { code: string }).code;
    }
  }
}

describe("the point-in-time window", () => {
  test("governance-07: is the shortest of node and policy, for each database its own", async () => {
    const { time, node } = setup();
    const strict = new Governed(node, 1, { pitrMs: 1 * minute });
    const wide = new Governed(node, 2, { pitrMs: 2 * minute });
    const beyond = new Governed(node, 3, { pitrMs: 100_000 * minute });
    const plain = new Governed(node, 4);
    const all = [strict, wide, beyond, plain];
    for (const database of all) {
      await database.ingest({ summary: "one", topicKey: "t" });
      await database.sync();
      await database.ingest({ summary: "two", topicKey: "t" });
      await database.sync();
    }
    const reach = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const database of all) found.push(await database.reach(1));
      return found;
    };
    expect(await reach()).toEqual(["restored", "restored", "restored", "restored"]);
    await time.pass(90_000);
    expect(await reach()).toEqual(["not_found", "restored", "restored", "restored"]);
    await time.pass(60_000);
    expect(await reach()).toEqual(["not_found", "not_found", "restored", "restored"]);
    // What is current stays, whatever the window.
    expect(await strict.reach(2)).toBe("restored");
    // A policy that is cleared gives back what is still there.
    strict.retention = { pitrMs: 60 * minute };
    expect(await strict.reach(1)).toBe("restored");
    await time.pass(60 * minute);
    expect(await reach()).toEqual(["not_found", "not_found", "not_found", "not_found"]);
    expect(time.store.violations).toEqual([]);
  });

  test("F77, governance-07: history outside a policy's window goes with its objects", async () => {
    const { time, node } = setup({ gcGraceMs: 10_000 });
    const [strict, plain] = [new Governed(node, 1, { pitrMs: 1 * minute }), new Governed(node, 2)];
    for (const database of [strict, plain]) {
      for (let n = 1; n <= 4; n++) {
        await database.ingest({ summary: `v${n}`, topicKey: "t" });
        await database.sync();
      }
      await time.of(
        node.client.branch(
          { uuid: database.uuid, branch: "main", retention: database.retention },
          { act: "rewind", to: "2" },
          node.soon(),
        ),
      );
    }
    expect([strict, plain].map(({ uuid }) => time.history(uuid).timelines.length)).toEqual([1, 1]);
    await time.pass(2 * minute);
    for (const database of [strict, plain]) {
      await time.of(
        node.client.branch(
          { uuid: database.uuid, branch: "main", retention: database.retention },
          { act: "checkpoint", name: "c" },
          node.soon(),
        ),
      );
      await time.of(
        node.client.branch(
          { uuid: database.uuid, branch: "main", retention: database.retention },
          { act: "forget-checkpoint", name: "c" },
          node.soon(),
        ),
      );
    }
    await time.pass(5 * minute);
    expect([strict, plain].map(({ uuid }) => time.history(uuid).timelines.length)).toEqual([0, 1]);
    expect(await strict.reach(4)).toBe("not_found");
    expect(await plain.reach(4)).toBe("restored");
    expect(time.store.violations).toEqual([]);
  });
});

describe("a sweep", () => {
  test("governance-08: superseded_max_count 1 of three generations removes the oldest superseded one", async () => {
    const { time, node } = setup();
    const [governed, plain] = [new Governed(node, 1, { pitrMs: minute, supersededMaxCount: 1 }), new Governed(node, 2)];
    for (const database of [governed, plain])
      for (const summary of ["v1", "v2", "v3"]) await database.ingest({ summary, topicKey: "t" });
    await time.pass(sweepMs);
    expect(await governed.left()).toEqual(["v2", "v3"]);
    expect(await plain.left()).toEqual(["v1", "v2", "v3"]);
  });

  test("governance-14: removes events and superseded memories by age, and nothing else", async () => {
    const { time, node } = setup();
    const database = new Governed(node, 1, {
      pitrMs: minute,
      eventMaxAgeMs: 5 * minute,
      supersededMaxAgeMs: 8 * minute,
    });
    await database.ingest(
      { summary: "old event", type: "event" },
      { summary: "v1", topicKey: "t" },
      { summary: "v2", topicKey: "t" },
    );
    await time.pass(4 * minute);
    await database.ingest({ summary: "young event", type: "event" }, { summary: "v3", topicKey: "t" });
    expect([await database.events(), await database.left()]).toEqual([
      ["old event", "young event"],
      ["v1", "v2", "v3"],
    ]);
    await time.pass(2 * minute + sweepMs);
    expect([await database.events(), await database.left()]).toEqual([["young event"], ["v1", "v2", "v3"]]);
    await time.pass(sweepMs);
    expect([await database.events(), await database.left()]).toEqual([["young event"], ["v2", "v3"]]);
    await time.pass(10 * minute);
    expect([await database.events(), await database.left()]).toEqual([[], ["v3"]]);
    // A sweep that finds nothing spends no transaction id.
    const { txid } = await time.of(
      node.client.read({ uuid: database.uuid, branch: "main" }, "kv.list", { ns: "n" }, node.soon()),
    );
    await time.pass(3 * sweepMs);
    expect(
      (await time.of(node.client.read({ uuid: database.uuid, branch: "main" }, "kv.list", { ns: "n" }, node.soon())))
        .txid,
    ).toBe(txid);
  });

  test("follows what the newest call has said, a read too; a call that does not know changes nothing", async () => {
    const { time, node } = setup();
    const database = new Governed(node, 1, { pitrMs: minute });
    for (let n = 1; n <= 5; n++) await database.ingest({ summary: `v${n}`, topicKey: "t" });
    await time.pass(sweepMs);
    expect(await database.left()).toHaveLength(5);
    database.retention = { pitrMs: minute, supersededMaxCount: 3 };
    await database.left();
    database.retention = undefined;
    await database.left();
    await time.pass(sweepMs);
    expect(await database.left()).toEqual(["v2", "v3", "v4", "v5"]);
    database.retention = { pitrMs: minute };
    for (let n = 6; n <= 9; n++) await database.ingest({ summary: `v${n}`, topicKey: "t" });
    await time.pass(sweepMs);
    expect(await database.left()).toHaveLength(8);
  });

  test("reaches what is only read, under a policy newer than the last write, and removes its rows", async () => {
    const { time, node } = setup({ idleCloseMs: 20_000 });
    const databases = [
      { pitrMs: minute, supersededMaxCount: 1 },
      { pitrMs: minute, eventMaxAgeMs: minute },
      { pitrMs: minute, supersededMaxAgeMs: minute },
    ].map((retention, at) => ({ retention, governed: new Governed(node, at + 1) }));
    for (const { governed } of databases) {
      await governed.ingest({ summary: "an event", type: "event" });
      for (const summary of ["v1", "v2", "v3", "v4"]) await governed.ingest({ summary, topicKey: "t" });
    }
    // Idle: the files are closed, and who opens them next writes nothing.
    await time.pass(2 * minute);
    const before = await Promise.all(databases.map(({ governed }) => governed.txid()));
    for (const { retention, governed } of databases) governed.retention = retention;
    for (let reads = 0; reads < 12; reads++) {
      for (const { governed } of databases) await governed.left();
      await time.pass(8_000);
    }
    for (const { governed } of databases) governed.retention = {} as Retention;
    expect(await Promise.all(databases.map(({ governed }) => governed.left()))).toEqual([
      ["v3", "v4"],
      ["v1", "v2", "v3", "v4"],
      ["v4"],
    ]);
    expect(await Promise.all(databases.map(({ governed }) => governed.events()))).toEqual([
      ["an event"],
      [],
      ["an event"],
    ]);
    // One sweep each, and no more of them once there is nothing left to remove.
    expect(await Promise.all(databases.map(({ governed }) => governed.txid()))).toEqual(before.map((txid) => txid + 1));
  });

  test("leaves what is only read, with nothing to remove, to its writer: no claim, no transaction id", async () => {
    const { time, node } = setup({ idleCloseMs: 20_000 });
    const governed = new Governed(node, 1, {
      pitrMs: minute,
      supersededMaxCount: 3,
      eventMaxAgeMs: 60 * minute,
      supersededMaxAgeMs: 60 * minute,
    });
    for (const summary of ["v1", "v2", "v3", "v4"]) await governed.ingest({ summary, topicKey: "t" });
    await time.pass(2 * minute);
    const [before, puts] = [await governed.txid(), node.engine.counters.manifestPuts];
    for (let reads = 0; reads < 12; reads++) {
      await governed.left();
      await time.pass(8_000);
    }
    expect([await governed.txid(), node.engine.counters.manifestPuts]).toEqual([before, puts]);
  });

  test("notes what a policy lets go of later when a database that was only read closes", async () => {
    const { time, node } = setup({ idleCloseMs: 20_000 });
    const governed = new Governed(node, 1);
    await governed.ingest({ summary: "an event", type: "event" });
    await time.pass(2 * minute);
    const due = (): Promise<string[]> =>
      time.store.list("due/", { limit: 100 }).then(({ objects }) => objects.map(({ key }) => key));
    const before = await due();
    governed.retention = { pitrMs: minute, eventMaxAgeMs: 180 * minute };
    await governed.events();
    await time.pass(2 * minute);
    expect((await due()).filter((key) => !before.includes(key))).toHaveLength(1);
  });

  test("goes on until all that is over the bounds has gone, however much it is", async () => {
    const { time, node } = setup();
    const database = new Governed(node, 1, { pitrMs: minute, supersededMaxCount: 1, eventMaxAgeMs: minute });
    for (let batch = 0; batch < 3; batch++)
      await database.ingest(
        ...Array.from({ length: 1_000 }, (_, n) => ({
          summary: `event ${batch} ${n}`,
          ...(n % 2 === 0 ? { type: "event" } : { topicKey: `t${n % 7}` }),
        })),
      );
    await time.pass(2 * sweepMs);
    const { value } = await time.of(
      node.client.read(
        { uuid: database.uuid, branch: "main" },
        "memory.recall",
        { query: "event", includeSuperseded: true, k: 1_000 },
        node.soon(),
      ),
    );
    expect(value.memories.filter(({ type }) => type === "event")).toEqual([]);
    expect(value.memories).toHaveLength(14);
  });
});

test("retentions are held for as many databases as there is room for, the least recently used forgotten first", () => {
  const retentions = new Retentions(minute);
  const held = { pitrMs: 1 };
  for (let n = 0; n < limits.retentionsHeldMax; n++)
    retentions.note({ uuid: `u${n}`, branch: "main", retention: held });
  retentions.note({ uuid: "u0", branch: "side", retention: held });
  retentions.note({ uuid: "next", branch: "main", retention: held });
  expect(["u0", "u1", "u2", "next"].map((uuid) => retentions.of(uuid))).toEqual([held, undefined, held, held]);
  expect(retentions.pitrMs("u1")).toBe(minute);
});
