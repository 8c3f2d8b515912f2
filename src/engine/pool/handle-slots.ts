/**
 * Which branches of a thread are open, opening, closing or being rebuilt.
 *
 * - A slot is open, with its handle, or busy: one caller has the branch exclusively, and there is no handle. A branch
 *   that is neither has no slot.
 * - `occupy` makes an empty slot busy, `release` a busy one open, `take` an open one empty; an occupation that ends
 *   without a handle leaves it empty.
 *
 * Must not know: why a handle is opened or closed.
 */
import { assert } from "../../base/faults/assert.ts";
import { Signal } from "../../base/signal.ts";
import type { Database } from "../database/database.ts";

type Slot =
  | { readonly kind: "open"; readonly database: Database }
  /** The promise ends when the slot may be looked at again; its failure reaches every waiter. */
  | { readonly kind: "busy"; readonly until: Promise<void> };

/** The slots of one engine thread, by key. */
export class HandleSlots {
  /** The open ones in order of use, the least recent first. */
  readonly #slots = new Map<string, Slot>();
  readonly #keysByDatabase = new Map<string, Set<string>>();
  #open = 0;
  /** Files that are being opened: they count as open, or a burst would pass the cap. */
  #opening = 0;
  /** Databases whose handles stay open though nobody uses them. */
  readonly #kept = new Set<string>();
  /** A handle may be closed, or is gone: there may be room for another one. */
  readonly freed = new Signal();

  /** What is open under the key; this is no use of it. */
  get(key: string): Database | undefined {
    const slot = this.#slots.get(key);
    return slot?.kind === "open" ? slot.database : undefined;
  }

  /** The open handle is used now. */
  used(key: string): void {
    const slot = this.#slots.get(key)!;
    this.#slots.delete(key);
    this.#slots.set(key, slot);
  }

  /** Takes the handle out: no caller is given it any more. */
  take(key: string): void {
    if (this.#slots.get(key)?.kind === "open") this.#remove(key);
  }

  /** What keeps callers from the key, if anything does. */
  busy(key: string): Promise<void> | undefined {
    const slot = this.#slots.get(key);
    return slot?.kind === "busy" ? slot.until : undefined;
  }

  /** Keeps all other callers from the key while `act` runs. */
  occupy(key: string, act: () => Promise<void>): Promise<void> {
    assert(!this.#slots.has(key), "a key is occupied by one at a time");
    const until: Promise<void> = act().finally(() => {
      if (this.busy(key) === until) this.#remove(key);
    });
    this.#set(key, { kind: "busy", until });
    // One promise for all, so that the first waiter goes on first.
    return until;
  }

  /**
   * Ends an occupation with an open handle, in one step: the handle may fail at once, and then its key is occupied
   * again.
   */
  release(key: string, database: Database): void {
    this.#set(key, { kind: "open", database });
  }

  /** Takes a place for a file that is about to be opened. */
  reserve(): void {
    this.#opening++;
  }

  /** The file is open or will not be: its place is not reserved any more. */
  unreserve(): void {
    this.#opening--;
    this.freed.raise();
  }

  /** How many handles are open or about to be. */
  get count(): number {
    return this.#open + this.#opening;
  }

  /** Whether nothing is open, or busy. */
  get isEmpty(): boolean {
    return this.#slots.size === 0;
  }

  /** What is open, least recently used first. */
  *entries(): Generator<[string, Database]> {
    for (const [key, slot] of this.#slots) if (slot.kind === "open") yield [key, slot.database];
  }

  /** From now on the database's handles stay open though nobody uses them. */
  keep(uuid: string): void {
    this.#kept.add(uuid);
  }

  /** They are closed as all others are. */
  unkeep(uuid: string): void {
    this.#kept.delete(uuid);
  }

  /** What may give way to others, or to nothing: it is covered, nobody uses it, and nobody has it kept. */
  *closable(): Generator<[string, Database]> {
    for (const [key, database] of this.entries())
      if (!this.#kept.has(database.opened.uuid) && database.idle && database.isDrained) yield [key, database];
  }

  /** Every open database, least recently used first. */
  *databases(): Generator<Database> {
    for (const slot of this.#slots.values()) if (slot.kind === "open") yield slot.database;
  }

  /** The keys under which something is open, or busy. */
  keys(): readonly string[] {
    return [...this.#slots.keys()];
  }

  /** Those of the database's branches. */
  listKeys(uuid: string): readonly string[] {
    return [...(this.#keysByDatabase.get(uuid) ?? [])];
  }

  /** What is open of the database's branches. */
  listOpen(uuid: string): readonly Database[] {
    return this.listKeys(uuid).flatMap((key) => this.get(key) ?? []);
  }

  /** What keeps callers from a branch of the database, if anything does. */
  findBusy(uuid: string): Promise<void> | undefined {
    for (const key of this.listKeys(uuid)) {
      const until = this.busy(key);
      if (until) return until;
    }
    return undefined;
  }

  #set(key: string, slot: Slot): void {
    const before = this.#slots.get(key);
    if (before) this.#slots.delete(key);
    this.#slots.set(key, slot);
    this.#open += Number(slot.kind === "open") - Number(before?.kind === "open");
    const uuid = parseDatabase(key);
    const keys = this.#keysByDatabase.get(uuid);
    if (keys) keys.add(key);
    else this.#keysByDatabase.set(uuid, new Set([key]));
  }

  #remove(key: string): void {
    if (this.#slots.get(key)?.kind === "open") this.#open--;
    this.#slots.delete(key);
    const uuid = parseDatabase(key);
    const keys = this.#keysByDatabase.get(uuid);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysByDatabase.delete(uuid);
    this.freed.raise();
  }
}

function parseDatabase(key: string): string {
  return key.slice(0, key.indexOf("/"));
}
