/**
 * BERT's uncased tokenizer: text to the numbers of word pieces that the model was trained on (Devlin et al., 2018; the
 * rules of the published tokenizer of the model, test/golden/minilm-v1.json).
 *
 * Always true: at most `tokensMax` numbers come, the first `[CLS]` and the last `[SEP]`; what names a special token in a
 * text is text, never a token. Letters are told apart by the Unicode of this Node.js: where the published tokenizer does
 * not know a letter yet, both give an unknown piece or nothing.
 *
 * JavaScript, as Node.js reads no TypeScript below `node_modules`.
 */

/** A longer word is one unknown piece, as it was in training. */
const wordCharsMax = 100;

/** What is left out: controls but white space, formats, private use, halves of pairs, what could not be decoded. */
const unseen = /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]/gu;
/** Each of these ideographs is a word; kana and hangul are written in words. */
const ideograph =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;
/** One mark of punctuation, which includes all of ASCII that is neither letter nor digit, or what stands between. */
const word = /[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+/gu;

/** @param {string} text */
function normalize(text) {
  const bare = text
    .replace(unseen, "")
    .replace(ideograph, " $& ")
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "");
  // Letter by letter: a sigma at the end of a word is no other letter.
  return bare.replaceAll("\u03a3", "\u03c3").toLowerCase();
}

export class WordPiece {
  /** @type {ReadonlyMap<string, number>} */
  #ids;
  #tokensMax;

  /**
   * @param {string} vocabulary A piece a line, whose number is the line's; `##` begins those that go on with a word.
   * @param {number} tokensMax
   */
  constructor(vocabulary, tokensMax) {
    this.#ids = new Map(
      vocabulary
        .trimEnd()
        .split("\n")
        .map((piece, id) => [piece, id]),
    );
    this.#tokensMax = tokensMax;
  }

  /**
   * The pieces of a text, without those that are more than the model takes.
   *
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const ids = [this.#special("[CLS]")];
    for (const [found] of normalize(text).matchAll(word)) {
      if (ids.length >= this.#tokensMax) break;
      ids.push(...this.#pieces([...found]));
    }
    return [...ids.slice(0, this.#tokensMax - 1), this.#special("[SEP]")];
  }

  /**
   * The longest piece that the word begins with, the longest that goes on from there, and so on; one unknown piece when
   * that leads nowhere.
   *
   * @param {readonly string[]} letters
   * @returns {readonly number[]}
   */
  #pieces(letters) {
    const unknown = [this.#special("[UNK]")];
    if (letters.length > wordCharsMax) return unknown;
    const ids = [];
    for (let start = 0; start < letters.length;) {
      let end = letters.length;
      let id = this.#piece(letters, start, end);
      while (id === undefined && --end > start) id = this.#piece(letters, start, end);
      if (id === undefined) return unknown;
      ids.push(id);
      start = end;
    }
    return ids;
  }

  /**
   * @param {readonly string[]} letters
   * @param {number} start
   * @param {number} end
   */
  #piece(letters, start, end) {
    return this.#ids.get((start > 0 ? "##" : "") + letters.slice(start, end).join(""));
  }

  /** @param {string} name */
  #special(name) {
    const id = this.#ids.get(name);
    if (id === undefined) throw new Error(`the vocabulary has no ${name}`);
    return id;
  }
}
