/**
 * Which states are known to be free of which erasures' data, so that a repeated run restores nothing again.
 *
 * Safe to keep because a state never changes, and safe to lose: it is checked once more.
 */
import { findRestorePlan } from "../history/timelines.ts";
import type { Past } from "./history-truncation.ts";
import { RottenObject } from "../segments/pool-objects.ts";
import type { ErasedCoupon } from "../api/protocol.ts";
import { holdersIn, type StatePlace } from "../segments/restored-state.ts";

/** States that are remembered to be free of erased data; more are looked into again. */
const knownStatesMax = 10_000;

export class KnownStates {
  /** Ids of erasures that the state is free of. */
  readonly #clean = new Map<string, Set<string>>();

  /**
   * The erasures, by their ids, whose data the state holds, or may hold: a state that cannot be restored because an
   * object is rotten cannot be shown to be free of it. The value says why in words; undefined for live content, which
   * any look finds.
   */
  async holders(
    place: StatePlace,
    past: Past,
    txid: number,
    coupons: readonly ErasedCoupon[],
  ): Promise<ReadonlyMap<string, string | undefined>> {
    const key = `${place.source.uuid}/${past.manifest.branchId}/${txid}`;
    const clean = this.#clean.get(key);
    const asked = coupons.filter(({ id }) => !clean?.has(id));
    if (asked.length === 0) return new Map();
    const all = (why: string): ReadonlyMap<string, string> => new Map(asked.map(({ id }) => [id, why]));
    const plan = findRestorePlan(past.manifest, past.history, txid);
    if (!plan) return all(`its state ${txid} cannot be restored`);
    try {
      const holders = await holdersIn(place, plan, asked);
      this.#note(
        key,
        asked.filter(({ id }) => !holders.has(id)),
      );
      return new Map(
        [...holders].map(([id, how]) => [
          id,
          how === "memories"
            ? undefined
            : `its state ${txid} has the bytes of what was erased in something else that is stored there`,
        ]),
      );
    } catch (error) {
      if (error instanceof RottenObject) return all(`its state ${txid} cannot be restored: ${error.message}`);
      throw error;
    }
  }

  #note(key: string, coupons: readonly ErasedCoupon[]): void {
    if (this.#clean.size >= knownStatesMax) this.#clean.clear();
    const clean = this.#clean.get(key) ?? new Set();
    for (const { id } of coupons) clean.add(id);
    this.#clean.set(key, clean);
  }
}
