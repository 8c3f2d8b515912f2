/** `palimpsest sql`: one statement, or several of standard input as one transaction. */
import { Command } from "commander";
import type { Json, SqlResult } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { readInput } from "../client-session/input.ts";
import { shownValue } from "./memory-lines.ts";
import type { Bind, Session } from "../client-session/session.ts";

interface SqlFlags {
  readonly param?: readonly string[];
  readonly file?: string;
}

export function sqlCommand(bind: Bind): Command {
  const command = new Command("sql")
    .description("run a statement of SQL")
    .argument("[statement]", "the statement; - reads it from standard input")
    .option("--param <value...>", "values of its ?, in order: JSON, or else a text")
    .option("--file <file>", "read the statement from a file, or - for standard input");
  return bind<SqlFlags>(
    command,
    'palimpsest sql "SELECT 40 + ? AS answer" --param 2',
    async (session, { param, file }, [given]) => {
      if ((given === undefined) === (file === undefined))
        throw new CommandFailure(2, "give a statement, or a --file that holds it, and not both");
      const source = file ?? (given === "-" ? "-" : undefined);
      const statement = source === undefined ? given! : await readInput(session.around, source);
      printResult(session, await session.database.sql(statement, param?.map(toValue)));
    },
  );
}

function toValue(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    // A text is a value like any other.
    return text;
  }
}

function printResult({ output }: Session, result: SqlResult): void {
  if (!output.isForPeople) return output.json(toWire(result, "SqlResult"));
  const { columns, rows, rowsAffected } = result;
  if (columns.length > 0) {
    const isNumber = (at: number): boolean =>
      rows.length > 0 && rows.every((row) => row[at] === null || typeof row[at] === "number");
    output.table(
      columns.map((title, at) => ({ title, loose: true, right: isNumber(at) })),
      rows.map((row) => row.map((value) => (value === null ? "NULL" : shownValue(value)))),
    );
  }
  output.remark(columns.length > 0 ? counted(rows.length, "row") : `${counted(rowsAffected, "row")} changed`);
}

/** `1 row`, `2 rows`. */
function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
