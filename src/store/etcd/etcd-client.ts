/**
 * The few calls of etcd v3 that leases need, over gRPC, to whichever of its endpoints answers.
 *
 * Always true: every call ends within its time at each endpoint. All calls here may be repeated, because a transaction
 * compares what it rests on, so a call goes to the next endpoint when one does not answer; only when none did is its
 * outcome unknown. Must not know: what the keys mean, and when a lease is to be renewed.
 *
 * Why not a client library such as etcd3: it repeats calls out of sight and keeps leases alive by timers of its own.
 * Here a lease may only be renewed by a node that has just proven progress, on the clock of the World, and must lapse
 * when it cannot.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  Compare_CompareTarget,
  type TxnRequestSchema,
  type TxnResponse,
} from "../../../gen/etcd/api/etcdserverpb/rpc_pb.ts";
import type { KeyValue } from "../../../gen/etcd/api/mvccpb/kv_pb.ts";
import { encodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { EtcdEndpoint, parseEtcdAddress, isUnseen, Unanswered, type EtcdAsk } from "./etcd-endpoint.ts";

export const coordEndpointsMax = 16;

/** A key as etcd has it. */
export interface EtcdEntry {
  readonly key: string;
  readonly value: Uint8Array;
  /** Changes whenever the key does. */
  readonly revision: bigint;
}

type Transaction = MessageInitShape<typeof TxnRequestSchema>;
/** A step of a transaction. */
export type EtcdStep = NonNullable<Transaction["success"]>[number];
/** What must hold for a transaction. */
export type EtcdCondition = NonNullable<Transaction["compare"]>[number];

/**
 * The outcome of a transaction: whether its conditions held, and what the steps of either branch read, in their order.
 */
export interface EtcdOutcome {
  readonly succeeded: boolean;
  readonly read: readonly (readonly EtcdEntry[])[];
  /** How many keys there are in each of the ranges that were read, also where fewer were asked for. */
  readonly counts: readonly number[];
}

/** The lease is not etcd's, or not any more; nothing was done with it. */
export class UnknownLease extends Error {
  override readonly name = "UnknownLease";
}

/** Puts the key; it ends with the lease, if there is one. */
export function put(key: string, value: string, lease?: bigint): EtcdStep {
  return {
    request: { case: "requestPut", value: { key: encodeUtf8(key), value: encodeUtf8(value), lease: lease ?? 0n } },
  };
}

/** Reads the key. */
export function get(key: string): EtcdStep {
  return { request: { case: "requestRange", value: { key: encodeUtf8(key) } } };
}

/**
 * Reads the keys with that prefix, up to the given number, in their order; only those behind `after`, if it is given.
 * The last character must not be the last of its kind.
 */
export function list(prefix: string, countMax: number, after?: string): EtcdStep {
  const end = prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
  // The key that comes right behind another one ends with a zero more.
  const key = after === undefined ? prefix : `${after}\0`;
  return {
    request: {
      case: "requestRange",
      value: { key: encodeUtf8(key), rangeEnd: encodeUtf8(end), limit: BigInt(countMax) },
    },
  };
}

/** Deletes the key, if it is there. */
export function remove(key: string): EtcdStep {
  return { request: { case: "requestDeleteRange", value: { key: encodeUtf8(key) } } };
}

/** The key is as it was seen; undefined when it was not there. */
export function unchanged(key: string, seen: EtcdEntry | undefined): EtcdCondition {
  return {
    target: Compare_CompareTarget.MOD,
    key: encodeUtf8(key),
    targetUnion: { case: "modRevision", value: seen?.revision ?? 0n },
  };
}

export class EtcdClient {
  readonly #endpoints: readonly EtcdEndpoint[];
  /** The endpoint that is asked first: the one that answered last. */
  #preferred = 0;

  /** Reads the endpoints; nothing is sent yet. Throws `misconfigured` when one of them is none. */
  constructor(endpoints: readonly string[], world: Pick<World, "after">) {
    if (endpoints.length < 1 || endpoints.length > coordEndpointsMax) {
      throw new StoreError("misconfigured", `etcd: there must be 1 to ${coordEndpointsMax} endpoints`);
    }
    this.#endpoints = endpoints.map((text) => new EtcdEndpoint(parseEtcdAddress(text), world));
  }

  /** Carries out `then` when every condition holds, otherwise `otherwise`. Throws UnknownLease. */
  async transact(
    conditions: readonly EtcdCondition[],
    then: readonly EtcdStep[],
    otherwise: readonly EtcdStep[] = [],
  ): Promise<EtcdOutcome> {
    const changes = [...then, ...otherwise].some((step) => step.request?.case !== "requestRange");
    const request: Transaction = { compare: [...conditions], success: [...then], failure: [...otherwise] };
    return toOutcome(await this.#ask("transaction", changes, ({ kv }, options) => kv.txn(request, options)));
  }

  /** A new lease. */
  async grant(ttlSecs: number): Promise<{ readonly id: bigint; readonly ttlSecs: number }> {
    const granted = await this.#ask("grant of a lease", true, ({ lease }, options) =>
      lease.leaseGrant({ TTL: BigInt(ttlSecs) }, options),
    );
    if (granted.ID === 0n) throw new StoreError("unavailable", "etcd: no lease was granted");
    return { id: granted.ID, ttlSecs: Number(granted.TTL) };
  }

  /** Lets the lease begin anew and answers for how long. Throws UnknownLease. */
  async keepAlive(id: bigint): Promise<number> {
    const ttlSecs = await this.#ask("renewal of a lease", true, async ({ lease }, options) => {
      let ttl: bigint | undefined;
      // Read to its end, which comes with that of the requests: a stream that is left alone stays open.
      for await (const answer of lease.leaseKeepAlive(once({ ID: id }), options)) ttl ??= answer.TTL;
      if (ttl === undefined) throw new ConnectError("the stream ended without an answer", Code.Unavailable);
      return Number(ttl);
    });
    if (ttlSecs <= 0) throw new UnknownLease("etcd knows no such lease");
    return ttlSecs;
  }

  /** Ends the lease, and every key that was put with it. */
  async revoke(id: bigint): Promise<void> {
    try {
      await this.#ask("end of a lease", true, ({ lease }, options) => lease.leaseRevoke({ ID: id }, options));
    } catch (error) {
      // It has ended already.
      if (!(error instanceof UnknownLease)) throw error;
    }
  }

  /** Cuts every connection. */
  close(): void {
    for (const endpoint of this.#endpoints) endpoint.close();
  }

  /** Asks one endpoint after the other, each once, until there is an answer. */
  async #ask<T>(what: string, changes: boolean, ask: EtcdAsk<T>): Promise<T> {
    let mayHaveHappened = false;
    let fault: unknown;
    for (let tried = 0; tried < this.#endpoints.length; tried++) {
      const at = this.#preferred;
      const endpoint = this.#endpoints[at]!;
      try {
        return await endpoint.ask(ask);
      } catch (error) {
        if (isAnswer(error)) throw toRefusal(what, error);
        mayHaveHappened ||= changes && !isHarmless(error);
        fault = new Error(`${endpoint.origin}: ${describeError(error)}`);
        // Unless another call has turned to another endpoint meanwhile.
        if (this.#preferred === at) this.#preferred = (at + 1) % this.#endpoints.length;
      }
    }
    if (mayHaveHappened)
      throw new StoreError("unknown_outcome", `etcd: a ${what} had no answer, and may have happened`, { cause: fault });
    throw new StoreError("unavailable", `etcd: a ${what} had no answer`, { cause: fault });
  }
}

async function* once<T>(request: T): AsyncGenerator<T> {
  yield request;
}

/** Answers of etcd that any other endpoint would give too; none of them has changed anything. */
const answers: readonly Code[] = [
  Code.InvalidArgument,
  Code.NotFound,
  Code.PermissionDenied,
  Code.FailedPrecondition,
  Code.OutOfRange,
  Code.Unimplemented,
  Code.Unauthenticated,
];

function isAnswer(error: unknown): error is ConnectError {
  return error instanceof ConnectError && answers.includes(error.code);
}

function toRefusal(what: string, error: ConnectError): Error {
  if (error.code === Code.NotFound) return new UnknownLease("etcd knows no such lease");
  return new StoreError("misconfigured", `etcd: a ${what} was refused: ${describeError(error)}`, { cause: error });
}

/** Whether a failed ask surely changed nothing: it never arrived, or etcd had no leader or no room for it. */
function isHarmless(error: unknown): boolean {
  if (error instanceof Unanswered) return !error.wasSent;
  if (isUnseen(error)) return true;
  return (
    error instanceof ConnectError &&
    /^etcdserver: (?:no leader|too many requests|mvcc: database space exceeded)/.test(error.rawMessage)
  );
}

/** What etcd or the connection says of it; credentials go into neither. */
function describeError(error: unknown): string {
  const text = error instanceof ConnectError ? error.rawMessage : error instanceof Error ? error.message : "failed";
  return text.slice(0, limits.coordMessageCharsMax);
}

function toOutcome({ succeeded, responses }: TxnResponse): EtcdOutcome {
  const ranges = responses.flatMap(({ response }) => (response.case === "responseRange" ? [response.value] : []));
  return {
    succeeded,
    read: ranges.map(({ kvs }) => kvs.map(toEntry)),
    counts: ranges.map(({ count }) => Number(count)),
  };
}

function toEntry({ key, value, modRevision }: KeyValue): EtcdEntry {
  return { key: Buffer.from(key).toString(), value, revision: modRevision };
}
