/**
 * The table that a statement of user SQL names as the one that it changes.
 *
 * Judged from the text alone, which costs nothing: what triggers and foreign keys change besides is not found. Must not
 * know: connections.
 */
import type { SqlToken } from "./sql-tokens.ts";

const changing = new Set(["INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER"]);
const defining = new Set(["CREATE", "DROP", "ALTER"]);
/** What may stand between the keyword and the table's name. */
const between = new Set(["INTO", "FROM", "VIRTUAL", "TABLE", "IF", "NOT", "EXISTS"]);

/** The name as it is written, a bare one in upper case; undefined where the statement changes none by name. */
export function findChangedTable(tokens: readonly SqlToken[]): string | undefined {
  const at = findVerb(tokens);
  const verb = tokens[at];
  if (verb === undefined) return undefined;
  let next = at + 1;
  // A conflict clause: OR REPLACE, OR IGNORE …
  if (isWord(tokens[next]) && tokens[next]!.text === "OR") next += 2;
  const skippedFrom = next;
  while (isWord(tokens[next]) && between.has(tokens[next]!.text)) next++;
  // An index, a trigger or a view: no table's rows.
  if (defining.has(verb.text) && !tokens.slice(skippedFrom, next).some(({ text }) => text === "TABLE"))
    return undefined;
  const [name, dot, inSchema] = tokens.slice(next, next + 3);
  return dot?.kind === "operator" && dot.text === "." ? inSchema?.text : name?.text;
}

/** Where the statement's own verb is: its first word, or behind what WITH defines. */
function findVerb(tokens: readonly SqlToken[]): number {
  let depth = 0;
  return tokens.findIndex((token) => {
    if (token.kind === "operator" && token.text === "(") depth++;
    if (token.kind === "operator" && token.text === ")") depth--;
    return depth === 0 && isWord(token) && changing.has(token.text);
  });
}

function isWord(token: SqlToken | undefined): boolean {
  return token?.kind === "word";
}
