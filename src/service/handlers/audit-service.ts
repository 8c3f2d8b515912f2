/** The audit stream over the wires: filters in, events out. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AuditEventSchema, ControlService } from "../../../gen/palimpsest/v1/control_pb.ts";
import { limits } from "../../base/limits.ts";
import { auditTimeMs, pickAuditVersion, type AuditEvent, type AuditOutcome } from "../../format/audit/audit-event.ts";
import type { ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";

const auditPageDefault = 100;

const defaultWindowMs = 86_400_000;

function toMs(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}

function toMessage(event: AuditEvent): MessageInitShape<typeof AuditEventSchema> {
  const { actor, egress, grant } = event;
  return {
    v: pickAuditVersion(event),
    id: event.id,
    ts: BigInt(auditTimeMs(event)),
    node: event.node,
    ns: event.namespace,
    action: event.action,
    outcome: event.outcome,
    prev: event.prev,
    ...present({
      profile: event.profile,
      branch: event.branch,
      resource: event.resource,
      txid: event.txid === undefined ? undefined : BigInt(event.txid),
      count: event.count,
      actor: actor && {
        kind: actor.kind,
        ...present({
          tokenHash: actor.tokenHash,
          scope: actor.scope,
          claimDb: actor.claimDb,
          claimNs: actor.claimNs,
          iat: actor.iatSecs === undefined ? undefined : BigInt(actor.iatSecs),
        }),
      },
      egress: egress && { ...egress, inputBytes: BigInt(egress.inputBytes), durationMs: BigInt(egress.durationMs) },
      error: event.errorCode,
      grant: grant && {
        jti: grant.jti,
        ...present({ scope: grant.scope, expiresIn: grant.expiresInSecs, db: grant.database, ns: grant.namespace }),
      },
    }),
  };
}

export function auditHandlers({
  audit,
  names,
  world,
}: NodeParts): Pick<ServiceHandlers<typeof ControlService>, "readAudit"> {
  return {
    async readAudit(request) {
      const namespace = request.ns;
      const endMs = toMs(request.to);
      const { cursor, profile } = request;
      // A cursor lies within the window of the first page; the window's beginning must not move past it.
      const fromMs =
        toMs(request.from) ?? (cursor === undefined ? Math.max(0, (endMs ?? world.nowMs()) - defaultWindowMs) : 0);
      const { events, nextCursor, complete } = await audit.read(namespace, {
        fromMs,
        toMs: endMs,
        action: request.action,
        profile: profile,
        outcome: request.outcome as AuditOutcome | undefined,
        limit: Math.min(request.limit ?? auditPageDefault, limits.auditPageMax),
        cursor,
      });
      const nodes = await names.of(events.map(({ node }) => node));
      return {
        events: events.map(toMessage),
        complete,
        ...present({ nextCursor, nodes: Object.keys(nodes).length === 0 ? undefined : nodes }),
      };
    },
  };
}
