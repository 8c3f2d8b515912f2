/**
 * `palimpsest import`: an export, or memories of another program, into a branch of a running node.
 *
 * Always true: all of a file is looked at before its first line is sent, so that one which was cut or changed imports
 * nothing; an interrupted import can be given again and changes nothing twice. Must not know: what a record means.
 */
import { Command, Option } from "commander";
import { type ImportResponse, Palimpsest } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { firstState, recordWindows } from "../../service/transfer/import-lines.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import type { Bind, Session } from "../client-session/session.ts";
import { type ImporterName, importerNames } from "../importers/importer-names.ts";
import { fileParts, type Part, partBytes } from "./import-parts.ts";

interface ImportFlags {
  readonly from?: ImporterName;
  readonly mode: "skip" | "replace" | "fail";
  readonly dryRun?: true;
  readonly checkpoint?: string;
}

export function importCommand(bind: Bind): Command {
  const command = new Command("import")
    .description("take an export, or memories of another program, into a branch")
    .argument("<file>", "the file; .gz and .zst are decompressed")
    .addOption(new Option("--from <program>", "what the file is of").choices(importerNames))
    .addOption(
      new Option("--mode <mode>", "of records of whose names something else is there")
        .choices(["skip", "replace", "fail"])
        .default("skip"),
    )
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--checkpoint <name>", "the name of the checkpoint to go back to (default: import-…)");
  return bind<ImportFlags>(
    command,
    "palimpsest import alice.ndjson.zst --dry-run\npalimpsest import memories.json --from mem0",
    async (session, flags, [file]) => {
      const parts = flags.from === undefined ? () => fileParts(file!) : await foreignParts(session, file!, flags.from);
      const lines = await countSound(file!, parts());
      tell(session, flags, await send(session, flags, parts(), lines));
    },
    { isPatient: true },
  );
}

/** What another program has kept. Its readers are loaded only where one is asked for. */
async function foreignParts({ output }: Session, file: string, from: ImporterName): Promise<() => AsyncIterable<Part>> {
  const { readForeign } = await import("./foreign-parts.ts");
  const { parts, skipped } = readForeign(file, from);
  for (const [reason, count] of skipped) output.remark(`skipped ${count}: ${reason}`);
  return parts;
}

/** The number of lines of a file that is sound to its end. */
async function countSound(file: string, parts: AsyncIterable<Part>): Promise<number> {
  const state = firstState();
  let lines = 0;
  for await (const { bytes, lines: more } of parts) {
    lines += more;
    try {
      for (const _ of recordWindows(bytes, state, partBytes)) continue;
    } catch (error) {
      throw new CommandFailure(1, `${(error as Error).message}; nothing was imported`);
    }
  }
  if (!state.isWhole) throw new CommandFailure(1, `${file} ends without its trailer: it was cut; nothing was imported`);
  return lines;
}

async function send(
  { database, progress }: Session,
  { mode, dryRun, checkpoint }: ImportFlags,
  parts: AsyncIterable<Part>,
  lines: number,
): Promise<ImportResponse> {
  async function* told(): AsyncGenerator<Uint8Array, void, undefined> {
    let sent = 0;
    // The next part is asked for when the node has taken the one before.
    for await (const part of parts) {
      progress.tell(`${sent} of ${lines} lines`);
      yield part.bytes;
      sent += part.lines;
    }
  }
  try {
    return await database.import(told(), { mode, dryRun, checkpoint });
  } catch (error) {
    if (!(error instanceof Palimpsest.DatabaseNotFound) || !dryRun) throw error;
    throw new CommandFailure(3, `${error.message} (${error.code}): all would be new; an import makes a profile`);
  } finally {
    progress.clear();
  }
}

function tell({ output }: Session, { dryRun }: ImportFlags, answer: ImportResponse): void {
  const { complete, counts, left, errors, checkpoint } = answer;
  if (!output.isForPeople) output.json(toWire(answer, "ImportResponse"));
  else {
    for (const { line, kind, outcome } of left) output.remark(`line ${line} (${kind}): ${outcome}`);
    for (const { message } of errors) output.remark(message);
    for (const { kind, ...outcomes } of counts) {
      const some = Object.entries(outcomes).filter(([, count]) => count !== 0);
      output.lines([`${kind}: ${some.map(([name, count]) => `${count} ${name}`).join(", ")}`]);
    }
    if (checkpoint !== undefined) output.remark(`palimpsest rewind ${checkpoint} undoes it`);
  }
  if (errors.length > 0 && dryRun) throw new CommandFailure(1, "these lines would be refused");
  if (!complete) throw new CommandFailure(1, "the node did not see the whole import");
}
