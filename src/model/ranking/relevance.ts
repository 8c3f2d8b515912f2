/**
 * Which of the ranked rows are about the question: nothing at all unless one of them is, and the others held against
 * it.
 *
 * Always true: with a floor of the client's own, that floor alone decides. Must not know: how rows are scored.
 */
import type { Evidence } from "./evidence.ts";
import { holds, rarity, type WeighedQuestion } from "./question.ts";
import { recipe } from "./recipe.ts";

/** What is known of a row when it is judged. */
export interface Judged {
  readonly score: number;
  /** The share of the question that one paragraph holds, 0 to 1. */
  readonly coverage: number;
  /** What its words tell, each by itself: about 1 for a rare one. */
  readonly telling: number;
  /** Whether its topic or an alias is a telling word of the question. */
  readonly isNamed: boolean;
  /** Whether it is beside a row that holds enough of the question. */
  readonly isBeside: boolean;
  /** Of its summary and body. */
  readonly words: number;
}

/** What a row's words tell, by how rare each is beside the rarest that there could be. */
export function tellOf(question: WeighedQuestion, { counts, aliases }: Evidence): Pick<Judged, "telling" | "isNamed"> {
  const most = rarity(question.rows, 1);
  let telling = 0;
  let isNamed = false;
  question.postings.forEach(({ weight }, at) => {
    if (counts[at] === 0) return;
    const worth = (weight / most) ** recipe.tellingPower;
    const isAlias = aliases.has(at);
    telling += isAlias ? worth : recipe.plainTelling * worth;
    isNamed ||= isAlias && worth >= recipe.namedTelling;
  });
  return { telling, isNamed };
}

/** 1 in a store of few short rows, 0 in one of many or of long ones. */
function smallness({ rows, averageWords }: WeighedQuestion): number {
  if (averageWords > recipe.wholeWords) return 0;
  const part = Math.log(rows / recipe.smallRows) / Math.log(recipe.largeRows / recipe.smallRows);
  return Math.min(1, Math.max(0, 1 - part));
}

/**
 * Whether a row that holds this share of the question anywhere may be about it by itself. Its best paragraph holds no
 * more, and a topic or an alias speaks for a row only by a word that is rare enough.
 */
export function hopeOf(
  question: WeighedQuestion,
  coverageMin: number | undefined,
): (row: number, share: number) => boolean {
  const least = coverageMin ?? recipe.floor * scaleOf(question);
  const weightMin = recipe.namedTelling ** (1 / recipe.tellingPower) * rarity(question.rows, 1);
  const naming = coverageMin === undefined ? question.postings.filter(({ weight }) => weight >= weightMin) : [];
  return (row, share) => share >= least || naming.some((posting) => holds(posting, row));
}

/** A question of many words is seldom met in one place, so that less of it must be: the part, 0 to 1. */
export function scaleOf({ postings }: WeighedQuestion): number {
  // A pair of letters is about half a word.
  const size = postings.reduce((sum, { term }) => sum + (term.isPair ? 0.5 : 1), 0);
  return Math.min(1, recipe.gateTerms / size);
}

/** What a row that was left out would have needed. */
export interface WordMiss {
  readonly reason: "below_gate" | "below_floor" | "too_common" | "drop_off";
  /** Coverage, or what its words tell; `needed` is of the same kind. */
  readonly value: number;
  readonly needed: number;
}

/** The rows that were let in, in their order, and why one of the others was not. */
export interface Relevant<Row extends Judged> {
  readonly rows: readonly Row[];
  miss(row: Row): WordMiss;
}

/** Those that are about the question. */
export function pickRelevant<Row extends Judged>(
  question: WeighedQuestion,
  ranked: readonly Row[],
  { coverageMin, isTalk }: { readonly coverageMin: number | undefined; readonly isTalk: boolean },
): Relevant<Row> {
  const uncovered = (reason: WordMiss["reason"], { coverage }: Judged, needed: number): WordMiss => {
    return { reason, value: coverage, needed };
  };
  if (coverageMin !== undefined) {
    const rows = ranked.filter(({ coverage }) => coverage >= coverageMin);
    return { rows, miss: (row) => uncovered("below_floor", row, coverageMin) };
  }
  const scale = scaleOf(question);
  const small = smallness(question);
  const isRare = question.postings.some(({ isCommon }) => !isCommon);
  const tells = ({ telling, coverage }: Judged, least: number): boolean =>
    telling >= small * least || (question.isBare && coverage >= recipe.bareCoverage) || (isRare && coverage === 1);
  const gate = ({ words }: Judged): number =>
    recipe.gate * scale * (1 + recipe.gateGrowth * Math.log(Math.max(1, words / recipe.wholeWords)));
  const tellsLittle = ({ telling }: Judged, least: number): WordMiss => {
    const reason = least > recipe.tellingMin ? "drop_off" : "too_common";
    return { reason, value: telling, needed: small * least };
  };
  if (!ranked.some((one) => one.isNamed || (one.coverage >= gate(one) && tells(one, recipe.tellingMin)))) {
    const miss = (row: Row): WordMiss =>
      row.coverage < gate(row) ? uncovered("below_gate", row, gate(row)) : tellsLittle(row, recipe.tellingMin);
    return { rows: [], miss };
  }
  const most = ranked.reduce((best, { telling }) => Math.max(best, telling), 0);
  const best = ranked.reduce((so, { score }) => Math.max(so, score), 0);
  const least = Math.max(recipe.tellingMin, recipe.dropOff * most);
  const besideMin = isTalk ? 0 : small * recipe.dropOff * best;
  const floor = recipe.floor * scale;
  const rows = ranked.filter(
    (one) => one.isNamed || (one.isBeside && one.score >= besideMin) || (one.coverage >= floor && tells(one, least)),
  );
  return {
    rows,
    miss: (row) => (row.coverage < floor ? uncovered("below_floor", row, floor) : tellsLittle(row, least)),
  };
}
