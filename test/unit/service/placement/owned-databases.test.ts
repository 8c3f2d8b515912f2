/**
 * What this node holds: taken and given up one change at a time, with a real engine and leases of the test's process.
 */
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { silentLog } from "../../../../src/base/log.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { TurnedAway } from "../../../../src/engine/api/engine-port.ts";
import { OwnedDatabases } from "../../../../src/service/placement/owned-databases.ts";
import { hastyWorld } from "../../../support/hasty-world.ts";
import { openInlineEngine, uuidOf } from "../../../support/inline-engine.ts";
import { buildMainTarget } from "../../../support/placed-nodes.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";
import { LeaseTable, SharedLeases } from "../../../support/shared-leases.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

async function holding(
  countMax: number,
  world = realWorld(),
): Promise<{ held: OwnedDatabases; table: LeaseTable; store: ScriptedStore; put(uuid: string): Promise<unknown> }> {
  const store = new ScriptedStore(world.nowMs);
  const { client } = openInlineEngine(join(temporaryDirectory(), "a"), {
    world,
    store,
    options: { nodeId: "a", coordinated: true },
  });
  const table = new LeaseTable(world);
  const leases = new SharedLeases(table, world);
  const held = new OwnedDatabases({ local: client, leases, world, log: silentLog }, countMax);
  await leases.join(
    { id: "a", address: "http://a", reachesStore: true, sharesJobs: true },
    {
      renewed: (until) => client.renewLease(until),
      lost() {
        held.lost();
        client.renewLease(undefined);
      },
    },
  );
  onTestFinished(async () => {
    await leases.leave();
    await client.close();
  });
  const input = { ns: "d", key: "k", value: Uint8Array.of(1) };
  return {
    held,
    table,
    store,
    put: (uuid) => client.write(buildMainTarget(uuid), "kv.put", input, { deadlineMs: world.monotonicMs() + 10_000 }),
  };
}

describe("the databases that a node holds", () => {
  test("beyond the bound the least recently used is given up, with everything in object storage", async () => {
    const { held, table, put } = await holding(2);
    const [first, second, third] = [uuidOf(1), uuidOf(2), uuidOf(3)];
    for (const uuid of [first, second]) {
      await held.take(uuid);
      await put(uuid);
    }
    held.use(first);
    await held.take(third);
    await held.waitUntilReleased(second);
    expect([first, second, third].map((uuid) => held.has(uuid))).toEqual([true, false, true]);
    expect(table.holding(second)).toEqual({ holder: undefined });
    await expect(put(second)).rejects.toThrow(TurnedAway);
    await put(first);
  });

  test("whoever wants it while it is being given up gets it afterwards, under the next lease epoch", async () => {
    const { held, put } = await holding(10);
    expect(await held.take(uuidOf(1))).toEqual({ kind: "acquired", leaseEpoch: 1 });
    await put(uuidOf(1));
    const [, again, shared] = await Promise.all([
      held.releaseHeld(uuidOf(1)),
      held.take(uuidOf(1)),
      held.take(uuidOf(1)),
    ]);
    expect([again, shared]).toEqual([
      { kind: "acquired", leaseEpoch: 2 },
      { kind: "acquired", leaseEpoch: 2 },
    ]);
    await put(uuidOf(1));
  });

  test("what cannot be shipped is not given away: the lease stays, and the database can be taken again", async () => {
    const { held, table, store, put } = await holding(10, hastyWorld(20));
    await held.take(uuidOf(1));
    await put(uuidOf(1));
    store.decideFate = (verb) => (verb === "put" ? "refused" : "fine");
    await held.releaseHeld(uuidOf(1));
    expect(held.has(uuidOf(1))).toBe(false);
    expect(table.holding(uuidOf(1)).holder).toMatchObject({ nodeId: "a", leaseEpoch: 1 });
    store.decideFate = () => "fine";
    expect(await held.take(uuidOf(1))).toEqual({ kind: "acquired", leaseEpoch: 2 });
    await put(uuidOf(1));
  });

  test("a lease that is lost while a database is being taken leaves nothing held", async () => {
    const { held, table, put } = await holding(10);
    const taking = held.take(uuidOf(1));
    while (table.holding(uuidOf(1)).holder === undefined) await Promise.resolve();
    held.lost();
    await expect(taking).rejects.toThrow(TurnedAway);
    expect(held.size).toBe(0);
    await expect(put(uuidOf(1))).rejects.toThrow(TurnedAway);
  });

  test("a lease epoch that has passed takes nothing away from the present one", async () => {
    const { held } = await holding(10);
    await held.take(uuidOf(1));
    await held.releaseHeld(uuidOf(1));
    await held.take(uuidOf(1));
    held.forget(uuidOf(1), 1);
    await held.fenced(uuidOf(1), 1);
    expect(held.use(uuidOf(1))).toBe(2);
  });
});
