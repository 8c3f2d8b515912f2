/** Folders of the user's own, by the rule that Linux programs share. */
import { isAbsolute, join } from "node:path";
import type { Environment } from "./config.ts";

/** The program's folder in one of the kinds; undefined where there is no home. */
export function userFolder(env: Environment, variable: string, ...below: readonly string[]): string | undefined {
  const given = env[variable];
  // The rule says that a path that is not absolute is passed over.
  if (given && isAbsolute(given)) return join(given, "palimpsest");
  return env["HOME"] ? join(env["HOME"], ...below, "palimpsest") : undefined;
}
