/**
 * A question as it is ranked by: its terms, the rows that hold each, and what each is worth.
 *
 * Must not know: texts, filters.
 */
import { indexForm } from "../text/tokens.ts";
import { countWords, queryTerms, type Term } from "../text/words.ts";
import { commonness } from "./common-words.ts";
import { recipe } from "./recipe.ts";
import type { WordIndex } from "./word-index.ts";

/** The rows that hold a term, ascending, and what holding it is worth. */
export interface Posting {
  readonly term: Term;
  /** The term as an index holds it. */
  readonly form: string;
  readonly isFrame: boolean;
  /** Whether the language uses it often. */
  readonly isCommon: boolean;
  readonly rows: readonly number[];
  readonly weight: number;
}

/** Words that say what is to be done with the answer, not what it is about. */
const frameWords = new Set(
  `list lists listed order ordered sequence chronological chronologically timeline walk walked throughout across
  conversation conversations chat chats discussion discussions discuss discussed discussing mention mentioned
  mentioning brought bring bringing raised talk talked talking tell told telling say said saying ask asked
  asking summarize summarise summarized summarizing summary summaries overview recap comprehensive complete
  detailed thorough concise brief provide provided give gave show explain explained describe described recommend
  recommended recommendation recommendations suggest suggested suggestion suggestions advise advice help helped
  please remind remember different various aspects aspect topics key main previous previously earlier`.split(/\s+/),
);

/** Words of a question that is about much at once: there a long text is no worse than a short one. */
const broadForms = new Set(["summarize", "summarise", "summary", "overview", "recap"].map(indexForm));

export interface WeighedQuestion {
  readonly postings: readonly Posting[];
  readonly totalWeight: number;
  /** Whether it asks for a summary. */
  readonly isBroad: boolean;
  /** Whether at least half of its words are no stop words. */
  readonly isBare: boolean;
  /** Whether it calls somebody or something by a name that nothing here holds. */
  readonly isNameUnknown: boolean;
  readonly rows: number;
  readonly averageWords: number;
}

/** As `commonness`, of rows of so many words. */
function commonnessIn(form: string, words: number): number {
  return 1 - (1 - commonness(form)) ** Math.max(1, words / recipe.messageWords);
}

/**
 * The inverse document frequency of BM25, kept positive, over what is stored and what is presumed; `common` is the
 * share of the presumed rows that hold the word.
 */
export function rarity(stored: number, holders: number, common = 0): number {
  const all = stored + recipe.rowsPresumed;
  const holding = holders + common * recipe.rowsPresumed;
  return Math.log(1 + (all - holding + 0.5) / (holding + 0.5));
}

/** A word of a question, and the word that is looked for, as an index holds it. */
export interface AskedTerm {
  readonly term: Term;
  readonly form: string;
}

/** A question as it is asked. */
export interface Asked {
  readonly terms: readonly AskedTerm[];
  /** Whether at least half of its words are no stop words, as one types into a search box. */
  readonly isBare: boolean;
  /** Words that are written as names are. */
  readonly names: ReadonlySet<string>;
}

/** A word with a capital letter that does not begin a sentence. */
const capitalized = /(?<=[^.?!\s]\s+["'(]?)\p{Lu}\p{L}+/gu;

/** In a title, or where all letters are capitals, they tell nothing. */
function readNames(query: string): ReadonlySet<string> {
  const found = query.match(capitalized) ?? [];
  return new Set(2 * found.length > countWords(query) ? [] : found.map((name) => name.toLowerCase()));
}

export function readQuestion(query: string): Asked {
  const terms = queryTerms(query).map((term): AskedTerm => ({ term, form: indexForm(term.word) }));
  return { terms, isBare: 2 * terms.length >= countWords(query), names: readNames(query) };
}

export function weighQuestion(index: WordIndex, asked: Asked): WeighedQuestion {
  const { rows: stored, words } = index.size();
  const averageWords = stored === 0 ? 0 : words / stored;
  const terms = asked.terms.map(({ term }) => term);
  const isAllFrame = terms.every(({ word }) => frameWords.has(word));
  const postings = asked.terms.map(({ term, form }): Posting => {
    const rows = index.rowsOf(term);
    const isFrame = !isAllFrame && frameWords.has(term.word);
    // A pair that no row has more often lies across two words of the question than it is a word unknown here.
    const doubt = term.isPair && rows.length === 0 ? 0.5 : 1;
    const worth = doubt * rarity(Math.max(stored, rows.length), rows.length, commonnessIn(form, averageWords));
    const isCommon = commonness(form) > 0;
    return { term, form, isFrame, isCommon, rows, weight: worth * (isFrame ? recipe.frameWeight : 1) };
  });
  return {
    postings,
    totalWeight: postings.reduce((sum, { weight }) => sum + weight, 0),
    isBare: asked.isBare,
    isNameUnknown: postings.some(({ term, rows }) => rows.length === 0 && asked.names.has(term.word)),
    isBroad: terms.some(({ word }) => broadForms.has(indexForm(word))),
    rows: stored,
    averageWords,
  };
}

/** Whether the row holds the term itself. */
export function holds({ rows }: Posting, row: number): boolean {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row;
}

/** The length up to which no row loses: where most of the question is pairs of letters, a word is about two of them. */
export function pivotOf({ postings }: WeighedQuestion): number {
  const pairs = postings.filter(({ term }) => term.isPair).length;
  return recipe.pivotWords * (2 * pairs > postings.length ? 2 : 1);
}
