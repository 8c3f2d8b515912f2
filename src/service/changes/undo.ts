/**
 * The undo of a transaction over the wires: its two states are read where they can be, and what it changed is put back
 * where the branch is written.
 *
 * Always true: nothing is written unless all of it can be; what was read of earlier states is compared with what is
 * there in the transaction of the undo. Must not know: how states are restored, how things are put back.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { UndoRequest, UndoResponseSchema } from "../../../gen/palimpsest/v1/change_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import { parseDatabaseSpec, parseProfileDatabaseName } from "../../format/core/names.ts";
import { type Context, engineOptions, seen } from "../call/context.ts";
import { readProfilePolicy, refuseUnknownForget } from "../handlers/governance.ts";
import type { NodeParts } from "../handlers/node-parts.ts";
import { databaseTarget } from "../handlers/targets.ts";
import { changeMessage } from "./change-messages.ts";

/** Undoes the transaction, or says whether it could be undone. */
export async function undoTransaction(
  node: NodeParts,
  request: UndoRequest,
  context: Context,
): Promise<MessageInitShape<typeof UndoResponseSchema>> {
  const { dryRun } = request;
  const txid = Number(request.txid);
  const target = await databaseTarget(node, context, request.db);
  const options = engineOptions(context);
  // Any node may answer what a state of the past was; which one it is, only the writer knows for sure.
  const past = (at: number) => ({
    ...options,
    consistency: undefined,
    idempotency: undefined,
    at: `${at}`,
  });
  const { value: undoable } = await node.engine.read(target, "undo.changes", { txid }, past(txid));
  const { afterTxid, changes, left } = undoable;
  if (changes.some(([kind]) => kind === "sql"))
    throw new ServiceError(
      "conflict",
      `transaction ${txid} cannot be undone: it changed tables of SQL, whose triggers and foreign keys change more ` +
        "than is told; fork or rewind the branch instead",
    );
  const input = { txid, left };
  const { value: before } = await node.engine.read(target, "undo.before", input, past(afterTxid));
  const keepsMemories = await findWhyKept(node, request.db);
  const answer = await node.engine.write(
    target,
    "undo.apply",
    { txid, things: before.things, ...(dryRun && { dryRun }), ...(keepsMemories !== undefined && { keepsMemories }) },
    // What writes nothing leaves no answer behind.
    dryRun ? { ...options, idempotency: undefined } : options,
  );
  const { txid: made } = seen(context, answer);
  return { undone: BigInt(txid), changes: changes.map(changeMessage), txid: made };
}

/** Why memories of the database cannot go without an erasure; undefined where they can. */
async function findWhyKept(node: NodeParts, spec: string): Promise<string | undefined> {
  const name = parseProfileDatabaseName(parseDatabaseSpec(spec).name);
  if (!name) return undefined;
  const policy = await readProfilePolicy(node, { ns: name.namespace, profile: name.profile });
  refuseUnknownForget(policy);
  return policy.purgeOnForget
    ? "erasure.purge_on_forget makes every forget a tracked erasure: forget its memories instead"
    : undefined;
}
