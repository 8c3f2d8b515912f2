/**
 * A commit group: many commands, one transaction, one savepoint for each.
 *
 * Always true: a command that throws leaves nothing behind and does not touch its neighbours; all commands that did not
 * throw are in the commit, or none is. Must not know: what a command means, fsync, queues.
 */
import { assert } from "../base/faults/assert.ts";
import { invalid } from "../base/faults/errors.ts";
import type { Connection } from "./connection/connection.ts";
import { isSliceOver } from "./slices.ts";

/** What a command adds beside its rows: acts at the group's end (same transaction) and after its commit. */
export interface Deferred {
  readonly atGroupEnd: (() => void)[];
  readonly afterCommit: (() => void)[];
  /** What it says of its changes; this file hands it to the seal. */
  readonly notes: string[];
}

export type CommandOutcome<Result> =
  | { readonly kind: "done"; readonly result: Result; readonly changed: boolean }
  | { readonly kind: "failed"; readonly error: unknown };

export interface GroupOutcome<Result> {
  readonly outcomes: readonly CommandOutcome<Result>[];
  /** Whether anything was committed. */
  readonly changed: boolean;
  /** What the commands asked to be called after the commit; the caller does so once it has noted the commit. */
  readonly afterCommit: readonly (() => void)[];
}

function totalChanges(connection: Connection): number {
  return connection.get<{ n: number }>("SELECT total_changes() AS n")!.n;
}

/** Tells at each call whether rows were changed since the call before; a rollback does not take changes back. */
function changeMeter(connection: Connection): () => boolean {
  let last = totalChanges(connection);
  return () => {
    const before = last;
    last = totalChanges(connection);
    return last !== before;
  };
}

/**
 * Runs the commands in order and commits them together. `seal` is called inside the transaction, after everything
 * else, when something changed: the place for the transaction id. Throws only when the group as a whole failed; then
 * it has been rolled back and no command has happened.
 */
export function runGroup<Result>(
  connection: Connection,
  commands: readonly ((deferred: Deferred) => Result)[],
  seal: (notes: readonly string[]) => void,
): GroupOutcome<Result> {
  const deferred: Deferred = { atGroupEnd: [], afterCommit: [], notes: [] };
  const outcomes: CommandOutcome<Result>[] = [];
  connection.run("BEGIN IMMEDIATE");
  try {
    const alone = commands.length === 1;
    const changedSince = changeMeter(connection);
    for (const command of commands) outcomes.push(runCommand(connection, command, deferred, alone, changedSince));
    const changed = outcomes.some((outcome) => outcome.kind === "done" && outcome.changed);
    if (!changed) {
      connection.run("ROLLBACK");
      return { outcomes, changed, afterCommit: [] };
    }
    for (const act of deferred.atGroupEnd) act();
    seal(deferred.notes);
    connection.run("COMMIT");
  } catch (error) {
    connection.rollBack();
    throw error;
  }
  return { outcomes, changed: true, afterCommit: deferred.afterCommit };
}

function runCommand<Result>(
  connection: Connection,
  command: (deferred: Deferred) => Result,
  deferred: Deferred,
  alone: boolean,
  changedSince: () => boolean,
): CommandOutcome<Result> {
  const marks = [deferred.atGroupEnd.length, deferred.afterCommit.length, deferred.notes.length] as const;
  // A group of one needs no savepoint: if its command throws, nothing else is in the transaction.
  if (!alone) connection.run("SAVEPOINT command");
  try {
    const result = command(deferred);
    assert(connection.inTransaction, "no command of ours ends the transaction");
    if (!alone) connection.run("RELEASE command");
    const changed = changedSince();
    if (!changed) deferred.notes.length = marks[2];
    return { kind: "done", result, changed };
  } catch (error) {
    if (isFatal(error) || isSliceOver(error) || !connection.inTransaction) throw error;
    if (alone) {
      connection.run("ROLLBACK");
      connection.run("BEGIN");
    } else {
      connection.run("ROLLBACK TO command");
      connection.run("RELEASE command");
    }
    deferred.atGroupEnd.length = marks[0];
    deferred.afterCommit.length = marks[1];
    deferred.notes.length = marks[2];
    changedSince();
    return { kind: "failed", error };
  }
}

/** Result codes after which the file or the disk cannot be trusted to go on within this transaction. */
const fatalCodes = [
  "SQLITE_FULL",
  "SQLITE_IOERR",
  "SQLITE_CORRUPT",
  "SQLITE_NOTADB",
  "SQLITE_NOMEM",
  "SQLITE_CANTOPEN",
  "SQLITE_READONLY",
];

/** Whether the error means that storage itself failed, as opposed to one command. */
export function isFatal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && fatalCodes.some((fatal) => code.startsWith(fatal));
}

/** Whether the disk is full: the group failed, the handle is sound. */
export function isDiskFull(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "SQLITE_FULL";
}

function schemaVersion(connection: Connection): number {
  return connection.raw.pragma("schema_version", { simple: true }) as number;
}

/**
 * Runs one act in a transaction of its own: for user SQL, which may end or fail the whole transaction in ways that a
 * savepoint does not survive (an interrupt, a full disk, deferred foreign keys). `changed` sees schema changes too.
 * Throws what the act or the commit threw; then nothing has happened.
 */
export function runAlone<Result>(
  connection: Connection,
  act: () => Result,
  seal: () => void,
): { readonly result: Result; readonly changed: boolean } {
  connection.run("BEGIN IMMEDIATE");
  try {
    const rowsChanged = changeMeter(connection);
    const schemaBefore = schemaVersion(connection);
    const result = act();
    if (!connection.inTransaction) throw invalid("a statement ended the transaction; the whole batch was undone");
    const changed = rowsChanged() || schemaVersion(connection) !== schemaBefore;
    if (changed) seal();
    connection.run(changed ? "COMMIT" : "ROLLBACK");
    return { result, changed };
  } catch (error) {
    connection.rollBack();
    throw error;
  }
}
