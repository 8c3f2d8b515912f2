/**
 * `palimpsest export` and `palimpsest import` against a real node: there and back, compressed, for people, cut and
 * changed files, of a kept connection, what cannot be done, and a node that is killed in the middle.
 */
import { exec } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { palimpsest, type Run } from "../support/command-runs.ts";
import { freePort, serviceEntry, startNodeProcess } from "../support/node-process.ts";
import { useService } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const service = useService();
const shell = promisify(exec);

async function run(...words: readonly string[]): Promise<Run> {
  return palimpsest([words[0]!, "--address", service().address, ...words.slice(1)]);
}

/** A database with more than one part. */
async function filled(address: string): Promise<string> {
  const db = `big${freshNumber++}`;
  await post(address, "/v1/databases", { name: db });
  for (let at = 0; at < 12_000; at += 1_000) {
    const docs = Array.from({ length: 1_000 }, (_, n) => ({ _id: `d${at + n}`, text: "lorem ipsum ".repeat(20) }));
    await post(address, `/v1/db/${db}/docs/big/insert`, { docs });
  }
  await post(address, `/v1/db/${db}/memory/s-1/turns/batch`, { turns: [{ role: "user", content: "hello" }] });
  return db;
}

let freshNumber = 0;

async function post(address: string, path: string, body: object): Promise<unknown> {
  const response = await fetch(address + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.ok, `${path}: ${response.status}`).toBe(true);
  return response.json();
}

/** What became of the records of a kind, as the import tells a program. */
function countsOf({ code, out, error }: Run, kind: string): unknown {
  expect(code, error).toBe(0);
  return JSON.parse(out).counts.find((counts: { kind: string }) => counts.kind === kind);
}

const trailerOf = (file: string): unknown => JSON.parse(readFileSync(file, "utf8").trimEnd().split("\n").at(-1)!);

test("there and back, compressed too; a cut or changed file imports nothing", async () => {
  const folder = temporaryDirectory();
  const { address } = service();
  const db = await filled(address);
  const file = join(folder, "big.ndjson");
  const told = await run("export", "--database", db, file);
  expect(told).toMatchObject({ code: 0, error: "" });
  const { records, counts, hash } = trailerOf(file) as { records: number; counts: { doc: number }; hash: string };
  expect(counts.doc).toBe(12_000);
  expect(JSON.parse(told.out)).toMatchObject({ file, database: db, branch: "main", txid: 13, records, counts, hash });
  for (const end of [".zst", ".gz"]) {
    const [packed, back, copy] = [`${file}${end}`, join(folder, `back${end}.ndjson`), `copy${freshNumber++}`];
    expect((await run("export", "--database", db, packed)).code).toBe(0);
    await post(address, "/v1/databases", { name: copy });
    const dry = await run("import", "--database", copy, packed, "--dry-run");
    expect(countsOf(dry, "doc")).toMatchObject({ created: 12_000 });
    const first = await run("import", "--database", copy, packed);
    expect(countsOf(first, "doc")).toMatchObject({ created: 12_000 });
    expect(JSON.parse(first.out).checkpoint).toMatch(/^import-/);
    const again = await run("import", "--database", copy, packed);
    expect(countsOf(again, "doc")).toMatchObject({ created: 0, unchanged: 12_000 });
    await run("export", "--database", copy, back);
    expect(trailerOf(back)).toEqual(trailerOf(file));
  }
  // Whoever reads from a pipe may be slow, and gets all of it.
  const command = `'${process.execPath}' '${serviceEntry}' export --address '${address}' --database ${db} -`;
  const { stdout: piped } = await shell(`${command} | (sleep 1; tail -n 1)`);
  expect(JSON.parse(piped)).toEqual(trailerOf(file));
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const bad = join(folder, "bad.ndjson");
  const copy = `copy${freshNumber++}`;
  await post(address, "/v1/databases", { name: copy });
  for (const [given, message] of [
    [lines.slice(0, 5_000), /it was cut; nothing was imported/],
    [lines.toSpliced(400, 1), /the trailer speaks of .*nothing was imported/],
    [lines.with(400, lines[401]!), /hash is not that.*nothing was imported/],
  ] as const) {
    writeFileSync(bad, given.join("\n"));
    const { code, error } = await run("import", "--database", copy, bad);
    expect(code).toBe(1);
    expect(error).toMatch(message);
  }
  await run("export", "--database", copy, bad);
  expect(trailerOf(bad)).toMatchObject({ records: 0 });
});

test("for people to read; of other programs, with what was passed over", async () => {
  const folder = temporaryDirectory();
  const { ns, profile } = service().profile();
  const db = `${ns}--${profile}`;
  const { address } = service();
  await post(address, `/v1/memory/${ns}/${profile}/memories`, {
    memories: [{ type: "fact", topic_key: "theme", summary: "likes\n# dark", content: { a: 1 } }],
  });
  const file = join(folder, "memory.jsonl");
  writeFileSync(file, '{"type":"entity","name":"Ada","observations":["likes tea"]}\n{"type":"x"}\n');
  const taken = await run("import", "--database", db, "--from", "server-memory", file);
  expect(countsOf(taken, "memory")).toMatchObject({ created: 1 });
  expect(taken.error).toBe("palimpsest: skipped 1: a line of an unknown type\n");
  const repeated = await run("import", "--database", db, "--from", "server-memory", "--table", file);
  expect(repeated.out).toBe("memory: 1 unchanged\n");
  const { out } = await run("export", "--database", db, "--format", "markdown");
  expect(out).toMatch(/^# .*\n\n## Facts\n\n- \*\*theme\*\*: likes # dark — \d{4}-/);
  expect(out).toContain("- **entity.Ada**: Ada: likes tea");
  const wrong = await run("import", "--database", db, "--from", "chatgpt", file);
  expect(wrong).toMatchObject({ code: 1, error: expect.stringContaining("cannot be read as that") as unknown });
});

test("a kept connection says where to; people are told in words", async () => {
  const folder = temporaryDirectory();
  const env = { XDG_CONFIG_HOME: folder };
  const { ns, profile } = service().profile();
  const connection = ["--address", service().address, "--database", `${ns}--${profile}`];
  expect((await palimpsest(["connect", "work", ...connection], env)).code).toBe(0);
  await palimpsest(["remember", "kept", "--type", "event"], env);
  const file = join(folder, "kept.ndjson");
  const out = await palimpsest(["export", file, "--table"], env);
  expect(out.out, out.error).toBe(`1 records of transaction 1 are in ${file}\n`);
  await palimpsest(["branch", "create", "copy"], env);
  await palimpsest(["forget", "--type", "event", "--yes", "--branch", "copy"], env);
  const taken = await palimpsest(["import", file, "--branch", "copy", "--table", "--checkpoint", "before"], env);
  expect(taken).toEqual({
    code: 0,
    out: "memory: 1 created\n",
    error: "palimpsest: palimpsest rewind before undoes it\n",
  });
  expect((await palimpsest(["list", "--branch", "copy"], env)).out).toContain('"kept"');
});

test("an import makes a profile that is not there, but for a dry run, and for nothing that is no export", async () => {
  const folder = temporaryDirectory();
  const { ns, profile } = service().profile();
  await post(service().address, `/v1/memory/${ns}/${profile}/memories`, {
    memories: [{ type: "event", summary: "one", content: null }],
  });
  const file = join(folder, "one.ndjson");
  expect((await run("export", "--database", `${ns}--${profile}`, file)).code).toBe(0);
  const fresh = `${ns}--fresh`;
  const refused = await fetch(`${service().address}/v1/db/${fresh}/import`, {
    method: "POST",
    headers: { "content-type": "application/x-ndjson" },
    body: "{}\n",
  });
  expect(refused.status).toBe(400);
  expect(await run("import", "--database", fresh, file, "--dry-run")).toMatchObject({
    code: 3,
    error: expect.stringContaining("all would be new") as unknown,
  });
  expect((await run("import", "--database", fresh, file)).code).toBe(0);
  expect((await run("list", "--database", fresh)).out).toContain("one");
});

test("what cannot be done ends with the code of its kind", async () => {
  const folder = temporaryDirectory();
  const { ns, profile } = service().profile();
  const db = `${ns}--${profile}`;
  await post(service().address, `/v1/memory/${ns}/${profile}/memories`, {
    memories: [{ type: "event", summary: "one", content: null }],
  });
  const file = join(folder, "one.ndjson");
  expect((await run("export", "--database", db, file)).code).toBe(0);
  expect(await run("import", "--database", "nobody", file)).toMatchObject({
    code: 3,
    error: expect.stringContaining("database_not_found") as unknown,
  });
  expect(await run("export", "--database", db, "--at", "nowhere")).toMatchObject({ code: 3, out: "" });
  expect(await run("import", "--database", db, join(folder, "nothing.zst"))).toMatchObject({
    code: 2,
    error: expect.stringContaining("ENOENT") as unknown,
  });
  const packed = join(folder, "no-archive.gz");
  writeFileSync(packed, "no archive");
  expect(await run("import", "--database", db, packed)).toMatchObject({
    code: 2,
    error: expect.stringContaining("cannot be read") as unknown,
  });
  expect(await run("export", "--database", db, join(folder, "no", "folder"))).toMatchObject({
    code: 1,
    error: expect.stringContaining("cannot be written: ENOENT") as unknown,
  });
});

test("an import goes on where the node was killed, and is whole", async () => {
  const folder = temporaryDirectory();
  const file = join(folder, "big.ndjson");
  const db = await filled(service().address);
  await run("export", "--database", db, file);
  const port = await freePort();
  const start = () => startNodeProcess(join(folder, "data"), {}, serviceEntry, port);
  const first = await start();
  onTestFinished(() => first.end("SIGKILL"));
  const address = `http://127.0.0.1:${first.port}`;
  await post(address, "/v1/databases", { name: "copy" });
  const importing = palimpsest(["import", "--address", address, "--database", "copy", file]);
  for (;;) {
    const { branches } = (await (await fetch(`${address}/v1/db/copy/branches`)).json()) as {
      branches: { txid: number }[];
    };
    if (branches[0]!.txid >= 5) break;
  }
  await first.end("SIGKILL");
  const second = await start();
  onTestFinished(() => second.end("SIGKILL"));
  const { created, unchanged } = countsOf(await importing, "doc") as { created: number; unchanged: number };
  expect(created + unchanged).toBe(12_000);
  const back = join(folder, "back.ndjson");
  await palimpsest(["export", "--address", `http://127.0.0.1:${second.port}`, "--database", "copy", back]);
  expect(trailerOf(back)).toEqual(trailerOf(file));
});
