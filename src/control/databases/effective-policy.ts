/**
 * What is enforced: the node's bounds, a namespace's policy and a profile's own, merged into one.
 *
 * Always true: the result is never looser than any of its parts, whatever they say and however they came to be. What a
 * node cannot read denies every egress, and limits nothing else beyond the node's own bounds: a policy that is out of
 * reach must not let text out, and must not stop reads and writes. So it demands no review either.
 */
import { strictest, type Egress, type PolicyValues } from "../../format/records/policy.ts";

/** How long an erasure can be undone when no policy says. */
const erasureGraceSecsDefault = 86_400;

/** Every value that is enforced. What is undefined has no bound. */
export interface EffectivePolicy {
  /** False when a part could not be read: then egress is denied, and bounds that are set may be missing. */
  readonly known: boolean;
  readonly pitrSecs: number;
  /** Kept for readers of the policy: there is one window here, and no coarser one behind it. */
  readonly pitrSnapshotSecs: number | undefined;
  readonly taskTtlMaxSecs: number | undefined;
  readonly supersededMaxCount: number | undefined;
  readonly eventMaxAgeSecs: number | undefined;
  /** Sources whose memories need no review; where none are named, none does. */
  readonly trustedSources: readonly string[] | undefined;
  /** Counted from when the memory was superseded. */
  readonly supersededMaxAgeSecs: number | undefined;
  readonly egress: { readonly extract: Egress; readonly ask: Egress; readonly embed: Egress };
  /** Where webhooks may go. */
  readonly webhooks: Egress;
  readonly audit: {
    readonly enabled: boolean;
    readonly includeReads: boolean;
    readonly includeData: boolean;
    readonly retentionSecs: number | undefined;
  };
  readonly erasureGraceSecs: number;
  readonly purgeOnForget: boolean;
  /** The same by dotted paths, as clients are shown it. */
  readonly values: PolicyValues;
}

/** What a policy that was never set says. */
export const silentPolicy: PolicyValues = Object.freeze({});

/** What replaces a policy that cannot be read. */
const unreadable: PolicyValues = {
  "ai_egress.extract": "deny",
  "ai_egress.ask": "deny",
  "ai_egress.embed": "deny",
  "egress.webhooks": "deny",
};

/** What holds where no namespace says otherwise. Only a namespace may go beyond it. */
const defaults = {
  "ai_egress.extract": "allow",
  "ai_egress.ask": "allow",
  "ai_egress.embed": "allow",
  "egress.webhooks": "allow",
  "audit.enabled": false,
  "audit.include_reads": false,
  "audit.include_data": false,
  "erasure.grace_secs": erasureGraceSecsDefault,
  "erasure.purge_on_forget": false,
} as const satisfies PolicyValues;

/** Merges the parts; one that is undefined cannot be read. */
export function effectivePolicy(
  nodePitrSecs: number,
  namespace: PolicyValues | undefined,
  profile: PolicyValues | undefined,
): EffectivePolicy {
  const ceilings = { "retention.pitr_secs": nodePitrSecs };
  // The strictest has all of the first two again: they are here for the types only.
  const values = {
    ...defaults,
    ...ceilings,
    ...strictest(ceilings, { ...defaults, ...(namespace ?? unreadable) }, profile ?? unreadable),
  };
  return {
    known: namespace !== undefined && profile !== undefined,
    pitrSecs: values["retention.pitr_secs"],
    pitrSnapshotSecs: values["retention.pitr_snapshot_secs"],
    taskTtlMaxSecs: values["memory.task_ttl_max_secs"],
    supersededMaxCount: values["memory.superseded_max_count"],
    trustedSources: values["memory.trusted_sources"],
    eventMaxAgeSecs: values["memory.event_max_age_secs"],
    supersededMaxAgeSecs: values["memory.superseded_max_age_secs"],
    egress: { extract: values["ai_egress.extract"], ask: values["ai_egress.ask"], embed: values["ai_egress.embed"] },
    webhooks: values["egress.webhooks"],
    audit: {
      enabled: values["audit.enabled"],
      includeReads: values["audit.include_reads"],
      includeData: values["audit.include_data"],
      retentionSecs: values["audit.retention_secs"],
    },
    erasureGraceSecs: values["erasure.grace_secs"],
    purgeOnForget: values["erasure.purge_on_forget"],
    values,
  };
}
