/** `palimpsest inspect` of a store that a node has written: every object by its key, databases by name, damage. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newestLayout } from "../../../../src/format/core/versions.ts";
import {
  ageObject,
  copyFleet,
  fingerprint,
  keysUnder,
  loseObject,
  objectFile,
  rotObject,
  smallFleet,
  sql,
  type Fleet,
} from "../../../support/rescue.ts";
import { type Document, run, document, golden } from "../../../support/inspections.ts";

describe("a store that a node has written", () => {
  let fleet: Fleet;
  const told: string[] = [];
  const secret = "the harbour of Frankfurt";

  async function inStore(...given: string[]): Promise<Document> {
    const flags = ["--object-store", fleet.url, ...given];
    const { code, out, error } = await run(flags);
    expect({ code, error }, flags.join(" ")).toEqual({ code: 0, error: "" });
    told.push(out, JSON.stringify(await document(flags)));
    return document(flags);
  }

  beforeAll(async () => {
    fleet = await smallFleet(mkdtempSync(join(tmpdir(), "palimpsest-test-")));
    const service = await fleet.start({ SERVICE_AUDIT_FLUSH_MS: "10" });
    const policy = await service.call("PUT", "/v1/namespaces/acme/policy", { policy: { audit: { enabled: true } } });
    expect(policy.status, policy.text).toBe(200);
    const memory = { type: "fact", topic_key: secret, summary: secret, content: { where: secret } };
    const answer = await service.call("POST", "/v1/memory/acme/alice/memories", { memories: [memory] });
    expect(answer.status, answer.text).toBe(201);
    expect((await service.call("POST", "/v1/db/acme--alice/sync")).status).toBe(200);
    const erasure = await service.call("POST", "/v1/memory/acme/alice/erasures", {
      topic_key: secret,
      type: "fact",
    });
    expect(erasure.status, erasure.text).toBeLessThan(300);
    await sql(service, "one", `CREATE TABLE s AS SELECT '${secret}' AS v`);
    await service.close();
  });

  afterAll(() => rmSync(fleet.directory, { recursive: true }));

  test("every object of it is told by its key; not a byte changes, and nothing that is stored is told", async () => {
    const before = fingerprint(fleet.directory);
    const uuid = fleet.readUuid("one");
    const manifest = await inStore(`db/${uuid}/head/main`);
    expect(manifest).toMatchObject({ kind: "manifest", database: uuid, branch_id: "main", damage: [] });
    expect(await inStore(manifest["history_key"])).toMatchObject({ checkpoints: [{ name: "three" }] });
    expect(await inStore("names/one.json")).toMatchObject({ kind: "name_claim", database: uuid });
    expect(await inStore("format.json")).toMatchObject({ kind: "layout", layout: newestLayout });
    const prefixes = [`db/${uuid}/seg/`, `db/${uuid}/hist/`, `db/${uuid}/head/`, "names/"];
    prefixes.push(`erasures/${fleet.readUuid("acme--alice")}/`);
    for (const day of readdirSync(join(fleet.objects, "audit/acme"))) prefixes.push(`audit/acme/${day}/`);
    const keys = prefixes.flatMap((prefix) => {
      const found = keysUnder(fleet.objects, prefix);
      expect(found, prefix).not.toEqual([]);
      return found;
    });
    for (const key of keys) expect((await inStore(key))["damage"]).toEqual([]);
    // The same by the files of the store.
    const path = objectFile(fleet.objects, `db/${uuid}/head/main`);
    const { where: _where, ...byFile } = await document([path]);
    expect({ ...byFile, where: manifest["where"] }).toEqual(manifest);
    expect(await document([join(path, "..")])).toMatchObject({ where: path, kind: "manifest" });
    expect(fingerprint(fleet.directory)).toBe(before);
    for (const text of told) expect(text).not.toMatch(/harbour|Frankfurt/i);
  });

  test("a database by its name or its identity: branches, manifests in a line, and how to see one", async () => {
    const uuid = fleet.readUuid("one");
    const byName = await inStore("--database", "one");
    expect(byName).toMatchObject({
      kind: "database",
      where: uuid,
      name: "one",
      catalog: "sound",
      branches: [
        { name: "main", manifest: "sound", parent: null, key: `db/${uuid}/head/main` },
        { name: "side", manifest: "sound", parent: "main" },
      ],
    });
    const { name: _name, claimed_at: _claimed, ...byUuid } = await inStore("--database", uuid);
    expect(byName).toMatchObject(byUuid);
    const { out } = await run(["--object-store", fleet.url, "--database", "one"]);
    const commands = out.split("\n").filter((line) => line.startsWith("palimpsest inspect "));
    expect(commands).toContain(`palimpsest inspect --object-store ${fleet.url} db/${uuid}/head/main`);
    for (const command of commands) expect((await run(command.split(" ").slice(2))).code).toBe(0);
    expect(await run(["--database", "one"], { SERVICE_OBJECT_STORE: fleet.url })).toMatchObject({ code: 0 });
    expect(await run(["names/one.json"], { SERVICE_OBJECT_STORE: fleet.url })).toMatchObject({ code: 0 });
  });

  test("what is missing or damaged in a copy of it is told", async () => {
    const copy = copyFleet(fleet);
    const uuid = copy.readUuid("one");
    const at = (key: string): string[] => ["--object-store", copy.url, key];
    rotObject(copy.objects, `db/${uuid}/head/main`);
    expect(await document(at(`db/${uuid}/head/main`), 1)).toMatchObject({ kind: "manifest" });
    expect((await document(["--object-store", copy.url, "--database", "one"], 1))["damage"]).toEqual([
      expect.stringContaining(`db/${uuid}/head/main: a manifest cannot be read`),
    ]);
    ageObject(copy.objects, `db/${uuid}/catalog`);
    const aged = await document(at(`db/${uuid}/catalog`), 1);
    expect(aged).toMatchObject({ format_version: 200 });
    expect(aged["damage"]).toEqual([expect.stringContaining("written by a newer build")]);
    loseObject(copy.objects, `db/${uuid}/catalog`);
    const lost = await document(["--object-store", copy.url, "--database", "one"], 1);
    expect(lost).toMatchObject({ catalog: "missing", branches: [{ name: null }, { name: null }] });
    expect(await run(at(`db/${uuid}/catalog`))).toMatchObject({
      code: 1,
      error: `palimpsest: there is no object db/${uuid}/catalog\n`,
    });
    expect(await run(["--object-store", copy.url, "--database", "nobody"])).toMatchObject({
      code: 1,
      error: "palimpsest: object storage holds nothing of a database nobody\n",
    });
    // A manifest under a catalog's key is a damaged catalog, by its file too.
    writeFileSync(
      objectFile(copy.objects, `db/${fleet.readUuid("two")}/catalog`),
      Buffer.concat([Buffer.of(1), golden("head")]),
    );
    for (const given of [
      at(`db/${fleet.readUuid("two")}/catalog`),
      [objectFile(copy.objects, `db/${fleet.readUuid("two")}/catalog`)],
    ])
      expect((await document(given, 1))["damage"]).toContain("at byte 0: the magic is not PLCA");
  });

  test("a SQLite file that a node writes: its state with what the log adds; nothing appears beside it", async () => {
    const copy = copyFleet(fleet);
    const service = await copy.start();
    try {
      const txid = await sql(service, "one", "INSERT INTO t VALUES (9)");
      const folder = join(copy.directory, "db", copy.readUuid("one"));
      const names = readdirSync(folder);
      const found = await document([join(folder, "main.db")]);
      expect(found).toMatchObject({ kind: "database_file", txid, journal: "wal", log: true, damage: [] });
      expect(found["log_groups"]).toBeGreaterThan(0);
      expect(found["writer_epoch_id"]).toMatch(/^[0-9a-f]{32}$/);
      expect(readdirSync(folder)).toEqual(names);
      expect(await sql(service, "one", "INSERT INTO t VALUES (10)")).toBe(txid + 1);
    } finally {
      await service.close();
    }
  });
});
