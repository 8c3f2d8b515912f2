/**
 * How many of a namespace's databases were deleted: the number that a namespace token gets at its mint, and a name at
 * its deletion.
 *
 * Why: a token of a namespace covers names that others take later, so it must be known whether token or deletion came
 * first. Clocks of several nodes tell that to a few seconds only; a counter tells it exactly.
 *
 * Always true: each deletion has a greater number than every token that was minted before it began; a token that is
 * minted after it has ended has at least its number. A number is never less than the time in milliseconds, so that a
 * counter that was lost, or put back to an older state, goes on above what it has given before.
 */
import { encodeUtf8, decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { deletionCountKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore, StoredObject } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";

/** A lost race is settled by reading again; more rounds than this means the store does not keep its promise. */
const racesMax = 64;

export class DeletionCounts {
  readonly #store: ObjectStore;
  readonly #world: World;

  constructor(store: ObjectStore, world: World) {
    this.#store = store;
    this.#world = world;
  }

  /** The number of the newest deletion in the namespace; 0 when there was none. Throws StoreError. */
  async of(namespace: string): Promise<number> {
    return countIn(await this.#store.get(deletionCountKey(namespace)));
  }

  /** Begins a deletion and gives its number. Two that begin at once may have the same. Throws StoreError. */
  async next(namespace: string): Promise<number> {
    const key = deletionCountKey(namespace);
    for (let race = 0; race < racesMax; race++) {
      const object = await this.#store.get(key);
      const count = Math.max(countIn(object) + 1, this.#world.nowMs());
      const outcome = await surePut(
        this.#store,
        key,
        encodeUtf8(String(count)),
        object ? { kind: "version", version: object.version } : { kind: "absent" },
      );
      if (outcome.kind === "landed") return count;
    }
    throw new StoreError("unavailable", "the count of a namespace's deletions changed too often");
  }
}

function countIn(object: StoredObject | undefined): number {
  if (!object) return 0;
  const count = Number(decodeUtf8(object.bytes));
  if (!Number.isSafeInteger(count) || count < 1)
    throw new StoreError("corrupt", "the count of a namespace's deletions is no number");
  return count;
}
