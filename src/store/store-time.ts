/**
 * Asks object storage for the time when the machine's clock was moved since it last told: a second later both agree
 * again, or it is known which of them is wrong. Does nothing but look where the store has no clock of its own.
 */
import { StoreError } from "../base/faults/errors.ts";
import type { World } from "../base/world.ts";
import type { ObjectStore } from "./port/object-store.ts";
import { probePrefix } from "./probe.ts";

/** There is never such an object: the answer is as small as one can be, and carries the store's clock. */
const askedKey = `${probePrefix}time`;

export class StoreTime {
  readonly #world: World;
  readonly #store: ObjectStore;
  #asking = false;

  constructor(world: World, store: ObjectStore) {
    this.#world = world;
    this.#store = store;
  }

  /** Looks at the machine's clock. Called every second or so. */
  tick(): void {
    if (!this.#world.time.look() || this.#asking) return;
    this.#asking = true;
    void this.#ask().finally(() => (this.#asking = false));
  }

  async #ask(): Promise<void> {
    try {
      await this.#store.get(askedKey);
    } catch (error) {
      // Its refusals carry its clock as well; a store that is away is asked again.
      if (!(error instanceof StoreError)) throw error;
    }
  }
}
