/** Which known word a mistyped one may mean. */

/** This many letters may differ, be missing or be too many, and no more than a third of the word. */
const slipsMax = 2;

/** The known word that is nearest to the one that was written; undefined when none is near. */
export function findNearestWord(written: string, known: readonly string[]): string | undefined {
  const near = known
    .map((word) => ({ word, slips: slipsBetween(written, word) }))
    .filter(({ word, slips }) => slips <= Math.min(slipsMax, Math.floor(word.length / 3)));
  return near.toSorted((a, b) => a.slips - b.slips)[0]?.word;
}

/** Letters to change, add or take away (Levenshtein); words of very different lengths are taken for different. */
function slipsBetween(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > slipsMax) return Infinity;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
