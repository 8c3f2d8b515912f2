/** Branches and checkpoints: this build has `main` alone, and says so. */
import { ServiceError } from "../base/errors.ts";
import type { BranchService } from "../../gen/palimpsest/v1/branch_pb.ts";
import type { Context, NodeParts, ServiceHandlers } from "./context.ts";
import { databaseTarget } from "./targets.ts";

/** The refusal of what needs history in object storage. */
export function needsHistory(what: string): ServiceError {
  return new ServiceError("unavailable", `${what} needs history in object storage, which this build does not keep yet`);
}

export function branchHandlers(node: NodeParts): ServiceHandlers<typeof BranchService> {
  const refuse = async (request: { readonly db: string }, context: Context): Promise<never> => {
    await databaseTarget(node, context, request.db);
    throw needsHistory("branching");
  };
  return {
    createBranch: refuse,
    listBranches: refuse,
    deleteBranch: refuse,
    createCheckpoint: refuse,
    listCheckpoints: refuse,
    deleteCheckpoint: refuse,
    rewindBranch: refuse,
  };
}
