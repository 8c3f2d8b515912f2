/**
 * Commands as a document prints them, by its sections, run by a shell with the variables that the document speaks of.
 */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "./temporary.ts";

const root = join(import.meta.dirname, "../..");

export interface Section {
  readonly title: string;
  readonly text: string;
  /** The fenced blocks of shell commands. */
  readonly blocks: readonly string[];
}

/** The sections of a document, its introduction left out. */
export function parseSections(path: string): Section[] {
  const [, ...parts] = readFileSync(join(root, path), "utf8").split(/^## /m);
  return parts.map((part) => ({
    title: part.slice(0, part.indexOf("\n")).trim(),
    text: part,
    blocks: [...part.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block!),
  }));
}

/** What a block of commands came to. */
export interface Ran {
  readonly code: number;
  readonly out: string;
}

/** A folder to run commands in, where `palimpsest` is this tree's. */
export function shellIn(
  folder = temporaryDirectory(),
): (commands: string, variables: Readonly<Record<string, string>>) => Promise<Ran> {
  const tools = join(temporaryDirectory(), "bin");
  mkdirSync(tools);
  writeFileSync(
    join(tools, "palimpsest"),
    `#!/bin/sh\nexec "${process.execPath}" "${join(root, "src/server/main.ts")}" "$@"\n`,
  );
  chmodSync(join(tools, "palimpsest"), 0o755);
  const path = `${tools}:${process.env["PATH"]}`;
  const env = { PATH: path, NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compiled") };
  return (commands, variables) =>
    new Promise((resolve) => {
      const child = execFile("sh", ["-c", commands], { cwd: folder, env: { ...env, ...variables } }, (_, out, error) =>
        resolve({ code: child.exitCode ?? -1, out: out + error }),
      );
    });
}
