/**
 * Makes missing vectors in the background: the embedder failed, or was configured after the texts came.
 *
 * Always true:
 * - one database at a time and a bounded step at a time
 * - only databases that clients use are looked at
 * - where policy forbids it nothing is done
 *
 * It may forget a database at any time: the next call to it brings it back.
 *
 * Must not know: what a step does.
 */
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import { sleep, type World } from "../../base/world.ts";
import type { Target } from "../../engine/api/protocol.ts";
import type { AuditEntry } from "../../control/audit/audit-entry.ts";
import type { EmbeddedKind } from "../../model/memory/memory-vectors.ts";
import type { CallOptions } from "../../engine/api/engine-port.ts";
import type { ModelFailureKind } from "../../ai/model-failure.ts";

/** Databases that wait for a backfill, and those that are remembered to need none. */
const backfillsWaitingMax = 10_000;
const backfillsCompleteMax = 100_000;
/** Pause between steps of a backfill, and after one that did nothing. */
export const backfillPauseMs = 20;
export const backfillRetryMs = 2_000;
/** A database that needed none is looked at again after this, while it is in use. */
const backfillAgainMs = 600_000;

/** A branch of a profile's memory. */
export interface Place {
  readonly namespace: string;
  readonly profile: string;
  readonly target: Target;
}

/** A step through what has no vector yet. */
export interface Step {
  readonly place: Place;
  readonly identity: AuditEntry["identity"];
  readonly kind: EmbeddedKind;
  /** The row that the step before ended at; 0 for the first. */
  readonly after: number;
  readonly options: CallOptions;
}

/** The outcome of a step. */
export interface Stepped {
  readonly filled: number;
  /** What the model gave no vector for. */
  readonly left: number;
  /** Why it gave none; then the step is to be done again. */
  readonly failure: ModelFailureKind | undefined;
  /** Undefined when the kind is through. */
  readonly next: number | undefined;
  readonly txid: number;
  readonly durableTxid: number;
}

export interface BackfillOptions {
  readonly world: World;
  readonly log: Log;
  /** Whether the embedder would be asked now. */
  readonly isAwake: () => boolean;
  readonly permits: (place: Place) => Promise<boolean>;
  readonly step: (step: Step) => Promise<Stepped>;
}

/** How a pass over a database ended. */
type Pass = "complete" | "given up" | "later";

function buildKey({ target }: Place): string {
  return `${target.uuid}@${target.branch}`;
}

export class Backfill {
  readonly #options: BackfillOptions;
  readonly #waiting = new Map<string, Place>();
  /**
   * Databases that have been gone through without anything missing since, with the time: a rewind may have taken
   * vectors away.
   */
  readonly #complete = new LruMap<string, number>(backfillsCompleteMax);
  #running = false;
  #closed = false;

  constructor(options: BackfillOptions) {
    this.#options = options;
  }

  /** The database is in use: it is gone through, unless it was a while ago. */
  note(place: Place): void {
    const key = buildKey(place);
    const completeMs = this.#complete.get(key) ?? -Infinity;
    if (this.#options.world.monotonicMs() - completeMs >= backfillAgainMs) this.#wait(key, place);
  }

  /** A vector of the database is missing. */
  missed(place: Place): void {
    const key = buildKey(place);
    this.#complete.delete(key);
    this.#wait(key, place);
  }

  close(): void {
    this.#closed = true;
    this.#waiting.clear();
  }

  #wait(key: string, { namespace, profile, target: { uuid, branch } }: Place): void {
    if (this.#closed || (!this.#waiting.has(key) && this.#waiting.size >= backfillsWaitingMax)) return;
    // Without what policy said of retention then: it may have changed by the time.
    this.#waiting.set(key, { namespace, profile, target: { uuid, branch } });
    if (this.#running) return;
    this.#running = true;
    void this.#run().finally(() => (this.#running = false));
  }

  async #run(): Promise<void> {
    for (;;) {
      // The call that noted it goes first.
      await sleep(this.#options.world, backfillPauseMs);
      const next = this.#waiting.entries().next().value;
      if (next === undefined) return;
      const [key, place] = next;
      this.#waiting.delete(key);
      // Before it begins: what is missed while it runs brings it back.
      this.#complete.set(key, this.#options.world.monotonicMs());
      const pass = await this.#pass(place);
      if (pass === "complete" || this.#closed) continue;
      this.#complete.delete(key);
      if (pass === "given up") continue;
      this.#wait(key, place);
      await sleep(this.#options.world, backfillRetryMs);
    }
  }

  async #pass(place: Place): Promise<Pass> {
    const { world, isAwake, permits, step, log } = this.#options;
    try {
      for (const kind of ["memory", "turn"] as const) {
        for (let after: number | undefined = 0; after !== undefined;) {
          if (this.#closed || !isAwake()) return "later";
          if (!(await permits(place))) return "given up";
          const options = { deadlineMs: world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000 };
          const { failure, next } = await step({ place, identity: { kind: "internal" }, kind, after, options });
          if (failure !== undefined) return "later";
          after = next;
          await sleep(world, backfillPauseMs);
        }
      }
      return "complete";
    } catch (error) {
      // The database may be gone, or have no room for writes now. Its next use brings it back.
      if (!this.#closed)
        log.warn("vectors that are missing could not be made up for", {
          uuid: place.target.uuid,
          reason: error instanceof Error ? error.name : "unknown",
        });
      return "given up";
    }
  }
}
