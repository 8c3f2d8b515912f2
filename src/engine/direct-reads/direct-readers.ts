/**
 * Reads that the main thread does by itself, of files that engine threads have permitted it.
 *
 * Always true: what is answered is on disk, as the engine's answer would be: a state that is not is left to the engine,
 * which waits for it. A connection is closed as soon as its permit is revoked, as its engine waits for that. Whatever
 * is unusual (an error, an older state than the caller has seen, a clock behind the newest commit) is left to the
 * engine too. Must not know: why a permit is given or revoked.
 */
import { ServiceError } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import { runRead, type ReadKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import { VectorChanges } from "../../model/index/vector-changes.ts";
import { readState } from "../../model/core/database-state.ts";
import { Connection } from "../../sqlite/connection/connection.ts";
import { buildBranchKey, type Answer, type FromEngine, type PermittedFile, type Target } from "../api/protocol.ts";
import { PermitWords } from "./permit-words.ts";
import { isDirect } from "./read-permits.ts";

/** KiB of page cache for each connection: the pages of the upper levels, and some leaves. */
const pageCacheKiB = 256;
/** One read in this time goes to the engine, which so knows that the file is in use. */
const directForMs = 1_000;

interface Reader {
  readonly file: PermittedFile;
  readonly lane: number;
  readonly id: number;
  readonly words: PermitWords;
  readonly connection: Connection;
  retention: MemoryRetention | undefined;
  askedAtMs: number;
}

/** What a read asks of the state that it sees. */
export interface DirectRead {
  readonly command: ReadKind;
  readonly input: unknown;
  /** The caller has seen this transaction id. */
  readonly minTxid: number;
}

/** The files that the main thread reads. */
export class DirectReaders {
  readonly #world: World;
  readonly #readers = new Map<string, Reader>();

  constructor(world: World) {
    this.#world = world;
  }

  /** An engine thread has given or ended a permit. */
  hear(lane: number, message: Extract<FromEngine, { kind: "read-permit" | "read-permit-ended" }>): void {
    if (message.kind === "read-permit") return this.#open(lane, message);
    for (const reader of this.#readers.values())
      if (reader.lane === lane && reader.id === message.id) this.#close(reader);
  }

  /** The engine thread is gone, and with it its permits: another one will open the files. */
  lost(lane: number): void {
    for (const reader of this.#readers.values()) if (reader.lane === lane) this.#close(reader);
  }

  /** Ends all reading: the node's leases are lost. */
  closeAll(): void {
    for (const reader of this.#readers.values()) this.#close(reader);
  }

  /** The answer; undefined when the engine is to be asked. */
  read(target: Target, { command, input, minTxid }: DirectRead): Answer | undefined {
    if (!isDirect(command)) return undefined;
    const reader = this.#readers.get(buildBranchKey(target));
    if (!reader) return undefined;
    if (target.retention) reader.retention = target.retention;
    const { file, words } = reader;
    const atMs = this.#world.monotonicMs();
    if (words.isRevoked || atMs >= reader.askedAtMs + directForMs || (minTxid > 0 && minTxid <= file.lostTxidMax)) {
      reader.askedAtMs = atMs;
      return undefined;
    }
    const nowMs = this.#world.nowMs();
    if (nowMs >= file.expiresAtMs) return undefined;
    try {
      return this.#answer(reader, command, input, nowMs, minTxid);
    } catch (error) {
      // Whatever it is, the engine finds out, and answers for it. A file that cannot be read is not tried again here.
      if (!(error instanceof ServiceError)) this.#close(reader);
      return undefined;
    }
  }

  #answer(reader: Reader, command: ReadKind, input: unknown, nowMs: number, minTxid: number): Answer | undefined {
    const { connection, words, retention } = reader;
    connection.run("BEGIN");
    try {
      const { txid, committedAtMs } = readState(connection);
      if (txid > words.syncedTxid || txid < minTxid || committedAtMs > nowMs) return undefined;
      const { durableTxid } = words;
      const value = runRead(command, { connection, nowMs, retention, vectors: new VectorChanges() }, input);
      return { value, txid, durableTxid };
    } finally {
      connection.rollBack();
    }
  }

  #open(lane: number, { id, file, shared }: Extract<FromEngine, { kind: "read-permit" }>): void {
    const words = new PermitWords(shared);
    // Of a file that was closed and opened again meanwhile.
    const before = this.#readers.get(buildBranchKey(file));
    if (before) this.#close(before);
    if (words.isRevoked) return words.close();
    try {
      const connection = new Connection(file.path, { readonly: true, pageCacheKiB });
      const askedAtMs = this.#world.monotonicMs();
      const reader = { file, lane, id, words, connection, retention: file.retention, askedAtMs };
      this.#readers.set(buildBranchKey(file), reader);
    } catch {
      // Then the engine goes on reading; a file that cannot be opened is its own to tell of.
      words.close();
    }
  }

  #close(reader: Reader): void {
    this.#readers.delete(buildBranchKey(reader.file));
    try {
      reader.connection.close();
    } finally {
      reader.words.close();
    }
  }
}
