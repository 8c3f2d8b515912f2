/**
 * Entry of a reader thread: runs read-only user SQL, one batch at a time, on read-only connections.
 *
 * Why apart: one endless SELECT must stop neither the owner of its database nor anybody else's. The owner keeps the
 * file open meanwhile (a pin), and the answer goes out only after what was read is on disk (the pin's end).
 */
import { parentPort } from "node:worker_threads";
import { assert } from "../base/assert.ts";
import { limits } from "../base/limits.ts";
import { readState } from "../model/schema.ts";
import { readSql } from "../model/sql.ts";
import { Connection } from "../sqlite/connection.ts";
import { SqlGuard } from "../sqlite/guard.ts";
import { failureOf } from "./failures.ts";
import type { EngineAnswer, FromReader, ReaderCall } from "./protocol.ts";

assert(parentPort, "this file is the entry of a worker thread");
const port = parentPort;

function send(message: FromReader): void {
  port.postMessage(message);
}

function run(call: ReaderCall): EngineAnswer {
  let txid: number | undefined;
  let connection: Connection | undefined;
  let guard: SqlGuard | undefined;
  try {
    connection = new Connection(call.path, { readonly: true, pageCacheKiB: limits.sqlCacheKiB });
    guard = SqlGuard.attach(connection);
    connection.run("BEGIN");
    txid = readState(connection).txid;
    send({ kind: "running", handle: guard.handle, ticket: call.ticket });
    return { id: call.id, txid, value: readSql(connection, guard, call.ticket, call.batch) };
  } catch (error) {
    return { id: call.id, txid, ...failureOf(error) };
  } finally {
    guard?.detach();
    connection?.close();
  }
}

port.on("message", (call: ReaderCall) => send({ kind: "answer", answer: run(call) }));
