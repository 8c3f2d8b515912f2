/**
 * What processes run for the engine threads of a node: user SQL, and commands that take long.
 *
 * Always true: the file of a read is held open by its engine thread until the process has read it, however late that
 * is; a write's input is taken from the call that asked for it. Must not know: which process runs what
 * (engine/processes/sql-pool), threads.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import type { ReadKind } from "../../model/commands.ts";
import type { SqlBatch } from "../../model/sql/sql.ts";
import type { CallOptions } from "../api/engine-port.ts";
import type { Answer, FromEngine, Pinned, Target, Work } from "../api/protocol.ts";
import type { JobOwner } from "./sql-job.ts";
import type { SqlPool } from "./sql-pool.ts";
import type { WriteCall, SqlWriteReply } from "../process-calls/sql-write.ts";
import { getTenant } from "../api/tenants.ts";
import { deadlineCheckMs, outOfTime, unwrapAnswer, type WaitingCalls } from "../api/waiting-calls.ts";

interface ProcessWorkParts {
  /** Undefined on a node that runs no processes. */
  readonly sql: SqlPool | undefined;
  readonly world: World;
  /** The calls of engine threads that wait. */
  readonly waiting: WaitingCalls;
  /** Asks the database's engine thread. */
  readonly call: (target: Target, work: Work, options: CallOptions) => Promise<Answer>;
  /** A number that names one piece of work to what runs and stops it. */
  readonly nextTicket: () => number;
  /** The database's name, where it is known. */
  readonly findName: (uuid: string) => string | undefined;
}

/** What a process reads. */
type ProcessRead = ({ readonly batch: SqlBatch } | { readonly command: ReadKind; readonly input: unknown }) & {
  /** The earlier state that is read. */
  readonly at?: string | undefined;
};

/** What is known of a database that a read holds open. */
interface Pin {
  seenTxid: number | undefined;
}

/** Gives work to processes, and its outcome to their callers. */
export class ProcessWork {
  readonly #parts: ProcessWorkParts;

  constructor(parts: ProcessWorkParts) {
    this.#parts = parts;
  }

  /**
   * Has a process run user SQL that reads, or a read that takes long, on the database's file, which is held open
   * meanwhile.
   */
  async read(target: Target, read: ProcessRead, options: CallOptions): Promise<Answer> {
    const { promise: timeUp, reject } = Promise.withResolvers<never>();
    const leftMs = Math.max(0, options.deadlineMs - this.#parts.world.monotonicMs());
    const pin: Pin = { seenTxid: undefined };
    const cancel = this.#parts.world.after(leftMs + deadlineCheckMs, () => reject(outOfTime(pin.seenTxid)));
    try {
      return await Promise.race([this.#pinnedRead(target, read, options, pin), timeUp]);
    } finally {
      cancel();
    }
  }

  /** Outlives its caller where it must: a pinned file is unpinned, however late. */
  async #pinnedRead(target: Target, { at, ...read }: ProcessRead, options: CallOptions, pin: Pin): Promise<Answer> {
    const { sql, call, nextTicket } = this.#parts;
    if (!sql) throw noProcesses();
    const pinned = (await call(target, { kind: "pin", at }, { ...options, deadlineMs: Infinity })) as Answer<Pinned>;
    let seenTxid = (pin.seenTxid = pinned.txid);
    try {
      const { deadlineMs, signal } = options;
      const { path, nowMs, retention } = pinned.value;
      const place = { path, ticket: nextTicket() };
      const answer = await sql.read(
        toJobOwner(target),
        "batch" in read ? { ...place, ...read } : { ...place, ...read, nowMs, retention },
        deadlineMs,
        signal,
      );
      seenTxid = Math.max(seenTxid, answer.txid ?? 0);
      const value = unwrapAnswer({ ...answer, txid: seenTxid });
      return { value, txid: seenTxid, durableTxid: pinned.durableTxid };
    } catch (error) {
      // Refused while it waited for a thread: the database was reached even so.
      const isBare = error instanceof ServiceError && error.detail.txid === undefined;
      throw isBare ? new ServiceError(error.code, error.message, { ...error.detail, txid: seenTxid }) : error;
    } finally {
      await call(target, { kind: "unpin", token: pinned.value.token, seenTxid }, { deadlineMs: Infinity });
    }
  }

  /** Has a process run what an engine thread asks for. Never rejects. */
  async write(lane: number, { call, uuid, leftMs }: Extract<FromEngine, { kind: "sql-run" }>): Promise<SqlWriteReply> {
    const { sql, findName } = this.#parts;
    const whole = this.#withInput(call);
    if (sql && whole) return sql.write(toJobOwner({ uuid, database: findName(uuid) }), lane, whole, leftMs);
    const { code, message } = whole ? noProcesses() : outOfTime();
    return { kind: "refused", code, message };
  }

  /**
   * The input of a command is here already, as that of the call whose number is its ticket; undefined when its caller
   * has stopped waiting.
   */
  #withInput(call: WriteCall): WriteCall | undefined {
    if ("batch" in call) return call;
    const work = this.#parts.waiting.findWork(call.ticket);
    return work?.kind === "write" ? { ...call, input: work.input } : undefined;
  }
}

function toJobOwner({ uuid, database }: Pick<Target, "uuid" | "database">): JobOwner {
  return { uuid, tenant: getTenant({ uuid, database }) };
}

function noProcesses(): ServiceError {
  return new ServiceError("unconfigured", "this node runs no processes for SQL, which it needs");
}
