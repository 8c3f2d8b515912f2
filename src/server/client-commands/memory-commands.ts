/** `palimpsest remember`, `list` and `show`: memories are kept, and looked at. */
import { Command, InvalidArgumentError, Option } from "commander";
import type { IngestItem, JsonObject, MemoryConditions, NewMemory } from "../../../clients/typescript/src/index.ts";
import { fromWire, toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { readInput, readLines } from "../client-session/input.ts";
import { printMemories, printMemory } from "./memory-lines.ts";
import { parseCount, parseTime, type Bind, type Session } from "../client-session/session.ts";

/** The types of memories. */
export const memoryTypes = ["fact", "event", "instruction", "task"] as const;
export type MemoryType = (typeof memoryTypes)[number];
/** As many as one ingest takes. */
const batchMemories = 1_000;
/** Far below what one request may hold. */
const batchCharsMax = 2 * 1024 * 1024;
const listDefault = 50;

interface RememberFlags {
  readonly type: MemoryType;
  readonly topic?: string;
  readonly content?: string;
  readonly contentFile?: string;
  readonly file?: string;
  readonly keywords?: string;
  readonly session?: string;
  readonly source?: string;
  readonly subject?: string;
  readonly metadata?: JsonObject;
  readonly ttl?: number;
  readonly pinned?: boolean;
  readonly proposed?: boolean;
}

interface ListFlags {
  readonly type?: readonly MemoryType[];
  readonly topic?: string;
  readonly session?: string;
  readonly source?: string;
  readonly subject?: string;
  readonly filter?: JsonObject;
  readonly since?: number;
  readonly until?: number;
  readonly superseded?: boolean;
  readonly completed?: boolean;
  readonly proposed?: boolean;
  readonly oldest?: boolean;
  readonly limit: number;
  readonly at?: string;
}

/** The three commands. */
export function memoryCommands(bind: Bind): readonly Command[] {
  return [rememberCommand(bind), listCommand(bind), showCommand(bind)];
}

/** An option for a JSON object. */
export function parseObject(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  } catch {
    // Said below, for all that is no object.
  }
  throw new InvalidArgumentError("It must be a JSON object.");
}

function rememberCommand(bind: Bind): Command {
  const command = new Command("remember")
    .description("keep a memory, or many of a file")
    .argument("[words...]", "its one-line gist")
    .addOption(new Option("--type <type>", "what it is").choices(memoryTypes).default("fact"))
    .option("--topic <topic>", "a fact or instruction on it supersedes the one before")
    .addOption(new Option("--content <text>", "the full payload: JSON, or else a text").conflicts("contentFile"))
    .option("--content-file <file>", "the same of a file, or - for standard input")
    .option("--keywords <words>", "further words to be found by")
    .option("--session <id>", "the session it comes from")
    .option("--source <agent>", "the agent it comes from")
    .option("--subject <whom>", "whom it is about")
    .addOption(new Option("--metadata <json>", "an object for filters").argParser(parseObject))
    .addOption(new Option("--ttl <seconds>", "lifetime of a task").argParser(parseCount))
    .option("--pinned", "first in context blocks")
    .option("--proposed", "it waits for a review")
    .option("--file <file>", "many: one memory a line, JSON as on the wire; - for standard input");
  return bind<RememberFlags>(
    command,
    'palimpsest remember "Alice prefers the light theme" --topic theme',
    (session, flags, words) =>
      flags.file === undefined ? rememberOne(session, flags, words) : rememberFile(session, flags.file, words),
  );
}

async function rememberOne(session: Session, flags: RememberFlags, words: readonly string[]): Promise<void> {
  if (words.length === 0) throw new CommandFailure(2, "say what to remember, or name a --file");
  const { type, topic, contentFile, keywords, session: sessionId, source, subject, metadata, ttl } = flags;
  const content = contentFile === undefined ? flags.content : await readInput(session.around, contentFile);
  const memory: NewMemory = {
    type,
    summary: words.join(" "),
    ...(content !== undefined && { content: toJson(content) }),
    topicKey: topic,
    ...{ keywords, sessionId, source, subject, metadata, ttl },
    ...(flags.pinned && { pinned: true }),
    ...(flags.proposed && { status: "proposed" }),
  };
  const [item] = await session.profile.remember(memory);
  printItem(session, item!);
}

/** JSON where it is some, else the text itself. */
function toJson(text: string): NonNullable<NewMemory["content"]> {
  try {
    return JSON.parse(text) as NonNullable<NewMemory["content"]>;
  } catch {
    // A text is a payload like any other.
    return text;
  }
}

function printItem({ output }: Session, item: IngestItem): void {
  if (!output.isForPeople) return output.json(toWire(item, "IngestItem"));
  const over = item.superseded.length === 0 ? "" : `, supersedes ${item.superseded.join(", ")}`;
  const { style } = output;
  const word = item.status === "created" ? style.good("created") : style.warned(item.status);
  output.lines([`${word} ${item.id}${over}`]);
  if (item.embedding !== undefined) output.remark(`its vector was left out: ${item.embedding}`);
}

async function rememberFile(session: Session, file: string, words: readonly string[]): Promise<void> {
  if (words.length > 0) throw new CommandFailure(2, "with --file the memories come from the file alone");
  const { profile, output, progress } = session;
  const counts: Record<string, number> = {};
  let number = 0;
  let batch: NewMemory[] = [];
  let chars = 0;
  const send = async (): Promise<void> => {
    if (batch.length === 0) return;
    for (const item of await profile.remember(batch)) {
      counts[item.status] = (counts[item.status] ?? 0) + 1;
      if (!output.isForPeople) output.json(toWire(item, "IngestItem"));
    }
    batch = [];
    chars = 0;
    progress.tell(`${number} memories are kept`);
  };
  for await (const line of readLines(session.around, file)) {
    number++;
    if (line.trim() === "") continue;
    if (batch.length === batchMemories || chars + line.length > batchCharsMax) await send();
    batch.push(parseMemory(line, number));
    chars += line.length;
  }
  await send();
  progress.clear();
  const told = Object.entries(counts).map(([status, count]) => `${count} ${status}`);
  output.remark(told.length === 0 ? "the file holds no memory" : told.join(", "));
}

function parseMemory(line: string, number: number): NewMemory {
  try {
    return fromWire(parseObject(line), "MemoryInput") as NewMemory;
  } catch {
    throw new CommandFailure(
      2,
      `line ${number} is no JSON object of a memory; those far before it are kept already, and are not kept twice`,
    );
  }
}

function listCommand(bind: Bind): Command {
  const command = new Command("list")
    .description("memories that meet conditions, the newest first")
    .addOption(new Option("--type <type...>", "of these types").choices(memoryTypes))
    .option("--topic <topic>", "of exactly this topic")
    .option("--session <id>", "of this session")
    .option("--source <agent>", "of this agent")
    .option("--subject <whom>", "about this one")
    .addOption(new Option("--filter <json>", "whose metadata meets it").argParser(parseObject))
    .addOption(new Option("--since <time>", "stored at or after this time").argParser(parseTime))
    .addOption(new Option("--until <time>", "stored before this time").argParser(parseTime))
    .option("--superseded", "also those that were superseded")
    .option("--completed", "also tasks that are done")
    .option("--proposed", "those that wait for a review instead")
    .option("--oldest", "the oldest first")
    .option("--at <state>", "as it was: a checkpoint, a transaction id or a time")
    .addOption(new Option("--limit <count>", "so many at most").argParser(parseCount).default(listDefault));
  return bind<ListFlags>(command, "palimpsest list --type fact --limit 20", async (session, flags) => {
    const { type, topic: topicKey, session: sessionId, source, subject, filter, since, until } = flags;
    const conditions: MemoryConditions = {
      ...{ topicKey, sessionId, source, subject, filter, since, until, types: type?.join(",") },
      ...(flags.superseded && { includeSuperseded: true }),
      ...(flags.completed && { includeCompleted: true }),
      ...(flags.proposed && { status: "proposed" }),
      ...(flags.oldest && { order: "asc" }),
      limit: Math.min(flags.limit, batchMemories),
    };
    const all = session.profile.memories(conditions, { at: flags.at });
    const printed = await printMemories(session.output, first(all, flags.limit));
    if (printed === 0) session.output.remark("no memory meets that");
    else if (printed === flags.limit) session.output.remark(`these are ${printed}; --limit shows more`);
  });
}

/** So many of a sequence at most. */
export async function* first<Item>(items: AsyncIterable<Item>, count: number): AsyncGenerator<Item, void, undefined> {
  let left = count;
  if (left <= 0) return;
  for await (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}

function showCommand(bind: Bind): Command {
  const command = new Command("show")
    .description("one memory in full")
    .argument("<id>", "its id")
    .option("--at <state>", "as it was: a checkpoint, a transaction id or a time");
  return bind<{ readonly at?: string }>(
    command,
    "palimpsest show mem_01J9ZQ3Y4T5V6W7X8Y9Z0A1B2C",
    async (session, { at }, [id]) => {
      const memory = await session.profile.get(id!, { at });
      if (memory === undefined) throw new CommandFailure(3, `there is no memory ${id}`);
      printMemory(session.output, memory);
    },
  );
}
