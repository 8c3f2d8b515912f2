/** Every state of branches with made-up pages is restored as it was, through random histories. */
import { describe, expect, it } from "vitest";
import { isRestorable, findRestorePlan } from "../../../../src/engine/history/timelines.ts";
import { rollForward } from "../../../../src/engine/segments/restore.ts";
import type { SegmentRef } from "../../../../src/format/history/refs.ts";
import { BranchModel } from "../../../support/branch-model.ts";
import { seeded } from "../../../support/random.ts";
import { sampleBranch } from "../../../support/restored-branch.ts";

/** The window in which states stay restorable; a commit takes a second. */
const windowMs = 20_000;

/** Images that a step has made and a later one will use. */
interface MadeImages {
  refs?: readonly SegmentRef[] | undefined;
}

/** One random step of a branch's life; gives the branches there are now. */
async function step(branch: BranchModel, images: MadeImages): Promise<BranchModel | undefined> {
  const restorable = [...branch.states.keys()].filter((txid) => findRestorePlan(branch.manifest, branch.history, txid));
  const chosen = restorable[branch.below(restorable.length)];
  switch (branch.below(16)) {
    case 0:
      if (branch.manifest.txid > 0 && chosen !== undefined) await branch.rewind(chosen);
      return undefined;
    case 1:
      return chosen === undefined || branch.random() < 0.5 ? undefined : branch.fork(chosen);
    case 2:
    case 3:
      // Images take their time: what they are made of is decided now, and they arrive some steps later.
      if (images.refs) branch.rebase(images.refs);
      images.refs = branch.baseTxid === undefined ? undefined : await branch.images(branch.baseTxid);
      return undefined;
    case 4:
    case 5: {
      const { refs } = branch.manifest;
      let from = refs.length;
      while (from > 0 && refs[from - 1]!.kind === "delta" && !refs[from - 1]!.cut && refs.length - from < 6) from--;
      if (refs.length - from >= 2) await branch.pack({ from, to: refs.length - branch.below(2) });
      return undefined;
    }
    case 6:
      if (branch.random() < 0.4) branch.trim(branch.nowMs - windowMs);
      return undefined;
    case 7:
      if (chosen !== undefined && branch.history.checkpoints.length < 3) branch.checkpoint(`c${branch.nowMs}`, chosen);
      return undefined;
    case 8:
      if (branch.manifest.txid > 0 && branch.random() < 0.3) await branch.failOver();
      return undefined;
    case 9:
    case 10:
    case 11:
      await branch.ship(branch.random() < 0.5);
      return undefined;
    default:
      for (let count = 1 + branch.below(3); count > 0; count--) branch.commit();
      return undefined;
  }
}

/** Every state that has a plan is what it was, and every state that must have one has it. */
async function verify(branch: BranchModel): Promise<number> {
  const cutoffMs = branch.nowMs - windowMs;
  let restored = 0;
  for (let txid = 0; txid <= branch.manifest.txid + 2; txid++) {
    const plan = findRestorePlan(branch.manifest, branch.history, txid);
    const known = branch.states.has(txid) && txid <= branch.manifest.txid;
    if (plan) {
      expect(known, `transaction id ${txid} was never given`).toBe(true);
      const { expected, found } = branch.compare(txid, await branch.restored(txid));
      expect(found, `transaction id ${txid}`).toBe(expected);
      restored++;
    }
    const named = branch.history.checkpoints.some((checkpoint) => checkpoint.txid === txid);
    if (known && (named || branch.currency.get(txid)!.untilMs >= cutoffMs)) {
      expect(
        isRestorable(branch.manifest, branch.history, txid, cutoffMs),
        `transaction id ${txid} must be restorable`,
      ).toBe(true);
    }
  }
  return restored;
}

describe("random histories", () => {
  it.each(Array.from({ length: 12 }, (_, at) => at + 1))(
    "F14 F78: every state stays what it was through forks, rewinds, rebases and packs (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      const branches = [new BranchModel(random)];
      const images = new Map<BranchModel, MadeImages>();
      for (let count = 0; count < 160; count++) {
        const branch = branches[Math.floor(random() * branches.length)]!;
        if (!images.has(branch)) images.set(branch, {});
        const child = await step(branch, images.get(branch)!);
        if (child && branches.length < 3) branches.push(child);
      }
      let restored = 0;
      for (const branch of branches) {
        await branch.ship(random() < 0.5);
        if (branch.manifest.txid > 0) restored += await verify(branch);
      }
      expect(restored).toBeGreaterThan(20);
    },
  );

  it.each([true, false])(
    "a fork in the middle of what the manifest holds goes on from there, its groups in the manifest: %s",
    async (inline) => {
      const branch = await sampleBranch();
      for (let count = 0; count < 4; count++) branch.commit();
      await branch.ship(true);
      for (const txid of [11, 13, 14, 15, 16]) {
        const child = await branch.fork(txid);
        expect(child.manifest.tail.at(-1)?.lastTxid).toBe(txid);
        expect(child.manifest.tail.reduce((sum, { rawBytes }) => sum + rawBytes, 0)).toBeLessThanOrEqual(
          branch.manifest.tail.reduce((sum, { rawBytes }) => sum + rawBytes, 0),
        );
        for (let count = 0; count < 2; count++) child.commit();
        await child.ship(inline);
        expect(await verify(child)).toBe(3);
      }
    },
  );

  it.each([1, 2, 3, 4, 5, 6])(
    "F14: a file rolled forward along its timeline is the same as one restored (seed %i)",
    async (seed) => {
      const branch = new BranchModel(seeded(seed * 31));
      const images = {};
      let rolled = 0;
      for (let count = 0; count < 200; count++) {
        await step(branch, images);
        if (branch.below(3) > 0) continue;
        const states = [...branch.states.keys()]
          .filter((txid) => txid >= branch.manifest.fromTxid && findRestorePlan(branch.manifest, undefined, txid))
          .sort((a, b) => a - b);
        if (states.length < 2) continue;
        const from = branch.below(states.length);
        const to = from + branch.below(states.length - from);
        const path = await branch.restored(states[from]!);
        await rollForward(branch.source, branch.findRestorePlan(states[to]!), states[from]!, path);
        const { expected, found } = branch.compare(states[to]!, path);
        expect(found, `${states[from]} to ${states[to]}`).toBe(expected);
        if (to > from) rolled++;
      }
      expect(rolled).toBeGreaterThan(0);
    },
  );
});
