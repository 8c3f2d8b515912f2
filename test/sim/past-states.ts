/** Earlier states of a branch, of which clients ask for one by its name or its transaction id. */
import type { BranchModel } from "./branch-model.ts";

/** An earlier state, and what it is called. */
export interface Past {
  readonly named: string;
  readonly txid: number;
}

/** A checkpoint or an earlier transaction id, sometimes of a timeline that was left. */
export function pickPast(branch: BranchModel, random: () => number): Past | undefined {
  const checkpoints = [...branch.checkpoints];
  const [named, txid] = checkpoints[Math.floor(random() * checkpoints.length)] ?? [];
  if (named !== undefined && random() < 0.5) return { named, txid: txid! };
  const past = branch.pastTxid(random, random() < 0.3);
  return past === undefined ? undefined : { named: String(past), txid: past };
}
