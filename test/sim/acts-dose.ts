/** How often clients of several nodes do what is rarer than reading and writing. */
import { stream } from "./scheduler.ts";

/** How often clients do what is rarer than reading and writing; chances are per call. */
export interface ActsDose {
  readonly fork: number;
  readonly rewind: number;
  readonly checkpoint: number;
  readonly deletion: number;
  readonly deleteTarget: number;
}

/** What clients of a seed do besides reading and writing: most have some of everything, some have much of one thing. */
export function planActs(seed: number): ActsDose {
  const random = stream(seed, "acts");
  const some = (chance: number, most: number): number => (random() < chance ? random() * most : 0);
  return {
    fork: some(0.8, 0.06),
    rewind: some(0.7, 0.05),
    checkpoint: some(0.6, 0.04),
    deletion: some(0.6, 0.04),
    deleteTarget: some(0.4, 0.015),
  };
}
