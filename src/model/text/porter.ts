/**
 * Porter's stemmer ("An algorithm for suffix stripping", 1980) exactly as SQLite's FTS5 runs it, so that a word stemmed
 * here is the word that its index holds (test/unit/model/text/tokens.test.ts compares them). Must not know: where words
 * come from.
 */

/** FTS5 leaves words of fewer and of more bytes as they are. */
const [bytesMin, bytesMax] = [3, 64];

const ascii = /^[\x00-\x7f]*$/;

const isVowel = (char: string | undefined): boolean => char !== undefined && "aeiou".includes(char);

/**
 * For each letter whether it is a consonant; `y` is one at the beginning and after a vowel. Any byte that is no vowel
 * counts as one.
 */
function consonants(stem: string): boolean[] {
  const found: boolean[] = [];
  for (let at = 0; at < stem.length; at++) {
    const afterConsonant = at > 0 && found[at - 1]!;
    found.push(!(isVowel(stem[at]) || (stem[at] === "y" && afterConsonant)));
  }
  return found;
}

/** Porter's m: how often a consonant follows a vowel. */
function measure(stem: string): number {
  const found = consonants(stem);
  return found.filter((consonant, at) => at > 0 && consonant && !found[at - 1]!).length;
}

/** Whether there is a vowel; a `y` that is not the first letter is one here. */
function hasVowel(stem: string): boolean {
  return [...stem].some((char, at) => isVowel(char) || (char === "y" && at > 0));
}

/** Porter's *o: ends consonant, vowel, consonant, the last of them not w, x or y. */
function endsShort(stem: string): boolean {
  if (/[wxy]$/.test(stem)) return false;
  const [first, second, third] = consonants(stem).slice(-3);
  return first === true && second === false && third === true;
}

function stripPlural(word: string): string {
  if (!word.endsWith("s")) return word;
  if (word.at(-2) === "e") {
    const isDouble =
      (word.length > 4 && word.at(-4) === "s" && word.at(-3) === "s") || (word.length > 3 && word.at(-3) === "i");
    return word.slice(0, isDouble ? -2 : -1);
  }
  return word.at(-2) === "s" ? word : word.slice(0, -1);
}

function mendStem(stem: string): string {
  const completed = [
    ["at", "ate"],
    ["bl", "ble"],
    ["iz", "ize"],
  ] as const;
  for (const [ending, whole] of completed)
    if (stem.length > 2 && stem.endsWith(ending)) return stem.slice(0, -2) + whole;
  const last = stem.at(-1);
  if (!isVowel(last) && !/[lsz]$/.test(stem) && last === stem.at(-2)) return stem.slice(0, -1);
  return measure(stem) === 1 && endsShort(stem) ? `${stem}e` : stem;
}

function stripPast(word: string): string {
  if (word.length > 3 && word.endsWith("eed")) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  for (const ending of ["ed", "ing"]) {
    if (word.length <= ending.length || !word.endsWith(ending)) continue;
    const stem = word.slice(0, -ending.length);
    return hasVowel(stem) ? mendStem(stem) : word;
  }
  return word;
}

type Endings = readonly (readonly [ending: string, replacement: string])[];

/** Where endings overlap the first that fits is taken. */
const doubleSuffixes: Endings = [
  ["ational", "ate"],
  ["tional", "tion"],
  ["enci", "ence"],
  ["anci", "ance"],
  ["izer", "ize"],
  ["logi", "log"],
  ["bli", "ble"],
  ["alli", "al"],
  ["entli", "ent"],
  ["ousli", "ous"],
  ["eli", "e"],
  ["ization", "ize"],
  ["ation", "ate"],
  ["ator", "ate"],
  ["alism", "al"],
  ["iveness", "ive"],
  ["fulness", "ful"],
  ["ousness", "ous"],
  ["aliti", "al"],
  ["iviti", "ive"],
  ["biliti", "ble"],
];

const derivedSuffixes: Endings = [
  ["ical", "ic"],
  ["ness", ""],
  ["icate", "ic"],
  ["iciti", "ic"],
  ["ful", ""],
  ["ative", ""],
  ["alize", "al"],
];

const lastSuffixes: Endings = [
  "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(" "),
].flatMap((endings) => endings.map((ending) => [ending, ""] as const));

/** Replaces the first ending that fits, when what is before it has more than this measure. */
function replaceEnding(word: string, endings: Endings, measureAbove: number): string {
  const found = endings.find(([ending]) => word.length > ending.length && word.endsWith(ending));
  if (!found) return word;
  const stem = word.slice(0, -found[0].length);
  if (found[0] === "ion" && !/[st]$/.test(stem)) return word;
  return measure(stem) > measureAbove ? stem + found[1] : word;
}

function stripLastLetters(word: string): string {
  let stem = word;
  if (stem.endsWith("e")) {
    const bare = stem.slice(0, -1);
    const size = measure(bare);
    if (size > 1 || (size === 1 && !endsShort(bare))) stem = bare;
  }
  return stem.endsWith("ll") && measure(stem.slice(0, -1)) > 1 ? stem.slice(0, -1) : stem;
}

function stemBytes(word: string): string {
  if (word.length < bytesMin || word.length > bytesMax) return word;
  let stem = stripPast(stripPlural(word));
  if (stem.endsWith("y") && hasVowel(stem.slice(0, -1))) stem = `${stem.slice(0, -1)}i`;
  stem = replaceEnding(stem, doubleSuffixes, 0);
  stem = replaceEnding(stem, derivedSuffixes, 0);
  stem = replaceEnding(stem, lastSuffixes, 1);
  return stripLastLetters(stem);
}

/** The stem of a word in lower case. */
export function stemWord(word: string): string {
  if (ascii.test(word)) return stemBytes(word);
  return Buffer.from(stemBytes(Buffer.from(word).toString("latin1")), "latin1").toString();
}
