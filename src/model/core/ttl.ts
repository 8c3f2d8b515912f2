/** Lifetimes as callers give them. */
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";

/** Refuses what is no lifetime; `name` is the field. */
export function checkTtl(name: string, ttlSecs: number): void {
  if (!Number.isInteger(ttlSecs) || ttlSecs < 0 || ttlSecs > limits.ttlSecsMax)
    throw invalid(`${name} must be a whole number of seconds from 0 to ${limits.ttlSecsMax}`);
}
