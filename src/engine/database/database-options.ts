/** What an open database is made of, what it is given to write, and what it tells. */
import type { Semaphore } from "../../base/collections/semaphore.ts";
import type { World } from "../../base/world.ts";
import type { WriteKind } from "../../model/commands.ts";
import type { MemoryRetention } from "../../model/core/retention.ts";
import type { VectorCache } from "../../model/index/vector-index.ts";
import type { Disk } from "../../base/disk.ts";
import type { Slices } from "../../sqlite/slices.ts";
import type { Opened } from "../opening/opened-file.ts";
import type { Completion } from "../api/protocol.ts";
import type { ReadPermits } from "../direct-reads/read-permits.ts";
import type { SqlWriter, TicketedSql } from "../process-calls/sql-write.ts";
import type { WritePermissionOptions } from "./write-permission.ts";

/** A write on its way through the queue. */
export interface WriteItem {
  readonly work:
    /**
     * `ticket` names it to a process that runs it when it takes long; without one it is run here, however long it
     * takes.
     */
    | { readonly kind: "write"; readonly command: WriteKind; readonly input: unknown; readonly ticket?: number }
    | ({ readonly kind: "sql" } & TicketedSql);
  readonly bytes: number;
  readonly deadlineMs: number;
  /** Answered only when object storage covers it. */
  readonly durable: boolean;
  readonly completion: Completion;
}

/** What a database tells its holder. */
export interface DatabaseEvents {
  committed(writes: number): void;
  synced(): void;
  /** Storage failed; the handle must be failed and rebuilt. */
  poisoned(error: unknown): void;
  /** The handle may be at rest: it is idle, or covered, or failed. */
  rested(): void;
  /** Something an operator should know; never content. */
  notice(message: string): void;
}

export interface DatabaseOptions {
  readonly opened: Opened;
  readonly world: World;
  readonly disk: Disk;
  readonly vectors: VectorCache;
  readonly writeQueueDepth: number;
  readonly permission: Omit<WritePermissionOptions, "manifest" | "knownTxid" | "knowsAll">;
  /** Name of the branch. */
  readonly branch: string;
  /** When the branch ceases to exist, Unix ms. */
  readonly expiresAtMs: number;
  /**
   * Whether the newest catalog that is known does not name the branch: by a change that came late, or of another call.
   */
  readonly isDeleted: () => boolean;
  readonly logCheckpointBytes: number;
  /** For fsyncs of much data, of all databases of the thread. */
  readonly largeSyncs: Semaphore;
  /** How long policy now says that memories are kept, as far as this node knows. */
  readonly retention: () => MemoryRetention | undefined;
  /** How long the changes of its transactions are kept: the point-in-time window. */
  readonly changesKeptMs: () => number;
  /** What runs user SQL that writes, and writes that take long; without one, the connection itself does. */
  readonly sql?: SqlWriter | undefined;
  /** How long commands may hold the thread while others wait; without them, for as long as they like. */
  readonly slices?: Slices | undefined;
  /** Permits for the main thread to read the file; without them only this thread does. */
  readonly readPermits?: ReadPermits | undefined;
  /** Runs the act when it is the turn of the database's tenant. */
  readonly turn?: ((act: () => void) => void) | undefined;
  readonly events: DatabaseEvents;
}
