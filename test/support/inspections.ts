/** Runs of `palimpsest inspect` in the process of the test, and objects for it to tell of. */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { inspectCommand } from "../../src/server/cli/inspect-command.ts";
import { type Run, runCommand } from "./command-runs.ts";
import { goldenFormatPath } from "./make-golden.ts";

export type Document = Readonly<Record<string, any>>;

export function run(
  given: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Run<number | undefined>> {
  return runCommand(inspectCommand, given, env);
}

/** The JSON document, whose run ends with this code. */
export async function document(given: readonly string[], expected = 0): Promise<Document> {
  const { code, out, error } = await run(["--json", ...given]);
  expect({ code, error }, out).toEqual({ code: expected, error: "" });
  expect(out.endsWith("\n") && out.indexOf("\n") === out.length - 1).toBe(true);
  return JSON.parse(out) as Document;
}

export function golden(name: string, version = 1): Uint8Array {
  return new Uint8Array(readFileSync(goldenFormatPath(name, version)));
}
