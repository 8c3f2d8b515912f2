/** The audit stream over the wires: filters in, events out. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AuditEventSchema, ControlService } from "../../../gen/palimpsest/v1/control_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import {
  auditOutcomes,
  auditTimeMs,
  pickAuditVersion,
  type AuditEvent,
  type AuditOutcome,
} from "../../format/audit/audit-event.ts";
import { checkNamePart } from "../../format/core/names.ts";
import type { ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";

const auditPageDefault = 100;

const defaultWindowMs = 86_400_000;
/** The end of the year 9999: the last time whose day has a name of the usual length. */
const timeMsMax = 253_402_300_799_999;
const actionPattern = /^[a-z_]{1,32}(?:\.[a-z_]{0,32})?$/;

function parseTime(field: string, value: bigint | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (value >= 0n && value <= BigInt(timeMsMax)) return Number(value);
  throw invalid(`${field} must be a time in Unix milliseconds, 0 to ${timeMsMax}`);
}

function parseOutcome(text: string | undefined): AuditOutcome | undefined {
  const outcome = auditOutcomes.find((known) => known === text);
  if (text !== undefined && outcome === undefined) throw invalid(`outcome must be ${auditOutcomes.join(", ")}`);
  return outcome;
}

function parseAction(text: string | undefined): string | undefined {
  if (text === undefined || actionPattern.test(text)) return text;
  throw invalid("action must be the name of an action, or the beginning of one that ends in a dot");
}

function parseLimit(value: number = auditPageDefault): number {
  if (value >= 1) return Math.min(value, limits.auditPageMax);
  throw invalid(`limit must be a whole number from 1; at most ${limits.auditPageMax} events are on a page`);
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
      const namespace = checkNamePart("namespace", request.ns);
      const toMs = parseTime("to", request.to);
      const { cursor, profile } = request;
      // A cursor lies within the window of the first page; the window's beginning must not move past it.
      const fromMs =
        parseTime("from", request.from) ??
        (cursor === undefined ? Math.max(0, (toMs ?? world.nowMs()) - defaultWindowMs) : 0);
      const { events, nextCursor, complete } = await audit.read(namespace, {
        fromMs,
        toMs,
        action: parseAction(request.action),
        profile: profile === undefined ? undefined : checkNamePart("profile", profile),
        outcome: parseOutcome(request.outcome),
        limit: parseLimit(request.limit),
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
