/** `palimpsest backup` and `palimpsest restore --all`: a fleet copied while it is written, and brought back. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { decodeBackupManifest } from "../../src/format/records/backup-manifest.ts";
import { decodeManifest } from "../../src/format/history/manifest.ts";
import { ErasingProfile } from "../support/erasing-profile.ts";
import { ok } from "../support/service.ts";
import { palimpsest, type Run } from "../support/command-runs.ts";
import {
  diagnosed,
  fingerprint,
  fleetIn,
  keysUnder,
  loseObject,
  objectFile,
  rotObject,
  rows,
  smallFleet,
  sql,
  started,
  troubles,
  type Fleet,
} from "../support/rescue.ts";
import { temporaryDirectory } from "../support/temporary.ts";

function place(name = "objects"): { directory: string; objects: string; url: string } {
  const directory = temporaryDirectory();
  const objects = join(directory, name);
  return { directory, objects, url: `file://${objects}` };
}

function backup(fleet: Fleet, to: string, ...flags: string[]): Promise<Run> {
  return palimpsest(["backup", "--object-store", fleet.url, "--to", to, ...flags]);
}

function restoreAll(from: string, to: string, ...flags: string[]): Promise<Run> {
  return palimpsest(["restore", "--all", "--object-store", from, "--to", to, ...flags]);
}

describe("palimpsest backup and restore --all", () => {
  test("a fleet that is written meanwhile comes back whole, and the source is as it was", async () => {
    // Whole: data, branches, checkpoints, policies.
    const fleet = await smallFleet();
    const service = await started(fleet);
    expect(
      (await service.call("PUT", "/v1/namespaces/acme/policy", { policy: { audit: { enabled: true } } })).status,
    ).toBe(200);
    expect(
      (
        await service.call(
          "POST",
          "/v1/memory/acme/alice/memories",
          { memories: [{ type: "fact", topic_key: "theme", summary: "dark", content: null }] },
          { "service-durability": "durable" },
        )
      ).status,
    ).toBe(201);
    let writing = true;
    let acknowledged = 0;
    const writer = (async () => {
      for (; writing; acknowledged++) await sql(service, "two", `INSERT INTO t VALUES (${acknowledged + 101})`);
    })();
    const to = place();
    const first = await backup(fleet, to.url, "--verify", "restore");
    expect(first, first.error).toMatchObject({ code: 0 });
    expect(first.out).toContain(": complete\n");
    await expect.poll(() => acknowledged, { timeout: 30_000 }).toBeGreaterThan(0);
    const beforeSecond = acknowledged;
    const second = await backup(fleet, to.url);
    expect(second, second.error).toMatchObject({ code: 0 });
    writing = false;
    await writer;
    const later = await sql(service, "two", "INSERT INTO t VALUES (999)");
    await service.close();
    // Nothing is written into the source: with its nodes gone, not a byte changes.
    const before = fingerprint(fleet.directory);
    expect((await backup(fleet, place().url)).code).toBe(0);
    expect(fingerprint(fleet.directory)).toBe(before);

    const restored = fleetIn(temporaryDirectory());
    const done = await restoreAll(to.url, restored.url, "--verify", "restore");
    expect(done, done.error).toMatchObject({ code: 0 });
    expect(done.out).toContain("is whole, as of 2");
    expect(troubles(await diagnosed("--object-store", restored.url, "--deep"))).toEqual([]);
    const again = await started(restored);
    expect(await rows(again, "one")).toEqual([1, 2, 3]);
    expect(await rows(again, "one@side")).toEqual([1, 2, 3, 4]);
    const two = await rows(again, "two");
    expect(two.slice(0, 3)).toEqual([1, 2, 3]);
    expect(two.length).toBeGreaterThanOrEqual(3 + beforeSecond);
    expect(two.slice(3), "no hole").toEqual(two.slice(3).map((_, index) => index + 101));
    expect((await again.call("GET", "/v1/namespaces/acme/policy")).json).toMatchObject({
      policy: { audit: { enabled: true } },
    });
    expect((await again.call("POST", "/v1/memory/acme/alice/recall", { topic_key: "theme" })).text).toContain("dark");
    await sql(again, "one", "DELETE FROM t");
    expect((await again.call("POST", "/v1/db/one/branches/main/rewind", { to: "three" })).status).toBe(200);
    expect(await rows(again, "one")).toEqual([1, 2, 3]);

    // A transaction id that was given after the backup is lost, not somebody else's.
    const lost = await again.call(
      "POST",
      "/v1/db/two/sql",
      { stmts: [{ q: "SELECT 1" }] },
      { "service-min-txid": String(later) },
    );
    expect({ status: lost.status, code: lost.json.error?.code ?? lost.json.code }).toMatchObject({ status: 409 });
    expect(await sql(again, "two", "INSERT INTO t VALUES (0)")).toBeGreaterThan(later);
    expect(
      (
        await again.call(
          "POST",
          "/v1/db/two/sql",
          { stmts: [{ q: "SELECT 1" }] },
          { "service-min-txid": String(later) },
        )
      ).status,
    ).toBe(409);
  });

  test("a second run copies what is new, and what the fleet has no longer goes", async () => {
    const fleet = await smallFleet();
    const to = place();
    await backup(fleet, to.url);
    const service = await started(fleet);
    await sql(service, "one", "CREATE TABLE big AS SELECT randomblob(100000) AS b");
    expect((await service.call("DELETE", "/v1/databases/two")).status).toBeLessThan(300);
    await service.close();
    const uuid = fleet.readUuid("two");
    const run = await backup(fleet, to.url);
    expect(run, run.error).toMatchObject({ code: 0 });
    expect(Number(/; (\d+) of them/.exec(run.out)![1])).toBeGreaterThan(0);
    expect(Number(/; (\d+) of them/.exec(run.out)![1])).toBeLessThan(Number(/, (\d+) objects of/.exec(run.out)![1]));
    expect(keysUnder(to.objects, `db/${uuid}/seg/`).filter((key) => isLive(to.objects, key))).toEqual([]);
    const idle = await backup(fleet, to.url);
    expect(idle.out).toContain("; 0 of them, 0 bytes, were copied now");
    expect(troubles(await diagnosed("--object-store", to.url, "--deep"))).toEqual([]);
  });

  test("what is not complete is refused until it is completed or forced, and by nodes altogether", async () => {
    // Nodes refuse a backup and a store that is being filled.
    const fleet = await smallFleet();
    const to = place();
    const uuid = fleet.readUuid("one");
    const spare = place();
    cpSync(fleet.objects, spare.objects, { recursive: true });
    loseObject(fleet.objects, keysUnder(fleet.objects, `db/${uuid}/seg/`)[0]!);
    const cut = await backup(fleet, to.url);
    expect(cut.code).toBe(1);
    expect(cut.error).toMatch(/left out: one: the object seg\/\S+ is missing/);
    expect(cut.out).toContain("NOT complete");
    const manifest = (): string =>
      decodeBackupManifest(readFileSync(objectFile(to.objects, "backup")).subarray(1)).state;
    expect(manifest()).toBe("copying");
    expect(troubles(await diagnosed("--object-store", to.url))).toContain("backup_incomplete");
    const target = place();
    const refused = await restoreAll(to.url, target.url);
    expect(refused.code).toBe(1);
    expect(refused.error).toContain("the backup was not completed");
    expect(existsSync(join(target.objects, "backup~"))).toBe(false);
    // The other database can be had all the same.
    const skipped = await backup(fleet, to.url, "--skip-damaged");
    expect(skipped, skipped.error).toMatchObject({ code: 0 });
    expect(manifest()).toBe("complete");
    // Mended, the next run takes both.
    rmSync(fleet.objects, { recursive: true });
    cpSync(spare.objects, fleet.objects, { recursive: true });
    expect((await backup(fleet, to.url)).out).toContain("2 databases");
    await expect(fleetOn(to.directory).start()).rejects.toThrow("is a backup of");

    // A restore that is cut short goes on, and no node serves meanwhile.
    rotObject(to.objects, keysUnder(to.objects, `db/${uuid}/seg/`)[0]!);
    const half = await restoreAll(to.url, target.url);
    expect(half.code).toBe(1);
    expect(half.out).toContain("is NOT whole");
    await expect(fleetOn(target.directory).start()).rejects.toThrow("is being filled from the backup");
    const found = await backup(fleet, to.url);
    expect(found.code).toBe(1);
    expect(found.error).toContain("the same command copies them anew");
    expect((await backup(fleet, to.url)).code).toBe(0);
    const whole = await restoreAll(to.url, target.url);
    expect(whole, whole.error).toMatchObject({ code: 0 });
    expect(await rows(await started(fleetOn(target.directory)), "one")).toEqual([1, 2, 3]);
  });

  test("rot in a backup is found by --verify restore", async () => {
    const fleet = await smallFleet();
    const to = place();
    await backup(fleet, to.url);
    rotObject(to.objects, keysUnder(to.objects, `db/${fleet.readUuid("one")}/seg/`)[0]!);
    const found = await backup(fleet, to.url, "--verify", "restore");
    expect(found.code).toBe(1);
    expect(found.error).toContain("is not what was written");
    expect(new Set(troubles(await diagnosed("--object-store", to.url, "--deep")))).toEqual(
      new Set(["backup_incomplete", "object_missing"]),
    );
    const mended = await backup(fleet, to.url, "--verify", "restore");
    expect(mended, mended.error).toMatchObject({ code: 0 });
    expect(troubles(await diagnosed("--object-store", to.url, "--deep"))).toEqual([]);
  });

  test("one database alone, places that are refused, and the signing key only when it is asked for", async () => {
    const fleet = await smallFleet();
    await (
      await fleet.start({ SERVICE_PERSIST_AUTH_KEY: "1", SERVICE_DATA_DIR: join(fleet.directory, "other") })
    ).close();
    const to = place();
    const one = await backup(fleet, to.url, "--database", "one");
    expect(one, one.error).toMatchObject({ code: 0 });
    expect(readdirSync(join(to.objects, "names"))).toEqual(["one.json~"]);
    const target = fleetIn(temporaryDirectory());
    expect((await restoreAll(to.url, target.url)).code).toBe(0);
    expect(await rows(await started(target), "one@side")).toEqual([1, 2, 3, 4]);
    for (const [run, words] of [
      [backup(fleet, to.url), "holds a backup of other databases"],
      [backup(target, to.url), "holds a backup of file://"],
      [backup(fleet, `${fleet.url}/inside`), "lies within"],
      [backup(fleet, target.url), "holds objects and no backup"],
      [restoreAll(to.url, target.url), "is not empty"],
      [restoreAll(fleet.url, place().url), "this is no backup"],
      [backup(fleetIn(to.directory), place().url), "is a backup itself"],
      [palimpsest(["restore", "--all", "--object-store", fleet.url]), "give --to"],
      [palimpsest(["restore", "--object-store", fleet.url, "--database", "one"]), "give --out"],
      [
        palimpsest(["restore", "--all", "--object-store", fleet.url, "--to", "file:///x", "--out", "y"]),
        "cannot be used with",
      ],
    ] as const) {
      const { code, error } = await run;
      expect(error).toContain(words);
      expect(code).toBeGreaterThan(0);
    }
    const keys = place();
    const plain = place();
    const key = join(fleet.objects, "keys", "signing~");
    mkdirSync(key, { recursive: true });
    writeFileSync(join(key, "1"), "\u0001secret");
    await backup(fleet, plain.url);
    expect(existsSync(join(plain.objects, "keys", "signing~"))).toBe(false);
    await backup(fleet, keys.url, "--with-signing-key");
    expect(existsSync(join(keys.objects, "keys", "signing~"))).toBe(true);
  });

  test("--erasures-from names what was erased after the backup, as calls that erase it again", async () => {
    // Nothing that the backup knows is named.
    const fleet = fleetIn(temporaryDirectory());
    const service = await started(fleet, { SERVICE_GC_GRACE_SECS: "0" });
    const alice = new ErasingProfile(service.wire("rest"), "acme");
    await alice.policy({ erasure: { grace_secs: 0 } });
    const [early, late, rotten, kept] = await alice.add(
      ...["early", "late", "rotten", "kept"].map((summary) => ({ summary, topic_key: `about ${summary}` })),
    );
    await alice.until((await alice.erased({ memory_id: early })).erasure_id, "completed");
    const to = place();
    expect((await backup(fleet, to.url)).code).toBe(0);
    await ok(alice.database.fork("side"));
    await alice.erased({ topic_key: "about late", type: "fact" });
    const { erasure_id: id } = await alice.at("side").erased({ memory_id: rotten });
    await service.close();
    rotObject(fleet.objects, `erasures/${fleet.readUuid(alice.database.name)}/${id}`);

    const nowhere = await restoreAll(to.url, place().url, "--erasures-from", "ftp://later");
    expect(nowhere).toMatchObject({ code: 2, error: expect.stringContaining("--erasures-from: ") });
    const restored = fleetIn(temporaryDirectory());
    const done = await restoreAll(to.url, restored.url, "--erasures-from", fleet.url);
    expect(done.code, done.error).toBe(0);
    const told = done.out.split("\n").filter((line) => line.startsWith("erase again"));
    expect(told).toEqual([
      `erase again, on branch main: POST /v1/memory/acme/${alice.profile}/erasures {"topic_key":"about ` +
        `late","type":"fact"}`,
    ]);
    expect(done.error).toContain(
      `an erasure that the backup lacks cannot be told: erasures/${fleet.readUuid(alice.database.name)}/${id}: `,
    );
    // The call is what it says.
    const again = await started(restored);
    const [, path, body] = /: POST (\S+) (.*)$/.exec(told[0]!)!;
    const answer = await again.call("POST", path!, JSON.parse(body!));
    expect(answer.json).toMatchObject({ memory_ids: [late] });
    const back = new ErasingProfile(again.wire("rest"), "acme", alice.profile);
    const codes = await Promise.all(
      [early, late, rotten, kept].map(async (id) => (await back.call("MemoryService.GetMemory", { id })).code),
    );
    expect(codes).toEqual(["not_found", "not_found", "ok", "ok"]);
  });

  test("a node that saw more refuses the restored fleet until told to believe it; no txid comes twice", async () => {
    const fleet = await smallFleet();
    const to = place();
    await backup(fleet, to.url);
    const service = await fleet.start();
    const later = await sql(service, "one", "INSERT INTO t VALUES (77)");
    await service.close();
    rmSync(fleet.objects, { recursive: true });
    expect((await restoreAll(to.url, fleet.url)).code).toBe(0);
    const manifest = decodeManifest(
      readFileSync(objectFile(fleet.objects, `db/${fleet.readUuid("one")}/head/main`)).subarray(1),
    );
    expect(manifest.node).toBe("palimpsest-restore");
    rmSync(join(fleet.directory, "db"), { recursive: true });
    const wary = await fleet.start();
    const refused = await wary.call("POST", "/v1/db/one/sql", { stmts: [{ q: "SELECT 1" }] });
    expect(refused.status).toBe(503);
    expect(refused.text).toContain("--accept-rollback");
    await wary.close();
    const again = await started(fleet, { SERVICE_ACCEPT_ROLLBACK: "all" });
    expect(await rows(again, "one")).toEqual([1, 2, 3]);
    expect(await sql(again, "one", "INSERT INTO t VALUES (5)")).toBeGreaterThan(later);
    expect(
      (
        await again.call(
          "POST",
          "/v1/db/one/sql",
          { stmts: [{ q: "SELECT 1" }] },
          { "service-min-txid": String(later) },
        )
      ).status,
    ).toBe(409);
  });
});

/** A directory whose store lies in `objects`. */
function fleetOn(directory: string): Fleet {
  return fleetIn(directory);
}

/** Whether the newest version of a key holds anything. */
function isLive(objects: string, key: string): boolean {
  return readFileSync(objectFile(objects, key)).length > 0;
}
