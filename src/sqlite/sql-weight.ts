/**
 * Foresees what a statement would grow to when SQLite's planner copies subqueries into the query around them.
 *
 * Why: the columns of a subquery, CTE or view are copied wherever they are named, so twenty-five views that each say
 * `x + x` of the one before make 2^25 copies: 16 s and 3.6 GB while preparing, where no interrupt is looked at
 * (measured). Such a statement is planned without the copying instead (guard: `plain`), which is slower to run and
 * gives the same rows. The estimate is from above: it may slow an odd statement down, it refuses none.
 */
import { limits } from "../base/limits.ts";
import type { Connection } from "./connection.ts";
import { tokensOf, type SqlToken } from "./sql-tokens.ts";

interface Weight {
  /** Names in the text, in lower case, each once. */
  readonly names: ReadonlySet<string>;
  /** How often the text names something. */
  readonly uses: number;
  /** Sum over its select lists of the binary logarithm of the most names in one result column. */
  readonly bits: number;
}

/** One pair of parentheses, or the whole text. */
interface Frame {
  inList: boolean;
  /** Names in the current result column, and the most in one of the list's columns before it. */
  here: number;
  most: number;
  uses: number;
}

const listEnds = new Set(["FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT", ";"]);
const notNames = new Set(["AS", "CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "GLOB", "BETWEEN", "DISTINCT", "ALL", "COLLATE", "TRUE", "FALSE"]);

function newFrame(): Frame {
  return { inList: false, here: 0, most: 1, uses: 0 };
}

/** Ends the frame's select list, if it is in one, and gives its bits. */
function endList(frame: Frame): number {
  if (!frame.inList) return 0;
  frame.inList = false;
  return Math.log2(Math.max(frame.most, frame.here));
}

function weigh(tokens: readonly SqlToken[]): Weight {
  const names = new Set<string>();
  const stack: Frame[] = [];
  let frame = newFrame();
  let bits = 0;
  for (const [index, { kind, text }] of tokens.entries()) {
    if (text === "(" && kind === "operator") {
      stack.push(frame);
      frame = newFrame();
    } else if (text === ")" && kind === "operator") {
      bits += endList(frame);
      const outer = stack.pop() ?? newFrame();
      outer.here += frame.uses;
      outer.uses += frame.uses;
      frame = outer;
    } else if (text === "," && kind === "operator") {
      frame.most = Math.max(frame.most, frame.here);
      frame.here = 0;
    } else if (kind === "word" && text === "SELECT") {
      bits += endList(frame);
      frame.inList = true;
      frame.here = 0;
      frame.most = 1;
    } else if ((kind === "word" || kind === "operator") && listEnds.has(text)) {
      bits += endList(frame);
    } else if (kind === "name" || kind === "string" || (kind === "word" && !notNames.has(text))) {
      names.add(text.toLowerCase());
      const next = tokens[index + 1]?.text;
      if (kind === "string" || next === "." || next === "(") continue;
      frame.here++;
      frame.uses++;
    }
  }
  let uses = frame.uses;
  bits += endList(frame);
  for (const outer of stack) {
    bits += endList(outer);
    uses += outer.uses;
  }
  return { names, uses, bits };
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
  const size = connection.get<{ n: number | null }>("SELECT sum(octet_length(sql)) AS n FROM sqlite_master WHERE type IN ('view', 'trigger')")!;
  const unweighed = (size.n ?? 0) > limits.sqlWeighedBytesMax;
  if (!unweighed && size.n !== null) {
    for (const row of connection.all<{ type: string; name: string; sql: string }>("SELECT type, name, sql FROM sqlite_master WHERE type IN ('view', 'trigger')")) {
      const weight = weigh(tokensOf(row.sql));
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
    for (const name of next.names) {
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
 * Whether the planner's copying could make more than 2^limits.sqlCopiedNamesBits names of the statement, its views and
 * the triggers it may fire. Reads the schema, so it must not run inside the guard.
 */
export function copiesTooMuch(connection: Connection, tokens: readonly SqlToken[]): boolean {
  const { views, triggers, unweighed } = schemaWeight(connection);
  if (unweighed) return true;
  return [weigh(tokens), ...triggers].some((weight) => totalBits(weight, views) > limits.sqlCopiedNamesBits);
}
