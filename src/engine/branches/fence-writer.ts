/**
 * Ends whoever writes a branch, without its data: what a claim needs when opening the file takes longer than a busy
 * writer's next head.
 */
import { limits } from "../../base/limits/limits.ts";
import { BranchHead, Fenced, type BranchHeadOptions } from "../history/branch-head.ts";

/**
 * Claims the branch as its head stands, again and again until the claim lands: from then on no change of an older
 * writer does. Between looking and claiming there is one way to the store, as between two heads of that writer, so that
 * each race has its chance. What the writer may have acknowledged beyond its head is noted as lost. A branch without a
 * head is left alone, and nothing more is tried once `isWanted` denies it. Throws Fenced when every race was lost.
 */
export async function fenceWriter(
  options: BranchHeadOptions,
  isWanted: () => boolean = () => true,
  leaseEpoch = 0,
): Promise<void> {
  for (let race = 1; isWanted(); race++) {
    const head = await BranchHead.read(options);
    if (!head.exists) return;
    try {
      await head.claim(head.now.txid, false, {}, leaseEpoch);
      return;
    } catch (error) {
      if (!(error instanceof Fenced) || race >= limits.overtakingRacesMax) throw error;
    }
  }
}
