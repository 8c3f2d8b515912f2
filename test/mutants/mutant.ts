/** A planted fault, and who should see it. */

/** A run of the simulator, or a test file, all of it or the tests of a name. */
export type Suite =
  { readonly seeds: number; readonly shared?: boolean } | { readonly file: string; readonly named?: string };

export interface Mutant {
  readonly name: string;
  /** What it would cost. */
  readonly why: string;
  /** Below src. */
  readonly file: string;
  /** Whole lines that stand there once. */
  readonly find: readonly string[];
  /** The lines in their place. */
  readonly replace: readonly string[];
  /** Run in this order until one fails. */
  readonly suites: readonly Suite[];
}
