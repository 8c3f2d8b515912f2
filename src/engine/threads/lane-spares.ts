/**
 * The databases that the engine threads have made ahead, as whoever claims names takes them.
 *
 * Always true: a thread is asked only while it has said that it has one; one that does not answer soon gives none, and
 * what it has given then is nobody's. Must not know: how one is made, how a name is claimed.
 */
import type { SpareDatabases } from "../../control/databases/databases.ts";
import type { World } from "../../base/world.ts";
import { mainBranch } from "../../format/core/names.ts";
import type { CallOptions } from "../api/engine-port.ts";
import { computeLane, type Answer, type NameOutcome, type Target, type Work } from "../api/protocol.ts";

/** A thread that is busy for longer is not waited for: making a database takes no longer. */
const takeMsMax = 250;
/** The thread hears of the outcome when it comes to it. */
const settleMsMax = 60_000;

export interface LaneSparesParts {
  readonly lanes: number;
  readonly world: Pick<World, "monotonicMs">;
  readonly call: (target: Target, work: Work, options: CallOptions, lane: number) => Promise<Answer>;
}

export class LaneSpares implements SpareDatabases {
  readonly #parts: LaneSparesParts;
  /** How many each lane has, as it has said, without those that were asked for since. */
  readonly #ready: number[];

  constructor(parts: LaneSparesParts) {
    this.#parts = parts;
    this.#ready = Array.from({ length: parts.lanes }, () => 0);
  }

  /** How many there are. */
  get ready(): number {
    return this.#ready.reduce((sum, ready) => sum + ready, 0);
  }

  /** The lane has so many now; none once its thread is lost. */
  told(lane: number, ready: number): void {
    this.#ready[lane] = ready;
  }

  async take(name: string): Promise<string | undefined> {
    const most = Math.max(...this.#ready);
    if (most === 0) return undefined;
    const lane = this.#ready.indexOf(most);
    this.#ready[lane] = most - 1;
    const options = { deadlineMs: this.#parts.world.monotonicMs() + takeMsMax };
    try {
      const { value } = await this.#parts.call(
        { uuid: "", branch: mainBranch },
        { kind: "take-spare", name },
        options,
        lane,
      );
      return value as string | undefined;
    } catch {
      // Whoever claims the name makes a database of its own, and meets what is wrong with the thread there.
      return undefined;
    }
  }

  settle(uuid: string, outcome: NameOutcome): void {
    const options = { deadlineMs: this.#parts.world.monotonicMs() + settleMsMax };
    const lane = computeLane(uuid, this.#parts.lanes);
    // A thread that is lost meanwhile has a note of it, which the next process reads.
    this.#parts.call({ uuid, branch: mainBranch }, { kind: "settle-spare", outcome }, options, lane).catch(() => {});
  }
}
