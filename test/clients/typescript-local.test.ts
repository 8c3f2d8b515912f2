/** A node for the tests of a user: it starts, serves, and leaves nothing behind, whatever becomes of who started it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { startLocal } from "../../clients/typescript/src/local.ts";
import { serviceEntry } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const command = [process.execPath, serviceEntry];
const answers = (url: string): Promise<boolean> =>
  fetch(`${url}/health`).then(
    ({ ok }) => ok,
    () => false,
  );

describe("a local node", () => {
  let folder: string;
  let before: string | undefined;
  beforeEach(() => {
    before = process.env["TMPDIR"];
    process.env["TMPDIR"] = folder = temporaryDirectory();
  });
  afterEach(() => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  });

  async function expectNothingLeft(url: string): Promise<void> {
    while (await answers(url)) await pause(20);
    while (readdirSync(folder).length > 0) await pause(20);
  }

  test("serves, apart from any other, and is gone with its folder when it is stopped", async () => {
    const [one, two] = await Promise.all([startLocal({ command }), startLocal({ command })]);
    expect(readdirSync(folder).length).toBe(2);
    await one.client.profile("test", "one").remember({ type: "event", summary: "It works" });
    expect((await one.client.profile("test", "one").recall("works")).memories.length).toBe(1);
    expect(await two.client.databases()).toEqual([]);
    await one.stop();
    await one.stop();
    expect(await answers(one.url)).toBe(false);
    expect(await answers(two.url)).toBe(true);
    await two[Symbol.asyncDispose]();
    expect(await answers(two.url)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that does not start says why, and leaves nothing", async () => {
    await expect(startLocal({ command, env: { SERVICE_LISTEN: "nowhere" } })).rejects.toThrow(/SERVICE_LISTEN/);
    await expect(startLocal({ command: ["/no/such/command"] })).rejects.toThrow(/cannot be started/);
    expect(readdirSync(folder)).toEqual([]);
  });

  /** A program that starts a node, says where it is, and then does what `then` says. */
  async function program(then: string) {
    const local = pathToFileURL(new URL("../../clients/typescript/src/local.ts", import.meta.url).pathname).href;
    const source = `
      import { startLocal } from ${JSON.stringify(local)};
      const { url } = await startLocal({ command: ${JSON.stringify(command)} });
      console.log(url);
      ${then}`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", source], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    const [said] = (await once(child.stdout, "data")) as [Buffer];
    return { child, url: said.toString().trim(), ended };
  }

  test("is gone when the program that started it is killed", async () => {
    const { child, url, ended } = await program("setInterval(() => undefined, 1000);");
    expect(await answers(url)).toBe(true);
    expect(readdirSync(folder).length).toBe(1);
    child.kill("SIGKILL");
    await ended;
    await expectNothingLeft(url);
  });

  test("is gone when the program ends without a word, and keeps none from ending", async () => {
    const { url, ended } = await program("");
    expect(await ended).toEqual([0, null]);
    await expectNothingLeft(url);
  });
});
