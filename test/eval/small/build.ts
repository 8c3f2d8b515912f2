/** A small store of facts, its cases, and short ways to write them. */

/** A fact by the name that cases use. */
export interface Fact {
  readonly name: string;
  readonly summary: string;
  /** Aliases. */
  readonly keywords?: string;
  readonly topicKey?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly type?: "fact" | "instruction" | "event" | "task";
  /** Seconds after which it is over; the suite asks later than that. */
  readonly ttlSecs?: number;
}

/** Ways in which a question meets a store. */
export type CaseKind = "alias" | "filler" | "words" | "typo" | "scope" | "negation" | "several" | "current" | "nothing";

export interface Case {
  readonly kind: CaseKind;
  readonly query: string;
  /** Names of the facts that belong to the answer. */
  readonly expected: readonly string[];
  /** Over metadata. */
  readonly filter?: Readonly<Record<string, string>>;
}

export interface Store {
  readonly name: string;
  readonly facts: readonly Fact[];
  readonly cases: readonly Case[];
}

export const fact = (name: string, summary: string, keywords = "", more: Partial<Fact> = {}): Fact => ({
  name,
  summary,
  ...(keywords && { keywords }),
  ...more,
});

/** Cases of one kind: the question, and the names of what answers it. */
export const cases = (kind: CaseKind, ...given: readonly (readonly [query: string, expected?: string])[]): Case[] =>
  given.map(([query, expected = ""]) => ({ kind, query, expected: expected.split(" ").filter(Boolean) }));

/** Cases that are asked within a scope. */
export const scoped = (
  ...given: readonly (readonly [query: string, expected: string, filter: Readonly<Record<string, string>>])[]
): Case[] =>
  given.map(([query, expected, filter]) => ({
    kind: "scope",
    query,
    expected: expected.split(" ").filter(Boolean),
    filter,
  }));
