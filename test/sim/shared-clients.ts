/**
 * The clients of several nodes that share databases. They find a database by its name at whatever node, claim the name
 * anew when it is free, write unique tokens, read from writers and from copies, fork, rewind, name and delete, and hold
 * every answer against the model: whatever a node shows is a state of the branch that was asked for.
 */
import type { EnginePort, CallOptions } from "../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import type { ActsDose } from "./acts-dose.ts";
import { Violation, type Failure } from "./asks.ts";
import { covered, isGone, type BranchModel, type Change, type DatabaseModel } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import type { NamesModel } from "./names-model.ts";
import type { Scheduler } from "./scheduler.ts";
import { branchBudgetMs, SharedBranchChanges, type Seen } from "./shared-branch-changes.ts";
import { SharedCalls } from "./shared-calls.ts";
import type { SharedNode } from "./shared-node.ts";
import { list, put } from "./tokens.ts";

export interface SharedClientsOptions {
  readonly scheduler: Scheduler;
  readonly random: () => number;
  /** Nodes that run now. */
  readonly up: () => readonly SharedNode[];
  readonly names: NamesModel;
  readonly dose: ActsDose;
  /** Whether two nodes may hold one database, as the coordination store has failed. */
  readonly areLeasesBroken: () => boolean;
  /** Whether object storage left a request of that process for the database unanswered since then. */
  readonly leftUnanswered: (worldName: string, uuid: string, sinceMs: number) => boolean;
  /** Whether a node that holds a database may not hear that it does no more. */
  readonly isAnyCut: () => boolean;
}

type Consistency = "primary" | "plain" | "cached";

/** So long a node does not ask object storage again for what it had no answer to. */
const unansweredMs = 10_000;

export class SharedClients {
  readonly #options: SharedClientsOptions;
  readonly #calls: SharedCalls;
  readonly #branchChanges: SharedBranchChanges;
  /** How far each process has said that object storage covers each branch. */
  readonly #shownTo = new Map<string, number>();
  /**
   * Plain reads that showed less than their node had shown before, as they may while their writer cannot be reached.
   */
  readonly wentBack: { readonly atMs: number; readonly what: string }[] = [];
  /** Everything is at rest, and has been for long enough: whoever is asked knows what was deleted. */
  isCalm = false;

  constructor(options: SharedClientsOptions) {
    this.#options = options;
    const { scheduler, random, areLeasesBroken } = options;
    this.#calls = new SharedCalls(scheduler, areLeasesBroken);
    this.#branchChanges = new SharedBranchChanges({
      scheduler,
      random,
      calls: this.#calls,
      areLeasesBroken,
      anyUp: () => this.anyUp(),
      look: (...look) => this.read(...look),
    });
  }

  get counts(): Readonly<Record<string, number>> {
    return this.#calls.counts;
  }

  get seen(): readonly Seen[] {
    return this.#branchChanges.seen;
  }

  /** One client of the database that has the name, whichever that is: so many calls, one after the other. */
  async act(name: string, calls: number): Promise<void> {
    for (let call = 0; call < calls; call++) {
      await this.#options.scheduler.sleep(this.#draw(3_000));
      const node = this.anyUp();
      if (!node) continue;
      const database = await this.find(node, name);
      if (database) await this.#one(node, name, database);
    }
  }

  async #one(node: SharedNode, name: string, database: DatabaseModel): Promise<void> {
    const branch = this.#pickBranch(database);
    const { fork, rewind, checkpoint, deletion, deleteTarget } = this.#options.dose;
    const acts: [number, () => Promise<unknown>][] = [
      [fork, () => this.#branchChanges.fork(node, branch)],
      [rewind, () => this.#branchChanges.rewind(node, branch)],
      [checkpoint, () => this.#branchChanges.checkpoint(node, branch)],
      [checkpoint / 3, () => this.#branchChanges.forget(node, branch)],
      [deletion, () => this.#branchChanges.delete(node, branch)],
      [deleteTarget, () => this.#deleteTarget(node, name)],
      [fork / 4, () => this.#branchChanges.list(node, branch)],
      [0.02, () => this.#sync(node, branch)],
      [0.04, () => this.#remove(node, branch)],
      [0.24, () => this.read(node, branch, "primary")],
    ];
    let draw = this.#draw(1);
    const act =
      acts.find(([chance]) => (draw -= chance) < 0)?.[1] ?? (() => this.write(node, branch, this.#draw(1) < 0.3));
    await act();
    const other = this.anyUp();
    if (!other || this.#draw(1) >= 0.4) return;
    // As new as what was durable before, in one of two; the newest look, or any of half a minute.
    await this.read(other, this.#pickBranch(database), this.#draw(1) < 0.7 ? "plain" : "cached", this.#draw(1) < 0.5);
  }

  anyUp(): SharedNode | undefined {
    const up = this.#options.up();
    return up[Math.floor(this.#draw(up.length))];
  }

  #pickBranch({ branches }: DatabaseModel): BranchModel {
    const all = [...branches.values()];
    return this.#draw(1) < 0.4 ? branches.get(mainBranch)! : all[Math.floor(this.#draw(all.length))]!;
  }

  /** The database that has the name as far as the node knows; claimed by it when nobody has it. */
  async find(node: SharedNode, name: string): Promise<DatabaseModel | undefined> {
    const { names } = this.#options;
    const uuid = await this.#calls.ofStore("find", node, name, ({ databases }) =>
      databases.ensure(name).then((record) => record.uuid),
    );
    if (uuid === undefined) return undefined;
    const database = names.database(uuid);
    if (!database) throw new Violation(`${node.name} gives the name ${name} to ${uuid}, which never claimed it`);
    if (this.isCalm && names.holder(name) !== database)
      throw new Violation(`${node.name} gives the name ${name} to ${database.label}, which was deleted`);
    return database;
  }

  /** Takes the name from the database, and has it removed; should that not come to its end, the nodes look after it. */
  async #deleteTarget(node: SharedNode, name: string): Promise<void> {
    const { names } = this.#options;
    const deed = `drop ${name}`;
    const landedBefore = names.asks.begin(deed);
    const uuid = await this.#calls.ofStore(
      "drop",
      node,
      name,
      ({ databases }) => databases.remove(name).then((record) => record.uuid),
      () => names.asks.refused(deed),
    );
    if (uuid === undefined) return;
    names.asks.done(deed, landedBefore);
    const { branches } = names.database(uuid)!;
    await this.#calls.ask(
      "dropping",
      node,
      branches.get(mainBranch)!,
      (port, target, options) => port.deleteTarget(target, options),
      { budgetMs: branchBudgetMs },
    );
  }

  /** Adds a token. Says whether it was answered. */
  async write(node: SharedNode, branch: BranchModel, durable: boolean): Promise<boolean> {
    const kind: Kind = this.#draw(1) < 0.8 ? "kv" : "docs";
    const token = branch.database.newToken();
    const change = branch.begin(token, kind, false, this.#holder(), this.#options.scheduler.nowMs);
    return this.#settle(`write ${kind} ${token}`, node, change, durable, (port, target, options) =>
      put(port, target, options, kind, token, change),
    );
  }

  async #remove(node: SharedNode, branch: BranchModel): Promise<void> {
    const tokens = branch.present("kv").filter(({ token }) => branch.database.changes.get(token)!.length === 1);
    const found = tokens[Math.floor(this.#draw(tokens.length))];
    if (!found) return;
    const { token } = found;
    const change = branch.begin(token, "kv", true, this.#holder(), this.#options.scheduler.nowMs);
    await this.#settle(`remove kv ${token}`, node, change, false, (port, target, options) =>
      port.write(target, "kv.delete", { ns: "sim", key: token }, options),
    );
  }

  async #settle(
    what: string,
    node: SharedNode,
    change: Change,
    durable: boolean,
    act: (port: EnginePort, target: Target, options: CallOptions) => Promise<Answer>,
  ): Promise<boolean> {
    const { branch } = change;
    const answer = await this.#branchChanges.whileChanging([branch.name], branch, () =>
      this.#calls.ask(`${what}${durable ? " durably" : ""}`, node, branch, act, { durable }),
    );
    if (answer === "gone" || answer === "nothing happened") branch.refused(change);
    if (typeof answer === "string") return false;
    // A rewind may have taken away what was to be removed; then there is no transaction of its own.
    if (change.removes && !(answer.value as { deleted: boolean }).deleted) {
      branch.refused(change);
      return true;
    }
    // Of what is deleted nothing can be said but that it never shows.
    if (isGone(branch)) return true;
    branch.acknowledged(
      change,
      answer.txid,
      durable || answer.durableTxid >= answer.txid,
      this.#options.scheduler.nowMs,
    );
    covered(branch, durable ? answer.txid : Math.min(answer.txid, answer.durableTxid));
    return true;
  }

  /** Reads every token of a kind. Gives what was answered, if it was, and undefined when the branch is gone. */
  async read(
    node: SharedNode,
    branch: BranchModel,
    consistency: Consistency,
    wantsNewest = false,
    kind: "kv" | "docs" = this.#draw(1) < 0.8 ? "kv" : "docs",
  ): Promise<Answer<string[]> | Failure> {
    const begunAtMs = this.#options.scheduler.nowMs;
    const wasBroken = this.#options.areLeasesBroken();
    const { durableTxid } = branch;
    const minTxid = wantsNewest ? durableTxid : 0;
    const process = `${node.name}${node.sim.incarnation} ${branch.database.uuid}`;
    const findFloor = ({ id }: BranchModel): number => this.#shownTo.get(`${process} ${id}`) ?? 0;
    const floors = new Map(branch.database.named(branch.name).map((one) => [one, findFloor(one)]));
    const what = consistency === "primary" ? "read" : consistency === "plain" ? "copy" : "cached";
    const answer = await this.#calls.ask(
      `${what} ${kind}${minTxid > 0 ? ` from ${minTxid}` : ""}`,
      node,
      branch,
      (port, target, options) => list(port, target, options, kind),
      { minTxid, ...(consistency === "plain" ? {} : { consistency }) },
    );
    if (typeof answer === "string") return answer;
    const isWriters = consistency === "primary" && !wasBroken && !this.#options.areLeasesBroken();
    const shown = this.#shownBy(
      branch,
      answer,
      kind,
      (one) => !isGone(one) || (!this.isCalm && !(isWriters && (one.deletedAtMs ?? Infinity) < begunAtMs)),
    );
    if (!shown) return answer;
    const { txid } = answer;
    const floor = floors.get(shown) ?? 0;
    if (shown === branch && txid < minTxid)
      throw new Violation(`${node.name} was asked for ${minTxid} of ${branch.label} and shows ${txid}`);
    if (shown === branch && isWriters && txid < durableTxid)
      throw new Violation(
        `a primary read at ${node.name} shows ${txid} of ${branch.label}, of which ${durableTxid} was durable before`,
      );
    // A cached read asks for no more than what was looked after within half a minute, and one that names a transaction
    // id for that one. An old copy will do when object storage does not give the newer state.
    const isExcused =
      node.sim.world !== undefined &&
      this.#options.leftUnanswered(node.sim.world.name, branch.database.uuid, begunAtMs - unansweredMs);
    if (consistency === "plain" && minTxid === 0 && txid < floor && !isExcused)
      this.wentBack.push({
        atMs: begunAtMs,
        what: `${node.name} shows ${txid} of ${branch.label} after it had shown that ${floor} is durable`,
      });
    const durable = Math.min(txid, answer.durableTxid);
    this.#shownTo.set(`${process} ${shown.id}`, Math.max(findFloor(shown), durable));
    if (!isGone(shown)) covered(shown, durable);
    if (shown === branch && isWriters) this.#branchChanges.seen.push({ branch, begunAtMs, txid });
    return answer;
  }

  /**
   * The branch of that name of which the answer shows a state; undefined when it may be of several. Throws when it can
   * be of none.
   */
  #shownBy(
    branch: BranchModel,
    { txid, value }: Answer<string[]>,
    kind: Kind,
    mayShow: (branch: BranchModel) => boolean,
  ): BranchModel | undefined {
    const found = new Set(value);
    const candidates = branch.database.named(branch.name).filter(mayShow);
    const complaints = candidates.map((one) => one.complaint(txid, [kind], found));
    const fitting = candidates.filter((_, index) => complaints[index] === undefined);
    if (fitting.length === 0) throw new Violation(complaints[0] ?? `${branch.label} was deleted, and shows ${txid}`);
    if (fitting.length > 1) return undefined;
    fitting[0]!.observed(txid, [kind], found);
    return fitting[0];
  }

  async #sync(node: SharedNode, branch: BranchModel): Promise<void> {
    const begunAtMs = this.#options.scheduler.nowMs;
    const wasBroken = this.#options.areLeasesBroken();
    const { durableTxid } = branch;
    const answer = await this.#calls.ask("sync", node, branch, (port, target, options) => port.sync(target, options));
    if (typeof answer === "string" || isGone(branch) || wasBroken || this.#options.areLeasesBroken()) return;
    if (answer.txid < durableTxid)
      throw new Violation(
        `${branch.label}: ${node.name} says that all up to ${answer.txid} is durable, and ${durableTxid} was before`,
      );
    this.#branchChanges.seen.push({ branch, begunAtMs, txid: answer.txid });
    covered(branch, answer.txid);
  }

  /** How sure a node that takes a write now is of its lease. */
  #holder(): "sure" | "doubtful" | "stray" {
    if (this.#options.areLeasesBroken()) return "stray";
    return this.#options.isAnyCut() ? "doubtful" : "sure";
  }

  #draw(below: number): number {
    return this.#options.random() * below;
  }
}
