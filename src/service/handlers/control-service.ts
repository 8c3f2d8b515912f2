/**
 * The control plane: databases and tokens. Policies of namespaces are in service/handlers/policy-service, the audit
 * stream in service/handlers/audit-service.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ControlService, ProfileUsageSchema } from "../../../gen/palimpsest/v1/control_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { DatabaseRecord } from "../../control/databases/databases.ts";
import { cursorAfterProfile } from "../../control/databases/profile-directory.ts";
import { scopeNamed, scopeOrder, type ScopeName } from "../../control/access/identity.ts";
import {
  checkNamePart,
  checkNewDatabaseName,
  mainBranch,
  parseDatabaseSpec,
  parseProfileDatabaseName,
} from "../../format/core/names.ts";
import { isUlid } from "../../format/core/ids.ts";
import { auditHandlers } from "./audit-service.ts";
import { engineOptions, type ServiceHandlers } from "../call/context.ts";
import { activityFields, present } from "../call/data-messages.ts";
import { namespacePolicyHandlers } from "./policy-service.ts";
import { checkJudged } from "./targets.ts";
import type { NodeParts } from "./node-parts.ts";

const tokenSecsDefault = 3_600;

function toInfo({ name, uuid, createdAtMs }: DatabaseRecord): { name: string; uuid: string; createdAt: bigint } {
  return { name, uuid, createdAt: BigInt(createdAtMs) };
}

function checkScope(text: string): ScopeName {
  const scope = scopeNamed(text);
  if (scope === undefined) throw invalid(`scope must be ${scopeOrder.join(", ")}`);
  return scope;
}

function checkTokenId(text: string): string {
  if (isUlid(text)) return text;
  throw invalid("jti must be the id of a token, its claim jti: 26 characters");
}

function checkLifetime(expiresIn: number = tokenSecsDefault): number {
  if (expiresIn >= 1 && expiresIn <= limits.tokenSecsMax) return expiresIn;
  throw invalid(`expires_in must be 1 to ${limits.tokenSecsMax} seconds`);
}

function tokenHandlers(
  node: NodeParts,
): Pick<
  ServiceHandlers<typeof ControlService>,
  "mintDatabaseToken" | "mintNamespaceToken" | "revokeDatabaseToken" | "revokeNamespaceToken"
> {
  return {
    async mintDatabaseToken(request, context) {
      const { name, branch } = parseDatabaseSpec(request.db);
      if (branch !== undefined)
        throw invalid("a token is for a database, named without @branch, and covers all its branches");
      const scope = checkScope(request.scope);
      const expiresIn = checkLifetime(request.expiresIn);
      // A profile's name is claimed here if it is free: its agent has the token before its first ingest, and the token
      // must say which database it is for. A plain database is created by its own call.
      const record = await (parseProfileDatabaseName(name)
        ? node.databases.ensure(name)
        : node.databases.require(name));
      checkJudged(context, record);
      return { ...(await node.tokens.grant({ database: { name, uuid: record.uuid } }, scope, expiresIn)), expiresIn };
    },
    async mintNamespaceToken(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const scope = checkScope(request.scope);
      const expiresIn = checkLifetime(request.expiresIn);
      const deletions = await node.databases.readDeletionNumber(namespace);
      return { ...(await node.tokens.grant({ namespace, deletions }, scope, expiresIn)), expiresIn };
    },
    async revokeDatabaseToken(request) {
      const { name, branch } = parseDatabaseSpec(request.db);
      if (branch !== undefined)
        throw invalid("a token is for a database, named without @branch, and covers all its branches");
      await node.revocations.revoke({ kind: "db", name }, checkTokenId(request.jti));
      return {};
    },
    async revokeNamespaceToken(request) {
      await node.revocations.revoke(
        { kind: "ns", name: checkNamePart("namespace", request.ns) },
        checkTokenId(request.jti),
      );
      return {};
    },
  };
}

/** Objects that are listed for one page of a namespace's usage; the database that passes it is the page's last. */
const objectsListedMax = 100_000;
const usagePageMax = 100;

function usageHandlers(node: NodeParts): Pick<ServiceHandlers<typeof ControlService>, "getNamespaceUsage"> {
  return {
    async getNamespaceUsage(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const { limit = usagePageMax, prefix, cursor } = request;
      if (limit < 1)
        throw invalid(`limit must be a whole number from 1; at most ${usagePageMax} profiles are on a page`);
      const page = await node.profiles.page({
        namespace,
        limit: Math.min(limit, usagePageMax),
        ...present({ prefix, cursor }),
      });
      let { nextCursor } = page;
      let objects = 0;
      let bytes = 0;
      const profiles: MessageInitShape<typeof ProfileUsageSchema>[] = [];
      // One after the other: each may have many objects.
      for (const { profile, record } of page.profiles) {
        if (objects >= objectsListedMax) {
          nextCursor = cursorAfterProfile(profiles.at(-1)!.profile!);
          break;
        }
        const stored = await node.profiles.storedBytes(record.uuid);
        objects += stored.objects;
        bytes += stored.bytes;
        profiles.push({
          profile,
          objectBytes: BigInt(stored.bytes),
          objects: BigInt(stored.objects),
          approximate: stored.isApproximate,
          ...activityFields(await node.profiles.activity(record.uuid)),
        });
      }
      return {
        namespace,
        databases: profiles.length,
        objectBytes: BigInt(bytes),
        approximate: profiles.some(({ approximate }) => approximate),
        profiles,
        ...present({ nextCursor }),
      };
    },
  };
}

export function controlHandlers(node: NodeParts): ServiceHandlers<typeof ControlService> {
  return {
    async createDatabase(request) {
      return toInfo(await node.databases.create(checkNewDatabaseName(request.name)));
    },
    async listDatabases() {
      return { databases: (await node.databases.list()).map(toInfo) };
    },
    async deleteDatabase(request, context) {
      const { name, branch } = parseDatabaseSpec(request.db);
      if (branch !== undefined) throw invalid("a database is deleted by its name alone, without @branch");
      const { uuid } = await node.databases.remove(name);
      // The tombstone is the deletion: it holds whatever becomes of the files, which cannot be reached any more.
      await node.engine.deleteTarget({ uuid, branch: mainBranch }, engineOptions(context));
      node.erasures.wake(uuid);
      return {};
    },
    ...tokenHandlers(node),
    ...usageHandlers(node),
    ...namespacePolicyHandlers(node),
    ...auditHandlers(node),
  };
}
