/**
 * The connections that a person has given names: the file of the user's own that holds them.
 *
 * Always true: the file is readable by its user alone, and one that others can read is not used; it is replaced whole;
 * a token in it goes to the address beside it and to no other. Must not know: commands, nodes.
 */
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { placeFile, realDisk } from "../../base/disk.ts";
import type { Environment } from "../config/config.ts";
import { userFolder } from "../config/user-folder.ts";
import { CommandFailure } from "./command-failure.ts";

/** Where a person's commands go. */
export interface Connection {
  /** `http://host:port`. */
  readonly address: string;
  /** The database that commands are about unless they name one. */
  readonly database?: string | undefined;
  readonly token?: string | undefined;
}

/** All of them, and the one that is taken where none is named. */
export interface Connections {
  readonly current?: string | undefined;
  readonly connections: Readonly<Record<string, Connection>>;
}

const others = 0o077;
const fileBytesMax = 1024 * 1024;

/** Names of connections: what a shell takes without quotes. */
export function isConnectionName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

/** Where the connections are kept. */
function connectionsPath(env: Environment): string | undefined {
  const folder = userFolder(env, "XDG_CONFIG_HOME", ".config");
  return folder === undefined ? undefined : join(folder, "connections.json");
}

/** The connections; none where there is no file. */
export function readConnections(env: Environment): Connections {
  const path = connectionsPath(env);
  if (path === undefined) return { connections: {} };
  let text: string;
  try {
    const { mode, size } = statSync(path);
    if ((mode & others) !== 0)
      throw new CommandFailure(2, `${path} can be read by others and may hold tokens: chmod 600 ${path}`);
    if (size > fileBytesMax) throw new CommandFailure(2, `${path} is too large to be a file of connections`);
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { connections: {} };
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure(2, `${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? "fault"}`);
  }
  const read = parse(text);
  if (read === undefined) throw new CommandFailure(2, `${path} is not a file of connections; remove or mend it`);
  return read;
}

/** Replaces the file. */
export async function writeConnections(env: Environment, connections: Connections): Promise<string> {
  const path = connectionsPath(env);
  if (path === undefined) throw new CommandFailure(2, "there is no folder to keep connections in: HOME is not set");
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  await placeFile(realDisk, path, Buffer.from(`${JSON.stringify(connections, undefined, 2)}\n`));
  return path;
}

function parse(text: string): Connections | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Said by the caller, which knows the file.
    return undefined;
  }
  const { current, connections } = (value ?? {}) as { readonly current?: unknown; readonly connections?: unknown };
  if (typeof connections !== "object" || connections === null) return undefined;
  if (current !== undefined && typeof current !== "string") return undefined;
  for (const [name, one] of Object.entries(connections as Record<string, Partial<Connection> | null>)) {
    const isText = (field: unknown): boolean => field === undefined || typeof field === "string";
    if (!isConnectionName(name) || typeof one?.address !== "string") return undefined;
    if (!isText(one.database) || !isText(one.token)) return undefined;
  }
  return { current, connections: connections as Connections["connections"] };
}
