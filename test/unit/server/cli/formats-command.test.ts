/** `palimpsest formats`: the table, and how a store gets the newest layout. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { encodeUtf8 } from "../../../../src/base/bytes.ts";
import { realWorld } from "../../../../src/base/world.ts";
import { formatsMarkdown, newestLayout } from "../../../../src/format/core/versions.ts";
import { formatsCommand } from "../../../../src/server/cli/formats-command.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { type Run, runCommand } from "../../../support/command-runs.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const run = (...given: readonly string[]): Promise<Run<number | undefined>> => runCommand(formatsCommand, given);

test("prints the table and opens nothing", async () => {
  expect(await run()).toMatchObject({ code: 0, out: formatsMarkdown(), error: "" });
});

test("raises the layout of a store that a node has written to, and says what it had", async () => {
  const directory = temporaryDirectory();
  const place = ["--raise", "--object-store", `file://${directory}`];
  const empty = await run(...place);
  expect([empty.code, empty.error]).toEqual([1, expect.stringContaining("the store is empty")]);
  const store = await openStore({ kind: "file", directory }, realWorld());
  await store.put("names/a.json", encodeUtf8("{}"), { kind: "absent" });
  const raised = await run(...place);
  expect([raised.code, raised.out]).toEqual([
    0,
    expect.stringContaining(`layout ${newestLayout} now; before it had 1`),
  ]);
  const again = await run(...place);
  expect([again.code, again.out]).toEqual([0, expect.stringContaining("already")]);
});

test("refuses a command line without a store, or with one that is not there", async () => {
  expect((await run("--raise")).code).toBe(2);
  expect((await run("--raise", "--object-store", `file://${join(temporaryDirectory(), "nowhere")}`)).code).toBe(2);
});
