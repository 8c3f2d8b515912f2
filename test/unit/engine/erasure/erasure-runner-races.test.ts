/**
 * What goes on beside an erasure that is being completed, or went wrong before it: it keeps neither erased data nor the
 * erasure from its end.
 */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Work } from "../../../../src/engine/api/protocol.ts";
import { Connection } from "../../../../src/sqlite/connection/connection.ts";
import { ErasingNode } from "../../../support/erasing-node.ts";

const pinToken = 1_000_000;

/** Does what a reader of user SQL asks for: its pin of the branch's file, or the end of that. */
async function reader(
  node: ErasingNode,
  branch: string,
  work: Extract<Work, { kind: "pin" | "unpin" }>,
): Promise<void> {
  const { engine } = node.node;
  engine.receive([
    { id: pinToken, target: node.node.at(branch), work, budgetMs: Infinity, minTxid: 0, durable: false },
  ]);
  await node.time.pass(100);
}

describe("a local file", () => {
  test("of a branch that was in use when it was deleted goes too", async () => {
    const node = new ErasingNode();
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "fork", name: "side" });
    await node.fill(1, "side");
    await reader(node, "side", { kind: "pin" });
    await expect(node.node.branch({ act: "delete", name: "side" })).rejects.toMatchObject({ code: "unavailable" });
    const coupon = await node.erase(secret);
    await reader(node, "side", { kind: "unpin", token: pinToken, seenTxid: 0 });
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
  });

  test(
    "of a branch that nobody uses stays open until it is clean, however long another one's cleaning " + "takes",
    async () => {
      const node = new ErasingNode({ idleCloseMs: 3_000 });
      const secret = await node.remember("the zyxwvutsecret of it");
      const coupon = await node.erase(secret);
      await node.node.branch({ act: "fork", name: "side" });
      await node.complete(coupon);
      await node.fill(1, "side");
      await node.fill(1);
      const long = new Connection(join(node.node.directory, "db", node.uuid, "main.db"), {
        readonly: true,
        pageCacheKiB: 64,
      });
      long.run("BEGIN");
      long.get("SELECT count(*) FROM __service_memory");
      await node.fill(1);
      const running = node.node.client.branch(
        node.node.at("main"),
        { act: "expunge", coupons: [coupon] },
        { deadlineMs: Infinity },
      );
      running.catch(() => {});
      await node.time.pass(8_000);
      long.close();
      const { value } = await node.time.of(running);
      expect(value.clean).toEqual([coupon.id]);
      expect(node.node.notices).toEqual([]);
    },
  );
});

describe("packing", () => {
  test("of a branch that was deleted meanwhile leaves nothing behind the proof", async () => {
    const node = new ErasingNode({ gcGraceMs: 0 });
    await node.complete(await node.erase(await node.remember("another one")));
    await node.node.branch({ act: "fork", name: "side" });
    const secret = await node.remember("the zyxwvutsecret of it", "side");
    await node.time.pass(1_500);
    let go = (): void => {};
    const held = new Promise<void>((resolve) => (go = resolve));
    let isPacking = false;
    let isHeld = false;
    node.time.store.decideFate = (verb, key) => {
      if (!key.includes("/seg/")) return "fine";
      // Shipping only puts; packing gets first.
      isPacking ||= verb === "get";
      isHeld ||= isPacking && verb === "put";
      return isHeld ? { held } : "fine";
    };
    for (let n = 0; !isHeld; n++) {
      await node.remember(`memory ${n}`, "side");
      await node.time.pass(1_500);
    }
    node.time.store.decideFate = () => "fine";
    const coupon = await node.erase(secret, "side");
    await node.node.branch({ act: "delete", name: "side" });
    void node.time.scheduler.sleep(5_000).then(go);
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    await node.time.of(held);
    await node.time.pass(10);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
  });
});

describe("a branch that was deleted after an erasure on it", () => {
  test("takes no more from the others than it would if it were still there", async () => {
    const node = new ErasingNode();
    await node.fill(3);
    await node.node.branch({ act: "fork", name: "other", at: "1" });
    await node.node.branch({ act: "fork", name: "side" });
    const secret = await node.remember("the zyxwvutsecret of it", "side");
    await node.node.branch({ act: "fork", name: "nested" }, "side");
    await node.fill(4, "nested", 24);
    const coupon = await node.erase(secret, "nested");
    await node.fill(4, "main", 32);
    await node.fill(4, "other", 32);
    await node.node.branch({ act: "checkpoint", name: "own" }, "other");
    await node.fill(4, "other", 40);
    const [main, other] = [await node.states(), await node.states("other")];
    await node.node.branch({ act: "delete", name: "nested" });
    await node.node.branch({ act: "delete", name: "side" });
    expect(await node.complete(coupon)).toMatchObject({ clean: [coupon.id], blocked: {} });
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(await node.states()).toEqual(new Map([...main].filter(([txid]) => txid >= 3)));
    expect(await node.states("other")).toEqual(other);
  });
});

describe("what looks like what was erased, and stays by right", () => {
  test("a memory that is said again with its vector, in the row that became free", async () => {
    const node = new ErasingNode();
    const embedding = Float32Array.from({ length: 64 }, (_, n) => Math.sin(n + 1));
    const secret = await node.remember("said twice", "main", { embedding });
    const coupon = await node.erase(secret);
    const again = await node.remember("said twice", "main", { embedding });
    await node.fill(2);
    expect(await node.complete(coupon)).toMatchObject({ clean: [coupon.id], blocked: {} });
    expect(await node.holds(again)).toBe(true);
  });

  test("a turn of the same moment in a session whose id ends alike", async () => {
    const node = new ErasingNode();
    const end = "2f0c7a52-1111-4222-8333-abcdefabcdef";
    const say = (sessionId: string): Promise<unknown> =>
      node.node.client.write(
        node.node.at("main"),
        "turn.append",
        { sessionId, role: "user", content: JSON.stringify(`zyxwvutsecret of ${sessionId}`) },
        node.node.soon(),
      );
    await node.time.of(Promise.all([say(`alice:${end}`), say(`bobby:${end}`)]));
    const coupon = await node.erase({ kind: "session", sessionId: `alice:${end}`, turns: true });
    await node.fill(2);
    expect(await node.complete(coupon)).toMatchObject({ clean: [coupon.id], blocked: {} });
    expect(await node.residue("zyxwvutsecret of alice")).toEqual([]);
    expect(await node.residue("zyxwvutsecret of bobby")).not.toEqual([]);
  });
});
