/**
 * Entry of a process that runs user SQL and commands that take long, one at a time, each on a connection of its own.
 *
 * Why a process: what computes inside one native function sees no interrupt, and only a process can be killed. It holds
 * no secret and no socket; a reader's connection is read-only, a writer's commits by itself and leaves the log as it
 * is. It may be killed at any instant: SQLite's log has a transaction whole or not at all, and the process that ordered
 * it finds out which.
 */
import { limits } from "../../base/limits.ts";
import { assert } from "../../base/faults/assert.ts";
import { getErrorCode, ServiceError } from "../../base/faults/errors.ts";
import { realWorld } from "../../base/world.ts";
import { readState } from "../../model/core/database-state.ts";
import { readSql } from "../../model/sql/sql.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { joinDirectory } from "../../sqlite/connection/directory-lock.ts";
import { serveUserSql, SqlGuard } from "../../sqlite/sql-authorizer.ts";
import { toFailureAnswer } from "../api/failures.ts";
import type { EngineAnswer } from "../api/protocol.ts";
import { SqlChannel } from "./sql-channel.ts";
import { runCommandRead } from "../process-calls/command-call.ts";
import type { FromSqlProcess, ReadCall, ToSqlProcess } from "./sql-messages.ts";
import { runWriteCall, type WriteCall, type SqlWriteReply } from "../process-calls/sql-write.ts";

/**
 * How long a process that runs user SQL waits for a lock of its database: another process that reads may put its
 * index in order.
 */
const sqlBusyMs = 1_000;

const world = realWorld();

/** Descriptors that the process is started with: messages both ways, and tickets of batches to stop. */
const messagesDescriptor = 3;
const ticketsDescriptor = 4;

/** Runs `act` on a guarded connection of its own. */
function connected<Value>(
  path: string,
  readonly: boolean,
  act: (connection: Connection, guard: SqlGuard) => Value,
): Value {
  const connection = new Connection(path, { readonly, pageCacheKiB: limits.sqlCacheKiB, busyMs: sqlBusyMs });
  let guard: SqlGuard | undefined;
  try {
    guard = SqlGuard.attach(connection);
    return act(connection, guard);
  } finally {
    guard?.detach();
    connection.close();
  }
}

function read(call: ReadCall): EngineAnswer {
  const { path, ticket } = call;
  let txid: number | undefined;
  try {
    return connected(path, true, (connection, guard) => {
      connection.run("BEGIN");
      txid = readState(connection).txid;
      return {
        id: ticket,
        txid,
        value:
          "batch" in call ? readSql(connection, guard, ticket, call.batch) : runCommandRead(connection, guard, call),
      };
    });
  } catch (error) {
    return { id: ticket, txid, ...toFailureAnswer(error) };
  }
}

function write(call: WriteCall): Exclude<SqlWriteReply, { kind: "lost" }> {
  try {
    return connected(call.path, false, (connection, guard) =>
      runWriteCall(connection, guard, call, () => world.ulid()),
    );
  } catch (error) {
    if (error instanceof ServiceError)
      return { kind: "refused", code: error.code, message: error.message, detail: error.detail };
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    return { kind: "fault", fault: { message, stack: stack ?? "", code: getErrorCode(error) } };
  }
}

function answerTo(message: ToSqlProcess): FromSqlProcess {
  assert(message.kind !== "hello", "a process is greeted once");
  return message.kind === "read" ? { kind: "read", answer: read(message) } : { kind: "wrote", reply: write(message) };
}

async function serve(): Promise<void> {
  const channel = new SqlChannel(messagesDescriptor);
  const send = (message: FromSqlProcess): void => channel.send(message);
  const hello = channel.receive() as ToSqlProcess | undefined;
  if (hello === undefined) return;
  assert(hello.kind === "hello", "a process is greeted first");
  serveUserSql(ticketsDescriptor);
  const presence = joinDirectory(hello.directory);
  // A signal that ends all processes of a node in order is meant for the node, which answers first and then ends this
  // one.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  send({ kind: "ready" });
  for (let message = channel.receive(); message !== undefined; message = channel.receive()) {
    send(answerTo(message as ToSqlProcess));
    // What statements have left is released in the turns of the loop.
    await new Promise<void>((resolve) => world.soon(resolve));
  }
  presence.release();
}

await serve();
