/**
 * An event of a namespace's audit stream, and the line that it is at rest.
 *
 * A line is the JSON of one event without spaces. The members come in this order; those marked ? are left out when
 * absent:
 *
 * | member    | content                                                                                            |
 * |-----------|----------------------------------------------------------------------------------------------------|
 * | v         | 2 where the action or a member is marked 2, else 1                                                 |
 * | id        | ULID                                                                                               |
 * | ts        | when it happened, Unix ms: the time of the id                                                      |
 * | node      | ULID, the identity of the node that recorded it                                                    |
 * | ns        | the namespace                                                                                      |
 * | profile?  | the profile                                                                                        |
 * | branch?   | the branch                                                                                         |
 * | action    | one of `auditActions`                                                                              |
 * | resource? | the id of a record, the name of a database or the level of a policy                                |
 * | outcome   | `ok`, `denied` or `error`                                                                          |
 * | txid?     | the transaction id of the change                                                                   |
 * | count?    | how many records were changed or given; of `audit.dropped`, how many events are missing            |
 * | actor?    | {kind, token_hash?, scope?, claim_db?, claim_ns?, iat?}                                            |
 * | egress?   | {provider, model, endpoint_host, self_hosted, input_items, input_bytes, output_items, duration_ms} |
 * | error?    | the code of a refusal                                                                              |
 * | grant? 2  | {jti, scope?, expires_in?, db?, ns?}: the token that was minted or revoked                         |
 * | prev      | SHA-256, in hexadecimal, of the node's event before in this stream; 64 zeros in its first          |
 *
 * Always true: an event has one spelling, so that what was read gives the hash of what was written. No member can hold
 * what a tenant stored or said: each is a number, a name by the rules of names, an id, or a word of ours.
 */
import { errorCodes, StoreError } from "../../base/faults/errors.ts";
import { auditActions, laterActions, type AuditAction } from "./audit-actions.ts";
import { isUlid, ulidTimeMs } from "../core/ids.ts";
import { isCount, isObject, matching, maybe, oneOf, shapeOf, textThat } from "../core/json-shape.ts";
import { isBranchName, isDatabaseName, isNamePart } from "../core/names.ts";
import { formats, requireVersion } from "../core/versions.ts";

/** Every way in which what was done can end. */
export const auditOutcomes = ["ok", "denied", "error"] as const;

/** How it ended. */
export type AuditOutcome = (typeof auditOutcomes)[number];

const actorKinds = ["token", "platform", "internal", "anonymous"] as const;

/** Who acted, told by the credential and never by the credential itself. */
export interface AuditActor {
  readonly kind: (typeof actorKinds)[number];
  /** 16 hexadecimal digits of a keyed hash. */
  readonly tokenHash?: string | undefined;
  readonly scope?: string | undefined;
  readonly claimDb?: string | undefined;
  readonly claimNs?: string | undefined;
  /** When the token was minted. */
  readonly iatSecs?: number | undefined;
}

/** What left for an outside model, in sizes. */
export interface AuditEgress {
  readonly provider: string;
  readonly model: string;
  readonly endpointHost: string;
  readonly selfHosted: boolean;
  readonly inputItems: number;
  readonly inputBytes: number;
  readonly outputItems: number;
  readonly durationMs: number;
}

/** A token that was minted or revoked, told by its claims. */
export interface AuditGrant {
  readonly jti: string;
  readonly scope?: string | undefined;
  readonly expiresInSecs?: number | undefined;
  /** The database or the namespace that it covers. */
  readonly database?: string | undefined;
  readonly namespace?: string | undefined;
}

/** One thing that happened in a namespace. */
export interface AuditEvent {
  readonly id: string;
  readonly node: string;
  readonly namespace: string;
  readonly profile?: string | undefined;
  readonly branch?: string | undefined;
  readonly action: AuditAction;
  readonly resource?: string | undefined;
  readonly outcome: AuditOutcome;
  readonly txid?: number | undefined;
  readonly count?: number | undefined;
  readonly actor?: AuditActor | undefined;
  readonly egress?: AuditEgress | undefined;
  readonly errorCode?: string | undefined;
  readonly grant?: AuditGrant | undefined;
  readonly prev: string;
}

const recordIdPattern = /^(?:mem|ers|whk)_(.+)$/;
const hashPattern = /^[0-9a-f]{64}$/;
const tokenHashPattern = /^[0-9a-f]{16}$/;
/** Names of providers, models and hosts come from the node's own configuration. */
const configuredPattern = /^[\x21-\x7e]{1,1024}$/;

/** When the event happened, in Unix milliseconds. */
export function auditTimeMs(event: Pick<AuditEvent, "id">): number {
  return ulidTimeMs(event.id);
}

/** Whether the text is the id of a memory, a coupon or a webhook. */
export function isRecordId(text: string): boolean {
  return isUlid(recordIdPattern.exec(text)?.[1] ?? "");
}

/** Whether the text names a resource: what a client sent is content unless it has the form of an id or a name. */
export function isAuditResource(text: string): boolean {
  return isRecordId(text) || isDatabaseName(text);
}

/** The least version that can hold the event. */
export function pickAuditVersion({ action, grant }: Pick<AuditEvent, "action" | "grant">): 1 | 2 {
  const [plain, later] = formats.auditEvent.writes;
  return grant !== undefined || laterActions.has(action) ? later : plain;
}

/** The event as a line, without its line feed. */
export function encodeAuditEvent(event: AuditEvent): string {
  const { actor, egress, grant } = event;
  return JSON.stringify({
    v: pickAuditVersion(event),
    id: event.id,
    ts: auditTimeMs(event),
    node: event.node,
    ns: event.namespace,
    profile: event.profile,
    branch: event.branch,
    action: event.action,
    resource: event.resource,
    outcome: event.outcome,
    txid: event.txid,
    count: event.count,
    actor: actor && {
      kind: actor.kind,
      token_hash: actor.tokenHash,
      scope: actor.scope,
      claim_db: actor.claimDb,
      claim_ns: actor.claimNs,
      iat: actor.iatSecs,
    },
    egress: egress && {
      provider: egress.provider,
      model: egress.model,
      endpoint_host: egress.endpointHost,
      self_hosted: egress.selfHosted,
      input_items: egress.inputItems,
      input_bytes: egress.inputBytes,
      output_items: egress.outputItems,
      duration_ms: egress.durationMs,
    },
    error: event.errorCode,
    grant: grant && {
      jti: grant.jti,
      scope: grant.scope,
      expires_in: grant.expiresInSecs,
      db: grant.database,
      ns: grant.namespace,
    },
    prev: event.prev,
  });
}

/**
 * Reads a line. Throws StoreError("corrupt") for anything but the one spelling of an event, NewerFormat for an event of
 * a newer build.
 */
export function decodeAuditEvent(line: string): AuditEvent {
  const members = parseMembers(line);
  requireVersion(formats.auditEvent, members["v"]);
  const event = {
    id: members["id"],
    node: members["node"],
    namespace: members["ns"],
    profile: members["profile"],
    branch: members["branch"],
    action: members["action"],
    resource: members["resource"],
    outcome: members["outcome"],
    txid: members["txid"],
    count: members["count"],
    actor: readActor(members["actor"]),
    egress: readEgress(members["egress"]),
    errorCode: members["error"],
    grant: readGrant(members["grant"]),
    prev: members["prev"],
  };
  if (!isEvent(event) || encodeAuditEvent(event) !== line)
    throw new StoreError("corrupt", "an audit event has an unknown form");
  return event;
}

function parseMembers(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line);
    if (isObject(value)) return value;
  } catch (error) {
    throw new StoreError("corrupt", "an audit event is not JSON", { cause: error });
  }
  throw new StoreError("corrupt", "an audit event is not an object");
}

function readActor(value: unknown): object | undefined {
  if (!isObject(value)) return undefined;
  return {
    kind: value["kind"],
    tokenHash: value["token_hash"],
    scope: value["scope"],
    claimDb: value["claim_db"],
    claimNs: value["claim_ns"],
    iatSecs: value["iat"],
  };
}

function readGrant(value: unknown): object | undefined {
  if (!isObject(value)) return undefined;
  return {
    jti: value["jti"],
    scope: value["scope"],
    expiresInSecs: value["expires_in"],
    database: value["db"],
    namespace: value["ns"],
  };
}

function readEgress(value: unknown): object | undefined {
  if (!isObject(value)) return undefined;
  return {
    provider: value["provider"],
    model: value["model"],
    endpointHost: value["endpoint_host"],
    selfHosted: value["self_hosted"],
    inputItems: value["input_items"],
    inputBytes: value["input_bytes"],
    outputItems: value["output_items"],
    durationMs: value["duration_ms"],
  };
}

const isActor = shapeOf({
  kind: oneOf(...actorKinds),
  tokenHash: maybe(matching(tokenHashPattern)),
  scope: maybe(oneOf("read", "write", "admin")),
  claimDb: maybe(textThat(isDatabaseName)),
  claimNs: maybe(textThat(isNamePart)),
  iatSecs: maybe(isCount),
});

const isGrant = shapeOf({
  jti: textThat(isUlid),
  scope: maybe(oneOf("read", "write", "admin")),
  expiresInSecs: maybe(isCount),
  database: maybe(textThat(isDatabaseName)),
  namespace: maybe(textThat(isNamePart)),
});

const isConfigured = matching(configuredPattern);

const isEgress = shapeOf({
  provider: isConfigured,
  model: isConfigured,
  endpointHost: isConfigured,
  selfHosted: (value) => typeof value === "boolean",
  inputItems: isCount,
  inputBytes: isCount,
  outputItems: isCount,
  durationMs: isCount,
});

const hasEventShape = shapeOf({
  id: textThat(isUlid),
  node: textThat(isUlid),
  namespace: textThat(isNamePart),
  profile: maybe(textThat(isNamePart)),
  branch: maybe(textThat(isBranchName)),
  action: oneOf(...auditActions),
  resource: maybe(textThat(isAuditResource)),
  outcome: oneOf(...auditOutcomes),
  txid: maybe(isCount),
  count: maybe(isCount),
  actor: maybe(isActor),
  egress: maybe(isEgress),
  errorCode: maybe(oneOf(...Object.keys(errorCodes))),
  grant: maybe(isGrant),
  prev: matching(hashPattern),
});

/**
 * Whether every member has its form: the rule that keeps content out, held when an event is made and when it is read.
 */
export function isEvent(event: object): event is AuditEvent {
  return hasEventShape(event);
}
