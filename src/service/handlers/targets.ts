/**
 * From the names in a call to the database branch it means.
 *
 * A branch may be said in several places (the spec's `@branch`, the request's own path, query or body, the
 * `Service-Branch` header); said twice with different values it is refused. The engine knows whether it exists.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { predatesDeletion } from "../../control/access/access-rules.ts";
import type { DatabaseRecord } from "../../control/databases/databases.ts";
import type { Target } from "../../engine/api/protocol.ts";
import {
  checkBranchName,
  mainBranch,
  parseDatabaseSpec,
  parseProfileDatabaseName,
  profileDatabaseName,
} from "../../format/core/names.ts";
import type { Context } from "../call/context.ts";
import { readRetention } from "./governance.ts";
import type { NodeParts } from "./node-parts.ts";

function resolveBranch(said: readonly (string | undefined)[]): string {
  const branches = new Set(said.filter((branch) => branch !== undefined).map((branch) => checkBranchName(branch)));
  if (branches.size > 1) throw invalid("the branch is given more than once, with different values");
  return branches.values().next().value ?? mainBranch;
}

async function buildTarget(node: NodeParts, context: Context, record: DatabaseRecord, branch: string): Promise<Target> {
  checkJudged(context, record);
  return { uuid: record.uuid, branch, retention: await readRetention(node, record.name), database: record.name };
}

/** Refuses a database that took the name after the caller's credential was judged for the one before. */
export function checkJudged({ judgedUuid }: Context, { uuid }: DatabaseRecord): void {
  if (judgedUuid === undefined || judgedUuid === uuid) return;
  throw new ServiceError("forbidden", predatesDeletion);
}

/**
 * The branch that a `{db}` path segment means; `inMessage` is where the request names it too. Throws
 * database_not_found.
 */
export async function databaseTarget(
  node: NodeParts,
  context: Context,
  spec: string,
  inMessage?: string,
): Promise<Target> {
  const { name, branch: inSpec } = parseDatabaseSpec(spec);
  const branch = resolveBranch([inSpec, context.call.headers.branch, inMessage]);
  return buildTarget(node, context, await node.databases.require(name), branch);
}

/** As `databaseTarget`, but a profile is created when it does not exist, as its first memory would. */
export async function ensureTarget(node: NodeParts, context: Context, spec: string): Promise<Target> {
  const { name, branch } = parseDatabaseSpec(spec);
  const profile = parseProfileDatabaseName(name);
  if (!profile) return databaseTarget(node, context, spec);
  return ensureProfileTarget(node, context, { ns: profile.namespace, profile: profile.profile, branch });
}

export interface ProfileAddress {
  readonly ns: string;
  readonly profile: string;
  readonly branch?: string | undefined;
}

/**
 * The branch of a profile's memory, or undefined when the profile does not exist (404 when the caller has seen a txid,
 * or asks for an earlier state).
 */
export async function findProfileTarget(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
): Promise<Target | undefined> {
  const name = profileDatabaseName(address.ns, address.profile);
  const branch = resolveBranch([address.branch, context.call.headers.branch]);
  const record = await node.databases.find(name);
  if (record) return buildTarget(node, context, record, branch);
  if (context.minTxid > 0 || context.at !== undefined)
    throw new ServiceError("database_not_found", `profile ${address.ns}/${address.profile} does not exist`);
  return undefined;
}

/** The branch of a profile's memory; throws database_not_found when the profile does not exist. */
export async function requireProfileTarget(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
): Promise<Target> {
  const target = await findProfileTarget(node, context, address);
  if (target) return target;
  throw new ServiceError("database_not_found", `profile ${address.ns}/${address.profile} does not exist`);
}

/**
 * Whether the call failed because its profile was deleted through another node, and this one did not know yet. Now it
 * does: the name is free, or a later profile's.
 */
export async function wasDeletedElsewhere(
  node: NodeParts,
  address: ProfileAddress,
  { uuid }: Target,
  error: unknown,
): Promise<boolean> {
  if (!(error instanceof ServiceError) || error.code !== "database_not_found") return false;
  return !(await node.databases.isHeldBy(profileDatabaseName(address.ns, address.profile), uuid));
}

/** The branch of a profile's memory, with the profile created when it does not exist. */
export async function ensureProfileTarget(node: NodeParts, context: Context, address: ProfileAddress): Promise<Target> {
  const name = profileDatabaseName(address.ns, address.profile);
  const branch = resolveBranch([address.branch, context.call.headers.branch]);
  if (branch !== mainBranch) return requireProfileTarget(node, context, address);
  return buildTarget(node, context, await node.databases.ensure(name), branch);
}
