/** Exports and imports over each wire: equal on the way back, undone by one rewind, refused by line, kept erased. */
import { describe, expect, test } from "vitest";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const service = useService();
const embedding = [0.6, 0.8];

type Call = (method: string, request: object, headers?: Record<string, string>) => Promise<Reply>;

/** Fills a profile's database with every kind of record. */
async function fill(must: Call): Promise<string> {
  const at = service().profile();
  const db = `${at.ns}--${at.profile}`;
  const memories = [
    { type: "fact", topic_key: "theme", summary: "dark", content: { id: 1 }, session_id: "s-1", metadata: { a: 1 } },
    { type: "fact", topic_key: "theme", summary: "light", content: {}, source: "chat", embedding, pinned: true },
    { type: "task", summary: "pay invoice 12", content: null, ttl: 3_600 },
    { type: "fact", topic_key: "web", summary: "read somewhere", content: {}, status: "proposed" },
  ];
  const { results } = (await must("MemoryService.Ingest", { ...at, memories })).body;
  const turns = [{ role: "user", content: "hello", turn_id: "t-1", metadata: { tool: "x" } }];
  await must("DataService.AppendTurns", { db, session: "s-1", turns });
  const derived = [{ session_id: "s-1", turn_id: "t-1" }, { memory_id: results[0].id }];
  const bounded = { type: "fact", topic_key: "theme", summary: "dark again", content: {}, valid_from: -1 };
  await must("MemoryService.Ingest", { ...at, memories: [{ ...bounded, subject: "ada", derived_from: derived }] });
  await must("DataService.PutValue", { db, ns: "prefs", key: "mail", value: Buffer.from("ada@example.org") });
  await must("DataService.PutValue", { db, ns: "prefs", key: "raw", value: Buffer.from([255, 0]), ttl: 3_600 });
  await must("DataService.InsertDocs", { db, coll: "people", docs: [{ _id: "ada", tag: 1 }], subject: "ada" });
  await must("DataService.CreateDocIndex", { db, coll: "people", path: "tag" });
  await must("DataService.UpsertVector", { db, coll: "faces", id: "ada", embedding: [3, 4], metric: "dot" });
  await must("FileService.PutFile", { db, path: "notes/tea.md", text: "one", subject: "ada" });
  await must("FileService.PutFile", { db, path: "notes/tea.md", text: "two" });
  const statements = [
    "CREATE TABLE parent (id INTEGER PRIMARY KEY, big, real REAL, raw BLOB)",
    "INSERT INTO parent VALUES (1, 9007199254740993, 1.0, x'00ff'), (2, 'text', 9e999, NULL)",
    'CREATE TABLE child (of INTEGER REFERENCES parent, "odd ""name" TEXT, twice AS (of * 2))',
    "INSERT INTO child VALUES (1, 'a'), (2, NULL)",
    "CREATE TABLE keyed (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
    "INSERT INTO keyed VALUES ('x', 'y')",
    "CREATE VIRTUAL TABLE words USING fts5 (said)",
    "INSERT INTO words (rowid, said) VALUES (7, 'tea time')",
    "CREATE INDEX child_of ON child (of)",
    "CREATE VIEW both AS SELECT * FROM parent JOIN child ON child.of = parent.id",
    "CREATE TRIGGER noted AFTER INSERT ON child BEGIN UPDATE parent SET big = 0 WHERE id = new.of; END",
  ];
  await must("DataService.ExecuteSql", { db, stmts: statements.map((q) => ({ q })) });
  return db;
}

/** The lines of a whole export. */
async function exported(must: Call, db: string, at?: string): Promise<readonly string[]> {
  let text = "";
  for (let cursor: string | undefined; ;) {
    const headers = at !== undefined && cursor === undefined ? { "service-at": at } : {};
    const { body } = await must("TransferService.Export", { db, ...(cursor !== undefined && { cursor }) }, headers);
    text += String(body);
    const last = JSON.parse(text.trimEnd().split("\n").at(-1)!) as { kind: string; cursor?: string };
    if (last.kind === "trailer") return text.trimEnd().split("\n");
    expect(last.kind).toBe("mark");
    cursor = last.cursor;
  }
}

const records = (lines: readonly string[]): readonly string[] =>
  lines.slice(1).filter((line) => !line.startsWith('{"kind":"mark"'));
const asBody = (lines: readonly string[]): Buffer => Buffer.from(`${lines.join("\n")}\n`);
const sumOf = (counts: readonly Record<string, number>[], outcome: string): number =>
  counts.reduce((sum, one) => sum + (one[outcome] ?? 0), 0);
const { length: headerAndTrailer } = ["header", "trailer"];

describe.each(wireNames)("over %s", (name) => {
  const call: Call = (method, request, headers) => service().wire(name).call(method, request, headers);
  const must: Call = (method, request, headers) => ok(call(method, request, headers));

  test("what is exported and imported is exported alike; again it changes nothing; a rewind undoes it", async () => {
    const db = await fill(must);
    const lines = await exported(must, db);
    const copy = await service().database();
    const dry = (await must("TransferService.Import", { db: copy, records: asBody(lines), dry_run: true })).body;
    expect(dry).toMatchObject({ complete: true, cursor: null, errors: [], left: [], txid: 0 });
    expect(dry).not.toHaveProperty("checkpoint");
    const first = (await must("TransferService.Import", { db: copy, records: asBody(lines) })).body;
    expect(sumOf(first.counts, "created")).toBe(lines.length - headerAndTrailer);
    expect(first).toMatchObject({ complete: true, next_line: lines.length + 1, counts: dry.counts });
    expect(records(await exported(must, copy))).toEqual(records(lines));
    const again = (await must("TransferService.Import", { db: copy, records: asBody(lines) })).body;
    expect(sumOf(again.counts, "unchanged")).toBe(lines.length - headerAndTrailer);
    expect(again.txid).toBe(first.txid);
    const query = { db: copy, stmts: [{ q: "SELECT big, typeof(real) FROM parent ORDER BY id" }] };
    const { rows } = (await must("DataService.ExecuteSql", query)).body.results[0];
    expect(rows).toEqual([
      ["9007199254740993", "real"],
      ["text", "real"],
    ]);
    await must("BranchService.RewindBranch", { db: copy, branch: "main", to: first.checkpoint });
    expect(records(await exported(must, copy))).toHaveLength(1);
  });

  test("in parts: each goes on from the one before, and one that is lost is given again", async () => {
    const db = await fill(must);
    const lines = await exported(must, db);
    const copy = await service().database();
    let cursor: string | undefined;
    for (let from = 0; from < lines.length; from += 4) {
      const part = { db: copy, records: asBody(lines.slice(from, from + 4)), ...(cursor && { cursor }) };
      await must("TransferService.Import", part);
      const { body } = await must("TransferService.Import", part);
      expect(body.complete).toBe(from + 4 >= lines.length);
      cursor = body.cursor;
    }
    expect(records(await exported(must, copy))).toEqual(records(lines));
    const { checkpoints } = (await must("BranchService.ListCheckpoints", { db: copy, branch: "main" })).body;
    expect(checkpoints).toHaveLength(1);
  });

  test("more than a part is of one state, whatever is written meanwhile", async () => {
    const db = await service().database();
    const text = "lorem ipsum ".repeat(30_000);
    for (const path of ["a", "b", "c", "d"]) await must("FileService.PutFile", { db, path, text: path + text });
    const { body } = await must("BranchService.CreateCheckpoint", { db, branch: "main", name: "then" });
    await must("FileService.PutFile", { db, path: "e", text });
    for (const path of ["f", "g", "h"]) await must("FileService.PutFile", { db, path, text: path + text });
    const first = String((await must("TransferService.Export", { db })).body)
      .trimEnd()
      .split("\n");
    await must("FileService.PutFile", { db, path: "late", text });
    const { cursor } = JSON.parse(first.at(-1)!) as { cursor: string };
    const again = await Promise.all([1, 2].map(() => call("TransferService.Export", { db, cursor })));
    const rest = again.find(({ code }) => code === "ok")!;
    expect(String(rest.body)).toContain('"path":"h"');
    expect(String(rest.body)).not.toContain('"path":"late"');
    expect((await must("BranchService.ListBranches", { db })).body.branches).toHaveLength(1);
    expect((await call("TransferService.Export", { db, cursor })).code).toBe("not_found");
    const past = await exported(must, db, "then");
    expect(JSON.parse(past[0]!)).toMatchObject({ txid: body.txid });
    expect(past.filter((line) => line.includes('"kind":"file"'))).toHaveLength(4);
  });

  test("what is wrong is refused with its line, and says what was imported", async () => {
    const db = await fill(must);
    const lines = await exported(must, db);
    const copy = await service().database();
    const [header, ...others] = lines as [string, ...string[]];
    const later = header.replace('"version":1', '"version":2');
    const kv = others.findIndex((line) => line.includes('"key":"mail"'));
    const cases: [string, readonly string[], RegExp][] = [
      ["no header", others, /^line 1: an import begins with the header/],
      ["a later version", [later, ...others], /^line 1: .* version 2, written by a newer build/],
      ["garbage", [header, "}{"], /^line 2 must be a JSON object .*nothing was imported/],
      ["a lost line", lines.toSpliced(kv + 1, 1), /the trailer speaks of \d+ records.*nothing was imported/],
      ["a changed line", lines.with(kv + 1, others[kv]!.replace("ada@", "eve@")), /hash is not that of the records/],
      ["an unknown kind", [header, '{"kind":"dream"}'], /^line 2: kind "dream" is unknown/],
      ["an unknown field", [header, '{"kind":"kv","ns":"a","key":"b","text":"","x":1}'], /^line 2: .* no field "x"/],
      ["a bad memory", [header, '{"kind":"memory","id":"mem_1"}'], /^line 2: id must be mem_ and a ULID/],
      ["SQL that is none", [header, '{"kind":"sql_table","name":"x","sql":"DROP TABLE x"}'], /^line 2: sql must be/],
      [
        "reserved names",
        [header, '{"kind":"sql_table","name":"__service_x","sql":"CREATE TABLE __service_x (a)"}'],
        /^line 2: .*reserved/,
      ],
      ["after the end", [...lines, others[kv]!], /comes after the trailer/],
      ["a second header", [header, header], /^line 2 is a second header/],
    ];
    for (const [what, given, message] of cases) {
      const reply = await call("TransferService.Import", { db: copy, records: asBody(given) });
      expect(reply, what).toMatchObject({
        code: "invalid_request",
        message: expect.stringMatching(message) as unknown,
      });
    }
    expect(records(await exported(must, copy))).toHaveLength(1);
    const dry = { db: copy, records: asBody([header, '{"kind":"kv"}', '{"kind":"turn"}']), dry_run: true };
    expect((await must("TransferService.Import", dry)).body.errors).toEqual([
      { line: 2, message: "line 2: ns is missing" },
      { line: 3, message: "line 3: session_id is missing" },
    ]);
    const cut = (await must("TransferService.Import", { db: copy, records: asBody(lines.slice(0, -1)) })).body;
    expect(cut).toMatchObject({ complete: false, next_line: lines.length });
    for (const request of [{ mode: "merge" }, { cursor: "x" }, { checkpoint: "12" }])
      expect((await call("TransferService.Import", { db: copy, records: asBody(lines), ...request })).code).toBe(
        "invalid_request",
      );
  });

  test("modes decide what becomes of what is there", async () => {
    const db = await service().database();
    await must("DataService.PutValue", { db, ns: "prefs", key: "mail", value: Buffer.from("old") });
    const lines = await exported(must, db);
    await must("DataService.PutValue", { db, ns: "prefs", key: "mail", value: Buffer.from("new") });
    const by = (mode: string): Promise<Reply> => call("TransferService.Import", { db, records: asBody(lines), mode });
    expect((await by("skip")).body).toMatchObject({ left: [{ line: 2, kind: "kv", outcome: "conflict" }] });
    expect(await by("fail")).toMatchObject({
      code: "conflict",
      message: expect.stringMatching(/^line 2: /) as unknown,
    });
    const value = async (): Promise<string> =>
      String((await must("DataService.GetValue", { db, ns: "prefs", key: "mail" })).body);
    expect(await value()).toBe("new");
    expect(sumOf((await by("replace")).body.counts, "replaced")).toBe(1);
    expect(await value()).toBe("old");
  });

  test("what was erased stays erased, whether or not its erasure is complete", async () => {
    const at = service().profile();
    const db = `${at.ns}--${at.profile}`;
    const memories = [{ type: "event", summary: "to be forgotten", content: {} }];
    const { results } = (await must("MemoryService.Ingest", { ...at, memories })).body;
    await must("DataService.PutValue", { db, ns: "prefs", key: "mail", value: Buffer.from("ada") });
    const lines = await exported(must, db);
    await must("MemoryService.CreateErasure", { ...at, memory_id: results[0].id });
    await must("MemoryService.CreateErasure", { ...at, kv_ns: "prefs", key: "mail" });
    const { body } = await must("TransferService.Import", { db, records: asBody(lines) });
    expect(sumOf(body.counts, "erased")).toBe(2);
    expect(records(await exported(must, db))).toHaveLength(1);
    const copy = await service().database();
    expect(
      sumOf((await must("TransferService.Import", { db: copy, records: asBody(lines) })).body.counts, "created"),
    ).toBe(2);
  });
});

test("a form's type is refused, with what to send instead", async () => {
  const db = await service().database();
  const response = await fetch(`${service().address}/v1/db/${db}/import`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: "{}",
  });
  expect(response.status).toBe(415);
  expect(await response.text()).toContain("--data-binary");
});
