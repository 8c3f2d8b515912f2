/**
 * Text that was stored, made fit to be one line of a prompt: folded to a line, with nothing in it that is not seen.
 *
 * Always true of what `reveal` gives: it has no control character, no invisible one and none that turns the direction
 * of writing, but as an escape that can be read; nothing in it looks like a tag of a block. Whatever is escaped is
 * escaped as in JSON, so that in a JSON string it means what was stored. Must not know: budgets, lines.
 */

/** All that is white, with what some programs take for the end of a line, is one space. */
const white = /[\s\u0085]+/gu;

/** The text on one line, without space around it. */
export function fold(text: string): string {
  return text.replace(white, " ").trim();
}

/**
 * What joins or parts letters in Arabic or Indic writing, or makes one of several emoji: kept between such, as it is
 * part of how they are spelt, and told anywhere else.
 */
const joined = String.raw`[[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]--\p{Script=Latin}]`;
/**
 * What is not seen: controls, formats (zero-width, directions, tags), fillers, and variants of characters that have
 * none. Many of them in a row can spell a sentence that only a model reads.
 */
const unseen = [
  String.raw`(?<!${joined})[\u200c\u200d]`,
  String.raw`[\u200c\u200d](?!${joined})`,
  String.raw`(?<!\p{Emoji})[\ufe0e\ufe0f]`,
  String.raw`[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]`,
  String.raw`[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0d\u{e0100}-\u{e01ef}]`,
];
/** The beginning of a tag like those of a block, as a sloppy reader might take it. */
const tagStart = String.raw`[<\uff1c\ufe64](?=\s*[\/\uff0f]?\s*memory)`;
const told = new RegExp([...unseen, tagStart].join("|"), "giv");

/** The same text with escapes (\u…) for what is not seen, and for the beginnings of tags. */
export function reveal(text: string): string {
  return text.replace(told, (characters) =>
    Array.from({ length: characters.length }, (_, at) => escapeUnit(characters.charCodeAt(at))).join(""),
  );
}

function escapeUnit(unit: number): string {
  return String.raw`\u${unit.toString(16).padStart(4, "0")}`;
}

const ellipsis = "…";

/** The nearest space is taken for the end of a word if it is as near as this; else the cut is between characters. */
const wordCharsMax = 40;

/**
 * The longest beginning of a folded text, of at most `charsMax`, that fits with an ellipsis behind it, cut behind a
 * word where one ends near; undefined when nothing of it does.
 */
export function cut(text: string, charsMax: number, fits: (beginning: string) => boolean): string | undefined {
  const shown = (length: number): string => `${text.slice(0, length).trimEnd()}${ellipsis}`;
  let low = 0;
  let high = Math.min(text.length, charsMax);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(shown(middle))) low = middle;
    else high = middle - 1;
  }
  let end = low;
  if (end < text.length) {
    const wordEnd = text.slice(Math.max(0, end - wordCharsMax), end + 1).lastIndexOf(" ");
    if (wordEnd >= 0) end = Math.max(0, end - wordCharsMax) + wordEnd;
    else while (end > 0 && isWithinCharacter(text, end)) end--;
  }
  return end > 0 && fits(shown(end)) ? shown(end) : undefined;
}

/** Whether a cut here would part a character, or a sign from the letter that it stands on. */
function isWithinCharacter(text: string, at: number): boolean {
  if (/^[\udc00-\udfff]/.test(text.slice(at, at + 1))) return true;
  return /^[\p{M}\p{Cf}\p{Emoji_Modifier}]/u.test(text.slice(at, at + 2));
}
