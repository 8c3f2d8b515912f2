/**
 * Leaves a provider alone that has failed several times in a row, and asks it with one call at a time whether it is
 * back.
 *
 * Always true: while it is open no call passes; while it is half open one does. Must not know: what a call is.
 */
import type { World } from "../base/world.ts";

/** Failures in a row after which a provider is left alone, and for how long: it doubles with each failed probe. */
export const breakerFailures = 5;
export const breakerOpenMs = 1_000;
export const breakerOpenMsMax = 60_000;

/** How an attempt ended, as far as it tells of the provider. */
export type AttemptOutcome = "answered" | "failed" | "unknown";

export class Breaker {
  readonly #world: World;
  #failures = 0;
  #openMs = 0;
  /** On world.monotonicMs(): nothing passes before; undefined while it is closed. */
  #openUntilMs: number | undefined;
  #probing = false;

  constructor(world: World) {
    this.#world = world;
  }

  /** Whether an attempt would pass now. */
  get passes(): boolean {
    if (this.#openUntilMs === undefined) return true;
    return !this.#probing && this.#world.monotonicMs() >= this.#openUntilMs;
  }

  /** Lets an attempt pass, which ends by telling its outcome once; undefined when none may. */
  enter(): ((outcome: AttemptOutcome) => void) | undefined {
    if (!this.passes) return undefined;
    const isProbe = this.#openUntilMs !== undefined;
    if (isProbe) this.#probing = true;
    return (outcome) => {
      if (isProbe) this.#probing = false;
      if (outcome === "answered") this.#close();
      // What was let in before it opened proves nothing new.
      if (outcome === "failed" && (isProbe || this.#openUntilMs === undefined)) this.#failed(isProbe);
    };
  }

  #close(): void {
    this.#failures = 0;
    this.#openMs = 0;
    this.#openUntilMs = undefined;
  }

  #failed(isProbe: boolean): void {
    if (!isProbe && ++this.#failures < breakerFailures) return;
    this.#openMs = Math.min(breakerOpenMsMax, this.#openMs === 0 ? breakerOpenMs : this.#openMs * 2);
    this.#openUntilMs = this.#world.monotonicMs() + this.#openMs;
  }
}
