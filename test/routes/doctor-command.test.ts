/** `palimpsest doctor`: what it finds in a store and a data directory, and that it leaves both as they are. */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { palimpsest } from "../support/command-runs.ts";
import {
  ageObject,
  copyFleet,
  diagnosed,
  fingerprint,
  keysUnder,
  loseObject,
  objectFile,
  rotObject,
  rows,
  smallFleet,
  sql,
  troubles,
} from "../support/rescue.ts";
import { temporaryDirectory } from "../support/temporary.ts";

describe("palimpsest doctor", () => {
  test("a sound fleet is well, shallow and deep, and not a byte of store and directory changes", async () => {
    const fleet = await smallFleet();
    const before = fingerprint(fleet.directory);
    for (const flags of [
      ["--data-dir", fleet.directory],
      ["--object-store", fleet.url],
      ["--data-dir", fleet.directory, "--object-store", fleet.url, "--deep"],
    ]) {
      const found = await diagnosed(...flags);
      expect(troubles(found)).toEqual([]);
      expect(found).toMatchObject({ code: 0, well: true, store: { databases: 2, branches: 3 } });
    }
    const deep = await diagnosed("--data-dir", fleet.directory, "--deep");
    expect(deep).toMatchObject({
      store: { restored: 3 },
      disk: { files: 3, standings: { current: 3 }, running: false },
    });
    expect(deep.store!["proven"]).toBeGreaterThan(0);
    expect(fingerprint(fleet.directory)).toBe(before);
  });

  test("beside a node that runs it changes nothing that the node does not, and sees that it runs", async () => {
    const fleet = await smallFleet();
    const service = await fleet.start();
    try {
      await sql(service, "one", "INSERT INTO t VALUES (9)");
      const found = await diagnosed("--data-dir", fleet.directory, "--deep");
      expect(troubles(found)).toEqual([]);
      expect(found.disk).toMatchObject({ running: true, node: expect.stringMatching(/^[0-9A-Z]{26}$/) });
      await sql(service, "one", "INSERT INTO t VALUES (10)");
      expect(await rows(service, "one")).toEqual([1, 2, 3, 9, 10]);
      // What the node makes ahead has no name, and is as it should be, at every moment.
      await expect
        .poll(
          async () => {
            const { code, findings } = await diagnosed("--data-dir", fleet.directory);
            expect([code, findings.filter(({ severity }) => severity !== "note")]).toEqual([0, []]);
            return findings.filter(({ kind }) => kind === "database_spare").length;
          },
          { timeout: 20_000 },
        )
        .toBeGreaterThan(1);
    } finally {
      await service.close();
    }
  });

  test("F36 F37 F39: whatever is missing or rotten in a store is told, worst first, with what to do", async () => {
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    const [segment] = keysUnder(fleet.objects, `db/${uuid}/seg/`);
    const [history] = keysUnder(fleet.objects, `db/${uuid}/hist/`);
    const cases: [kind: string, break_: (objects: string) => void, deep?: boolean][] = [
      ["head_missing", (objects) => loseObject(objects, `db/${uuid}/head/main`)],
      ["head_unreadable", (objects) => rotObject(objects, `db/${uuid}/head/main`)],
      ["catalog_missing", (objects) => loseObject(objects, `db/${uuid}/catalog`)],
      ["catalog_unreadable", (objects) => rotObject(objects, `db/${uuid}/catalog`)],
      ["object_missing", (objects) => loseObject(objects, segment!)],
      ["object_rotten", (objects) => rotObject(objects, segment!), true],
      ["history_missing", (objects) => loseObject(objects, history!)],
      ["history_unreadable", (objects) => rotObject(objects, history!)],
      ["claim_unreadable", (objects) => writeFileSync(objectFile(objects, "names/one.json"), "\u0001{")],
      ["database_unclaimed", (objects) => loseObject(objects, "names/one.json")],
    ];
    for (const [kind, breakIt, deep] of cases) {
      const broken = copyFleet(fleet);
      breakIt(broken.objects);
      const found = await diagnosed("--object-store", broken.url, ...(deep ? ["--deep"] : []));
      expect(troubles(found), kind).toContain(kind);
      expect(found.code).toBe(1);
      const finding = found.findings.find((one) => one.kind === kind)!;
      expect(finding.what + finding.todo).not.toContain("undefined");
      expect(
        found.findings.map(({ severity }) => severity),
        "worst first",
      ).toEqual(
        found.findings.map(({ severity }) => severity).toSorted((a, b) => "cwn".indexOf(a[0]!) - "cwn".indexOf(b[0]!)),
      );
      const said = await palimpsest(["doctor", "--object-store", broken.url, ...(deep ? ["--deep"] : [])]);
      expect(said.out).toContain(` ${kind} `);
      expect(said.out).toMatch(/Means: .+ Do: .+\.\n/);
    }
  });

  test("rot is seen with --deep only, and one database can be looked at alone", async () => {
    const fleet = await smallFleet();
    const [segment] = keysUnder(fleet.objects, `db/${fleet.readUuid("one")}/seg/`);
    rotObject(fleet.objects, segment!);
    expect(troubles(await diagnosed("--object-store", fleet.url))).toEqual([]);
    expect(troubles(await diagnosed("--object-store", fleet.url, "--deep", "--database", "two"))).toEqual([]);
    expect(troubles(await diagnosed("--object-store", fleet.url, "--deep", "--uuid", fleet.readUuid("one")))).toContain(
      "object_rotten",
    );
  });

  test("a database whose objects are all gone is not taken for one that was never written", async () => {
    const fleet = await smallFleet();
    const service = await fleet.start();
    expect((await service.call("POST", "/v1/databases", { name: "bare" })).status).toBe(201);
    await service.close();
    const uuid = fleet.readUuid("one");
    const due = join(fleet.objects, "due/2033051800", uuid, "main~");
    mkdirSync(due, { recursive: true });
    writeFileSync(join(due, "1"), "\u0001one");
    rmSync(join(fleet.objects, "db", uuid), { recursive: true });
    const found = await diagnosed("--object-store", fleet.url);
    expect(found.findings.find((one) => one.uuid === uuid)).toMatchObject({
      kind: "database_lost",
      severity: "critical",
    });
    expect(found.findings.find((one) => one.uuid === fleet.readUuid("bare"))).toMatchObject({
      kind: "claim_unwritten",
      severity: "note",
    });
  });

  test("local files: what each is to its manifest, logs, leftovers, quarantine and strangers", async () => {
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    const older = join(temporaryDirectory(), "objects");
    cpSync(fleet.objects, older, { recursive: true });
    const service = await fleet.start();
    await sql(service, "one", "INSERT INTO t VALUES (5)");
    await service.close();
    const newer = join(temporaryDirectory(), "objects");
    cpSync(fleet.objects, newer, { recursive: true });
    const folder = join(fleet.directory, "db", uuid);

    // The bucket was put back: what the file is now, its manifest does not know.
    const back = await diagnosed("--data-dir", fleet.directory, "--object-store", `file://${older}`, "--uuid", uuid);
    expect(back.code).toBe(1);
    expect(
      troubles(back).some((kind) => ["head_older", "file_unknown", "file_ahead", "file_orphaned"].includes(kind)),
    ).toBe(true);

    // Nothing of the database in the store.
    const empty = join(temporaryDirectory(), "objects");
    mkdirSync(empty);
    expect(troubles(await diagnosed("--data-dir", fleet.directory, "--object-store", `file://${empty}`))).toEqual([
      "file_foreign",
      "file_foreign",
    ]);

    writeFileSync(join(folder, "main.db.01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp"), "half");
    mkdirSync(join(fleet.directory, "quarantine", uuid), { recursive: true });
    writeFileSync(join(fleet.directory, "quarantine", uuid, "main-5-01ARZ3NDEKTSV4RRFFQ69G5FAV.db"), "x");
    writeFileSync(join(fleet.directory, "note.txt"), "x");
    rotFile(join(fleet.directory, "db", fleet.readUuid("two"), "main.db"));
    const found = await diagnosed("--data-dir", fleet.directory, "--deep");
    for (const kind of ["leftovers", "quarantine", "directory_foreign", "file_unreadable"])
      expect(found.findings.map((one) => one.kind)).toContain(kind);
    expect(found.disk).toMatchObject({ quarantined: 1 });
  });

  test("a file that is ahead of its manifest says by how many transactions, and is left alone", async () => {
    const fleet = await smallFleet();
    const older = join(temporaryDirectory(), "objects");
    const service = await fleet.start();
    await sql(service, "two", "INSERT INTO t VALUES (7)");
    cpSync(fleet.objects, older, { recursive: true });
    await sql(service, "two", "INSERT INTO t VALUES (8)");
    await sql(service, "two", "INSERT INTO t VALUES (9)");
    await service.close();
    const before = fingerprint(fleet.directory);
    const flags = ["--data-dir", fleet.directory, "--object-store", `file://${older}`, "--database", "two"];
    const found = await diagnosed(...flags);
    const ahead = found.findings.find(({ kind }) => kind === "file_ahead");
    expect(ahead?.what).toContain("2 transactions are on this disk only");
    expect(fingerprint(fleet.directory)).toBe(before);
    expect(existsSync(join(fleet.directory, "db", fleet.readUuid("two"), "main.db-shm"))).toBe(false);
    // A log that is not folded in is read too.
    const path = join(fleet.directory, "db", fleet.readUuid("two"), "main.db");
    const database = new Database(path);
    database.pragma("journal_mode = wal");
    database.exec("UPDATE __service_state SET txid = txid + 1");
    const logged = await diagnosed(...flags);
    database.close();
    expect(logged.findings.find(({ kind }) => kind === "file_ahead")?.what).toContain(
      "3 transactions are on this disk only",
    );
  });

  test("a store's newer formats, foreign objects and wrong command lines are told as what they are", async () => {
    const fleet = await smallFleet();
    const uuid = fleet.readUuid("one");
    const newer = copyFleet(fleet);
    ageObject(newer.objects, `db/${uuid}/head/main`);
    mkdirSync(join(newer.objects, "strange~"));
    writeFileSync(join(newer.objects, "strange~", "1"), "\u0001x");
    const found = await diagnosed("--object-store", newer.url);
    expect(troubles(found)).toEqual(["format_newer"]);
    expect(found.findings.find(({ kind }) => kind === "foreign")?.what).toContain("strange");
    for (const [flags, words] of [
      [[], "give --data-dir, --object-store or both"],
      [["--data-dir", "/nowhere"], "there is no directory"],
      [["--object-store", "file:///nowhere"], "there is no directory"],
      [["--object-store", fleet.url, "--uuid", "x"], "--uuid must be"],
      [["--object-store", fleet.url, "--database", "X X"], "--database is no name"],
    ] as const) {
      const run = await palimpsest(["doctor", ...flags]);
      expect(run.error).toContain(words);
      expect(run.code).toBe(2);
    }
    expect(existsSync("/nowhere")).toBe(false);
    expect(readdirSync(fleet.directory)).toContain("objects");
  });
});

/** Spoils the first pages of a file. */
function rotFile(path: string): void {
  writeFileSync(path, Buffer.alloc(16_384, 7));
}
