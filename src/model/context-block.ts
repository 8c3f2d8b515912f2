/**
 * A context block: what is remembered that matters now, for an agent's prompt.
 *
 * Always true: it counts no more than it may; the same request at the same state and time gives the same body; what its
 * section of found memories holds, a recall with the same question gives. Nothing is written.
 *
 * Must not know: who embeds, how its nonce is made.
 */
import { invalid } from "../base/faults/errors.ts";
import { checkSessionId } from "../format/core/names.ts";
import { blockFormats, bodyText, blockQuarters, type BlockFormat } from "./context/block-text.ts";
import {
  nothingOffered,
  offerFacts,
  offerFound,
  offerInstructions,
  offerTasks,
  offerTurns,
  type Offered,
} from "./context/offers.ts";
import { makeRoom, type Offer, type Placed } from "./context/room.ts";
import { toQuarters, toTokens } from "./context/token-count.ts";
import { checkTime } from "./memory/recall-conditions.ts";
import type { View } from "./core/transaction.ts";
import { checkRecall, recall, type RecallInput } from "./recall.ts";

export const contextTokensDefault = 1_000;
/** Tags and rule count some 110 of it. */
export const contextTokensMin = 200;
/** Some 128 KiB of text. */
export const contextTokensMax = 32_000;
/** Lines of a section, whatever is asked for. */
export const contextLinesMax = 1_000;
/** Their contents are read whole, and together they fit one answer of a recall. */
const foundMax = 32;
export const contextShareMax = 100;
/** No line that may be cut takes more than this part of a block. */
const lineShare = 4;

/** The sections in their order, with the shares and lines that they have where nothing else is asked. */
const sectionDefaults = {
  instructions: { share: 30, lines: 200 },
  facts: { share: 20, lines: 100 },
  memories: { share: 30, lines: 16 },
  turns: { share: 15, lines: 10 },
  tasks: { share: 5, lines: 100 },
} as const;

type SectionName = keyof typeof sectionDefaults;
export const sectionNames = Object.keys(sectionDefaults) as readonly SectionName[];

/** A section as it is asked for. */
interface SectionInput {
  readonly name: string;
  readonly share?: number;
  readonly maxLines?: number;
}

/** What is asked for. */
export interface ContextInput extends Pick<RecallInput, "query" | "embedding" | "embeddedBy"> {
  readonly maxTokens?: number;
  readonly format?: string;
  /** None: all, in their order. */
  readonly sections?: readonly SectionInput[];
  readonly sessionId?: string;
  /** What ages are measured against, in Unix milliseconds; the view's own time by default. */
  readonly nowMs?: number;
}

/** What the block shows of a section, and what not. */
interface ContextSection {
  name: string;
  ids: string[];
  /** Of the lines that were looked at, those that are shown nowhere. */
  leftOut: number;
  more: boolean;
  cut: number;
  tokens: number;
  sessionId?: string;
}

/** A block without its tags, and what it counts with them. */
export interface ContextBody {
  body: string;
  tokens: number;
  sections: ContextSection[];
  nowMs: number;
  /** Why the vector was not looked for. */
  embedding?: ReturnType<typeof recall>["embedding"];
}

/** Whether something is asked that a recall can look for. */
function isQuestion({ query = "", embedding }: ContextInput): boolean {
  return query.trim() !== "" || embedding !== undefined;
}

/** Refuses a request that no state of the database could answer. Reads nothing. */
export function checkContext(input: ContextInput): void {
  const { query, embedding, maxTokens, format, sections = [], sessionId, nowMs } = input;
  if (isQuestion(input)) checkRecall({ ...(query !== undefined && { query }), ...(embedding && { embedding }) });
  checkWhole("max_tokens", maxTokens, contextTokensMin, contextTokensMax);
  if (format !== undefined && !blockFormats.includes(format as BlockFormat))
    throw invalid(`format must be one of ${blockFormats.join(", ")}`);
  const names = new Set<string>();
  for (const [at, { name, share, maxLines }] of sections.entries()) {
    if (!Object.hasOwn(sectionDefaults, name))
      throw invalid(`sections[${at}].name must be one of ${sectionNames.join(", ")}`);
    if (names.has(name)) throw invalid(`sections[${at}].name is given twice: a section stands in a block once`);
    names.add(name);
    checkWhole(`sections[${at}].share`, share, 1, contextShareMax);
    checkWhole(`sections[${at}].max_lines`, maxLines, 1, contextLinesMax);
  }
  if (sessionId !== undefined) checkSessionId(sessionId);
  checkTime("now", nowMs);
}

function checkWhole(field: string, value: number | undefined, least: number, most: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= least && value <= most)) return;
  throw invalid(`${field} must be a whole number from ${least} to ${most}`);
}

/** A section with everything that a request may leave open. */
interface Section {
  readonly name: SectionName;
  readonly share: number;
  readonly lines: number;
}

function resolveSections({ sections = [] }: ContextInput): readonly Section[] {
  const asked: readonly SectionInput[] = sections.length > 0 ? sections : sectionNames.map((name) => ({ name }));
  return asked.map(({ name, share, maxLines }) => {
    const defaults = sectionDefaults[name as SectionName];
    return { name: name as SectionName, share: share ?? defaults.share, lines: maxLines ?? defaults.lines };
  });
}

/** The block of a request that passed `checkContext`. */
export function composeContext(view: View, input: ContextInput): ContextBody {
  const nowMs = input.nowMs ?? view.nowMs;
  const { sessionId, query, embedding, embeddedBy } = input;
  let found: ReturnType<typeof recall> | undefined;
  const offered = ({ name, lines }: Section): Offered => {
    switch (name) {
      case "instructions":
        return offerInstructions(view, nowMs, lines);
      case "facts":
        return offerFacts(view, nowMs, lines);
      case "turns":
        return offerTurns(view, nowMs, lines, sessionId);
      case "tasks":
        return offerTasks(view, nowMs, lines);
      case "memories": {
        if (!isQuestion(input)) return nothingOffered;
        const k = Math.min(lines, foundMax);
        found = recall(view, {
          k,
          validAtMs: nowMs,
          ...(query !== undefined && { query }),
          ...(embedding && { embedding }),
          ...(embeddedBy !== undefined && { embeddedBy }),
        });
        return offerFound(view, found.memories, nowMs, k);
      }
    }
  };
  const body = writeBody(input, nowMs, offered);
  return found?.embedding ? { ...body, embedding: found.embedding } : body;
}

/** The block of a profile that was never written. */
export function emptyContext(input: ContextInput, nowMs: number): ContextBody {
  return writeBody(input, input.nowMs ?? nowMs, () => nothingOffered);
}

function writeBody(input: ContextInput, nowMs: number, offered: (section: Section) => Offered): ContextBody {
  const format = (input.format ?? "markdown") as BlockFormat;
  const maxTokens = input.maxTokens ?? contextTokensDefault;
  const offers = resolveSections(input).map((section): Offer => ({
    ...offered(section),
    name: section.name,
    share: section.share,
    isUncut: section.name === "instructions",
    isReversed: section.name === "turns",
  }));
  const placed = makeRoom(offers, {
    format,
    quarters: toQuarters(maxTokens) - blockQuarters(bodyText(format, [])),
    lineQuarters: Math.floor(toQuarters(maxTokens) / lineShare),
  });
  const body = bodyText(
    format,
    offers.flatMap((offer, at) => writtenSection(offer, placed[at]!)),
  );
  const sections = offers.map((offer, at) => tell(offer, placed[at]!));
  return { body, tokens: toTokens(blockQuarters(body)), sections, nowMs };
}

/** A section without lines is not written. */
function writtenSection({ name, sessionId, more }: Offer, { lines, leftOut }: Placed) {
  if (lines.length === 0) return [];
  const counts = { shown: lines.length, of: lines.length + leftOut, more };
  return [{ name, sessionId, counts, lines: lines.map(({ text }) => text) }];
}

function tell({ name, sessionId, more }: Offer, { lines, leftOut, quarters }: Placed): ContextSection {
  return {
    name,
    ids: lines.map(({ id }) => id),
    leftOut,
    more,
    cut: lines.filter(({ isCut }) => isCut).length,
    tokens: toTokens(quarters),
    ...(sessionId !== undefined && { sessionId }),
  };
}
