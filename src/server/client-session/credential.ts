/**
 * The credential of a command: where it comes from.
 *
 * Always true: it comes from a variable or a file, never from the command line, where other users of the machine could
 * read it, and is never written. Must not know: commands, nodes.
 */
import { readFileSync } from "node:fs";
import type { Environment } from "../config/config.ts";
import { CommandFailure } from "./command-failure.ts";

/** The variable of the platform key. */
export const keyVariable = "SERVICE_PLATFORM_KEY";
/** The variable of a token. */
export const tokenVariable = "PALIMPSEST_TOKEN";

/** The flags that name a file which holds one. */
interface CredentialFlags {
  readonly keyFile?: string;
  readonly tokenFile?: string;
}

/**
 * A file that was named wins over a variable; where variables give both, `prefers` says which is taken. Undefined where
 * there is none of them.
 */
export function readCredential(
  env: Environment,
  { keyFile, tokenFile }: CredentialFlags,
  prefers: "key" | "token",
): string | undefined {
  const file = keyFile ?? tokenFile;
  const [key, token] = [env[keyVariable], env[tokenVariable]];
  const credential = file === undefined ? (prefers === "key" ? key || token : token || key) : fileText(file).trim();
  return credential ? checkCredential(credential) : undefined;
}

/** Refuses what cannot be a credential, without saying what it is. */
export function checkCredential(credential: string): string {
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
