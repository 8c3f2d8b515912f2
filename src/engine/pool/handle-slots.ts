/**
 * Which branches of a thread are open, opening, closing or being rebuilt.
 *
 * Always true: under a key there is one open handle at most, and while somebody has the key to himself there is none.
 * Must not know: why a handle is opened or closed.
 */
import { assert } from "../../base/faults/assert.ts";
import type { Database } from "../database/database.ts";
import type { Target } from "../api/protocol.ts";

/** How often a waiter for a slot looks again. */
export const lookAgainMs = 2;

/** The slots of one engine thread, by key. */
export class HandleSlots {
  /** In order of use, the least recent first. */
  readonly #open = new Map<string, Database>();
  /**
   * Opening, closing or rebuilding: the promise ends when the key may be looked at again; a failure is everybody's who
   * waited.
   */
  readonly #busy = new Map<string, Promise<void>>();
  /** Files that are being opened: they count as open, or a burst would pass the cap. */
  #opening = 0;

  /** What is open under the key; this is no use of it. */
  get(key: string): Database | undefined {
    return this.#open.get(key);
  }

  /** The handle is used now. */
  used(key: string, database: Database): void {
    this.#open.delete(key);
    this.#open.set(key, database);
  }

  /** Takes the handle out: nobody is given it any more. */
  take(key: string): void {
    this.#open.delete(key);
  }

  /** What keeps everybody from the key, if anything does. */
  busy(key: string): Promise<void> | undefined {
    return this.#busy.get(key);
  }

  /** Keeps everybody else from the key while `act` runs. */
  occupy(key: string, act: () => Promise<void>): Promise<void> {
    assert(!this.#busy.has(key) && !this.#open.has(key), "a key is occupied by one at a time");
    const acting: Promise<void> = act().finally(() => {
      if (this.#busy.get(key) === acting) this.#busy.delete(key);
    });
    this.#busy.set(key, acting);
    // One promise for all, so that those who came first go on first.
    return acting;
  }

  /**
   * Ends an occupation with an open handle, in one step: the handle may fail at once, and then its key is occupied
   * again.
   */
  release(key: string, database: Database): void {
    this.#busy.delete(key);
    this.#open.set(key, database);
  }

  /** Takes a place for a file that is about to be opened. */
  reserve(): void {
    this.#opening++;
  }

  /** The file is open or will not be: its place is not reserved any more. */
  unreserve(): void {
    this.#opening--;
  }

  /** How many handles are open or about to be. */
  get count(): number {
    return this.#open.size + this.#opening;
  }

  /** Whether nothing is open, or busy. */
  get isEmpty(): boolean {
    return this.#open.size === 0 && this.#busy.size === 0;
  }

  /** What is open, least recently used first. */
  entries(): MapIterator<[string, Database]> {
    return this.#open.entries();
  }

  /** Every open database, least recently used first. */
  databases(): MapIterator<Database> {
    return this.#open.values();
  }

  /** The keys under which something is open, or is about to be. */
  keys(): readonly string[] {
    return [...this.#open.keys(), ...this.#busy.keys()];
  }

  /** Those of the database's branches. */
  keysOf(uuid: string): readonly string[] {
    return this.keys().filter((key) => isOf(uuid, key));
  }

  /** What is open of the database's branches. */
  openOf(uuid: string): readonly Database[] {
    return [...this.#open].filter(([key]) => isOf(uuid, key)).map(([, database]) => database);
  }

  /** What keeps everybody from a branch of the database, if anything does. */
  busyOf(uuid: string): Promise<void> | undefined {
    return this.#busy.entries().find(([key]) => isOf(uuid, key))?.[1];
  }
}

/** The key of a branch. Uuids and branch names hold no slash, so the two parts can never run into each other. */
export function keyOf(target: Target): string {
  return `${target.uuid}/${target.branch}`;
}

function isOf(uuid: string, key: string): boolean {
  return key.startsWith(`${uuid}/`);
}
