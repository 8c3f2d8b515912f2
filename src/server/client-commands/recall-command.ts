/**
 * `palimpsest recall`: what is remembered about a question, and with `--explain` why: the words that matched, marked
 * where they stand, the channels that found it, and what came near and was left out.
 */
import { Command, Option } from "commander";
import type { Memory, NearMiss, RecallResponse, Turn } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { eachWord, indexForm } from "../../model/text/tokens.ts";
import { foldText } from "../../model/text/words.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import type { Output } from "../terminal/output.ts";
import { visibleText } from "../terminal/visible-text.ts";
import { memoryTypes, parseObject, type MemoryType } from "./memory-commands.ts";
import { shownTime, shownValue } from "./memory-lines.ts";
import { parseCount, parseTime, type Bind } from "../client-session/session.ts";

interface RecallFlags {
  readonly k?: number;
  readonly topic?: string;
  readonly type?: readonly MemoryType[];
  readonly session?: string;
  readonly source?: string;
  readonly subject?: string;
  readonly filter?: Readonly<Record<string, never>>;
  readonly since?: number;
  readonly until?: number;
  readonly superseded?: boolean;
  readonly turns?: boolean;
  readonly explain?: boolean;
  readonly at?: string;
}

/** What an empty answer means, in words. */
const emptyReasons: Readonly<Record<string, string>> = {
  nothing_stored: "nothing is remembered here yet",
  no_match: "nothing holds a word of the question",
  filtered_out: "what matches is left out by the conditions",
  below_gate: "what matches is not relevant enough; --explain shows what came near",
  vetoed: "words match, but what is meant is far from the question",
  vector_skipped: "the vector was not looked for",
};

export function recallCommand(bind: Bind): Command {
  const command = new Command("recall")
    .description("what is remembered about a question, the most relevant first")
    .argument("[words...]", "the question, in plain words")
    .addOption(new Option("-k, --k <count>", "so many at most").argParser(parseCount))
    .option("--topic <topic>", "an exact topic; it weighs most")
    .addOption(new Option("--type <type...>", "of these types").choices(memoryTypes))
    .option("--session <id>", "of this session")
    .option("--source <agent>", "of this agent")
    .option("--subject <whom>", "about this one")
    .addOption(new Option("--filter <json>", "whose metadata meets it").argParser(parseObject))
    .addOption(new Option("--since <time>", "stored at or after this time").argParser(parseTime))
    .addOption(new Option("--until <time>", "stored before this time").argParser(parseTime))
    .option("--superseded", "also those that were superseded")
    .option("--turns", "the transcript too, by its words")
    .option("--explain", "say why each was found, and what came near")
    .option("--at <state>", "as it was: a checkpoint, a transaction id or a time");
  return bind<RecallFlags>(
    command,
    "palimpsest recall which theme does alice like --explain",
    async (session, flags, words) => {
      if (words.length === 0 && flags.topic === undefined)
        throw new CommandFailure(2, "say what to look for, or name a --topic");
      const { k, topic: topicKey, type: types, session: sessionId, source, subject, filter, since, until, at } = flags;
      const answer = await session.profile.recall(
        {
          ...(words.length > 0 && { query: words.join(" ") }),
          ...{ k, topicKey, types, sessionId, source, subject, filter, since, until },
          ...(flags.superseded && { includeSuperseded: true }),
          ...(flags.turns && { searchTurns: true }),
          ...(flags.explain && { explain: true }),
        },
        {},
        { at },
      );
      const { output } = session;
      if (!output.isForPeople) return output.json(toWire(answer, "RecallResponse"));
      printRecall(output, answer);
    },
  );
}

function printRecall(output: Output, answer: RecallResponse): void {
  answer.memories.forEach((memory, at) => output.lines(foundLines(output, memory, at + 1)));
  if (answer.turns.length > 0) output.lines(["", ...answer.turns.map((turn) => turnLine(output, turn))]);
  if (answer.nearMisses?.length) {
    output.lines(["", output.style.strong("Near, and left out:")]);
    for (const miss of answer.nearMisses) output.lines([missLine(output, miss)]);
  }
  if (answer.emptyReason !== undefined) output.remark(emptyReasons[answer.emptyReason] ?? answer.emptyReason);
  if (answer.embedding !== undefined) output.remark(`found by words and topic alone: ${answer.embedding}`);
}

function foundLines({ style }: Output, memory: Memory, place: number): readonly string[] {
  const { explain, type, topicKey, id, createdAt, currentId } = memory;
  const terms = explain?.matchedTerms ?? [];
  const facts = [type, ...(topicKey === null ? [] : [style.named(visibleText(topicKey))]), id, shownTime(createdAt)];
  const lines = [
    `${String(place).padStart(2)}. ${markTerms(memory.summary, terms, style.matched)}`,
    `    ${style.faint(facts.join(" · "))}`,
  ];
  if (currentId !== undefined) lines.push(`    ${style.warned(`superseded; ${currentId} holds now`)}`);
  if (explain === undefined) return lines;
  for (const { channel, rank, score, approximate } of explain.channels) {
    const how = `${channelWords[channel] ?? visibleText(channel)}: rank ${rank}, score ${score.toFixed(3)}`;
    lines.push(`    ${style.good("+")} ${how}${approximate ? " (approximate)" : ""}`);
  }
  if (terms.length > 0) {
    const share = explain.coverage === undefined ? "" : `, ${Math.round(explain.coverage * 100)} % of the question`;
    lines.push(`    ${style.good("+")} matched ${terms.map(visibleText).join(", ")}${share}`);
  }
  return lines;
}

const channelWords: Readonly<Record<string, string>> = {
  topic: "its topic",
  keyword: "its words",
  vector: "its meaning",
};

/** The text in one visible line, each word marked that is one of the terms by its stem, as recall compares them. */
export function markTerms(text: string, terms: readonly string[], mark: (text: string) => string): string {
  const forms = new Set(terms.map((term) => indexForm(foldText(term).toLowerCase())));
  const folded = foldText(text);
  // Folding may lengthen a text: then the places in the one are not those in the other.
  if (forms.size === 0 || folded.length !== text.length) return visibleText(text);
  let shown = "";
  let at = 0;
  eachWord(folded, (start, end) => {
    if (!forms.has(indexForm(folded.slice(start, end).toLowerCase()))) return;
    shown += visibleText(text.slice(at, start)) + mark(visibleText(text.slice(start, end)));
    at = end;
  });
  return shown + visibleText(text.slice(at));
}

function turnLine({ style }: Output, { sessionId, seq, role, content }: Turn): string {
  const place = style.faint(`${visibleText(sessionId)} #${seq}`);
  return `${place} ${style.named(visibleText(role))}: ${shownValue(content)}`;
}

function missLine({ style }: Output, { id, reasons, matchedTerms }: NearMiss): string {
  const why = reasons.map(
    ({ channel, reason, value, needed }) =>
      `${channelWords[channel] ?? visibleText(channel)}: ${visibleText(reason).replaceAll("_", " ")}, ` +
      `${value.toFixed(3)} where ${needed.toFixed(3)} was needed`,
  );
  const held = matchedTerms.length === 0 ? "" : ` (holds ${matchedTerms.map(visibleText).join(", ")})`;
  return `  ${style.bad("-")} ${id}${held}: ${why.join("; ")}`;
}
