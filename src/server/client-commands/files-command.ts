/** `palimpsest files`: the tree of texts of a branch. */
import { Command, Option } from "commander";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { visibleLines, visibleText } from "../terminal/visible-text.ts";
import { readInput } from "../client-session/input.ts";
import { shownBytes, shownTime } from "./memory-lines.ts";
import { parseCount, type Bind, type Session } from "../client-session/session.ts";

interface At {
  readonly at?: string;
}

const asItWas = "as it was: a checkpoint, a transaction id or a time";

export function filesCommand(bind: Bind): Command {
  const list = new Command("list")
    .description("what is in a folder")
    .argument("[folder]")
    .option("--recursive", "all files below it")
    .option("--at <state>", asItWas);
  const get = new Command("get").description("print a file").argument("<path>").option("--at <state>", asItWas);
  const put = new Command("put")
    .description("store a text at a path")
    .argument("<path>")
    .argument("[file]", "a file of this machine (default: standard input)");
  const move = new Command("move")
    .description("move a file or a folder")
    .argument("<path>")
    .argument("<to>")
    .option("--overwrite", "replace what is in the way");
  const remove = new Command("delete")
    .description("delete a file, or with --recursive a folder")
    .argument("<path>")
    .option("--recursive", "all that is below it")
    .option("--yes", "do not ask");
  const versions = new Command("versions")
    .description("the kept versions of a path, the newest first")
    .argument("<path>");
  const search = new Command("search")
    .description("find files by their words")
    .argument("<words...>")
    .addOption(new Option("-k, --k <count>", "so many at most").argParser(parseCount));
  return new Command("files")
    .description("the tree of texts")
    .addCommand(
      bind<At & { readonly recursive?: boolean }>(list, "palimpsest files list notes --recursive", listFiles),
      { isDefault: true },
    )
    .addCommand(bind<At>(get, "palimpsest files get notes/today.md", getFile))
    .addCommand(bind(put, "palimpsest files put notes/today.md today.md", putFile))
    .addCommand(
      bind<{ readonly overwrite?: boolean }>(move, "palimpsest files move notes/today.md notes/monday.md", moveFiles),
    )
    .addCommand(
      bind<{ readonly recursive?: boolean }>(remove, "palimpsest files delete notes --recursive --yes", deleteFiles),
    )
    .addCommand(bind(versions, "palimpsest files versions notes/today.md", listVersions))
    .addCommand(bind<{ readonly k?: number }>(search, "palimpsest files search light theme", searchFiles));
}

async function listFiles(
  { database, output }: Session,
  { recursive, at }: At & { readonly recursive?: boolean },
  [folder]: readonly string[],
): Promise<void> {
  const rows: string[][] = [];
  let count = 0;
  for await (const entry of database.files.list({ folder, recursive }, { at })) {
    count++;
    if (!output.isForPeople) output.json(toWire(entry, "FileEntry"));
    else
      rows.push([
        entry.kind === "folder" ? `${entry.path}/` : entry.path,
        shownBytes(entry.size),
        entry.version === undefined ? "" : String(entry.version),
        shownTime(entry.updatedAt),
      ]);
  }
  if (count === 0) output.remark("there is nothing");
  else if (output.isForPeople)
    output.table(
      [
        { title: "PATH", paint: output.style.named, loose: true },
        { title: "SIZE", right: true },
        { title: "VERSION", right: true },
        { title: "WRITTEN" },
      ],
      rows,
    );
}

/** The bytes as they are for a program, and visible on a terminal. */
async function getFile({ around, database, output }: Session, { at }: At, [path]: readonly string[]): Promise<void> {
  const file = await database.files.get(path!, {}, { at });
  if (file === undefined) throw new CommandFailure(3, `there is no file ${path}`);
  if (output.asksForJson) return output.json(toWire(file, "GetFileResponse"));
  if (around.stdout.isTTY !== true) around.stdout.write(file.text);
  else output.lines(visibleLines(file.text.replace(/\n$/, "")).split("\n"));
}

async function putFile(
  { around, database, output }: Session,
  _: object,
  [path, file = "-"]: readonly string[],
): Promise<void> {
  const written = await database.files.put(path!, await readInput(around, file));
  if (!output.isForPeople) return output.json(toWire(written, "FileWritten"));
  output.lines([`${visibleText(path!)} is at version ${written.version}`]);
}

async function moveFiles(
  { database, output }: Session,
  { overwrite }: { readonly overwrite?: boolean },
  [path, to]: readonly string[],
): Promise<void> {
  const done = await database.files.move(path!, { to: to!, overwrite });
  if (output.isForPeople) output.lines([`${done.moved} moved`]);
  else output.json(toWire(done, "MoveFilesResponse"));
}

async function deleteFiles(
  session: Session,
  { recursive }: { readonly recursive?: boolean },
  [path]: readonly string[],
): Promise<void> {
  const { database, output } = session;
  await session.agree(`Delete ${visibleText(path!)}${recursive ? " and all below it" : ""}?`);
  const done = await database.files.delete(path!, { recursive });
  if (output.isForPeople) output.lines([`${done.deleted} deleted`]);
  else output.json(toWire(done, "DeleteFilesResponse"));
}

async function listVersions({ database, output }: Session, _: object, [path]: readonly string[]): Promise<void> {
  const versions = await database.files.versions(path!);
  if (!output.isForPeople) return versions.forEach((version) => output.json(toWire(version, "FileVersion")));
  if (versions.length === 0) return output.remark("there was never a file at that path");
  output.table(
    [
      { title: "VERSION", right: true },
      { title: "CHANGE" },
      { title: "OTHER PATH", loose: true },
      { title: "SIZE", right: true },
      { title: "WRITTEN" },
    ],
    versions.map(({ version, change, otherPath, size, writtenAt }) => [
      String(version),
      change,
      otherPath ?? "",
      shownBytes(size),
      shownTime(writtenAt),
    ]),
  );
}

async function searchFiles(
  { database, output }: Session,
  { k }: { readonly k?: number },
  words: readonly string[],
): Promise<void> {
  const hits = await database.files.search({ query: words.join(" "), k });
  if (!output.isForPeople) return hits.forEach((hit) => output.json(toWire(hit, "FileHit")));
  if (hits.length === 0) return output.remark("no file holds that");
  for (const { path, passage } of hits) {
    const place = passage === undefined ? "" : `:${passage.firstLine}`;
    output.lines([output.style.named(visibleText(path)) + output.style.faint(place)]);
    if (passage !== undefined)
      output.lines(
        visibleLines(passage.text)
          .split("\n")
          .map((line) => `    ${line}`),
      );
  }
}
