/**
 * `palimpsest` with nothing else: a node on this machine, for somebody who has just met it, and what comes next.
 *
 * Always true: it listens on the loopback alone unless a variable says otherwise; its data outlives it. Must not know:
 * how a node is run (server/cli/serve-command).
 */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Environment } from "../config/config.ts";
import { userFolder } from "../config/user-folder.ts";
import { packageVersion } from "../config/package-version.ts";
import { serve, type Told } from "./serve-command.ts";
import { usageExit, type Surroundings } from "./surroundings.ts";

/** Where the commands of a person go unless they say otherwise (server/client-session/session). */
const profile = "local/me";

/** Runs the node until a signal has stopped it, and gives the exit code. */
export async function startHere(around: Surroundings): Promise<number> {
  const dataDirectory = chooseDirectory(around.env);
  if (dataDirectory === undefined) {
    around.stderr.write("palimpsest: there is no folder for data: set SERVICE_DATA_DIR, or HOME\n");
    return usageExit;
  }
  mkdirSync(dataDirectory, { recursive: true, mode: 0o700 });
  // What a log would say at a start is said below, in words.
  const variables = { SERVICE_LOG_LEVEL: "error", ...given(around.env), SERVICE_DATA_DIR: dataDirectory };
  return serve(around, { ...around.env, ...variables }, (told) => greeting(told, commandOf(around.env)));
}

/** A folder `data` here is what `palimpsest serve` would take; else one of the user's own. */
function chooseDirectory(env: Environment): string | undefined {
  if (env["SERVICE_DATA_DIR"]) return env["SERVICE_DATA_DIR"];
  const here = resolve("data");
  return existsSync(join(here, "format.json")) ? here : userFolder(env, "XDG_DATA_HOME", ".local", "share");
}

function given(env: Environment): Environment {
  return env["SERVICE_LOG_LEVEL"] ? { SERVICE_LOG_LEVEL: env["SERVICE_LOG_LEVEL"] } : {};
}

/** How the person has called it. */
function commandOf(env: Environment): string {
  return env["npm_command"] === "exec" ? "npx -y palimpsest" : "palimpsest";
}

function greeting({ address, dataDirectory, auth }: Told, command: string): string {
  const at = `${address}/v1/memory/${profile}`;
  const header = "-H 'content-type: application/json'";
  const on = address === "http://127.0.0.1:8080" ? "" : ` --address ${address}`;
  const who = auth === "off" ? "whoever can reach that address may use it" : "it asks for credentials";
  return `palimpsest ${packageVersion()} is at ${address}; ${who}.
Memories are kept in ${dataDirectory}, also when it is stopped and started again.

In another terminal, keep a memory and find it again:

  ${command} remember "I prefer the light theme" --topic theme${on}
  ${command} recall which theme do I like${on}

Give it to an agent that speaks MCP, such as Claude Code:

  claude mcp add --transport http memory ${address}/mcp/${profile}

The same over HTTP, as any program can:

  curl -s ${at}/memories ${header} \\
    -d '{"memories": [{"type": "fact", "topic_key": "theme", "summary": "I prefer the light theme", "content": null}]}'
  curl -s ${at}/recall ${header} -d '{"query": "which theme do I like?"}'

Stop it with Ctrl-C; ${command} starts it again, with all that it remembers. ${command} --help says what else there is.
`;
}
