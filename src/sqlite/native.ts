/**
 * The native library of user SQL and of time slices (native/), as this thread reaches it: by functions of a private
 * connection, which no user SQL can call.
 *
 * Always true: the library of the platform's package is taken if it is of this version and loads, else the one that was
 * compiled at the installation. Must not know: what it is used for.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { limits } from "../base/limits.ts";
import { nativePlaces, packageFolder } from "../base/native-places.ts";
import { assert } from "../base/faults/assert.ts";
import { LruMap } from "../base/collections/lru-map.ts";

const sqlParamsMax = 32_766;
/** Never less than this for one value, however large the statement. */
const sqlValueBytesFloor = 128 * 1024;
/**
 * All registers of one statement together, each holding the longest value it may: larger statements get shorter
 * values.
 */
const sqlStatementBytesMax = 512 * 1024 * 1024;
/**
 * Growth of the process while one statement runs, after which it is stopped: accumulating aggregates know no bound.
 */
const sqlGrowthBytesMax = 512 * 1024 * 1024;
/**
 * Memory that a process which runs user SQL may take beyond what it has at its start: what SQLite has, and results as
 * JavaScript values.
 */
export const sqlProcessBytesMax = 1024 * 1024 * 1024;
/** Product of the argument lengths of functions whose cost it is (replace, instr, trim): about a second. */
const sqlWorkProductMax = 2 ** 31;
/** Names looked up while one statement is prepared: views of views grow exponentially. */
const sqlNamesMax = 200_000;
const sqlColumnsMax = 1000;
const sqlExpressionDepthMax = 500;
const sqlCompoundMax = 250;
const sqlProgramOpsMax = 1_000_000;
const sqlFunctionArgsMax = 100;
/** LIKE and GLOB cost the product of pattern and text. */
const sqlLikePatternBytesMax = 500;
const sqlTriggerDepthMax = 100;

/** Ids as in sqlite3.h (SQLITE_LIMIT_*) and, from 100, as in native/sqlguard.c. */
const nativeLimits: readonly (readonly [id: number, value: number])[] = [
  [0, limits.sqlValueBytesMax],
  // ALTER TABLE writes the schema's text into statements of its own, with every quote doubled.
  [1, 4 * limits.sqlTextBytesMax],
  [2, sqlColumnsMax],
  [3, sqlExpressionDepthMax],
  [4, sqlCompoundMax],
  [5, sqlProgramOpsMax],
  [6, sqlFunctionArgsMax],
  [7, 0],
  [8, sqlLikePatternBytesMax],
  [9, sqlParamsMax],
  [10, sqlTriggerDepthMax],
  [11, 0],
  [12, -1],
  [13, -1],
  [14, -1],
  [100, limits.sqlValueBytesMax],
  [101, sqlStatementBytesMax],
  [102, sqlValueBytesFloor],
  [103, sqlGrowthBytesMax],
  [104, sqlWorkProductMax],
  [105, sqlNamesMax],
  [106, limits.sqlSpillBytesMax],
  [107, sqlProcessBytesMax],
];

/** The library that was chosen, or why there is none. */
type Choice =
  | { readonly path: string; readonly connection: Database.Database; readonly passedOver: readonly string[] }
  | { readonly path?: undefined; readonly passedOver: readonly string[] };

let choice: Choice | undefined;

/** This thread's choice: made once, as loading tells what a look does not. */
function choose(): Choice {
  return (choice ??= findLibrary());
}

/** The first library that loads. */
export function findLibrary(root = packageFolder): Choice {
  const prebuilt = nativePlaces.findPrebuilt(root);
  const passedOver = prebuilt.passedOver === undefined ? [] : [prebuilt.passedOver];
  const paths = [
    ...(prebuilt.folder === undefined ? [] : [join(prebuilt.folder, nativePlaces.fileName)]),
    nativePlaces.compiledLibrary(root),
  ];
  for (const path of paths.filter((one) => existsSync(one))) {
    const connection = new Database(":memory:");
    try {
      loadFrom(path, connection, "sqlite3_sqlguardcontrol_init");
      return { path, connection, passedOver };
    } catch (error) {
      connection.close();
      passedOver.push(`${path} does not load: ${String(error)}`);
    }
  }
  return { passedOver };
}

/** better-sqlite3 takes an entry point; its types leave it out. */
function loadFrom(path: string, connection: Database.Database, entryPoint: string): void {
  (connection as unknown as { loadExtension(path: string, entryPoint: string): void }).loadExtension(path, entryPoint);
}

export function loadLibrary(connection: Database.Database, entryPoint: string): void {
  const { path } = choose();
  assert(path !== undefined, "what loads the native library has asked whether there is one");
  loadFrom(path, connection, entryPoint);
}

/** This thread's private connection to the native table of guards. */
class Control {
  readonly #statements = new Map<string, Database.Statement>();
  readonly #connection: Database.Database;
  /** Statements that step to a row and give its columns, by how many there are. */
  readonly #steps = new LruMap<number, Database.Statement>(limits.cachedStatementsMax);

  constructor() {
    const chosen = choose();
    assert(chosen.path !== undefined, "what asks for the control connection has asked whether there is a library");
    this.#connection = chosen.connection;
    for (const [id, value] of nativeLimits) this.call("guard_configure(?, ?)", id, value);
  }

  call(expression: string, ...args: readonly number[]): unknown {
    let statement = this.#statements.get(expression);
    if (!statement)
      this.#statements.set(expression, (statement = this.#connection.prepare(`SELECT ${expression}`).pluck()));
    return statement.get(...args);
  }

  /** The next row of the guard's statement, or what became of it as guard_step says. */
  step(handle: number, columns: number, bytesMax: number): readonly unknown[] {
    let statement = this.#steps.get(columns);
    if (!statement) {
      const values = Array.from({ length: columns }, (_, index) => `, guard_column(${index})`).join("");
      statement = this.#connection.prepare(`SELECT guard_step(?, ?)${values}`).raw(true).safeIntegers(true);
      this.#steps.set(columns, statement);
    }
    return statement.get(handle, bytesMax) as readonly unknown[];
  }
}

let threadControl: Control | undefined;

/** This thread's control connection. */
export function control(): Control {
  return (threadControl ??= new Control());
}

/** Whether this installation has the native library. */
export function hasNative(): boolean {
  return choose().path !== undefined;
}

/** Why libraries that are there are not used, each in a clause; empty as a rule. */
export function passedOverLibraries(): readonly string[] {
  return choose().passedOver;
}
