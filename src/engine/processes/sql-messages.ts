/** What crosses between the node and a process that runs user SQL and long commands: plain data. */
import type { SqlBatch } from "../../model/sql/sql.ts";
import type { CommandReadCall } from "../process-calls/command-call.ts";
import type { EngineAnswer } from "../api/protocol.ts";
import type { WriteCall, SqlWriteReply } from "../process-calls/sql-write.ts";

/** A batch for a read-only connection. */
interface SqlReadCall {
  readonly path: string;
  readonly batch: SqlBatch;
  readonly ticket: number;
}

/** What is run on a read-only connection. */
export type ReadCall = SqlReadCall | CommandReadCall;

export type ToSqlProcess =
  /** First, and once: the data directory, in which the process is seen to live. */
  | { readonly kind: "hello"; readonly directory: string }
  | ({ readonly kind: "read" } & ReadCall)
  | ({ readonly kind: "write" } & WriteCall);

export type FromSqlProcess =
  | { readonly kind: "ready" }
  | { readonly kind: "read"; readonly answer: EngineAnswer }
  | { readonly kind: "wrote"; readonly reply: Exclude<SqlWriteReply, { kind: "lost" }> };
