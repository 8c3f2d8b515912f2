/**
 * The ranking by words: one for memories and turns alike.
 *
 * Always true: nothing is found unless something is about the question; sums run in the question's order and ties are
 * broken by the later row, so that the same state gives the same answer everywhere. Must not know: SQL, how an index is
 * kept, vectors.
 */
import { EvidenceReader, type ColumnRole, type Evidence } from "./evidence.ts";
import { pickHolders } from "./pool.ts";
import { holds, pivotOf, rarity, readQuestion, weighQuestion, type Posting, type WeighedQuestion } from "./question.ts";
import { recipe } from "./recipe.ts";
import { hopeOf, pickRelevant, scaleOf, tellOf, type Judged, type Relevant, type WordMiss } from "./relevance.ts";
import { mendTypos } from "./typos.ts";
import type { ColumnLengths, WordIndex } from "./word-index.ts";

/** Two rows of one session, `steps` apart in its order. */
export interface Neighbour {
  readonly seed: number;
  readonly row: number;
  readonly steps: 1 | 2;
}

/** What is ranked. */
export interface Searched {
  readonly index: WordIndex;
  readonly columns: readonly ColumnRole[];
  /** Those of the rows that the request lets through. */
  admitted(rows: readonly number[]): ReadonlySet<number>;
  /** Who said each, where that is known. */
  speakers(rows: readonly number[]): ReadonlyMap<number, string>;
  /** Whether what stands beside a hit belongs to the answer in a small store too, as in talk. */
  readonly isTalk: boolean;
  /** The rows up to two before and after each in its session. */
  around(rows: readonly number[]): readonly Neighbour[];
  /** Called between pieces of work that take less than a millisecond; what it throws ends the search. */
  look(): void;
}

export interface WordHit {
  readonly row: number;
  /** Larger is better. Not comparable between questions. */
  readonly score: number;
  /** The share of the question's words that one paragraph holds, weighted by rarity, 0 to 1. */
  readonly coverage: number;
  /** Whether its topic or an alias is a telling word of the question. */
  readonly isNamed: boolean;
}

export interface WordAnswer {
  /** Best first, ties later row first. */
  readonly hits: readonly WordHit[];
  /** The question's words that a row holds, in the question's order. */
  matchedTerms(row: number): string[];
  /** The coverage of a hit; undefined for a row that is no hit. */
  coverage(row: number): number | undefined;
  readonly asked: AskedOfVectors;
  /** What stands beside rows, and what each counts by its length and who said it: for whatever else ranks them. */
  readonly context: RowContext;
  /** The score of a row that was looked into, let in or not; 0 for any other. */
  scoreOf(row: number): number;
  /** The largest of them. */
  readonly best: number;
  /** Whether any row that holds a word of the question was let through by the request. */
  readonly isMet: boolean;
  /** The latest rows that hold a word of the question, let through or not. */
  holding(most: number): readonly number[];
  /** The best that hold words of the question and are not about it enough, and why. */
  misses(most: number): readonly MissedRow[];
}

/** What the words of a question say to those who look for its vector. */
export interface AskedOfVectors {
  /** The part of what is asked of a question otherwise that is asked of this one, 0 to 1: less for many words. */
  readonly scale: number;
  /** The largest share of the question that a paragraph holds, of what was looked into, let in or not. */
  readonly coverage: number;
  /** Whether it calls somebody or something by a name that nothing here holds. */
  readonly isNameUnknown: boolean;
}

/** What a question makes of rows besides their own words. */
export interface RowContext {
  around(rows: readonly number[]): readonly Neighbour[];
  /** What each counts by its length and by who said it. */
  weights(rows: readonly number[]): ReadonlyMap<number, number>;
}

/** A row that was looked into and left out. */
interface MissedRow extends WordMiss {
  readonly row: number;
  /** As that of a hit. */
  readonly score: number;
}

export interface WordSearch {
  readonly query: string;
  /** How many hits are wanted at most. */
  readonly want: number;
  /** The client's own floor of coverage, for every hit alike, instead of the gate and the floors. */
  readonly coverageMin: number | undefined;
}

/** A row with all that is known of it. */
interface Scored extends Judged {
  readonly row: number;
  /** 1 for those that were too much text to be looked into: they come after all others. */
  readonly grade: 0 | 1;
}

/** A row of 2 KB takes some 20 us to read. */
const rowsReadAtOnce = 16;

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Words of what is read as one stream: summary and body. */
function streamWords(columns: readonly ColumnRole[], lengths: ColumnLengths): number {
  return sum(columns.map((role, at) => (role === "summary" || role === "body" ? lengths[at]! : 0)));
}

/** What a row of so many words keeps of its score. */
function keptOf(question: WeighedQuestion, words: number): number {
  const pivot = pivotOf(question);
  return question.isBroad ? 1 : (pivot / Math.max(pivot, words)) ** recipe.lengthExponent;
}

/** A row that is looked into. */
interface Pooled {
  readonly row: number;
  readonly lengths: ColumnLengths;
  /** Of summary and body. */
  readonly words: number;
}

/** The rows that hold the most of the question, shorter ones first where they hold as much. */
function pickPool(searched: Searched, question: WeighedQuestion, { want, coverageMin }: WordSearch): Pooled[] {
  const size = Math.max(recipe.poolMin, want);
  const holders = pickHolders(question, {
    most: Math.max(size, Math.min(recipe.candidatesPerRow * size, recipe.candidatesMax)),
    admitted: (rows) => searched.admitted(rows),
    hopes: hopeOf(question, coverageMin),
    look: () => searched.look(),
  });
  const known = searched.index.lengths(holders.map(({ row }) => row));
  const guessed = holders.flatMap(({ row, share }) => {
    const lengths = known.get(row);
    if (!lengths) return [];
    const words = streamWords(searched.columns, lengths);
    return [{ row, lengths, words, guess: share * keptOf(question, words) }];
  });
  guessed.sort((left, right) => right.guess - left.guess || right.row - left.row);
  return guessed.slice(0, size);
}

/** BM25 over the words that the row holds; `norm` is the row's length beside the average. */
function bm25(question: WeighedQuestion, counts: readonly number[], norm: number): number {
  return sum(
    question.postings.map(({ weight }, at) => {
      const count = counts[at]!;
      return count === 0 ? 0 : (weight * count * (recipe.k1 + 1)) / (count + recipe.k1 * norm);
    }),
  );
}

/** Looks into the rows of the pool. How rare a pair is, is counted among them: those that hold both words are there. */
function scorePool(searched: Searched, question: WeighedQuestion, pool: readonly Pooled[]): Map<number, Scored> {
  const reader = new EvidenceReader(question, searched.columns);
  const texts = searched.index.texts(
    pool.map(({ row }) => row),
    recipe.textCharsMax,
  );
  const read = pool.map((one, at) => {
    if (at % rowsReadAtOnce === 0) searched.look();
    return { ...one, evidence: reader.read(one.row, texts.get(one.row)) };
  });
  const withPair = new Map<number, number>();
  for (const { evidence } of read) for (const at of evidence.pairs) withPair.set(at, (withPair.get(at) ?? 0) + 1);
  const score = (evidence: Evidence, lengths: ColumnLengths): number => {
    const norm = 1 - recipe.b + recipe.b * (sum(lengths) / Math.max(1, question.averageWords));
    const pairs = sum(evidence.pairs.map((at) => rarity(question.rows, withPair.get(at)!)));
    const words = bm25(question, evidence.counts, norm) * evidence.share ** recipe.shareExponent;
    return words + (recipe.pairWeight * pairs) / norm;
  };
  return new Map(
    read.map(({ row, lengths, words, evidence }): [number, Scored] => {
      const grade: 0 | 1 = texts.has(row) ? 0 : 1;
      const { share: coverage } = evidence;
      const found = { row, words, grade, coverage, ...tellOf(question, evidence), score: score(evidence, lengths) };
      return [row, { ...found, isBeside: false } as const];
    }),
  );
}

/** A row that holds no word itself. */
const stranger = { coverage: 0, telling: 0, isNamed: false, isBeside: false, score: 0, words: 0, grade: 0 } as const;

/** Adds what is said beside each row in its session; a neighbour that holds no word itself comes in. */
function withNeighbours(searched: Searched, scored: ReadonlyMap<number, Scored>): Scored[] {
  const around = searched.around([...scored.keys()]);
  const strangers = [...new Set(around.map(({ row }) => row))].filter((row) => !scored.has(row));
  const passed = searched.admitted(strangers);
  const gained = new Map<number, { score: number; isBeside: boolean }>();
  for (const { seed, row, steps } of around) {
    const own = gained.get(row) ?? { score: 0, isBeside: false };
    const { score, coverage } = scored.get(seed)!;
    own.score += (steps === 1 ? recipe.neighbourOne : recipe.neighbourTwo) * score;
    own.isBeside ||= coverage >= recipe.floor;
    gained.set(row, own);
  }
  const all = [...scored.values(), ...strangers.filter((row) => passed.has(row)).map((row) => ({ row, ...stranger }))];
  return all.map((one): Scored => {
    const { score = 0, isBeside = false } = gained.get(one.row) ?? {};
    return { ...one, score: one.score + score, isBeside };
  });
}

/** Whether the question names who said it. */
function speakerWeight(speaker: string | undefined, question: WeighedQuestion): number {
  if (speaker === undefined) return 1;
  const name = speaker.toLowerCase();
  if (question.postings.some(({ term }) => term.word === name)) return recipe.namedSpeaker;
  return name === "user" ? recipe.userSpeaker : 1;
}

/**
 * All rows with a score, the best first. The length counts after the neighbours, so that a short question is lifted by
 * the long answer beside it.
 */
function rankRows(searched: Searched, question: WeighedQuestion, search: WordSearch): Scored[] {
  const pool = scorePool(searched, question, pickPool(searched, question, search));
  const all = withNeighbours(searched, pool);
  const lengths = searched.index.lengths(all.flatMap(({ row }) => (pool.has(row) ? [] : [row])));
  const speakers = searched.speakers(all.map(({ row }) => row));
  const ranked = all.map((one) => {
    const beside = lengths.get(one.row);
    const words = beside ? streamWords(searched.columns, beside) : one.words;
    const speaker = speakerWeight(speakers.get(one.row), question);
    return { ...one, words, score: one.score * speaker * keptOf(question, words) };
  });
  return ranked.sort((left, right) => left.grade - right.grade || right.score - left.score || right.row - left.row);
}

/** What one way of reading the question came to. */
interface Found {
  readonly question: WeighedQuestion;
  /** The best first. */
  readonly ranked: readonly Scored[];
  readonly relevant: Relevant<Scored>;
}

/** Ranks what holds words of the question; where nothing does as it is written, its typing errors are put right. */
export function rankByWords(searched: Searched, search: WordSearch): WordAnswer {
  const { index, isTalk } = searched;
  const find = (question: WeighedQuestion): Found => {
    const ranked = rankRows(searched, question, search);
    return { question, ranked, relevant: pickRelevant(question, ranked, { ...search, isTalk }) };
  };
  const asked = readQuestion(search.query);
  let found = find(weighQuestion(index, asked));
  if (found.relevant.rows.length === 0 && search.coverageMin === undefined) {
    const mended = mendTypos(index, asked, found.question, (rows) => searched.admitted(rows));
    if (mended) found = find(weighQuestion(index, mended));
  }
  const hits = found.relevant.rows.slice(0, search.want);
  return {
    hits,
    ...explainer(found.question.postings, hits),
    ...missed(found),
    ...besides(searched, found),
  };
}

function besides(
  searched: Searched,
  { question, ranked }: Found,
): Pick<WordAnswer, "asked" | "context" | "scoreOf" | "best"> {
  let scores: ReadonlyMap<number, number> | undefined;
  return {
    asked: {
      scale: scaleOf(question),
      coverage: ranked.reduce((most, one) => Math.max(most, one.coverage), 0),
      isNameUnknown: question.isNameUnknown,
    },
    context: {
      around: (rows) => searched.around(rows),
      weights(rows) {
        const speakers = searched.speakers(rows);
        const weight = (row: number, lengths: ColumnLengths): number =>
          speakerWeight(speakers.get(row), question) * keptOf(question, streamWords(searched.columns, lengths));
        return new Map([...searched.index.lengths(rows)].map(([row, lengths]) => [row, weight(row, lengths)]));
      },
    },
    best: ranked[0]?.score ?? 0,
    scoreOf: (row) => (scores ??= new Map(ranked.map((one) => [one.row, one.score]))).get(row) ?? 0,
  };
}

/** What stands beside a hit and holds no word itself is no near miss. */
function missed({ question, ranked, relevant }: Found): Pick<WordAnswer, "isMet" | "holding" | "misses"> {
  return {
    isMet: ranked.length > 0,
    holding(most) {
      const latest = new Set(question.postings.flatMap(({ rows }) => rows.slice(-most)));
      return [...latest].sort((left, right) => right - left).slice(0, most);
    },
    misses(most) {
      const rows = new Set(relevant.rows);
      const left = ranked.filter((one) => one.coverage > 0 && !rows.has(one)).slice(0, most);
      return left.map((one) => ({ row: one.row, score: one.score, ...relevant.miss(one) }));
    },
  };
}

function explainer(
  postings: readonly Posting[],
  hits: readonly WordHit[],
): Pick<WordAnswer, "matchedTerms" | "coverage"> {
  // Made when first asked for: most recalls are not explained.
  let found: ReadonlyMap<number, number> | undefined;
  return {
    matchedTerms: (row) => postings.filter((posting) => holds(posting, row)).map(({ term }) => term.word),
    coverage: (row) => (found ??= new Map(hits.map((hit) => [hit.row, hit.coverage]))).get(row),
  };
}
