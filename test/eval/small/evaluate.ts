/** How well recall answers a small store: of what it gives how much belongs there, and of what belongs how much. */
import type { Target } from "../targets.ts";
import type { Case, CaseKind, Store } from "./build.ts";

/** So many are asked for, as most agents do. */
const k = 8;

/** One case as it was answered: names of facts, best first. */
export interface Outcome {
  readonly store: string;
  readonly asked: Case;
  readonly found: readonly string[];
}

export interface SmallMeasures {
  readonly cases: number;
  /** Of all that was given, the share that was expected; 1 where nothing was given. */
  readonly precision: number;
  /** Of all that was expected, the share that was given; 1 where nothing was expected. */
  readonly recall: number;
  /** The share of the cases that were answered with what was expected and nothing else. */
  readonly exact: number;
}

export async function askStores(target: Target, stores: readonly Store[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const { name: store, facts, cases } of stores) {
    const profile = store.replaceAll(" ", "-");
    const ids = await target.ingest(
      profile,
      facts.map(({ summary, keywords, topicKey, metadata, type = "fact", ttlSecs }) => ({
        type,
        summary,
        content: null,
        ...(keywords === undefined ? {} : { keywords }),
        ...(topicKey === undefined ? {} : { topic_key: topicKey }),
        ...(metadata === undefined ? {} : { metadata }),
        ...(ttlSecs === undefined ? {} : { ttl: ttlSecs }),
      })),
    );
    await target.wait(Math.max(0, ...facts.map(({ ttlSecs = 0 }) => ttlSecs)));
    const names = new Map(ids.map((id, at) => [id, facts[at]!.name]));
    for (const asked of cases) {
      const { query, filter } = asked;
      const found = await target.recall(profile, { query, k, ...(filter && { filter }) });
      outcomes.push({ store, asked, found: found.map((id) => names.get(id)!) });
    }
  }
  return outcomes;
}

export function measureSmall(outcomes: readonly Outcome[]): SmallMeasures {
  let given = 0;
  let wanted = 0;
  let right = 0;
  let exact = 0;
  for (const { asked, found } of outcomes) {
    const hits = found.filter((name) => asked.expected.includes(name)).length;
    given += found.length;
    wanted += asked.expected.length;
    right += hits;
    if (hits === found.length && hits === asked.expected.length) exact++;
  }
  return {
    cases: outcomes.length,
    precision: given === 0 ? 1 : right / given,
    recall: wanted === 0 ? 1 : right / wanted,
    exact: exact / outcomes.length,
  };
}

export function byKind(outcomes: readonly Outcome[]): Map<CaseKind, SmallMeasures> {
  return new Map(
    [...Map.groupBy(outcomes, ({ asked }) => asked.kind)].map(([kind, some]) => [kind, measureSmall(some)]),
  );
}
