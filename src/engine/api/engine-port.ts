/**
 * The engine as the service sees it: typed calls to databases, wherever their writer is.
 *
 * Always true: a call is plain data, so that what answers it may be this process's own engine (engine/threads/client)
 * or a node that asks another one (service/placement/placement). Must not know: threads, nodes, leases.
 */
import { invalid } from "../../base/faults/errors.ts";
import type { Trace } from "../../base/trace.ts";
import type { ReadInput, ReadKind, ReadOutput, WriteInput, WriteKind, WriteOutput } from "../../model/commands.ts";
import type { IdempotencyKey, RepeatableAnswer } from "../../model/core/idempotency.ts";
import type { SqlBatch, SqlOutcome, SqlStatementResult } from "../../model/sql/sql.ts";
import type {
  Answer,
  BranchAct,
  BranchResults,
  DiffAsked,
  DiffPage,
  Target,
  Consistency,
  TurnedAwayReason,
} from "./protocol.ts";

/** What a call asks of a database, as plain data. */
export type PortCall =
  | { readonly kind: "write"; readonly command: WriteKind; readonly input: unknown }
  /** `at` names an earlier state that is read instead of the newest. */
  | { readonly kind: "read"; readonly command: ReadKind; readonly input: unknown; readonly at?: string | undefined }
  /** User SQL that may write. */
  | { readonly kind: "sql-write"; readonly batch: SqlBatch }
  /** User SQL that only reads; answered with kind `writes` when a statement turns out to write. */
  | { readonly kind: "sql-read"; readonly batch: SqlBatch; readonly at?: string | undefined }
  /** What differs between two states. */
  | { readonly kind: "diff"; readonly asked: DiffAsked }
  | { readonly kind: "sync" }
  | { readonly kind: "branch"; readonly act: BranchAct }
  | { readonly kind: "drop" };

export interface CallOptions {
  /** On world.monotonicMs(). */
  readonly deadlineMs: number;
  readonly minTxid?: number;
  /** Size of the input, for the bound on a commit group. */
  readonly bytes?: number;
  /** Aborted when the caller has gone away; a running read of user SQL is then stopped. */
  readonly signal?: AbortSignal;
  /** A write is answered only when object storage covers it. */
  readonly durable?: boolean;
  readonly consistency?: Consistency | undefined;
  /** Of a read: the earlier state that it is of, by a transaction id, a checkpoint's name or a time. */
  readonly at?: string | undefined;
  /** On whose behalf, where a client is; a node that forwards the call tells it. Undefined is the node itself. */
  readonly caller?: CallerTold | undefined;
  /** Of a call that its client may repeat: the key of each write that it makes, in their order. */
  readonly idempotency?: { take(): IdempotencyKey } | undefined;
  /** The request of a client that the call belongs to; a node that forwards the call tells it. */
  readonly trace?: Trace | undefined;
}

/** What another node is told of the client whose call it serves. */
export interface CallerTold {
  readonly kind: "platform" | "token" | "anonymous";
  readonly scope: "read" | "write" | "admin" | undefined;
  /** The keyed hash of the credential, as the audit stream has it. */
  readonly hash: string | undefined;
}

/** Calls to databases. Every call settles once, by its answer, its deadline, or the loss of who was to answer. */
export abstract class EnginePort {
  /** Runs the call; resolves when the state that the answer speaks of cannot be lost by a crash. */
  abstract run(target: Target, call: PortCall, options: CallOptions): Promise<Answer>;

  /** Runs a write, or gives the answer that its repeated call was given; resolves when it is on disk. */
  async write<Kind extends WriteKind>(
    target: Target,
    command: Kind,
    input: WriteInput<Kind>,
    options: CallOptions,
  ): Promise<Answer<WriteOutput<Kind>>> {
    const { idempotency } = options;
    refusePast(options);
    if (idempotency) {
      const call = { kind: "write", command: "repeatable", input: { ...idempotency.take(), command, input } } as const;
      return toAnswer(await this.run(target, call, options));
    }
    return (await this.run(target, { kind: "write", command, input }, options)) as Answer<WriteOutput<Kind>>;
  }

  /** Runs a read; resolves when the state it saw is on disk. */
  async read<Kind extends ReadKind>(
    target: Target,
    command: Kind,
    input: ReadInput<Kind>,
    options: CallOptions,
  ): Promise<Answer<ReadOutput<Kind>>> {
    const { at } = options;
    return (await this.run(target, { kind: "read", command, input, at }, options)) as Answer<ReadOutput<Kind>>;
  }

  /**
   * Runs user SQL that may write, alone in a transaction, in a process of its own while the owner of the file writes
   * nothing else; a repeated call is answered as `write` does.
   */
  async sqlWrite(target: Target, batch: SqlBatch, options: CallOptions): Promise<Answer<SqlStatementResult[]>> {
    refusePast(options);
    const idempotency = options.idempotency?.take();
    if (idempotency)
      return toAnswer(await this.run(target, { kind: "sql-write", batch: { ...batch, idempotency } }, options));
    return (await this.run(target, { kind: "sql-write", batch }, options)) as Answer<SqlStatementResult[]>;
  }

  /** Runs user SQL that only reads in a process of its own; `writes` when a statement turns out to write. */
  async sqlRead(target: Target, batch: SqlBatch, options: CallOptions): Promise<Answer<SqlOutcome>> {
    const { at } = options;
    return (await this.run(target, { kind: "sql-read", batch, at }, options)) as Answer<SqlOutcome>;
  }

  /** A page of what differs between two states. */
  async diff(target: Target, asked: DiffAsked, options: CallOptions): Promise<Answer<DiffPage>> {
    return (await this.run(target, { kind: "diff", asked }, options)) as Answer<DiffPage>;
  }

  /** Resolves once object storage covers everything that is committed on the branch. */
  async sync(target: Target, options: CallOptions): Promise<Answer<undefined>> {
    return (await this.run(target, { kind: "sync" }, options)) as Answer<undefined>;
  }

  /** Changes branches, checkpoints or history. */
  async branch<Act extends BranchAct>(
    target: Target,
    act: Act,
    options: CallOptions,
  ): Promise<Answer<BranchResults[Act["act"]]>> {
    return (await this.run(target, { kind: "branch", act }, options)) as Answer<BranchResults[Act["act"]]>;
  }

  /** Closes the database and removes its files from this node; its objects are purged later. */
  async deleteTarget(target: Target, options: CallOptions): Promise<void> {
    await this.run(target, { kind: "drop" }, options);
  }
}

/** What was is not changed. */
function refusePast({ at }: CallOptions): void {
  if (at !== undefined) throw invalid("Service-At is for reads: an earlier state cannot be written; fork it instead");
}

/** What a write that may be repeated has given, with the transaction id of the write itself. */
function toAnswer<Value>({ value, durableTxid }: Answer): Answer<Value> {
  const { value: own, txid, isRepeat } = value as RepeatableAnswer;
  return { value: own as Value, txid, durableTxid, isRepeat };
}

/** The call was not for this engine. It has had no effect, and another node may take it. */
export class TurnedAway extends Error {
  override readonly name = "TurnedAway";
  readonly reason: TurnedAwayReason;

  constructor(reason: TurnedAwayReason) {
    super(
      reason === "unheld" ? "this node does not hold the database's lease" : "this node's copy is too old for the call",
    );
    this.reason = reason;
  }
}
