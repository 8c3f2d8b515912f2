/** The catalog of a database: changed by compare-and-set, to the newest there is, whatever becomes of the answers. */
import { describe, expect, test } from "vitest";
import { ServiceError, StoreError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { Catalogs, catalogDoubtsMax } from "../../../../src/engine/history/catalogs.ts";
import { decodeCatalog, type Catalog, type CatalogBranch } from "../../../../src/format/history/catalog.ts";
import { catalogKey } from "../../../../src/format/keys/object-keys.ts";
import { seeded } from "../../../support/random.ts";
import { uuidOf } from "../../../support/inline-engine.ts";
import { ScriptedStore, type Fate } from "../../../support/scripted-store.ts";

const uuid = uuidOf(1);
const world = realWorld();
const stored = (store: ScriptedStore): Catalog => decodeCatalog(store.read(catalogKey(uuid))!.bytes);
const describeOutcome = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "done",
    (error: unknown) =>
      error instanceof StoreError ? error.kind : error instanceof ServiceError ? error.code : String(error),
  );

/** A catalog as a first claim leaves it. */
async function made(catalogs: Catalogs): Promise<void> {
  await catalogs.begin(uuid);
  await catalogs.ensure(uuid);
}

function buildBranch(name: string, ttlAtMs?: number): CatalogBranch {
  return { name, id: world.ulid(), createdAtMs: 1, parent: { name: "main", id: "main", forkTxid: 0 }, ttlAtMs };
}

/** Adds the branch, unless it is there. */
const adding = (branch: CatalogBranch) => (catalog: Catalog) =>
  catalog.branches.some(({ id }) => id === branch.id)
    ? undefined
    : {
        branches: [...catalog.branches, branch].sort((a, b) =>
          a.name === "main" ? -1 : b.name === "main" ? 1 : a.name < b.name ? -1 : 1,
        ),
      };

describe("catalogs", () => {
  test("of a database that nobody has written have one branch, main, and no object", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    expect(await catalogs.get(uuid)).toBeUndefined();
    expect(await catalogs.branch(uuid, "main")).toMatchObject({ id: "main" });
    expect(await describeOutcome(catalogs.branch(uuid, "x"))).toBe("branch_not_found");
    expect(store.keys()).toEqual([]);
  });

  test("are read once and then known; fresh reads again", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    await made(catalogs);
    const before = store.count("get");
    for (let n = 0; n < 5; n++) await catalogs.branch(uuid, "main");
    expect(store.count("get")).toBe(before);
    const other = new Catalogs(store, world);
    await other.update(uuid, adding(buildBranch("x")));
    expect(await describeOutcome(catalogs.branch(uuid, "x"))).toBe("branch_not_found");
    await catalogs.fresh(uuid);
    expect(await describeOutcome(catalogs.branch(uuid, "x"))).toBe("done");
  });

  test("begun and made by however many at once, are one", async () => {
    const store = new ScriptedStore();
    await Promise.all(Array.from({ length: 4 }, () => made(new Catalogs(store, world))));
    expect(stored(store).seq).toBe(1);
  });

  test("changes made at once by several, from whatever they knew, are all there", async () => {
    const store = new ScriptedStore();
    const several = Array.from({ length: 5 }, () => new Catalogs(store, world));
    for (const catalogs of several) await catalogs.get(uuid);
    await Promise.all(Array.from({ length: 30 }, (_, n) => several[n % 5]!.update(uuid, adding(buildBranch(`b${n}`)))));
    expect(stored(store).branches).toHaveLength(31);
    expect(stored(store).seq).toBe(30);
  });

  test("a change may refuse, and then nothing is put", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    await made(catalogs);
    expect(
      await describeOutcome(
        catalogs.update(uuid, () => {
          throw new ServiceError("already_exists", "taken");
        }),
      ),
    ).toBe("already_exists");
    expect(stored(store).seq).toBe(1);
  });

  test("a branch ends when its time is over, with no sweep", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    await catalogs.update(uuid, adding(buildBranch("gone", world.nowMs() - 1)));
    await catalogs.update(uuid, adding(buildBranch("there", world.nowMs() + 60_000)));
    expect(await describeOutcome(catalogs.branch(uuid, "gone"))).toBe("branch_not_found");
    expect(await describeOutcome(catalogs.branch(uuid, "there"))).toBe("done");
  });

  test("F76: a deleted database has no branches, main neither", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    await catalogs.update(uuid, () => ({ deletedAtMs: 5 }));
    expect(await describeOutcome(catalogs.branch(uuid, "main"))).toBe("database_not_found");
  });

  test("a catalog under another database's name is corrupt", async () => {
    const store = new ScriptedStore();
    await made(new Catalogs(store, world));
    await store.calm.put(catalogKey(uuidOf(2)), store.read(catalogKey(uuid))!.bytes, { kind: "absent" });
    expect(await describeOutcome(new Catalogs(store, world).get(uuidOf(2)))).toBe("corrupt");
  });

  test(
    "F31: after a change that may still land nobody is told of branches before it is known whether it " + "did",
    async () => {
      const store = new ScriptedStore();
      const catalogs = new Catalogs(store, world);
      await made(catalogs);
      const landings: (() => void)[] = [];
      store.decideFate = (verb) =>
        verb === "put" ? { late: new Promise<void>((resolve) => landings.push(resolve)) } : "fine";
      expect(await describeOutcome(catalogs.update(uuid, adding(buildBranch("late"))))).toBe("unknown_outcome");
      expect(await describeOutcome(catalogs.branch(uuid, "late"))).toBe("unknown_outcome");
      expect(await describeOutcome(catalogs.fresh(uuid))).toBe("unknown_outcome");
      // A put that is on its way lands, and the answer to what was asked in between is not one that it makes untrue.
      landings[0]!();
      expect(await describeOutcome(catalogs.branch(uuid, "late"))).toBe("done");
      for (const land of landings) land();
      await new Promise((resolve) => setImmediate(resolve));
      expect(stored(store).seq).toBe(2);
      expect((await catalogs.get(uuid))?.branches.map(({ name }) => name)).toEqual(["main", "late"]);
    },
  );

  test("F31: a change in doubt is offered again before the next one, which is made to what came of it", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    await made(catalogs);
    store.decideFate = (verb) => (verb === "put" ? "requestLost" : "refused");
    expect(await describeOutcome(catalogs.update(uuid, adding(buildBranch("first"))))).toBe("unknown_outcome");
    store.decideFate = () => "fine";
    await catalogs.update(uuid, adding(buildBranch("second")));
    expect(stored(store).branches.map(({ name }) => name)).toEqual(["main", "first", "second"]);
  });

  test("F31: a change in doubt that another node has overtaken is known to be lost", async () => {
    const store = new ScriptedStore();
    const [catalogs, other] = [new Catalogs(store, world), new Catalogs(store, world)];
    await made(catalogs);
    store.decideFate = (verb) => (verb === "put" ? "requestLost" : "fine");
    expect(await describeOutcome(catalogs.update(uuid, adding(buildBranch("first"))))).toBe("unknown_outcome");
    store.decideFate = () => "fine";
    await other.confirm(uuid);
    expect(await describeOutcome(catalogs.branch(uuid, "first"))).toBe("branch_not_found");
  });

  test("with too many changes in doubt no other one is begun", async () => {
    const store = new ScriptedStore();
    const catalogs = new Catalogs(store, world);
    for (let n = 0; n <= catalogDoubtsMax; n++) await catalogs.begin(uuidOf(n));
    store.decideFate = (verb) => (verb === "put" ? "requestLost" : "fine");
    for (let n = 0; n < catalogDoubtsMax; n++)
      expect(await describeOutcome(catalogs.ensure(uuidOf(n)))).toBe("unknown_outcome");
    expect(await describeOutcome(catalogs.ensure(uuidOf(catalogDoubtsMax)))).toBe("unavailable");
    store.decideFate = () => "fine";
    for (let n = 0; n <= catalogDoubtsMax; n++) await catalogs.ensure(uuidOf(n));
  });

  test("F30, F31: under random fates every change that was told as done is there once, and none is half", async () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = seeded(seed);
      const store = new ScriptedStore();
      const landings: (() => void)[] = [];
      store.decideFate = (verb): Fate => {
        if (random() < 0.6) return "fine";
        if (verb !== "put") return "refused";
        if (random() < 0.3) return { late: new Promise<void>((resolve) => landings.push(resolve)) };
        return (["answerLost", "requestLost", "refused"] as const)[Math.floor(random() * 3)]!;
      };
      let last = 0;
      store.watch = (_, before, after) => {
        const { seq } = decodeCatalog(after!);
        expect(seq).toBe(last + 1);
        if (before) expect(decodeCatalog(before).seq).toBe(last);
        last = seq;
      };
      const several = [new Catalogs(store, world), new Catalogs(store, world)];
      const done: string[] = [];
      for (let n = 0; n < 40; n++) {
        const name = `b${n}`;
        if ((await describeOutcome(several[n % 2]!.update(uuid, adding(buildBranch(name))))) === "done")
          done.push(name);
        if (random() < 0.3) landings.splice(Math.floor(random() * landings.length), 1)[0]?.();
        await new Promise((resolve) => setImmediate(resolve));
      }
      const names = stored(store).branches.map(({ name }) => name);
      expect(names.filter((name) => done.includes(name)).toSorted(), `seed ${seed}`).toEqual(done.toSorted());
      expect(new Set(names).size).toBe(names.length);
    }
  });
});
