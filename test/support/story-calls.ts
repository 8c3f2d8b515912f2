/** Calls in a story that a crash may end: whoever is in the middle of one learns that the node is gone. */
import type { Answer, BranchAct, BranchResults } from "../../src/engine/api/protocol.ts";
import { describeDeed, Violation } from "../sim/asks.ts";
import type { BranchModel } from "../sim/branch-model.ts";
import type { Scheduler } from "../sim/scheduler.ts";
import type { SimNode } from "../sim/sim-node.ts";

/** The node died in the middle of what was being done. */
export class Interrupted extends Error {}

/** A call was refused in a way that says to ask again. */
class Refused extends Error {}

export const callBudgetMs = 60_000;
const triesMax = 60;

/** Waits for all; what one of them found wrong wins over another's being interrupted. */
export async function together(acts: readonly Promise<void>[]): Promise<void> {
  const failures = (await Promise.allSettled(acts)).flatMap((outcome) =>
    outcome.status === "rejected" ? [outcome.reason as Error] : [],
  );
  const worst = failures.find((error) => !(error instanceof Interrupted)) ?? failures[0];
  if (worst) throw worst;
}

export function getTarget(branch: BranchModel): { uuid: string; branch: string } {
  return { uuid: branch.database.uuid, branch: branch.name };
}

export class StoryCalls {
  readonly #scheduler: Scheduler;
  /** The node that the story is about now. */
  readonly #node: () => SimNode;

  constructor(scheduler: Scheduler, node: () => SimNode) {
    this.#scheduler = scheduler;
    this.#node = node;
  }

  async branch<Act extends BranchAct>(branch: BranchModel, act: Act): Promise<Answer<BranchResults[Act["act"]]>> {
    let answer: Answer<BranchResults[Act["act"]]> | undefined;
    const { asks } = branch.database;
    const deed = describeDeed(branch, act);
    let landedBefore = 0;
    await this.must(async () => {
      landedBefore = deed === undefined ? 0 : asks.begin(deed);
      answer = await this.#node().call((client, world) =>
        client.branch(getTarget(branch), act, { deadlineMs: world.monotonicMs() + callBudgetMs }),
      );
      return true;
    });
    if (deed !== undefined) asks.done(deed, landedBefore);
    return answer!;
  }

  /** Nothing but a crash keeps a call from succeeding. */
  async must(act: () => Promise<boolean>): Promise<void> {
    if (!this.#node().up) throw new Interrupted();
    try {
      if (await act()) return;
    } catch (error) {
      if (this.#node().up) throw error;
    }
    if (this.#node().up) throw new Violation("a call was refused, and nothing was wrong");
    throw new Interrupted();
  }

  async sleep(delayMs: number): Promise<void> {
    await this.#scheduler.sleep(delayMs);
    if (!this.#node().up) throw new Interrupted();
  }

  async soundness(branch: BranchModel): Promise<string> {
    const statements = [{ text: "PRAGMA integrity_check", paramsJson: undefined }];
    const { value } = await this.#node().call((client, world) =>
      client.sqlWrite(
        getTarget(branch),
        { statements, atomic: true, mayWrite: false },
        { deadlineMs: world.monotonicMs() + callBudgetMs },
      ),
    );
    return value[0]!.rowsJson;
  }

  /** The act's success, as something that is either answered or thrown. */
  async holds(act: () => Promise<boolean>): Promise<void> {
    if (!(await act())) throw new Refused();
  }

  /** Tries again: right after a crash a request of the dead may still land, and then a claim is lost once. */
  async patiently<Value>(act: () => Promise<Value>): Promise<Value> {
    for (let tries = 1; ; tries++) {
      try {
        return await act();
      } catch (error) {
        if (!this.#node().up) throw new Interrupted();
        const again = error instanceof Refused || (error as { code?: unknown }).code === "unavailable";
        if (!again || tries === triesMax) throw error;
      }
      await this.sleep(1_000);
    }
  }
}
