/**
 * What the text of a row says to a question: how often it holds each word, how much of the question one paragraph
 * holds, and which successive words of the question stand together.
 *
 * A row is read as one stream, its summary and its body; the topic and the origin speak for every paragraph.
 */
import { WordFinder, type Place } from "../text/tokens.ts";
import { recipe } from "./recipe.ts";
import { holds, type WeighedQuestion } from "./question.ts";

/** Columns of an index by what they are for the ranking; texts and lengths come in the same order. */
export type ColumnRole = "topic" | "summary" | "body" | "origin";

export interface Evidence {
  /** By term: how often, weighted by column; 0 where the row does not hold it. */
  readonly counts: readonly number[];
  /** The most of the question's weight that one paragraph holds, 0 to 1. */
  readonly share: number;
  /** The pairs of successive words that stand together, each the index of its first term, ascending. */
  readonly pairs: readonly number[];
  /** Terms that the topic or the aliases hold. */
  readonly aliases: ReadonlySet<number>;
}

/** Where matching words of a row are. */
interface Reading {
  readonly everywhere: ReadonlySet<number>;
  readonly stream: readonly Place[];
  readonly words: number;
}

/** Reads rows for one question. */
export class EvidenceReader {
  readonly #question: WeighedQuestion;
  readonly #columns: readonly ColumnRole[];
  readonly #finder: WordFinder;
  /** Indices of the terms that tell something, in the question's order: successive ones make pairs. */
  readonly #telling: readonly number[];

  constructor(question: WeighedQuestion, columns: readonly ColumnRole[]) {
    this.#question = question;
    this.#columns = columns;
    const { postings } = question;
    const exact = new Map<string, number>();
    postings.forEach(({ form }, at) => {
      if (!exact.has(form)) exact.set(form, at);
    });
    const prefixes = postings.flatMap(({ term, form }, at) => (term.match.endsWith("*") ? [[form, at] as const] : []));
    this.#finder = new WordFinder(
      postings.map(({ form }) => form),
      (form) => exact.get(form) ?? prefixes.find(([prefix]) => form.startsWith(prefix))?.[1],
    );
    this.#telling = postings.flatMap(({ isFrame }, at) => (isFrame ? [] : [at]));
  }

  /** What the row says; without texts only that it holds its words, each once, as if in one paragraph. */
  read(row: number, texts: readonly string[] | undefined): Evidence {
    const { postings } = this.#question;
    const held = postings.map((posting) => holds(posting, row));
    const counts = held.map((is) => (is ? 1 : 0));
    if (!texts) {
      const own = { everywhere: new Set(counts.flatMap((count, at) => (count > 0 ? [at] : []))), stream: [], words: 0 };
      return { counts, share: this.#share(own), pairs: [], aliases: new Set() };
    }
    const found = postings.map(() => 0);
    const everywhere = new Set<number>();
    const aliases = new Set<number>();
    const stream: Place[] = [];
    let [chars, words] = [0, 0];
    this.#columns.forEach((role, column) => {
      const text = texts[column]!;
      const read = this.#finder.places(text);
      const weight = role === "topic" ? recipe.topicWeight : role === "summary" ? recipe.summaryWeight : 1;
      const isBeside = role === "topic" || role === "origin";
      const isShort = role === "summary" && text.length <= recipe.paragraphChars;
      for (const place of read.places) {
        found[place.key]! += weight;
        if (role === "topic") aliases.add(place.key);
        if (isBeside || isShort) everywhere.add(place.key);
        if (!isBeside) stream.push({ key: place.key, offset: chars + place.offset, ordinal: words + place.ordinal });
      }
      if (isBeside) return;
      chars += text.length + 1;
      // A gap, so that no pair lies across two columns.
      words += read.words + recipe.pairGap + 1;
    });
    // The index has said which terms it holds; what is not found in the text is cut in another way there.
    held.forEach((is, at) => {
      if (!is) found[at] = 0;
      else if (found[at] === 0) {
        found[at] = 1;
        everywhere.add(at);
      }
    });
    const own = { everywhere, stream: stream.filter(({ key }) => held[key]), words };
    return { counts: found, share: this.#share(own), pairs: this.#pairs(own), aliases };
  }

  /** Summed in the question's order, so that a full cover is exactly 1. */
  #share({ everywhere, stream, words }: Reading): number {
    const { postings, totalWeight } = this.#question;
    const inside = postings.map((_, at) => (everywhere.has(at) ? 1 : 0));
    const weigh = (): number => postings.reduce((sum, { weight }, at) => (inside[at]! > 0 ? sum + weight : sum), 0);
    if (words <= recipe.wholeWords) {
      for (const { key } of stream) inside[key]!++;
      return weigh() / totalWeight;
    }
    let best = weigh();
    let first = 0;
    for (const { key, offset } of stream) {
      for (; stream[first]!.offset < offset - recipe.paragraphChars; first++) inside[stream[first]!.key]!--;
      if (inside[key]!++ === 0) best = Math.max(best, weigh());
    }
    return best / totalWeight;
  }

  #pairs({ stream }: Reading): readonly number[] {
    const pairs = new Set<number>();
    const next = new Map(this.#telling.map((at, place) => [at, this.#telling[place + 1]]));
    stream.forEach(({ key, ordinal }, at) => {
      for (let ahead = at + 1; ahead < stream.length; ahead++) {
        const other = stream[ahead]!;
        if (other.ordinal - ordinal > recipe.pairGap + 1) break;
        if (next.get(key) === other.key) pairs.add(key);
        else if (next.get(other.key) === key) pairs.add(other.key);
      }
    });
    return [...pairs].sort((left, right) => left - right);
  }
}
