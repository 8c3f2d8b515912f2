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

/** A call of a node, in HTTP's terms. */
export interface NodeRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: string | Uint8Array | undefined;
  /** Of the body; JSON by default. */
  readonly contentType?: string | undefined;
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
  const { text, isJson } = await requestNode(env, flags, { method, path, body }, prefers);
  const answer = isJson ? parsed(text) : undefined;
  if (answer !== undefined) return answer;
  throw new CommandFailure(1, `${flags.address.origin} answered without JSON; it may be another service`);
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

/** Calls the node and gives the answer's text. */
export async function requestNode(
  env: Environment,
  flags: NodeFlags,
  { method, path, body, contentType = "application/json" }: NodeRequest,
  prefers: "key" | "token" = "key",
): Promise<{ readonly text: string; readonly isJson: boolean }> {
  const credential = readCredential(env, flags, prefers);
  const headers: Record<string, string> = {};
  if (credential !== undefined) headers["authorization"] = `Bearer ${credential}`;
  if (body !== undefined) headers["content-type"] = contentType;
  // A redirect would carry the credential to an address that was not named.
  const { status, ok, text, isJson } = await fetched(new URL(path, flags.address), {
    method,
    headers,
    redirect: "error",
    ...(body === undefined ? {} : { body: body as NonNullable<RequestInit["body"]> }),
  });
  if (ok) return { text, isJson };
  const { error, code } = ((isJson ? parsed(text) : undefined) ?? {}) as {
    readonly error?: string;
    readonly code?: string;
  };
  throw new CommandFailure(
    1,
    code === undefined
      ? `${flags.address.origin} answered with status ${status}; it may be another service`
      : `${error} (${code})`,
    status === 429 || status === 503 || status === 408,
  );
}

async function fetched(
  url: URL,
  init: RequestInit,
): Promise<{ readonly status: number; readonly ok: boolean; readonly text: string; readonly isJson: boolean }> {
  try {
    const response = await fetch(url, init);
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
    return { status: response.status, ok: response.ok, text: await response.text(), isJson };
  } catch (error) {
    const { message, cause } = error as Error & { readonly cause?: NodeJS.ErrnoException };
    throw new CommandFailure(1, `${url.origin} does not answer: ${cause?.code ?? cause?.message ?? message}`, true);
  }
}
