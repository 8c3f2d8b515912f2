/**
 * Vectors in ordinary rows: named spaces of one dimension each. The public collections are built on them
 * (model/vectors/vector-collections).
 *
 * Always true: a stored vector is finite, of length 1 and of its space's dimension, so every search is a plain inner
 * product; a space's dimension never changes. Spaces are rows of a registry, not tables, so that names differing only
 * in case stay distinct. Must not know: who embeds, what an owner's row means to its model.
 */
import { assert } from "../../base/faults/assert.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Connection } from "../../sqlite/connection/connection.ts";
import type { Tx, View } from "../core/transaction.ts";
import {
  decodeStoredVector,
  storedForm,
  streamNearest,
  type Nearest,
  type RowSource,
  type VectorRow,
  type VectorSpace,
} from "../index/vector-index.ts";
import { unitVector } from "../index/vector-kernel.ts";
import type { OwnerFilter } from "../index/vector-matrix.ts";

export type { Nearest, VectorSpace } from "../index/vector-index.ts";
export type { OwnerFilter } from "../index/vector-matrix.ts";

/** The tables. A vector's row is found by (space, owner); its rowid means nothing. */
export const vectorsSchema = `
CREATE TABLE __service_vector_space (
  space INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  UNIQUE (kind, name)
) STRICT;
CREATE TABLE __service_vector (
  row INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  embedding BLOB NOT NULL,
  UNIQUE (space, owner)
) STRICT;
CREATE TABLE __service_vector_item (
  owner INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  id TEXT NOT NULL,
  UNIQUE (space, id)
) STRICT;
`;

/** Whose vectors a space holds; names are distinct within a kind. */
export type SpaceKind = "memory" | "turn" | "collection";

/** The space, or undefined when it has no vector yet. */
export function findSpace(view: View, kind: SpaceKind, name: string): VectorSpace | undefined {
  return view.connection.get<VectorSpace>(
    "SELECT space, dimension FROM __service_vector_space WHERE kind = ? AND name = ?",
    kind,
    name,
  );
}

/**
 * The space, created with this dimension when there is none yet. One that exists keeps its own: the caller compares.
 */
export function openSpace(tx: Tx, kind: SpaceKind, name: string, dimension: number): VectorSpace {
  const found = findSpace(tx, kind, name);
  if (found) return found;
  const { lastInsertRowid } = tx.connection.run(
    "INSERT INTO __service_vector_space (kind, name, dimension) VALUES (?, ?, ?)",
    kind,
    name,
    dimension,
  );
  return { space: lastInsertRowid, dimension };
}

/** Stores the owner's vector, scaled to length 1, in place of any before it. The same vector again changes nothing. */
export function putVector(tx: Tx, space: VectorSpace, owner: number, embedding: Float32Array): void {
  putUnitVector(tx, space, owner, unitVector(embedding));
}

/** As putVector, of a vector of length 1 that was stored before: it is stored as it is, bit by bit. */
export function putUnitVector(tx: Tx, space: VectorSpace, owner: number, unit: Float32Array): void {
  assert(unit.length === space.dimension, "the caller has compared the dimensions");
  assert(Number.isSafeInteger(owner) && owner >= 0, "an owner is a rowid");
  const { changes } = tx.connection.run(
    `INSERT INTO __service_vector (space, owner, embedding) VALUES (?, ?, ?)
     ON CONFLICT (space, owner) DO UPDATE SET embedding = excluded.embedding WHERE embedding <> excluded.embedding`,
    space.space,
    owner,
    storedForm(unit),
  );
  if (changes > 0) tx.afterCommit(() => tx.vectors.put(space.space, owner, unit));
}

/** Stores a vector of the space that was read as it is stored, in place of any before it. */
export function putStoredVector(tx: Tx, space: VectorSpace, owner: number, embedding: Uint8Array): void {
  putUnitVector(tx, space, owner, decodeStoredVector({ owner, embedding }, space.dimension));
}

/** Removes the owner's vector, if it has one. */
export function deleteVector(tx: Tx, space: VectorSpace, owner: number): void {
  const { changes } = tx.connection.run(
    "DELETE FROM __service_vector WHERE space = ? AND owner = ?",
    space.space,
    owner,
  );
  if (changes > 0) tx.afterCommit(() => tx.vectors.remove(space.space, owner));
}

/** Every space of the kind: the one in use, and those that are being abandoned. */
function listSpaces(view: View, kind: SpaceKind): VectorSpace[] {
  return view.connection.all<VectorSpace>(
    "SELECT space, dimension FROM __service_vector_space WHERE kind = ? ORDER BY space",
    kind,
  );
}

/** Removes the vectors of these owners from every space of the kind. */
export function deleteVectors(tx: Tx, kind: SpaceKind, owners: readonly number[]): void {
  for (const space of listSpaces(tx, kind)) for (const owner of owners) deleteVector(tx, space, owner);
}

export function hasVector(view: View, space: VectorSpace, owner: number): boolean {
  return (
    view.connection.get("SELECT 1 FROM __service_vector WHERE space = ? AND owner = ?", space.space, owner) !==
    undefined
  );
}

/** The committed rows of a space, for the cache to read. */
function buildRowSource(connection: Connection, space: VectorSpace): RowSource {
  return {
    count: () =>
      connection.get<{ n: number }>("SELECT count(*) AS n FROM __service_vector WHERE space = ?", space.space)!.n,
    after: (owner, rowsMax) =>
      connection.all<VectorRow>(
        "SELECT owner, embedding FROM __service_vector WHERE space = ? AND owner > ? ORDER BY owner LIMIT ?",
        space.space,
        owner,
        rowsMax,
      ),
  };
}

function isTransaction(view: View): view is Tx {
  return "afterCommit" in view;
}

/**
 * The `want` nearest vectors whose owners pass `allowed`, best first, ties by owner; fewer only when fewer pass. The
 * similarity is the cosine in doubles. Exact unless the answer says otherwise.
 */
export function nearest(
  view: View,
  space: VectorSpace,
  query: Float32Array,
  want: number,
  allowed?: OwnerFilter,
): Nearest {
  assert(query.length === space.dimension, "the caller has compared the dimensions");
  assert(Number.isSafeInteger(want) && want >= 1, "a search wants at least one vector");
  const search = { query: unitVector(query), want, allowed };
  const source = buildRowSource(view.connection, space);
  // The cache knows only what is committed, and a write must see its own rows: it searches them directly.
  if (isTransaction(view)) return streamNearest(source, space.dimension, search);
  return view.vectors.nearest(space, source, search);
}

/** Refuses a vector that is empty, too long, not finite in every number, or of length zero. */
export function checkEmbedding(field: string, embedding: Float32Array): void {
  if (embedding.length === 0 || embedding.length > limits.vectorDimensionMax) {
    throw invalid(`${field} has ${embedding.length} numbers; 1 to ${limits.vectorDimensionMax} are allowed`);
  }
  if (!embedding.every(Number.isFinite)) throw invalid(`${field} must hold finite 32-bit floating-point numbers only`);
  if (embedding.every((value) => value === 0)) throw invalid(`${field} must not be all zeros: it has no direction`);
}
