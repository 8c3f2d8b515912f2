/**
 * The keyword channel: one FTS5 table over what a memory says, and how it is asked.
 *
 * Always true: a memory's indexed text has the memory's row number and is written and removed at the end of the commit
 * group, in the order of the commands; deleted words leave the index's pages (`secure-delete`), for which the table
 * must keep its own text (a contentless one ignores that option). Must not know: fusion, vectors.
 */
import { limits } from "../../base/limits.ts";
import { textLeaves } from "../core/content.ts";
import {
  anyTerm,
  computeCoverage,
  gateCoverage,
  isRelevant,
  hitCoverage,
  holds,
  findPostings,
  type Posting,
} from "../text/coverage.ts";
import type { Json } from "../core/docs-json.ts";
import { computePassageCovers, computeWholeCover } from "../text/passages.ts";
import { admitted, type Conditions } from "./recall-conditions.ts";
import type { Tx, View } from "../core/transaction.ts";
import { indexedText, originText, tokenizer } from "../text/words.ts";

/** In databases of at most this many memories a recall also ranks by words that begin like the question's. */
export const widenedMemoriesMax = 5_000;

/** The table. */
export const keywordSchema = `
CREATE VIRTUAL TABLE __service_memory_text USING fts5 (
  topic, summary, body, origin,
  tokenize = "${tokenizer}"
);
INSERT INTO __service_memory_text (__service_memory_text, rank) VALUES ('secure-delete', 1);
`;

/** BM25 weights of the columns, in the order of the table. */
const columnWeights = "4.0, 2.0, 1.0, 1.0";

/** What a memory says, as far as words can find it. */
export interface MemoryText {
  readonly topicKey: string | undefined;
  readonly keywords: string | undefined;
  readonly summary: string;
  readonly content: Json;
  readonly source: string | undefined;
  readonly createdAt: number;
}

/** Makes the memory of this row findable by its words. The row must not be indexed already. */
export function indexMemory(tx: Tx, row: number, text: MemoryText): void {
  const columns = [
    `${text.topicKey ?? ""} ${text.keywords ?? ""}`,
    text.summary,
    textLeaves(text.content, limits.indexedTextBytesMax).join("\n"),
    originText(text.source, text.createdAt),
  ].map(indexedText);
  tx.atGroupEnd(() => {
    tx.connection.run(
      "INSERT INTO __service_memory_text (rowid, topic, summary, body, origin) VALUES (?, ?, ?, ?, ?)",
      row,
      ...columns,
    );
  });
}

/** Removes the words of the memory of this row. */
export function unindexMemory(tx: Tx, row: number): void {
  tx.atGroupEnd(() => {
    tx.connection.run("DELETE FROM __service_memory_text WHERE rowid = ?", row);
  });
}

interface KeywordHit {
  readonly row: number;
  /** BM25, the less the farther the matching words are apart; larger is better. Not comparable between questions. */
  readonly score: number;
  /** 1 for those that were too much text to be looked into: they come after all others. */
  readonly grade: number;
  /** The share of the question's words that one passage covers, weighted by rarity, 0 to 1. */
  readonly coverage: number;
}

export interface KeywordAnswer {
  /** Best first, ties newer first. */
  readonly hits: readonly KeywordHit[];
  /** The question's words that the memory of a row holds, in the question's order. */
  matchedTerms(row: number): string[];
  /** The coverage of a hit; undefined for a row that is no hit. */
  coverage(row: number): number | undefined;
}

export interface KeywordSearch {
  readonly query: string;
  readonly conditions: Conditions;
  /** How many hits are wanted at most. */
  readonly want: number;
  /** The client's own floor of coverage, for every hit alike; absent: the gates above. */
  readonly coverageMin: number | undefined;
}

/** A question as it is asked of this database. */
interface Asked {
  readonly postings: readonly Posting[];
  /** The FTS5 query that ranks. */
  readonly match: string;
  /** Whether it also finds rows that hold no word of the question, which then cover nothing of it. */
  readonly isWide: boolean;
}

/**
 * Among few memories an answer is often put in another form of the question's words, so that words which begin alike
 * rank too; among many there are answers in its own words, and looking for others costs time (LoCoMo's sessions: all@5
 * .797 without, .801 with it, MRR .823 and .827).
 */
function weighQuestion(view: View, query: string): Asked {
  const { memories } = view.connection.get<{ memories: number }>("SELECT count(*) AS memories FROM __service_memory")!;
  const postings = findPostings(view, "__service_memory_text", memories, query);
  const isWide = memories <= widenedMemoriesMax;
  return { postings, match: anyTerm(postings, isWide), isWide };
}

/**
 * Finds memories by the words of a question: any word may match, BM25 ranks, and the gate decides whether the question
 * is about anything here at all. Rows are filtered inside, so that no other memory can crowd out an allowed one.
 *
 * Coverage comes first because it is cheap: reading the rows of each word takes a quarter of what BM25 takes, and BM25
 * then looks only at the one row in five that covers enough. Measured at 10,000 memories: 2.5 ms against 2.9 ms for the
 * same words as a bare FTS5 query; asking FTS5 row by row instead (`rowid = ?`) takes 200 ms.
 */
export function searchKeywords(view: View, search: KeywordSearch): KeywordAnswer {
  const asked = weighQuestion(view, search.query);
  const { postings, match, isWide } = asked;
  const gate = search.coverageMin ?? gateCoverage;
  const floor = search.coverageMin ?? hitCoverage;
  const { matched, enough } = computeCoverage(postings, floor);
  const best = isRelevant(enough.values(), gate)
    ? rank(view, search, match, {
        rows: [...enough.keys()],
        areAll: enough.size === matched && (!isWide || floor === 0),
      })
    : [];
  const looked = byPassages(view, asked, best, enough);
  // Again on passages, and on what the filters let through: what is hidden must not open the gate for what is shown.
  const covered = looked.map(({ coverage }) => coverage);
  const hits = isRelevant(covered, gate) ? looked.filter(({ coverage }) => coverage >= floor) : [];
  return { hits, ...explainer(postings, hits) };
}

/** The same rows, better ones first when the closeness of their matching words counts too. */
function byPassages(
  view: View,
  { postings, match }: Asked,
  ranked: readonly Ranked[],
  coverage: ReadonlyMap<number, number>,
): readonly KeywordHit[] {
  const { covers, unread } = computePassageCovers(
    view,
    postings,
    match,
    ranked.map(({ row }) => row),
  );
  const hits = ranked.map(({ row, bm25 }) => {
    const whole = coverage.get(row) ?? 0;
    const { paragraph, worth } = covers.get(row) ?? computeWholeCover(whole);
    return { row, score: bm25 * worth, grade: unread.has(row) ? 1 : 0, coverage: paragraph };
  });
  return hits.sort((left, right) => left.grade - right.grade || right.score - left.score || right.row - left.row);
}

function explainer(
  postings: readonly Posting[],
  hits: readonly KeywordHit[],
): Pick<KeywordAnswer, "matchedTerms" | "coverage"> {
  // Made when first asked for: most recalls are not explained.
  let found: ReadonlyMap<number, number> | undefined;
  return {
    matchedTerms: (row) => postings.filter((posting) => holds(posting, row)).map(({ term }) => term.word),
    coverage: (row) => (found ??= new Map(hits.map((hit) => [hit.row, hit.coverage]))).get(row),
  };
}

interface Ranked {
  readonly row: number;
  readonly bm25: number;
}

/** The rows that BM25 is to rank. */
interface Candidates {
  readonly rows: readonly number[];
  /** Whether they are all rows that match. */
  readonly areAll: boolean;
}

/** The best candidates that meet the conditions, by BM25; ties newer first. */
function rank(view: View, search: KeywordSearch, match: string, candidates: Candidates): readonly Ranked[] {
  const { conditions, want } = search;
  // Asking the memories' own rows costs more than BM25 does. Where most are expected to pass, the best twice as many as
  // wanted are taken first and only they are asked about (50,000 memories, one common word: half the time).
  if (!conditions.narrow && candidates.rows.length > 8 * want) {
    const best = ranked(view, match, candidates, undefined, 2 * want);
    const passed = admitted(
      view,
      conditions,
      best.map(({ row }) => row),
    );
    const hits = best.filter(({ row }) => passed.has(row));
    if (hits.length >= want) return hits.slice(0, want);
  }
  return ranked(view, match, candidates, conditions, want);
}

function ranked(
  view: View,
  match: string,
  candidates: Candidates,
  conditions: Conditions | undefined,
  want: number,
): readonly Ranked[] {
  // A later memory has a higher row: a row number comes back only when it was the highest.
  // The plus keeps SQLite from turning the list into one FTS5 search per row.
  return view.connection.all(
    `SELECT t.rowid AS row, -bm25(__service_memory_text, ${columnWeights}) AS bm25
     FROM __service_memory_text AS t ${conditions ? "CROSS JOIN __service_memory AS m ON m.row = t.rowid" : ""}
     WHERE __service_memory_text MATCH ?
       ${candidates.areAll ? "" : "AND +t.rowid IN (SELECT value FROM json_each(?))"}
       ${conditions ? `AND ${conditions.sql}` : ""}
     ORDER BY bm25 DESC, t.rowid DESC LIMIT ?`,
    match,
    ...(candidates.areAll ? [] : [JSON.stringify(candidates.rows)]),
    ...(conditions?.params ?? []),
    want,
  );
}
