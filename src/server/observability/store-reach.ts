/**
 * Whether this node reaches object storage, looked at now and then.
 *
 * Always true: one look is under way at a time; one that is not answered in time counts as not reached, whatever comes
 * of it later. A node that has never looked counts as one that reaches it, as it could not have started otherwise.
 * While object storage is not needed and the last look reached it, looks are rare: an idle node costs little.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import { sleep, type World } from "../../base/world.ts";
import { signingKeyKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";

/** How often a node looks whether it reaches object storage, and how long it waits for the answer. */
export const storeReachMs = 3_000;

export interface StoreReachParts {
  readonly store: ObjectStore;
  readonly world: World;
  /** Whether this node has something that it would have to release. */
  readonly isNeeded: () => boolean;
  /** Called after every look, with the time since the first of those in a row that did not reach the store began. */
  readonly looked: (isReached: boolean, silenceMs: number) => void | Promise<void>;
}

export class StoreReach {
  readonly #parts: StoreReachParts;
  /** When the first look began that did not reach the store, if the last one did not. */
  #silentSinceMs: number | undefined;
  #isClosed = false;

  constructor(parts: StoreReachParts) {
    this.#parts = parts;
  }

  /** Looks now, and from time to time until it is closed. Rejects only by what `looked` throws. */
  async keepLooking(): Promise<void> {
    const { world, looked } = this.#parts;
    while (!this.#isClosed) {
      const startedMs = world.monotonicMs();
      const isReached = await this.#look();
      this.#silentSinceMs = isReached ? undefined : (this.#silentSinceMs ?? startedMs);
      if (this.#isClosed) return;
      await looked(isReached, world.monotonicMs() - (this.#silentSinceMs ?? world.monotonicMs()));
      await this.#pause();
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  /**
   * Until the next look: nothing is asked meanwhile, so that a part that begins to need the store has it looked at
   * soon.
   */
  async #pause(): Promise<void> {
    const { world, isNeeded } = this.#parts;
    const untilMs = world.monotonicMs() + limits.storeReachIdleMs;
    do await sleep(world, storeReachMs);
    while (!this.#isClosed && this.#silentSinceMs === undefined && !isNeeded() && world.monotonicMs() < untilMs);
  }

  /** A small object that may well be absent: both are answers. */
  async #look(): Promise<boolean> {
    const { store, world } = this.#parts;
    try {
      await within(world, limits.storeReachAnswerMs, () => store.get(signingKeyKey));
      return true;
    } catch (error) {
      if (error instanceof TimeUp || (error instanceof StoreError && error.kind !== "corrupt")) return false;
      throw error;
    }
  }
}
