/**
 * A command of our own that takes longer than a time slice, run on a connection of its own.
 *
 * Always true: it sees the time, the retention and the state that it would have seen on its engine thread; what it
 * changes of vectors is told, so that the thread's cache follows. Must not know: who runs it, queues, answers.
 */
import { ulidAfter } from "../../base/world.ts";
import { runRead, runWrite, type ReadKind, type WriteKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import { VectorChanges, type VectorChange } from "../../model/index/vector-changes.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { SqlGuard } from "../../sqlite/sql-authorizer.ts";
import type { Seal } from "../../model/core/change-log.ts";

/** What a transaction is run with, as plain data. */
export interface TransactionCall {
  readonly path: string;
  /** What the state row says once it is committed. */
  readonly seal: Seal;
  /** How long the log's file may become. */
  readonly logBytesMax: number;
}

/** What a command has given, and the vectors that it has changed. */
export interface CommandRan {
  readonly kind: "ran";
  readonly value: unknown;
  readonly vectors: readonly VectorChange[];
}

/** What a command sees of the world, as plain data. */
export interface Sight {
  readonly nowMs: number;
  readonly retention: MemoryRetention | undefined;
}

interface CommandCall extends Sight {
  readonly path: string;
  /** Positive, and never used for anything else: it names the command to what stops it. */
  readonly ticket: number;
  readonly input: unknown;
}

/** A read, for a read-only connection. */
export interface CommandReadCall extends CommandCall {
  readonly command: ReadKind;
}

/** A write, alone in its transaction. */
export interface CommandWriteCall extends CommandCall, TransactionCall {
  readonly command: WriteKind;
  /** Ids that it makes sort after this one. */
  readonly lastId: string;
}

/** Runs the read inside the transaction that is open. Throws what it threw. */
export function runCommandRead(
  connection: Connection,
  guard: SqlGuard,
  { ticket, command, input, nowMs, retention }: CommandReadCall,
): unknown {
  const view = { connection, nowMs, retention, vectors: new VectorChanges() };
  return guard.guarded(ticket, () => runRead(command, view, input), { isOwn: true });
}

/**
 * Runs the write in a transaction that `transact` makes and commits. Throws what it threw: then nothing has happened.
 */
export function runCommandWrite(
  connection: Connection,
  guard: SqlGuard,
  { ticket, command, input, nowMs, retention, lastId, seal }: CommandWriteCall,
  newId: () => string,
  transact: <Value>(act: (notes: string[]) => Value) => Value,
): Omit<CommandRan, "kind"> {
  const vectors = new VectorChanges();
  const atGroupEnd: (() => void)[] = [];
  const afterCommit: (() => void)[] = [];
  let last = lastId;
  const idAfterLast = (): string => {
    const id = newId();
    return (last = id > last ? id : ulidAfter(last));
  };
  const tx = {
    connection,
    nowMs,
    retention,
    vectors,
    txid: seal.txid,
    newId: idAfterLast,
    atGroupEnd: (act: () => void) => atGroupEnd.push(act),
    afterCommit: (act: () => void) => afterCommit.push(act),
  };
  const run = (notes: string[]): unknown => {
    const value = runWrite(command, { ...tx, notes }, input);
    for (const act of atGroupEnd) act();
    return value;
  };
  const value = transact((notes) => guard.guarded(ticket, () => run(notes), { isOwn: true }));
  for (const act of afterCommit) act();
  return { value, vectors: vectors.list };
}
