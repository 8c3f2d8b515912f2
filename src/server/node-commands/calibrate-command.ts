/**
 * `palimpsest calibrate`: asks a running node to set the floor of its embedder by what a profile holds, and says what
 * it found.
 *
 * Always true: the answer goes to standard output as JSON, what it means to standard error. Must not know: how the node
 * is called, how the floor is found.
 */
import { Command, InvalidArgumentError, Option } from "commander";
import { memoryPath, ofProfile, type ProfileFlags } from "./profile-options.ts";

export interface CalibrateFlags extends ProfileFlags {
  readonly unrelatedShare?: number;
  readonly seed?: number;
  readonly dryRun?: true;
}

interface Pairs {
  readonly pairs: number;
  readonly median?: number;
  readonly highest?: number;
  readonly share_before?: number;
  readonly share?: number;
}

/** What MemoryService.Calibrate answers. */
interface Answer {
  readonly embedder: string;
  readonly floor_before: number;
  readonly floor: number;
  readonly seed: number;
  readonly memories: number;
  readonly unrelated: Pairs;
  readonly related: Pairs;
}

/** The command without its action. */
export function calibrateCommand(): Command {
  return ofProfile(
    new Command("calibrate").description(
      "set how near a memory must be to a question, by how near the embedder puts memories that are unrelated",
    ),
  )
    .addOption(
      new Option(
        "--unrelated-share <share>",
        "the share of unrelated pairs that may pass, such as 0.02 (default: the node's)",
      ).argParser(parseShare),
    )
    .addOption(
      new Option("--seed <number>", "what chooses the memories and pairs that are looked at").argParser(parseSeed),
    )
    .addOption(new Option("--dry-run", "measure only, and set nothing"));
}

function parseShare(text: string): number {
  const share = /^(0|[1-9]\d{0,3})?(\.\d{1,9})?$/.test(text) && text !== "" ? Number(text) : Number.NaN;
  if (share > 0 && share <= 0.5) return share;
  throw new InvalidArgumentError("It must be a number above 0 and at most 0.5.");
}

function parseSeed(text: string): number {
  if (/^\d{1,10}$/.test(text) && Number(text) < 2 ** 32) return Number(text);
  throw new InvalidArgumentError("It must be a whole number below 2^32.");
}

/** Calls the node once. */
export async function calibrate(
  flags: CalibrateFlags,
  post: (path: string, body: string) => Promise<unknown>,
  { stdout, stderr }: Readonly<Record<"stdout" | "stderr", { write(text: string): unknown }>>,
): Promise<void> {
  const { unrelatedShare, seed, dryRun } = flags;
  const body = JSON.stringify({ unrelated_share: unrelatedShare, seed, dry_run: dryRun });
  const answer = (await post(memoryPath(flags, "calibrate"), body)) as Answer;
  stdout.write(`${JSON.stringify(answer, undefined, 2)}\n`);
  const set = dryRun ? "found, and not set" : "set";
  for (const line of [
    `${answer.memories} memories with vectors of ${answer.embedder}, seed ${answer.seed}`,
    describePairs("unrelated", answer.unrelated),
    describePairs("related", answer.related),
    `floor ${answer.floor} ${set}; it was ${answer.floor_before}`,
  ])
    stderr.write(`palimpsest: ${line}\n`);
}

function describePairs(kind: string, { pairs, median, highest, share, share_before }: Pairs): string {
  if (median === undefined || highest === undefined || share === undefined || share_before === undefined)
    return `no ${kind} pairs`;
  return (
    `${pairs} ${kind} pairs: median ${median.toFixed(3)}, highest ${highest.toFixed(3)}; ${percent(share)} reach the ` +
    `floor, ${percent(share_before)} the one before`
  );
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
