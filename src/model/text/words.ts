/**
 * How text becomes words, the same way for what is indexed and for what is asked.
 *
 * Always true: `foldText` is applied to both sides before FTS5's own tokenizer sees them, so that only what both have
 * in common can match; stop words are dropped from questions only, so that the index can be asked for any word.
 */
import { limits } from "../../base/limits.ts";

/** Distinct query terms after stop words; further ones are ignored, as they no longer move a ranking. */
export const recallTermsMax = 64;

/**
 * How FTS5 cuts what is left. Marks count as letters (`categories`), or every vowel sign of Hindi would cut a word in
 * two; they are still dropped from Latin letters (`remove_diacritics`).
 */
export const tokenizer = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'";

/** A word of a question. */
export interface Term {
  readonly word: string;
  /** The word as FTS5 reads it: always quoted, so that nothing a user writes is ever query syntax. */
  readonly match: string;
  /** A pair of letters out of a run, which may lie across two words of it. */
  readonly isPair: boolean;
}

/** Runs of scripts that put no spaces between words: there unicode61 would take a whole sentence as one word. */
const unspacedScripts = ["Han", "Hira", "Kana", "Bopo", "Hang", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"];
const unspacedRun = new RegExp(
  `[[${unspacedScripts.map((script) => `\\p{scx=${script}}`).join("")}]&&[\\p{L}\\p{M}\\p{N}]]+`,
  "gv",
);
/** A letter with the marks that belong to it. */
const letterWithMarks = /.\p{M}*/gsu;
/** Vowel and cantillation marks that writers of Hebrew and Arabic leave out as they like. */
const optionalMarks = /[[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Inherited}]&&[\u0591-\u06ed]&&\p{Mn}]/gv;
/**
 * FTS5 knows the characters of an older Unicode: what separates words, and what is one letter in two cases, is decided
 * here.
 */
const betweenWords = /[^\p{L}\p{N}\p{M}\p{Co}]+/gu;
const ascii = /^[\x00-\x7f]*$/;

/** Overlapping pairs of letters, or the letter when it is alone. */
function splitIntoPairs(run: string): readonly string[] {
  const letters = run.match(letterWithMarks)!;
  return letters.length === 1 ? letters : letters.slice(1).map((letter, at) => letters[at]! + letter);
}

/**
 * The text in the form that is indexed and asked for: compatibility forms (NFKC) and cases unified, optional marks
 * gone, and unspaced scripts as pairs of letters. Pairs are in the same columns as words, so that one ranking and one
 * gate see a text of several scripts as a whole.
 */
export function foldText(text: string): string {
  if (ascii.test(text)) return text;
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(optionalMarks, "")
    .replace(unspacedRun, (run) => ` ${splitIntoPairs(run).join(" ")} `)
    .replace(betweenWords, " ");
}

const cutBuffer = new Uint8Array(limits.indexedTextBytesMax);

/** `foldText` of as much of the text as the index takes in. */
export function indexedText(text: string): string {
  const folded = foldText(text.slice(0, limits.indexedTextBytesMax));
  if (folded.length * 3 <= limits.indexedTextBytesMax) return folded;
  return folded.slice(0, new TextEncoder().encodeInto(folded, cutBuffer).read);
}

const months = "January February March April May June July August September October November December".split(" ");

/** Speaker and date: in the indexed text they gain 1.7 points of any@5 and 3 to 4.6 of MRR (LoCoMo). */
export function originText(speaker: string | undefined, createdAt: number): string {
  const date = new Date(createdAt);
  return `${speaker ?? ""} ${date.getUTCDate()} ${months[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

/** Words that say how a question is put, not what it is about. Months (may) and names (will) are not among them. */
const stopWords = new Set(
  `a about am an and any are as at be been being but by can could d did do does doing done for from had has have having
  he her here hers him his how i if in into is it its just ll m me my no nor not of on or our ours over re s she should
  so some such t than that the their theirs them then there these they this those to too us ve very was we were what
  when where which who whom whose why with would you your yours`.split(/\s+/),
);

/** The same in scripts that put no spaces between words, and Korean: they are cut out of a run before it is paired. */
const questionWords = new RegExp(
  [
    "什么时候|什么样|为什么|什么|怎么样|怎么|怎样|哪里|哪儿|哪个|哪家|哪些|哪|多少|多久|有没有|是不是|谁|[吗呢](?!\\p{L})",
    "どうして|どこ|いつ|だれ|誰|なぜ|どんな|(?:です|ます|でした|ました|でしょう)か(?!\\p{L})",
    "언제|어디|누구|누가|무엇|무슨|어떻게|어떤|얼마나|얼마|(?<!\\p{L})왜(?!\\p{L})",
    "อะไร|ที่ไหน|แค่ไหน|ไหน|เมื่อไหร่|เมื่อไร|เมื่อใด|เท่าไหร่|เท่าไร|ทำไม|อย่างไร|ยังไง|ใคร|ไหม|หรือไม่",
  ]
    .join("|")
    .normalize("NFKC"),
  "gu",
);

const wordPattern = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;

/**
 * The distinct words of a question in their order, stop words left out unless nothing else remains, at most
 * `recallTermsMax`. Cut as the index cuts; where FTS5's older tables of characters cut a word further, it
 * becomes a phrase of its parts.
 */
export function queryTerms(query: string): readonly Term[] {
  const telling = distinctWords(query.normalize("NFKC").replace(questionWords, " ")).filter(
    (word) => !stopWords.has(word),
  );
  return (telling.length > 0 ? telling : distinctWords(query)).slice(0, recallTermsMax).map(buildTerm);
}

/** How many distinct words a question has, stop words included. */
export function countWords(query: string): number {
  return distinctWords(query).length;
}

function distinctWords(text: string): readonly string[] {
  return [...new Set(foldText(text).toLowerCase().match(wordPattern) ?? [])];
}

function buildTerm(word: string): Term {
  const exact = `"${word}"`;
  if (word.search(unspacedRun) !== 0) return { word, match: exact, isPair: false };
  // A lone letter also finds the pairs that it begins.
  const isPair = word.match(letterWithMarks)!.length > 1;
  return { word, match: isPair ? exact : `${exact}*`, isPair };
}
