/** The control plane: databases now; tokens, policies and audit answer honestly that this build has none. */
import { invalid, ServiceError } from "../base/errors.ts";
import type { DatabaseRecord } from "../control/databases.ts";
import { checkNewDatabaseName, mainBranch, parseDatabaseSpec } from "../format/names.ts";
import type { ControlService } from "../../gen/palimpsest/v1/control_pb.ts";
import { engineOptions, type NodeParts, type ServiceHandlers } from "./context.ts";

function infoOf({ name, uuid, createdAtMs }: DatabaseRecord): { name: string; uuid: string; createdAt: bigint } {
  return { name, uuid, createdAt: BigInt(createdAtMs) };
}

/** The refusal of what the build cannot do yet: true, stable, and the same everywhere. */
export function notInThisBuild(what: string): ServiceError {
  return new ServiceError("unconfigured", `${what} is not part of this build yet`);
}

export function controlHandlers(node: NodeParts): ServiceHandlers<typeof ControlService> {
  const withoutTokens = async (): Promise<never> => {
    throw notInThisBuild("token minting");
  };
  const withoutPolicy = async (): Promise<never> => {
    throw notInThisBuild("governance policy");
  };
  return {
    async createDatabase(request) {
      return infoOf(await node.databases.create(checkNewDatabaseName(request.name)));
    },
    async listDatabases() {
      return { databases: (await node.databases.list()).map(infoOf) };
    },
    async deleteDatabase(request, context) {
      const { name, branch } = parseDatabaseSpec(request.db);
      if (branch !== undefined) throw invalid("a database is deleted by its name alone, without @branch");
      const { uuid } = await node.databases.remove(name);
      // The tombstone is the deletion: it stands whatever becomes of the files, which nobody can reach any more.
      await node.engine.drop({ uuid, branch: mainBranch }, engineOptions(context));
      return {};
    },
    mintDatabaseToken: withoutTokens,
    mintNamespaceToken: withoutTokens,
    getNamespacePolicy: withoutPolicy,
    putNamespacePolicy: withoutPolicy,
    async readAudit() {
      throw notInThisBuild("the audit stream");
    },
  };
}
