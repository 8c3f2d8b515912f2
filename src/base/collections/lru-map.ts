/**
 * A map with a bound: a new entry in a full one takes the place of the entry that was used least recently.
 *
 * Always true: at most `sizeMax` entries; iteration goes from the least recently used to the most. What is kept here
 * must be dispensable.
 */
import { assert } from "../faults/assert.ts";

export class LruMap<Key, Value> {
  readonly #sizeMax: number;
  readonly #onEvict: ((key: Key, value: Value) => void) | undefined;
  /** A Map keeps the order of insertion: what is used is put in anew. */
  readonly #entries = new Map<Key, Value>();

  /** `onEvict` is called for what was evicted, not for what is deleted or replaced. */
  constructor(sizeMax: number, onEvict?: (key: Key, value: Value) => void) {
    assert(sizeMax > 0, "there is room for one entry");
    this.#sizeMax = sizeMax;
    this.#onEvict = onEvict;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, which counts as used now. */
  get(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined && !this.#entries.has(key)) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value as Value);
    return value;
  }

  /** The value, and its place among the others stays. */
  peek(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** Whether there is such an entry; its place stays. */
  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  /** Sets the value, which counts as used now. */
  set(key: Key, value: Value): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#sizeMax) this.#evict();
    this.#entries.set(key, value);
  }

  /** Whether there was such an entry. */
  delete(key: Key): boolean {
    return this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Keys, least recently used first; entries may be deleted on the way. */
  keys(): IterableIterator<Key> {
    return this.#entries.keys();
  }

  /** Values, least recently used first. */
  values(): IterableIterator<Value> {
    return this.#entries.values();
  }

  #evict(): void {
    for (const [key, value] of this.#entries) {
      this.#entries.delete(key);
      this.#onEvict?.(key, value);
      return;
    }
  }
}
