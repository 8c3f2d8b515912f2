/**
 * The protocol's official referee at the product's own door, by both revisions: all that it requires of a server.
 *
 * Behind the door are fixtures (test/support/mcp-fixtures.ts), as the referee asks for tools of fixed names. Its list
 * of each revision is frozen in the package, whose version is exact in package.json.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { InMemoryServerEventBus } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { openProtocol } from "../../src/server/mcp/protocol.ts";
import { openEcho } from "../support/echo-node.ts";
import { createFixtureServer } from "../support/mcp-fixtures.ts";
import { temporaryDirectory } from "../support/temporary.ts";

/** Scenarios that must fail, of each revision, with why. The referee refuses an entry that passes. */
const expectedFailures: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "2026-07-28": {},
  // The door keeps no sessions, so a server can neither ask the client of an earlier revision in the middle of a call
  // nor tell it of changes later: any node answers any request, and a node that goes takes nobody's session with it.
  // Clients of 2026-07-28 are asked by the answer itself. None of the product's own tools asks or tells of changes.
  "2025-11-25": {
    "tools-call-sampling": "asks the client's model during a call",
    "tools-call-elicitation": "asks the client's user during a call",
    "elicitation-sep1034-defaults": "asks the client's user during a call",
    "elicitation-sep1330-enums": "asks the client's user during a call",
    "resources-subscribe": "waits for changes between calls",
    "resources-unsubscribe": "waits for changes between calls",
  },
};

const referee = join(import.meta.dirname, "../../node_modules/@modelcontextprotocol/conformance/dist/index.js");

function judge(address: string, revision: string, expected: readonly string[]): Promise<{ code: number; out: string }> {
  const folder = temporaryDirectory();
  const baseline = join(folder, "expected.yml");
  writeFileSync(baseline, JSON.stringify({ server: expected }));
  const given = ["server", "--url", `${address}/mcp/acme/alice`, "--requirements", revision, "-o", folder];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [referee, ...given, "--expected-failures", baseline],
      { cwd: folder, maxBuffer: 64 * 1024 * 1024 },
      (_, out, error) => resolve({ code: child.exitCode ?? -1, out: out + error }),
    );
  });
}

test.each(Object.entries(expectedFailures))(
  "%s: every required scenario passes but those that are known",
  { timeout: 300_000 },
  async (revision, expected) => {
    const bus = new InMemoryServerEventBus();
    const node = await openEcho({
      doors: {
        openProtocol: async () => (options) =>
          openProtocol(() => createFixtureServer(bus), { ...options, listenersMax: 16, bus }),
      },
    });
    const { code, out } = await judge(node.address, revision, Object.keys(expected));
    expect(code, out).toBe(0);
    expect(out).toMatch(/passed/);
    expect(node.calls).toEqual([]);
  },
);
