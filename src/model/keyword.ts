/**
 * The keyword channel: one FTS5 table over what a memory says, and how it is asked.
 *
 * Always true: a memory's indexed text has the memory's row number and is written and removed at the end of the commit
 * group, in the order of the commands; deleted words leave the index's pages (`secure-delete`), for which the table
 * must keep its own text (a contentless one ignores that option). Must not know: fusion, vectors.
 */
import { limits } from "../base/limits.ts";
import { textLeaves } from "./content.ts";
import type { Json } from "./docs-json.ts";
import { admitted, type Conditions } from "./recall-conditions.ts";
import type { Tx, View } from "./transaction.ts";
import { indexedText, queryTerms, type Term } from "./words.ts";

/**
 * The table. Marks count as letters (`categories`), or every vowel sign of Hindi would cut a word in two; they are
 * dropped from Latin letters all the same (`remove_diacritics`).
 */
export const keywordSchema = `
CREATE VIRTUAL TABLE __service_memory_text USING fts5 (
  topic, summary, body, origin,
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
INSERT INTO __service_memory_text (__service_memory_text, rank) VALUES ('secure-delete', 1);
`;

/** BM25 weights of the columns, in the order of the table. */
const columnWeights = "4.0, 2.0, 1.0, 1.0";

/**
 * The share of a question's words, weighted by how rare each is, that the best hit must cover for the question to be
 * about anything that is stored. On LoCoMo it keeps 95 % of the questions and drops 83 % of those put to the wrong
 * conversation.
 */
const gateCoverage = 0.3;

/**
 * The share that every further hit must cover. The full gate on each hit would cost 3 points of any@8 (turns of LoCoMo);
 * this costs none, and drops those that share one common word with the question.
 */
const hitCoverage = 0.15;

/**
 * Rarity is reckoned as if the database held this many memories more: in one of three memories every word would look
 * common, and a question with one unknown word would find nothing. In large ones it changes nothing (measured: area
 * under the curve at 27 documents .960 without, .972 with it; at 600 .969 and .970).
 */
const memoriesPresumed = 20;

/** What a memory says, as far as words can find it. */
export interface MemoryText {
  readonly topicKey: string | undefined;
  readonly keywords: string | undefined;
  readonly summary: string;
  readonly content: Json;
  readonly source: string | undefined;
  readonly createdAt: number;
}

const months = "January February March April May June July August September October November December".split(" ");

/** Speaker and date: in the indexed text they gain 1.7 points of any@5 and 3 to 4.6 of MRR (LoCoMo). */
function originOf(text: MemoryText): string {
  const date = new Date(text.createdAt);
  return `${text.source ?? ""} ${date.getUTCDate()} ${months[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

/** Makes the memory of this row findable by its words. The row must not be indexed already. */
export function indexMemory(tx: Tx, row: number, text: MemoryText): void {
  const columns = [
    `${text.topicKey ?? ""} ${text.keywords ?? ""}`,
    text.summary,
    textLeaves(text.content, limits.indexedTextBytesMax).join("\n"),
    originOf(text),
  ].map(indexedText);
  tx.atGroupEnd(() => {
    tx.connection.run("INSERT INTO __service_memory_text (rowid, topic, summary, body, origin) VALUES (?, ?, ?, ?, ?)", row, ...columns);
  });
}

/** Removes the words of the memory of this row. */
export function unindexMemory(tx: Tx, row: number): void {
  tx.atGroupEnd(() => {
    tx.connection.run("DELETE FROM __service_memory_text WHERE rowid = ?", row);
  });
}

export interface KeywordHit {
  readonly row: number;
  /** BM25; larger is better. */
  readonly bm25: number;
}

export interface KeywordAnswer {
  /** Best first, ties newer first. */
  readonly hits: readonly KeywordHit[];
  /** The question's words that the memory of a row holds, in the question's order. */
  matchedTerms(row: number): string[];
  /** The share of the question's words that a hit covers, weighted by rarity, 0 to 1; undefined for a row that is no hit. */
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

/** The rows that hold a term, and what holding it is worth. */
interface Posting {
  readonly term: Term;
  readonly rows: readonly number[];
  readonly weight: number;
}

/** The inverse document frequency of BM25, kept positive. */
function rarity(memories: number, holders: number): number {
  const all = memories + memoriesPresumed;
  return Math.log(1 + (all - holders + 0.5) / (holders + 0.5));
}

function postingsOf(view: View, query: string): readonly Posting[] {
  const { memories } = view.connection.get<{ memories: number }>("SELECT count(*) AS memories FROM __service_memory")!;
  const holders = view.connection.prepared("SELECT rowid FROM __service_memory_text WHERE __service_memory_text MATCH ?").pluck();
  return queryTerms(query).map((term) => {
    const rows = holders.all(term.match) as number[];
    // A pair that nobody holds more often lies across two words of the question than it is a word unknown here.
    const doubt = term.isPair && rows.length === 0 ? 0.5 : 1;
    return { term, rows, weight: doubt * rarity(memories, rows.length) };
  });
}

interface Coverage {
  /** How many rows hold any of the terms. */
  readonly matched: number;
  /** The rows that cover at least the floor, with their share of the question's weight. */
  readonly enough: ReadonlyMap<number, number>;
}

/** Rows are summed in windows of this many: ten times as fast as a map of all of them, and no larger when rows are sparse. */
const windowRows = 4096;

/**
 * Who covers at least `floor` of the question's weight. The sums run in the order of the terms, so that a full cover is
 * exactly 1; the rows of a posting are in ascending order, as FTS5 gives them.
 */
function coverageOf(postings: readonly Posting[], floor: number): Coverage {
  const total = postings.reduce((sum, { weight }) => sum + weight, 0);
  const enough = new Map<number, number>();
  const sums = new Float64Array(windowRows);
  const ahead = postings.map(() => 0);
  let matched = 0;
  for (;;) {
    const first = postings.reduce((least, { rows }, at) => Math.min(least, rows[ahead[at]!] ?? Infinity), Infinity);
    if (first === Infinity) return { matched, enough };
    sums.fill(0);
    postings.forEach(({ rows, weight }, at) => {
      let next = ahead[at]!;
      for (; next < rows.length && rows[next]! < first + windowRows; next++) sums[rows[next]! - first]! += weight;
      ahead[at] = next;
    });
    for (let at = 0; at < windowRows; at++) {
      const sum = sums[at]!;
      if (sum === 0) continue;
      matched++;
      if (sum / total >= floor) enough.set(first + at, sum / total);
    }
  }
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
  const postings = postingsOf(view, search.query);
  const gate = search.coverageMin ?? gateCoverage;
  const { matched, enough } = coverageOf(postings, search.coverageMin ?? hitCoverage);
  const isOpen = enough.values().some((coverage) => coverage >= gate);
  const best = isOpen ? rank(view, search, termsOf(postings), { rows: [...enough.keys()], areAll: enough.size === matched }) : [];
  // Again on what the filters let through: what is hidden must not open the gate for what is shown.
  const hits = best.some(({ row }) => enough.get(row)! >= gate) ? best : [];
  return { hits, ...explainer(postings, hits, enough) };
}

function explainer(postings: readonly Posting[], hits: readonly KeywordHit[], coverage: ReadonlyMap<number, number>): Pick<KeywordAnswer, "matchedTerms" | "coverage"> {
  // Made when first asked for: most recalls are not explained.
  let holders: readonly ReadonlySet<number>[] | undefined;
  let found: ReadonlySet<number> | undefined;
  return {
    matchedTerms(row) {
      const sets = (holders ??= postings.map(({ rows }) => new Set(rows)));
      return postings.filter((_, at) => sets[at]!.has(row)).map(({ term }) => term.word);
    },
    coverage: (row) => ((found ??= new Set(hits.map((hit) => hit.row))).has(row) ? coverage.get(row) : undefined),
  };
}

/** The rows that BM25 is to rank. */
interface Candidates {
  readonly rows: readonly number[];
  /** Whether they are all rows that match. */
  readonly areAll: boolean;
}

function termsOf(postings: readonly Posting[]): string {
  return postings.map(({ term }) => term.match).join(" OR ");
}

/** The best candidates that meet the conditions, by BM25; ties newer first. */
function rank(view: View, search: KeywordSearch, match: string, candidates: Candidates): readonly KeywordHit[] {
  const { conditions, want } = search;
  // Asking the memories' own rows costs more than BM25 does. Where most are expected to pass, the best twice as many as
  // wanted are taken first and only they are asked about (50,000 memories, one common word: half the time).
  if (!conditions.narrow && candidates.rows.length > 8 * want) {
    const best = ranked(view, match, candidates, undefined, 2 * want);
    const passed = admitted(view, conditions, best.map(({ row }) => row));
    const hits = best.filter(({ row }) => passed.has(row));
    if (hits.length >= want) return hits.slice(0, want);
  }
  return ranked(view, match, candidates, conditions, want);
}

function ranked(view: View, match: string, candidates: Candidates, conditions: Conditions | undefined, want: number): readonly KeywordHit[] {
  // A later memory has a higher row: a row number comes back only when it was the highest.
  // The plus keeps SQLite from turning the list into one FTS5 search per row.
  return view.connection.all(
    `SELECT t.rowid AS row, -bm25(__service_memory_text, ${columnWeights}) AS bm25
     FROM __service_memory_text AS t ${conditions ? "CROSS JOIN __service_memory AS m ON m.row = t.rowid" : ""}
     WHERE __service_memory_text MATCH ?
       ${candidates.areAll ? "" : "AND +t.rowid IN (SELECT value FROM json_each(?))"} ${conditions ? `AND ${conditions.sql}` : ""}
     ORDER BY bm25 DESC, t.rowid DESC LIMIT ?`,
    match,
    ...(candidates.areAll ? [] : [JSON.stringify(candidates.rows)]),
    ...(conditions?.params ?? []),
    want,
  );
}
