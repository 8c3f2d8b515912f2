/**
 * What a node says of object storage when it is asked how it is.
 *
 * Always true: nothing is asked of object storage unless the node's health is asked for, and then rarely; a look that
 * is not answered in time counts as not reached. A node that does not reach it is ready for as long as it serves: it
 * answers reads, and takes standard writes until too much waits to be shipped. Must not know: wires.
 */
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { TimeUp, within } from "../../base/time-limit.ts";
import type { World } from "../../base/world.ts";
import { storeFormatKey } from "../../format/keys/object-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import type { Readiness } from "./health.ts";

/** The answer of a look holds this long for callers that ask for the node's health. */
const storeHealthCacheMs = 2_000;

export interface StoreHealthOptions {
  readonly store: ObjectStore;
  readonly world: World;
  /** What a write waits for that does not say: `durable` ones need object storage. */
  readonly durability: "standard" | "durable";
  /** Standard writes that cannot be shipped are taken for this long. */
  readonly unshippedMsMax: number;
}

/** What the last look found. */
interface Fault {
  /** Broken: it answers, and will not do what is asked until an operator has repaired it. */
  readonly kind: "unreached" | "broken";
  readonly sinceMs: number;
  /** In a few words; never content, keys or addresses. */
  readonly reason: string | undefined;
}

export class StoreHealth {
  readonly #options: StoreHealthOptions;
  #fault: Fault | undefined;
  #lookedAtMs = -Infinity;
  #looking: Promise<void> | undefined;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  /** Looks, unless that was done just now. */
  async look(): Promise<void> {
    if (this.#options.world.monotonicMs() - this.#lookedAtMs < storeHealthCacheMs) return;
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    await this.#looking;
  }

  /** Whether the node can do its work as far as object storage matters, and its state in words. */
  get readiness(): Readiness {
    const { world, durability, unshippedMsMax } = this.#options;
    const fault = this.#fault;
    if (!fault) return { ready: true, checks: { object_storage: "ok" } };
    const forMs = world.monotonicMs() - fault.sinceMs;
    const what = fault.kind === "broken" ? "cannot be used" : `not reached for ${Math.round(forMs / 1_000)} s`;
    const ready = fault.kind === "unreached" && durability === "standard" && forMs < unshippedMsMax;
    return { ready, checks: { object_storage: fault.reason === undefined ? what : `${what}: ${fault.reason}` } };
  }

  async #look(): Promise<void> {
    const { store, world } = this.#options;
    const startedMs = world.monotonicMs();
    try {
      await within(world, limits.storeReachAnswerMs, () => store.get(storeFormatKey));
      this.#fault = undefined;
    } catch (error) {
      if (!(error instanceof TimeUp) && !(error instanceof StoreError)) throw error;
      const isBroken = error instanceof StoreError && (error.kind === "corrupt" || error.kind === "misconfigured");
      this.#fault = {
        kind: isBroken ? "broken" : "unreached",
        sinceMs: this.#fault?.sinceMs ?? startedMs,
        reason: error instanceof StoreError ? error.reason : undefined,
      };
    }
    this.#lookedAtMs = world.monotonicMs();
  }
}
