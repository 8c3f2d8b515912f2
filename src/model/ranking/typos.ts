/**
 * Words of a question that nothing holds, read as stored words one edit away: for small stores, and only when the
 * question found nothing as it was written.
 *
 * Must not know: what the rows are.
 */
import { eachWord, indexForm } from "../text/tokens.ts";
import { commonness } from "./common-words.ts";
import type { Asked, AskedTerm, WeighedQuestion } from "./question.ts";
import { recipe } from "./recipe.ts";
import type { WordIndex } from "./word-index.ts";

/** Whether one letter more, less, other or swapped with its neighbour makes one word of the other. */
export function isOneEdit(left: string, right: string): boolean {
  const [short, long] = left.length <= right.length ? [left, right] : [right, left];
  if (long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at++;
  if (long.length > short.length) return short.slice(at) === long.slice(at + 1);
  if (short.slice(at + 1) === long.slice(at + 1)) return at < short.length;
  return short[at] === long[at + 1] && short[at + 1] === long[at] && short.slice(at + 2) === long.slice(at + 2);
}

/** Letters that two words begin with alike. */
function sharedLetters(left: string, right: string): number {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  return at;
}

/** Words of letters alone: of two numbers or names with digits each means another thing. */
const letters = /^\p{L}+$/u;
const mayBeMistyped = (word: string): boolean => word.length >= recipe.typoLettersMin && letters.test(word);

/** The words of the store, as they are written, or undefined where it is too much text. */
function vocabulary(
  index: WordIndex,
  admitted: (rows: readonly number[]) => ReadonlySet<number>,
): ReadonlySet<string> | undefined {
  const rows = index.firstRows(recipe.typoRowsMax + 1);
  if (rows.length > recipe.typoRowsMax) return undefined;
  const passed = admitted(rows);
  const texts = index.texts(
    rows.filter((row) => passed.has(row)),
    recipe.typoTextCharsMax,
  );
  if (texts.size < passed.size) return undefined;
  const words = new Set<string>();
  for (const columns of texts.values())
    for (const text of columns)
      eachWord(text, (start, end) => {
        const word = text.slice(start, end).toLowerCase();
        if (mayBeMistyped(word)) words.add(word);
      });
  return words;
}

/** The terms with what was mistyped put right; undefined where there is nothing to put right. */
export function mendTypos(
  index: WordIndex,
  asked: Asked,
  { postings }: WeighedQuestion,
  admitted: (rows: readonly number[]) => ReadonlySet<number>,
): Asked | undefined {
  const isUnknown = ({ term, form, rows }: WeighedQuestion["postings"][number]): boolean =>
    rows.length === 0 && !term.isPair && mayBeMistyped(term.word) && commonness(form) === 0;
  if (!postings.some(isUnknown)) return undefined;
  const words = vocabulary(index, admitted);
  if (!words) return undefined;
  let isMended = false;
  const terms = postings.map((posting): AskedTerm => {
    const { term } = posting;
    if (!isUnknown(posting)) return { term, form: posting.form };
    const near = [...words].filter((word) => isOneEdit(term.word, word));
    near.sort(
      (left, right) => sharedLetters(right, term.word) - sharedLetters(left, term.word) || (left < right ? -1 : 1),
    );
    if (near.length === 0) return { term, form: posting.form };
    isMended = true;
    return { term: { ...term, match: `"${near[0]}"` }, form: indexForm(near[0]!) };
  });
  return isMended ? { ...asked, terms } : undefined;
}
