/**
 * Conversations with questions, read from published sets as they are: LoCoMo, BEAM (a file or a folder of files, one
 * conversation each) and LongMemEval.
 *
 * The sets are never kept here: a path is given, and a report names what was read by its hash.
 */
import { hash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

interface Turn {
  /** Unique within its conversation. */
  readonly id: string;
  readonly speaker: string;
  readonly text: string;
}

interface Session {
  readonly id: string;
  /** As the set writes it. */
  readonly date: string;
  readonly turns: readonly Turn[];
}

/** Pieces, each with the ids that hold it. */
export type Evidence = readonly (readonly string[])[];

interface Question {
  readonly text: string;
  readonly category: string;
  /**
   * The pieces of the evidence, each the ids of the sessions or turns of which any one holds it; empty where the set
   * names none.
   */
  readonly sessions: Evidence;
  readonly turns: Evidence;
  /** False where the set says that nothing here answers it. */
  readonly isAnswerable: boolean;
}

/** What one profile is filled with, and what it is asked. */
export interface Conversation {
  readonly name: string;
  readonly sessions: readonly Session[];
  readonly questions: readonly Question[];
}

export interface Corpus {
  readonly kind: "locomo" | "beam" | "longmemeval";
  /** SHA-256 over the files in the order of their names. */
  readonly sha256: string;
  readonly conversations: readonly Conversation[];
}

const locomoCategories: Readonly<Record<number, string>> = {
  1: "multi-hop",
  2: "temporal",
  3: "commonsense",
  4: "single-hop",
  5: "adversarial",
};

interface LocomoTurn {
  readonly speaker: string;
  readonly dia_id: string;
  readonly text: string;
  readonly blip_caption?: string;
}

interface LocomoQuestion {
  readonly question: string;
  readonly evidence?: readonly string[];
  readonly category: number;
}

/** Each id a piece of its own. */
function alone(ids: readonly string[]): Evidence {
  return [...new Set(ids)].map((id) => [id]);
}

type LocomoFields = Readonly<Record<string, unknown>>;

/** One conversation: its sessions lie flat in the object, or under `conversation` as in the file of all ten. */
function locomoConversation(name: string, given: LocomoFields): Conversation {
  const fields = (given["conversation"] ?? given) as LocomoFields;
  const numbers = Object.keys(fields)
    .flatMap((key) => /^session_(\d+)$/.exec(key)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
  const sessions = numbers.map((number) => ({
    id: `D${number}`,
    date: String(fields[`session_${number}_date_time`] ?? ""),
    turns: (fields[`session_${number}`] as readonly LocomoTurn[]).map((turn) => ({
      id: turn.dia_id,
      speaker: turn.speaker,
      text: turn.blip_caption === undefined ? turn.text : `${turn.text} [shares ${turn.blip_caption}]`,
    })),
  }));
  const known = new Set(sessions.flatMap(({ turns }) => turns.map(({ id }) => id)));
  const questions = (given["qa"] as readonly LocomoQuestion[]).map(({ question, evidence = [], category }) => {
    // Some entries name several turns, and a few name none that exists.
    const turns = [...new Set(evidence.flatMap((entry) => entry.match(/D\d+:\d+/g) ?? []))].filter((id) =>
      known.has(id),
    );
    return {
      text: question,
      category: locomoCategories[category] ?? String(category),
      turns: alone(turns),
      sessions: alone(turns.map((id) => id.split(":")[0]!)),
      isAnswerable: category !== 5,
    };
  });
  return { name, sessions, questions };
}

interface BeamConversation {
  readonly id: string;
  readonly turns: readonly {
    readonly id: number;
    readonly role: string;
    readonly content: string;
    readonly batch: string;
    readonly time: string | null;
  }[];
  readonly questions: readonly {
    readonly ability: string;
    readonly question: string;
    /** Groups of turns; a group is answered by any of its turns. None where nothing was said of it. */
    readonly gold: readonly (number | readonly number[])[];
  }[];
}

/** Batches are the sessions. */
function beamConversation({ id: name, turns, questions }: BeamConversation): Conversation {
  const session = new Map(turns.map(({ id, batch }) => [String(id), batch]));
  return {
    name,
    sessions: [...Map.groupBy(turns, ({ batch }) => batch)].map(([id, said]) => ({
      id,
      date: "",
      turns: said.map((turn) => ({ id: String(turn.id), speaker: turn.role, text: turn.content })),
    })),
    questions: questions.map(({ ability, question, gold }) => {
      const pieces = gold.map((group) => (typeof group === "number" ? [group] : group).map(String));
      return {
        text: question,
        category: ability,
        turns: pieces,
        sessions: pieces.map((ids) => [...new Set(ids.map((id) => session.get(id)!))]),
        isAnswerable: gold.length > 0,
      };
    }),
  };
}

interface LongMemEvalEntry {
  readonly question_id: string;
  readonly question_type: string;
  readonly question: string;
  readonly haystack_dates: readonly string[];
  readonly haystack_session_ids: readonly string[];
  readonly haystack_sessions: readonly (readonly {
    readonly role: string;
    readonly content: string;
    readonly has_answer?: boolean;
  }[])[];
  readonly answer_session_ids: readonly string[];
}

/** One question with the sessions among which its answer lies: a conversation of its own. */
function longMemEvalConversation(entry: LongMemEvalEntry, number: number): Conversation {
  const answering = new Set<string>();
  const sessions = entry.haystack_sessions.map((turns, at) => {
    const id = entry.haystack_session_ids[at]!;
    return {
      id,
      date: entry.haystack_dates[at] ?? "",
      turns: turns.map(({ role, content, has_answer: hasAnswer }, turn) => {
        if (hasAnswer) answering.add(`${id}:${turn}`);
        return { id: `${id}:${turn}`, speaker: role, text: content };
      }),
    };
  });
  const isAnswerable = !entry.question_id.endsWith("_abs");
  const question = {
    text: entry.question,
    category: entry.question_type,
    sessions: alone(entry.answer_session_ids),
    turns: alone([...answering]),
    isAnswerable,
  };
  return { name: `q${number}`, sessions, questions: [question] };
}

/** Reads a file or a folder of `.json` files, all of one kind. */
export function readCorpus(path: string): Corpus {
  const files = statSync(path).isDirectory()
    ? readdirSync(path)
        .filter((name) => name.endsWith(".json"))
        .sort()
        .map((name) => join(path, name))
    : [path];
  const texts = files.map((file) => readFileSync(file));
  const sha256 = hash("sha256", Buffer.concat(texts));
  const entries = texts.flatMap((text) => JSON.parse(text.toString()) as LocomoFields | readonly LocomoFields[]);
  if (entries.length === 0) throw new Error(`nothing to read in ${path}`);
  if (entries.every((entry) => "haystack_sessions" in entry)) {
    return {
      kind: "longmemeval",
      sha256,
      conversations: (entries as unknown as LongMemEvalEntry[]).map(longMemEvalConversation),
    };
  }
  if (entries.every((entry) => "questions" in entry && "turns" in entry)) {
    return { kind: "beam", sha256, conversations: (entries as unknown as BeamConversation[]).map(beamConversation) };
  }
  if (!entries.every((entry) => "qa" in entry)) throw new Error(`${path} is neither LoCoMo, BEAM nor LongMemEval`);
  return { kind: "locomo", sha256, conversations: entries.map((entry, at) => locomoConversation(`c${at}`, entry)) };
}
