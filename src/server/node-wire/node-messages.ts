/**
 * Calls between nodes as messages: how a forwarded call and its answer are written and read.
 *
 * Always true: what was read is of a known shape. The kind is in the tables, a command is one of its table's own, names
 * are names, and what a command, a batch or an act is given has the fields that it declares and no others
 * (command-shapes). What a call gave is taken unchecked, as from a thread. Must not know: streams, who may do what, how
 * the bytes of a payload are written (node-protocol).
 */
import { create } from "@bufbuild/protobuf";
import {
  type Call,
  type CallAnswer,
  CallAnswerSchema,
  type CallClient,
  CallKind,
  type CallRefusal,
  type CallRetention,
  CallSchema,
  ClientKind,
  ClientScope,
  ReadConsistency,
  TurnedAwayReason as WireReason,
} from "../../../gen/palimpsest/node/v1/node_pb.ts";
import { type ErrorCode, errorCodes, ServiceError, type ServiceErrorDetail } from "../../base/faults/errors.ts";
import { type CallerTold, type PortCall, TurnedAway } from "../../engine/api/engine-port.ts";
import type { Answer, Retention, Target, Consistency, TurnedAwayReason } from "../../engine/api/protocol.ts";
import { isUuid } from "../../format/core/binary.ts";
import { isBranchName, isDatabaseName } from "../../format/core/names.ts";
import type { ForwardedCall } from "../../service/placement/peers.ts";
import { actShape } from "./act-shapes.ts";
import { batchShape, readShapes, writeShapes } from "./command-shapes.ts";
import { diffShape, type PastRead, pastShape } from "./past-shapes.ts";
import { malformed } from "./malformed-message.ts";
import type { PayloadCodec } from "./node-protocol.ts";
import type { Shape } from "./payload-shapes.ts";

const callKinds = {
  write: CallKind.WRITE,
  read: CallKind.READ,
  "sql-write": CallKind.SQL_WRITE,
  "sql-read": CallKind.SQL_READ,
  sync: CallKind.SYNC,
  branch: CallKind.BRANCH,
  drop: CallKind.DROP,
} as const satisfies Record<Exclude<PortCall["kind"], "diff">, CallKind>;

const consistencies = { primary: ReadConsistency.PRIMARY, cached: ReadConsistency.CACHED } as const satisfies Record<
  Consistency,
  ReadConsistency
>;
const clientKinds = {
  platform: ClientKind.PLATFORM,
  token: ClientKind.TOKEN,
  anonymous: ClientKind.ANONYMOUS,
} as const satisfies Record<CallerTold["kind"], ClientKind>;
const scopes = { read: ClientScope.READ, write: ClientScope.WRITE, admin: ClientScope.ADMIN } as const satisfies Record<
  NonNullable<CallerTold["scope"]>,
  ClientScope
>;
const reasons = { unheld: WireReason.UNHELD, behind: WireReason.BEHIND } as const satisfies Record<
  TurnedAwayReason,
  WireReason
>;

/**
 * The command of reads of an earlier state, by which a build that knows of none refuses them: it would answer from the
 * newest one.
 */
const pastCommand = "past";
const diffCommand = "diff";

/** A command and a field are no longer together, and what is longer is not repeated. */
const toldCharsMax = 128;

/** The call as a message. */
export function encodeCall(
  id: number,
  { target, call, budgetMs, minTxid, bytes, durable, consistency, caller, traceparent, term }: ForwardedCall,
  codec: PayloadCodec,
): Call {
  return create(CallSchema, {
    id,
    uuid: target.uuid,
    branch: target.branch,
    ...(target.retention && { retention: target.retention }),
    ...(target.database !== undefined && { database: target.database }),
    ...chooseCommand(call),
    payload: codec.encode(choosePayload(call)),
    budgetMs,
    minTxid: BigInt(minTxid),
    inputBytes: BigInt(bytes),
    durable,
    ...(consistency && { consistency: consistencies[consistency] }),
    ...(caller && { client: encodeCaller(caller) }),
    ...(term !== undefined && { term: BigInt(term) }),
    ...(traceparent !== undefined && { traceparent }),
  });
}

/**
 * The call that the message is; `payload` is its whole payload. Throws a ServiceError when it is none that a node
 * makes.
 */
export function decodeCall(message: Call, payload: Uint8Array, codec: PayloadCodec): ForwardedCall {
  const { budgetMs, minTxid, inputBytes, durable, consistency, client, traceparent, term } = message;
  if (!(budgetMs >= 0)) throw malformed("a budget");
  return {
    target: decodeTarget(message),
    call: decodePortCall(message, payload, codec),
    budgetMs,
    minTxid: decodeNumber(minTxid),
    bytes: decodeNumber(inputBytes),
    durable,
    consistency: consistency === ReadConsistency.UNSPECIFIED ? undefined : decodeName(consistencies, consistency),
    caller: client && decodeCaller(client),
    traceparent,
    term: term === undefined ? undefined : decodeNumber(term),
  };
}

/** The answer as a message. */
export function encodeAnswer(id: number, { value, txid, durableTxid }: Answer, codec: PayloadCodec): CallAnswer {
  return create(CallAnswerSchema, {
    id,
    txid: BigInt(txid),
    durableTxid: BigInt(durableTxid),
    payload: codec.encode(value),
  });
}

/** The refusal as a message. */
export function encodeRefusal(id: number, { code, message, detail }: ServiceError): CallAnswer {
  const { retryAfterSecs, httpStatus, headers, txid } = detail;
  const refusal = {
    code,
    message,
    ...(retryAfterSecs !== undefined && { retryAfterSecs }),
    ...(httpStatus !== undefined && { httpStatus }),
    ...(headers && { headers: { ...headers } }),
    ...(txid !== undefined && { txid: BigInt(txid) }),
  };
  return create(CallAnswerSchema, { id, refusal });
}

/** That the call was not taken, as a message. */
export function encodeTurnedAway(id: number, { reason }: TurnedAway): CallAnswer {
  return create(CallAnswerSchema, { id, turnedAway: reasons[reason] });
}

/** The outcome of a call. */
export type Outcome = { readonly answer: Answer } | { readonly error: ServiceError | TurnedAway };

/**
 * The outcome that the message tells; `payload` is its whole payload. Throws a ServiceError when it is none that a node
 * makes.
 */
export function decodeOutcome(
  { txid, durableTxid, turnedAway, refusal }: CallAnswer,
  payload: Uint8Array,
  codec: PayloadCodec,
): Outcome {
  if (refusal) return { error: decodeRefusal(refusal) };
  if (turnedAway !== WireReason.UNSPECIFIED) return { error: new TurnedAway(decodeName(reasons, turnedAway)) };
  return { answer: { value: codec.decode(payload), txid: decodeNumber(txid), durableTxid: decodeNumber(durableTxid) } };
}

function chooseCommand(call: PortCall): Pick<Call, "kind" | "command"> {
  if (toPastRead(call)) return { kind: CallKind.READ, command: pastCommand };
  if (call.kind === "diff") return { kind: CallKind.READ, command: diffCommand };
  const command = call.kind === "write" || call.kind === "read" ? call.command : "";
  return { kind: callKinds[call.kind], command };
}

/** What the payload of a read of an earlier state is; undefined for every other call. */
function toPastRead(call: PortCall): PastRead | undefined {
  if ((call.kind !== "read" && call.kind !== "sql-read") || call.at === undefined) return undefined;
  const { at } = call;
  return call.kind === "read" ? { at, command: call.command, input: call.input } : { at, batch: call.batch };
}

function choosePayload(call: PortCall): unknown {
  const pastRead = toPastRead(call);
  if (pastRead) return pastRead;
  switch (call.kind) {
    case "write":
    case "read":
      return call.input;
    case "sql-write":
    case "sql-read":
      return call.batch;
    case "branch":
      return call.act;
    case "diff":
      return call.asked;
    case "sync":
    case "drop":
      return undefined;
  }
}

function decodePortCall({ kind: wireKind, command }: Call, payload: Uint8Array, codec: PayloadCodec): PortCall {
  const kind = decodeName(callKinds, wireKind);
  const read = <Value>(what: string, shape: Shape<Value>): Value => shaped(codec.decode(payload), what, shape);
  switch (kind) {
    case "write":
      if (!isKey(writeShapes, command)) throw unknownTo(command);
      return { kind, command, input: read<unknown>(command, writeShapes[command] as Shape<unknown>) };
    case "read":
      if (command === diffCommand) return { kind: "diff", asked: read("diff", diffShape) };
      if (command === pastCommand) return decodePastRead(read("past", pastShape));
      if (!isKey(readShapes, command)) throw unknownTo(command);
      return { kind, command, input: read<unknown>(command, readShapes[command] as Shape<unknown>) };
    case "sql-write":
    case "sql-read":
      return { kind, batch: read("batch", batchShape) };
    case "branch":
      return { kind, act: read("act", actShape) };
    case "sync":
    case "drop":
      return { kind };
  }
}

/** A read of an earlier state. */
function decodePastRead({ at, command, input, batch }: PastRead): PortCall {
  if (batch) return { kind: "sql-read", batch, at };
  if (command === undefined || !isKey(readShapes, command)) throw unknownTo(command ?? "a read without a command");
  return { kind: "read", command, input: shaped(input, command, readShapes[command] as Shape<unknown>), at };
}

function isKey<Table extends object>(table: Table, key: string): key is keyof Table & string {
  return Object.hasOwn(table, key);
}

/** The value, which has the shape. */
function shaped<Value>(value: unknown, what: string, { findFault }: Shape<Value>): Value {
  const fault = findFault(value, what);
  if (fault?.isUnknown) throw unknownTo(fault.what);
  if (fault) throw malformed(fault.what);
  return value as Value;
}

/** Leaving out what this node does not know could mean doing something else than was asked for. */
function unknownTo(what: string): ServiceError {
  return new ServiceError(
    "unavailable",
    `the node that writes this database does not know ${what.slice(0, toldCharsMax)}: the nodes are of different ` +
      "builds",
  );
}

function decodeTarget({ uuid, branch, retention, database }: Call): Target {
  if (!isUuid(uuid)) throw malformed("a database's uuid");
  if (!isBranchName(branch)) throw malformed("a branch's name");
  if (database !== undefined && !isDatabaseName(database)) throw malformed("a database's name");
  return {
    uuid,
    branch,
    retention: retention && decodeRetention(retention),
    ...(database !== undefined && { database }),
  };
}

function decodeRetention({ pitrMs, eventMaxAgeMs, supersededMaxAgeMs, supersededMaxCount }: CallRetention): Retention {
  const bounds = [pitrMs, eventMaxAgeMs ?? 0, supersededMaxAgeMs ?? 0, supersededMaxCount ?? 0];
  if (!bounds.every((bound) => Number.isFinite(bound) && bound >= 0)) throw malformed("a retention");
  return {
    pitrMs,
    ...(eventMaxAgeMs !== undefined && { eventMaxAgeMs }),
    ...(supersededMaxAgeMs !== undefined && { supersededMaxAgeMs }),
    ...(supersededMaxCount !== undefined && { supersededMaxCount }),
  };
}

function encodeCaller({ kind, scope, hash }: CallerTold): Omit<CallClient, "$typeName"> {
  return {
    kind: clientKinds[kind],
    scope: scope ? scopes[scope] : ClientScope.UNSPECIFIED,
    ...(hash !== undefined && { hash }),
  };
}

function decodeCaller({ kind, scope, hash }: CallClient): CallerTold {
  return {
    kind: decodeName(clientKinds, kind),
    scope: scope === ClientScope.UNSPECIFIED ? undefined : decodeName(scopes, scope),
    hash,
  };
}

function decodeRefusal({ code, message, retryAfterSecs, httpStatus, headers, txid }: CallRefusal): ServiceError {
  if (!Object.hasOwn(errorCodes, code)) throw malformed("the code of a refusal");
  const detail: ServiceErrorDetail = {
    ...(retryAfterSecs !== undefined && { retryAfterSecs }),
    ...(httpStatus !== undefined && { httpStatus }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(txid !== undefined && { txid: decodeNumber(txid) }),
  };
  return new ServiceError(code as ErrorCode, message, detail);
}

/** The name that has this number in a table. */
function decodeName<Name extends string>(table: Readonly<Record<Name, number>>, value: number): Name {
  for (const name of Object.keys(table) as Name[]) if (table[name] === value) return name;
  throw malformed("a value that this node does not know");
}

function decodeNumber(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw malformed("a number");
  return number;
}
