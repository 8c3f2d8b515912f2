/**
 * How the clients of a simulated node change its branches: fork, checkpoint, rewind, forget, list and delete, by seed.
 * What comes back must fit what was asked for.
 */
import type { Answer, BranchAct, BranchResults } from "../../src/engine/api/protocol.ts";
import { Violation, type Failure } from "./asks.ts";
import type { BranchModel, DatabaseModel } from "./branch-model.ts";
import { pickPast, type Past } from "./past-states.ts";
import type { SimNode } from "./sim-node.ts";

/** An answer, and whether it came from the only node that there was all the while. */
export type Heard<Value = unknown> = Answer<Value> & { readonly isTrusted: boolean };

/** How branches are changed, and looked at afterwards. */
export interface BranchCalls {
  readonly node: () => SimNode;
  readonly random: () => number;
  branch<Act extends BranchAct>(branch: BranchModel, act: Act): Promise<Heard<BranchResults[Act["act"]]> | Failure>;
  /** Reads all keys. */
  look(branch: BranchModel): Promise<unknown>;
}

const branchesMax = 4;

const formatProcess = ({ name, incarnation }: SimNode): string => `${name}${incarnation}`;

export class BranchChanges {
  readonly #calls: BranchCalls;

  constructor(calls: BranchCalls) {
    this.#calls = calls;
  }

  /** One change; the choice is one of the last eleven in a hundred. */
  async change(branch: BranchModel, choice: number): Promise<void> {
    if (choice < 92) return this.#fork(branch);
    if (choice < 94) return this.#checkpoint(branch);
    if (choice < 96) return this.#rewind(branch);
    if (choice < 97) return this.#forget(branch);
    if (choice < 98) return this.#list(branch.database);
    return this.#delete(branch);
  }

  async #fork(parent: BranchModel): Promise<void> {
    const { database } = parent;
    if (database.branches.size >= branchesMax) return;
    // Names are used again: a deleted branch must not shine through.
    const name = `b${Math.floor(this.#draw(6))}`;
    if (database.branches.has(name)) return;
    const at = this.#draw(1) < 0.4 ? pickPast(parent, this.#calls.random) : undefined;
    const ttlSecs = this.#draw(1) < 0.2 ? 1 + Math.floor(this.#draw(60)) : undefined;
    const { seenTxid } = parent;
    const answer = await this.#calls.branch(parent, { act: "fork", name, at: at?.named, ttlSecs });
    // Another client may have taken the name meanwhile.
    if (at && answer === "refused" && !database.branches.has(name)) this.#stands(parent, at);
    if (typeof answer === "string") return;
    const { forkTxid } = answer.value;
    if (at === undefined ? forkTxid < seenTxid : forkTxid !== at.txid)
      throw new Violation(
        `${parent.label}: asked to fork at ${at?.txid ?? `${seenTxid} or later`}, it forked at ${forkTxid}`,
      );
    const child = database.branches.get(name);
    if (!child) return;
    child.isKnown = true;
    await this.#calls.look(child);
  }

  async #checkpoint(branch: BranchModel): Promise<void> {
    const name = `c${Math.floor(this.#draw(20))}`;
    const { seenTxid } = branch;
    const answer = await this.#calls.branch(branch, { act: "checkpoint", name });
    if (typeof answer === "string") return;
    if (answer.value.txid < seenTxid)
      throw new Violation(
        `${branch.label}: a checkpoint at ${answer.value.txid} misses what was answered at ${seenTxid}`,
      );
    branch.checkpoints.set(name, answer.value.txid);
    branch.saw(answer.value.txid, answer.value.txid);
  }

  async #forget(branch: BranchModel): Promise<void> {
    const [checkpoint] = branch.checkpoints.keys();
    if (checkpoint === undefined) return;
    branch.checkpoints.delete(checkpoint);
    await this.#calls.branch(branch, { act: "forget-checkpoint", name: checkpoint });
  }

  async #rewind(branch: BranchModel): Promise<void> {
    const to = pickPast(branch, this.#calls.random);
    if (!to) return;
    const answer = await this.#calls.branch(branch, { act: "rewind", to: to.named });
    if (answer === "refused") this.#stands(branch, to);
    if (typeof answer === "string") return;
    if (answer.value.rewoundTo !== to.txid)
      throw new Violation(`${branch.label}: asked to rewind to ${to.txid}, it rewound to ${answer.value.rewoundTo}`);
    if (answer.isTrusted) branch.saw(answer.txid, answer.txid);
    await this.#calls.look(branch);
  }

  /** An earlier state may have left the window, one that has a name never does. */
  #stands(branch: BranchModel, { named, txid }: Past): void {
    if (branch.checkpoints.get(named) === txid && branch.goneAtMs === undefined)
      throw new Violation(`${branch.label}: the checkpoint ${named} of ${txid} is refused`);
  }

  async #delete(branch: BranchModel): Promise<void> {
    if (branch.name === "main") return;
    branch.deletedBy.add(formatProcess(this.#calls.node()));
    await this.#calls.branch(branch, { act: "delete", name: branch.name });
  }

  /** Holds what the service says there is against what there was all the while. */
  async #list(database: DatabaseModel): Promise<void> {
    const before = new Set(database.branches.values());
    const answer = await this.#calls.branch(database.branches.get("main")!, { act: "list" });
    if (typeof answer === "string" || !answer.isTrusted) return;
    const listed = new Set(answer.value.branches.map(({ name }) => name));
    for (const branch of before)
      if (branch.isKnown && branch.goneAtMs === undefined && !hasEnded(branch) && !listed.has(branch.name))
        throw new Violation(`${branch.label} is not listed any more`);
    const node = this.#calls.node();
    // What another process has sent may delete a branch at any time; this one knows of it as soon as it changes one.
    const mayBeUnknown = ({ goneAtMs, deletedBy }: BranchModel): boolean =>
      goneAtMs !== undefined && goneAtMs > node.startedAtMs && !deletedBy.has(formatProcess(node));
    for (const name of listed)
      if (
        ![...before].some((branch) => branch.name === name) &&
        !database.branches.has(name) &&
        !database.named(name).some(mayBeUnknown)
      )
        throw new Violation(`${database.label}@${name} is listed, and there was none`);
  }

  #draw(below: number): number {
    return this.#calls.random() * below;
  }
}

/** Whether a burner's time is over by any clock. */
export function hasEnded(branch: BranchModel): boolean {
  return branch.ttlAtMs !== undefined;
}
