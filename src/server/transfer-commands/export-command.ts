/**
 * `palimpsest export`: a branch of a running node to a file or to standard output, as lines of JSON or for people to
 * read.
 *
 * Always true: a file is there under its name only when the export is whole; what goes to standard output is the export
 * alone. Must not know: what a record means.
 */
import { Command, Option } from "commander";
import { CommandFailure } from "../client-session/command-failure.ts";
import type { Bind, Session } from "../client-session/session.ts";
import type { Stream } from "../terminal/style.ts";
import { visibleJson, visibleLines, visibleText } from "../terminal/visible-text.ts";
import { ExportFile } from "./export-file.ts";
import { toMarkdown } from "./export-markdown.ts";

interface ExportFlags {
  readonly at?: string;
  readonly format: "ndjson" | "markdown";
}

/** What is told of an export, by the names of its header and its trailer. */
interface Told {
  readonly txid?: number;
  readonly created_at?: number;
  readonly records?: number;
  readonly counts?: Readonly<Record<string, number>>;
  readonly hash?: string;
}

const lineFeed = 10;

export function exportCommand(bind: Bind): Command {
  const command = new Command("export")
    .description("write a branch to a file, as lines of JSON or for people to read")
    .argument("[file]", "where to; .gz and .zst are compressed, - is standard output", "-")
    .option("--at <state>", "an earlier state: a checkpoint's name, a transaction id or a time")
    .addOption(new Option("--format <format>", "the form").choices(["ndjson", "markdown"]).default("ndjson"));
  return bind<ExportFlags>(
    command,
    "palimpsest export alice.ndjson.zst",
    async (session, flags, [file]) => {
      if (file === "-")
        await exportTo(session, flags, (text) => written(session.around.stdout, shown(session, flags, text)));
      else await exportToFile(session, flags, file!);
    },
    { isPatient: true },
  );
}

async function exportToFile(session: Session, flags: ExportFlags, file: string): Promise<void> {
  const { output, progress, database } = session;
  const target = await writing(file, () => new ExportFile(file));
  let told: Told;
  try {
    told = await exportTo(session, flags, (text) => writing(file, () => target.add(text)));
    await writing(file, () => target.finish());
  } catch (error) {
    target.discard();
    throw error;
  }
  progress.clear();
  const { txid, created_at, records, counts, hash } = told;
  if (output.isForPeople) output.lines([`${records} records of transaction ${txid} are in ${visibleText(file)}`]);
  else
    output.json({
      file,
      database: database.name,
      branch: database.branchName,
      txid,
      created_at,
      records,
      counts,
      hash,
    });
}

/** Gives the export's text to `add`, part by part, or as Markdown at once. */
async function exportTo(
  { database, progress }: Session,
  { at, format }: ExportFlags,
  add: (text: string) => Promise<void>,
): Promise<Told> {
  let whole = "";
  let lines = 0;
  let told: Told = {};
  for await (const part of database.export({ at })) {
    const text = Buffer.from(part).toString("utf8");
    if (lines === 0) told = fieldsOf(text.slice(0, text.indexOf("\n")));
    for (let end = part.indexOf(lineFeed); end >= 0; end = part.indexOf(lineFeed, end + 1)) lines++;
    told = { ...told, ...fieldsOf(text.slice(text.lastIndexOf("\n", text.length - 2) + 1)) };
    if (format === "markdown") whole += text;
    else await add(text);
    progress.tell(`${lines} lines`);
  }
  if (format === "markdown") await add(toMarkdown(whole));
  return told;
}

function fieldsOf(line: string): Told {
  return JSON.parse(line) as Told;
}

/** A terminal is given no character that commands it; a file or a pipe gets the export as it is. */
function shown({ around }: Session, { format }: ExportFlags, text: string): string {
  if (around.stdout.isTTY !== true) return text;
  return format === "markdown" ? visibleLines(text) : visibleJson(text);
}

/** Runs what writes the file. A fault of the disk is no fault of the program. */
async function writing<Value>(file: string, act: () => Value | Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new CommandFailure(1, `${file} cannot be written: ${code ?? "fault"}`);
  }
}

/** Resolves once the reader has the text: what a process has not handed on when it ends is lost. */
function written(stdout: Stream, text: string): Promise<void> {
  return new Promise((done, fail) => {
    stdout.write(text, (error) => {
      if (error) fail(new CommandFailure(1, "the reader of the export has closed it"));
      else done();
    });
  });
}
