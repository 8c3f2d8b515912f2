/**
 * `palimpsest reembed`: asks a running node to make a profile's vectors anew, until it has gone through all of them.
 *
 * Always true: every step is a call of its own, so that an interrupted command can be given again. Must not know: how
 * the node is called, what a step does.
 */
import { Command } from "commander";
import { memoryPath, ofProfile, type ProfileFlags } from "./profile-options.ts";

/** What a step of MemoryService.Reembed answers. */
interface Step {
  readonly embedded: number;
  readonly left: number;
  readonly next_cursor: string | null;
}

/** The command without its action. */
export function reembedCommand(): Command {
  return ofProfile(
    new Command("reembed").description(
      "make the vectors of a profile anew with the node's embedder; can be interrupted and given again",
    ),
  );
}

/** Goes through all steps. `post` calls the node; `stderr` is told the progress. */
export async function reembed(
  flags: ProfileFlags,
  post: (path: string, body: string) => Promise<unknown>,
  stderr: { write(text: string): unknown },
): Promise<void> {
  const path = memoryPath(flags, "reembed");
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
