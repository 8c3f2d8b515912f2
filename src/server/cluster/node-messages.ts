/**
 * Calls between nodes as messages: how a forwarded call and its answer are written, and how what another node has
 * written is read.
 *
 * What a command is given, and what it gives, are plain data of many shapes, with typed arrays, undefined and big
 * integers, the same that cross to the engine threads. They are carried as they cross there, as structured clones: a
 * message for each shape would say the table of commands a second time, and JSON knows a third of the types. The price
 * is that both nodes must have the same idea of a clone, which is what `protocol` is for. Always true: what was read is
 * of a known shape. The kind is in the tables, a command is one of its table's own, names are names, a batch and an act
 * have their fields; what a command itself is given is taken as it comes, as from a thread: only who has the cluster
 * key gets here. Must not know: streams, who may do what.
 */
import { DefaultDeserializer, serialize } from "node:v8";
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
import type { Answer, BranchAct, Retention, Target, Consistency, TurnedAwayReason } from "../../engine/api/protocol.ts";
import { isUuid } from "../../format/core/binary.ts";
import { isBranchName, isDatabaseName } from "../../format/core/names.ts";
import { type ReadKind, readCommands, type WriteKind, writeCommands } from "../../model/commands.ts";
import type { SqlBatch } from "../../model/sql/sql.ts";
import type { ForwardedCall } from "../../service/placement/peers.ts";

/** Our own version of the messages, and the version of V8 that writes the clones in them. */
export const protocol = `1/${process.versions.v8.split(".", 1)[0]!}`;

const callKinds = {
  write: CallKind.WRITE,
  read: CallKind.READ,
  "sql-write": CallKind.SQL_WRITE,
  "sql-read": CallKind.SQL_READ,
  sync: CallKind.SYNC,
  branch: CallKind.BRANCH,
  drop: CallKind.DROP,
} as const satisfies Record<PortCall["kind"], CallKind>;

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

/** The texts that each act must have, which end in names and keys. */
const actTexts: Readonly<Record<BranchAct["act"], readonly string[]>> = {
  fork: ["name"],
  list: [],
  delete: ["name"],
  checkpoint: ["name"],
  checkpoints: [],
  "forget-checkpoint": ["name"],
  rewind: ["to"],
  erase: ["couponId"],
  expunge: [],
  sweep: ["branchId"],
};

const nothing = new Uint8Array(0);

/** What is wrong with a message of another node. */
export function malformed(what: string): ServiceError {
  return new ServiceError("invalid_request", `a message of another node is malformed: ${what}`);
}

/** The call as a message. */
export function messageOfCall(
  id: number,
  { target, call, budgetMs, minTxid, bytes, durable, consistency, caller, traceparent, term }: ForwardedCall,
): Call {
  return create(CallSchema, {
    id,
    uuid: target.uuid,
    branch: target.branch,
    ...(target.retention && { retention: target.retention }),
    ...(target.database !== undefined && { database: target.database }),
    kind: callKinds[call.kind],
    command: call.kind === "write" || call.kind === "read" ? call.command : "",
    payload: payloadOf(inputOf(call)),
    budgetMs,
    minTxid: BigInt(minTxid),
    inputBytes: BigInt(bytes),
    durable,
    ...(consistency && { consistency: consistencies[consistency] }),
    ...(caller && { client: messageOfCaller(caller) }),
    ...(term !== undefined && { term: BigInt(term) }),
    ...(traceparent !== undefined && { traceparent }),
  });
}

/**
 * The call that the message is; `payload` is its whole payload. Throws a ServiceError when it is none that a node
 * makes.
 */
export function callOfMessage(message: Call, payload: Uint8Array): ForwardedCall {
  const { budgetMs, minTxid, inputBytes, durable, consistency, client, traceparent, term } = message;
  if (!(budgetMs >= 0)) throw malformed("a budget");
  return {
    target: targetOf(message),
    call: portCallOf(message, payload),
    budgetMs,
    minTxid: numberOf(minTxid),
    bytes: numberOf(inputBytes),
    durable,
    consistency: consistency === ReadConsistency.UNSPECIFIED ? undefined : nameOf(consistencies, consistency),
    caller: client && callerOf(client),
    traceparent,
    term: term === undefined ? undefined : numberOf(term),
  };
}

/** The answer as a message. */
export function messageOfAnswer(id: number, { value, txid, durableTxid }: Answer): CallAnswer {
  return create(CallAnswerSchema, {
    id,
    txid: BigInt(txid),
    durableTxid: BigInt(durableTxid),
    payload: payloadOf(value),
  });
}

/** The refusal as a message. */
export function messageOfRefusal(id: number, { code, message, detail }: ServiceError): CallAnswer {
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
export function messageOfTurnedAway(id: number, { reason }: TurnedAway): CallAnswer {
  return create(CallAnswerSchema, { id, turnedAway: reasons[reason] });
}

/** What came of a call. */
export type Outcome = { readonly answer: Answer } | { readonly error: ServiceError | TurnedAway };

/**
 * The outcome that the message tells; `payload` is its whole payload. Throws a ServiceError when it is none that a node
 * makes.
 */
export function outcomeOfMessage({ txid, durableTxid, turnedAway, refusal }: CallAnswer, payload: Uint8Array): Outcome {
  if (refusal) return { error: refusalOfMessage(refusal) };
  if (turnedAway !== WireReason.UNSPECIFIED) return { error: new TurnedAway(nameOf(reasons, turnedAway)) };
  return { answer: { value: valueOf(payload), txid: numberOf(txid), durableTxid: numberOf(durableTxid) } };
}

function inputOf(call: PortCall): unknown {
  switch (call.kind) {
    case "write":
    case "read":
      return call.input;
    case "sql-write":
    case "sql-read":
      return call.batch;
    case "branch":
      return call.act;
    case "sync":
    case "drop":
      return undefined;
  }
}

function portCallOf({ kind: wireKind, command }: Call, payload: Uint8Array): PortCall {
  const kind = nameOf(callKinds, wireKind);
  switch (kind) {
    case "write":
      if (!Object.hasOwn(writeCommands, command)) throw unknownCommand();
      return { kind, command: command as WriteKind, input: valueOf(payload) };
    case "read":
      if (!Object.hasOwn(readCommands, command)) throw unknownCommand();
      return { kind, command: command as ReadKind, input: valueOf(payload) };
    case "sql-write":
    case "sql-read":
      return { kind, batch: batchOf(recordOf(payload)) };
    case "branch":
      return { kind, act: actOf(recordOf(payload)) };
    case "sync":
    case "drop":
      return { kind };
  }
}

function unknownCommand(): ServiceError {
  return new ServiceError(
    "unavailable",
    "the node that writes this database does not know the command: the nodes are of different builds",
  );
}

function targetOf({ uuid, branch, retention, database }: Call): Target {
  if (!isUuid(uuid)) throw malformed("a database's uuid");
  if (!isBranchName(branch)) throw malformed("a branch's name");
  if (database !== undefined && !isDatabaseName(database)) throw malformed("a database's name");
  return { uuid, branch, retention: retention && retentionOf(retention), ...(database !== undefined && { database }) };
}

function retentionOf({ pitrMs, eventMaxAgeMs, supersededMaxAgeMs, supersededMaxCount }: CallRetention): Retention {
  const bounds = [pitrMs, eventMaxAgeMs ?? 0, supersededMaxAgeMs ?? 0, supersededMaxCount ?? 0];
  if (!bounds.every((bound) => Number.isFinite(bound) && bound >= 0)) throw malformed("a retention");
  return {
    pitrMs,
    ...(eventMaxAgeMs !== undefined && { eventMaxAgeMs }),
    ...(supersededMaxAgeMs !== undefined && { supersededMaxAgeMs }),
    ...(supersededMaxCount !== undefined && { supersededMaxCount }),
  };
}

function messageOfCaller({ kind, scope, hash }: CallerTold): Omit<CallClient, "$typeName"> {
  return {
    kind: clientKinds[kind],
    scope: scope ? scopes[scope] : ClientScope.UNSPECIFIED,
    ...(hash !== undefined && { hash }),
  };
}

function callerOf({ kind, scope, hash }: CallClient): CallerTold {
  return {
    kind: nameOf(clientKinds, kind),
    scope: scope === ClientScope.UNSPECIFIED ? undefined : nameOf(scopes, scope),
    hash,
  };
}

function batchOf(record: Readonly<Record<string, unknown>>): SqlBatch {
  const { statements, atomic, mayWrite } = record;
  const isStatement = (statement: unknown): boolean => {
    const { text, paramsJson } = (statement ?? {}) as Readonly<Record<string, unknown>>;
    return typeof text === "string" && (paramsJson === undefined || typeof paramsJson === "string");
  };
  const isBatch =
    Array.isArray(statements) &&
    statements.every(isStatement) &&
    typeof atomic === "boolean" &&
    typeof mayWrite === "boolean";
  if (!isBatch) throw malformed("a batch of SQL");
  return record as unknown as SqlBatch;
}

function actOf(record: Readonly<Record<string, unknown>>): BranchAct {
  const act = record["act"];
  if (typeof act !== "string" || !Object.hasOwn(actTexts, act)) throw unknownCommand();
  const isWhole =
    actTexts[act as BranchAct["act"]].every((field) => typeof record[field] === "string") &&
    (act !== "erase" || (isRecord(record["erase"]) && record["traceKey"] instanceof Uint8Array)) &&
    (act !== "expunge" || Array.isArray(record["coupons"]));
  if (!isWhole) throw malformed("an act on branches");
  return record as unknown as BranchAct;
}

function refusalOfMessage({ code, message, retryAfterSecs, httpStatus, headers, txid }: CallRefusal): ServiceError {
  if (!Object.hasOwn(errorCodes, code)) throw malformed("the code of a refusal");
  const detail: ServiceErrorDetail = {
    ...(retryAfterSecs !== undefined && { retryAfterSecs }),
    ...(httpStatus !== undefined && { httpStatus }),
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(txid !== undefined && { txid: numberOf(txid) }),
  };
  return new ServiceError(code as ErrorCode, message, detail);
}

/** The name that has this number in a table. */
function nameOf<Name extends string>(table: Readonly<Record<Name, number>>, value: number): Name {
  for (const name of Object.keys(table) as Name[]) if (table[name] === value) return name;
  throw malformed("a value that this node does not know");
}

function numberOf(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw malformed("a number");
  return number;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function recordOf(payload: Uint8Array): Readonly<Record<string, unknown>> {
  const value = valueOf(payload);
  if (!isRecord(value)) throw malformed("a batch or an act");
  return value;
}

function payloadOf(value: unknown): Uint8Array {
  return value === undefined ? nothing : serialize(value);
}

function valueOf(payload: Uint8Array): unknown {
  if (payload.length === 0) return undefined;
  const reader = new Cloned(payload);
  try {
    reader.readHeader();
    return reader.readValue();
  } catch (error) {
    // V8 says no more than that it cannot read it.
    throw malformed(`a structured clone (${error instanceof Error ? error.name : "unreadable"})`);
  }
}

/** Part of the runtime's documented way to extend it, though its type does not show it. */
const { _readHostObject: readView } = DefaultDeserializer.prototype as unknown as {
  _readHostObject(): ArrayBufferView;
};

/**
 * Reads a clone into arrays that have their own memory. The runtime's are views of the whole message, and a view that
 * is sent to a thread takes all of what it looks at with it: every vector of a batch would be copied with all others.
 */
class Cloned extends DefaultDeserializer {
  _readHostObject(): ArrayBufferView {
    const view = readView.call(this);
    // A new Buffer may be a part of memory that others have too.
    const ArrayType = (Buffer.isBuffer(view) ? Uint8Array : view.constructor) as new (
      from: ArrayBufferView,
    ) => ArrayBufferView;
    return view.byteLength === view.buffer.byteLength ? view : new ArrayType(view);
  }
}
