/**
 * The clients of several nodes that share databases. They find a database by its name at whatever node, claim the name
 * anew when it is free, write unique tokens, read from writers and from copies, fork, rewind, name and delete, and hold
 * every answer against the model: whatever a node shows is a state of the branch that was asked for.
 */
import { ServiceError, StoreError } from "../../src/base/faults/errors.ts";
import type { CallOptions, EnginePort } from "../../src/engine/api/engine-port.ts";
import type { Answer, BranchAct, BranchResults, Target } from "../../src/engine/api/protocol.ts";
import { mainBranch } from "../../src/format/core/names.ts";
import type { BranchModel, DatabaseModel, Change } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import { describeDeed, Violation } from "./asks.ts";
import { list, put } from "./tokens.ts";
import type { NamesModel } from "./names-model.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SharedNode } from "./shared-node.ts";
import { ProcessGone } from "./sim-node.ts";
import type { ActsDose } from "./acts-dose.ts";

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

/** What is known of a call that did not succeed. */
type Failure = "nothing happened" | "refused" | "unknown" | "gone";

type Consistency = "primary" | "plain" | "cached";

/** What a read of the writer, or an act that begins like one, spoke of. */
export interface Seen {
  readonly branch: BranchModel;
  readonly begunAtMs: number;
  readonly txid: number;
}

/** An earlier state, and what it is called. */
interface Past {
  readonly named: string;
  readonly txid: number;
}

const callBudgetMs = 20_000;
const branchBudgetMs = 60_000;
const branchesMax = 4;
const branchNames = 6;
/** A node that has just looked at the catalog, or was just stopped, may not know of a branch that is as young. */
const knownWithinMs = 10_000;
/**
 * What nobody answered may still happen within this: a process may be stopped for a minute, and a put come half a
 * minute late.
 */
const doubtMs = 120_000;
/** So long a node does not ask object storage again for what it had no answer to. */
const unansweredMs = 10_000;

export class SharedClients {
  readonly #options: SharedClientsOptions;
  /** How far each process has said that object storage covers each branch. */
  readonly #shownTo = new Map<string, number>();
  /**
   * Calls under way that may change a branch, by database and branch name, and when one had an unknown outcome last.
   */
  readonly #busy = new Map<string, number>();
  readonly #doubtedAtMs = new Map<string, number>();
  readonly seen: Seen[] = [];
  /**
   * Plain reads that showed less than their node had shown before, as they may while their writer cannot be reached.
   */
  readonly wentBack: { readonly atMs: number; readonly what: string }[] = [];
  readonly counts: Record<string, number> = {};
  /** Everything is at rest, and has been for long enough: whoever is asked knows what was deleted. */
  isCalm = false;

  constructor(options: SharedClientsOptions) {
    this.#options = options;
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
      [fork, () => this.#fork(node, branch)],
      [rewind, () => this.#rewind(node, branch)],
      [checkpoint, () => this.#checkpoint(node, branch)],
      [checkpoint / 3, () => this.#forget(node, branch)],
      [deletion, () => this.#delete(node, branch)],
      [deleteTarget, () => this.#deleteTarget(node, name)],
      [fork / 4, () => this.#list(node, branch)],
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
    const uuid = await this.#ofStore("find", node, name, ({ databases }) =>
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
    const uuid = await this.#ofStore(
      "drop",
      node,
      name,
      ({ databases }) => databases.remove(name).then((record) => record.uuid),
      () => names.asks.refused(deed),
    );
    if (uuid === undefined) return;
    names.asks.done(deed, landedBefore);
    const { branches } = names.database(uuid)!;
    await this.#ask(
      "dropping",
      node,
      branches.get(mainBranch)!,
      (port, target, options) => port.deleteTarget(target, options),
      { budgetMs: branchBudgetMs },
    );
  }

  async #ofStore<Value>(
    what: string,
    node: SharedNode,
    name: string,
    act: Parameters<typeof node.call<Value>>[0],
    refused = (): void => {},
  ): Promise<Value | undefined> {
    try {
      const value = await node.call(act);
      this.#count(`${what} done`);
      return value;
    } catch (error) {
      if (error instanceof ServiceError && error.code === "database_not_found") refused();
      else if (!(error instanceof ProcessGone || error instanceof StoreError))
        throw error instanceof Violation
          ? error
          : new Violation(`${what} ${name} at ${node.name} ended in ${told(error)}`);
      this.#count(
        `${what} ${error instanceof ServiceError ? error.code : error instanceof StoreError ? error.kind : "gone"}`,
      );
      return undefined;
    }
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
    const answer = await this.#changing([branch.name], branch, () =>
      this.#ask(`${what}${durable ? " durably" : ""}`, node, branch, act, { durable }),
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
    const answer = await this.#ask(
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
    if (shown === branch && isWriters) this.seen.push({ branch, begunAtMs, txid });
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
    const answer = await this.#ask("sync", node, branch, (port, target, options) => port.sync(target, options));
    if (typeof answer === "string" || isGone(branch) || wasBroken || this.#options.areLeasesBroken()) return;
    if (answer.txid < durableTxid)
      throw new Violation(
        `${branch.label}: ${node.name} says that all up to ${answer.txid} is durable, and ${durableTxid} was before`,
      );
    this.seen.push({ branch, begunAtMs, txid: answer.txid });
    covered(branch, answer.txid);
  }

  /** How sure a node that takes a write now is of its lease. */
  #holder(): "sure" | "doubtful" | "stray" {
    if (this.#options.areLeasesBroken()) return "stray";
    return this.#options.isAnyCut() ? "doubtful" : "sure";
  }

  async #fork(node: SharedNode, parent: BranchModel): Promise<void> {
    const { database } = parent;
    // Names are used again: a deleted branch must not shine through.
    const name = `b${Math.floor(this.#draw(branchNames))}`;
    if (database.branches.size >= branchesMax || database.branches.has(name) || !this.#isQuiet(database, name)) return;
    const at = this.#draw(1) < 0.5 ? this.#past(parent) : undefined;
    const begunAtMs = this.#options.scheduler.nowMs;
    const { durableTxid } = parent;
    const answer = await this.#changing([parent.name, name], parent, () =>
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
    const other = this.anyUp();
    if (child && other) await this.read(other, child, this.#draw(1) < 0.5 ? "primary" : "plain");
  }

  async #rewind(node: SharedNode, branch: BranchModel): Promise<void> {
    const to = this.#past(branch);
    if (!to) return;
    const answer = await this.#changing([branch.name], branch, () =>
      this.#branch(node, branch, { act: "rewind", to: to.named }),
    );
    if (answer === "refused") this.#stands(branch, to);
    if (typeof answer === "string") return;
    if (answer.value.rewoundTo !== to.txid)
      throw new Violation(`${branch.label}: asked to rewind to ${to.txid}, it rewound to ${answer.value.rewoundTo}`);
    const other = this.anyUp();
    if (!other || isGone(branch)) return;
    covered(branch, answer.txid);
    await this.read(other, branch, this.#draw(1) < 0.5 ? "primary" : "plain", true);
  }

  async #checkpoint(node: SharedNode, branch: BranchModel): Promise<void> {
    const name = `c${Math.floor(this.#draw(20))}`;
    const begunAtMs = this.#options.scheduler.nowMs;
    const { durableTxid } = branch;
    const answer = await this.#changing([branch.name], branch, () =>
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

  async #forget(node: SharedNode, branch: BranchModel): Promise<void> {
    const [checkpoint] = branch.checkpoints.keys();
    if (checkpoint === undefined) return;
    branch.checkpoints.delete(checkpoint);
    await this.#changing([branch.name], branch, () =>
      this.#branch(node, branch, { act: "forget-checkpoint", name: checkpoint }),
    );
  }

  async #delete(node: SharedNode, branch: BranchModel): Promise<void> {
    if (branch.name === mainBranch || !this.#isQuiet(branch.database, branch.name, true)) return;
    const answer = await this.#changing([branch.name], branch, () =>
      this.#branch(node, branch, { act: "delete", name: branch.name }),
    );
    if (typeof answer !== "string") branch.deletedAtMs ??= this.#options.scheduler.nowMs;
  }

  async #list(node: SharedNode, branch: BranchModel): Promise<void> {
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

  /** A checkpoint or an earlier transaction id, sometimes of a timeline that was left. */
  #past(branch: BranchModel): Past | undefined {
    const checkpoints = [...branch.checkpoints];
    const [named, txid] = checkpoints[Math.floor(this.#draw(checkpoints.length))] ?? [];
    if (named !== undefined && this.#draw(1) < 0.5) return { named, txid: txid! };
    const past = branch.pastTxid(this.#options.random, this.#draw(1) < 0.3);
    return past === undefined ? undefined : { named: String(past), txid: past };
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

  async #changing<Value>(
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
    const answer = await this.#ask(
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

  /** Makes a call and sorts out how it ended; a fault of the engine itself is a Violation. */
  async #ask<Value>(
    what: string,
    node: SharedNode,
    branch: BranchModel,
    act: (port: EnginePort, target: Target, options: CallOptions) => Promise<Value>,
    given: {
      readonly durable?: boolean;
      readonly consistency?: "primary" | "cached";
      readonly minTxid?: number;
      readonly budgetMs?: number;
    } = {},
  ): Promise<Value | Failure> {
    const { scheduler } = this.#options;
    const { budgetMs = callBudgetMs, ...rest } = given;
    const begunAtMs = scheduler.nowMs;
    const end = (how: string): void => {
      this.#count(`${what.split(" ", 1)[0]} ${how.split(" ", 1)[0]}`);
      scheduler.note("client", `${branch.label} at ${node.name}: ${what}: ${how}`);
    };
    try {
      const answer = await node.call(({ placement, world }) =>
        act(
          placement,
          { uuid: branch.database.uuid, branch: branch.name },
          { deadlineMs: world.monotonicMs() + budgetMs, ...rest },
        ),
      );
      const { txid, durableTxid } = (answer ?? {}) as Partial<Answer>;
      end(`done ${txid} ${durableTxid}`);
      return answer;
    } catch (error) {
      if (error instanceof Violation) throw error;
      end(
        error instanceof ServiceError
          ? `${error.code} ${error.message}`
          : error instanceof ProcessGone
            ? "gone"
            : "fault",
      );
      if (error instanceof ProcessGone) return "unknown";
      const failure = error instanceof ServiceError ? this.#failure(what, node, branch, error, begunAtMs) : undefined;
      if (failure === undefined)
        throw new Violation(`${branch.label} at ${node.name}: ${what} ended in ${told(error)}`);
      return failure;
    }
  }

  /** Undefined for what must not be. */
  #failure(
    what: string,
    node: SharedNode,
    branch: BranchModel,
    { code }: ServiceError,
    begunAtMs: number,
  ): Failure | undefined {
    const isData = /^(?:write|remove|read|copy|cached|sync|dropping)/.test(what);
    switch (code) {
      case "overloaded":
        return "nothing happened";
      case "unavailable":
      case "request_timeout":
        return "unknown";
      case "database_not_found":
        return branch.database.goneAtMs === undefined ? undefined : "gone";
      case "branch_not_found": {
        const isYoung = branch.bornAtMs > begunAtMs - knownWithinMs || node.resumedAtMs > begunAtMs - knownWithinMs;
        return isGone(branch) || isYoung || this.#options.areLeasesBroken() ? "gone" : undefined;
      }
      case "conflict":
      case "invalid_request":
        // A transaction id of a branch that is gone means nothing to the next one of its name.
        if (isData) return isGone(branch) ? "gone" : undefined;
        return code === "conflict" ? "refused" : undefined;
      case "already_exists":
      case "not_found":
        return isData ? undefined : "refused";
      default:
        return undefined;
    }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #draw(below: number): number {
    return this.#options.random() * below;
  }
}

/** Whether the branch, or its database, is no more. */
export function isGone({ goneAtMs, database }: BranchModel): boolean {
  return goneAtMs !== undefined || database.goneAtMs !== undefined;
}

/** Object storage is known to cover the branch so far. */
function covered(branch: BranchModel, txid: number): void {
  branch.saw(txid, txid);
}

function told(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
