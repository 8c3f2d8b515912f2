/**
 * What rows that are about to be erased look like on their pages: windows by which any copy of them can be found.
 *
 * A window is cut where its bytes lie side by side in SQLite's records (sqlite.org/fileformat2.html, 2.1), and so that
 * no row that stays has the same: by the id of a memory, the time of a turn, the owner of a vector. A vector has
 * windows within as well, because most of a long one lies on pages of its own; those say nothing about whose vector it
 * is, so for each one found it is asked whether a vector that stays has it. A turn or vector that is too short for a
 * window has none: it goes with the history that held it, like everything else, and only is not looked for.
 */
import { assert } from "../base/faults/assert.ts";
import { encodeUtf8 } from "../base/bytes.ts";
import type { Traces } from "../format/erasure/erasure-coupon.ts";
import { computeTrace, windowBytes } from "../format/erasure/traces.ts";
import { metadataStart } from "./docs/memory-metadata.ts";
import { blob, encodeRecord, integer, nothing, text, unread, type Stored } from "./core/record-bytes.ts";
import type { View } from "./core/transaction.ts";
import { detailStarts } from "./transcript/turn-details.ts";
import { linksOf, type FoundLink } from "./standing/links.ts";
import { validityEnd } from "./standing/validity.ts";
import { operationStarts } from "./transcript/turn-operations.ts";
import type { SpaceKind } from "./vectors/vectors.ts";
import type { KnownRecord } from "./erasure-windows.ts";

/** Windows of erased data that are remembered until it is proven to be gone, 20 bytes each. */
export const erasureTraceWindowsMax = 32_768;
/** Vectors that stay are compared with those that are erased, up to this much of them: a few milliseconds. */
const erasureComparedBytesMax = 1024 * 1024;

/** A row of `__service_memory` that goes. */
export interface ErasedRow {
  readonly row: number;
  readonly id: string;
  readonly type: string;
}

/** Windows within a vector begin at every multiple of this, and at its end. */
const vectorStepBytes = 512;
/**
 * A turn's window has at least this many bytes of a longer session id, before a number and a time of at most 8 and 6
 * bytes.
 */
const sessionEndBytes = windowBytes - 8 - 6;
/** Fewer different bytes than this are what zeroes and repetitions are made of, which others have too. */
const differentBytesMin = 8;

/** The windows of everything that one erasure takes away. */
export class ErasedWindows {
  readonly #view: View;
  /** One for each memory, metadata and turn: these are kept whatever happens. */
  readonly #rows: Uint8Array[] = [];
  /** Those of index entries and of the beginnings of vectors. */
  readonly #more: Uint8Array[] = [];
  /** Those within vectors. */
  #within: Uint8Array[] = [];

  constructor(view: View) {
    this.#view = view;
  }

  /** The memory, while it is still there. */
  addMemory({ row, id, type }: ErasedRow): void {
    const start = Buffer.concat([encodeUtf8(id), encodeUtf8(type)]);
    assert(start.length >= windowBytes, "an id and a type fill a window");
    this.#rows.push(start.subarray(0, windowBytes));
    // Its entry in the index of ids, by its end: what it has superseded is in an index under the same id, and differs
    // by the row only.
    this.#more.push(encodeRecord(text(encodeUtf8(id)), integer(row)).subarray(-windowBytes));
    const metadata = metadataStart(this.#view, row);
    if (metadata) this.#addStart(metadata, this.#rows);
    const end = validityEnd(this.#view, row);
    if (end) this.#addStart(end.subarray(-windowBytes), this.#rows);
    this.addLinks(linksOf(this.#view, row));
    this.#addVector("memory", row);
  }

  /** Links that go, while they are still there. */
  addLinks(links: readonly FoundLink[]): void {
    for (const { windows } of links) {
      const [start, entry] = windows as readonly [Uint8Array, Uint8Array];
      this.#addStart(start, this.#rows);
      this.#addStart(entry.subarray(-windowBytes), this.#more);
    }
  }

  /** A record that is erased by its name, while it is still there. A turn is added by `addTurns`. */
  addRecord({ window, vector }: KnownRecord): void {
    if (window) this.#rows.push(window);
    if (vector?.kind === "collection") this.#addVector("collection", vector.owner);
  }

  /** The transcript of the session, or turns of it, while it is still there. */
  addTurns(sessionId: string, seqs?: readonly number[]): void {
    const wanted = seqs === undefined ? null : JSON.stringify(seqs);
    const turns = this.#view.connection
      .prepared(
        `SELECT row, seq, created_at AS createdAt, octet_length(role) AS roleBytes,
           substr(CAST(role AS BLOB), 1, ${windowBytes}) AS role,
                octet_length(content) AS contentBytes, substr(CAST(content AS BLOB), 1, ${windowBytes}) AS content
         FROM __service_turn WHERE session_id = ? AND (? IS NULL OR seq IN (SELECT value FROM json_each(?)))
         ORDER BY seq`,
      )
      .all(sessionId, wanted, wanted) as {
      row: number;
      seq: number;
      createdAt: number;
      roleBytes: number;
      role: Uint8Array;
      contentBytes: number;
      content: Uint8Array;
    }[];
    const alike = this.#turnsAlike(sessionId);
    for (const turn of turns) {
      const fields = [nothing, text(encodeUtf8(sessionId)), integer(turn.seq), integer(turn.createdAt)];
      const rest = [text(turn.role, turn.roleBytes), text(turn.content, turn.contentBytes)];
      const record = encodeRecord(...fields, ...rest);
      // It ends with the time, at which no other turn of the session with this number was said, or begins the record.
      const timeEnds = record[0]! + fields.reduce((sum, { bytes }) => sum + bytes.length, 0);
      if (!alike.has(formatPlace(turn)))
        this.#addStart(record.subarray(Math.max(0, timeEnds - windowBytes)), this.#rows);
      this.#addVector("turn", turn.row);
    }
    this.#addMarked(sessionId, wanted);
  }

  /** What lies beside the turns, and the operations of their session: each begins with a mark of its own. */
  #addMarked(sessionId: string, wanted: string | null): void {
    const session = unread(13, encodeUtf8(sessionId).length);
    const add = (mark: string, ...rest: readonly Stored[]): void => {
      const start = encodeRecord(nothing, text(encodeUtf8(mark)), session, ...rest);
      this.#addStart(start.subarray(Math.max(0, start.length - windowBytes)), this.#rows);
    };
    for (const { mark, turnIdBytes, metadataBytes } of detailStarts(this.#view, sessionId, wanted))
      add(mark, unread(13, turnIdBytes), unread(13, metadataBytes));
    for (const { mark, operationIdBytes, at, requestBytes, answerBytes } of operationStarts(this.#view, sessionId)) {
      const rest = [unread(13, operationIdBytes), { ...integer(at), bytes: new Uint8Array() }];
      add(mark, ...rest, unread(12, requestBytes), unread(13, answerBytes));
    }
  }

  /**
   * Places of the turns of sessions whose ids end as this one's. A turn at the same place has the same window, and
   * stays.
   */
  #turnsAlike(sessionId: string): ReadonlySet<string> {
    const end = encodeUtf8(sessionId).slice(-sessionEndBytes);
    const turns = this.#view.connection.all<TurnPlace>(
      `SELECT t.seq, t.created_at AS createdAt
       FROM (SELECT DISTINCT session_id FROM __service_turn WHERE session_id <> ? AND
         substr(CAST(session_id AS BLOB), ?) = ?) AS alike
       CROSS JOIN __service_turn AS t ON t.session_id = alike.session_id`,
      sessionId,
      -end.length,
      end,
    );
    return new Set(turns.map(formatPlace));
  }

  /** The traces, at most as many as are kept: call when the rows are gone. */
  traces(key: Uint8Array): Traces {
    const windowsTotal = this.#rows.length + this.#more.length + this.#within.length;
    this.#leaveOutShared();
    const rows = thinned(this.#rows, erasureTraceWindowsMax);
    const others = thinned([...this.#more, ...this.#within], erasureTraceWindowsMax - rows.length);
    const windows = new Uint8Array(Buffer.concat([...rows, ...others].map((window) => computeTrace(key, window))));
    return { key, windows, windowsTotal };
  }

  #addStart(bytes: Uint8Array, to: Uint8Array[]): void {
    if (bytes.length >= windowBytes) to.push(bytes.subarray(0, windowBytes));
  }

  #addVector(kind: SpaceKind, owner: number): void {
    const found = this.#view.connection.all<{ space: number; embedding: Uint8Array }>(
      "SELECT v.space, v.embedding FROM __service_vector_space AS s CROSS JOIN __service_vector AS v ON " +
        "v.space = s.space WHERE s.kind = ? AND v.owner = ?",
      kind,
      owner,
    );
    for (const { space, embedding } of found) {
      this.#addStart(vectorRecord({ space, owner, embedding }), this.#more);
      for (const window of windowsWithin(embedding)) {
        if (new Set(window).size >= differentBytesMin) this.#within.push(window);
      }
    }
  }

  /**
   * Windows within vectors that a vector has which stays, such as that of the same text said elsewhere, prove nothing;
   * where they are few enough to compare, they are left out.
   */
  #leaveOutShared(): void {
    if (this.#within.length === 0) return;
    const { connection } = this.#view;
    const kept = connection.all<{ dimension: number; n: number }>(
      "SELECT s.dimension, (SELECT count(*) FROM __service_vector AS v WHERE v.space = s.space) AS n FROM " +
        "__service_vector_space AS s",
    );
    const keptBytes = kept.reduce((sum, { dimension, n }) => sum + n * dimension * Float32Array.BYTES_PER_ELEMENT, 0);
    // All of a large collection would be read while no other call is served. The proof knows the live vectors anyway.
    if (keptBytes > erasureComparedBytesMax) return;
    const encodeWindow = (window: Uint8Array): string =>
      Buffer.from(window.buffer, window.byteOffset, window.length).toString("latin1");
    const own = new Map(this.#within.map((window) => [encodeWindow(window), window]));
    for (const window of vectorWindows(this.#view)) own.delete(encodeWindow(window));
    this.#within = [...own.values()];
  }
}

/** A turn's number and time, which its window ends with. */
interface TurnPlace {
  readonly seq: number;
  readonly createdAt: number;
}

function formatPlace({ seq, createdAt }: TurnPlace): string {
  return `${seq} ${createdAt}`;
}

interface VectorRow {
  readonly space: number;
  readonly owner: number;
  readonly embedding: Uint8Array;
}

function vectorRecord({ space, owner, embedding }: VectorRow): Buffer {
  return encodeRecord(nothing, integer(space), integer(owner), blob(embedding));
}

/**
 * Every window by which an erasure of the vectors that are there now could be looked for: what was written anew since
 * is no residue. The connection can do nothing else until it ends.
 */
export function* vectorWindows(view: Pick<View, "connection">): Generator<Uint8Array> {
  for (const row of view.connection
    .prepared("SELECT space, owner, embedding FROM __service_vector")
    .iterate() as Iterable<VectorRow>) {
    const record = vectorRecord(row);
    if (record.length >= windowBytes) yield record.subarray(0, windowBytes);
    yield* windowsWithin(row.embedding);
  }
}

function* windowsWithin(embedding: Uint8Array): Generator<Uint8Array> {
  const last = embedding.length - windowBytes;
  if (last < 0) return;
  for (let at = 0; at < last; at += vectorStepBytes) yield embedding.subarray(at, at + windowBytes);
  yield embedding.subarray(last);
}

/** At most `most` of them, taken evenly. */
function thinned<Item>(items: readonly Item[], most: number): readonly Item[] {
  if (items.length <= most) return items;
  return Array.from({ length: most }, (_, at) => items[Math.floor((at * items.length) / most)]!);
}
