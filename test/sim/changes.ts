/** Writes of unique tokens, and what is known of whether each has happened in a state of a branch. */

/** A run of txids of one branch whose changes count. */
export interface SpanOf<Branch> {
  readonly branch: Branch;
  /** Exclusive. */
  readonly after: number;
  /** Inclusive. */
  readonly to: number;
}

/** Where a token lives. */
export type Kind = "kv" | "sql" | "memory" | "docs";

/** The writing of a token, or its removal. */
export interface ChangeOf<Branch> {
  readonly branch: Branch;
  readonly token: string;
  readonly kind: Kind;
  readonly removes: boolean;
  /**
   * The least and greatest txid it may have; equal once known, Infinity when it may still happen, empty when it never
   * did.
   */
  least: number;
  greatest: number;
  /** Was given before it was sent, so that its answer must tell a greater one. */
  readonly afterTxid: number;
  /** Whether object storage is known to cover it. */
  durable: boolean;
  /** When it was sent and answered, in virtual time. */
  readonly sentAtMs: number;
  answeredAtMs: number;
  /** What a memory's ingest called it. */
  id?: string;
}

type Verdict = "yes" | "no" | "maybe";

/** Whether a change has happened in a state. */
function happened<Branch>(change: ChangeOf<Branch>, spans: readonly SpanOf<Branch>[]): Verdict {
  let verdict: Verdict = "no";
  for (const { branch, after, to } of spans) {
    if (branch !== change.branch || change.greatest <= after || change.least > to) continue;
    if (change.least > after && change.greatest <= to) return "yes";
    verdict = "maybe";
  }
  return verdict;
}

/** Whether a token is there in a state, by its writing and its removal. */
export function computeVerdict<Branch>(
  changes: readonly ChangeOf<Branch>[],
  spans: readonly SpanOf<Branch>[],
): Verdict {
  const [written, ...removals] = changes;
  const there = happened(written!, spans);
  if (there === "no") return "no";
  let removed: Verdict = "no";
  for (const removal of removals) {
    const verdict = happened(removal, spans);
    if (verdict === "yes") return "no";
    if (verdict === "maybe") removed = "maybe";
  }
  return there === "yes" && removed === "no" ? "yes" : "maybe";
}
