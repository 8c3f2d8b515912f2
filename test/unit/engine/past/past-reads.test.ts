/** Reads of earlier states: which state is meant, what is restored for it, what stays on the disk, and what goes. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatState } from "../../../support/states-of-keys.ts";
import { startBranching } from "../../../support/branching-node.ts";
import { erased } from "../../../support/erased-states.ts";
import type { TimedEngine } from "../../../support/timed-engine.ts";

async function keysAt(node: TimedEngine, at: string, branch = "main"): Promise<{ keys: string[]; txid: number }> {
  const reading = node.client.read(node.at(branch), "kv.list", { ns: "n", limit: 1_000 }, node.soon({ at }));
  const { value, txid } = await node.time.of(reading);
  return { keys: [...value.keys], txid };
}

function refusalOf(promise: Promise<unknown>): Promise<string | undefined> {
  return promise.then(
    () => "done",
    (error: { code?: string }) => error.code,
  );
}

/** The restored states on the node's disk. */
function restored(node: TimedEngine): string[] {
  return readdirSync(join(node.directory, "scratch")).filter((name) => /^past-.*\.db$/.test(name));
}

const timeOf = (node: TimedEngine): string => new Date(node.world.wallMs()).toISOString();

describe("a state", () => {
  test("is read by its transaction id, shipped or not, by a checkpoint, and by a time", async () => {
    const { node } = startBranching();
    const times: string[] = [];
    for (let n = 1; n <= 6; n++) {
      await node.time.pass(1_500);
      await node.put(`k${n}`, "main", { durable: n === 3 });
      times.push(timeOf(node));
      if (n === 2) await node.branch({ act: "checkpoint", name: "two" });
    }
    const first = ["k1", "k2", "k3", "k4", "k5", "k6"];
    for (let n = 0; n <= 6; n++) expect(await keysAt(node, String(n))).toEqual({ keys: first.slice(0, n), txid: n });
    expect(await keysAt(node, "two")).toEqual({ keys: ["k1", "k2"], txid: 2 });
    for (const [at, time] of times.entries())
      expect(await keysAt(node, time)).toEqual({ keys: first.slice(0, at + 1), txid: at + 1 });
    const after = await node.again(true);
    for (let n = 0; n <= 6; n++) expect((await keysAt(after, String(n))).keys).toEqual(first.slice(0, n));
    for (const [at, time] of times.entries()) expect((await keysAt(after, time)).txid).toBe(at + 1);
  });

  test("that is none is not found, as a fork of it is not", async () => {
    const { node } = startBranching();
    expect(await refusalOf(keysAt(node, "1"))).toBe("not_found");
    await node.put("a");
    for (const at of ["2", "9999999999", "nothing"]) {
      expect(await refusalOf(keysAt(node, at)), at).toBe("not_found");
      expect(await refusalOf(node.branch({ act: "fork", name: "f", at })), at).toBe("not_found");
    }
  });

  test("of a rewound timeline is read by its id and its time, and forks and rewinds take a time too", async () => {
    const { node } = startBranching();
    await node.put("a");
    await node.time.pass(5_000);
    await node.put("b");
    const withB = timeOf(node);
    await node.time.pass(5_000);
    const { txid } = await node.branch({ act: "rewind", to: "1" });
    await node.time.pass(5_000);
    await node.put("c");
    expect((await keysAt(node, "2")).keys).toEqual(["a", "b"]);
    expect(await keysAt(node, withB)).toEqual({ keys: ["a", "b"], txid: 2 });
    expect((await keysAt(node, String(txid))).keys).toEqual(["a"]);
    expect((await keysAt(node, timeOf(node))).keys).toEqual(["a", "c"]);
    await node.branch({ act: "fork", name: "f", at: withB });
    expect(await node.keys("f")).toEqual(["a", "b"]);
    // A fork begins at its fork point: what was before is its parent's.
    expect(await refusalOf(keysAt(node, "1", "f"))).toBe("not_found");
    await node.branch({ act: "rewind", to: withB });
    expect(await node.keys()).toEqual(["a", "b"]);
  });

  test("outside of the window is found under its name alone", async () => {
    const { node } = startBranching({ pitrMs: 60_000 });
    await node.put("a");
    await node.branch({ act: "checkpoint", name: "kept" });
    await node.put("b");
    await node.put("c");
    expect((await keysAt(node, "2")).keys).toEqual(["a", "b"]);
    await node.sync();
    await node.time.pass(200_000);
    await node.put("d");
    await node.sync();
    expect((await keysAt(node, "kept")).keys).toEqual(["a"]);
    // Restored as it is: a window that has passed it is asked each time.
    expect(await refusalOf(keysAt(node, "2"))).toBe("not_found");
  });

  test("cannot be written, and what has expired is judged at its time", async () => {
    const { node } = startBranching();
    const input = { ns: "n", key: "short", value: Buffer.from("v"), ttlSecs: 10 };
    await node.time.of(node.client.write(node.at("main"), "kv.put", input, node.soon()));
    await node.time.pass(9_000);
    await node.put("other");
    await node.time.pass(500);
    const before = timeOf(node);
    await node.time.pass(5_000);
    const after = timeOf(node);
    expect(await node.keys()).toEqual(["other"]);
    expect((await keysAt(node, "1")).keys).toEqual(["short"]);
    expect((await keysAt(node, "2")).keys).toEqual(["other", "short"]);
    expect((await keysAt(node, before)).keys).toEqual(["other", "short"]);
    expect((await keysAt(node, after)).keys).toEqual(["other"]);
    const writing = node.client.write(node.at("main"), "kv.delete", { ns: "n", key: "x" }, node.soon({ at: "1" }));
    await expect(node.time.of(writing)).rejects.toMatchObject({ code: "invalid_request" });
  });
});

describe("the restored states", () => {
  test("are kept, within their bounds, the newest whatever its size, and go with the engine", async () => {
    const { node } = startBranching({ pastBytesMax: 1 });
    for (let n = 1; n <= 3; n++) await node.put(`k${n}`);
    await keysAt(node, "1");
    const [name] = restored(node);
    await keysAt(node, "1");
    expect(restored(node)).toEqual([name]);
    await keysAt(node, "2");
    expect(restored(node)).toHaveLength(1);
    expect(restored(node)).not.toEqual([name]);
    await node.close();
    expect(readdirSync(join(node.directory, "scratch"))).toEqual([]);
  });

  test("are at most sixteen where there is room, and unused ones go", async () => {
    const { node } = startBranching();
    for (let n = 1; n <= 24; n++) await node.put(`k${n}`);
    for (let n = 1; n <= 24; n++) await keysAt(node, String(n));
    expect(restored(node)).toHaveLength(16);
    await node.time.pass(700_000);
    expect(restored(node)).toEqual([]);
    expect((await keysAt(node, "7")).keys).toHaveLength(7);
  });

  test("are one for all who ask at once", async () => {
    const { node } = startBranching();
    for (let n = 1; n <= 3; n++) await node.put(`k${n}`);
    await node.sync();
    const read = (): Promise<{ txid: number }> =>
      node.client.read(node.at("main"), "kv.list", { ns: "n", limit: 10 }, node.soon({ at: "2" }));
    const answers = await node.time.of(Promise.all(Array.from({ length: 40 }, read)));
    expect(new Set(answers.map(({ txid }) => txid))).toEqual(new Set([2]));
    expect(node.engine.state.past).toMatchObject({ states: 1, restored: 1 });
    expect(statSync(join(node.directory, "scratch", restored(node)[0]!)).size).toBe(node.engine.state.past.bytes);
  });

  test("go with their branch and with their database", async () => {
    const { node } = startBranching();
    await node.put("a");
    await node.branch({ act: "fork", name: "f" });
    await node.put("b", "f");
    await keysAt(node, "1");
    await keysAt(node, "2", "f");
    expect(restored(node)).toHaveLength(2);
    await node.branch({ act: "delete", name: "f" });
    expect(restored(node)).toHaveLength(1);
    await node.time.of(node.client.deleteTarget(node.at("main"), node.soon()));
    expect(restored(node)).toEqual([]);
  });

  test("hold nothing of what was erased, and nothing brings it back", async () => {
    const { node, coupon } = await erased();
    const read = (txid: number): Promise<unknown> =>
      node.time.of(
        node.node.client.read(
          node.node.at("main"),
          "kv.list",
          { ns: "n", limit: 9 },
          node.node.soon({ at: String(txid) }),
        ),
      );
    // Within the grace history is whole, as for a rewind.
    await read(coupon.txid - 1);
    await read(coupon.txid);
    expect((await node.residue("zyxwvutsecret")).length).toBeGreaterThan(0);
    await node.complete(coupon);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(restored(node.node)).toEqual([]);
    expect(await refusalOf(read(coupon.txid - 1))).toBe("not_found");
    await read(coupon.txid);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
  });
});

test("every state of random histories is read as it was", async () => {
  const act = fc.oneof(
    fc.record({ kind: fc.constant("put" as const), key: fc.integer({ min: 0, max: 5 }), durable: fc.boolean() }),
    fc.record({ kind: fc.constant("delete" as const), key: fc.integer({ min: 0, max: 5 }) }),
    fc.record({ kind: fc.constant("rewind" as const), back: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant("restart" as const), loss: fc.boolean() }),
    fc.record({ kind: fc.constant("read" as const), back: fc.integer({ min: 0, max: 9 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 30 }), async (acts) => {
      let { node } = startBranching();
      const states = new Map<number, Map<string, string>>([[0, new Map()]]);
      let now = new Map<string, string>();
      let newest = 0;
      const note = (txid: number): void => {
        newest = txid;
        states.set(txid, new Map(now));
      };
      const check = async (txid: number): Promise<void> =>
        expect(await formatState(node, String(txid)), `transaction ${txid}`).toEqual(
          [...states.get(txid)!].toSorted().map(([key, value]) => `${key}=${value}`),
        );
      for (const [at, one] of acts.entries()) {
        if (one.kind === "put") {
          const { txid } = await node.time.of(node.putting(`k${one.key}`, "main", { durable: one.durable }, `v${at}`));
          now.set(`k${one.key}`, `v${at}`);
          note(txid);
        } else if (one.kind === "delete") {
          const input = { ns: "n", key: `k${one.key}` };
          const { txid } = await node.time.of(node.client.write(node.at("main"), "kv.delete", input, node.soon()));
          if (now.delete(`k${one.key}`)) note(txid);
        } else if (one.kind === "rewind") {
          const to = [...states.keys()].at(-1 - one.back);
          if (to === undefined || to === 0) continue;
          const { txid } = await node.branch({ act: "rewind", to: String(to) });
          now = new Map(states.get(to));
          note(txid);
        } else if (one.kind === "restart") {
          if (newest > 0) await node.sync();
          node = await node.again(one.loss);
        } else if (newest > 0) {
          await check([...states.keys()].at(-1 - one.back) ?? newest);
        }
      }
      if (newest > 0) for (const txid of states.keys()) await check(txid);
      await node.close();
    }),
    { numRuns: 12 },
  );
});
