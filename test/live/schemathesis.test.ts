/**
 * A fuzzer that knows nothing of the service but its OpenAPI document: every operation is called with its examples and
 * with what the schemas allow and do not allow, and answers what the document says.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { gateTool, inGate } from "../support/gate.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const config = join(import.meta.dirname, "../support/python/schemathesis.toml");
/** Calls of one operation in each phase; CONTRIBUTING.md says how to ask for more. */
const examplesMax = process.env["PALIMPSEST_SCHEMATHESIS_EXAMPLES"] ?? "3";
const isLong = process.env["PALIMPSEST_SCHEMATHESIS_EXAMPLES"] !== undefined;
/** Half a minute on a machine of its own. */
const runMsMax = isLong ? 7_200_000 : 200_000;

describe.skipIf(!inGate)("schemathesis", () => {
  test(
    "no operation answers 5xx, or what the OpenAPI document does not declare",
    { timeout: runMsMax + 40_000 },
    async () => {
      const directory = temporaryDirectory();
      const node = await startNodeProcess(directory);
      onTestFinished(() => node.end("SIGTERM"));
      const memories = [{ type: "fact", summary: "Alice prefers window seats", content: { seat: "window" } }];
      expect((await node.call("POST", "/v1/memory/acme/alice/memories", { memories })).status).toBe(201);
      const given = [
        ...["-m", "schemathesis.cli", "--config-file", config, "run", `http://127.0.0.1:${node.port}/openapi.json`],
        ...["--phases", isLong ? "examples,coverage,fuzzing" : "examples,fuzzing", "--max-examples", examplesMax],
        ...["--continue-on-failure", "--no-color", "--warnings", "off", ...(isLong ? [] : ["--no-shrink"])],
      ];
      // What it finds it keeps where it runs.
      const options = { cwd: directory, maxBuffer: 64 * 1024 * 1024, timeout: runMsMax };
      const said = await run(gateTool("PALIMPSEST_SCHEMATHESIS"), given, options).catch(
        (error: Error & { readonly stdout: string }) => `failed: ${error.stdout.slice(-8_000)}`,
      );
      expect(said, typeof said === "string" ? said : said.stdout).not.toBeTypeOf("string");
    },
  );
});
