/**
 * What the parts of an engine thread tell those that are built after them.
 *
 * Always true: the part that tells knows nothing of its listeners; a listener attaches itself once it exists, and does
 * not need what was told before.
 */
import type { Database } from "./database/database.ts";

/** What can be told. Every member is optional to a listener. */
export interface EngineListener {
  /** Objects of the database have lost their last reference, or may have after so long. */
  readonly leftBehind?: (uuid: string, afterMs?: number) => void;
  /** A change of the database's catalog is in doubt. */
  readonly inDoubt?: (uuid: string) => void;
  /** Another node has claimed a branch of the database. */
  readonly fenced?: (uuid: string) => void;
  /** The handle is about to be closed in order: a last look at it is possible. */
  readonly closing?: (database: Database) => void;
}

/** Passes on what it is told to every attached listener. */
export class EngineEvents implements Required<EngineListener> {
  readonly #listeners: EngineListener[] = [];

  /** From now on `listener` hears what is told. */
  attach(listener: EngineListener): void {
    this.#listeners.push(listener);
  }

  readonly leftBehind = (uuid: string, afterMs?: number): void => {
    for (const { leftBehind } of this.#listeners) leftBehind?.(uuid, afterMs);
  };

  readonly inDoubt = (uuid: string): void => {
    for (const { inDoubt } of this.#listeners) inDoubt?.(uuid);
  };

  readonly fenced = (uuid: string): void => {
    for (const { fenced } of this.#listeners) fenced?.(uuid);
  };

  readonly closing = (database: Database): void => {
    for (const { closing } of this.#listeners) closing?.(database);
  };
}
