/** Faults in the engine. */
import type { Mutant } from "./mutants.ts";

export const engineMutants: readonly Mutant[] = [];
