/**
 * The lines of a text that say most of what was asked.
 *
 * Always true: what is given stands in the text as it is, at most `filePassageCharsMax` characters of it. Must not
 * know: how files are ranked.
 */
import { indexForm, WordFinder } from "../text/tokens.ts";
import { foldText } from "../text/words.ts";
import { lineEnd } from "./file-lines.ts";

export const filePassageCharsMax = 1_000;
/** A longer line is looked at in pieces. */
const pieceCharsMax = 500;
const pieceLinesMax = 8;

export interface FilePassage {
  readonly firstLine: number;
  readonly lastLine: number;
  readonly text: string;
}

interface Piece {
  readonly line: number;
  readonly text: string;
  readonly keys: ReadonlySet<number>;
}

/** Of the many pieces that have none of the words. */
const noKeys: ReadonlySet<number> = new Set();

/** The best passage for the words, which are folded; undefined where none of them is in the text. */
export function findPassage(text: string, words: readonly string[]): FilePassage | undefined {
  const pieces = cutPieces(text, words);
  const holders = words.map(() => 0);
  for (const { keys } of pieces) for (const key of keys) holders[key]!++;
  const weigh = (keys: ReadonlySet<number>): number =>
    [...keys].reduce((sum, key) => sum + Math.log(1 + pieces.length / holders[key]!), 0);
  let best: { readonly from: number; readonly to: number; readonly weight: number } | undefined;
  for (let from = 0; from < pieces.length; from++) {
    if (pieces[from]!.keys.size === 0) continue;
    const keys = new Set<number>();
    let chars = 0;
    for (let to = from; to < Math.min(pieces.length, from + pieceLinesMax); to++) {
      const piece = pieces[to]!;
      chars += piece.text.length;
      if (chars > filePassageCharsMax) break;
      const before = keys.size;
      for (const key of piece.keys) keys.add(key);
      // A passage ends with a line that adds a word.
      if (keys.size === before) continue;
      const weight = weigh(keys);
      if (!best || weight > best.weight) best = { from, to, weight };
    }
  }
  if (!best) return undefined;
  const chosen = pieces.slice(best.from, best.to + 1);
  return {
    firstLine: chosen[0]!.line,
    lastLine: chosen.at(-1)!.line,
    text: chosen.map((piece) => piece.text).join(""),
  };
}

function cutPieces(text: string, words: readonly string[]): readonly Piece[] {
  const forms = new Map(words.map((word, key) => [indexForm(word), key]));
  // A lone letter of a script without spaces also finds the pairs that it begins.
  const letters = words.flatMap((word, key) => (/^[^\x00-\x7f]\p{M}*$/u.test(word) ? [[word, key] as const] : []));
  const finder = new WordFinder(
    [...forms.keys()],
    (form) => forms.get(form) ?? letters.find(([letter]) => form.startsWith(letter))?.[1],
  );
  const pieces: Piece[] = [];
  let line = 0;
  for (let start = 0, end; start < text.length; start = end) {
    end = lineEnd(text, start);
    line++;
    for (let from = start; from < end; from += pieceCharsMax) {
      const cut = text.slice(from, Math.min(end, from + pieceCharsMax));
      const { places } = finder.places(foldText(cut.toWellFormed()));
      pieces.push({ line, text: cut, keys: places.length === 0 ? noKeys : new Set(places.map(({ key }) => key)) });
    }
  }
  return pieces;
}
