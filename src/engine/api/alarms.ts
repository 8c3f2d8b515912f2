/**
 * What an operator must look at, as this thread knows it: counted for readiness and metrics, cleared when it is over.
 *
 * Always true: a branch or database counts once, however often it was met; what goes beyond the bound is still named in
 * the log, as each is. Must not know: why anything is wrong.
 */
import { LruMap } from "../../base/collections/lru-map.ts";
import { LostObject, StoreWentBack } from "./missing-objects.ts";

/** Branches and databases that a thread counts as lost or put back; further ones are in the log alone. */
const alarmsMax = 10_000;

/** How many of each there are now. */
export interface AlarmCounts {
  /** Local files that were set aside (engine/local/quarantine). */
  readonly quarantined: number;
  /** Branches and databases for which object storage lacks what it must have. */
  readonly lost: number;
  /** Those that object storage has in an older state than this node has seen. */
  readonly wentBack: number;
}

export const noAlarms: AlarmCounts = { quarantined: 0, lost: 0, wentBack: 0 };

export class Alarms {
  readonly #changed: (counts: AlarmCounts) => void;
  readonly #raised = new LruMap<string, "lost" | "wentBack">(alarmsMax);
  #counts = noAlarms;

  constructor(changed: (counts: AlarmCounts) => void) {
    this.#changed = changed;
  }

  get counts(): AlarmCounts {
    return this.#counts;
  }

  /** Runs an act on the branch, or for the database: its outcome is what is known of the place from then on. */
  async watch<Value>(uuid: string, place: string, act: () => Promise<Value>): Promise<Value> {
    try {
      const value = await act();
      this.clear(uuid, place);
      return value;
    } catch (error) {
      this.note(uuid, place, error);
      throw error;
    }
  }

  /** This was the outcome. A failure that needs no operator is passed over. */
  note(uuid: string, place: string, error: unknown): void {
    const kind = error instanceof LostObject ? "lost" : error instanceof StoreWentBack ? "wentBack" : undefined;
    if (!kind) return;
    this.#raised.set(`${uuid}/${place}`, kind);
    this.#recount();
  }

  /** The branch could be used, or the database looked after; without a place, all of the database is gone. */
  clear(uuid: string, place?: string): void {
    if (this.#raised.size === 0) return;
    if (place !== undefined) this.#raised.delete(`${uuid}/${place}`);
    else for (const key of this.#raised.keys()) if (key.startsWith(`${uuid}/`)) this.#raised.delete(key);
    this.#recount();
  }

  /** Notes how many files are set aside. */
  setAside(quarantined: number): void {
    if (quarantined === this.#counts.quarantined) return;
    this.#counts = { ...this.#counts, quarantined };
    this.#changed(this.#counts);
  }

  #recount(): void {
    const kinds = [...this.#raised.values()];
    const lost = kinds.filter((kind) => kind === "lost").length;
    const before = this.#counts;
    if (before.lost === lost && before.wentBack === kinds.length - lost) return;
    this.#counts = { ...before, lost, wentBack: kinds.length - lost };
    this.#changed(this.#counts);
  }
}
