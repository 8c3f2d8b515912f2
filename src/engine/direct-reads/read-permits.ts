/**
 * Permits for the main thread to read open files by itself: a small read then costs no hop between threads, which takes
 * longer than the read.
 *
 * Always true: a permit is for a file that is open here and written by nobody else, and that file is closed here only
 * once the main thread has closed its own connection to it. Must not know: how the main thread reads.
 */
import { assert } from "../../base/faults/assert.ts";
import type { ReadKind } from "../../model/commands.ts";
import type { FromEngine, PermittedFile } from "../api/protocol.ts";
import { PermitWords } from "./permit-words.ts";

/** Reads that the main thread may do: of one row each, so that they hold it for no longer than a hop would. */
const directKinds: ReadonlySet<ReadKind> = new Set<ReadKind>(["kv.get", "docs.get", "memory.get"]);

/** Permits of one engine thread. Each is a connection, with a cache of its own, on the main thread. */
const permitsMax = 64;
/** The main thread answers within milliseconds, unless the process is stopped. */
const closedWithinMs = 30_000;

/** Whether the read is one that a permit is for. */
export function isDirect(command: ReadKind): boolean {
  return directKinds.has(command);
}

/** A permit that was given. */
export interface ReadPermit {
  readonly id: number;
  readonly words: PermitWords;
}

/** The permits of one engine thread. */
export class ReadPermits {
  readonly #send: (message: FromEngine) => void;
  /** In the order in which they were given. */
  readonly #given = new Map<number, ReadPermit>();
  #nextId = 1;

  constructor(send: (message: FromEngine) => void) {
    this.#send = send;
  }

  /** Gives a permit, at these levels. Where there are too many the oldest is revoked instead, which makes room. */
  give(file: PermittedFile, syncedTxid: number, durableTxid: number): ReadPermit | undefined {
    for (const [id, { words }] of this.#given) if (words.isClosed) this.#given.delete(id);
    if (this.#given.size >= permitsMax) {
      const [oldest] = this.#given.values();
      this.revoke(oldest!);
      return undefined;
    }
    const permit = { id: this.#nextId++, words: new PermitWords() };
    permit.words.raise(syncedTxid, durableTxid);
    this.#given.set(permit.id, permit);
    this.#send({ kind: "read-permit", id: permit.id, file, shared: permit.words.shared });
    return permit;
  }

  /** Nothing more is answered by it; the main thread closes its connection soon. */
  revoke({ id, words }: ReadPermit): void {
    if (words.isRevoked) return;
    words.revoke();
    this.#send({ kind: "read-permit-ended", id });
  }

  /** Revokes it, and returns when the main thread has no connection to the file any more. */
  end(permit: ReadPermit): void {
    this.revoke(permit);
    const isClosed = permit.words.waitUntilClosed(closedWithinMs);
    assert(isClosed, "the main thread closes a file whose permit is revoked");
    this.#given.delete(permit.id);
  }
}
