/** What crosses between the node and a process that runs user SQL: plain data. */
import type { ErrorCode } from "../base/errors.ts";
import type { SqlBatch, SqlStatementResult } from "../model/sql.ts";
import type { EngineAnswer } from "./protocol.ts";
import type { SqlWriteCall } from "./sql-write.ts";

/** A batch for a read-only connection. */
export interface SqlReadCall {
  readonly path: string;
  readonly batch: SqlBatch;
  readonly ticket: number;
}

export type ToSqlProcess =
  /** First, and once: the data directory, in which the process is seen to live. */
  | { readonly kind: "hello"; readonly directory: string }
  | ({ readonly kind: "read" } & SqlReadCall)
  | ({ readonly kind: "write" } & SqlWriteCall);

/** An error that is not a refusal; by its code it is told whether storage failed. */
export interface SqlFault {
  readonly message: string;
  readonly stack: string;
  readonly code: string;
}

export type SqlWriteReply =
  | { readonly kind: "done"; readonly results: SqlStatementResult[] }
  | { readonly kind: "refused"; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: "fault"; readonly fault: SqlFault }
  /** The process is gone, and with it what it would have answered. */
  | { readonly kind: "lost"; readonly code: ErrorCode; readonly message: string };

export type FromSqlProcess =
  | { readonly kind: "ready" }
  | { readonly kind: "read"; readonly answer: EngineAnswer }
  | { readonly kind: "wrote"; readonly reply: Exclude<SqlWriteReply, { kind: "lost" }> };
