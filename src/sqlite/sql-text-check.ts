/**
 * What user SQL may say, judged from its text alone: the first of the guard's layers, and the only one that runs
 * before a database is looked up.
 *
 * It closes what SQLite's authorizer cannot see (arguments of virtual tables, the new name of ALTER TABLE, ON CONFLICT
 * ROLLBACK) and gives the common refusals a plain message. It may refuse too much in odd corners, never too little
 * there; tables reached in any other way are the authorizer's (native/sqlguard.c). Must not know: connections.
 */
import { invalid } from "../base/faults/errors.ts";
import { limits } from "../base/limits.ts";
import { firstToken, parseTokens, type SqlToken } from "./sql-tokens.ts";

/** Names of tables that belong to the service (spec: Other records). */
export const reservedPrefix = "__service_";

/** A statement that passed. */
export interface CheckedSql {
  readonly tokens: readonly SqlToken[];
  /** It is a check that reads every table by SQLite's own hand. */
  readonly wholeDatabase: boolean;
  /** It may change rows: not a definition, not an explanation. */
  readonly changesRows: boolean;
  /** It drops or alters something. */
  readonly defines: boolean;
}

const heads = new Set([
  "SELECT",
  "VALUES",
  "WITH",
  "INSERT",
  "REPLACE",
  "UPDATE",
  "DELETE",
  "CREATE",
  "DROP",
  "ALTER",
  "PRAGMA",
]);
const definitionHeads = new Set(["CREATE", "DROP", "ALTER", "PRAGMA"]);
const readHeads = new Set(["SELECT", "VALUES", "WITH", "EXPLAIN", "PRAGMA"]);
const transactionHeads = new Set(["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"]);
const triggerHeads = new Set(["SELECT", "VALUES", "WITH", "INSERT", "REPLACE", "UPDATE", "DELETE", "END"]);
const modules = new Set(["FTS5", "RTREE", "RTREE_I32"]);
/** Tables that SQLite makes up by itself from a module's name, which no statement may even start to read. */
const madeUpTables = new Set(["FTS3TOKENIZE", "FTS4AUX", "FTS5VOCAB", "DBSTAT", "SQLITE_DBPAGE"]);
/** What comes right before a name, where SQLite takes a string for one. */
const nameFollows = new Set([
  "FROM",
  "JOIN",
  "INTO",
  "UPDATE",
  "TABLE",
  "VIEW",
  "INDEX",
  "TRIGGER",
  "REFERENCES",
  "TO",
  "EXISTS",
  ".",
]);
const sqliteNames = new Set(["SQLITE_MASTER", "SQLITE_SCHEMA", "SQLITE_VERSION"]);
const objectPragmas = new Set([
  "TABLE_INFO",
  "TABLE_XINFO",
  "TABLE_LIST",
  "INDEX_LIST",
  "INDEX_INFO",
  "INDEX_XINFO",
  "FOREIGN_KEY_LIST",
]);
const checkPragmas = new Set(["INTEGRITY_CHECK", "QUICK_CHECK", "FOREIGN_KEY_CHECK"]);
const plainPragmas = new Set([
  "USER_VERSION",
  "PAGE_COUNT",
  "PAGE_SIZE",
  "FREELIST_COUNT",
  "ENCODING",
  "COMPILE_OPTIONS",
  "FUNCTION_LIST",
  "MODULE_LIST",
  "COLLATION_LIST",
]);
const pragmaTables = new Set([
  "TABLE_INFO",
  "TABLE_XINFO",
  "INDEX_LIST",
  "INDEX_INFO",
  "INDEX_XINFO",
  "FOREIGN_KEY_LIST",
  "COMPILE_OPTIONS",
  "FUNCTION_LIST",
  "MODULE_LIST",
]);

/** Whether the name is one of the service's own, or that of an index SQLite made for one. */
function isReserved(name: string): boolean {
  const lower = name.toLowerCase().replace(/^sqlite_autoindex_/, "");
  // "__service" too: a virtual table of that name would own "__service_data".
  return lower.startsWith(reservedPrefix) || lower === "__service";
}

function refuseReserved(): never {
  throw invalid(`names that start with ${reservedPrefix} are reserved and cannot be used in SQL`);
}

function isName(token: SqlToken | undefined): token is SqlToken {
  return token?.kind === "word" || token?.kind === "name";
}

function isWord(token: SqlToken | undefined, text: string): boolean {
  return token?.kind === "word" && token.text === text;
}

/** A name as people would read it back in a message. */
function shown(name: string): string {
  return name.length > 64 ? `${name.slice(0, 64)}…` : name;
}

/** The one statement's tokens, without the semicolons that end it. */
function oneStatement(sql: string): SqlToken[] {
  if (!sql.isWellFormed()) throw invalid("q must be well-formed Unicode text");
  if (sql.includes("\0")) throw invalid("q must not contain the NUL character");
  if (Buffer.byteLength(sql, "utf8") > limits.sqlTextBytesMax)
    throw invalid(`q must be at most ${limits.sqlTextBytesMax} bytes`);
  const tokens = parseTokens(sql);
  while (tokens.length > 0 && tokens.at(-1)!.text === ";" && tokens.at(-1)!.kind === "operator") tokens.pop();
  if (tokens.length === 0) throw invalid("q must hold a statement");
  return tokens;
}

/** Index of the statement's first keyword: past EXPLAIN and EXPLAIN QUERY PLAN. */
function headIndex(tokens: readonly SqlToken[]): number {
  if (!isWord(tokens[0], "EXPLAIN")) return 0;
  return isWord(tokens[1], "QUERY") && isWord(tokens[2], "PLAN") ? 3 : 1;
}

function refuseHead(token: SqlToken | undefined): never {
  const text = token?.kind === "word" ? token.text : "";
  if (transactionHeads.has(text))
    throw invalid(`transaction control is not allowed (${text}): a batch is one transaction by itself`);
  if (text === "ATTACH" || text === "DETACH")
    throw invalid(`${text} is not allowed: a statement sees its own database only`);
  if (text === "VACUUM" || text === "ANALYZE" || text === "REINDEX")
    throw invalid(`${text} is not allowed: the service maintains the file itself`);
  throw invalid(`a statement must start with one of ${[...heads].join(", ")} or EXPLAIN`);
}

function checkSemicolons(tokens: readonly SqlToken[], trigger: boolean): void {
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== "operator" || token.text !== ";") continue;
    const next = tokens[index + 1];
    const text = next?.kind === "word" ? next.text : "";
    if (transactionHeads.has(text) && text !== "END") refuseHead(next);
    if (!trigger) throw invalid("q must hold one statement; send several as several stmts");
    if (!triggerHeads.has(text)) throw invalid("a trigger's body may hold SELECT, INSERT, UPDATE, DELETE and END only");
    if (text === "END" && index + 2 < tokens.length)
      throw invalid("q must hold one statement; send several as several stmts");
  }
}

/** ROLLBACK as a conflict clause ends the whole transaction, and with it other statements of the batch. */
function checkRollback(tokens: readonly SqlToken[]): void {
  for (const [index, token] of tokens.entries()) {
    if (!isWord(token, "ROLLBACK") || index === 0) continue;
    const before = tokens[index - 1]!;
    const raised = before.text === "(" && isWord(tokens[index - 2], "RAISE");
    if (raised || isWord(before, "OR") || isWord(before, "CONFLICT")) {
      throw invalid("OR ROLLBACK, ON CONFLICT ROLLBACK and RAISE(ROLLBACK) are not allowed; use ABORT");
    }
  }
}

function checkName(token: SqlToken): void {
  if (isReserved(token.text)) refuseReserved();
  const upper = token.text.toUpperCase();
  if (madeUpTables.has(upper)) throw invalid(`the table ${shown(token.text)} is not allowed`);
  if (upper.startsWith("SQLITE_") && !upper.startsWith("SQLITE_AUTOINDEX_") && !sqliteNames.has(upper)) {
    throw invalid(
      `${shown(token.text)} is not allowed: of SQLite's own names only sqlite_master, sqlite_schema and ` +
        "sqlite_version are",
    );
  }
  if (upper.startsWith("PRAGMA_") && !pragmaTables.has(upper.slice("PRAGMA_".length))) {
    throw invalid(`the table function ${shown(token.text)} is not allowed`);
  }
}

/** Names everywhere; strings where SQLite takes one for a name, and throughout definitions that keep them as text. */
function checkNames(tokens: readonly SqlToken[], stringsToo: boolean): void {
  for (const [index, token] of tokens.entries()) {
    if (isName(token)) checkName(token);
    if (token.kind !== "string") continue;
    const before = tokens[index - 1];
    const taken = before !== undefined && before.kind !== "string" && nameFollows.has(before.text);
    const described = before?.text === "(" && isName(tokens[index - 2]) && /^pragma_/i.test(tokens[index - 2]!.text);
    if (stringsToo || taken || described) {
      checkName(token);
    }
  }
}

/** The arguments of a virtual table are its module's own language: the prefix is refused anywhere in them. */
function checkVirtualTable(tokens: readonly SqlToken[], from: number): void {
  const using = tokens.findIndex((token, index) => index > from && isWord(token, "USING"));
  const module = tokens[using + 1];
  if (using < 0 || !isName(module))
    throw invalid("CREATE VIRTUAL TABLE needs USING and a module: fts5, rtree or rtree_i32");
  if (!modules.has(module.text.toUpperCase()))
    throw invalid(`the virtual table module ${shown(module.text)} is not allowed; fts5, rtree and rtree_i32 are`);
  for (const token of tokens) {
    if (/__service|sqlite_/i.test(token.text)) refuseReserved();
  }
}

function checkCreate(
  tokens: readonly SqlToken[],
  head: number,
): { readonly trigger: boolean; readonly strings: boolean } {
  let at = head + 1;
  if (isWord(tokens[at], "TEMP") || isWord(tokens[at], "TEMPORARY"))
    throw invalid("temporary objects are not allowed: they would not be kept with the database");
  if (isWord(tokens[at], "UNIQUE")) at++;
  if (isWord(tokens[at], "VIRTUAL")) {
    checkVirtualTable(tokens, at);
    return { trigger: false, strings: true };
  }
  return { trigger: isWord(tokens[at], "TRIGGER"), strings: !isWord(tokens[at], "TABLE") };
}

/** `PRAGMA [main.]name` or `PRAGMA [main.]name(argument)`; nothing is set through it. */
function checkPragma(tokens: readonly SqlToken[], head: number): { readonly wholeDatabase: boolean } {
  let at = head + 1;
  if (tokens[at + 1]?.text === ".") {
    if (!isName(tokens[at]) || tokens[at]!.text.toUpperCase() !== "MAIN")
      throw invalid("a pragma's database must be main");
    at += 2;
  }
  const named = tokens[at];
  const name = isName(named) ? named.text.toUpperCase() : "";
  const [open, argument, close] = [tokens[at + 1], tokens[at + 2], tokens[at + 3]];
  const bare = open === undefined;
  const called = open?.text === "(" && open.kind === "operator" && close?.text === ")" && at + 4 === tokens.length;
  if (!bare && !called)
    throw invalid(`a pragma may be read as PRAGMA name or PRAGMA name(argument), never set (${shown(name)})`);
  if (called && argument!.kind !== "number" && isReserved(argument!.text)) refuseReserved();
  if (checkPragmas.has(name)) return { wholeDatabase: true };
  if (objectPragmas.has(name) && called) return { wholeDatabase: false };
  if (objectPragmas.has(name)) throw invalid(`the pragma ${name} needs the name of a table or index as its argument`);
  if (plainPragmas.has(name) && bare) return { wholeDatabase: false };
  if (plainPragmas.has(name)) throw invalid(`the pragma ${name} takes no argument: it can be read, not set`);
  throw invalid(
    `the pragma ${shown(name)} is not allowed; allowed ` +
      `are ${[...objectPragmas, ...checkPragmas, ...plainPragmas].join(", ").toLowerCase()}`,
  );
}

/** The statement's tokens, or invalid_request naming the construct that is not allowed (spec: SQL guard rules). */
export function analyseUserSql(sql: string): CheckedSql {
  const tokens = oneStatement(sql);
  const head = headIndex(tokens);
  const keyword = tokens[head];
  if (keyword?.kind !== "word" || !heads.has(keyword.text)) refuseHead(keyword);
  checkRollback(tokens);
  let trigger = false;
  let strings = keyword.text === "ALTER" || keyword.text === "DROP" || keyword.text === "PRAGMA";
  let wholeDatabase = false;
  if (keyword.text === "CREATE") ({ trigger, strings } = checkCreate(tokens, head));
  checkNames(tokens, strings);
  checkSemicolons(tokens, trigger);
  if (keyword.text === "PRAGMA") ({ wholeDatabase } = checkPragma(tokens, head));
  if (keyword.text === "ALTER") checkRename(tokens);
  return {
    tokens,
    wholeDatabase,
    changesRows: head === 0 && !definitionHeads.has(keyword.text),
    defines: keyword.text === "DROP" || keyword.text === "ALTER",
  };
}

/** Our own SQL uses these as table functions; the authorizer watches their creation but is not told a new name. */
function checkRename(tokens: readonly SqlToken[]): void {
  const to = tokens.findIndex((token) => isWord(token, "TO"));
  const name = tokens[to + 1]?.text.toLowerCase();
  if (to >= 0 && (name === "json_each" || name === "json_tree" || name?.startsWith("pragma_"))) {
    throw invalid("the name of a built-in table function cannot be taken");
  }
}

/**
 * Refuses one statement's text for what it says. Pure; runs before any database is looked up. Throws invalid_request
 * naming the construct: several statements, no statement, NUL, a text that is too long, reserved names as names,
 * transaction control, ATTACH, VACUUM, pragmas that are not allowed, temporary objects, ROLLBACK as a conflict clause.
 */
export function checkUserSql(sql: string): void {
  analyseUserSql(sql);
}

/**
 * Whether the statement may be tried on a read-only connection, judged by its first keyword. A guess for routing: a
 * WITH that writes is found out when it is prepared.
 */
export function looksReadOnly(sql: string): boolean {
  const first = firstToken(sql);
  return first?.kind === "word" && readHeads.has(first.text);
}
