/**
 * What the audit log is told: an entry as its witness gives it, and whether the policy of its namespace wants it.
 *
 * Must not know: when and where events are stored.
 */
import { dataActions, type AuditAction } from "../../format/audit/audit-actions.ts";
import type { AuditActor, AuditEgress, AuditGrant, AuditOutcome } from "../../format/audit/audit-event.ts";
import type { Identity } from "../access/identity.ts";

/** What the policy of a namespace says of its stream. */
export interface AuditPolicy {
  readonly enabled: boolean;
  /** Also record reads. */
  readonly includeReads: boolean;
  /** Also record writes of SQL, documents, keys, vectors and turns. */
  readonly includeData?: boolean | undefined;
  /** Undefined: events are kept for good. */
  readonly retentionSecs: number | undefined;
}

/** Something that happened, as its witness tells it. */
export interface AuditEntry {
  readonly namespace: string;
  readonly profile?: string | undefined;
  readonly branch?: string | undefined;
  readonly action: AuditAction;
  readonly resource?: string | undefined;
  readonly outcome: AuditOutcome;
  readonly txid?: number | undefined;
  readonly count?: number | undefined;
  /** Who did it; `internal` is the node itself. */
  readonly identity: Identity | { readonly kind: "internal" };
  readonly egress?: AuditEgress | undefined;
  readonly errorCode?: string | undefined;
  readonly grant?: AuditGrant | undefined;
}

const reads: ReadonlySet<AuditAction> = new Set([
  "memory.recall",
  "memory.list",
  "memory.get",
  "memory.ask",
  "memory.context",
  "memory.history",
  "changes.watch",
]);

/** Whether a stream that is on holds such an event. */
export function isRecorded(
  { includeReads, includeData }: AuditPolicy,
  action: AuditAction,
  outcome: AuditOutcome,
): boolean {
  return (
    outcome === "denied" || ((includeReads || !reads.has(action)) && (includeData === true || !dataActions.has(action)))
  );
}

/** Who acted, as the event tells it: by the credential's hash and claims, never by the credential itself. */
export function toActor(identity: AuditEntry["identity"]): AuditActor {
  if (identity.kind === "anonymous" || identity.kind === "internal") return { kind: identity.kind };
  if (identity.kind === "platform") return { kind: "platform", tokenHash: identity.hash };
  return {
    kind: "token",
    tokenHash: identity.hash,
    scope: identity.scope,
    claimDb: identity.database?.name,
    claimNs: identity.namespace,
    iatSecs: Math.floor(identity.issuedAtMs / 1_000),
  };
}

/** A refusal of an unknown caller, who can cause as many of these as it likes. */
export function isOfStranger({ identity, outcome }: AuditEntry): boolean {
  return identity.kind === "anonymous" && outcome === "denied";
}
