/**
 * The clients of a simulated node: they write unique tokens in every data model, read, sync, and change branches, by
 * seed, and tell the model what they were answered. What the model cannot explain is a Violation.
 */
import { ServiceError } from "../../src/base/faults/errors.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { BranchAct, BranchResults, Target } from "../../src/engine/api/protocol.ts";
import type { BranchModel, Change, DatabaseModel } from "./branch-model.ts";
import type { Kind } from "./changes.ts";
import { describeDeed, Violation, type Failure } from "./asks.ts";
import { BranchChanges, hasEnded, type Heard } from "./branch-changes.ts";
import type { Scheduler } from "./scheduler.ts";
import { ProcessGone, type SimNode } from "./sim-node.ts";
import { put, list } from "./tokens.ts";
import { undoOne } from "./undos.ts";

export interface ClientsOptions {
  /** The node that clients turn to; others may still run, superseded or about to be. */
  readonly node: () => SimNode;
  /** Whether no other node runs that may hold the branches. */
  readonly isAlone: () => boolean;
  readonly scheduler: Scheduler;
  readonly random: () => number;
  /**
   * How far the manifest in object storage covers the branch, looked up behind everybody's back; undefined when there
   * is none.
   */
  readonly coveredTxid: (branch: BranchModel) => number | undefined;
  /** Whether a claim has declared the transaction id lost. */
  readonly isLost: (branch: BranchModel, txid: number) => boolean;
  /** Of removals, how many are undos of what wrote the token; absent: none. */
  readonly undos?: number;
  /** Whether faults that tell of damaged objects are to be expected. */
  readonly mayBeCorrupt: () => boolean;
  /** Whether faults of the disk are to be expected. */
  readonly mayFail: () => boolean;
}

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
/** How a disk that fails, or is full, shows while a file is opened or restored. */
const diskFailure = /simulated: (?:an? |the disk )|SqliteError: (?:disk I\/O error|database or disk is full)/;

const callBudgetMs = 20_000;
/** Changes of branches have time for everything, so that an unknown outcome means a crash or a refusal. */
const branchBudgetMs = 600_000;

export class Clients {
  readonly #options: ClientsOptions;
  readonly #branchChanges: BranchChanges;
  /** While a node is being brought back, only its doctor speaks to it. */
  #gate: PromiseWithResolvers<void> | undefined;
  underWay = 0;
  readonly counts: Record<string, number> = {};

  constructor(options: ClientsOptions) {
    this.#options = options;
    this.#branchChanges = new BranchChanges({
      node: options.node,
      random: options.random,
      branch: (branch, act) => this.branch(branch, act),
      look: (branch) => this.read(branch, "kv"),
    });
  }

  shut(): void {
    this.#gate ??= Promise.withResolvers<void>();
  }

  open(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  /** One client of a database: so many calls, one after the other. */
  async act(database: DatabaseModel, calls: number): Promise<void> {
    const { scheduler } = this.#options;
    for (let call = 0; call < calls; call++) {
      await scheduler.sleep(this.#draw(1) < 0.8 ? this.#draw(200) : this.#draw(4_000));
      while (this.#gate) await this.#gate.promise;
      this.underWay++;
      try {
        await this.#one(database);
      } finally {
        this.underWay--;
      }
    }
  }

  async #one(database: DatabaseModel): Promise<void> {
    const all = [...database.branches.values()];
    const branch = all[Math.floor(this.#draw(all.length))]!;
    const choice = this.#draw(100);
    if (choice < 50)
      return void (await this.write(branch, kinds[Math.floor(this.#draw(kinds.length))]!, this.#draw(1) < 0.3));
    if (choice < 57) return this.#remove(branch);
    if (choice < 84) return void (await this.read(branch, kinds[Math.floor(this.#draw(kinds.length))]!));
    if (choice < 89) return void (await this.sync(branch));
    return this.#branchChanges.change(branch, choice);
  }

  /** Adds a token, through the node that clients turn to or through a `stray` one. */
  async write(branch: BranchModel, kind: Kind, durable: boolean, stray?: SimNode): Promise<boolean> {
    const token = branch.database.newToken();
    // What a superseded node acknowledges by itself may be lost.
    if (stray) branch.mayLose = true;
    const change = branch.begin(
      token,
      kind,
      false,
      stray !== undefined || !this.#options.isAlone() ? "stray" : "sure",
      this.#options.scheduler.nowMs,
    );
    return this.#settle(change, durable, stray, (client, target, options) =>
      put(client, target, options, kind, token, change),
    );
  }

  /** Removes a token of the key-value or document kind that is there, or undoes the transaction that wrote one. */
  async #remove(branch: BranchModel): Promise<void> {
    const { undos = 0 } = this.#options;
    if (undos > 0 && this.#draw(1) < undos) return this.#undo(branch);
    const kind = this.#draw(1) < 0.5 ? "kv" : "docs";
    const tokens = branch.present(kind).filter(({ token }) => branch.database.changes.get(token)!.length === 1);
    if (tokens.length === 0) return;
    const { token } = tokens[Math.floor(this.#draw(tokens.length))]!;
    const change = branch.begin(
      token,
      kind,
      true,
      this.#options.isAlone() ? "sure" : "stray",
      this.#options.scheduler.nowMs,
    );
    await this.#settle(change, false, undefined, (client, target, options) =>
      kind === "kv"
        ? client.write(target, "kv.delete", { ns: "sim", key: token }, options)
        : client.write(
            target,
            "docs.delete",
            { collection: "sim", filter: JSON.stringify({ _id: token }), multi: false },
            options,
          ),
    );
  }

  #undo(branch: BranchModel): Promise<void> {
    const { scheduler, random, isAlone } = this.#options;
    return undoOne(
      {
        ...{ scheduler, random, isAlone },
        ask: (what, of, act) => this.#ask(what, of, act),
        covered: (of, answer) => this.#covered(of, answer, false),
      },
      branch,
    );
  }

  async #settle(
    change: Change,
    durable: boolean,
    stray: SimNode | undefined,
    act: (client: EngineClient, target: Target, options: CallOptions) => Promise<Answer>,
  ): Promise<boolean> {
    const { branch } = change;
    const answer = await this.#ask(
      `${change.removes ? "remove" : "write"} ${change.kind}${durable ? " durably" : ""} ${change.token}`,
      branch,
      act,
      { durable, stray },
    );
    if (answer === "gone" || answer === "nothing happened") branch.refused(change);
    if (typeof answer === "string") return false;
    this.#covered(branch, answer, durable);
    // A rewind may have taken away what was to be removed; then there is no transaction of its own.
    const { deleted } = answer.value as { deleted?: boolean | number };
    if (change.removes && !deleted) {
      branch.refused(change);
      return true;
    }
    branch.acknowledged(
      change,
      answer.txid,
      durable || (answer.durableTxid ?? 0) >= answer.txid,
      this.#options.scheduler.nowMs,
    );
    if (answer.isTrusted) branch.saw(answer.txid, Math.max(durable ? answer.txid : 0, answer.durableTxid ?? 0));
    return true;
  }

  /** Reads every token of a kind, and what was seen must be explained. */
  async read(branch: BranchModel, kind: Kind): Promise<boolean> {
    if (kind === "memory") return this.#readMemories(branch);
    const { seenTxid } = branch;
    const minTxid = this.#draw(1) < 0.5 ? { minTxid: this.#options.isAlone() ? seenTxid : 0 } : {};
    const answer = await this.#ask(
      `read ${kind}`,
      branch,
      (client, target, options) => list(client, target, options, kind),
      minTxid,
    );
    if (typeof answer === "string") return answer === "nothing happened";
    this.#observed(branch, answer, seenTxid, kind, new Set(answer.value), undefined);
    if (kind === "sql") this.#ordered(branch, answer.value);
    return true;
  }

  async #readMemories(branch: BranchModel): Promise<boolean> {
    const known = [...branch.database.changes.values()]
      .filter(([change]) => change!.kind === "memory" && change!.id !== undefined)
      .map(([change]) => change!);
    for (let look = 0; look < 3 && known.length > 0; look++) {
      const { token, id } = known[Math.floor(this.#draw(known.length))]!;
      const { seenTxid } = branch;
      const answer = await this.#ask("read memory", branch, (client, target, options) =>
        client.read(target, "memory.get", { id: id! }, options),
      );
      if (typeof answer === "string") return false;
      if (answer.value && answer.value.summary !== token)
        throw new Violation(`${branch.label}: the memory of ${token} says ${answer.value.summary}`);
      this.#observed(branch, answer, seenTxid, "memory", new Set(answer.value ? [token] : []), new Set([token]));
    }
    return true;
  }

  async sync(branch: BranchModel): Promise<boolean> {
    const { seenTxid } = branch;
    const answer = await this.#ask("sync", branch, (client, target, options) => client.sync(target, options));
    if (typeof answer === "string") return false;
    if (!answer.isTrusted) return true;
    this.#covered(branch, { ...answer, txid: seenTxid }, true);
    branch.saw(answer.txid, Math.max(seenTxid, answer.durableTxid));
    return true;
  }

  /** Changes branches; what comes of it in object storage must be what was asked for. */
  async branch<Act extends BranchAct>(
    branch: BranchModel,
    act: Act,
  ): Promise<Heard<BranchResults[Act["act"]]> | Failure> {
    const { asks } = branch.database;
    const deed = describeDeed(branch, act);
    const landedBefore = deed === undefined ? 0 : asks.begin(deed);
    const answer = await this.#ask(
      `${act.act} ${JSON.stringify(act)}`,
      branch,
      (client, target, options) => client.branch(target, act, options),
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
    branch: BranchModel,
    act: (client: EngineClient, target: Target, options: CallOptions) => Promise<Answer<Value>>,
    given: {
      readonly durable?: boolean;
      readonly minTxid?: number;
      readonly budgetMs?: number;
      readonly stray?: SimNode | undefined;
    } = {},
  ): Promise<Heard<Value> | Failure> {
    const { scheduler } = this.#options;
    const verb = what.split(" ", 2)[0]!;
    const { budgetMs = callBudgetMs, stray, ...rest } = given;
    const node = stray ?? this.#options.node();
    const { incarnation } = node;
    const beganAlone = this.#options.isAlone();
    const note = (end: string): void => {
      this.counts[`${verb} ${end.split(" ")[0]}`] = (this.counts[`${verb} ${end.split(" ")[0]}`] ?? 0) + 1;
      scheduler.note("client", `${branch.label} ${what}: ${end}`);
    };
    try {
      const answer = await node.call((client, world) =>
        act(
          client,
          { uuid: branch.database.uuid, branch: branch.name },
          { deadlineMs: world.monotonicMs() + budgetMs, ...rest },
        ),
      );
      note(`done ${answer.txid} ${answer.durableTxid ?? 0}`);
      // An answer may be the last thing that a process ever did.
      const isTrusted =
        beganAlone &&
        this.#options.isAlone() &&
        node === this.#options.node() &&
        node.up &&
        node.incarnation === incarnation;
      return { ...answer, isTrusted };
    } catch (error) {
      if (error instanceof Violation) throw error;
      note(
        error instanceof ServiceError
          ? `${error.code} ${error.message}`
          : error instanceof ProcessGone
            ? "gone"
            : "fault",
      );
      return this.#failure(what, branch, error, stray !== undefined);
    }
  }

  #failure(what: string, branch: BranchModel, error: unknown, isStray: boolean): Failure {
    if (error instanceof ProcessGone) return "unknown";
    if (!(error instanceof ServiceError)) {
      const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
      if (this.#options.mayFail() && diskFailure.test(told)) return "unknown";
      if (told.includes("StoreError") && this.#options.mayBeCorrupt()) return "unknown";
      throw new Violation(`${branch.label}: ${what} ended in a fault: ${told}`);
    }
    switch (error.code) {
      case "overloaded":
        return "nothing happened";
      case "unavailable":
      case "request_timeout":
        return "unknown";
      case "branch_not_found":
        // Its file is gone with its time. A clock that goes back brings it back, as object storage has it.
        if (hasEnded(branch)) branch.nodeLost();
        // Nodes that contend may have read the catalog before it changed.
        if (isStray || !this.#options.isAlone() || !branch.isKnown || branch.goneAtMs !== undefined || hasEnded(branch))
          return "gone";
        break;
      case "invalid_request":
        if (what === "read sql" && error.message.includes("no such table")) return "nothing happened";
        break;
      case "conflict":
        if (branch.ttlAtMs !== undefined) return "nothing happened";
        if (!/^(?:write|remove|read|sync)/.test(what)) return "refused";
        break;
      case "already_exists":
      case "not_found":
        if (!/^(?:write|remove|read|sync)/.test(what)) return "refused";
    }
    throw new Violation(`${branch.label}: ${what} was refused with ${error.code}: ${error.message}`);
  }

  #observed(
    branch: BranchModel,
    answer: Heard,
    seenTxid: number,
    kind: Kind,
    found: ReadonlySet<string>,
    among: ReadonlySet<string> | undefined,
  ): void {
    if (!answer.isTrusted) return;
    if (answer.txid < seenTxid)
      throw new Violation(`${branch.label}: a read answered at ${answer.txid} after ${seenTxid} had been seen`);
    this.#covered(branch, answer, false);
    branch.observed(answer.txid, [kind], found, among);
    branch.saw(answer.txid, answer.durableTxid ?? 0);
  }

  /** What an answer calls durable must stand in object storage already. */
  #covered(branch: BranchModel, answer: Answer, durable: boolean): void {
    const claimed = Math.max(durable ? answer.txid : 0, answer.durableTxid ?? 0);
    if (claimed === 0) return;
    const covered = this.#options.coveredTxid(branch);
    if (this.#options.isLost(branch, claimed))
      throw new Violation(`${branch.label}: txid ${claimed} was called durable, but a claim has declared it lost`);
    if (covered !== undefined && covered < claimed)
      throw new Violation(`${branch.label}: txid ${claimed} was called durable, but object storage covers ${covered}`);
  }

  /** Rows of user SQL stand in the order of their transactions. */
  #ordered(branch: BranchModel, tokens: readonly string[]): void {
    let last = 0;
    for (const token of tokens) {
      const [change] = branch.database.changes.get(token)!;
      if (change!.branch !== branch || change!.least !== change!.greatest) continue;
      if (change!.least < last)
        throw new Violation(`${branch.label}: ${token} of txid ${change!.least} stands after one of txid ${last}`);
      last = change!.least;
    }
  }

  #draw(below: number): number {
    return this.#options.random() * below;
  }
}
