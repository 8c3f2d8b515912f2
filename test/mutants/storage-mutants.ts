/** Faults in what stands below the engine: SQLite's files, formats, stores. */
import type { Mutant } from "./mutants.ts";

export const storageMutants: readonly Mutant[] = [];
