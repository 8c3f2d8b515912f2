/** `palimpsest forget-node`: what it asks for, what it says, what it does; and a node that comes back all the same. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { CopyRecords } from "../../../../src/control/databases/copy-records.ts";
import { forgetNodeCommand } from "../../../../src/server/cli/forget-node-command.ts";
import { admitNode } from "../../../../src/server/node/jobs.ts";
import { openStore } from "../../../../src/store/open-store.ts";
import { type Run, runCommand } from "../../../support/command-runs.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const world = realWorld();
const uuid = "00000000-0000-4000-8000-000000000001";

const run = (...given: readonly string[]): Promise<Run<number | undefined>> => runCommand(forgetNodeCommand, given);

test("does nothing before a person has said that the disk is destroyed", async () => {
  const directory = temporaryDirectory();
  const records = new CopyRecords(await openStore({ kind: "file", directory }, world), world);
  await records.register(uuid, { node: "a", name: "" });
  const { code, error } = await run("a", "--object-store", `file://${directory}`);
  expect(code).toBe(2);
  expect(error).toContain("--disk-destroyed");
  expect(await records.isForgotten("a")).toBe(false);
  expect((await run("../a", "--disk-destroyed", "--object-store", `file://${directory}`)).code).not.toBe(0);
  expect((await run("a", "--disk-destroyed")).code).toBe(2);
  expect((await run("a", "--disk-destroyed", "--object-store", `file://${join(directory, "nowhere")}`)).code).toBe(2);
});

test("F89: gives the node up; with its old disk it is not let in, alone or not, and another one is", async () => {
  const directory = temporaryDirectory();
  const records = new CopyRecords(await openStore({ kind: "file", directory }, world), world);
  await records.register(uuid, { node: "a", name: "" });
  const { code, out } = await run("a", "--disk-destroyed", "--object-store", `file://${directory}`);
  expect(code).toBe(0);
  expect(out).toContain("1 copy");
  const databases = join(temporaryDirectory(), "db");
  for (const isAlone of [true, false])
    await expect(admitNode(records, { node: "a", name: "" }, databases, isAlone)).rejects.toThrow(/forget-node/);
  await admitNode(records, { node: "b", name: "" }, databases, false);
});
