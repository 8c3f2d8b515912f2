/**
 * How the clients of a simulated node undo transactions: one that wrote tokens and nothing else, as a service does it.
 * All of its tokens go with one transaction, or none does.
 */
import type { CallOptions } from "../../src/engine/api/engine-port.ts";
import type { Answer, Target } from "../../src/engine/api/protocol.ts";
import type { EngineClient } from "../../src/engine/threads/client.ts";
import type { ChangeNote } from "../../src/model/core/change-notes.ts";
import type { Failure } from "./asks.ts";
import type { Heard } from "./branch-changes.ts";
import type { BranchModel, Change } from "./branch-model.ts";
import type { Scheduler } from "./scheduler.ts";

/** How a call is made, and what is made of its answer. */
export interface UndoCalls {
  readonly scheduler: Scheduler;
  readonly random: () => number;
  readonly isAlone: () => boolean;
  ask<Value>(
    what: string,
    branch: BranchModel,
    act: (client: EngineClient, target: Target, options: CallOptions) => Promise<Answer<Value>>,
  ): Promise<Heard<Value> | Failure>;
  /** Holds what the answer calls durable against object storage. */
  covered(branch: BranchModel, answer: Answer): void;
}

/** Undoes a transaction of the branch that has written tokens which nobody has removed. */
export async function undoOne(calls: UndoCalls, branch: BranchModel): Promise<void> {
  const known = [...branch.answered()].filter(({ kind, removes }) => !removes && kind !== "sql");
  const one = known[Math.floor(calls.random() * known.length)];
  if (!one) return;
  const txid = one.least;
  const undoable = await calls.ask("undo: look", branch, (client, target, options) =>
    client.read(target, "undo.changes", { txid }, { ...options, at: String(txid) }),
  );
  if (typeof undoable === "string") return;
  const { afterTxid, changes, left } = undoable.value;
  const written = changes.map((change) => findWriting(branch, change));
  if (!written.every((change) => change !== undefined)) return;
  const before = await calls.ask("undo: look back", branch, (client, target, options) =>
    client.read(target, "undo.before", { txid, left }, { ...options, at: String(afterTxid) }),
  );
  if (typeof before === "string") return;
  const holder = calls.isAlone() ? "sure" : "stray";
  const removals = written.map(({ token, kind }) => branch.begin(token, kind, true, holder, calls.scheduler.nowMs));
  const told = `undo ${txid}: ${written.map(({ token }) => token).join(", ")}`;
  const answer = await calls.ask(told, branch, (client, target, options) =>
    client.write(target, "undo.apply", { txid, things: before.value.things }, options),
  );
  if (typeof answer === "string") {
    if (answer !== "unknown") for (const removal of removals) branch.refused(removal);
    return;
  }
  calls.covered(branch, answer);
  const isDurable = (answer.durableTxid ?? 0) >= answer.txid;
  for (const removal of removals) branch.acknowledged(removal, answer.txid, isDurable, calls.scheduler.nowMs);
  if (answer.isTrusted) branch.saw(answer.txid, answer.durableTxid ?? 0);
}

/** The writing of the token that the change tells of, which nobody has tried to remove; else undefined. */
function findWriting(branch: BranchModel, [kind, op, ...names]: ChangeNote): Change | undefined {
  const all = branch.database.changes;
  const ofMemory = (): Change | undefined =>
    [...all.values()].find(([change]) => change!.kind === "memory" && change!.id === names[0])?.[0];
  const isWriting = kind === "kv" ? op === "put" : op === "created";
  if (!isWriting) return undefined;
  const token = kind === "memory" ? ofMemory()?.token : String(names[1]);
  const changes = token === undefined ? undefined : all.get(token);
  return changes?.length === 1 ? changes[0] : undefined;
}
