/** Names and their databases: claimed once among all nodes, given back, taken again, and known through outages. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { realWorld, type World } from "../../../../src/base/world.ts";
import { Databases } from "../../../../src/control/databases/databases.ts";
import { decodeNameClaim } from "../../../../src/format/records/name-claim.ts";
import { nameClaimKey, purgeKey } from "../../../../src/format/keys/object-keys.ts";
import { wasDeleted } from "../../../../src/control/databases/deletions.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { PutCondition, PutOutcome, StoredObject } from "../../../../src/store/port/object-store.ts";
import { SimWorld } from "../../../sim/sim-world.ts";
import { Scheduler } from "../../../sim/scheduler.ts";

const world = realWorld();

/** Applies a put and then loses its answer, as a store behind a network may. */
class ForgetfulStore extends MemoryStore {
  forget = 0;
  override async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const outcome = await super.put(key, bytes, condition);
    if (this.forget-- > 0) throw new StoreError("unknown_outcome", "the answer was lost");
    return outcome;
  }
}

/** Loses the answer of a put of a name, and lets others do something before it is read back. */
class MeddledStore extends MemoryStore {
  /** Once: the put is applied, and then this. */
  afterLost: (() => Promise<void>) | undefined;
  /** Once: this, and then the put fails for its condition. */
  beforeLost: (() => Promise<void>) | undefined;
  override async put(key: string, bytes: Uint8Array, condition: PutCondition): Promise<PutOutcome> {
    const [before, after] = [this.beforeLost, this.afterLost];
    if (!key.startsWith("names/") || condition.kind === "absent" || !(before ?? after))
      return super.put(key, bytes, condition);
    this.beforeLost = this.afterLost = undefined;
    await before?.();
    await super.put(key, bytes, condition);
    await after?.();
    throw new StoreError("unknown_outcome", "the answer was lost");
  }
}

/** Fails its reads, or never answers them, for as long as an outage lasts. */
class FailingStore extends MemoryStore {
  outage: "none" | "refused" | "silent" = "none";
  override async get(key: string): Promise<StoredObject | undefined> {
    if (this.outage === "refused") throw new StoreError("unavailable", "nobody is there");
    if (this.outage === "silent") await new Promise(() => {});
    return super.get(key);
  }
}

describe("databases", () => {
  test("a database counts as deleted by its tombstone or its name's next holder, not by a missing claim", async () => {
    const store = new MemoryStore();
    const databases = new Databases(store, world);
    const [kept, gone, again] = [
      await databases.create("kept"),
      await databases.create("gone"),
      await databases.create("again"),
    ];
    await databases.remove("gone");
    await databases.remove("again");
    await databases.create("again");
    // A deletion that did not come to pass leaves a marker; and then the claim is lost.
    await store.put(purgeKey(kept.uuid), Buffer.from("kept"), { kind: "absent" });
    const known = async (): Promise<unknown> => ({
      listed: (await new Databases(store, world).deletedUuids()).toSorted(),
      each: await Promise.all([kept, gone, again].map(({ uuid }) => wasDeleted(store, uuid))),
    });
    const expected = { listed: [gone.uuid, again.uuid].toSorted(), each: [false, true, true] };
    expect(await known()).toEqual(expected);
    await store.delete(nameClaimKey("kept"));
    expect(await known()).toEqual(expected);
  });

  test("a half-removed database is not taken for deleted by a node that remembers its name's last holder", async () => {
    const store = new MeddledStore();
    const [here, there] = [new Databases(store, world), new Databases(store, world)];
    const first = await here.create("again");
    await there.remove("again");
    const second = await there.create("again");
    expect((await here.require("again")).uuid).toBe(first.uuid);
    // The marker is there, and the tombstone is not.
    await store.put(purgeKey(second.uuid), Buffer.from("again"), { kind: "absent" });
    expect(await here.deletedUuids()).toEqual([first.uuid]);
    expect((await new Databases(store, world).require("again")).uuid).toBe(second.uuid);
  });

  test("core-02: a name is claimed once; the list shows every database", async () => {
    const databases = new Databases(new MemoryStore(), world);
    const a = await databases.create("a");
    await databases.create("b");
    await expect(databases.create("a")).rejects.toMatchObject({ code: "already_exists" });
    expect((await databases.list()).map(({ name }) => name)).toEqual(["a", "b"]);
    expect(await databases.require("a")).toEqual(a);
    await expect(databases.require("c")).rejects.toMatchObject({ code: "database_not_found" });
  });

  test("two nodes that race for one name agree on one uuid", async () => {
    const store = new MemoryStore();
    const nodes = Array.from({ length: 8 }, () => new Databases(store, world));
    const records = await Promise.all(nodes.map((node) => node.ensure("acme--alice")));
    expect(new Set(records.map(({ uuid }) => uuid)).size).toBe(1);
    const creations = await Promise.allSettled(nodes.map((node) => node.create("plain")));
    expect(creations.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("distribution-07: of two nodes that create one name one gets it; the other hears so and means it", async () => {
    const store = new MemoryStore();
    const nodes = [new Databases(store, world), new Databases(store, world)] as const;
    // Both have looked and found nobody.
    for (const node of nodes) expect(await node.find("a")).toBeUndefined();
    const outcomes = await Promise.allSettled(nodes.map((node) => node.create("a")));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const lost = outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult;
    expect(lost.reason).toMatchObject({ code: "already_exists" });
    const records = await Promise.all(nodes.map((node) => node.require("a")));
    expect(records[0]).toEqual(records[1]);
    expect((await store.list("names/", { limit: 10 })).objects).toHaveLength(1);
  });

  test("distribution-08: a profile made by both nodes is one, and so is its next life after a deletion", async () => {
    const store = new MemoryStore();
    let skippedMs = 0;
    const skipping = { ...world, monotonicMs: () => world.monotonicMs() + skippedMs };
    const [a, b] = [new Databases(store, world), new Databases(store, skipping)];
    const [first, same] = await Promise.all([a.ensure("acme--alice"), b.ensure("acme--alice")]);
    expect(first).toEqual(same);
    await a.remove("acme--alice");
    // For a few seconds b goes by what it remembers; whoever finds the database gone asks, and then it knows.
    expect((await b.ensure("acme--alice")).uuid).toBe(first.uuid);
    expect(await b.isHeldBy("acme--alice", first.uuid)).toBe(false);
    const next = await b.ensure("acme--alice");
    expect(next.uuid).not.toBe(first.uuid);
    expect(await a.ensure("acme--alice")).toEqual(next);
    expect(await b.isHeldBy("acme--alice", next.uuid)).toBe(true);
    await a.remove("acme--alice");
    skippedMs += 60_000;
    expect(await b.find("acme--alice")).toBeUndefined();
  });

  test("distribution-09: a starting node finds every tombstone: tokens of earlier lives are void at once", async () => {
    const store = new MemoryStore();
    const before = new Databases(store, world);
    const first = await before.create("a");
    await before.remove("a");
    await before.create("b");
    await before.remove("b");
    const second = await before.create("b");
    const started = new Databases(store, world);
    const [ofA, ofB] = [await started.standing("a"), await started.standing("b")];
    expect(ofA).toEqual({ uuid: undefined, deletedAtMs: expect.any(Number) as number });
    expect(ofB).toEqual({ uuid: second.uuid, deletedAtMs: expect.any(Number) as number });
    expect(ofA.deletedAtMs).toBeGreaterThanOrEqual(first.createdAtMs);
    expect(ofB.deletedAtMs).toBeLessThan(second.createdAtMs);
  });

  test("auth-17: a name's standing is its holder and its last taking, on every node, in every life", async () => {
    const store = new MemoryStore();
    const databases = new Databases(store, world);
    const elsewhere = (): Databases => new Databases(store, world);
    expect(await databases.standing("a")).toEqual({ uuid: undefined, deletedAtMs: undefined });
    const first = await databases.create("a");
    expect(await databases.standing("a")).toEqual({ uuid: first.uuid, deletedAtMs: undefined });
    let last = 0;
    for (let life = 0; life < 3; life++) {
      await databases.remove("a");
      const { uuid, deletedAtMs } = await databases.standing("a");
      expect(uuid).toBeUndefined();
      expect(deletedAtMs).toBeGreaterThanOrEqual(last);
      last = deletedAtMs!;
      const next = await databases.create("a");
      expect(next.createdAtMs).toBeGreaterThan(last);
      for (const node of [databases, elsewhere()])
        expect(await node.standing("a")).toEqual({ uuid: next.uuid, deletedAtMs: last });
    }
  });

  test("an unknown name's standing fails with the store; one that is known goes on in an outage", async () => {
    const store = new FailingStore();
    const databases = new Databases(store, world);
    const { uuid } = await databases.create("a");
    store.outage = "refused";
    await expect(databases.standing("b")).rejects.toMatchObject({ kind: "unavailable" });
    expect(await databases.standing("a")).toEqual({ uuid, deletedAtMs: undefined });
  });

  test("a deleted name leaves a tombstone; the next life has a fresh uuid and a later birth", async () => {
    const store = new MemoryStore();
    const databases = new Databases(store, world);
    const first = await databases.create("a");
    await databases.remove("a");
    await expect(databases.remove("a")).rejects.toMatchObject({ code: "database_not_found" });
    expect(await databases.find("a")).toBeUndefined();
    expect(await store.get(nameClaimKey("a"))).toBeDefined();
    expect(await databases.list()).toEqual([]);
    const second = await databases.create("a");
    expect(second.uuid).not.toBe(first.uuid);
    expect(second.createdAtMs).toBeGreaterThan(first.createdAtMs);
  });

  test("an answer that the store lost is settled by reading back", async () => {
    const store = new ForgetfulStore();
    const databases = new Databases(store, world);
    store.forget = 1;
    const created = await databases.create("a");
    expect((await new Databases(store, world).require("a")).uuid).toBe(created.uuid);
    store.forget = 1;
    await databases.remove("a");
    expect(await databases.find("a")).toBeUndefined();
  });

  for (const name of ["a", "acme--alice"]) {
    test(`what has taken the name ${name} since is not removed when the removal's answer was lost`, async () => {
      // Another node was quick to take it.
      const store = new MeddledStore();
      const [here, there] = [new Databases(store, world), new Databases(store, world)];
      const first = await here.create(name);
      let second: { readonly uuid: string } | undefined;
      store.afterLost = async () => void (second = await there.create(name));
      expect((await here.remove(name)).uuid).toBe(first.uuid);
      expect((await new Databases(store, world).require(name)).uuid).toBe(second!.uuid);
      expect(await here.deletedUuids()).toEqual([first.uuid]);
      if (name === "a") return;
      // Somebody else's removal is not ours: profiles' deletions are counted; those of others are told apart by their
      // time.
      store.beforeLost = async () => {
        await there.remove(name);
        await there.create(name);
      };
      await expect(here.remove(name)).rejects.toMatchObject({ code: "database_not_found" });
      expect((await new Databases(store, world).deletedUuids()).toSorted()).toEqual(
        [first.uuid, second!.uuid].toSorted(),
      );
    });
  }

  for (const outage of ["refused", "silent"] as const) {
    test(`F33: what is known goes on while the store is ${outage}; later a deletion elsewhere is seen`, async () => {
      const store = new FailingStore();
      let skippedMs = 0;
      const databases = new Databases(store, { ...world, monotonicMs: () => world.monotonicMs() + skippedMs });
      const record = await databases.create("a");
      skippedMs += 60_000;
      store.outage = outage;
      const found = await Promise.all([databases.require("a"), databases.require("a")]);
      expect(found).toEqual([record, record]);
      expect(await databases.require("a")).toEqual(record);
      if (outage === "refused")
        await expect(databases.require("never-seen")).rejects.toMatchObject({ kind: "unavailable" });
      store.outage = "none";
      if (outage === "silent") return;
      await new Databases(store, world).remove("a");
      expect(await databases.find("a")).toBeUndefined();
    });
  }

  test("profiles are listed by namespace, and only its own", async () => {
    const databases = new Databases(new MemoryStore(), world);
    for (const name of ["acme--alice", "acme--bob", "acmex--carol", "acme"]) await databases.ensure(name);
    expect((await databases.listProfiles("acme")).map(({ profile }) => profile)).toEqual(["alice", "bob"]);
  });
});

describe("F42: a claim that was written under a clock that was ahead", () => {
  const dayMs = 86_400_000;

  async function deletedAt(skewMs: number) {
    const store = new MemoryStore();
    const node = new SimWorld(new Scheduler(1, 200), 1, "a");
    const ahead: World = { ...realWorld(), nowMs: () => node.nowMs() + skewMs };
    await new Databases(store, node).create("a");
    await new Databases(store, ahead).remove("a");
    await new Databases(store, ahead).create("a");
    const { uuid, deletedAtMs } = await new Databases(store, node).standing("a");
    return { uuid, aheadMs: deletedAtMs! - node.nowMs(), store };
  }

  test("keeps tokens away until now, not for years", async () => {
    const { uuid, aheadMs, store } = await deletedAt(8 * 365 * dayMs);
    expect(uuid).toBeDefined();
    expect(aheadMs).toBe(0);
    // For every node and for good.
    const { freedAtMs, createdAtMs, deletedAtMs } = decodeNameClaim((await store.get(nameClaimKey("a")))!.bytes);
    expect([freedAtMs, createdAtMs, deletedAtMs]).toEqual([expect.any(Number), freedAtMs, undefined]);
  });

  test("stays when it keeps them away no longer than one lives: no token comes back by a clock's mistake", async () => {
    expect((await deletedAt(4 * dayMs)).aheadMs).toBe(4 * dayMs);
  });
});
