/**
 * docs/disasters.md, followed: the commands of each section are run as they are printed, against a real node and its
 * store, after the disaster has been made to happen; then what the text promises is looked for.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { parseSections, shellIn, type Ran } from "../support/documented.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { palimpsest } from "../support/command-runs.ts";
import {
  copyFleet,
  diagnosed,
  keysUnder,
  loseObject,
  objectFile,
  rotObject,
  smallFleet,
  troubles,
  type Fleet,
} from "../support/rescue.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const sections = parseSections("docs/disasters.md");

/** A fleet of its own for one story. */
class Scene {
  readonly fleet: Fleet;
  readonly folder = temporaryDirectory();
  readonly variables: Record<string, string>;
  readonly #blocks: readonly string[];
  readonly #shell = shellIn(this.folder);

  constructor(fleet: Fleet, blocks: readonly string[]) {
    this.fleet = copyFleet(fleet);
    this.#blocks = blocks;
    const elsewhere = temporaryDirectory();
    this.variables = {
      STORE: this.fleet.url,
      DATA: this.fleet.directory,
      BACKUP: `file://${elsewhere}/backup`,
      EMPTY: `file://${elsewhere}/empty/objects`,
      DB: "one",
      UUID: this.fleet.readUuid("one"),
    };
  }

  get uuid(): string {
    return this.variables["UUID"]!;
  }

  /** Runs the section's commands, block by block. */
  async follow(): Promise<Ran> {
    let ran: Ran = { code: 0, out: "" };
    for (const block of this.#blocks) ran = await this.#shell(block, this.variables);
    return ran;
  }

  /** A node on the directory; its address is what the document calls BASE. */
  async start(directory = this.fleet.directory, variables: Record<string, string> = {}): Promise<NodeProcess> {
    const node = await startNodeProcess(directory, variables);
    onTestFinished(() => node.end("SIGKILL"));
    this.variables["BASE"] = `http://127.0.0.1:${node.port}`;
    return node;
  }

  /** The node's disk is gone. */
  loseDisk(): void {
    rmSync(join(this.fleet.directory, "db"), { recursive: true });
  }
}

async function numbers(node: NodeProcess, db = "one"): Promise<number[]> {
  const answer = await node.call("POST", `/v1/db/${db}/sql`, { stmts: [{ q: "SELECT n FROM t ORDER BY n" }] });
  expect(answer.status, answer.text).toBe(200);
  return (answer.json as { results: { rows: number[][] }[] }).results[0]!.rows.flat();
}

function write(node: NodeProcess, n: number, db = "one"): ReturnType<NodeProcess["call"]> {
  return node.call(
    "POST",
    `/v1/db/${db}/sql`,
    { stmts: [{ q: `INSERT INTO t VALUES (${n})` }] },
    { "service-durability": "durable" },
  );
}

/** The node refuses the database with these words and serves the other one. */
async function refusesOneOnly(scene: Scene, words: string): Promise<void> {
  const node = await scene.start();
  const refused = await write(node, 9);
  expect(refused.status, refused.text).toBe(503);
  expect(refused.json).toMatchObject({ code: "unavailable" });
  expect(await numbers(node, "two")).toEqual([1, 2, 3]);
  await node.end("SIGTERM");
  expect(node.log()).toContain("stored data cannot be used");
  expect(node.log()).toContain(words);
}

/** After the commands the store is sound and a node serves these rows from it alone. */
async function serves(scene: Scene, rows: readonly number[], db = "one"): Promise<void> {
  if (existsSync(join(scene.fleet.directory, "db"))) scene.loseDisk();
  expect(troubles(await diagnosed("--object-store", scene.fleet.url, "--deep"))).toEqual([]);
  const node = await scene.start();
  expect(await numbers(node, db)).toEqual(rows);
  expect((await write(node, 100, db)).status).toBe(200);
  await node.end("SIGTERM");
}

const stories: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  "Is anything wrong at all?": async (scene) => {
    expect(await scene.follow()).toMatchObject({ code: 0 });
    expect(JSON.parse(readFileSync(join(scene.folder, "diagnosis.json"), "utf8"))).toMatchObject({
      v: 1,
      well: true,
      store: { databases: 2, restored: 3 },
    });
    loseObject(scene.fleet.objects, `db/${scene.uuid}/head/main`);
    expect((await scene.follow()).code).toBe(1);
  },
  "A disk is full": async (scene) => {
    writeFileSync(
      join(scene.fleet.directory, "db", scene.uuid, "main.db.01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp"),
      "unfinished",
    );
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(ran.out).toContain("leftovers");
    await (await scene.start()).end("SIGTERM");
    expect(readdirSync(join(scene.fleet.directory, "db", scene.uuid)).some((name) => name.endsWith(".tmp"))).toBe(
      false,
    );
  },
  "A node's disk is lost": async (scene) => {
    scene.loseDisk();
    const node = await scene.start();
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(ran.out).toContain('"one"');
    expect(await numbers(node)).toEqual([1, 2, 3]);
  },
  "A disk is read-only or gives I/O errors": async (scene) => {
    writeFileSync(join(scene.fleet.directory, "db", scene.uuid, "main.db"), Buffer.alloc(8_192, 7));
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(1);
    expect(ran.out).toContain("file_unreadable");
    const rescued = join(scene.folder, "rescued");
    const node = await scene.start(rescued);
    expect(await numbers(node)).toEqual([1, 2, 3]);
    expect(node.log()).toContain("was set aside under quarantine/");
  },
  "Objects of the bucket were deleted": async (scene) => {
    for (const key of keysUnder(scene.fleet.objects, `db/${scene.uuid}/seg/`)) loseObject(scene.fleet.objects, key);
    scene.loseDisk();
    await refusesOneOnly(scene, "is missing");
    expect((await scene.follow()).code).toBe(1);
    const { findings } = JSON.parse(readFileSync(join(scene.folder, "diagnosis.json"), "utf8")) as {
      findings: { kind: string }[];
    };
    expect(findings.map(({ kind }) => kind)).toContain("object_missing");
  },
  "The manifest of a branch is lost": async (scene) => {
    rmSync(objectFile(scene.fleet.objects, `db/${scene.uuid}/head/main`));
    writeFileSync(join(scene.fleet.objects, `db/${scene.uuid}/head/main~`, "4503599627370495"), "\u0001rubbish");
    await refusesOneOnly(scene, "a manifest cannot be read");
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(readFileSync(join(scene.folder, "plan.txt"), "utf8")).toContain("LOST: ");
    const bare = new Scene(
      scene.fleet,
      sections.find(({ title }) => title === "The manifest of a branch is lost")!.blocks,
    );
    await serves(scene, [1, 2, 3]);
    // And without any older manifest.
    loseObject(bare.fleet.objects, `db/${scene.uuid}/head/main`);
    await refusesOneOnly(bare, "the branch's manifest is missing from object storage");
    await bare.follow();
    const plan = readFileSync(join(bare.folder, "plan.txt"), "utf8");
    expect(plan).toContain("the pool alone");
    // All that was written here is so small that it stood in the manifest.
    expect(plan).toContain("LOST: EVERYTHING");
  },
  "The catalog of a database is lost": async (scene) => {
    loseObject(scene.fleet.objects, `db/${scene.uuid}/catalog`);
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    const branch = /called (recovered-\w+) from now on/.exec(readFileSync(join(scene.folder, "plan.txt"), "utf8"))![1]!;
    await serves(scene, [1, 2, 3]);
    await serves(scene, [1, 2, 3, 4], `one@${branch}`);
  },
  "The name of a database is lost": async (scene) => {
    loseObject(scene.fleet.objects, "names/one.json");
    const node = await scene.start();
    expect(await node.call("POST", "/v1/db/one/sql", { stmts: [{ q: "SELECT 1" }] })).toMatchObject({
      status: 404,
      json: { code: "database_not_found" },
    });
    await node.end("SIGTERM");
    expect(
      (await diagnosed("--object-store", scene.fleet.url)).findings.find(({ kind }) => kind === "database_unclaimed")
        ?.uuid,
    ).toBe(scene.uuid);
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    await serves(scene, [1, 2, 3]);
  },
  "A segment is lost or rotten": async (scene) => {
    const first = await scene.start();
    await first.call(
      "POST",
      "/v1/db/one/sql",
      { stmts: [{ q: "CREATE TABLE big AS SELECT randomblob(150000) AS b" }] },
      { "service-durability": "durable" },
    );
    await write(first, 5);
    await first.end("SIGTERM");
    rotObject(scene.fleet.objects, keysUnder(scene.fleet.objects, `db/${scene.uuid}/seg/`).at(-1)!);
    const kept = join(scene.folder, "kept");
    renameSync(join(scene.fleet.directory, "db"), kept);
    await refusesOneOnly(scene, "is not what was written");
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(readFileSync(join(scene.folder, "plan.txt"), "utf8")).toContain("unless the disk of the node");
    // The node that has written it starts first.
    rmSync(join(scene.fleet.directory, "db"), { recursive: true, force: true });
    renameSync(kept, join(scene.fleet.directory, "db"));
    const node = await scene.start();
    expect(await numbers(node)).toEqual([1, 2, 3, 5]);
    expect((await write(node, 6)).status).toBe(200);
    await node.end("SIGTERM");
    await serves(scene, [1, 2, 3, 5, 6]);
  },
  "The bucket was put back to an older state": async (scene) => {
    const older = join(scene.folder, "older");
    cpSync(scene.fleet.objects, older, { recursive: true });
    const node = await scene.start();
    for (const n of [5, 6]) expect((await write(node, n)).status).toBe(200);
    await node.end("SIGTERM");
    rmSync(scene.fleet.objects, { recursive: true });
    cpSync(older, scene.fleet.objects, { recursive: true });
    await scene.follow();
    const found = troubles(await diagnosed("--data-dir", scene.fleet.directory, "--object-store", scene.fleet.url));
    expect(found.length).toBeGreaterThan(0);
    for (const kind of found) expect(["head_older", "file_unknown", "file_orphaned", "file_ahead"]).toContain(kind);
    const file = new Database(join(scene.folder, "kept", "db", scene.uuid, "main.db"));
    expect(file.prepare("SELECT n FROM t ORDER BY n").pluck().all()).toEqual([1, 2, 3, 5, 6]);
    file.close();
    await refusesOneOnly(scene, "object storage was put back to an older state than this node has seen");
    const accepting = await scene.start(scene.fleet.directory, { SERVICE_ACCEPT_ROLLBACK: scene.uuid });
    expect(await numbers(accepting)).toEqual([1, 2, 3]);
    expect((await accepting.call("GET", "/health/ready")).json).toMatchObject({
      ready: true,
      checks: { quarantine: expect.stringContaining("1") as unknown },
    });
    await accepting.end("SIGTERM");
    expect(
      readdirSync(join(scene.fleet.directory, "quarantine", scene.uuid)).filter((name) => name.endsWith(".json")),
    ).toHaveLength(1);
    await serves(scene, [1, 2, 3]);
  },
  "Two nodes ran on one store without coordination": async (scene) => {
    const first = await scene.start();
    expect((await write(first, 5)).status).toBe(200);
    const other = await startNodeProcess(temporaryDirectory(), { SERVICE_OBJECT_STORE: scene.fleet.url });
    onTestFinished(() => other.end("SIGKILL"));
    expect((await write(other, 6)).status).toBe(200);
    expect(await write(first, 7)).toMatchObject({ status: 503, json: { code: "unavailable" } });
    await first.end("SIGTERM");
    expect(await numbers(other)).toEqual([1, 2, 3, 5, 6]);
    await other.end("SIGTERM");
    expect((await scene.follow()).out).toContain("databases");
  },
  "etcd is lost, or was restored from a backup": async (scene) => {
    await scene.start();
    const ran = await scene.follow();
    expect(ran, ran.out).toMatchObject({ code: 0 });
  },
  "A clock is wrong": async (scene) => {
    await scene.start();
    expect(await scene.follow()).toMatchObject({ code: 0 });
  },
  "A node has set something aside": async (scene) => {
    const aside = join(scene.fleet.directory, "quarantine", scene.uuid);
    cpSync(join(scene.fleet.directory, "db", scene.uuid), aside, { recursive: true });
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(ran.out).toContain("main.db");
    const restored = new Database(join(scene.folder, "now.db"));
    const kept = new Database(join(aside, "main.db"));
    expect(kept.prepare("SELECT txid FROM __service_state").pluck().get()).toBe(
      restored.prepare("SELECT txid FROM __service_state").pluck().get(),
    );
    for (const one of [restored, kept]) one.close();
    expect(troubles(await diagnosed("--data-dir", scene.fleet.directory))).toContain("quarantine");
  },
  "The signing key is lost": async (scene) => {
    const before = await scene.start();
    const { out } = await scene.follow();
    await before.end("SIGTERM");
    rmSync(join(scene.fleet.directory, "signing-key.pem"));
    const after = await scene.start();
    const ran = await scene.follow();
    await after.end("SIGTERM");
    expect(after.log()).toContain('"from":"generated"');
    const kids = (text: string): string[] =>
      (JSON.parse(text) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
    expect(kids(ran.out), "the old key is still listed").toEqual(expect.arrayContaining(kids(out)));
    expect(kids(ran.out).length).toBeGreaterThan(kids(out).length);
  },
  "A whole region is lost": async (scene) => {
    const { BACKUP: backup, EMPTY: empty } = scene.variables as { BACKUP: string; EMPTY: string };
    expect((await palimpsest(["backup", "--object-store", scene.fleet.url, "--to", backup])).code).toBe(0);
    const node = await scene.start();
    const later = Number((await write(node, 5)).headers.get("service-txid"));
    await node.end("SIGTERM");
    rmSync(scene.fleet.directory, { recursive: true });
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    const restored = await startNodeProcess(temporaryDirectory(), { SERVICE_OBJECT_STORE: empty });
    onTestFinished(() => restored.end("SIGKILL"));
    expect(await numbers(restored)).toEqual([1, 2, 3]);
    const asked = await restored.call(
      "POST",
      "/v1/db/one/sql",
      { stmts: [{ q: "SELECT 1" }] },
      { "service-min-txid": String(later) },
    );
    expect(asked).toMatchObject({ status: 409, json: { code: "conflict" } });
  },
  "An erasure stays pending": async (scene) => {
    const node = await scene.start();
    await node.call("POST", "/v1/memory/acme/alice/memories", {
      memories: [{ type: "fact", topic_key: "theme", summary: "dark", content: null }],
    });
    expect(
      (await node.call("POST", "/v1/memory/acme/alice/erasures", { topic_key: "theme", type: "fact" })).status,
    ).toBeLessThan(300);
    const ran = await scene.follow();
    expect(ran.code, ran.out).toBe(0);
    expect(ran.out).toContain("erasure_unfinished");
    expect(ran.out).toContain('"status":"pending"');
  },
};

describe("docs/disasters.md", () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await smallFleet(mkdtempSync(join(tmpdir(), "palimpsest-disasters-")));
    return () => rmSync(fleet.directory, { recursive: true, force: true });
  });

  test("every section has its story, and every story its section", () => {
    expect(sections.map(({ title }) => title)).toEqual(Object.keys(stories));
    for (const { title, blocks } of sections) expect(blocks.length, title).toBeGreaterThan(0);
  });

  test.each(sections)("$title", async ({ title, blocks }) => {
    await stories[title]!(new Scene(fleet, blocks));
  });
});
