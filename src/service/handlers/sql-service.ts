/**
 * User SQL: the guard first, then a process that reads when nothing seems to write, then one that writes for the owner.
 */
import { create } from "@bufbuild/protobuf";
import { SqlResultSchema, type ExecuteSqlRequest, type SqlResult } from "../../../gen/palimpsest/v1/data_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { SqlBatch, SqlStatementResult } from "../../model/sql/sql.ts";
import { checkUserSql, looksReadOnly, SqlGuard } from "../../sqlite/sql-authorizer.ts";
import { engineOptions, seen, type Context } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { jsonText, setJson } from "../call/exact-json.ts";
import { databaseTarget } from "./targets.ts";
import type { NodeParts } from "./node-parts.ts";

function parseBatch(request: ExecuteSqlRequest, valuesMax: number | undefined): SqlBatch {
  let textBytes = 0;
  const statements = request.stmts.map((statement, at) => {
    // The texts of a batch together are bounded like one: they are read on the main thread.
    textBytes += statement.q.length;
    if (textBytes > limits.sqlTextBytesMax)
      throw invalid(`the statements of a batch may hold ${limits.sqlTextBytesMax} bytes of SQL together`);
    checkStatement(at, statement.q);
    return { text: statement.q, paramsJson: jsonText(statement, "params") };
  });
  // Each result is a value of its own, with its list of rows.
  return {
    statements,
    atomic: request.txn !== false,
    mayWrite: true,
    ...present({ valuesMax: valuesMax === undefined ? undefined : valuesMax - 2 * statements.length }),
  };
}

/** Refuses what the guard refuses, and names the statement as its refusal by the database would. */
function checkStatement(at: number, text: string): void {
  try {
    checkUserSql(text);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, `statement ${at}: ${error.message}`, error.detail);
  }
}

function resultMessage(result: SqlStatementResult): SqlResult {
  const message = create(SqlResultSchema, {
    columns: result.columns,
    rowsAffected: BigInt(result.rowsAffected),
    lastInsertRowid: BigInt(result.lastInsertRowid),
    ...present({ error: result.error }),
  });
  setJson(message, "rows", result.rowsJson);
  return message;
}

/** Runs the batch where it belongs and gives its results and the transaction id they speak of. */
export async function executeSql(
  node: NodeParts,
  request: ExecuteSqlRequest,
  context: Context,
): Promise<{ results: SqlResult[]; txid: bigint }> {
  const batch = parseBatch(request, context.call.answerValuesMax);
  const guard = SqlGuard.available();
  if (!guard.ok)
    throw new ServiceError("unconfigured", `SQL needs the native guard, which this node lacks: ${guard.missing}`);
  const target = await databaseTarget(node, context, request.db);
  const bytes = batch.statements.reduce(
    (sum, { text, paramsJson }) => sum + text.length + (paramsJson?.length ?? 0),
    0,
  );
  const options = engineOptions(context, bytes);
  if (batch.statements.every(({ text }) => looksReadOnly(text))) {
    const { value, txid } = seen(
      context,
      await node.engine.sqlRead(target, batch, { ...options, ...present({ signal: context.call.signal }) }),
    );
    if (value.kind === "done") return { results: value.results.map(resultMessage), txid };
  }
  if (context.at !== undefined)
    throw invalid("Service-At is for reads: an earlier state cannot be written; fork it instead");
  context.mutates = true;
  await context.demand("write");
  const { value, txid } = seen(context, await node.engine.sqlWrite(target, batch, options));
  return { results: value.map(resultMessage), txid };
}
