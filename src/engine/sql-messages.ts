/** What crosses between the node and a process that runs user SQL and long commands: plain data. */
import type { ErrorCode, ServiceErrorDetail } from "../base/errors.ts";
import type { SqlBatch, SqlStatementResult } from "../model/sql.ts";
import type { CommandReadCall } from "./command-call.ts";
import type { EngineAnswer } from "./protocol.ts";
import type { CommandRan, WriteCall } from "./sql-write.ts";

/** A batch for a read-only connection. */
export interface SqlReadCall {
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

/** An error that is not a refusal; by its code it is told whether storage failed. */
export interface SqlFault {
  readonly message: string;
  readonly stack: string;
  readonly code: string;
}

export type SqlWriteReply =
  | { readonly kind: "done"; readonly results: SqlStatementResult[] }
  | CommandRan
  | { readonly kind: "refused"; readonly code: ErrorCode; readonly message: string; readonly detail?: ServiceErrorDetail }
  | { readonly kind: "fault"; readonly fault: SqlFault }
  /** The process is gone, and with it what it would have answered. */
  | { readonly kind: "lost"; readonly code: ErrorCode; readonly message: string };

export type FromSqlProcess =
  | { readonly kind: "ready" }
  | { readonly kind: "read"; readonly answer: EngineAnswer }
  | { readonly kind: "wrote"; readonly reply: Exclude<SqlWriteReply, { kind: "lost" }> };
