/**
 * `palimpsest export` and `palimpsest import`: a branch of a running node to a file and back, and memories of other
 * programs into one.
 *
 * Always true: a file is checked before its first line is sent; every part is a call of its own, tried again when the
 * node is busy or away, so that an interrupted import can be given again and changes nothing twice. Must not know: what
 * a record means.
 */
import { createReadStream, readFileSync, statSync } from "node:fs";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { Command, InvalidArgumentError, Option } from "commander";
import { pause, realWorld } from "../../base/world.ts";
import { isDatabaseName } from "../../format/core/names.ts";
import { chainHash, emptyChain } from "../../model/transfer/hash-chain.ts";
import { addCounts, headerLine, trailerLine } from "../../service/transfer/envelope.ts";
import { firstState, recordWindows } from "../../service/transfer/import-lines.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { parseBranch } from "../client-session/session.ts";
import type { Environment } from "../config/config.ts";
import { ForeignRecords } from "../importers/foreign-records.ts";
import { importers } from "../importers/importers.ts";
import { Progress } from "../terminal/progress.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { type NodeFlags, requestNode } from "./node-call.ts";
import { ExportFile } from "./export-file.ts";
import { toMarkdown } from "./export-markdown.ts";

/** Where the commands' words come from and go to. */
interface TransferSurroundings {
  readonly env: Environment;
  readonly stdout: { write(text: string | Uint8Array, told?: (error?: Error | null) => void): unknown };
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean };
}

interface PlaceFlags extends NodeFlags {
  readonly database: string;
  readonly branch?: string;
}

export interface ExportFlags extends PlaceFlags {
  readonly at?: string;
  readonly format: "ndjson" | "markdown";
}

export interface ImportFlags extends PlaceFlags {
  readonly from?: string;
  readonly mode: string;
  readonly dryRun?: true;
  readonly checkpoint?: string;
}

/** Bytes of a part that is sent, unless a line has more. */
const partBytes = 2 * 1024 * 1024;
/** How often a part is tried again, and for how long the first time. */
const triesMax = 8;
const firstPauseMs = 500;
const pauseMsMax = 15_000;
/** A file of another program is read at once. */
const foreignBytesMax = 512 * 1024 * 1024;

function inDatabase(command: Command): Command {
  return command
    .addOption(
      new Option("--database <name>", "the database; a profile's is namespace--profile")
        .argParser((text) => {
          if (isDatabaseName(text)) return text;
          throw new InvalidArgumentError("It is not the name of a database.");
        })
        .makeOptionMandatory(),
    )
    .addOption(new Option("--branch <name>", "the branch (default: main)").argParser(parseBranch));
}

/** The command without its action. */
export function exportCommand(): Command {
  return inDatabase(
    new Command("export").description("write a branch to a file, as lines of JSON or for people to read"),
  )
    .argument("[file]", "where to; .gz and .zst are compressed, - is standard output", "-")
    .option("--at <state>", "an earlier state: a checkpoint's name, a transaction id or a time")
    .addOption(new Option("--format <format>", "the form").choices(["ndjson", "markdown"]).default("ndjson"));
}

/** The command without its action. */
export function importCommand(): Command {
  return inDatabase(new Command("import").description("take an export, or memories of another program, into a branch"))
    .argument("<file>", "the file; .gz and .zst are decompressed")
    .addOption(new Option("--from <program>", "what the file is of").choices(Object.keys(importers)))
    .addOption(
      new Option("--mode <mode>", "of records of whose names something else is there")
        .choices(["skip", "replace", "fail"])
        .default("skip"),
    )
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--checkpoint <name>", "the name of the checkpoint to go back to (default: import-…)");
}

function databasePath({ database, branch }: PlaceFlags, method: string): string {
  const spec = branch === undefined ? database : `${database}@${branch}`;
  return `/v1/db/${encodeURIComponent(spec)}/${method}`;
}

/** Writes the branch to the file. */
export async function runExport(around: TransferSurroundings, file: string, flags: ExportFlags): Promise<void> {
  const target = file === "-" ? undefined : tryReading(file, () => new ExportFile(file));
  const add = async (text: string): Promise<void> => {
    if (target) await target.add(text);
    else await written(around.stdout, text);
  };
  try {
    await telling(around, (progress) => exportTo(around, flags, add, progress));
    await target?.finish();
  } catch (error) {
    target?.discard();
    throw error;
  }
}

/** Runs what tells how far it is; nothing of that is left, whatever comes of it. */
async function telling<Result>(
  { stderr }: TransferSurroundings,
  act: (progress: Progress) => Promise<Result>,
): Promise<Result> {
  const progress = new Progress(stderr, realWorld());
  try {
    return await act(progress);
  } finally {
    progress.clear();
  }
}

/** Resolves once the reader has the text: what a process has not handed on when it ends is lost. */
function written(stdout: TransferSurroundings["stdout"], text: string): Promise<void> {
  return new Promise((done, fail) => {
    stdout.write(text, (error) => {
      if (error) fail(new CommandFailure(1, "the reader of the export has closed it"));
      else done();
    });
  });
}

/** Gives the export's text to `add`, part by part, or as Markdown at once. */
async function exportTo(
  around: TransferSurroundings,
  flags: ExportFlags,
  add: (text: string) => Promise<void>,
  progress: Progress,
): Promise<void> {
  let whole = "";
  let lines = 0;
  let query = flags.at === undefined ? "" : `?at=${encodeURIComponent(flags.at)}`;
  for (;;) {
    const { text } = await patiently(() =>
      requestNode(around.env, flags, { method: "GET", path: databasePath(flags, "export") + query }, "token"),
    );
    lines += text.split("\n").length - 1;
    if (flags.format === "markdown") whole += text;
    else await add(text);
    progress.tell(`${lines} lines`);
    const last = JSON.parse(text.slice(text.lastIndexOf("\n", text.length - 2) + 1)) as {
      kind: string;
      cursor?: string;
    };
    if (last.kind === "trailer") break;
    query = `?cursor=${last.cursor}`;
  }
  if (flags.format === "markdown") await add(toMarkdown(whole));
}

interface ImportAnswer {
  readonly complete: boolean;
  readonly cursor: string | null;
  readonly next_line: number;
  readonly counts: readonly Readonly<Record<string, string | number>>[];
  readonly left: readonly { readonly line: number; readonly kind: string; readonly outcome: string }[];
  readonly errors: readonly { readonly line: number; readonly message: string }[];
  readonly checkpoint?: string;
}

/** Takes the file into the branch. */
export async function runImport(around: TransferSurroundings, file: string, flags: ImportFlags): Promise<void> {
  const parts = flags.from === undefined ? () => exportParts(file) : foreignParts(around, file, flags.from);
  let lines = 0;
  // All of it is looked at before the first line is sent: a file that was cut or changed imports nothing.
  const state = firstState();
  for await (const part of parts()) {
    lines += part.lines;
    for (const _ of tryLocally(() => [...recordWindows(part.bytes, state, partBytes)])) continue;
  }
  if (!state.isWhole) throw new CommandFailure(1, `${file} ends without its trailer: it was cut; nothing was imported`);
  const answer = await telling(around, (progress) =>
    sendParts(around, flags, parts(), (answered) => {
      progress.clear();
      tell(around, flags, answered);
      progress.tell(`${answered.next_line - 1} of ${lines} lines`);
    }),
  );
  if (!answer?.complete) throw new CommandFailure(1, "the node did not see the whole import");
  for (const { kind, ...outcomes } of answer.counts) {
    const some = Object.entries(outcomes).filter(([, count]) => count !== 0);
    around.stdout.write(`${String(kind)}: ${some.map(([name, count]) => `${count} ${name}`).join(", ")}\n`);
  }
  if (answer.checkpoint !== undefined)
    around.stdout.write(`undo it with a rewind of the branch to the checkpoint ${answer.checkpoint}\n`);
}

/** Sends the parts, each again from where the node has stopped, and gives the last answer; `told` hears them all. */
async function sendParts(
  around: TransferSurroundings,
  flags: ImportFlags,
  parts: AsyncIterable<Part>,
  told: (answer: ImportAnswer) => void,
): Promise<ImportAnswer | undefined> {
  let answer: ImportAnswer | undefined;
  let line = 1;
  for await (let { bytes, lines: left } of parts) {
    while (left > 0) {
      answer = await send(around, flags, bytes, answer?.cursor ?? undefined);
      const taken = answer.next_line - line;
      for (let passed = 0; passed < taken; passed++) bytes = bytes.subarray(bytes.indexOf(10) + 1);
      left -= taken;
      line = answer.next_line;
      told(answer);
    }
  }
  return answer;
}

function tell(around: TransferSurroundings, flags: ImportFlags, { left, errors }: ImportAnswer): void {
  for (const { line, kind, outcome } of left)
    around.stderr.write(`${visibleText(`line ${line} (${kind}): ${outcome}`)}\n`);
  for (const { message } of errors) around.stderr.write(`${visibleText(message)}\n`);
  if (errors.length > 0 && flags.dryRun) throw new CommandFailure(1, "these lines would be refused");
}

function tryLocally<Value>(act: () => Value): Value {
  try {
    return act();
  } catch (error) {
    throw new CommandFailure(1, `${(error as Error).message}; nothing was imported`);
  }
}

async function send(
  around: TransferSurroundings,
  flags: ImportFlags,
  body: Uint8Array,
  cursor: string | undefined,
): Promise<ImportAnswer> {
  const query = new URLSearchParams({ mode: flags.mode });
  if (flags.dryRun) query.set("dry_run", "true");
  if (flags.checkpoint !== undefined) query.set("checkpoint", flags.checkpoint);
  if (cursor !== undefined) query.set("cursor", cursor);
  const path = `${databasePath(flags, "import")}?${query.toString()}`;
  const call = { method: "POST", path, body, contentType: "application/x-ndjson" };
  return JSON.parse((await patiently(() => requestNode(around.env, flags, call, "token"))).text) as ImportAnswer;
}

/** Calls again when the node is busy or away. */
async function patiently<Answer>(call: () => Promise<Answer>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof CommandFailure) || !error.mayPass || tries >= triesMax) throw error;
      await pause(Math.min(firstPauseMs * 2 ** (tries - 1), pauseMsMax));
    }
  }
}

interface Part {
  readonly bytes: Uint8Array;
  readonly lines: number;
}

/** The lines of an export's file, a part at a time. */
async function* exportParts(file: string): AsyncGenerator<Part> {
  let held: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of opened(file)) {
    held.push(chunk as Buffer);
    bytes += (chunk as Buffer).length;
    if (bytes < partBytes) continue;
    const all = Buffer.concat(held);
    const end = all.lastIndexOf(10) + 1;
    if (end > 0) yield toPart(all.subarray(0, end));
    held = [all.subarray(end)];
    bytes = all.length - end;
  }
  const rest = Buffer.concat(held);
  if (rest.length > 0) yield toPart(rest);
}

function opened(file: string): AsyncIterable<unknown> {
  try {
    statSync(file);
  } catch (error) {
    throw new CommandFailure(2, `${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? "fault"}`);
  }
  const stream = createReadStream(file);
  if (file.endsWith(".gz")) return stream.pipe(createGunzip());
  return file.endsWith(".zst") ? stream.pipe(createZstdDecompress()) : stream;
}

function toPart(bytes: Uint8Array): Part {
  let lines = bytes.at(-1) === 10 ? 0 : 1;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++;
  return { bytes, lines };
}

/** What another program has kept, as the parts of an export. */
function foreignParts(around: TransferSurroundings, file: string, from: string): () => AsyncGenerator<Part> {
  const importer = importers[from]!;
  const { lines, skipped } = tryReading(file, () => {
    const { size, mtimeMs } = statSync(file);
    const records = new ForeignRecords(from, Math.floor(mtimeMs));
    if (importer.reads === "path") importer.run(file, records);
    else if (size > foreignBytesMax) throw new CommandFailure(2, `${file} has more than ${foreignBytesMax} bytes`);
    else importer.run(readFileSync(file, "utf8"), records);
    return records.finish();
  });
  for (const [reason, count] of skipped) around.stderr.write(`skipped ${count}: ${reason}\n`);
  let hash = emptyChain;
  let counts = {};
  for (const line of lines) {
    hash = chainHash(hash, line);
    counts = addCounts(counts, { [/"kind":"([a-z_]+)"/.exec(line)![1]!]: 1 });
  }
  const header = headerLine({ database: from, branch: "main", txid: 0, createdAtMs: 0 });
  const all = [header.trimEnd(), ...lines, trailerLine({ counts, hash }).trimEnd()];
  return async function* () {
    for (let at = 0; at < all.length;) {
      const part: string[] = [];
      for (let bytes = 0; at < all.length && bytes < partBytes; at++) {
        part.push(all[at]!);
        bytes += all[at]!.length;
      }
      yield { bytes: Buffer.from(`${part.join("\n")}\n`), lines: part.length };
    }
  };
}

function tryReading<Value>(file: string, act: () => Value): Value {
  try {
    return act();
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure(1, `${file} cannot be read as that: ${(error as Error).message}`);
  }
}
