/** A branch with a little of everything that a restore may need. */
import { BranchModel } from "./branch-model.ts";
import { seeded } from "./random.ts";

/**
 * A branch with images at 1 and at 3, an object of 2 and 3, one of 4 to 7, one of 8 to 10, and 11 and 12 in the
 * manifest.
 */
export async function sampleBranch(): Promise<BranchModel> {
  const branch = new BranchModel(seeded(5));
  for (const [count, inline] of [
    [3, false],
    [4, false],
    [3, false],
    [1, true],
    [1, true],
  ] as const) {
    for (let made = 0; made < count; made++) branch.commit();
    await branch.ship(inline);
    if (branch.manifest.txid === 3) branch.rebase(await branch.images(3));
  }
  return branch;
}
