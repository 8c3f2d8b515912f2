/**
 * Source text with what is not code blanked out, so that rules can look at code by plain patterns.
 *
 * Always true: the masked text has the same length and the same lines as the source; quotes stay, what stands between
 * them does not; the expressions inside a template stay.
 */

export interface MaskedSource {
  /** Code only: comments, and the insides of strings, templates and regular expressions, are spaces. */
  readonly code: string;
  /** Comments only: everything else is spaces. */
  readonly comments: string;
}

/** Words after which a slash begins a regular expression. */
const beforeExpression = /(?:^|[^\w$.])(?:return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield)$/;

export function maskSource(text: string): MaskedSource {
  const code: string[] = Array.from({ length: text.length }, (_, at) => (text[at] === "\n" ? "\n" : " "));
  const comments = [...code];
  /** Of each open template expression, how many braces are open inside it. */
  const templates: number[] = [];
  let last = "";
  let at = 0;

  const keep = (end: number): void => {
    for (; at < end; at++) {
      code[at] = text[at]!;
      if (!/\s/.test(text[at]!)) last = text.slice(Math.max(0, at - 12), at + 1);
    }
  };
  const comment = (end: number): void => {
    for (; at < end; at++) comments[at] = text[at]!;
  };
  const quoted = (end: number): void => {
    keep(at + 1);
    at = Math.max(at, end - 1);
    keep(end);
  };
  const template = (): void => {
    const stop = templateStop(text, at);
    at = stop;
    keep(stop + (text[stop] === "$" ? 2 : 1));
    if (text[stop] === "$") templates.push(0);
  };

  while (at < text.length) {
    const two = text.slice(at, at + 2);
    const one = text[at]!;
    if (two === "//" || two === "#!") comment(endOr(text, text.indexOf("\n", at)));
    else if (two === "/*") comment(endOr(text, text.indexOf("*/", at) + 2));
    else if (one === '"' || one === "'") quoted(stringEnd(text, at, one));
    else if (one === "`") {
      keep(at + 1);
      template();
    } else if (one === "/" && startsExpression(last)) quoted(regexEnd(text, at));
    else {
      const open = templates.at(-1);
      if (one === "}" && open === 0) {
        templates.pop();
        keep(at + 1);
        template();
        continue;
      }
      if (open !== undefined && one === "{") templates[templates.length - 1] = open + 1;
      if (open !== undefined && one === "}") templates[templates.length - 1] = open - 1;
      keep(at + 1);
    }
  }
  return { code: code.join(""), comments: comments.join("") };
}

function endOr(text: string, found: number): number {
  return found <= 1 ? text.length : found;
}

function startsExpression(before: string): boolean {
  return before === "" || /[(,=:[!&|?{;+\-*%<>~^]$/.test(before) || beforeExpression.test(before);
}

function stringEnd(text: string, start: number, quote: string): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === quote || text[at] === "\n") return at + 1;
  }
  return text.length;
}

/** Where the template's text ends: at its closing quote or at the `$` of an expression. */
function templateStop(text: string, start: number): number {
  for (let at = start; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "`" || text.startsWith("${", at)) return at;
  }
  return text.length;
}

function regexEnd(text: string, start: number): number {
  let inClass = false;
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "\n") return at;
    else if (text[at] === "[") inClass = true;
    else if (text[at] === "]") inClass = false;
    else if (text[at] === "/" && !inClass) return at + 1;
  }
  return text.length;
}
