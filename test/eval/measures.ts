/** What is measured of ranked answers against the evidence of a question, and how sure that is. */
import type { Evidence } from "./corpus.ts";

/** One question as it was answered. */
export interface Answered {
  readonly category: string;
  /** Distinct ids, best first. */
  readonly found: readonly string[];
  /** Not empty. */
  readonly evidence: Evidence;
}

/** What one question gave. */
interface Outcome {
  readonly any: number;
  readonly all: number;
  readonly fraction: number;
  readonly mrr: number;
  readonly empty: number;
}

export type MeasureName = keyof Outcome;

/** Means over the questions. */
export interface Measures extends Outcome {
  readonly questions: number;
}

/**
 * `any`: whether any piece of the evidence is among the first k. `all`: whether every piece is. `fraction`: the share
 * of the pieces. `mrr`: 1 / rank of the first piece, however far down, 0 where none was found. `empty`: whether nothing
 * at all was found.
 */
function judge({ found, evidence }: Answered, k: number): Outcome {
  const first = new Set(found.slice(0, k));
  const share = evidence.filter((ids) => ids.some((id) => first.has(id))).length / evidence.length;
  const wanted = new Set(evidence.flat());
  const rank = found.findIndex((id) => wanted.has(id)) + 1;
  return {
    any: Number(share > 0),
    all: Number(share === 1),
    fraction: share,
    mrr: rank === 0 ? 0 : 1 / rank,
    empty: Number(found.length === 0),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function measure(answers: readonly Answered[], k: number): Measures {
  const outcomes = answers.map((answer) => judge(answer, k));
  const over = (name: MeasureName): number => mean(outcomes.map((outcome) => outcome[name]));
  return {
    questions: answers.length,
    any: over("any"),
    all: over("all"),
    fraction: over("fraction"),
    mrr: over("mrr"),
    empty: over("empty"),
  };
}

export type Interval = readonly [low: number, high: number];

const resamples = 2_000;

/** A small generator of its own (mulberry32), so that the same answers give the same intervals. */
function makeRandom(): () => number {
  let state = 1;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** 95 % of the means of so many values drawn from these with replacement (bootstrap). */
function interval(values: readonly number[]): Interval {
  const random = makeRandom();
  const means = Array.from({ length: resamples }, () =>
    mean(values.map(() => values[Math.floor(random() * values.length)]!)),
  ).sort((a, b) => a - b);
  return [means[Math.floor(0.025 * resamples)]!, means[Math.ceil(0.975 * resamples) - 1]!];
}

/** How sure a mean is, and the mean of what is left of it without `beside`, question by question. */
export function intervals(
  answers: readonly Answered[],
  beside: readonly Answered[],
  k: number,
  name: MeasureName,
): { readonly own: Interval; readonly gain: Interval } {
  const own = answers.map((answer) => judge(answer, k)[name]);
  const other = beside.map((answer) => judge(answer, k)[name]);
  return { own: interval(own), gain: interval(own.map((value, at) => value - other[at]!)) };
}
