/**
 * A call of a running node, for a command of the command line: which credential goes with it, and what its answer
 * means.
 *
 * Always true: a credential comes from a variable or a file, never from the command line, where other users of the
 * machine could read it; it goes to the address that was named and to no other, and is never written.
 */
import { readFileSync } from "node:fs";
import type { Environment } from "../config/config.ts";

/** What every command is told. */
export interface NodeFlags {
  readonly address: URL;
  readonly keyFile?: string;
  readonly tokenFile?: string;
}

/** Why a command failed, for the person who gave it. */
export class CommandFailure extends Error {
  readonly exitCode: 1 | 2 | 3;

  constructor(exitCode: 1 | 2 | 3, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** The variable of the platform key. */
export const keyVariable = "SERVICE_PLATFORM_KEY";
/** The variable of a token. */
export const tokenVariable = "PALIMPSEST_TOKEN";

/** Calls the node and gives the answer's JSON. `prefers` is the credential that is taken where variables give both. */
export async function callNode(
  env: Environment,
  flags: NodeFlags,
  method: string,
  path: string,
  body?: string,
  prefers: "key" | "token" = "key",
): Promise<unknown> {
  const credential = readCredential(env, flags, prefers);
  const headers: Record<string, string> = {};
  if (credential !== undefined) headers["authorization"] = `Bearer ${credential}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  // A redirect would carry the credential to an address that was not named.
  const { status, ok, answer } = await fetched(new URL(path, flags.address), {
    method,
    headers,
    redirect: "error",
    ...(body === undefined ? {} : { body }),
  });
  if (ok && answer !== undefined) return answer;
  const { error, code } = (answer ?? {}) as { readonly error?: string; readonly code?: string };
  throw new CommandFailure(
    1,
    code === undefined
      ? `${flags.address.origin} answered with status ${status}; it may be another service`
      : `${error} (${code})`,
  );
}

async function fetched(
  url: URL,
  init: RequestInit,
): Promise<{ readonly status: number; readonly ok: boolean; readonly answer: unknown }> {
  try {
    const response = await fetch(url, init);
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    return { status: response.status, ok: response.ok, answer: isJson ? await response.json() : undefined };
  } catch (error) {
    const { message, cause } = error as Error & { readonly cause?: NodeJS.ErrnoException };
    throw new CommandFailure(1, `${url.origin} does not answer: ${cause?.code ?? cause?.message ?? message}`);
  }
}

/** A file that was named wins over a variable; without any, the call carries no credential. */
function readCredential(
  env: Environment,
  { keyFile, tokenFile }: NodeFlags,
  prefers: "key" | "token",
): string | undefined {
  const file = keyFile ?? tokenFile;
  const [key, token] = [env[keyVariable], env[tokenVariable]];
  const credential = file === undefined ? (prefers === "key" ? key || token : token || key) : fileText(file).trim();
  if (!credential) return undefined;
  if (/^[\x21-\x7e]+$/.test(credential)) return credential;
  throw new CommandFailure(2, "the credential holds characters that none can have");
}

/** The text of a file that was named on the command line. */
export function fileText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new CommandFailure(2, `${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? "fault"}`);
  }
}
