/**
 * The lines of a text, each with its line feed; the last may lack one.
 *
 * Always true: nothing is built for lines that nobody asks for: a text of 1 MiB may have as many lines as characters.
 */

const lineFeed = 10;

/** Where the line that begins at the offset ends, its line feed included. */
export function lineEnd(text: string, offset: number): number {
  const at = text.indexOf("\n", offset);
  return at < 0 ? text.length : at + 1;
}

/** How many lines there are. */
export function countLines(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) === lineFeed) count++;
  return text === "" || text.endsWith("\n") ? count : count + 1;
}

/** Where the first `count` lines end; the text's end when it has no more. */
export function offsetAfter(text: string, count: number): number {
  let left = count;
  for (let at = 0; at < text.length && left > 0; at++)
    if (text.charCodeAt(at) === lineFeed && --left === 0) return at + 1;
  return count === 0 ? 0 : text.length;
}

/** The lines from one to another, counted from 1, both included; as far as they are there. */
export function sliceLines(text: string, first: number, last: number): string {
  return text.slice(offsetAfter(text, first - 1), offsetAfter(text, last));
}
