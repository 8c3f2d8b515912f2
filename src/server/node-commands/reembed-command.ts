/**
 * `palimpsest reembed`: asks a running node to make a profile's vectors anew, until it has gone through all of them.
 *
 * Always true: every step is a call of its own, so that an interrupted command can be given again. Must not know: how
 * the node is called, what a step does.
 */
import { Command, InvalidArgumentError, Option } from "commander";
import { isBranchName, parseProfileDatabaseName } from "../../format/core/names.ts";

export interface ReembedFlags {
  readonly database: { readonly namespace: string; readonly profile: string };
  readonly branch?: string;
}

/** What a step of MemoryService.Reembed answers. */
interface Step {
  readonly embedded: number;
  readonly left: number;
  readonly next_cursor: string | null;
}

/** The command without its action. */
export function reembedCommand(): Command {
  return new Command("reembed")
    .description("make the vectors of a profile anew with the node's embedder; can be interrupted and given again")
    .addOption(
      new Option("--database <name>", "the profile's database, namespace--profile")
        .argParser(parseProfile)
        .makeOptionMandatory(),
    )
    .addOption(new Option("--branch <name>", "the branch (default: main)").argParser(parseBranch));
}

function parseProfile(text: string): ReembedFlags["database"] {
  const profile = parseProfileDatabaseName(text);
  if (profile) return profile;
  throw new InvalidArgumentError("It must be namespace--profile: other databases have no memories.");
}

function parseBranch(text: string): string {
  if (isBranchName(text)) return text;
  throw new InvalidArgumentError("It is not the name of a branch.");
}

/** Goes through all steps. `post` calls the node; `stderr` is told the progress. */
export async function reembed(
  { database, branch }: ReembedFlags,
  post: (path: string, body: string) => Promise<unknown>,
  stderr: { write(text: string): unknown },
): Promise<void> {
  const { namespace, profile } = database;
  const query = branch === undefined ? "" : `?branch=${encodeURIComponent(branch)}`;
  const path = `/v1/memory/${namespace}/${profile}/reembed${query}`;
  let embedded = 0;
  let left = 0;
  for (let cursor: string | null | undefined; cursor !== null;) {
    const step = (await post(path, JSON.stringify(cursor === undefined ? {} : { cursor }))) as Step;
    embedded += step.embedded;
    left += step.left;
    cursor = step.next_cursor;
    stderr.write(
      `palimpsest: ${embedded} embedded${left > 0 ? `, ${left} left out` : ""}${cursor === null ? "; done" : ""}\n`,
    );
  }
}
