/** A client in Python, made from the protos alone, against a real node. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { gateTool, inGate } from "../support/gate.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const resolvePath = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

describe.skipIf(!inGate)("a Python client over gRPC", () => {
  test(
    "memory-01, memory-02, memory-04: ingests, recalls, reads refusals, asks for health, reflects",
    { timeout: 120_000 },
    async () => {
      const node = await startNodeProcess(temporaryDirectory());
      onTestFinished(() => node.end("SIGTERM"));
      const script = [
        resolvePath("test/support/python/client.py"),
        String(node.port),
        resolvePath("proto"),
        resolvePath("node_modules/google-proto-files"),
      ];
      const { stdout } = await run(gateTool("PALIMPSEST_PYTHON"), script, { timeout: 100_000 });
      const lines = stdout.trim().split("\n");
      expect(lines).toHaveLength(14);
      for (const line of lines) expect(line).toMatch(/^ok /);
    },
  );
});
