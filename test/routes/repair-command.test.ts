/**
 * `palimpsest repair`: what it mends, what it says is lost, and that it does nothing but the plan that was looked at.
 */
import { cpSync, existsSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { palimpsest, type Run } from "../support/command-runs.ts";
import {
  ageObject,
  copyFleet,
  diagnosed,
  fingerprint,
  fleetIn,
  keysUnder,
  loseObject,
  objectFile,
  overlayObject,
  rotObject,
  rows,
  smallFleet,
  sql,
  started,
  troubles,
  type Fleet,
} from "../support/rescue.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** A copy of the fleet to break, on whose disk nothing is left. */
function copyWithoutDisk(fleet: Fleet): Fleet {
  const copy = copyFleet(fleet);
  rmSync(join(copy.directory, "db"), { recursive: true });
  return copy;
}

function repair(fleet: Fleet, ...flags: string[]): Promise<Run> {
  return palimpsest(["repair", "--object-store", fleet.url, ...flags]);
}

/** Takes the newest version of an object away, or all of them. */
function loseNewest(objects: string, key: string): void {
  const newest = objectFile(objects, key);
  rmSync(newest);
}

/** Looks at the plan and has it carried out; gives both runs. */
async function mended(fleet: Fleet, ...flags: string[]): Promise<{ plan: string; done: Run }> {
  const before = fingerprint(fleet.objects);
  const looked = await repair(fleet, ...flags);
  expect(fingerprint(fleet.objects), "a plan changes nothing").toBe(before);
  expect(looked.code, looked.error).toBe(1);
  const digest = /--apply ([0-9a-f]{16}) carries this out/.exec(looked.out)?.[1];
  expect(digest, looked.out).toBeDefined();
  const done = await repair(fleet, ...flags, "--apply", digest!, "--nodes-stopped");
  expect(done, done.error + done.out).toMatchObject({ code: 0 });
  return { plan: looked.out, done };
}

/** More rows than a manifest's own tail takes, so that there are objects. */
async function fatFleet(): Promise<Fleet> {
  const fleet = await smallFleet();
  const service = await fleet.start();
  for (const n of [10, 11, 12, 13]) {
    await sql(service, "one", `CREATE TABLE big${n} AS SELECT randomblob(120000) AS b`);
    await sql(service, "one", `INSERT INTO t VALUES (${n})`);
  }
  await sql(service, "one", "CREATE TABLE last AS SELECT randomblob(120000) AS b");
  await service.close();
  return fleet;
}

const all = [1, 2, 3, 10, 11, 12, 13];

describe("palimpsest repair", () => {
  test("F39: a lost manifest comes back from an older version and the pool; nothing is given twice", async () => {
    const fleet = await fatFleet();
    const uuid = fleet.readUuid("one");
    const broken = copyWithoutDisk(fleet);
    const manifest = `db/${uuid}/head/main`;
    // Three manifests are gone: what they said of the pool has to be found out from it.
    for (let n = 0; n < 3; n++) loseNewest(broken.objects, manifest);
    overlayObject(broken.objects, manifest, "PLHD");
    expect(troubles(await diagnosed("--object-store", broken.url))).toContain("head_unreadable");
    const { plan, done } = await mended(broken, "--database", "one");
    expect(plan).toContain("gives branch main a new manifest: an older version of the manifest");
    expect(plan).toContain("LOST: whatever was written after transaction id");
    expect(done.out).toContain("mended");
    expect(troubles(await diagnosed("--object-store", broken.url, "--deep"))).toEqual([]);
    const service = await started(broken);
    expect(await rows(service, "one")).toEqual(all);
    expect(await sql(service, "one", "INSERT INTO t VALUES (14)")).toBeGreaterThan(2 ** 40);
    expect((await service.call("GET", "/v1/db/one/branches")).text).toContain("side");
    expect((await repair(broken, "--database", "one")).code, "there is nothing left to mend").toBe(0);
  });

  test("F39: with no version of the manifest the branch is laid again from the pool, its losses told", async () => {
    const fleet = await fatFleet();
    const uuid = fleet.readUuid("one");
    const broken = copyWithoutDisk(fleet);
    loseObject(broken.objects, `db/${uuid}/head/main`);
    const { plan } = await mended(broken, "--uuid", uuid);
    expect(plan).toContain("the pool alone");
    expect(plan).toContain("LOST: the whole past of the branch and its checkpoints");
    expect(troubles(await diagnosed("--object-store", broken.url, "--deep"))).toEqual([]);
    const service = await started(broken);
    expect(await rows(service, "one")).toEqual(all);
    expect(await rows(service, "one@side")).toEqual([1, 2, 3, 4]);
    await sql(service, "one", "INSERT INTO t VALUES (14)");
    // What is written after it outlives the disk, as ever.
    await service.call("POST", "/v1/db/one/sync");
    await service.close();
    rmSync(join(broken.directory, "db"), { recursive: true });
    expect(await rows(await started(broken), "one")).toEqual([...all, 14]);
  });

  test("what a rewind or a failover has laid upon another state is never laid upon the one before it", async () => {
    const fleet = await smallFleet();
    const service = await fleet.start();
    const big = (name: string): Promise<number> =>
      sql(service, "one", `CREATE TABLE ${name} AS SELECT randomblob(120000) AS b`);
    await big("a");
    const kept = await sql(service, "one", "INSERT INTO t VALUES (20)");
    await big("b");
    await sql(service, "one", "INSERT INTO t VALUES (21)");
    await big("c");
    expect((await service.call("POST", "/v1/db/one/branches/main/rewind", { to: String(kept) })).status).toBe(200);
    await sql(service, "one", "INSERT INTO t VALUES (22)");
    await big("d");
    expect(await rows(service, "one")).toEqual([1, 2, 3, 20, 22]);
    await service.close();
    const broken = copyWithoutDisk(fleet);
    loseObject(broken.objects, `db/${fleet.readUuid("one")}/head/main`);
    const { plan } = await mended(broken, "--database", "one");
    expect(plan).toMatch(/LOST: \d+ objects up to transaction id \d+ that follow a gap or what may be a rewind/);
    // The state before the rewind: it was one, unlike what the later objects would make of it.
    expect(await rows(await started(broken), "one")).toEqual([1, 2, 3, 20, 21]);

    const other = fleetIn(temporaryDirectory());
    const dying = await fleet.start();
    await sql(dying, "two", "CREATE TABLE f AS SELECT randomblob(120000) AS b");
    // What a node leaves that is killed together with its disk.
    cpSync(fleet.objects, other.objects, { recursive: true });
    await dying.close();
    const successor = await other.start();
    await sql(successor, "two", "CREATE TABLE e AS SELECT randomblob(120000) AS b");
    await successor.close();
    const failed = copyWithoutDisk(other);
    loseObject(failed.objects, `db/${fleet.readUuid("two")}/head/main`);
    expect((await mended(failed, "--database", "two")).plan).toContain("that follow a gap or what may be a rewind");
    expect(troubles(await diagnosed("--object-store", failed.url, "--deep"))).toEqual([]);
  });

  test("F37: a missing object is put together from the pool, else the branch is cut before it", async () => {
    // The node's disk brings the rest back.
    const fleet = await fatFleet();
    const uuid = fleet.readUuid("one");
    const broken = copyWithoutDisk(fleet);
    const segments = keysUnder(broken.objects, `db/${uuid}/seg/`);
    rotObject(broken.objects, segments.at(-2)!);
    const { plan } = await mended(broken, "--uuid", uuid);
    expect(plan).toMatch(/LOST: transaction ids \d+ to \d+, unless the disk of the node \S+ has them/);
    const cut = await started(broken);
    const left = await rows(cut, "one");
    expect(left.length).toBeLessThan(all.length);
    expect(all.slice(0, left.length)).toEqual(left);
    await cut.close();

    // The node that wrote it still has its disk.
    const whole = fleetIn(temporaryDirectory());
    cpSync(fleet.directory, whole.directory, { recursive: true });
    rotObject(whole.objects, segments.at(-2)!);
    await mended(whole, "--uuid", uuid);
    const service = await started(whole);
    expect(await rows(service, "one")).toEqual(all);
    expect((await service.call("POST", "/v1/db/one/sync")).status).toBe(200);
    await service.close();
    rmSync(join(whole.directory, "db"), { recursive: true });
    expect(await rows(await started(whole), "one")).toEqual(all);
  });

  test("a lost history takes the past along and nothing else", async () => {
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    const broken = copyWithoutDisk(fleet);
    for (const key of keysUnder(broken.objects, `db/${uuid}/hist/`)) loseObject(broken.objects, key);
    const { plan } = await mended(broken, "--uuid", uuid);
    expect(plan).toContain("LOST: the past before this timeline and its checkpoints");
    expect(troubles(await diagnosed("--object-store", broken.url, "--deep"))).toEqual([]);
    expect(await rows(await started(broken), "one")).toEqual([1, 2, 3]);
  });

  test("a lost catalog comes from an older version, else from the manifests; a lost claim by its name", async () => {
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    const older = copyWithoutDisk(fleet);
    overlayObject(older.objects, `db/${uuid}/catalog`, "x");
    expect((await mended(older, "--uuid", uuid)).plan).toContain("puts an older version of the catalog back");
    expect(await rows(await started(older), "one@side")).toEqual([1, 2, 3, 4]);

    const bare = copyWithoutDisk(fleet);
    loseObject(bare.objects, `db/${uuid}/catalog`);
    loseObject(bare.objects, "names/one.json");
    expect((await repair(bare, "--database", "one")).error).toContain("give --uuid, and --name");
    expect((await repair(bare, "--uuid", uuid, "--name", "two")).error).toContain("the name two leads to database");
    const { plan } = await mended(bare, "--uuid", uuid, "--name", "one");
    expect(plan).toContain("makes a catalog of the branches that have a manifest");
    expect(plan).toContain("gives the database the name one");
    const side = /called (recovered-\w+) from now on/.exec(plan)![1]!;
    expect(troubles(await diagnosed("--object-store", bare.url, "--deep"))).toEqual([]);
    const service = await started(bare);
    expect(await rows(service, "one")).toEqual([1, 2, 3]);
    expect(await rows(service, `one@${side}`)).toEqual([1, 2, 3, 4]);
  });

  test("it does nothing but the plan that was looked at, and not while a node may write", async () => {
    // Not to what was deleted or is newer, either.
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    expect(await repair(fleet, "--database", "one")).toMatchObject({
      code: 0,
      out: `database ${uuid}: nothing is to be mended\n`,
    });
    const broken = copyWithoutDisk(fleet);
    loseObject(broken.objects, `db/${uuid}/head/main`);
    const plan = /--apply ([0-9a-f]{16})/.exec((await repair(broken, "--uuid", uuid)).out)![1]!;
    const before = fingerprint(broken.objects);
    const bare = await repair(broken, "--uuid", uuid, "--apply");
    expect(bare.out).toContain(`nothing was changed: --apply ${plan} carries this out`);
    const other = await repair(broken, "--uuid", uuid, "--apply", "0123456789abcdef", "--nodes-stopped");
    expect(other.out).toContain("this is another plan");
    const young = await repair(broken, "--uuid", uuid, "--apply", plan);
    expect(young.out).toMatch(/nothing was changed: an object was put \d+ seconds ago: a node may be writing/);
    expect([bare, other, young].map(({ code }) => code)).toEqual([1, 1, 1]);
    expect(fingerprint(broken.objects)).toBe(before);
    // Long after the last put nobody has to say that the nodes are stopped.
    for (const name of readdirSync(broken.objects, { recursive: true, encoding: "utf8" }) as string[])
      utimesSync(join(broken.objects, name), 1, 1);
    expect((await repair(broken, "--uuid", uuid, "--apply", plan)).code).toBe(0);

    const newer = copyWithoutDisk(fleet);
    ageObject(newer.objects, `db/${uuid}/head/main`);
    expect((await repair(newer, "--uuid", uuid)).error).toContain("a newer build has written");
    const service = await fleet.start();
    expect((await service.call("DELETE", "/v1/databases/one")).status).toBeLessThan(300);
    await service.close();
    expect((await repair(fleet, "--uuid", uuid)).error).toMatch(/was deleted|holds nothing/);
    for (const flags of [[], ["--uuid", "x"], ["--database", "one", "--uuid", uuid], ["--uuid", uuid, "--name", "X X"]])
      expect((await repair(fleet, ...flags)).code).toBe(2);
    expect(existsSync(join(fleet.objects, "names", "one.json~"))).toBe(true);
  });
});
