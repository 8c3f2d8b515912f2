/**
 * A fuzzer that knows nothing of the service but its OpenAPI document: every operation is called with its examples, at
 * the bounds of what the schemas allow and beyond them, and with what else they allow and do not allow, and answers
 * what the document says; with a credential, and without one.
 */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { bearer, guardedVariables, platformKey } from "../support/credentials.ts";
import { gateTool, inGate } from "../support/gate.ts";
import { startNodeProcess } from "../support/node-process.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const run = promisify(execFile);
const config = join(import.meta.dirname, "../support/python/schemathesis.toml");
const hooks = join(import.meta.dirname, "../support/python/schemathesis_hooks.py");
/** Calls of one operation in each phase; CONTRIBUTING.md says how to ask for more. */
const examplesMax = process.env["PALIMPSEST_SCHEMATHESIS_EXAMPLES"] ?? "3";
const isLong = process.env["PALIMPSEST_SCHEMATHESIS_EXAMPLES"] !== undefined;
const runMsMax = isLong ? 7_200_000 : 400_000;

describe.skipIf(!inGate)("schemathesis", () => {
  test(
    "no operation answers 5xx, or what the OpenAPI document does not declare, or what it should not take",
    { timeout: runMsMax + 40_000 },
    async () => {
      const directory = temporaryDirectory();
      const node = await startNodeProcess(directory, {
        ...guardedVariables,
        SERVICE_CONTROL_RATE: "100000",
      });
      onTestFinished(() => node.end("SIGTERM"));
      const platform = bearer(platformKey);
      const minted = await node.call("POST", "/v1/namespaces/acme/tokens", { scope: "admin" }, platform);
      const token = minted.json.token as string;
      const memories = [{ type: "fact", summary: "Alice prefers window seats", content: { seat: "window" } }];
      const ingested = await node.call("POST", "/v1/memory/acme/alice/memories", { memories }, bearer(token));
      expect(ingested.status, ingested.text).toBe(201);
      const document = join(directory, "openapi.json");
      writeFileSync(document, (await node.call("GET", "/openapi.json", undefined, platform)).text);
      const given = [
        ...["-m", "schemathesis.cli", "--config-file", config, "run", document],
        ...["--url", `http://127.0.0.1:${node.port}`],
        ...["--phases", "examples,coverage,fuzzing", "--max-examples", examplesMax],
        ...["--continue-on-failure", "--no-color", "--warnings", "off", ...(isLong ? [] : ["--no-shrink"])],
      ];
      // What it finds it keeps where it runs.
      const options = {
        ...{ cwd: directory, maxBuffer: 64 * 1024 * 1024, timeout: runMsMax },
        env: {
          ...process.env,
          SCHEMATHESIS_HOOKS: hooks,
          PALIMPSEST_SCHEMATHESIS_TOKEN: token,
          PALIMPSEST_SCHEMATHESIS_PLATFORM_KEY: platformKey,
        },
      };
      const said = await run(gateTool("PALIMPSEST_SCHEMATHESIS"), given, options).catch(
        (error: Error & { readonly stdout: string }) => `failed: ${error.stdout.slice(-8_000)}`,
      );
      expect(said, typeof said === "string" ? said : said.stdout).not.toBeTypeOf("string");
    },
  );
});
