/**
 * What an embedder has yet to do in a database: which memories and turns have no vector, and taking in the ones it
 * made.
 *
 * Always true: filling in gives a vector to what is still there and has none, and changes nothing else; each step looks
 * at a bounded number of rows. Must not know: when it is done, by whom.
 */
import { readContent, textLeaves } from "./core/content.ts";
import { embed, embeddedSpace, isForeign, findMaker, type EmbeddedKind, type Maker } from "./memory/memory-vectors.ts";
import type { Tx, View } from "./core/transaction.ts";

/** Text of one memory or turn that is embedded: 8,192 tokens at the very most, which hosted models take. */
export const embedTextBytesMax = 8 * 1024;
/** Vectors that are made in one step of a backfill or of a reembed, and bytes of content that are read for it. */
export const embedStepItemsMax = 64;
const embedStepBytesMax = 4 * 1024 * 1024;
/** Rows that are looked at in one step. */
export const embedStepLooksMax = 2_000;

/** Cuts a text to what is embedded, never within a letter. */
function cutText(text: string): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(embedTextBytesMax));
  return text.slice(0, read);
}

/** Roles that say nothing of who it was. */
const usualRoles = new Set(["user", "assistant", "system", "developer", "tool", "function", "human", "ai", "model"]);

/**
 * Before the text stands who said it, where that is a name: questions name people, whose own words do not. With
 * all-MiniLM-L6-v2 the nearest eight turns hold an answer to half of LoCoMo's questions instead of a quarter.
 */
function saidBy(name: string | undefined, text: string): string {
  const isName = name !== undefined && /\p{L}/u.test(name) && !usualRoles.has(name.toLowerCase());
  return text !== "" && isName ? `${name}: ${text}` : text;
}

/**
 * Times, numbers and ids beside a text turn its vector away from what it says: where a text has more letters than that,
 * what has fewer is left out.
 */
function joinTelling(texts: readonly string[]): string {
  const isTelling = (text: string): boolean =>
    2 * (text.match(/[\p{L}\p{M}]/gu)?.length ?? 0) >= (text.match(/\S/gu)?.length ?? 0);
  const telling = texts.filter((text) => text !== "" && isTelling(text));
  return (telling.length > 0 ? telling : texts).join("\n");
}

/** What is embedded of a memory: its source, its summary and the texts of its content. */
export function memoryText({ source, summary, content }: Said): string {
  return cutText(saidBy(source ?? undefined, joinTelling([summary, ...listTexts(content)])));
}

/** What is embedded of a turn: who said it and the texts of its content; empty when it has none. */
export function turnText({ role, content }: { readonly role?: string; readonly content: string }): string {
  return cutText(saidBy(role, joinTelling(listTexts(content))));
}

/** What a memory says. */
interface Said {
  readonly source?: string | null;
  readonly summary: string;
  readonly content: string;
}

function listTexts(content: string): readonly string[] {
  return textLeaves(readContent("content", content).value, embedTextBytesMax);
}

/** Whose vectors a kind's space holds. */
export interface SpaceState {
  /** Whether there is any vector. */
  readonly exists: boolean;
  /** The embedder's name; undefined for the callers' own. */
  readonly embeddedBy: string | undefined;
}

export function spaceStates(view: View): Readonly<Record<EmbeddedKind, SpaceState>> {
  const readSpaceState = (kind: EmbeddedKind): SpaceState => {
    const space = embeddedSpace(view, kind);
    return { exists: space !== undefined, embeddedBy: space && findMaker(view, space)?.name };
  };
  return { memory: readSpaceState("memory"), turn: readSpaceState("turn") };
}

/** Something without a vector. The time tells whether a row is still the same one when its vector comes. */
interface Unembedded {
  readonly row: number;
  readonly createdAt: number;
  readonly text: string;
}

export interface UnembeddedPage {
  readonly items: Unembedded[];
  /** The row to go on after; undefined at the end, and where the space is not this embedder's. */
  readonly next: number | undefined;
}

const sources = {
  memory: {
    looks: "SELECT row, created_at, type <> 'task' AS wanted FROM __service_memory WHERE row > ? ORDER BY row LIMIT ?",
    text: "SELECT source, summary, content FROM __service_memory WHERE row = ?",
    size: "SELECT octet_length(content) FROM __service_memory AS o WHERE o.row = l.row",
  },
  turn: {
    looks: "SELECT row, created_at, TRUE AS wanted FROM __service_turn WHERE row > ? ORDER BY row LIMIT ?",
    text: "SELECT role AS source, '' AS summary, content FROM __service_turn WHERE row = ?",
    size: "SELECT octet_length(content) FROM __service_turn AS o WHERE o.row = l.row",
  },
} as const;

/** The next memories or turns after a row that have no vector, in the order of their rows. */
export function unembedded(
  view: View,
  input: { readonly kind: EmbeddedKind; readonly embeddedBy: string; readonly after: number },
): UnembeddedPage {
  const { kind, embeddedBy, after } = input;
  const space = embeddedSpace(view, kind);
  if (space && isForeign(view, space, embeddedBy)) return { items: [], next: undefined };
  const { looks, text, size } = sources[kind];
  const looked = view.connection.all<{ row: number; createdAt: number; missing: number; bytes: number }>(
    `SELECT l.row, l.created_at AS createdAt, (${size}) AS bytes,
            l.wanted AND NOT EXISTS
              (SELECT 1 FROM __service_vector AS v WHERE v.space = ? AND v.owner = l.row) AS missing
     FROM (${looks}) AS l ORDER BY l.row`,
    space?.space ?? -1,
    after,
    embedStepLooksMax,
  );
  const items: Unembedded[] = [];
  let bytesRead = 0;
  for (const { row, createdAt, missing, bytes } of looked) {
    if (missing === 0) continue;
    if (items.length >= embedStepItemsMax || (items.length > 0 && bytesRead + bytes > embedStepBytesMax))
      return { items, next: items.at(-1)!.row };
    bytesRead += bytes;
    const said = view.connection.get<Said>(text, row)!;
    const embeddable =
      kind === "memory" ? memoryText(said) : turnText({ role: said.source ?? "", content: said.content });
    if (embeddable !== "") items.push({ row, createdAt, text: embeddable });
  }
  return { items, next: looked.length < embedStepLooksMax ? undefined : looked.at(-1)!.row };
}

/** A vector for something that had none. */
export interface Filling extends Omit<Unembedded, "text"> {
  readonly embedding: Float32Array;
}

/** Gives vectors to what is still there without one, and says how many were stored. */
export function fillIn(
  tx: Tx,
  input: { readonly kind: EmbeddedKind; readonly embeddedBy: Maker; readonly items: readonly Filling[] },
): { filled: number } {
  const { kind, embeddedBy, items } = input;
  const table = kind === "memory" ? "__service_memory" : "__service_turn";
  let filled = 0;
  for (const { row, createdAt, embedding } of items) {
    if (!tx.connection.get(`SELECT 1 FROM ${table} WHERE row = ? AND created_at = ?`, row, createdAt)) continue;
    if (embed(tx, kind, row, { embedding, embeddedBy }) === "stored") filled++;
  }
  return { filled };
}
