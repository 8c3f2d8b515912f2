/**
 * Branches, checkpoints and rewind over the wires.
 *
 * Owns the form of the answers. Always true: no name reaches the engine that the proto file does not allow, as the
 * pipeline has seen to. Must not know: what a fork or a rewind is.
 */
import type { BranchService } from "../../../gen/palimpsest/v1/branch_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { mainBranch, parseDatabaseSpec } from "../../format/core/names.ts";
import { checkState } from "../../format/core/state-names.ts";
import { engineOptions, seen, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { databaseTarget } from "./targets.ts";
import type { NodeParts } from "./node-parts.ts";

const differencesDefault = 100;
const differencesMax = 1_000;

type BranchHandlers = ServiceHandlers<typeof BranchService>;

function optionalBigInt(value: number | undefined): bigint | undefined {
  return value === undefined ? undefined : BigInt(value);
}

/** What differs between two states. */
function diffHandlers(node: NodeParts): Pick<BranchHandlers, "diffStates"> {
  return {
    async diffStates(request, context) {
      const { from, fromBranch, to, cursor, limit = differencesDefault } = request;
      if (from === undefined && fromBranch === undefined && cursor === undefined)
        throw invalid("from or from_branch must say which earlier state is compared");
      const target = await databaseTarget(node, context, request.db);
      if (from !== undefined) checkState("from", from);
      if (to !== undefined) checkState("to", to);
      const asked = {
        limit: Math.min(limit, differencesMax),
        ...present({ from, fromBranch, to, cursor }),
      };
      const { value, txid } = seen(context, await node.engine.diff(target, asked, engineOptions(context)));
      const differences = value.differences.map(({ before, after, ...rest }) => ({
        ...present(rest),
        kind: rest.kind,
        change: rest.change,
        name: rest.name,
        ...present({ before: optionalBigInt(before), after: optionalBigInt(after) }),
      }));
      const next = present({ nextCursor: value.cursor });
      return { from: BigInt(value.from), to: BigInt(value.to), differences, txid, ...next };
    },
  };
}

function lifeHandlers(node: NodeParts): Pick<BranchHandlers, "createBranch" | "listBranches" | "deleteBranch"> {
  return {
    async createBranch(request, context) {
      const { name, at, ttl: ttlSecs } = request;
      const act = { act: "fork", name, ...present({ at, ttlSecs }) } as const;
      const target = await databaseTarget(node, context, request.db, request.from);
      const { value } = await node.engine.branch(target, act, engineOptions(context));
      const { branch, parent, forkTxid, ttlAtMs } = value;
      node.erasures.wake(target.uuid);
      // The headers speak of the new branch, whose whole state is in object storage by its nature.
      seen(context, { value, txid: forkTxid, durableTxid: forkTxid });
      const spec = `${parseDatabaseSpec(request.db).name}@${branch}`;
      return { branch, parent, forkTxid: BigInt(forkTxid), spec, ...present({ ttlAt: optionalBigInt(ttlAtMs) }) };
    },

    async listBranches(request, context) {
      const target = await databaseTarget(node, context, request.db);
      const database = await node.databases.require(parseDatabaseSpec(request.db).name);
      const { value } = seen(context, await node.engine.branch(target, { act: "list" }, engineOptions(context)));
      const branches = value.branches.map(({ name, parent, forkTxid, txid, createdAtMs, ttlAtMs }) => ({
        name,
        txid: BigInt(txid),
        // `main` is as old as its database, also before its first write.
        createdAt: BigInt(name === mainBranch ? database.createdAtMs : createdAtMs),
        ...present({ parent, forkTxid: optionalBigInt(forkTxid), ttlAt: optionalBigInt(ttlAtMs) }),
      }));
      return { branches };
    },

    async deleteBranch(request, context) {
      const { uuid, branch } = await databaseTarget(node, context, request.db, request.branch);
      if (branch === mainBranch) throw invalid(`${mainBranch} cannot be deleted: it goes with its database`);
      // Started from `main`, so that a branch that cannot be opened any more can still be deleted.
      seen(
        context,
        await node.engine.branch({ uuid, branch: mainBranch }, { act: "delete", name: branch }, engineOptions(context)),
      );
      node.erasures.wake(uuid);
      await node.webhooks.removeAll(uuid, branch);
      return {};
    },
  };
}

function historyHandlers(
  node: NodeParts,
): Pick<BranchHandlers, "createCheckpoint" | "listCheckpoints" | "deleteCheckpoint" | "rewindBranch"> {
  return {
    async createCheckpoint(request, context) {
      const { name } = request;
      const target = await databaseTarget(node, context, request.db, request.branch);
      const answer = await node.engine.branch(target, { act: "checkpoint", name }, engineOptions(context));
      // A write may have come in behind the checkpoint: header and body both speak of the state that was named.
      const { txid } = seen(context, { ...answer, txid: answer.value.txid });
      return { checkpoint: answer.value.checkpoint, txid };
    },

    async listCheckpoints(request, context) {
      const target = await databaseTarget(node, context, request.db, request.branch);
      const { value } = seen(context, await node.engine.branch(target, { act: "checkpoints" }, engineOptions(context)));
      return {
        checkpoints: value.checkpoints.map(({ name, txid, createdAtMs }) => ({
          checkpoint: name,
          txid: BigInt(txid),
          createdAt: BigInt(createdAtMs),
        })),
      };
    },

    async deleteCheckpoint(request, context) {
      const { name } = request;
      const target = await databaseTarget(node, context, request.db, request.branch);
      seen(context, await node.engine.branch(target, { act: "forget-checkpoint", name }, engineOptions(context)));
      node.erasures.wake(target.uuid);
      return {};
    },

    async rewindBranch(request, context) {
      const { to } = request;
      const target = await databaseTarget(node, context, request.db, request.branch);
      const { value, txid } = seen(
        context,
        await node.engine.branch(target, { act: "rewind", to }, engineOptions(context)),
      );
      node.erasures.wake(target.uuid);
      return { rewoundTo: BigInt(value.rewoundTo), txid };
    },
  };
}

export function branchHandlers(node: NodeParts): BranchHandlers {
  return { ...lifeHandlers(node), ...historyHandlers(node), ...diffHandlers(node) };
}
