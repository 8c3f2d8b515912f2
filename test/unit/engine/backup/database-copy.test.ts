/** One database copied beside a writer that packs and collects what the copy is about to read. */
import { expect, test } from "vitest";
import { limits } from "../../../../src/base/limits.ts";
import { Semaphore } from "../../../../src/base/collections/semaphore.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { proveCopy } from "../../../../src/engine/backup/copy-proof.ts";
import { copyDatabase, type DatabaseOutcome } from "../../../../src/engine/backup/database-copy.ts";
import { takeInventory } from "../../../../src/engine/rescue/inventory.ts";
import type { PageSource } from "../../../../src/engine/segments/pool-objects.ts";
import { decodeCatalog, encodeCatalog } from "../../../../src/format/history/catalog.ts";
import { decodeManifest } from "../../../../src/format/history/manifest.ts";
import { catalogKey, manifestKey } from "../../../../src/format/keys/object-keys.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { ReadOnlyStore } from "../../../../src/store/read-only-store.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { noise, TimedEngine, VirtualTime } from "../../../support/timed-engine.ts";

/** The store, with something that happens before the first object of page data is read. */
function interrupted(store: ObjectStore, act: () => Promise<void>): ObjectStore {
  let acting: Promise<void> | undefined;
  return new Proxy(new ReadOnlyStore(store), {
    get: (target, name: keyof ObjectStore) =>
      name !== "get"
        ? target[name].bind(target)
        : async (key: string) => {
            if (key.includes("/seg/")) await (acting ??= act());
            return target.get(key);
          },
  });
}

/** Copies and gives what it came to; `act` happens in the midst of it. */
function copied(
  time: VirtualTime,
  node: TimedEngine,
  to: MemoryStore,
  act: () => Promise<void>,
): Promise<DatabaseOutcome> {
  const parts = {
    from: interrupted(time.store, act),
    to,
    press: inlinePress,
    permits: new Semaphore(4),
    manifestFor: (_: unknown, bytes: Uint8Array) => bytes,
  };
  return time.of(copyDatabase(parts, node.uuid), 3_600_000);
}

async function writer(): Promise<{
  time: VirtualTime;
  node: TimedEngine;
  some: (from: number, to: number) => Promise<void>;
}> {
  const time = new VirtualTime();
  const node = new TimedEngine(time, { gcGraceMs: 1_000, idleCloseMs: 1e12 });
  const some = async (from: number, to: number): Promise<void> => {
    for (let n = from; n <= to; n++) {
      // More than a manifest's tail takes, so that each becomes an object.
      await node.putting(`k${n}`, "main", {}, noise(64_000, n));
      await time.scheduler.sleep(limits.shipIntervalMs + 20);
    }
  };
  await time.of(some(1, 12), 600_000);
  return { time, node, some };
}

test("what is packed and collected meanwhile is not missed: the newer manifest is copied, and all of it", async () => {
  const { time, node, some } = await writer();
  const before = time.manifest(node.uuid);
  const to = new MemoryStore();
  const outcome = await copied(time, node, to, async () => {
    await some(13, 60);
    await time.scheduler.sleep(600_000);
  });
  const gone = await Promise.all(
    before.refs.map(async ({ id }) => (await time.store.get(`db/${node.uuid}/seg/${id}`)) === undefined),
  );
  expect(gone.some(Boolean), "the collector has been there").toBe(true);
  expect(outcome).toMatchObject({ kind: "copied", branchIds: ["main"] });
  const inventory = await takeInventory({ store: to, uuid: node.uuid, press: inlinePress, disk: soundDisk }, true);
  expect([...inventory.faults]).toEqual([]);
  expect(decodeManifest((await to.get(manifestKey(node.uuid, "main")))!.bytes).txid).toBe(
    time.manifest(node.uuid).txid,
  );
  expect(inventory.unreferenced.count, "what an earlier round has copied and nothing needs any more is gone").toBe(0);
});

test("an object that is gone for good is damage, and nothing of the copy is published", async () => {
  const { time, node } = await writer();
  const to = new MemoryStore();
  const [ref] = time.manifest(node.uuid).refs;
  const outcome = await copied(time, node, to, () => time.store.delete(`db/${node.uuid}/seg/${ref!.id}`));
  expect(outcome).toEqual({ kind: "damaged", why: `the object seg/${ref!.id} is missing` });
  expect(await to.get(manifestKey(node.uuid, "main"))).toBeUndefined();
});

test("a first write on its way is no damage: its object is there, and its manifest not yet", async () => {
  const { time, node } = await writer();
  const [catalog, head] = [catalogKey(node.uuid), manifestKey(node.uuid, "main")];
  const written = decodeCatalog((await time.store.get(catalog))!.bytes);
  const from = new MemoryStore();
  await from.put(catalog, encodeCatalog({ ...written, seq: 0 }), { kind: "absent" });
  await from.put(`db/${node.uuid}/seg/first`, Uint8Array.of(1), { kind: "absent" });
  const to = new MemoryStore();
  const copy = (): Promise<DatabaseOutcome> =>
    copyDatabase(
      { from, to, press: inlinePress, permits: new Semaphore(4), manifestFor: (_, bytes) => bytes },
      node.uuid,
    );
  expect(await copy()).toMatchObject({ kind: "copied", branchIds: [], objects: 0 });
  expect(await to.get(head)).toBeUndefined();
  // The proof that follows says the same of the copy.
  const source = (uuid: string): PageSource => ({ store: to, uuid, press: inlinePress, disk: soundDisk });
  const parts = { world: realWorld(), source, scratchDirectory: temporaryDirectory() };
  for (const depth of ["sample", "restore"] as const)
    expect((await proveCopy(parts, new Map([[node.uuid, []]]), depth)).faults).toEqual([]);
  // From the catalog's next change on a manifest that is missing is one that was lost.
  await from.delete(catalog);
  await from.put(catalog, encodeCatalog({ ...written, seq: 1 }), { kind: "absent" });
  expect(await copy()).toEqual({ kind: "damaged", why: "the manifest of branch main is missing" });
});
