/**
 * What crosses between the main thread and the engine threads: plain data, many calls in one message.
 */
import type { RefusalData } from "../base/errors.ts";
import type { SqlBatch } from "../model/sql.ts";
import type { ReadKind, WriteKind } from "../model/commands.ts";

/** Which open file a call is for. */
export interface Target {
  readonly uuid: string;
  readonly branch: string;
}

export type Work =
  | { readonly kind: "write"; readonly command: WriteKind; readonly input: unknown; readonly bytes: number }
  | { readonly kind: "read"; readonly command: ReadKind; readonly input: unknown }
  /** User SQL that may write: alone in a transaction, interruptible by `ticket`. */
  | { readonly kind: "sql"; readonly batch: SqlBatch; readonly ticket: number; readonly bytes: number }
  /** Holds the file open for a reader thread; answered with a Pinned, ended by `unpin`. */
  | { readonly kind: "pin" }
  /** Ends a pin; answered once the state that the reader saw cannot be lost. */
  | { readonly kind: "unpin"; readonly token: number; readonly seenTxid: number }
  /** Closes the file and removes it: the database is deleted. */
  | { readonly kind: "drop" };

/** A file that is held open, and the token that ends it. */
export interface Pinned {
  readonly path: string;
  readonly token: number;
}

export interface EngineCall {
  readonly id: number;
  readonly target: Target;
  readonly work: Work;
  /** Milliseconds from receipt after which nobody waits for the answer any more. */
  readonly budgetMs: number;
  /** The caller has seen this transaction id; an answer from an older state is refused. */
  readonly minTxid: number;
}

export interface EngineAnswer {
  readonly id: number;
  /** The transaction id of the state that the answer speaks of; undefined when no state was reached. */
  readonly txid: number | undefined;
  readonly value?: unknown;
  readonly refusal?: RefusalData;
  /** A fault that is not the caller's: logged on the main thread, never shown. */
  readonly fault?: { readonly message: string; readonly stack: string };
}

/** Main to engine thread. */
export type ToEngine =
  | { readonly kind: "calls"; readonly calls: readonly EngineCall[] }
  | { readonly kind: "close" };

/** Engine thread to main. */
export type FromEngine =
  | { readonly kind: "answers"; readonly answers: readonly EngineAnswer[] }
  /** User SQL is about to run on the owner; interrupt (handle, ticket) when `budgetMs` is over. */
  | { readonly kind: "running"; readonly handle: number; readonly ticket: number; readonly budgetMs: number }
  | { readonly kind: "stopped"; readonly ticket: number }
  | { readonly kind: "event"; readonly level: "info" | "warn"; readonly message: string; readonly uuid: string }
  | { readonly kind: "closed"; readonly counters: EngineCounters };

/** What an engine thread has done since it started. */
export interface EngineCounters {
  readonly groups: number;
  readonly writes: number;
  readonly fsyncs: number;
  readonly opened: number;
  readonly evicted: number;
}

/** Where an engine thread keeps its files and how much it may hold; crosses the thread once, at start. */
export interface EngineOptions {
  /** Folder of database files. */
  readonly databasesDirectory: string;
  /** Private folder for sorter spills and index builds; purged at start. */
  readonly scratchDirectory: string;
  readonly hotHandlesMax: number;
  readonly writeQueueDepth: number;
  readonly idleCloseMs: number;
}

/** Main to reader thread. */
export interface ReaderCall {
  readonly id: number;
  readonly path: string;
  readonly batch: SqlBatch;
  readonly ticket: number;
}

/** Reader thread to main. */
export type FromReader =
  | { readonly kind: "running"; readonly handle: number; readonly ticket: number }
  | { readonly kind: "answer"; readonly answer: EngineAnswer };
