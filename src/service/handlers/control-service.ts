/**
 * The control plane: databases and tokens. Policies of namespaces are in service/handlers/policy-service, the audit
 * stream in service/handlers/audit-service.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ControlService, ProfileUsageSchema } from "../../../gen/palimpsest/v1/control_pb.ts";
import type { DatabaseRecord } from "../../control/databases/databases.ts";
import { cursorAfterProfile } from "../../control/databases/profile-directory.ts";
import type { ScopeName } from "../../control/access/identity.ts";
import {
  checkNewDatabaseName,
  mainBranch,
  parseDatabaseSpec,
  parseProfileDatabaseName,
} from "../../format/core/names.ts";
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

function tokenHandlers(
  node: NodeParts,
): Pick<
  ServiceHandlers<typeof ControlService>,
  "mintDatabaseToken" | "mintNamespaceToken" | "revokeDatabaseToken" | "revokeNamespaceToken"
> {
  return {
    async mintDatabaseToken(request, context) {
      const { name } = parseDatabaseSpec(request.db);
      const { expiresIn = tokenSecsDefault } = request;
      const scope = request.scope as ScopeName;
      // A profile's name is claimed here if it is free: its agent has the token before its first ingest, and the token
      // must say which database it is for. A plain database is created by its own call.
      const record = await (parseProfileDatabaseName(name)
        ? node.databases.ensure(name)
        : node.databases.require(name));
      checkJudged(context, record);
      return { ...(await node.tokens.grant({ database: { name, uuid: record.uuid } }, scope, expiresIn)), expiresIn };
    },
    async mintNamespaceToken(request) {
      const namespace = request.ns;
      const { expiresIn = tokenSecsDefault } = request;
      const scope = request.scope as ScopeName;
      const deletions = await node.databases.readDeletionNumber(namespace);
      return { ...(await node.tokens.grant({ namespace, deletions }, scope, expiresIn)), expiresIn };
    },
    async revokeDatabaseToken(request) {
      const { name } = parseDatabaseSpec(request.db);
      await node.revocations.revoke({ kind: "db", name }, request.jti);
      return {};
    },
    async revokeNamespaceToken(request) {
      await node.revocations.revoke({ kind: "ns", name: request.ns }, request.jti);
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
      const { ns: namespace, limit = usagePageMax, prefix, cursor } = request;
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
      const { name } = parseDatabaseSpec(request.db);
      const { uuid } = await node.databases.remove(name);
      // The tombstone is the deletion: it holds whatever becomes of the files, which cannot be reached any more.
      await node.engine.deleteTarget({ uuid, branch: mainBranch }, engineOptions(context));
      node.erasures.wake(uuid);
      await node.webhooks.removeAll(uuid);
      return {};
    },
    ...tokenHandlers(node),
    ...usageHandlers(node),
    ...namespacePolicyHandlers(node),
    ...auditHandlers(node),
  };
}
