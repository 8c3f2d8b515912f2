/**
 * Who may do what: one pure function from a rule, an identity and a target to a decision.
 *
 * Always true: only the identity's own claims and the resolved name widen a decision, never a Host, a header or a path
 * as written. Must not know: tokens' signatures, stores, wires, clocks.
 */
import { parseProfileDatabaseName } from "../../format/core/names.ts";
import { scopeIncludes, type Identity, type ScopeName, type TokenIdentity } from "./identity.ts";

/** A namespace token must be younger than a deletion by this to write to what came after it. */
const revocationSkewMs = 2_000;

/** What a method asks of its caller. */
export interface AccessRule {
  readonly credential: "none" | "platform" | "namespace" | "database" | "platform_or_namespace_admin";
  /** The least scope; undefined where the credential has none. */
  readonly scope: ScopeName | undefined;
}

/** What is known of a database's name: who holds it now, and when a holder last lost it. */
export interface NameStanding {
  readonly uuid: string | undefined;
  readonly deletedAtMs: number | undefined;
  /** The number of that deletion in its namespace; undefined when it has none. */
  readonly deletion?: number | undefined;
}

/** What a call is about. */
export type AccessTarget =
  | { readonly kind: "node" }
  | { readonly kind: "namespace"; readonly namespace: string }
  /** `standing` absent: the name alone is judged, and revocation is not. */
  | { readonly kind: "database"; readonly name: string; readonly standing?: NameStanding };

export type Decision =
  | { readonly kind: "allow" }
  /** The call needs a credential. */
  | { readonly kind: "unauthorized" }
  /** The credential is good and not for this. */
  | { readonly kind: "forbidden"; readonly message: string };

/** What the bearer of a revoked token is told. */
export const predatesDeletion = "the token predates the database's deletion; a fresh token is needed";

const allow: Decision = { kind: "allow" };

function forbidden(message: string): Decision {
  return { kind: "forbidden", message };
}

/** Decides on a call of a node with authentication on. Names are taken as already checked for their form. */
export function decide(asked: {
  readonly rule: AccessRule;
  readonly identity: Identity;
  readonly target: AccessTarget;
}): Decision {
  const { rule, identity, target } = asked;
  if (rule.credential === "none") return allow;
  if (identity.kind === "anonymous") return { kind: "unauthorized" };
  const platformOpens = rule.credential === "platform" || rule.credential === "platform_or_namespace_admin";
  if (identity.kind === "platform")
    return platformOpens ? allow : forbidden("the platform key opens the control plane only; this call needs a token");
  if (rule.credential === "platform") return forbidden("this call needs the platform key");
  if (rule.credential === "platform_or_namespace_admin" && identity.namespace === undefined)
    return forbidden("this call needs the platform key or an admin token of the namespace");
  const uncovered = coverageRefusal(identity, target);
  if (uncovered !== undefined) return forbidden(uncovered);
  if (rule.scope !== undefined && !scopeIncludes(identity.scope, rule.scope))
    return forbidden(`this call needs a token of scope ${rule.scope}, and this one has scope ${identity.scope}`);
  if (target.kind === "database" && target.standing && isRevoked(identity, rule.scope, target.standing)) {
    return forbidden(predatesDeletion);
  }
  return allow;
}

/** Whether a decision on this target can depend on the standing of its name, which must then be looked up. */
export function asksStanding(rule: AccessRule, identity: Identity, target: AccessTarget): boolean {
  if (identity.kind !== "token" || target.kind !== "database") return false;
  return identity.database !== undefined || changes(rule.scope);
}

/** Whether a token of the namespace covers the database: a profile of exactly this namespace. */
export function namespaceCovers(namespace: string, databaseName: string): boolean {
  return parseProfileDatabaseName(databaseName)?.namespace === namespace;
}

function coverageRefusal({ database, namespace }: TokenIdentity, target: AccessTarget): string | undefined {
  switch (target.kind) {
    case "node":
      return "the token does not cover this call";
    case "namespace":
      return namespace === target.namespace ? undefined : "the token does not cover this namespace";
    case "database": {
      const covered =
        namespace === undefined ? database?.name === target.name : namespaceCovers(namespace, target.name);
      return covered ? undefined : "the token does not cover this database";
    }
  }
}

/**
 * A per-database token is for the database it was minted for, and for no later one of the name; a namespace token may
 * still read what came after a deletion, and writes there only when it was minted after it. Their numbers tell which
 * came first (control/databases/deletion-counts). Where one of them has none, times do: a token's time is in whole
 * seconds and of the clock of the node that minted it, so one from about the time of the deletion counts as older.
 */
function isRevoked(
  identity: TokenIdentity,
  scope: ScopeName | undefined,
  { uuid, deletedAtMs, deletion }: NameStanding,
): boolean {
  if (identity.database !== undefined) return uuid === undefined ? changes(scope) : uuid !== identity.database.uuid;
  if (!changes(scope) || deletedAtMs === undefined) return false;
  if (deletion !== undefined && identity.deletions !== undefined) return identity.deletions < deletion;
  return identity.issuedAtMs <= deletedAtMs + revocationSkewMs;
}

function changes(scope: ScopeName | undefined): boolean {
  return scope === "write" || scope === "admin";
}
