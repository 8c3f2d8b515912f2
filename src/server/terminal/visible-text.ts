/**
 * Text that others have stored, as a terminal may be given it: no character in it commands the terminal, hides text or
 * turns its direction.
 *
 * Always true: what these functions give holds no control character (but line feeds where lines are asked for), no
 * bidirectional control and no invisible tag; each stands there as an escape that can be read. Must not know: what the
 * text is about.
 */
import stringWidth from "string-width";

/**
 * C0, DEL and C1 controls, which terminals obey; line and paragraph separators; marks that turn the direction of what
 * follows; characters that show nothing and can hide words; halves of pairs, which no encoding can hold.
 */
const hostile = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff" +
    "\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}\\p{Cs}]",
  "gu",
);

function escaped(character: string): string {
  const code = character.codePointAt(0)!;
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

/** The text in one line. */
export function visibleText(text: string): string {
  return text.replaceAll(hostile, escaped);
}

/** The text in one line, with the colours and weights that are in it already. */
export function visibleStyled(text: string): string {
  return text
    .split(/(\x1b\[[\d;]*m)/)
    .map((part, at) => (at % 2 === 1 ? part : visibleText(part)))
    .join("");
}

/** The text with its lines and tabs. */
export function visibleLines(text: string): string {
  return text.replaceAll(hostile, (character) =>
    character === "\n" ? character : character === "\t" ? "    " : escaped(character),
  );
}

/** JSON that means the same and holds none of those characters. */
export function visibleJson(json: string): string {
  return json.replaceAll(hostile, (character) =>
    Array.from({ length: character.length }, (_, at) => {
      const unit = character.charCodeAt(at);
      return character === "\n" ? character : `\\u${unit.toString(16).padStart(4, "0")}`;
    }).join(""),
  );
}

/** How many columns a terminal gives a text without control characters. */
export function columnsOf(text: string): number {
  return stringWidth(text);
}

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** The text, or its beginning and an ellipsis, in so many columns at most. */
export function cutText(text: string, columns: number): string {
  // No character is narrower than a column by more than nothing: a long text is not measured to its end.
  if (text.length <= columns * 8 && columnsOf(text) <= columns) return text;
  let kept = "";
  let width = 0;
  for (const { segment } of graphemes.segment(text.slice(0, columns * 32))) {
    const more = columnsOf(segment);
    if (width + more > columns - 1) break;
    kept += segment;
    width += more;
  }
  return `${kept}…`;
}
