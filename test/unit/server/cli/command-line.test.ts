/** The command as a process: what it says, its exit codes, its signals. */
import { spawn, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { settings } from "../../../../src/server/config/settings.ts";
import { serviceEntry } from "../../../support/node-process.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

interface Command {
  readonly child: ChildProcess;
  /** Everything written so far, to both streams. */
  written(): string;
  /** Resolves when the text has been written; rejects when the process ends without it. */
  says(text: string): Promise<void>;
  readonly exit: Promise<number | null>;
}

function palimpsest(given: readonly string[], variables: Readonly<Record<string, string>> = {}): Command {
  const child = spawn(process.execPath, [serviceEntry, ...given], {
    env: { PATH: process.env["PATH"], ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  let written = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      written += chunk;
      child.emit("written");
    });
  }
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    child,
    written: () => written,
    exit,
    says: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (written.includes(text)) resolve();
        };
        child.on("written", look);
        child.once("close", () => reject(new Error(`never said ${text}:\n${written}`)));
        look();
      }),
  };
}

function serve(...given: string[]): Command {
  return palimpsest(["serve", "--listen", "127.0.0.1:0", "--data-dir", temporaryDirectory(), ...given]);
}

test("--version is the package's", async () => {
  const command = palimpsest(["--version"]);
  expect(await command.exit).toBe(0);
  const manifest = JSON.parse(readFileSync(join(serviceEntry, "../../../package.json"), "utf8")) as { version: string };
  expect(command.written()).toBe(`${manifest.version}\n`);
});

test("serve --help names every variable", async () => {
  const command = palimpsest(["serve", "--help"]);
  expect(await command.exit).toBe(0);
  const words = new Set(command.written().split(/[\s(),]+/));
  expect(
    Object.values(settings)
      .map(({ variable }) => variable)
      .filter((variable) => !words.has(variable)),
  ).toEqual([]);
});

test.each([
  ["an unknown flag", ["serve", "--nonsense"], "--nonsense"],
  ["an unknown command", ["nonsense"], "nonsense"],
  ["a bad value, by its flag", ["serve", "--listen", "nowhere"], "SERVICE_LISTEN must be"],
  ["auth-21: a node that must not start", ["serve", "--auth", "on"], "SERVICE_PLATFORM_KEY"],
  [
    "auth-21: an unknown object-store scheme",
    ["serve", "--object-store", "gs://bucket"],
    "SERVICE_OBJECT_STORE must be",
  ],
])("%s: exit code 2 and a reason", async (_, given, reason) => {
  const command = palimpsest(given);
  expect(await command.exit).toBe(2);
  expect(command.written()).toContain(reason);
});

test("flags win over variables", async () => {
  const command = palimpsest(["serve", "--auth", "sometimes"], { SERVICE_AUTH: "on" });
  expect(await command.exit).toBe(2);
  expect(command.written()).toContain('not "sometimes"');
});

test("an address in use: exit code 1", async () => {
  const first = serve();
  await first.says("listening on ");
  const address = /listening on http:\/\/(\S+)/.exec(first.written())![1]!;
  const second = serve("--listen", address);
  expect(await second.exit).toBe(1);
  expect(second.written()).toContain("EADDRINUSE");
});

test("says where it listens and that authentication is off, pools 16, and stops in order on SIGTERM", async () => {
  const command = serve();
  await command.says("listening on http://127.0.0.1:");
  await command.says("SERVICE_AUTH is off");
  const address = /listening on (\S+)/.exec(command.written())![1]!;
  expect(await (await fetch(`${address}/health`)).text()).toBe("ok");
  if (process.platform === "linux") {
    // The pool starts with its first use: an fsync of a write.
    await fetch(`${address}/v1/memory/a/b/memories`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"memories":[{"type":"fact","summary":"s","content":1}]}',
    });
    const threads = readdirSync(`/proc/${command.child.pid}/task`).map((task) =>
      readFileSync(`/proc/${command.child.pid}/task/${task}/comm`, "utf8"),
    );
    expect(threads.filter((name) => name.startsWith("libuv-worker"))).toHaveLength(16);
  }
  command.child.kill("SIGTERM");
  expect(await command.exit).toBe(0);
  expect(command.written()).toContain("stopped");
});

test("a second signal exits at once, whatever is under way", async () => {
  const command = serve();
  await command.says("listening on ");
  const port = Number(/listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(command.written())![1]);
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {
    // The node is gone: what this test is about.
  });
  onTestFinished(() => {
    socket.destroy();
  });
  socket.write(
    "POST /v1/memory/a/b/memories HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: " +
      "1000\r\n\r\n{",
  );
  // A whole call after it has gone through, so the half one has been seen.
  await fetch(`http://127.0.0.1:${port}/health`);
  command.child.kill("SIGTERM");
  await command.says("a second signal exits at once");
  command.child.kill("SIGTERM");
  expect(await command.exit).toBe(143);
  expect(command.written()).not.toContain("stopped");
});
