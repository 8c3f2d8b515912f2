/**
 * The vectors of memories and of turns: one space for each kind, and whose vectors it holds.
 *
 * Always true: a space's dimension is fixed by the first vector that comes, and with it whether its vectors are an
 * embedder's or the callers' own; an embedder's vector goes only into a space of that embedder, and is looked for only
 * there, since nearness between vectors of two models means nothing. Vectors of callers are not judged. Must not know:
 * who embeds, and by what means.
 */
import type { Tx, View } from "../core/transaction.ts";
import { decodeStoredVector } from "../index/vector-index.ts";
import {
  deleteVector,
  deleteVectors,
  findSpace,
  hasVector,
  openSpace,
  putUnitVector,
  putVector,
  type VectorSpace,
} from "../vectors/vectors.ts";

/** Whose vectors: each kind has one space, of its own name. */
export type EmbeddedKind = "memory" | "turn";

/** The embedder that made a vector. */
export interface Maker {
  readonly name: string;
  /** The cosine below which its vectors mean nothing. */
  readonly floor: number;
}

/** The outcome for a vector; where it was skipped, its owner is kept without it. */
export type Embedded = "stored" | "skipped_dimension" | "skipped_model";

/** Made on first use: files from before it have none, and no vectors of an embedder either. */
const makerSchema =
  "CREATE TABLE IF NOT EXISTS __service_vector_maker (space INTEGER PRIMARY KEY, name TEXT NOT NULL, " +
  "floor REAL NOT NULL) STRICT";

/** The space of a kind, or undefined while nothing of it has a vector. */
export function embeddedSpace(view: View, kind: EmbeddedKind): VectorSpace | undefined {
  return findSpace(view, kind, kind);
}

/** The space of the memories. */
export function memorySpace(view: View): VectorSpace | undefined {
  return embeddedSpace(view, "memory");
}

/** The embedder whose vectors the space holds; undefined for the callers' own. */
export function findMaker(view: View, { space }: VectorSpace): Maker | undefined {
  const isThere =
    view.connection.get("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '__service_vector_maker'") !==
    undefined;
  return isThere
    ? view.connection.get<Maker>("SELECT name, floor FROM __service_vector_maker WHERE space = ?", space)
    : undefined;
}

/** Replaces the floor of the embedder whose vectors the space holds. */
export function setFloor(tx: Tx, { space }: VectorSpace, floor: number): void {
  tx.connection.run("UPDATE __service_vector_maker SET floor = ? WHERE space = ? AND floor <> ?", floor, space, floor);
}

/** Whether the space is not for this embedder's vectors. */
export function isForeign(view: View, space: VectorSpace, embeddedBy: string): boolean {
  return findMaker(view, space)?.name !== embeddedBy;
}

/** A vector for an owner, if there is one, and the embedder that made it or would have; absent for a caller's own. */
export interface Embedding {
  readonly embedding?: Float32Array | undefined;
  readonly embeddedBy?: Maker | undefined;
  /** Of one that was stored before: it has length 1, and is stored as it is. */
  readonly isUnit?: boolean | undefined;
}

/** Gives the owner its vector. One that it has already stays, and nothing is said. */
export function embed(
  tx: Tx,
  kind: EmbeddedKind,
  row: number,
  { embedding, embeddedBy, isUnit }: Embedding,
): Embedded | undefined {
  const found = embeddedSpace(tx, kind);
  if (found && hasVector(tx, found, row)) return undefined;
  if (found && embeddedBy && isForeign(tx, found, embeddedBy.name)) return "skipped_model";
  if (!embedding) return undefined;
  const space = found ?? openEmbeddedSpace(tx, kind, embedding.length, embeddedBy);
  if (space.dimension !== embedding.length) return "skipped_dimension";
  (isUnit ? putUnitVector : putVector)(tx, space, row, embedding);
  return "stored";
}

/** Makes the space of a kind, which has none yet. */
export function openEmbeddedSpace(
  tx: Tx,
  kind: EmbeddedKind,
  dimension: number,
  embeddedBy: Maker | undefined,
): VectorSpace {
  const space = openSpace(tx, kind, kind, dimension);
  if (!embeddedBy) return space;
  tx.connection.exec(makerSchema);
  tx.connection.run(
    "INSERT INTO __service_vector_maker (space, name, floor) VALUES (?, ?, ?)",
    space.space,
    embeddedBy.name,
    embeddedBy.floor,
  );
  return space;
}

/** Takes the vectors of these memories away. */
export function unembedMemories(tx: Tx, rows: readonly number[]): void {
  deleteVectors(tx, "memory", rows);
}

/** Takes the vectors of these turns away. */
export function unembedTurns(tx: Tx, rows: readonly number[]): void {
  deleteVectors(tx, "turn", rows);
}

/**
 * Abandons the space of a kind unless it is this embedder's: the next vector opens a new one. Then removes vectors of
 * spaces that were abandoned, at most `rowsMax`, and says whether there may be more. Until then their owners are still
 * found by `deleteVectors`, so that nothing outlives its owner. The empty space keeps its row: its number is not given
 * again.
 */
export function removeOutdatedSpaces(
  tx: Tx,
  input: { readonly kind: EmbeddedKind; readonly embeddedBy: string; readonly rowsMax: number },
): { more: boolean } {
  const { kind, embeddedBy, rowsMax } = input;
  const current = embeddedSpace(tx, kind);
  if (current && isForeign(tx, current, embeddedBy))
    tx.connection.run(
      "UPDATE __service_vector_space SET name = ? WHERE space = ?",
      `retired ${current.space}`,
      current.space,
    );
  const retired = tx.connection.get<VectorSpace>(
    `SELECT s.space, s.dimension FROM __service_vector_space AS s
     WHERE s.kind = ? AND s.name <> ? AND EXISTS (SELECT 1 FROM __service_vector AS v WHERE v.space = s.space)
       ORDER BY s.space LIMIT 1`,
    kind,
    kind,
  );
  if (!retired) return { more: false };
  const owners = tx.connection.all<{ owner: number }>(
    "SELECT owner FROM __service_vector WHERE space = ? ORDER BY owner LIMIT ?",
    retired.space,
    rowsMax,
  );
  for (const { owner } of owners) deleteVector(tx, retired, owner);
  return { more: true };
}

/** The vector of the memory of this row and who made it, as it would come in with it; nothing where it has none. */
export function memoryVector(
  view: View,
  row: number,
): { readonly embedding?: Float32Array; readonly embeddedBy?: Maker } {
  const space = memorySpace(view);
  const stored =
    space &&
    view.connection.get<{ embedding: Uint8Array }>(
      "SELECT embedding FROM __service_vector WHERE space = ? AND owner = ?",
      space.space,
      row,
    );
  if (!space || !stored) return {};
  const embeddedBy = findMaker(view, space);
  return {
    embedding: decodeStoredVector({ owner: row, embedding: stored.embedding }, space.dimension),
    ...(embeddedBy && { embeddedBy }),
  };
}
