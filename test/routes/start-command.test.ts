/** `palimpsest` with nothing else: what a stranger does next is what it has printed; it remembers across restarts. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { shellIn } from "../support/documented.ts";
import { serviceEntry } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

interface Started {
  readonly child: ChildProcess;
  /** What it has said once it serves, or when it has ended. */
  readonly said: string;
}

/** The command alone, in a folder and with a home of its own. */
async function start(folder: string, variables: Record<string, string> = {}): Promise<Started> {
  const child = spawn(process.execPath, [serviceEntry], {
    cwd: folder,
    env: { PATH: process.env["PATH"], HOME: folder, SERVICE_LISTEN: "127.0.0.1:0", ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  const serves = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        said += chunk;
        if (said.includes("--help says")) resolve();
      });
    child.once("close", () => resolve());
  });
  await serves;
  return { child, said };
}

/** The commands that it prints. */
function printed(said: string, word: string): string[] {
  return said
    .replaceAll("\\\n", "")
    .split("\n")
    .filter((line) => line.startsWith(`  ${word} `))
    .map((line) => line.trim());
}

async function stop({ child }: Started): Promise<void> {
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
  expect(child.exitCode).toBe(0);
}

test("from nothing to memories that outlive a restart, by the commands that it prints", async () => {
  const folder = temporaryDirectory();
  const first = await start(folder);
  const [remember, recall] = printed(first.said, "palimpsest");
  const shell = shellIn(folder);
  expect(await shell(remember!, { HOME: folder })).toMatchObject({ code: 0, out: expect.stringContaining("created") });
  expect((await shell(recall!, { HOME: folder })).out).toContain("I prefer the light theme");
  const [ingest, ask] = printed(first.said, "curl");
  expect((await shell(ingest!, {})).out).toContain('"status":"duplicate"');
  expect((await shell(ask!, {})).out).toContain("I prefer the light theme");
  const [mcp] = printed(first.said, "claude");
  const endpoint = /http:\S+$/.exec(mcp!)![0];
  const called = await fetch(endpoint, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
  });
  expect([404, 501]).not.toContain(called.status);

  const address = new URL(endpoint).origin;
  const second = await start(folder);
  expect(second.child.exitCode).toBe(1);
  expect(second.said).toContain(`a node runs already, at ${address}`);
  expect(
    second.said
      .trim()
      .split("\n")
      .filter((line) => line.startsWith("palimpsest:")),
  ).toHaveLength(1);

  await stop(first);
  expect(existsSync(join(folder, ".local/share/palimpsest/format.json"))).toBe(true);
  const again = await start(folder);
  const [, asked] = printed(again.said, "palimpsest");
  expect((await shell(asked!, { HOME: folder })).out).toContain("I prefer the light theme");
  await stop(again);
});

test("a folder in which a node has kept its data is taken, an other of that name is not", async () => {
  const folder = temporaryDirectory();
  mkdirSync(join(folder, "data"));
  writeFileSync(join(folder, "data/mine.txt"), "mine");
  const elsewhere = await start(folder, { XDG_DATA_HOME: join(folder, "share") });
  expect(elsewhere.said).toContain(join(folder, "share/palimpsest"));
  await stop(elsewhere);
  expect(readFileSync(join(folder, "data/mine.txt"), "utf8")).toBe("mine");
  writeFileSync(join(folder, "data/format.json"), readFileSync(join(folder, "share/palimpsest/format.json")));
  const here = await start(folder);
  expect(here.said).toContain(`kept in ${join(folder, "data")},`);
  await stop(here);
});

test("an address that is taken, and no home", async () => {
  const folder = temporaryDirectory();
  const first = await start(folder);
  const { host } = new URL(/is at (\S+);/.exec(first.said)![1]!);
  const second = await start(folder, { SERVICE_LISTEN: host, SERVICE_DATA_DIR: join(folder, "other") });
  expect([second.child.exitCode, second.said]).toEqual([1, expect.stringContaining("takes a free one")]);
  await stop(first);
  const third = await start(folder, { HOME: "" });
  expect([third.child.exitCode, third.said]).toEqual([2, expect.stringContaining("SERVICE_DATA_DIR")]);
});
