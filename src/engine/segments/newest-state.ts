/**
 * Proof that the newest state of a branch can be restored from objects alone: it is restored, checked and thrown away.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { DatabaseState } from "../../model/schema.ts";
import { findRestorePlan, type Plan } from "../history/timelines.ts";
import { readRestoredState, withRestored, type StatePlace } from "./restored-state.ts";

/** Restores and checks the manifest's state. Throws StoreError("corrupt") when that cannot be done. */
export async function checkNewest(place: StatePlace, manifest: Manifest): Promise<DatabaseState> {
  const plan = findRestorePlan(manifest, undefined, manifest.txid);
  if (!plan) throw new StoreError("corrupt", "a manifest does not say how its own state is restored");
  return checkState(place, plan);
}

/** The same for any state that a plan restores. */
export async function checkState(place: StatePlace, plan: Plan): Promise<DatabaseState> {
  return withRestored(place, plan, async (path) => {
    const state = await readRestoredState(place, path, true);
    if (state.txid !== plan.txid)
      throw new StoreError("corrupt", `the restored state ${plan.txid} says of itself that it is ${state.txid}`);
    return state;
  });
}
