/** What blocks an erasure: branches on which its content lives on, and none that only had it. */
import { describe, expect, test } from "vitest";
import { ErasingNode } from "../../../support/erasing-node.ts";
import { erased } from "../../../support/erased-states.ts";

describe("what blocks an erasure", () => {
  test("F87, erasure-02: a checkpoint below the point, by name; one above it stays and is restored", async () => {
    const node = new ErasingNode();
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "checkpoint", name: "old" });
    const coupon = await node.erase(secret);
    await node.fill(1);
    const { txid } = await node.node.branch({ act: "checkpoint", name: "new" });
    await node.fill(1);
    const before = await node.states();
    expect(await node.expunge(coupon)).toEqual({
      blocked: { [coupon.id]: { checkpoints: ["main/old"], branches: [] } },
      clean: [],
      waitingFor: undefined,
      mayChangeSoon: false,
      evidence: undefined,
    });
    expect(await node.states()).toEqual(before);
    await node.node.branch({ act: "forget-checkpoint", name: "old" });
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect((await node.states()).get(txid)).toBe(before.get(txid));
    expect(await node.node.branch({ act: "rewind", to: "new" })).toMatchObject({ rewoundTo: txid });
  });

  test("F88: a branch that still has it live, also before it is due; erased there it does not block", async () => {
    for (const way of ["erase", "delete"]) {
      const node = new ErasingNode();
      const secret = await node.remember("the zyxwvutsecret of it");
      await node.node.branch({ act: "fork", name: "side" });
      await node.fill(1, "side");
      const coupon = await node.erase(secret);
      const blocked = { [coupon.id]: { checkpoints: [], branches: ["side"] } };
      expect((await node.expunge(coupon)).blocked).toEqual(blocked);
      expect((await node.expunge({ ...coupon, isDue: false })).blocked).toEqual(blocked);
      const coupons = [coupon];
      if (way === "erase") coupons.push(await node.erase(secret, "side"));
      else await node.node.branch({ act: "delete", name: "side" });
      expect((await node.complete(...coupons)).clean).toEqual(coupons.map(({ id }) => id));
      expect(await node.residue("zyxwvutsecret")).toEqual([]);
      expect(node.time.store.violations).toEqual([]);
    }
  });

  test("not a branch that only had it, which loses those states; nor one that never had it", async () => {
    const node = new ErasingNode();
    await node.node.branch({ act: "fork", name: "never" });
    await node.fill(2, "never");
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "fork", name: "had" });
    await node.forget(secret, "had");
    await node.fill(2, "had");
    const coupon = await node.erase(secret);
    const [never, had] = [await node.states("never"), await node.states("had")];
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(await node.states("never")).toEqual(never);
    expect([...(await node.states("had"))]).toEqual([...had].slice(-1));
    expect(node.time.store.violations).toEqual([]);
  });

  test("not the branch that wrote and forgot it, when a fork from between erases it", async () => {
    const node = new ErasingNode();
    await node.fill(2);
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.fill(2);
    await node.node.branch({ act: "fork", name: "side" });
    await node.forget(secret);
    await node.fill(2);
    const coupon = await node.erase(secret, "side");
    const before = await node.states();
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect([...(await node.states())]).toEqual([...before].slice(-1));
    expect(Math.min(...(await node.states("side")).keys())).toBe(coupon.txid);
  });

  test("not a branch that forgot it and keeps what it superseded, nor that state's objects", async () => {
    const node = new ErasingNode();
    // SQLite writes the rows 0 and 1 down in another way than all others.
    await node.remember("the first row");
    const old = await node.remember("the theme is dark", "main", { topicKey: "theme" });
    const secret = await node.remember("the zyxwvutsecret of it", "main", { topicKey: "theme" });
    await node.node.branch({ act: "fork", name: "side" });
    await node.forget(secret, "side");
    await node.fill(2, "side");
    const coupon = await node.erase(secret);
    const done = await node.complete(coupon);
    expect(done).toMatchObject({ blocked: {}, clean: [coupon.id] });
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(await node.holds(old, "side")).toBe(true);
  });

  test("a branch that has its bytes in another value, or cannot be read, with that as the reason", async () => {
    const node = new ErasingNode();
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "fork", name: "side" });
    await node.forget(secret, "side");
    await node.time.of(node.node.putting("copied", "side", {}, `${secret}fact and more`));
    const coupon = await node.erase(secret);
    const { blocked, reasons } = await node.expunge(coupon);
    expect(blocked).toEqual({ [coupon.id]: { checkpoints: [], branches: ["side"] } });
    expect(reasons![coupon.id]).toMatch(
      /^branch side: its state \d+ has the bytes of what was erased in something else that is stored there$/,
    );
    await node.time.of(node.node.putting("copied", "side", {}, "something else"));
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);

    const other = await node.remember("the zyxwvutother one");
    await node.node.branch({ act: "fork", name: "late" });
    await node.forget(other, "late");
    await node.fill(3, "late");
    const { key, bytes } = await node.objectWith("zyxwvutother");
    node.time.store.spoil(key, (whole) => whole.map((byte, at) => (at === whole.length - 1 ? byte ^ 1 : byte)));
    const second = await node.erase(other);
    const unread = await node.expunge(second);
    expect(Object.keys(unread.blocked)).toEqual([second.id]);
    expect(unread.reasons![second.id]).toMatch(
      /its state \d+ cannot be restored: object \S+ .* is not what was written$/,
    );
    node.time.store.spoil(key, () => bytes);
  });

  test("a checkpoint of another branch only while its state has it", async () => {
    const node = new ErasingNode();
    const secret = await node.remember("the zyxwvutsecret of it");
    await node.node.branch({ act: "fork", name: "side" });
    await node.fill(1, "side");
    await node.node.branch({ act: "checkpoint", name: "with" }, "side");
    await node.forget(secret, "side");
    await node.node.branch({ act: "checkpoint", name: "without" }, "side");
    await node.fill(2, "side");
    const coupon = await node.erase(secret);
    expect((await node.expunge(coupon)).blocked).toEqual({ [coupon.id]: { checkpoints: ["side/with"], branches: [] } });
    const before = await node.states("side");
    await node.node.branch({ act: "forget-checkpoint", name: "with" }, "side");
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    const after = await node.states("side");
    expect([...after]).toEqual([...before].slice(-after.size));
    await node.node.branch({ act: "rewind", to: "without" }, "side");
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
  });

  test("F86, erasure-08: a rewind that undoes it blocks naming main; erasing again unblocks both", async () => {
    const { node, secret, coupon } = await erased();
    await node.node.branch({ act: "rewind", to: String(coupon.txid - 1) });
    expect(await node.holds(secret)).toBe(true);
    expect(await node.expunge(coupon)).toMatchObject({
      blocked: { [coupon.id]: { checkpoints: [], branches: ["main"] } },
      clean: [],
    });
    await node.fill(2);
    const again = await node.erase(secret);
    expect(await node.expunge(coupon, { ...again, isDue: false })).toMatchObject({
      blocked: {},
      clean: [],
      waitingFor: "another erasure's grace",
    });
    expect((await node.complete(coupon, again)).clean).toEqual([coupon.id, again.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    expect(Math.min(...(await node.states()).keys())).toBe(again.txid);
  });

  test("F86: a rewind that undid it and was taken back leaves nothing of the time between", async () => {
    const { node, secret, coupon } = await erased();
    const last = node.time.manifest(node.uuid).txid;
    await node.node.branch({ act: "rewind", to: String(coupon.txid - 1) });
    await node.fill(2);
    expect(await node.holds(secret)).toBe(true);
    await node.node.branch({ act: "rewind", to: String(last) });
    await node.fill(2);
    const before = await node.states();
    expect((await node.complete(coupon)).clean).toEqual([coupon.id]);
    expect(await node.residue("zyxwvutsecret")).toEqual([]);
    const after = await node.states();
    expect([...after.keys()].filter((txid) => txid > last)).toEqual(
      [...before.keys()].filter((txid) => txid > last + 3),
    );
    expect([...after].every(([txid, state]) => before.get(txid) === state)).toBe(true);
  });
});
