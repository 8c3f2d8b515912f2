/** The profile that a command of the command line is about, and where its memory is on a node. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { parseProfileDatabaseName } from "../../format/core/names.ts";
import { parseBranch } from "../client-session/session.ts";

export interface ProfileFlags {
  readonly database: { readonly namespace: string; readonly profile: string };
  readonly branch?: string;
}

/** Gives a command the options that name a profile's memory. */
export function ofProfile(command: Command): Command {
  return command
    .addOption(
      new Option("--database <name>", "the profile's database, namespace--profile")
        .argParser(parseProfile)
        .makeOptionMandatory(),
    )
    .addOption(new Option("--branch <name>", "the branch (default: main)").argParser(parseBranch));
}

/** The path of a method of the profile's memory. */
export function memoryPath({ database, branch }: ProfileFlags, method: string): string {
  const query = branch === undefined ? "" : `?branch=${encodeURIComponent(branch)}`;
  return `/v1/memory/${database.namespace}/${database.profile}/${method}${query}`;
}

function parseProfile(text: string): ProfileFlags["database"] {
  const profile = parseProfileDatabaseName(text);
  if (profile) return profile;
  throw new InvalidArgumentError("It must be namespace--profile: other databases have no memories.");
}
