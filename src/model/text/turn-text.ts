/**
 * The words of the transcript: one FTS5 table over what was said, and how it is asked.
 *
 * Owns its table, which is made when the first turn is appended: earlier files stay as they are and are still read, but
 * words do not find their older turns. Always true: a row's number is its turn's; rows are written and removed at the
 * end of the commit group, in the order of the commands, and deleted words leave the index's pages (`secure-delete`).
 * Must not know: vectors, memories.
 */
import { limits } from "../../base/limits.ts";
import { textLeaves } from "../core/content.ts";
import { anyTerm, computeCoverage, hitCoverage, findPostings, totalWeight, type Posting } from "./coverage.ts";
import type { Json } from "../core/docs-json.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import { indexedText, originText, tokenizer } from "./words.ts";

/** Turns whose neighbours a search by words looks at, unless more are asked for: about 5 ms. */
const turnSeedsMax = 500;

const table = "__service_turn_text";

const turnTextSchema = `
CREATE VIRTUAL TABLE ${table} USING fts5 (said, origin, tokenize = "${tokenizer}");
INSERT INTO ${table} (${table}, rank) VALUES ('secure-delete', 1);
`;

function hasTurnText(connection: Connection): boolean {
  return connection.hasTable(table);
}

/**
 * SQL that finds words of turns that are gone; undefined while no turn was ever indexed. Throws when index and texts
 * differ.
 */
export function strayTurnText(connection: Connection): string | undefined {
  if (!hasTurnText(connection)) return undefined;
  connection.exec(`INSERT INTO ${table} (${table}) VALUES ('integrity-check')`);
  return `SELECT 1 FROM ${table}_content WHERE id NOT IN (SELECT row FROM __service_turn) LIMIT 1`;
}

/** Makes the turn of this row findable by its words, by who spoke and when. */
export function indexTurn(
  tx: Tx,
  row: number,
  turn: { readonly role: string; readonly content: Json; readonly createdAt: number },
): void {
  const said = indexedText(textLeaves(turn.content, limits.indexedTextBytesMax).join("\n"));
  const origin = indexedText(originText(turn.role, turn.createdAt));
  tx.atGroupEnd(() => {
    if (!hasTurnText(tx.connection)) tx.connection.exec(turnTextSchema);
    tx.connection.run(`INSERT INTO ${table} (rowid, said, origin) VALUES (?, ?, ?)`, row, said, origin);
  });
}

/** Removes the words of the turns of these rows. */
export function unindexTurns(tx: Tx, rows: readonly number[]): void {
  tx.atGroupEnd(() => {
    if (!hasTurnText(tx.connection)) return;
    for (const row of rows) tx.connection.run(`DELETE FROM ${table} WHERE rowid = ?`, row);
  });
}

/**
 * What a word counts when it is the turn's own, of the next turn to either side, or of the one after. An answer is
 * often beside the words that were asked for: on LoCoMo this lifts any@8 of turns from .67 to .77.
 */
const neighbourWeights = [1, 0.5, 0.25] as const;

/**
 * As `gateCoverage` of memories, and a little more, because neighbours cover too: on LoCoMo it keeps 96 % and drops 84
 * %.
 */
const turnGateCoverage = 0.32;

export interface TurnTextSearch {
  readonly query: string;
  /** Turns of this session only. */
  readonly sessionId: string | undefined;
  /** How many turns are wanted at most. */
  readonly want: number;
  /** The client's own floor of coverage, for every turn alike; absent: that of the service. */
  readonly coverageMin: number | undefined;
}

/**
 * Row numbers of the turns that the question is about, best first, ties newer first. A turn is judged by its own words
 * and those around it in its session: by the share of the question's words that they cover, and among those that cover
 * about as much by BM25. The neighbours are looked up when asked, so that a turn is indexed once and nothing that was
 * said before has to be written again.
 */
export function searchTurnText(view: View, { query, sessionId, want, coverageMin }: TurnTextSearch): readonly number[] {
  if (!hasTurnText(view.connection)) return [];
  const { turns } = view.connection.get<{ turns: number }>("SELECT count(*) AS turns FROM __service_turn")!;
  const everywhere = findPostings(view, table, turns, query);
  const postings = sessionId === undefined ? everywhere : within(view, everywhere, sessionId);
  const seeds = pickSeeds(postings, Math.max(turnSeedsMax, want));
  if (seeds.length === 0) return [];
  const ranked = rank(view, postings, seeds);
  const gate = coverageMin ?? turnGateCoverage;
  if (!ranked.some(({ coverage }) => coverage >= gate)) return [];
  const enough = ranked.filter(({ coverage }) => coverage >= (coverageMin ?? hitCoverage));
  return enough.slice(0, want).map(({ row }) => row);
}

/** The postings of one session; what a word is worth stays what it is worth everywhere. */
function within(view: View, postings: readonly Posting[], sessionId: string): readonly Posting[] {
  const ofSession = new Set(
    view.connection.prepared("SELECT row FROM __service_turn WHERE session_id = ?").pluck().all(sessionId) as number[],
  );
  return postings.map((posting) => ({ ...posting, rows: posting.rows.filter((row) => ofSession.has(row)) }));
}

/**
 * Shares of the question from which seeds are looked for: a lower one only where too few have more, as most turns share
 * a common word.
 */
const seedCoverages = [0.4, 0.2, 0.1, 0] as const;

/** The turns that hold the most of the question themselves, up to a bound; of equals the newer. */
function pickSeeds(postings: readonly Posting[], most: number): readonly number[] {
  for (const floor of seedCoverages) {
    const { matched, enough } = computeCoverage(postings, floor);
    if (enough.size < most && enough.size < matched) continue;
    const own = [...enough].sort(([row, coverage], [otherRow, other]) => other - coverage || otherRow - row);
    return own.slice(0, most).map(([row]) => row);
  }
  return [];
}

/** A turn that holds words of the question, or is beside one that does. */
interface Candidate {
  readonly row: number;
  /** For each word the best weight with which it counts here. */
  readonly words: Float64Array;
  bm25: number;
}

interface Ranked {
  readonly row: number;
  /** Share of the question's words, those of neighbours at their lower weight. */
  readonly coverage: number;
  readonly score: number;
}

function rank(view: View, postings: readonly Posting[], seeds: readonly number[]): readonly Ranked[] {
  const asked = JSON.stringify(seeds);
  const bm25 = new Map(
    view.connection
      .all<{ row: number; bm25: number }>(
        // The plus keeps SQLite from turning the list into one FTS5 search per row.
        `SELECT t.rowid AS row, -bm25(${table}) AS bm25 FROM ${table} AS t WHERE ${table} MATCH ? AND +t.rowid ` +
          "IN (SELECT value FROM json_each(?))",
        anyTerm(postings),
        asked,
      )
      .map((hit) => [hit.row, hit.bm25]),
  );
  const best = bm25.values().reduce((most, value) => Math.max(most, value), 0);
  const held = new Map(seeds.map((row) => [row, [] as number[]]));
  postings.forEach(({ rows }, at) => {
    for (const row of rows) held.get(row)?.push(at);
  });
  const reach = neighbourWeights.length - 1;
  const around = view.connection.all<{ seed: number; row: number; steps: number }>(
    `SELECT s.row AS seed, t.row, abs(t.seq - s.seq) AS steps FROM json_each(?) AS asked
     CROSS JOIN __service_turn AS s ON s.row = asked.value
     CROSS JOIN __service_turn AS t ON t.session_id = s.session_id
       AND t.seq BETWEEN s.seq - ${reach} AND s.seq + ${reach}
     ORDER BY s.row, t.row`,
    asked,
  );
  const candidates = new Map<number, Candidate>();
  for (const { seed, row, steps } of around) {
    const candidate = candidates.get(row) ?? { row, words: new Float64Array(postings.length), bm25: 0 };
    candidates.set(row, candidate);
    const weight = neighbourWeights[steps]!;
    for (const at of held.get(seed)!) candidate.words[at] = Math.max(candidate.words[at]!, weight);
    candidate.bm25 += weight * ((bm25.get(seed) ?? 0) / best);
  }
  const total = totalWeight(postings);
  const ranked = [...candidates.values()].map(({ row, words, bm25: near }) => {
    const coverage = postings.reduce((sum, { weight }, at) => sum + words[at]! * weight, 0) / total;
    return { row, coverage, score: coverage * (0.5 + near) };
  });
  return ranked.sort((left, right) => right.score - left.score || right.row - left.row);
}
