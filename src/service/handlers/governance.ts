/**
 * What policy means for a call: how long its database keeps things, and whether text may leave the node.
 *
 * Always true: retention never stops a call, and a call says nothing of it while the policy cannot be read; egress that
 * is denied, or whose policy cannot be read, is refused before anything else is looked at.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { EffectivePolicy } from "../../control/databases/policies.ts";
import type { Retention } from "../../engine/api/protocol.ts";
import { checkNamePart, parseProfileDatabaseName } from "../../format/core/names.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";

/** What is enforced for a profile, whose names are checked here. */
export function readProfilePolicy(
  node: NodeParts,
  { ns, profile }: { readonly ns: string; readonly profile: string },
): Promise<EffectivePolicy> {
  return node.policies.effective(checkNamePart("namespace", ns), checkNamePart("profile", profile));
}

function inMs(secs: number | undefined): number | undefined {
  return secs === undefined ? undefined : secs * 1_000;
}

/** The retention of a database by its name; undefined for a plain one, and while its policy cannot be read. */
export async function readRetention(node: NodeParts, databaseName: string): Promise<Retention | undefined> {
  const name = parseProfileDatabaseName(databaseName);
  if (!name) return undefined;
  return retentionBy(await node.policies.effective(name.namespace, name.profile));
}

/** How long the policy lets a database keep things; undefined while it cannot be read. */
export function retentionBy(policy: EffectivePolicy): Retention | undefined {
  if (!policy.known) return undefined;
  return {
    pitrMs: policy.pitrSecs * 1_000,
    ...present({
      eventMaxAgeMs: inMs(policy.eventMaxAgeSecs),
      supersededMaxAgeMs: inMs(policy.supersededMaxAgeSecs),
      supersededMaxCount: policy.supersededMaxCount,
    }),
  };
}

/** Refuses a plain forget where a policy that cannot be read may ask for more. */
export function refuseUnknownForget({ known }: EffectivePolicy): void {
  if (!known)
    throw new ServiceError(
      "unavailable",
      "whether a forget must be a tracked erasure is not known while the policy cannot be read",
      { retryAfterSecs: 1 },
    );
}

/**
 * Refuses a call whose text no policy lets out: forbidden when it says so, unavailable while that cannot be told.
 * `selfHosted` is what is known of where the text would go; undefined when it would go nowhere.
 */
export function refuseDeniedEgress(
  policy: EffectivePolicy,
  use: keyof EffectivePolicy["egress"],
  selfHosted?: boolean,
): void {
  if (policy.egress[use] === "self_hosted_only" && selfHosted === false)
    throw new ServiceError(
      "forbidden",
      `ai_egress.${use} is self_hosted_only by policy, and this node's model is not self-hosted`,
    );
  if (policy.egress[use] !== "deny") return;
  if (policy.known) throw new ServiceError("forbidden", `ai_egress.${use} is denied by policy`);
  throw new ServiceError("unavailable", `ai_egress.${use} is denied while the policy cannot be read`, {
    retryAfterSecs: 1,
  });
}
