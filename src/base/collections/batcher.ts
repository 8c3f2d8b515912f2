/**
 * One bounded queue and one loop: take what waits, do one costly act, go on.
 *
 * The shape behind commit and fsync (and later ship, apply, audit flush).
 *
 * Always true:
 * - at most one act is under way
 * - items keep their order
 * - an item is refused at the door or handed to exactly one act
 */
import { assert } from "../faults/assert.ts";

export interface BatcherOptions<Item> {
  /** Items that may wait; one more is refused. */
  readonly capacity: number;
  readonly itemsMax: number;
  readonly bytesMax: number;
  /** Bytes that may wait; a larger item is taken only by an empty queue. */
  readonly waitingBytesMax: number;
  readonly measureItem: (item: Item) => number;
  /**
   * Whether the item takes one of the places; without it, every item does. What is put in by the house must not shed a
   * client's.
   */
  readonly takesPlace?: (item: Item) => boolean;
  /** Gets at least one item. Must settle each item itself and must not throw: a throw is a bug and reaches `onBug`. */
  readonly act: (items: Item[]) => void | Promise<void>;
  /** Asked before each act; when it says no, the loop stops until `wake` is called. */
  readonly ready?: (waiting: number) => boolean;
  /**
   * Runs the loop's next step once the events now waiting have been seen, so that a long queue starves no other work.
   */
  readonly soon: (act: () => void) => void;
  /** Told when nothing waits any more and nothing is under way. */
  readonly rested?: () => void;
  /** Gets what `act` threw together with the items, so that no caller waits for ever. */
  readonly onBug: (error: unknown, items: readonly Item[]) => void;
}

export class Batcher<Item> {
  readonly #options: BatcherOptions<Item>;
  #waiting: Item[] = [];
  #waitingBytes = 0;
  /** Places that are taken. */
  #taken = 0;
  #running = false;
  #scheduled = false;

  constructor(options: BatcherOptions<Item>) {
    assert(options.capacity > 0 && options.itemsMax > 0, "a batcher has room");
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether nothing waits and nothing is under way. */
  get idle(): boolean {
    return this.#waiting.length === 0 && !this.#running;
  }

  /** Queues the item, or says no when the queue is full. What is offered in one turn shares a batch. */
  offer(item: Item): boolean {
    const { capacity, waitingBytesMax, measureItem } = this.#options;
    const bytes = measureItem(item);
    const full = this.#taken >= capacity || this.#waitingBytes + bytes > waitingBytesMax;
    if (full && this.#taken > 0) return false;
    this.#waiting.push(item);
    this.#taken += this.#countPlaces(item);
    this.#waitingBytes += bytes;
    this.wake();
    return true;
  }

  /** Looks again: `ready` may have changed its answer. */
  wake(): void {
    if (this.#running || this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    // Not at once: what else this turn brings, such as further messages of a port, shares the batch.
    this.#options.soon(() => this.#step());
  }

  /** Takes everything that waits, without acting: for a queue that is being closed. */
  drain(): Item[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#taken = 0;
    if (!this.#running) this.#options.rested?.();
    return waiting;
  }

  #step(): void {
    this.#scheduled = false;
    if (this.#running || this.#waiting.length === 0) return;
    if (this.#options.ready && !this.#options.ready(this.#waiting.length)) return;
    const batch = this.#take();
    this.#running = true;
    let acting: void | Promise<void>;
    try {
      acting = this.#options.act(batch);
    } catch (error) {
      this.#finish(batch, { error });
      return;
    }
    if (acting === undefined) this.#finish(batch);
    else
      acting.then(
        () => this.#finish(batch),
        (error: unknown) => this.#finish(batch, { error }),
      );
  }

  #finish(batch: readonly Item[], bug?: { readonly error: unknown }): void {
    this.#running = false;
    if (bug) this.#options.onBug(bug.error, batch);
    if (this.#waiting.length === 0) return this.#options.rested?.();
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#options.soon(() => this.#step());
  }

  #take(): Item[] {
    const { itemsMax, bytesMax, measureItem } = this.#options;
    let count = 0;
    let bytes = 0;
    while (count < this.#waiting.length && count < itemsMax) {
      bytes += measureItem(this.#waiting[count]!);
      if (count > 0 && bytes > bytesMax) break;
      count++;
    }
    const batch = this.#waiting.splice(0, count);
    for (const item of batch) {
      this.#waitingBytes -= measureItem(item);
      this.#taken -= this.#countPlaces(item);
    }
    return batch;
  }

  #countPlaces(item: Item): number {
    return this.#options.takesPlace?.(item) === false ? 0 : 1;
  }
}
