/**
 * Foresees what a statement would grow to when SQLite's planner copies subqueries into the query around them.
 *
 * Why: the columns of a subquery, CTE or view are copied wherever they are named, so twenty-five views that each say
 * `x + x` of the one before make 2^25 copies: 16 s and 3.6 GB while preparing, where no interrupt is looked at
 * (measured). Such a statement is planned without the copying instead (guard: `plain`), which is slower to run and
 * gives the same rows. The estimate is from above: it may slow an odd statement down, it refuses none.
 */
import { invalid } from "../base/faults/errors.ts";
import type { Connection } from "./connection/connection.ts";
import { parseTokens, type SqlToken } from "./sql-tokens.ts";

/** Names a planner may end up with when subqueries are copied into the query around them, as a power of two. */
const sqlCopiedNamesBits = 20;
/**
 * Tokens that a statement's result columns make when each use of an alias or number copies its column: 0.2 s, 100 MB.
 */
const sqlAliasTokensMax = 2 ** 21;
/** Text of views and triggers that is weighed; with more of it, subqueries are not copied at all. */
const sqlWeighedBytesMax = 1024 * 1024;

interface Weight {
  /** Names in the text, in lower case, with how often each occurs. */
  readonly names: ReadonlyMap<string, number>;
  /** How often the text names a column. */
  readonly uses: number;
  /** Sum over its select lists of the binary logarithm of the most names in one result column. */
  readonly bits: number;
  /** Tokens of result columns, each counted as often as the text uses its alias or number. */
  readonly aliasTokens: number;
}

const listEnds = new Set([
  "FROM",
  "WHERE",
  "GROUP",
  "HAVING",
  "WINDOW",
  "UNION",
  "EXCEPT",
  "INTERSECT",
  "ORDER",
  "LIMIT",
  ";",
]);
const notNames = new Set([
  "AS",
  "CASE",
  "WHEN",
  "THEN",
  "ELSE",
  "END",
  "AND",
  "OR",
  "NOT",
  "IS",
  "NULL",
  "IN",
  "LIKE",
  "GLOB",
  "BETWEEN",
  "DISTINCT",
  "ALL",
  "COLLATE",
  "TRUE",
  "FALSE",
]);

/** One pair of parentheses, or the whole text. */
interface Frame {
  /** The names and the first token of the result column that is being read; undefined outside a select list. */
  column: { names: number; from: number } | undefined;
  /** The most names in one of the list's columns so far. */
  most: number;
  /** Inside GROUP BY or ORDER BY, where a number means a result column. */
  by: boolean;
  names: number;
}

/** Reads a text once, keeping count for each level of parentheses. */
class Scale {
  readonly #tokens: readonly SqlToken[];
  readonly #outer: Frame[] = [];
  #frame: Frame = { column: undefined, most: 1, by: false, names: 0 };
  readonly #names = new Map<string, number>();
  readonly #columns: { readonly alias: string; readonly tokens: number }[] = [];
  #numbers = 0;
  #bits = 0;

  constructor(tokens: readonly SqlToken[]) {
    this.#tokens = tokens;
  }

  weigh(): Weight {
    for (const [index, token] of this.#tokens.entries()) this.#take(token, index);
    while (this.#outer.length > 0) this.#close(this.#tokens.length);
    this.#endList(this.#tokens.length);
    let longest = 0;
    let aliasTokens = 0;
    for (const { alias, tokens } of this.#columns) {
      longest = Math.max(longest, tokens);
      aliasTokens += tokens * (this.#names.get(alias) ?? 0);
    }
    return {
      names: this.#names,
      uses: this.#frame.names,
      bits: this.#bits,
      aliasTokens: aliasTokens + longest * this.#numbers,
    };
  }

  #take({ kind, text }: SqlToken, index: number): void {
    const frame = this.#frame;
    if (kind === "operator") {
      if (text === "(") {
        this.#outer.push(frame);
        this.#frame = { column: undefined, most: 1, by: frame.by, names: 0 };
      } else if (text === ")" && this.#outer.length > 0) {
        this.#close(index);
      } else if (text === "," && frame.column) {
        this.#endColumn(index);
        frame.column = { names: 0, from: index + 1 };
      } else if (text === ";") {
        this.#endList(index);
      }
    } else if (kind === "number") {
      if (frame.by) this.#numbers++;
    } else if (kind === "word" && text === "SELECT") {
      this.#endList(index);
      frame.column = { names: 0, from: index + 1 };
      frame.by = false;
    } else if (kind === "word" && (text === "BY" || listEnds.has(text))) {
      this.#endList(index);
      frame.by = text === "BY";
    } else if (kind === "name" || kind === "string" || (kind === "word" && !notNames.has(text))) {
      this.#name(text.toLowerCase(), kind === "string" ? "." : this.#tokens[index + 1]?.text);
    }
  }

  #name(name: string, next: string | undefined): void {
    this.#names.set(name, (this.#names.get(name) ?? 0) + 1);
    // A qualifier and a function are no columns; nor is a string, though it may name a table.
    if (next === "." || next === "(") return;
    this.#frame.names++;
    if (this.#frame.column) this.#frame.column.names++;
  }

  #endColumn(end: number): void {
    const { column } = this.#frame;
    if (!column) return;
    this.#frame.most = Math.max(this.#frame.most, column.names);
    this.#columns.push({ alias: this.#tokens[end - 1]?.text.toLowerCase() ?? "", tokens: end - column.from });
  }

  #endList(end: number): void {
    if (!this.#frame.column) return;
    this.#endColumn(end);
    this.#bits += Math.log2(this.#frame.most);
    this.#frame.column = undefined;
    this.#frame.most = 1;
  }

  /** Ends the innermost parentheses; what they name belongs to the column around them too. */
  #close(end: number): void {
    this.#endList(end);
    const { names } = this.#frame;
    this.#frame = this.#outer.pop()!;
    this.#frame.names += names;
    if (this.#frame.column) this.#frame.column.names += names;
  }
}

function weigh(tokens: readonly SqlToken[]): Weight {
  return new Scale(tokens).weigh();
}

/** What the schema's own texts weigh. */
interface SchemaWeight {
  readonly version: number;
  readonly views: ReadonlyMap<string, Weight>;
  readonly triggers: readonly Weight[];
  /** There is too much text to weigh it all. */
  readonly unweighed: boolean;
}

const remembered = new WeakMap<Connection, SchemaWeight>();

function schemaWeight(connection: Connection): SchemaWeight {
  const version = connection.get<{ schema_version: number }>("PRAGMA schema_version")!.schema_version;
  const known = remembered.get(connection);
  if (known?.version === version) return known;
  const views = new Map<string, Weight>();
  const triggers: Weight[] = [];
  const size = connection.get<{ n: number | null }>(
    "SELECT sum(octet_length(sql)) AS n FROM sqlite_master WHERE type IN ('view', 'trigger')",
  )!;
  const unweighed = (size.n ?? 0) > sqlWeighedBytesMax;
  if (!unweighed && size.n !== null) {
    for (const row of connection.all<{ type: string; name: string; sql: string }>(
      "SELECT type, name, sql FROM sqlite_master WHERE type IN ('view', 'trigger')",
    )) {
      const weight = weigh(parseTokens(row.sql));
      if (row.type === "view") views.set(row.name.toLowerCase(), weight);
      else triggers.push(weight);
    }
  }
  const weight = { version, views, triggers, unweighed };
  remembered.set(connection, weight);
  return weight;
}

/** The bits of a text together with all the views it may reach. A chain of views passes each of them once. */
function totalBits(weight: Weight, views: ReadonlyMap<string, Weight>): number {
  let bits = weight.bits;
  let uses = weight.uses;
  const reached = new Set<Weight>();
  const waiting = [weight];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    for (const name of next.names.keys()) {
      const view = views.get(name);
      if (!view || reached.has(view)) continue;
      reached.add(view);
      waiting.push(view);
      bits += view.bits;
      uses += view.uses;
    }
  }
  return bits + Math.log2(1 + uses);
}

/**
 * Whether the planner's copying could make more than 2^sqlCopiedNamesBits names of the statement, its views and
 * the triggers it may fire. Throws invalid_request when aliases alone make too many copies, which no plan avoids.
 * Reads the schema, so it must not run inside the guard.
 */
export function copiesTooMuch(connection: Connection, tokens: readonly SqlToken[]): boolean {
  const own = weigh(tokens);
  // 900 uses of a column of 200 KB took 45 s and 10 GB (measured).
  if (own.aliasTokens > sqlAliasTokensMax) {
    throw invalid("the statement uses a long result column too often by its alias or number; use a subquery");
  }
  const { views, triggers, unweighed } = schemaWeight(connection);
  return unweighed || [own, ...triggers].some((weight) => totalBits(weight, views) > sqlCopiedNamesBits);
}
