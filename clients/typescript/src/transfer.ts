/** A branch as lines of JSON: out in parts, and in again. */
import { operations } from "./generated/operations.ts";
import type { ImportError, ImportLeft, ImportQuery, ImportResponse } from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** Lines of an export, in pieces of any size. */
export type ExportedLines = string | Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** Bytes of a part that is sent, unless a line has more. */
const partBytes = 2 * 1024 * 1024;
/** Lines that the answer of a whole import names, of each sort. */
const namedMax = 20;
const lineFeed = 10;

/** The parts of an export. A state is asked for with the first one, which all others are of. */
export async function* exportParts(
  scope: Scope,
  options: CallOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  const { at, ...rest } = options;
  let cursor: string | undefined;
  do {
    const asked = cursor === undefined ? { ...rest, at } : rest;
    const part = await scope.call<Uint8Array>(operations.export, { query: { cursor } }, asked);
    cursor = cursorOf(part);
    yield part;
  } while (cursor !== undefined);
}

/** The cursor of the mark that ends the part; the last part ends with a trailer. */
function cursorOf(part: Uint8Array): string | undefined {
  const from = part.lastIndexOf(lineFeed, part.length - 2) + 1;
  const last = JSON.parse(new TextDecoder().decode(part.subarray(from))) as { kind: string; cursor?: string };
  return last.kind === "mark" ? last.cursor : undefined;
}

/** Sends the lines, some at a time, and gives the last answer with what the calls before it named. */
export async function importLines(
  scope: Scope,
  lines: ExportedLines,
  query: Omit<ImportQuery, "cursor">,
  options?: CallOptions,
): Promise<ImportResponse> {
  const left: ImportLeft[] = [];
  const errors: ImportError[] = [];
  let answer: ImportResponse | undefined;
  const send = async (body: Uint8Array): Promise<ImportResponse> => {
    const parts = {
      query: { ...query, cursor: answer?.cursor ?? undefined },
      body,
      contentType: "application/x-ndjson",
    };
    const given = await scope.call<ImportResponse>(operations.import, parts, options);
    left.push(...given.left.slice(0, namedMax - left.length));
    errors.push(...given.errors.slice(0, namedMax - errors.length));
    return given;
  };
  for await (const part of inParts(lines)) {
    for (let rest = part; rest.length > 0;) {
      if (answer?.complete) throw new TypeError("there are lines behind the trailer of the export");
      const line: number = answer?.nextLine ?? 1;
      answer = await send(rest);
      rest = withoutLines(rest, answer.nextLine - line);
    }
  }
  return { ...(answer ?? (await send(new Uint8Array()))), left, errors };
}

/** What is behind the lines that the node has taken. */
function withoutLines(bytes: Uint8Array, count: number): Uint8Array {
  let from = 0;
  for (let passed = 0; passed < count; passed++) {
    const end = bytes.indexOf(lineFeed, from);
    if (end < 0) return new Uint8Array();
    from = end + 1;
  }
  return bytes.subarray(from);
}

/** The pieces as whole lines, about a part at a time. */
async function* inParts(lines: ExportedLines): AsyncGenerator<Uint8Array, void, undefined> {
  let pieces: Uint8Array[] = [];
  let length = 0;
  const bytes = typeof lines === "string" ? new TextEncoder().encode(lines) : lines;
  for await (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) {
    pieces.push(piece);
    length += piece.length;
    if (length < partBytes || !piece.includes(lineFeed)) continue;
    let held = joined(pieces, length);
    while (held.length >= partBytes) {
      const before = held.lastIndexOf(lineFeed, partBytes - 1);
      const end = (before < 0 ? held.indexOf(lineFeed, partBytes) : before) + 1;
      if (end === 0) break;
      yield held.subarray(0, end);
      held = held.subarray(end);
    }
    pieces = [held];
    length = held.length;
  }
  if (length > 0) yield joined(pieces, length);
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = pieces;
  if (pieces.length === 1) return only!;
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
