/**
 * What a stored memory or turn says, as text: of a JSON string its characters, of any other JSON its source.
 *
 * Always true: of a content only its beginning is looked at, and a text that is not whole says so. Must not know: rows,
 * budgets.
 */
import { fold } from "./shown-text.ts";

/** Characters of a content that are read for a block; a longer one is shown by its beginning. */
export const contentCharsShownMax = 16_384;

/** A text on one line; `isWhole` is false when more was stored than is read. */
export interface SaidText {
  readonly text: string;
  readonly isWhole: boolean;
}

/** Contents that say nothing. */
const empty: ReadonlySet<string> = new Set(["null", '""', "{}", "[]"]);
/** Characters and whole escapes of a JSON string from behind its quote on, as far as they come. */
const stringBeginning = /^"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)/;

/** What a content says, JSON text that was checked before it was stored, or the beginning of one. */
function contentText(content: string): string {
  if (empty.has(content)) return "";
  const inner = stringBeginning.exec(content)?.[1];
  return fold(inner === undefined ? content : (JSON.parse(`"${inner}"`) as string).toWellFormed());
}

/** A content of which at most a character more than is shown was read. */
function readContent(content: string): SaidText {
  const isWhole = content.length <= contentCharsShownMax;
  return { text: contentText(isWhole ? content : content.slice(0, contentCharsShownMax).toWellFormed()), isWhole };
}

/** A memory: its summary and what its content adds to it. */
export function memoryLineText(summary: string, content: string): SaidText {
  const gist = fold(summary);
  const { text: detail, isWhole } = readContent(content);
  // Many a summary is the beginning of the content, and many a content says the summary again.
  if (detail.startsWith(gist)) return { text: detail, isWhole };
  if (gist.includes(detail)) return { text: gist, isWhole };
  return { text: `${gist} | ${detail}`, isWhole };
}

/** A turn: who spoke, and what was said. */
export function turnLineText(role: string, content: string): SaidText {
  const { text, isWhole } = readContent(content);
  return { text: `${fold(role)}: ${text}`, isWhole };
}
