/**
 * The clients of a simulated node: they write unique tokens in every data model, read, sync, and change branches, by
 * seed, and tell the model what they were answered. What the model cannot explain is a Violation.
 */
import { ServiceError } from "../../src/base/faults/errors.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { CallOptions, EnginePort } from "../../src/engine/api/engine-port.ts";
import type { Answer } from "../../src/engine/api/protocol.ts";
import type { BranchAct, BranchResults, Target } from "../../src/engine/api/protocol.ts";
import type { BranchModel } from "./branch-model.ts";
import { describeDeed, Violation, type Change, type DatabaseModel, type Kind } from "./branch-model.ts";
import type { Scheduler } from "./scheduler.ts";
import { ProcessGone, type SimNode } from "./sim-node.ts";

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
  /** Whether faults that tell of damaged objects are to be expected. */
  readonly mayBeCorrupt: () => boolean;
  /** Whether faults of the disk are to be expected. */
  readonly mayFail: () => boolean;
}

/** What is known of a call that did not succeed. */
type Failure = "nothing happened" | "refused" | "unknown" | "gone";

/** An answer, and whether it came from the only node that there was all the while. */
type Heard<Value = unknown> = Answer<Value> & { readonly isTrusted: boolean };

/** An earlier state, and what it is called. */
interface Past {
  readonly named: string;
  readonly txid: number;
}

const kinds: readonly Kind[] = ["kv", "sql", "memory", "docs"];
/** How a disk that fails, or is full, shows while a file is opened or restored. */
const diskFailure = /simulated: (?:an? |the disk )|SqliteError: (?:disk I\/O error|database or disk is full)/;
const listedMax = 1_000;
const callBudgetMs = 20_000;
/** Changes of branches have time for everything, so that an unknown outcome means a crash or a refusal. */
const branchBudgetMs = 600_000;
const branchesMax = 4;

const formatProcess = ({ name, incarnation }: SimNode): string => `${name}${incarnation}`;

export class Clients {
  readonly #options: ClientsOptions;
  /** While a node is being brought back, only its doctor speaks to it. */
  #gate: PromiseWithResolvers<void> | undefined;
  underWay = 0;
  readonly counts: Record<string, number> = {};

  constructor(options: ClientsOptions) {
    this.#options = options;
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
    return this.#changeBranches(branch, choice);
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

  /** Removes a token of the key-value or document kind that is there. */
  async #remove(branch: BranchModel): Promise<void> {
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

  async #changeBranches(branch: BranchModel, choice: number): Promise<void> {
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
    const at = this.#draw(1) < 0.4 ? this.#past(parent) : undefined;
    const ttlSecs = this.#draw(1) < 0.2 ? 1 + Math.floor(this.#draw(60)) : undefined;
    const { seenTxid } = parent;
    const answer = await this.branch(parent, { act: "fork", name, at: at?.named, ttlSecs });
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
    await this.read(child, "kv");
  }

  async #checkpoint(branch: BranchModel): Promise<void> {
    const name = `c${Math.floor(this.#draw(20))}`;
    const { seenTxid } = branch;
    const answer = await this.branch(branch, { act: "checkpoint", name });
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
    await this.branch(branch, { act: "forget-checkpoint", name: checkpoint });
  }

  async #rewind(branch: BranchModel): Promise<void> {
    const to = this.#past(branch);
    if (!to) return;
    const answer = await this.branch(branch, { act: "rewind", to: to.named });
    if (answer === "refused") this.#stands(branch, to);
    if (typeof answer === "string") return;
    if (answer.value.rewoundTo !== to.txid)
      throw new Violation(`${branch.label}: asked to rewind to ${to.txid}, it rewound to ${answer.value.rewoundTo}`);
    if (answer.isTrusted) branch.saw(answer.txid, answer.txid);
    await this.read(branch, "kv");
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
    if (branch.checkpoints.get(named) === txid && branch.goneAtMs === undefined)
      throw new Violation(`${branch.label}: the checkpoint ${named} of ${txid} is refused`);
  }

  async #delete(branch: BranchModel): Promise<void> {
    if (branch.name === "main") return;
    branch.deletedBy.add(formatProcess(this.#options.node()));
    await this.branch(branch, { act: "delete", name: branch.name });
  }

  /** Holds what the service says there is against what there was all the while. */
  async #list(database: DatabaseModel): Promise<void> {
    const before = new Set(database.branches.values());
    const answer = await this.branch(database.branches.get("main")!, { act: "list" });
    if (typeof answer === "string" || !answer.isTrusted) return;
    const listed = new Set(answer.value.branches.map(({ name }) => name));
    for (const branch of before)
      if (branch.isKnown && branch.goneAtMs === undefined && !this.#hasEnded(branch) && !listed.has(branch.name))
        throw new Violation(`${branch.label} is not listed any more`);
    const node = this.#options.node();
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

  /** Whether a burner's time is over by any clock. */
  #hasEnded(branch: BranchModel): boolean {
    return branch.ttlAtMs !== undefined;
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
        if (this.#hasEnded(branch)) branch.nodeLost();
        // Nodes that contend may have read the catalog before it changed.
        if (
          isStray ||
          !this.#options.isAlone() ||
          !branch.isKnown ||
          branch.goneAtMs !== undefined ||
          this.#hasEnded(branch)
        )
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

/** Bytes that go with a token: mostly small, sometimes many pages. */
function buildBody(token: string): Buffer {
  const number = Number(token.slice(-6)) * 2_654_435_761;
  const length = number % 7 === 0 ? number % 30_000 : number % 200;
  return Buffer.alloc(length, `${token} `);
}

/** Writes a token. */
export async function put(
  client: EnginePort,
  target: Target,
  options: CallOptions,
  kind: Kind,
  token: string,
  change: Change,
): Promise<Answer> {
  switch (kind) {
    case "kv":
      return client.write(target, "kv.put", { ns: "sim", key: token, value: buildBody(token) }, options);
    case "docs":
      return client.write(
        target,
        "docs.insert",
        { collection: "sim", docs: [JSON.stringify({ _id: token })] },
        options,
      );
    case "memory": {
      const answer = await client.write(
        target,
        "memory.ingest",
        { memories: [{ type: "event", summary: token, content: "null" }] },
        options,
      );
      change.id = answer.value.results[0]!.id;
      return answer;
    }
    case "sql":
      return client.sqlWrite(
        target,
        {
          statements: [
            {
              text:
                "CREATE TABLE IF NOT EXISTS sim (n INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, body " +
                "TEXT)",
              paramsJson: undefined,
            },
            {
              text: "INSERT INTO sim (token, body) VALUES (?, ?)",
              paramsJson: JSON.stringify([token, buildBody(token).toString()]),
            },
          ],
          atomic: true,
          mayWrite: true,
        },
        options,
      );
  }
}

/** Every token of a kind. */
export async function list(
  client: EnginePort,
  target: Target,
  options: CallOptions,
  kind: Exclude<Kind, "memory">,
): Promise<Answer<string[]>> {
  switch (kind) {
    case "kv": {
      const answer = await client.read(target, "kv.list", { ns: "sim", limit: listedMax }, options);
      return { ...answer, value: [...answer.value.keys] };
    }
    case "docs": {
      const answer = await client.read(
        target,
        "docs.find",
        { collection: "sim", limit: listedMax, filter: "{}" },
        options,
      );
      return { ...answer, value: answer.value.docs.map((doc) => (JSON.parse(doc) as { _id: string })._id) };
    }
    case "sql": {
      const answer = await client.sqlWrite(
        target,
        {
          statements: [{ text: "SELECT token FROM sim ORDER BY n", paramsJson: undefined }],
          atomic: true,
          mayWrite: false,
        },
        options,
      );
      return { ...answer, value: (JSON.parse(answer.value[0]!.rowsJson) as [string][]).map(([token]) => token) };
    }
  }
}
