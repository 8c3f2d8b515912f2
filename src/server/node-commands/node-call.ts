/**
 * A call of a running node, for a command of the command line: which credential goes with it, and what its answer
 * means.
 *
 * Always true: a credential comes from a variable or a file, never from the command line, where other users of the
 * machine could read it; it goes to the address that was named and to no other, and is never written.
 */
import { CommandFailure } from "../client-session/command-failure.ts";
import { readCredential } from "../client-session/credential.ts";
import type { Environment } from "../config/config.ts";

/** What every command is told. */
export interface NodeFlags {
  readonly address: URL;
  readonly keyFile?: string;
  readonly tokenFile?: string;
}

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
  const init: RequestInit = { method, headers, redirect: "error", ...(body !== undefined && { body }) };
  const { status, ok, answer } = await fetched(new URL(path, flags.address), init);
  if (ok && answer !== undefined) return answer;
  if (ok) throw new CommandFailure(1, `${flags.address.origin} answered without JSON; it may be another service`);
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
    const text = await response.text();
    return { status: response.status, ok: response.ok, answer: isJson ? parsed(text) : undefined };
  } catch (error) {
    const { message, cause } = error as Error & { readonly cause?: NodeJS.ErrnoException };
    throw new CommandFailure(1, `${url.origin} does not answer: ${cause?.code ?? cause?.message ?? message}`);
  }
}

/** The value of the JSON text; undefined where it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // What comes from another service may be anything.
    return undefined;
  }
}
