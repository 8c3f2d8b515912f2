/** The one vector space of a database's memories. Its dimension is fixed by the first vector that comes. */
import type { Tx, View } from "./transaction.ts";
import { deleteVector, findSpace, hasVector, openSpace, putVector, type VectorSpace } from "./vectors.ts";

/** The space, or undefined while no memory has a vector. */
export function memorySpace(view: View): VectorSpace | undefined {
  return findSpace(view, "memory", "memory");
}

/** What became of a memory's vector: another dimension than the space's is left out, the memory is kept. */
export type Embedded = "stored" | "skipped_dimension";

/** Gives the memory of this row its vector. One that it has already stays, and nothing is said. */
export function embedMemory(tx: Tx, row: number, embedding: Float32Array): Embedded | undefined {
  const space = memorySpace(tx) ?? openSpace(tx, "memory", "memory", embedding.length);
  if (hasVector(tx, space, row)) return undefined;
  if (space.dimension !== embedding.length) return "skipped_dimension";
  putVector(tx, space, row, embedding);
  return "stored";
}

/** Takes the vectors of these rows away. */
export function unembedMemories(tx: Tx, rows: readonly number[]): void {
  const space = memorySpace(tx);
  if (space) for (const row of rows) deleteVector(tx, space, row);
}
