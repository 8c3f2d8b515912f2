/**
 * Whether this node reaches object storage, looked at now and then.
 *
 * Always true: one look is under way at a time; one that is not answered in time counts as not reached, whatever comes
 * of it later. A node that has never looked counts as one that reaches it, as it could not have started otherwise.
 */
import { StoreError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { TimeUp, within } from "../base/time-limit.ts";
import { sleep, type World } from "../base/world.ts";
import { signingKeyKey } from "../format/object-keys.ts";
import type { ObjectStore } from "../store/object-store.ts";

export class StoreReach {
  readonly #store: ObjectStore;
  readonly #world: World;
  readonly #looked: (isReached: boolean, silenceMs: number) => void | Promise<void>;
  #reachedAtMs: number;
  #isClosed = false;

  /** `looked` is called after every look, with the time since the last one that reached the store. */
  constructor(store: ObjectStore, world: World, looked: (isReached: boolean, silenceMs: number) => void | Promise<void>) {
    this.#store = store;
    this.#world = world;
    this.#looked = looked;
    this.#reachedAtMs = world.monotonicMs();
  }

  /** Looks now, and from time to time until it is closed. Rejects only by what `looked` throws. */
  async keepLooking(): Promise<void> {
    while (!this.#isClosed) {
      const isReached = await this.#look();
      if (isReached) this.#reachedAtMs = this.#world.monotonicMs();
      if (this.#isClosed) return;
      await this.#looked(isReached, this.#world.monotonicMs() - this.#reachedAtMs);
      await sleep(this.#world, limits.storeReachMs);
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  /** A small object that may well be absent: both are answers. */
  async #look(): Promise<boolean> {
    try {
      await within(this.#world, limits.storeReachAnswerMs, () => this.#store.get(signingKeyKey));
      return true;
    } catch (error) {
      if (error instanceof TimeUp || (error instanceof StoreError && error.kind !== "corrupt")) return false;
      throw error;
    }
  }
}
