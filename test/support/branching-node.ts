/** A node whose branches are made, named and removed under a clock of the test's own. */
import { startAudited } from "./audited-node.ts";
import type { TimedEngine, VirtualTime } from "./timed-engine.ts";

/** A node that closes nothing for want of use. */
export function startBranching(options = {}): { time: VirtualTime; node: TimedEngine } {
  return startAudited({ idleCloseMs: 1e12, ...options });
}

export const findId = (time: VirtualTime, node: TimedEngine, name: string): string =>
  time.catalog(node.uuid).branches.find((branch) => branch.name === name)!.id;

/** What came of it, in a word. */
export const describeOutcome = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "done",
    (error: { code?: string }) => error.code ?? String(error),
  );
