/**
 * What a command has changed of a database's vectors, for the cache of another process to follow.
 *
 * Must not know: commands, processes.
 */
import { VectorCache, VectorPool } from "./vector-index.ts";

/** One change, in the order in which they were made; no vector: the owner's is gone; `evictAll`: any may be gone. */
export type VectorChange = { readonly space: number; readonly owner: number; readonly vector?: Float32Array } | "drop";

/** A cache that holds nothing, so that every search reads the rows, and remembers what it is told. */
export class VectorChanges extends VectorCache {
  readonly list: VectorChange[] = [];

  constructor() {
    super(new VectorPool({ bytesMax: 0 }));
  }

  override put(space: number, owner: number, vector: Float32Array): void {
    this.list.push({ space, owner, vector });
  }

  override remove(space: number, owner: number): void {
    this.list.push({ space, owner });
  }

  override evictAll(): void {
    this.list.push("drop");
  }
}

/** Makes the cache follow what was committed. */
export function follow(cache: VectorCache, changes: readonly VectorChange[]): void {
  for (const change of changes) {
    if (change === "drop") cache.evictAll();
    else if (change.vector) cache.put(change.space, change.owner, change.vector);
    else cache.remove(change.space, change.owner);
  }
}
