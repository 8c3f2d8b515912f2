/**
 * The tokens of a SQL text, cut exactly where SQLite's own tokenizer cuts them (sqlite3GetToken in tokenize.c).
 *
 * Always true: what SQLite would take as a name, a string or a keyword comes out as one token of that kind, whatever
 * comments, quotes or spaces are around it. Where SQLite sees an illegal token the text is refused, so that the two can
 * never fall out of step. Must not know: what any statement means.
 */
import { invalid } from "../base/faults/errors.ts";

/** `word` is a bare keyword or name, `name` a quoted one; `string` is in single quotes and may mean a name too. */
type SqlTokenKind = "word" | "name" | "string" | "blob" | "number" | "variable" | "operator";

export interface SqlToken {
  readonly kind: SqlTokenKind;
  /** Without quotes and doubled quotes; a word in upper case; everything else as written. */
  readonly text: string;
}

const bom = 0xfeff;
const spaces = /[\t-\r ]+/y;
const wordRest = /[A-Za-z0-9_$\u0080-\uffff]*/y;
const number = /0[xX][0-9a-fA-F][0-9a-fA-F_]*|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?/y;
const blob = /[xX]'(?:[0-9a-fA-F]{2})*'/y;
const variable = /\?[0-9]*|[@:$#][A-Za-z0-9_$\u0080-\uffff]+/y;
/** Operators that no other begins with: found often, so there is one token of each. */
const lonely = new Map([..."(),;+*%&~"].map((text) => [text, { kind: "operator", text } as SqlToken]));
const operator = /->>|->|\|\||<<|>>|<=|>=|<>|==|!=|[-+*/%&|<>=~(),.;]/y;

/** The match of a sticky expression at `at`, or undefined. */
function matchAt(expression: RegExp, sql: string, at: number): string | undefined {
  expression.lastIndex = at;
  return expression.exec(sql)?.[0];
}

/** Where the space or comment that starts at `at` ends; `at` itself when none does. */
function skipSpace(sql: string, at: number): number {
  const code = sql.charCodeAt(at);
  if (code <= 0x20) return at + (matchAt(spaces, sql, at)?.length ?? 0);
  if (code === bom) return at + 1;
  if (code !== 0x2d && code !== 0x2f) return at;
  if (sql.startsWith("--", at)) {
    const end = sql.indexOf("\n", at);
    return end < 0 ? sql.length : end;
  }
  // A slash and a star at the very end are two operators to SQLite.
  if (sql.startsWith("/*", at) && at + 2 < sql.length) {
    // SQLite looks for the end from the third character on, so that the star of the opening cannot be that of the end.
    const end = sql.indexOf("*/", at + 2);
    return end < 0 ? sql.length : end + 2;
  }
  return at;
}

function isWordStart(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95 || code >= 0x80;
}

interface Cut {
  readonly token: SqlToken;
  readonly end: number;
}

function quoted(sql: string, at: number): Cut {
  const open = sql[at]!;
  const close = open === "[" ? "]" : open;
  for (let from = at + 1; ;) {
    const end = sql.indexOf(close, from);
    if (end < 0) throw invalid(`the statement has a quote (${open}) that never ends`);
    if (close === "]" || sql[end + 1] !== close) {
      const inner = sql.slice(at + 1, end);
      const text = close === "]" ? inner : inner.replaceAll(close + close, close);
      return { token: { kind: open === "'" ? "string" : "name", text }, end: end + 1 };
    }
    from = end + 2;
  }
}

function cutAt(sql: string, at: number): Cut {
  const code = sql.charCodeAt(at);
  const char = sql[at]!;
  const alone = lonely.get(char);
  if (alone) return { token: alone, end: at + 1 };
  if (char === "'" || char === '"' || char === "`" || char === "[") return quoted(sql, at);
  if ((char === "x" || char === "X") && sql[at + 1] === "'") {
    const text = matchAt(blob, sql, at);
    if (text === undefined)
      throw invalid("the statement has a blob literal that is not pairs of hexadecimal digits in quotes");
    return { token: { kind: "blob", text }, end: at + text.length };
  }
  if (isWordStart(code)) {
    const text = char + matchAt(wordRest, sql, at + 1)!;
    return { token: { kind: "word", text: asciiUpper(text) }, end: at + text.length };
  }
  const digits = matchAt(number, sql, at);
  if (digits !== undefined) {
    if (matchAt(wordRest, sql, at + digits.length) !== "")
      throw invalid("the statement has a number that runs into a name");
    return { token: { kind: "number", text: digits }, end: at + digits.length };
  }
  const parameter = matchAt(variable, sql, at);
  if (parameter !== undefined) return { token: { kind: "variable", text: parameter }, end: at + parameter.length };
  const sign = matchAt(operator, sql, at);
  if (sign === undefined) throw invalid("the statement has a character that is no part of SQL outside quotes");
  return { token: { kind: "operator", text: sign }, end: at + sign.length };
}

/** Upper case for ASCII letters only, as SQLite compares names. */
function asciiUpper(text: string): string {
  // Only beyond ASCII does toUpperCase do more than SQLite does.
  return /[\u0080-\uffff]/.test(text)
    ? text.replace(/[a-z]+/g, (letters) => letters.toUpperCase())
    : text.toUpperCase();
}

/** All tokens, without space and comments. Throws invalid_request where SQLite would see an illegal token. */
export function parseTokens(sql: string): SqlToken[] {
  const tokens: SqlToken[] = [];
  for (let at = 0; at < sql.length;) {
    const past = skipSpace(sql, at);
    if (past > at) {
      at = past;
      continue;
    }
    const { token, end } = cutAt(sql, at);
    tokens.push(token);
    at = end;
  }
  return tokens;
}

/** The first token alone, or undefined when the text has none. */
export function firstToken(sql: string): SqlToken | undefined {
  let at = 0;
  for (let past = skipSpace(sql, 0); past > at; past = skipSpace(sql, at)) at = past;
  return at < sql.length ? cutAt(sql, at).token : undefined;
}

/**
 * The names of a statement's parameters by their number, from 1; undefined for one without a name (`?`, and numbers
 * that are skipped). Numbered as SQLite does: `?` takes the next number, `?5` the fifth, a name its own.
 */
export function listParameters(tokens: readonly SqlToken[]): readonly (string | undefined)[] {
  const names: (string | undefined)[] = [];
  const numbers = new Map<string, number>();
  for (const { kind, text } of tokens) {
    if (kind !== "variable") continue;
    let at = names.length;
    if (text.startsWith("?")) {
      if (text.length > 1) at = Number(text.slice(1)) - 1;
    } else {
      at = numbers.get(text) ?? at;
      numbers.set(text, at);
    }
    // The statement's own limit on parameters is checked when it is prepared; here only the memory is at stake.
    if (!(at >= 0 && at < 40_000)) throw invalid("a parameter's number is out of range");
    while (names.length <= at) names.push(undefined);
    if (text !== "?") names[at] ??= text;
  }
  return names;
}
