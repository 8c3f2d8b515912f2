/**
 * What the data models see of an open database: a view to read through, a transaction to write through.
 *
 * The models are synchronous functions of these two. Time and ids are handed in, so that a model has no clock and
 * no chance of its own, and the same commands give the same pages.
 */
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { NoteTaker } from "./change-notes.ts";
import type { MemoryRetention } from "./retention.ts";
import type { VectorCache } from "../index/vector-index.ts";

/** A read: everything it sees belongs to one committed state. */
export interface View {
  readonly connection: Connection;
  /** Unix milliseconds; what expires at or before this instant is invisible. */
  readonly nowMs: number;
  /** Derived matrices of the database's vectors; may be empty at any time, never wrong. */
  readonly vectors: VectorCache;
  /** What policy removes, which is invisible; undefined where no policy does. */
  readonly retention?: MemoryRetention | undefined;
}

/** A write inside the savepoint of one command. What it changes, it notes (model/core/change-notes). */
export interface Tx extends View, NoteTaker {
  /** The transaction id that the group will have if it changes anything. */
  readonly txid: number;
  /** A fresh ULID that sorts after every one before it. */
  newId(): string;
  /**
   * Defers `act` to the end of the commit group, after every command of the group and inside the same transaction.
   * Dropped when this command is rolled back. Why: FTS5 flushes at every savepoint, so its rows are written once,
   * at the end (6,000 against 16,700 ingests a second, measured).
   */
  atGroupEnd(act: () => void): void;
  /** Calls `act` after the group has committed, never when it is rolled back: for derived caches only. */
  afterCommit(act: () => void): void;
}
