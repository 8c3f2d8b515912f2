/**
 * Who calls, what the call is about, and whether it may be.
 *
 * Owns the way from a call to the question that control/access/access-rules answers: the rule from the endpoint table,
 * the target from the path's own fields, the standing of a database's name where it matters. Always true: the target
 * that is judged is read from the same fields of the message that the handler reads; no header adds to what a caller
 * may do.
 */
import type { Message } from "@bufbuild/protobuf";
import { ServiceError } from "../../base/faults/errors.ts";
import { asksStanding, decide, type AccessRule, type AccessTarget } from "../../control/access/access-rules.ts";
import { unauthorized, type Credentials } from "../../control/access/credentials.ts";
import type { Databases } from "../../control/databases/databases.ts";
import type { Identity, ScopeName } from "../../control/access/identity.ts";
import { checkNamePart, parseDatabaseSpec, profileDatabaseName } from "../../format/core/names.ts";
import type { Call } from "../call/call.ts";
import { allEndpoints, type AnyEndpoint, Credential, scopeNames, type Rule } from "../call/methods.ts";

const credentialNames: ReadonlyMap<Rule["credential"], AccessRule["credential"]> = new Map([
  [Credential.NONE, "none"],
  [Credential.PLATFORM, "platform"],
  [Credential.NAMESPACE, "namespace"],
  [Credential.DATABASE, "database"],
  [Credential.PLATFORM_OR_NAMESPACE_ADMIN, "platform_or_namespace_admin"],
]);

/** What the endpoint asks of its caller. */
export function buildAccessRule({ name, rule }: AnyEndpoint): AccessRule {
  const credential = credentialNames.get(rule.credential);
  // A rule that is not understood opens nothing: the node does not start.
  if (credential === undefined) throw new Error(`${name} asks for a kind of credential that is not known`);
  return { credential, scope: scopeNames.get(rule.scope) };
}

type TargetReader = (message: Message) => AccessTarget;

/** What a call of the endpoint is about, by the fields of its path. */
function buildTargetReader({ segments }: AnyEndpoint): TargetReader {
  const inPath = new Set(segments.flatMap((segment) => (segment.kind === "field" ? [segment.field.localName] : [])));
  const text = (message: Message, field: string): string => (message as unknown as Record<string, string>)[field]!;
  if (inPath.has("db")) return (message) => ({ kind: "database", name: parseDatabaseSpec(text(message, "db")).name });
  if (inPath.has("profile"))
    return (message) => ({
      kind: "database",
      name: profileDatabaseName(text(message, "ns"), text(message, "profile")),
    });
  if (inPath.has("ns"))
    return (message) => ({ kind: "namespace", namespace: checkNamePart("namespace", text(message, "ns")) });
  return () => ({ kind: "node" });
}

export class Authorization {
  readonly #credentials: Credentials;
  readonly #databases: Databases;
  readonly #rules = new Map(
    allEndpoints.map((endpoint) => [
      endpoint,
      { rule: buildAccessRule(endpoint), readTarget: buildTargetReader(endpoint) },
    ]),
  );

  constructor(credentials: Credentials, databases: Databases) {
    this.#credentials = credentials;
    this.#databases = databases;
  }

  /** Who bears the credential. Throws unauthorized. */
  identify(credential: string | undefined): Promise<Identity> {
    return this.#credentials.identify(credential);
  }

  /**
   * Refuses the call with forbidden unless the caller may make it; `scope`, where it is given, in place of the
   * endpoint's own. Where a revocation would matter and cannot be looked up, the store's failure refuses the call.
   * Gives the uuid that was judged, where one was: the name may change hands before the handler looks it up.
   */
  async check({ endpoint, message }: Call, identity: Identity, scope?: ScopeName): Promise<string | undefined> {
    const known = this.#rules.get(endpoint);
    if (known === undefined) throw new Error(`${endpoint.name} is not in the endpoint table`);
    const rule = scope === undefined ? known.rule : { ...known.rule, scope };
    const target = known.readTarget(message);
    refuse(rule, identity, target);
    if (target.kind !== "database" || !asksStanding(rule, identity, target)) return undefined;
    const standing = await this.#databases.standing(target.name);
    refuse(rule, identity, { ...target, standing });
    return standing.uuid;
  }

  /**
   * The same for a request that cannot be read: by what it is known to be about, or else by what the credential is for,
   * so that a caller that may make no such call at all is told that.
   */
  checkUnread(endpoint: AnyEndpoint, address: Message | undefined, identity: Identity): void {
    const known = this.#rules.get(endpoint);
    if (known === undefined) throw new Error(`${endpoint.name} is not in the endpoint table`);
    refuse(known.rule, identity, address === undefined ? ownTarget(identity, known.rule) : known.readTarget(address));
  }
}

/** What the credential itself is for. */
function ownTarget(identity: Identity, rule: AccessRule): AccessTarget {
  if (identity.kind !== "token" || rule.credential === "platform") return { kind: "node" };
  if (identity.database !== undefined && rule.credential === "database")
    return { kind: "database", name: identity.database.name };
  if (identity.namespace === undefined) return { kind: "node" };
  return rule.credential === "database"
    ? { kind: "database", name: profileDatabaseName(identity.namespace, "any") }
    : { kind: "namespace", namespace: identity.namespace };
}

function refuse(rule: AccessRule, identity: Identity, target: AccessTarget): void {
  const decision = decide({ rule, identity, target });
  if (decision.kind === "unauthorized") throw unauthorized("missing");
  if (decision.kind === "forbidden") throw new ServiceError("forbidden", decision.message);
}
