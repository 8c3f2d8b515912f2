/**
 * One evaluation: every question of a set put to what keeps its conversations, and to plain BM25 over the same texts.
 */
import { rankingVersion } from "../../src/model/recall.ts";
import type { Conversation, Corpus } from "./corpus.ts";
import { intervals, measure, type Answered, type Interval, type MeasureName, type Measures } from "./measures.ts";
import { plainTarget, type Target } from "./targets.ts";
import { Keeper, levelsOf, type Found, type Level, type Shape, type UnitName } from "./units.ts";

/** So deep a ranking is asked for: the reciprocal rank looks beyond k. */
const depthMin = 50;
/** Questions of LoCoMo that are built to mislead: they have evidence, and are counted apart. */
const apart = "adversarial";

export interface Options {
  readonly unit: UnitName;
  readonly shape: Shape;
  readonly k: number;
  /** With the gate off every question is answered, which measures the ranking alone. */
  readonly gate: "on" | "off";
  /** Whether all conversations share one profile. */
  readonly together: boolean;
}

/** Both rankings on one level of evidence. */
interface LevelReport {
  readonly overall: Measures;
  readonly plain: Measures;
  readonly categories: Readonly<Record<string, Measures>>;
  readonly plainCategories: Readonly<Record<string, Measures>>;
  /** 95 % intervals of the own measure, and of what it gains over plain BM25. */
  readonly intervals: Readonly<Partial<Record<MeasureName, { readonly own: Interval; readonly gain: Interval }>>>;
}

export interface Report extends Options {
  readonly dataset: string;
  readonly sha256: string;
  readonly rankingVersion: number;
  readonly levels: { readonly [Name in Level]?: LevelReport };
  /**
   * Shares that found nothing: of the questions that have an answer here; of those put to another conversation; of
   * those that the set calls unanswerable.
   */
  readonly ownEmpty: number | undefined;
  readonly foreignEmpty: number | undefined;
  readonly unanswerableEmpty: number | undefined;
  readonly recallP50Ms: number;
}

const share = (values: readonly boolean[]): number | undefined =>
  values.length === 0 ? undefined : values.filter(Boolean).length / values.length;

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

const profileOf = ({ name }: Conversation, { together }: Options): string =>
  together ? "all" : name.toLowerCase().replace(/[^a-z0-9]/g, "-");
const prefixOf = ({ name }: Conversation, { together }: Options): string => (together ? `${name}/` : "");

/** What is asked of one target, with what it took. */
class Asker {
  readonly times: number[] = [];
  readonly #keeper: Keeper;
  readonly #options: Options;

  constructor(target: Target, options: Options) {
    this.#keeper = new Keeper(target, options.unit, options.shape);
    this.#options = options;
  }

  fill(conversation: Conversation): Promise<void> {
    return this.#keeper.fill(
      profileOf(conversation, this.#options),
      prefixOf(conversation, this.#options),
      conversation,
    );
  }

  async ask(conversation: Conversation, text: string): Promise<Found> {
    const { k, gate } = this.#options;
    const startedAt = performance.now();
    const found = await this.#keeper.ask(
      profileOf(conversation, this.#options),
      text,
      Math.max(k, depthMin),
      gate === "off" ? { keywordMin: 0 } : {},
    );
    this.times.push(performance.now() - startedAt);
    return found;
  }
}

function levelReport(own: readonly Answered[], plain: readonly Answered[], k: number): LevelReport {
  const counted = (some: readonly Answered[]): Answered[] => some.filter(({ category }) => category !== apart);
  const byCategory = (some: readonly Answered[]): Record<string, Measures> =>
    Object.fromEntries(
      [...Map.groupBy(some, ({ category }) => category)].map(([name, ofOne]) => [name, measure(ofOne, k)]),
    );
  return {
    overall: measure(counted(own), k),
    plain: measure(counted(plain), k),
    categories: byCategory(own),
    plainCategories: byCategory(plain),
    intervals: Object.fromEntries(
      (["any", "all", "fraction", "mrr"] as const).map((name) => [
        name,
        intervals(counted(own), counted(plain), k, name),
      ]),
    ),
  };
}

export async function evaluate(target: Target, corpus: Corpus, options: Options): Promise<Report> {
  const { unit, k, gate } = options;
  const levels = levelsOf[unit];
  const plainly = plainTarget();
  const own = new Asker(target, options);
  const plain = new Asker(plainly, options);
  const answers = new Map(levels.map((level) => [level, { own: [] as Answered[], plain: [] as Answered[] }]));
  const ownEmpty: boolean[] = [];
  const foreignEmpty: boolean[] = [];
  const unanswerableEmpty: boolean[] = [];
  const isEmpty = (found: Found): boolean => found[levels[0]!]!.length === 0;
  const { conversations } = corpus;
  for (const conversation of conversations) {
    await own.fill(conversation);
    await plain.fill(conversation);
  }
  for (const [at, conversation] of conversations.entries()) {
    const prefix = prefixOf(conversation, options);
    const other = conversations[(at + 1) % conversations.length]!;
    for (const question of conversation.questions) {
      const { text, category, isAnswerable } = question;
      const hasEvidence = question[levels[0]!].length > 0;
      // A set may name no evidence for what it calls answerable: nothing can be measured of that.
      if (isAnswerable && !hasEvidence) continue;
      const found = await own.ask(conversation, text);
      if (!isAnswerable && category !== apart) unanswerableEmpty.push(isEmpty(found));
      if (isAnswerable) ownEmpty.push(isEmpty(found));
      if (hasEvidence && (isAnswerable || category === apart)) {
        const beside = await plain.ask(conversation, text);
        for (const level of levels) {
          const evidence = question[level].map((ids) => ids.map((id) => prefix + id));
          answers.get(level)!.own.push({ category, found: found[level]!, evidence });
          answers.get(level)!.plain.push({ category, found: beside[level]!, evidence });
        }
      }
      if (gate === "on" && isAnswerable && other !== conversation && !options.together)
        foreignEmpty.push(isEmpty(await own.ask(other, text)));
    }
  }
  await plainly.close();
  return {
    ...options,
    dataset: corpus.kind,
    sha256: corpus.sha256,
    rankingVersion,
    levels: Object.fromEntries([...answers].map(([level, some]) => [level, levelReport(some.own, some.plain, k)])),
    ownEmpty: share(ownEmpty),
    foreignEmpty: share(foreignEmpty),
    unanswerableEmpty: share(unanswerableEmpty),
    recallP50Ms: median(own.times),
  };
}
