/** Writing batches of user SQL as an engine thread has them run: by a process, through the main thread. */
import { assert } from "../../base/faults/assert.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import type { FromEngine } from "../api/protocol.ts";
import type { SqlWriteEnd, SqlWriter, WriteCall, SqlFault, SqlWriteReply } from "../process-calls/sql-write.ts";

/** A fault of the process as it would be if the thread had met it itself: its code says whether storage failed. */
function toError({ message, stack, code }: SqlFault): Error {
  return Object.assign(new Error(message), { stack, code });
}

function toWriteEnd(reply: SqlWriteReply): SqlWriteEnd {
  switch (reply.kind) {
    case "refused":
      return { kind: "failed", error: new ServiceError(reply.code, reply.message, reply.detail) };
    case "fault":
      return { kind: "failed", error: toError(reply.fault) };
    default:
      return reply;
  }
}

export class RemoteSql implements SqlWriter {
  readonly #send: (message: FromEngine) => void;
  /** The waiting callers, by ticket. */
  readonly #waiting = new Map<number, (end: SqlWriteEnd) => void>();

  constructor(send: (message: FromEngine) => void) {
    this.#send = send;
  }

  run(call: WriteCall, uuid: string, leftMs: number): Promise<SqlWriteEnd> {
    return new Promise((resolve) => {
      this.#waiting.set(call.ticket, resolve);
      // The main thread still has a command's input: it does not cross twice.
      this.#send({ kind: "sql-run", call: "batch" in call ? call : { ...call, input: undefined }, uuid, leftMs });
    });
  }

  /** The main thread says what became of a batch. */
  ran(ticket: number, reply: SqlWriteReply): void {
    const resolve = this.#waiting.get(ticket);
    assert(resolve, "a batch is answered once");
    this.#waiting.delete(ticket);
    resolve(toWriteEnd(reply));
  }
}
