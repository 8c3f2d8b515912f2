/**
 * How the clients of several nodes change branches: fork, rewind, checkpoint, forget, delete and list, at any of them.
 * What comes of it must be what was asked for, and seen by the others.
 */
import type { Answer, BranchAct, BranchResults } from "../../src/engine/api/protocol.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import { describeDeed, Violation, type Failure } from "./asks.ts";
import { covered, isGone, type BranchModel, type DatabaseModel } from "./branch-model.ts";
import { pickPast, type Past } from "./past-states.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SharedCalls } from "./shared-calls.ts";
import type { SharedNode } from "./shared-node.ts";

/** What a read of the writer, or an act that begins like one, spoke of. */
export interface Seen {
  readonly branch: BranchModel;
  readonly begunAtMs: number;
  readonly txid: number;
}

export interface SharedBranchOptions {
  readonly scheduler: Scheduler;
  readonly random: () => number;
  readonly calls: SharedCalls;
  readonly areLeasesBroken: () => boolean;
  /** Any node that runs now. */
  readonly anyUp: () => SharedNode | undefined;
  /** Reads at the node, as new as is known to be durable when that is wanted. */
  readonly look: (
    node: SharedNode,
    branch: BranchModel,
    consistency: "primary" | "plain",
    wantsNewest?: boolean,
  ) => Promise<unknown>;
}

export const branchBudgetMs = 60_000;
const branchesMax = 4;
const branchNames = 6;
/**
 * What nobody answered may still happen within this: a process may be stopped for a minute, and a put come half a
 * minute late.
 */
const doubtMs = 120_000;

export class SharedBranchChanges {
  readonly #options: SharedBranchOptions;
  /**
   * Calls under way that may change a branch, by database and branch name, and when one had an unknown outcome last.
   */
  readonly #busy = new Map<string, number>();
  readonly #doubtedAtMs = new Map<string, number>();
  readonly seen: Seen[] = [];

  constructor(options: SharedBranchOptions) {
    this.#options = options;
  }

  async fork(node: SharedNode, parent: BranchModel): Promise<void> {
    const { database } = parent;
    // Names are used again: a deleted branch must not shine through.
    const name = `b${Math.floor(this.#draw(branchNames))}`;
    if (database.branches.size >= branchesMax || database.branches.has(name) || !this.#isQuiet(database, name)) return;
    const at = this.#draw(1) < 0.5 ? pickPast(parent, this.#options.random) : undefined;
    const begunAtMs = this.#options.scheduler.nowMs;
    const { durableTxid } = parent;
    const answer = await this.whileChanging([parent.name, name], parent, () =>
      this.#branch(node, parent, { act: "fork", name, at: at?.named }),
    );
    if (at && answer === "refused") this.#stands(parent, at);
    if (typeof answer === "string") return;
    const { forkTxid } = answer.value;
    if (at === undefined ? forkTxid < durableTxid : forkTxid !== at.txid)
      throw new Violation(
        `${parent.label}: asked to fork at ${at?.txid ?? `${durableTxid} or later`}, it forked at ${forkTxid}`,
      );
    if (at === undefined) this.seen.push({ branch: parent, begunAtMs, txid: forkTxid });
    const child = database.branches.get(name);
    const other = this.#options.anyUp();
    if (child && other) await this.#options.look(other, child, this.#draw(1) < 0.5 ? "primary" : "plain");
  }

  async rewind(node: SharedNode, branch: BranchModel): Promise<void> {
    const to = pickPast(branch, this.#options.random);
    if (!to) return;
    const answer = await this.whileChanging([branch.name], branch, () =>
      this.#branch(node, branch, { act: "rewind", to: to.named }),
    );
    if (answer === "refused") this.#stands(branch, to);
    if (typeof answer === "string") return;
    if (answer.value.rewoundTo !== to.txid)
      throw new Violation(`${branch.label}: asked to rewind to ${to.txid}, it rewound to ${answer.value.rewoundTo}`);
    const other = this.#options.anyUp();
    if (!other || isGone(branch)) return;
    covered(branch, answer.txid);
    await this.#options.look(other, branch, this.#draw(1) < 0.5 ? "primary" : "plain", true);
  }

  async checkpoint(node: SharedNode, branch: BranchModel): Promise<void> {
    const name = `c${Math.floor(this.#draw(20))}`;
    const begunAtMs = this.#options.scheduler.nowMs;
    const { durableTxid } = branch;
    const answer = await this.whileChanging([branch.name], branch, () =>
      this.#branch(node, branch, { act: "checkpoint", name }),
    );
    if (typeof answer === "string" || isGone(branch)) return;
    const { txid } = answer.value;
    if (txid < durableTxid)
      throw new Violation(`${branch.label}: a checkpoint at ${txid} misses what was durable at ${durableTxid}`);
    this.seen.push({ branch, begunAtMs, txid });
    branch.checkpoints.set(name, txid);
    covered(branch, txid);
  }

  async forget(node: SharedNode, branch: BranchModel): Promise<void> {
    const [checkpoint] = branch.checkpoints.keys();
    if (checkpoint === undefined) return;
    branch.checkpoints.delete(checkpoint);
    await this.whileChanging([branch.name], branch, () =>
      this.#branch(node, branch, { act: "forget-checkpoint", name: checkpoint }),
    );
  }

  async delete(node: SharedNode, branch: BranchModel): Promise<void> {
    if (branch.name === mainBranch || !this.#isQuiet(branch.database, branch.name, true)) return;
    const answer = await this.whileChanging([branch.name], branch, () =>
      this.#branch(node, branch, { act: "delete", name: branch.name }),
    );
    if (typeof answer !== "string") branch.deletedAtMs ??= this.#options.scheduler.nowMs;
  }

  async list(node: SharedNode, branch: BranchModel): Promise<void> {
    const { database } = branch;
    const before = new Set(database.branches.values());
    const wasBroken = this.#options.areLeasesBroken();
    const answer = await this.#branch(node, database.branches.get(mainBranch)!, { act: "list" });
    if (typeof answer === "string" || wasBroken || this.#options.areLeasesBroken() || database.goneAtMs !== undefined)
      return;
    const listed = new Set(answer.value.branches.map(({ name }) => name));
    for (const one of before)
      if (!isGone(one) && !listed.has(one.name)) throw new Violation(`${one.label} is not listed at ${node.name}`);
    for (const name of listed)
      if (![...before].some((one) => one.name === name) && !database.branches.has(name))
        throw new Violation(`${database.label}@${name} is listed at ${node.name}, and there was none`);
  }

  /** An earlier state may have left the window, one that has a name never does. */
  #stands(branch: BranchModel, { named, txid }: Past): void {
    if (branch.checkpoints.get(named) === txid && !isGone(branch) && !this.#options.areLeasesBroken())
      throw new Violation(`${branch.label}: the checkpoint ${named} of ${txid} is refused`);
  }

  /**
   * Nothing is under way, or may still come, that knows the branch by its name alone; but for what will find it gone,
   * when it is to go.
   */
  #isQuiet({ uuid }: DatabaseModel, name: string, isToGo = false): boolean {
    const key = `${uuid}/${name}`;
    const isDoubted = this.#options.scheduler.nowMs - (this.#doubtedAtMs.get(key) ?? -Infinity) < doubtMs;
    return !isDoubted && (isToGo || (this.#busy.get(key) ?? 0) === 0);
  }

  /** Notes the names as busy until the act has ended, and as doubted when nobody knows how. */
  async whileChanging<Value>(
    names: readonly string[],
    { database }: BranchModel,
    act: () => Promise<Value | Failure>,
  ): Promise<Value | Failure> {
    const keys = names.map((name) => `${database.uuid}/${name}`);
    for (const key of keys) this.#busy.set(key, (this.#busy.get(key) ?? 0) + 1);
    const answer = await act();
    for (const key of keys) {
      this.#busy.set(key, this.#busy.get(key)! - 1);
      if (answer === "unknown") this.#doubtedAtMs.set(key, this.#options.scheduler.nowMs);
    }
    return answer;
  }

  /** Changes branches; what comes of it in object storage must be what was asked for. */
  async #branch<Act extends BranchAct>(
    node: SharedNode,
    branch: BranchModel,
    act: Act,
  ): Promise<Answer<BranchResults[Act["act"]]> | Failure> {
    const { asks } = branch.database;
    const deed = describeDeed(branch, act);
    const landedBefore = deed === undefined ? 0 : asks.begin(deed);
    const answer = await this.#options.calls.ask(
      `${act.act} ${JSON.stringify(act)}`,
      node,
      branch,
      (port, target, options) => port.branch(target, act, options),
      { budgetMs: branchBudgetMs },
    );
    if (deed === undefined || answer === "unknown") return answer;
    if (typeof answer === "string") asks.refused(deed);
    else asks.done(deed, landedBefore);
    return answer;
  }

  #draw(below: number): number {
    return this.#options.random() * below;
  }
}
