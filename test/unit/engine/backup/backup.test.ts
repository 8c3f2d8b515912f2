/**
 * A backup and a restore of a fleet, cut short at every single write: nothing half is ever taken for whole, and the
 * next run ends it.
 */
import { beforeAll, expect, test } from "vitest";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { makeBackup, readManifest, refuseBackup, type BackupOutcome } from "../../../../src/engine/backup/backup.ts";
import { Findings } from "../../../../src/engine/rescue/findings.ts";
import { restoreAll } from "../../../../src/engine/backup/restore-all.ts";
import { StoreDoctor } from "../../../../src/engine/rescue/store-doctor.ts";
import { inlinePress } from "../../../../src/format/core/compression.ts";
import { encodeUtf8 } from "../../../../src/base/bytes.ts";
import { webhookKey, webhooksPrefix } from "../../../../src/format/keys/object-keys.ts";
import { listed } from "../../../../src/store/port/listing.ts";
import { MemoryStore } from "../../../../src/store/memory-store.ts";
import type { ObjectStore } from "../../../../src/store/port/object-store.ts";
import { openStoreToRead } from "../../../../src/store/open-store.ts";
import { smallFleet, type Fleet } from "../../../support/rescue.ts";
import { soundDisk } from "../../../support/sound-disk.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

let fleet: Fleet;
beforeAll(async () => {
  fleet = await smallFleet(mkdtempSync(join(tmpdir(), "palimpsest-backup-")));
  return () => rmSync(fleet.directory, { recursive: true, force: true });
});

const world = realWorld();

/**
 * The store, which fails for good at the write of that number: before it is done, or after it and without an answer.
 */
function failingAt(store: ObjectStore, number: number, isDone: boolean): ObjectStore {
  let writes = 0;
  const change = async <Value>(act: () => Promise<Value>): Promise<Value> => {
    if (++writes < number) return act();
    if (writes === number && isDone) await act();
    throw new StoreError("unavailable", "the store is away");
  };
  return {
    get: (key: string) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    purgeVersions: (prefix) => store.purgeVersions(prefix),
    put: (key, bytes, condition) => change(() => store.put(key, bytes, condition)),
    delete: (key) => change(() => store.delete(key)),
  };
}

function parts(from: ObjectStore, to: ObjectStore): Parameters<typeof makeBackup>[0] {
  const scratchDirectory = temporaryDirectory();
  return {
    from,
    to,
    world,
    press: inlinePress,
    notice: () => {},
    proof: { scratchDirectory, source: (uuid) => ({ store: to, uuid, press: inlinePress, disk: soundDisk }) },
  };
}

async function backedUp(to: ObjectStore): Promise<BackupOutcome> {
  const from = await openStoreToRead({ kind: "file", directory: fleet.objects }, world);
  return makeBackup(parts(from, to), {
    fromName: "the fleet",
    scope: undefined,
    withSigningKey: false,
    verify: "sample",
    skipDamaged: false,
  });
}

const restored = (from: ObjectStore, to: ObjectStore): ReturnType<typeof restoreAll> =>
  restoreAll(parts(from, to), { fromName: "the backup", verify: "sample", force: false });

async function listTroubles(store: ObjectStore): Promise<string[]> {
  const findings = new Findings();
  await new StoreDoctor({
    store,
    world,
    findings,
    scratchDirectory: temporaryDirectory(),
    source: (uuid) => ({ store, uuid, press: inlinePress, disk: soundDisk }),
  }).examine({ kind: "all" });
  return findings.all
    .filter(({ kind }) => !["backup_complete", "unreferenced", "condemned", "claim_unwritten"].includes(kind))
    .map(({ kind }) => kind);
}

test.each([
  ["before", false],
  ["after", true],
] as const)(
  "a backup that ends at any write, %s it is done, says that it is not whole, and the next run makes it so",
  async (_, isDone) => {
    for (let number = 1; ; number++) {
      const to = new MemoryStore();
      const cut = await backedUp(failingAt(to, number, isDone)).then(
        () => true,
        (error: unknown) => {
          expect(error).toBeInstanceOf(StoreError);
          return false;
        },
      );
      if (cut) {
        expect(number, "there were writes to be cut at").toBeGreaterThan(8);
        break;
      }
      const manifest = await readManifest(to);
      if ((await to.list("", { limit: 1 })).objects.length > 0) expect(manifest).toBeDefined();
      // The last write is the one that says it is complete.
      if (manifest && manifest.value.state !== "complete") {
        await expect(restored(to, new MemoryStore())).rejects.toThrow("the backup was not completed");
        const found = await listTroubles(to);
        expect(found).toContain("backup_incomplete");
        // What a catalog or a name does not lead to yet may be there; what manifests refer to is, at every moment.
        for (const kind of found)
          expect(["backup_incomplete", "catalog_missing", "database_unclaimed"]).toContain(kind);
      }
      expect((await backedUp(to)).isComplete).toBe(true);
      expect(await listTroubles(to)).toEqual([]);
    }
  },
);

test(
  "a restore that ends at any write leaves a store that no node serves from, and the next run makes it " + "whole",
  async () => {
    const backup = new MemoryStore();
    await backedUp(backup);
    for (let number = 1; ; number++) {
      const to = new MemoryStore();
      const isWhole = await restored(backup, failingAt(to, number, number % 2 === 0)).then(
        () => true,
        () => false,
      );
      if (isWhole) break;
      if (await readManifest(to)) await expect(refuseBackup(to)).rejects.toThrow("is being filled");
      if ((await to.list("", { limit: 1 })).objects.length > 0 && !(await readManifest(to))) continue;
      expect((await restored(backup, to)).isComplete).toBe(true);
      await expect(refuseBackup(to)).resolves.toBeUndefined();
      expect(await listTroubles(to)).toEqual([]);
    }
  },
);

test("a backup has no webhooks: a restored fleet posts nothing", async () => {
  const from = new MemoryStore();
  const stored = await openStoreToRead({ kind: "file", directory: fleet.objects }, world);
  for await (const { key } of listed(stored, ""))
    await from.put(key, (await stored.get(key))!.bytes, { kind: "absent" });
  const uuid = "00000000-0000-4000-8000-000000000001";
  await from.put(webhookKey(uuid, "whk_01HF7YAT00000000000000000J"), encodeUtf8("{}"), { kind: "absent" });
  const to = new MemoryStore();
  const how = { fromName: "the fleet", scope: undefined, withSigningKey: false } as const;
  await makeBackup(parts(from, to), { ...how, verify: "sample", skipDamaged: false });
  expect((await to.list(webhooksPrefix, { limit: 1 })).objects).toEqual([]);
  // Nor does a webhook disturb a look at the store.
  expect(await listTroubles(from)).toEqual([]);
});
