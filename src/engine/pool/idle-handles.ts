/**
 * What open handles give back when nobody uses them: first what only makes the next call faster, then themselves.
 *
 * Always true: nothing is taken from a handle that somebody uses, or that object storage does not cover; the thread is
 * held for a housekeeper's budget at most. Must not know: why a handle was opened.
 */
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { releaseFreedMemory } from "../../sqlite/sql-authorizer.ts";
import type { Database } from "../database/database.ts";
import type { HandleLifecycle } from "./handle-lifecycle.ts";
import type { HandleSlots } from "./handle-slots.ts";

/**
 * A database that nobody has used for so long gives back its cached pages and prepared statements: half of what it
 * takes, which costs its next call 0.2 to 0.5 ms.
 */
export const restMs = 2_000;
/** Databases at rest, or closed, on a thread before freed memory is given back to the system. */
const givenPerTrim = 64;

export interface IdleHandlesParts {
  readonly slots: HandleSlots;
  readonly handles: Pick<HandleLifecycle, "closeHandle">;
  readonly world: Pick<World, "monotonicMs">;
  readonly idleCloseMs: number;
}

export class IdleHandles {
  readonly #parts: IdleHandlesParts;
  /** When those that are at rest were used last. */
  readonly #resting = new WeakMap<Database, number>();
  #givenSinceTrim = 0;

  constructor(parts: IdleHandlesParts) {
    this.#parts = parts;
  }

  /**
   * Closes what was not used for `idleCloseMs`, and lets the others rest that were not used for `restMs`. Says whether
   * more wait.
   */
  tick(): boolean {
    const { slots, handles, world, idleCloseMs } = this.#parts;
    const startedMs = world.monotonicMs();
    for (const [key, database] of slots.closable()) {
      if (world.monotonicMs() - startedMs > limits.housekeepingBudgetMs) return true;
      if (database.lastUsedMs > startedMs - idleCloseMs) {
        this.#rest(database, startedMs);
        continue;
      }
      slots.take(key);
      handles.closeHandle(database);
      this.#givenSinceTrim++;
    }
    if (this.#givenSinceTrim >= givenPerTrim) {
      this.#givenSinceTrim = 0;
      releaseFreedMemory();
    }
    return false;
  }

  #rest(database: Database, nowMs: number): void {
    const { lastUsedMs } = database;
    if (lastUsedMs > nowMs - restMs || this.#resting.get(database) === lastUsedMs) return;
    this.#resting.set(database, lastUsedMs);
    database.opened.connection.giveBack();
    this.#givenSinceTrim++;
  }
}
