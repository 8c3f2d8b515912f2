/** `palimpsest scan`: what it says, what it keeps to itself, and its exit codes. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { scanCommand } from "../../../../src/server/cli/scan-command.ts";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { type Run, runCommand, spawned } from "../../../support/command-runs.ts";
import { startS3Double } from "../../../support/s3-double.ts";
import { startService } from "../../../support/service.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const absent = { kind: "absent" } as const;

function run(given: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Run<number | undefined>> {
  return runCommand(scanCommand, given, env);
}

test("tells where a token lies and by number which, never the token; 1 for a finding, 0 for none", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "log.json"), JSON.stringify({ said: "the quick brown fox" }));
  const hit = await run(["--for", "lazy dog", "--for", "quick brown", directory]);
  expect(hit).toMatchObject({ code: 1, error: "" });
  expect(hit.out.split("\n")[0]).toBe(`${join(directory, "log.json")}: token 2 as text at byte 13`);
  expect(hit.out).not.toContain("quick");
  expect(await run(["--for", "lazy dog", directory])).toEqual({
    code: 0,
    error: "",
    out: "nothing found in 1 files or objects of 30 bytes, with 0 pages inside segments\n",
  });
});

test("reads tokens from a file, one a line", async () => {
  const directory = temporaryDirectory();
  const tokens = join(directory, "tokens");
  writeFileSync(tokens, "first token\r\n\nsecond token\n");
  writeFileSync(join(directory, "data"), "has the second token in it");
  const { code, out } = await run(["--for", "third token", "--for", `@${tokens}`, join(directory, "data")]);
  expect(code).toBe(1);
  expect(out).toContain("token 3 as text at byte 8");
});

test("what cannot be read is said, and is no success", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "cut"), "PLSG");
  const { code, out, error } = await run(["--for", "anything", directory]);
  expect(code).toBe(1);
  expect(out).toContain("nothing found");
  expect(error).toContain(`could not read all of ${join(directory, "cut")}: a segment cannot be read`);
});

test("2 for a wrong command line", async () => {
  const directory = temporaryDirectory();
  for (const [given, words] of [
    [["--for", "abc", directory], "token 1 has fewer than 4 bytes"],
    [["--for", `@${directory}/none`, directory], "cannot be read (ENOENT)"],
    [["--for", "token", `${directory}/none`], "there is no"],
    [["--for", "token", `file://${directory}/none`], "there is no directory"],
    [["--for", "token", "mem://"], "mem://"],
    [["--for", "token", "gopher://x"], "gopher://x is no store: give file://path, s3://bucket or s3://bucket/prefix"],
    [["--for", "token", "S3://bucket"], "S3://bucket is no store"],
    [["--for", "token", "file://"], "file://"],
  ] as const) {
    const { code, error } = await run(given);
    expect(code, words).toBe(2);
    expect(error).toContain(words);
  }
  // A fault of the command line's form is commander's to tell; the program answers 2 then.
  expect(await run([directory])).toMatchObject({ code: 1, error: expect.stringContaining("--for") });
});

test("looks into a store: in a directory at all that lies there, in a bucket at every object", async () => {
  const directory = join(temporaryDirectory(), "objects");
  const files = await FileStore.open(directory, realWorld());
  await files.put("a/b", Buffer.from("the token"), absent);
  expect((await run(["--for", "the token", `file://${directory}`])).out).toContain(`${join(directory, "a", "b~")}/`);

  const { location } = await startS3Double();
  if (location.kind !== "s3") throw new Error("a double is a bucket");
  const bucket = await openStore(location, realWorld());
  for (let n = 0; n < 3; n++) await bucket.put(`a/${n}`, Buffer.from(n === 2 ? "the token" : "nothing"), absent);
  const variables = { AWS_ENDPOINT_URL: location.endpoint!, AWS_ALLOW_HTTP: "true", AWS_REGION: "us-east-1" };
  const { code, out } = await run(["--for", "the token", `s3://${location.bucket}/${location.prefix}`], variables);
  expect(out).toBe(
    "a/2: token 1 as text at byte 0\n1 found in 3 files or objects of 23 bytes, with 0 pages inside segments\n",
  );
  expect(code).toBe(1);
  expect(
    await run(["--for", "the token", `s3://${location.bucket}`], {
      ...variables,
      AWS_ENDPOINT_URL: "http://127.0.0.1:1",
      AWS_ALLOW_HTTP: "false",
    }),
  ).toMatchObject({ code: 2 });
});

test("finds what a node stores, compressed pages included, with the program itself", async () => {
  const directory = temporaryDirectory();
  const service = await startService({}, directory);
  const db = await service.database();
  const rows =
    "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 3000) SELECT 'number ' || n " +
    "|| ' of the harbour' FROM s";
  const stmts = [{ q: "CREATE TABLE t (v)" }, { q: `INSERT INTO t ${rows}` }];
  const answer = await service.call("POST", `/v1/db/${db}/sql`, { stmts }, { "service-durability": "durable" });
  expect(answer.status).toBe(200);
  await service.close();
  const [word, other] = ["number 2718 of the harbour", "number 3141 of the harbour"];
  const found = await spawned(["scan", "--for", word, "--for", other, join(directory, "objects")]);
  expect(found, found.error).toMatchObject({ code: 1, error: "" });
  expect(found.out).toMatch(/(?:seg|head)\/.*: token 1 as text at byte \d+ of page \d+ of transaction id \d+\n/);
  expect(found.out).not.toMatch(/token 2|harbour/);
});
