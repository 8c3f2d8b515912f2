/** What is measured of ranked answers against the evidence of a question. */

/** One question as it was answered. */
export interface Answered {
  readonly category: string;
  /** Distinct ids, best first. */
  readonly found: readonly string[];
  /** Not empty. */
  readonly evidence: readonly string[];
}

export interface Measures {
  readonly questions: number;
  /** Share of questions with any piece of the evidence among the first k. */
  readonly any: number;
  /** Share of questions with all of the evidence among the first k. */
  readonly all: number;
  /** Mean share of the evidence among the first k. */
  readonly fraction: number;
  /** Mean of 1 / rank of the first piece of evidence, 0 where none was found. */
  readonly mrr: number;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function measure(answers: readonly Answered[], k: number): Measures {
  const shares = answers.map(({ found, evidence }) => {
    const first = new Set(found.slice(0, k));
    return evidence.filter((id) => first.has(id)).length / evidence.length;
  });
  const ranks = answers.map(({ found, evidence }) => found.findIndex((id) => evidence.includes(id)) + 1);
  return {
    questions: answers.length,
    any: mean(shares.map((share) => (share > 0 ? 1 : 0))),
    all: mean(shares.map((share) => (share === 1 ? 1 : 0))),
    fraction: mean(shares),
    mrr: mean(ranks.map((rank) => (rank === 0 ? 0 : 1 / rank))),
  };
}
