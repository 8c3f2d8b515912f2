/** When something befell a node, the store or the leases, and what of the answers around that time it excuses. */
import { Violation } from "./asks.ts";
import { isGone, type BranchModel, type Change, type DatabaseModel } from "./branch-model.ts";
import type { Seen } from "./shared-branch-changes.ts";

/**
 * A standard write is shipped within this of its answer, unless the store is very slow: what was answered longer before
 * a mishap survives it.
 */
const shippedWithinMs = 60_000;

interface Mishap {
  readonly fromMs: number;
  toMs: number;
}

export class Mishaps {
  readonly #all: Mishap[] = [];

  /** It may be made longer afterwards. */
  add(mishap: Mishap): void {
    this.#all.push(mishap);
  }

  /** What claims have given up of what was answered must be the doing of a mishap. Gives how much it is. */
  account(database: DatabaseModel): number {
    let lost = 0;
    for (const branch of database.everyBranch()) {
      for (const { token, least: txid, answeredAtMs } of branch.answered()) {
        const gap = branch.gaps.find(({ firstTxid, lastTxid }) => txid >= firstTxid && txid <= lastTxid);
        if (!gap || gap.isOver || database.goneAtMs !== undefined) continue;
        lost++;
        if (!this.#isExcused(answeredAtMs))
          throw new Violation(
            `${branch.label}: ${token} was answered at ${answeredAtMs.toFixed(0)} and is lost, though nothing ` +
              "befell anybody around that time",
          );
      }
    }
    return lost;
  }

  /**
   * Whoever asked the writer was shown everything that was answered before; a node that went down may ship more when it
   * comes back.
   */
  accountForReads(seen: readonly Seen[], wentBack: readonly { readonly atMs: number; readonly what: string }[]): void {
    const back = wentBack.find(({ atMs }) => !this.#isExcused(atMs));
    if (back) throw new Violation(`${back.what}, though nothing befell anybody around that time`);
    const answered = new Map<BranchModel, readonly Change[]>();
    for (const { branch, begunAtMs, txid } of seen) {
      if (!answered.has(branch)) answered.set(branch, this.#lasting(branch));
      const missed = answered.get(branch)!.find((one) => one.answeredAtMs < begunAtMs && one.least > txid);
      if (missed)
        throw new Violation(
          `${branch.label}: whoever asked at ${begunAtMs.toFixed(0)} was ` +
            `shown ${txid} without ${missed.token} of ${missed.least}, which was answered ` +
            `at ${missed.answeredAtMs.toFixed(0)} and was not lost`,
        );
    }
  }

  #lasting(branch: BranchModel): readonly Change[] {
    return isGone(branch)
      ? []
      : [...branch.answered()].filter(
          ({ least, answeredAtMs }) => !branch.isLost(least) && !this.#isExcused(answeredAtMs),
        );
  }

  /** Whether something befell a node before a standard write of this time was surely shipped. */
  #isExcused(atMs: number): boolean {
    return this.#all.some(({ fromMs, toMs }) => atMs >= fromMs - shippedWithinMs && atMs <= toMs + shippedWithinMs);
  }
}
