/** What clients have asked for, and what of it has landed; a promise that is broken is a Violation. */
import type { BranchAct } from "../../src/engine/api/protocol.ts";

/** A promise of the service that an observation breaks. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** What is known of a call that did not succeed. */
export type Failure = "nothing happened" | "refused" | "unknown" | "gone";

interface Histogram {
  landed: number;
  done: number;
  /** Under way, or of unknown outcome: each may land once. */
  open: number;
}

/** Acts that clients have asked for, beside those that landed in object storage: neither may be without the other. */
export class Asks {
  readonly #tallies = new Map<string, Histogram>();

  /** Gives how many of its kind have landed before. */
  begin(deed: string): number {
    const tally = this.#of(deed);
    tally.open++;
    return tally.landed;
  }

  landed(deed: string): void {
    this.#of(deed).landed++;
    this.#check(deed, "has landed, and nobody asked for it, or it was refused");
  }

  /**
   * Answered; one whose outcome is not known stays open. Two that delete the same thing at once are both told that it
   * is gone: one that landed after a deletion had begun may be another's.
   */
  done(deed: string, landedBefore: number): void {
    const tally = this.#of(deed);
    tally.open--;
    if (/^(?:delete|drop) /.test(deed) && tally.landed === tally.done && tally.landed > landedBefore) return;
    tally.done++;
    this.#check(deed, "was answered, and has not landed");
  }

  refused(deed: string): void {
    this.#of(deed).open--;
    this.#check(deed, "was refused, and has landed");
  }

  #of(deed: string): Histogram {
    const tally = this.#tallies.get(deed) ?? { landed: 0, done: 0, open: 0 };
    this.#tallies.set(deed, tally);
    return tally;
  }

  #check(deed: string, what: string): void {
    const { landed, done, open } = this.#of(deed);
    if (landed < done || landed > done + open) throw new Violation(`"${deed}" ${what}`);
  }
}

/** What an act needs to know of its branch. */
interface ActedOn {
  readonly id: string;
  readonly name: string;
  readonly checkpoints: ReadonlyMap<string, number>;
  readonly ttlAtMs: number | undefined;
}

/** What an act comes to in object storage; undefined for one that moves no branch. */
export function describeDeed(branch: ActedOn, act: BranchAct): string | undefined {
  switch (act.act) {
    case "fork":
      return `fork ${act.name}`;
    case "rewind":
      return rewindDeed(branch, branch.checkpoints.get(act.to) ?? Number(act.to));
    case "delete":
      // A burner may just have ended by itself.
      return branch.ttlAtMs === undefined ? `delete ${act.name}` : undefined;
    default:
      return undefined;
  }
}

export function rewindDeed({ id, name }: Pick<ActedOn, "id" | "name">, toTxid: number): string {
  return `rewind ${name} (${id}) to ${toTxid}`;
}
