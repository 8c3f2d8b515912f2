/**
 * Regular expressions of clients: RE2's language, in time that grows with the text and never with its square.
 *
 * Always true: no pattern is larger than the bounds, whatever its counters multiply; the time is looked at every few
 * hundred characters, so that a match holds its thread no longer than a slice. Must not know: documents, SQL.
 */
import { RE2JS, RE2JSException } from "re2js";
import { invalid } from "../../base/faults/errors.ts";
import { LruMap } from "../../base/collections/lru-map.ts";

const patternCharsMax = 1000;
/** Instructions of a pattern. A character of the text takes 12 ns for each of them at worst (measured). */
const programMax = 1000;
/** Characters between two looks at the time: 3 ms of the largest pattern. */
const lookChars = 256;
/** Patterns kept ready in a thread: the most of a filter. The library keeps up to 8 MiB of states of each. */
export const regexesMax = 16;

const flags: Readonly<Record<string, number>> = {
  i: RE2JS.CASE_INSENSITIVE,
  m: RE2JS.MULTILINE,
  s: RE2JS.DOTALL,
};

const compiled = new LruMap<string, RE2JS>(regexesMax);

/** Refuses a pattern that is none or too large, and options that are unknown. */
export function checkRegex(at: string, pattern: string, options: string): void {
  if (pattern.length > patternCharsMax) throw invalid(`${at} must be at most ${patternCharsMax} characters`);
  if (![...options].every((option) => Object.hasOwn(flags, option)) || new Set(options).size < options.length)
    throw invalid(`${at} has the options ${Object.keys(flags).join(", ")}, each once`);
  let program: RE2JS;
  try {
    program = compile(pattern, options);
  } catch (error) {
    // The library's own words may repeat the pattern, which is content.
    if (!(error instanceof RE2JSException)) throw error;
    throw invalid(
      `${at} must be a regular expression of RE2: there are no back references and no looking around, and counters ` +
        "make 1000 repetitions at most",
    );
  }
  if (program.programSize() > programMax)
    throw invalid(`${at} is too large: alternatives and counters make it ${programMax} steps at most`);
}

/** Whether the pattern is found anywhere in the text. `look` may throw: then the search ends so. */
export function matchesRegex(pattern: string, options: string, text: string, look: () => void): boolean {
  const program = compile(pattern, options);
  try {
    return program.test(text.length <= lookChars ? text : (new WatchedText(text, look) as unknown as string));
  } catch (error) {
    // What was interrupted in the middle is not used again.
    compiled.delete(keyOf(pattern, options));
    throw error;
  }
}

const keyOf = (pattern: string, options: string): string => `${options}/${pattern}`;

function compile(pattern: string, options: string): RE2JS {
  const key = keyOf(pattern, options);
  let program = compiled.get(key);
  if (!program) {
    program = RE2JS.compile(
      pattern,
      [...options].reduce((sum, option) => sum | flags[option]!, 0),
    );
    compiled.set(key, program);
  }
  return program;
}

/**
 * A text that looks at the time as it is read. The library takes an object of strings for a text, and reads it by these
 * two methods.
 */
class WatchedText extends String {
  readonly #look: () => void;
  #reads = 0;

  constructor(text: string, look: () => void) {
    super(text);
    this.#look = look;
  }

  override charCodeAt(at: number): number {
    if (++this.#reads % lookChars === 0) this.#look();
    return super.charCodeAt(at);
  }
}
