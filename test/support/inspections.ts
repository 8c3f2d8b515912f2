/** Runs of `palimpsest inspect` in the process of the test, and objects for it to tell of. */
import { readFileSync } from "node:fs";
import { CommanderError } from "commander";
import { expect } from "vitest";
import { inspectCommand } from "../../src/server/cli/inspect-command.ts";
import { goldenFormatPath } from "./make-golden.ts";

interface Run {
  readonly code: number | undefined;
  readonly out: string;
  readonly error: string;
}

export type Document = Readonly<Record<string, any>>;

export async function run(given: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Run> {
  let [out, error, code]: [string, string, number | undefined] = ["", "", undefined];
  const stderr = { write: (text: string) => (error += text) };
  const command = inspectCommand({ env, stdout: { write: (text) => (out += text) }, stderr }, (end) => (code = end));
  try {
    await command
      .exitOverride()
      .configureOutput({ writeErr: stderr.write, writeOut: (text) => (out += text) })
      .parseAsync(given, { from: "user" });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    code = thrown.exitCode;
  }
  return { code, out, error };
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
