/**
 * The words of an indexed text as FTS5 holds them: cut, bare of Latin diacritics, stemmed.
 *
 * Always true: for text that `foldText` has folded the words are those of the tokenizer that `words.ts` names
 * (test/unit/model/text/tokens.test.ts compares them), but where FTS5's older tables of characters cut a word further.
 * Must not know: questions, rows.
 */
import { stemWord } from "./porter.ts";

const ascii = /^[\x00-\x7f]*$/;
/** Latin letters with the marks that FTS5 takes off them, both as `normalize("NFD")` writes them. */
const markedLatin = /([a-z])[\u0300-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331]+/g;

/** A word, in lower case, as the index holds it. */
export function indexForm(word: string): string {
  if (ascii.test(word)) return stemWord(word);
  const bare = word.normalize("NFD").replace(markedLatin, "$1").normalize("NFC");
  return stemWord(bare.replaceAll("ς", "σ"));
}

/** Which ASCII characters belong to words; all others of a folded text do. */
const isWordCode = Uint8Array.from({ length: 128 }, (_, code) =>
  /[a-zA-Z0-9]/.test(String.fromCharCode(code)) ? 1 : 0,
);
const [firstUpper, lastUpper, toLower] = [65, 90, 32];

const lowerCode = (code: number): number => (code >= firstUpper && code <= lastUpper ? code + toLower : code);

/** Calls `visit` with the place of each word of a folded text, in its order. */
export function eachWord(text: string, visit: (start: number, end: number) => void): void {
  const { length } = text;
  let at = 0;
  for (;;) {
    let code = 0;
    while (at < length && (code = text.charCodeAt(at)) < 128 && isWordCode[code] === 0) at++;
    if (at === length) return;
    const start = at;
    do at++;
    while (at < length && ((code = text.charCodeAt(at)) >= 128 || isWordCode[code] === 1));
    visit(start, at);
  }
}

/** A word that was looked for: the key it has there, and its place. */
export interface Place {
  readonly key: number;
  /** Of its first character in the text. */
  readonly offset: number;
  /** Of the word among the words of the text. */
  readonly ordinal: number;
}

/** Looks for words in many texts; remembers what each form of a word is. */
export class WordFinder {
  readonly #find: (form: string) => number | undefined;
  readonly #known = new Map<string, number>();
  /** Which beginnings of two letters are worth a look: stemming leaves them as they are. */
  readonly #beginnings = new Uint8Array(128 * 128);

  /** `beginnings` are those of the words that `find` knows; `find` gives the key of a word as the index holds it. */
  constructor(beginnings: readonly string[], find: (form: string) => number | undefined) {
    this.#find = find;
    for (const word of beginnings) {
      const [first, second] = [word.charCodeAt(0), word.length > 1 ? word.charCodeAt(1) : 0];
      if (first < 128 && second < 128) this.#beginnings[first * 128 + second] = 1;
    }
  }

  /** The places of the words in the text, in its order; `words` counts all of its words. */
  places(text: string): { readonly places: readonly Place[]; readonly words: number } {
    const places: Place[] = [];
    let words = 0;
    eachWord(text, (start, end) => {
      if (this.#isWorthALook(text, start, end)) {
        const key = this.#keyOf(text.slice(start, end));
        if (key >= 0) places.push({ key, offset: start, ordinal: words });
      }
      words++;
    });
    return { places, words };
  }

  #isWorthALook(text: string, start: number, end: number): boolean {
    const first = lowerCode(text.charCodeAt(start));
    const second = end - start > 1 ? lowerCode(text.charCodeAt(start + 1)) : 0;
    return first >= 128 || second >= 128 || this.#beginnings[first * 128 + second] === 1;
  }

  #keyOf(word: string): number {
    const known = this.#known.get(word);
    if (known !== undefined) return known;
    const key = this.#find(indexForm(word.toLowerCase())) ?? -1;
    this.#known.set(word, key);
    return key;
  }
}
