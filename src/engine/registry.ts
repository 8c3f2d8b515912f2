/**
 * The open databases of one engine thread: opened on first use, closed when idle, evicted when there are too many.
 *
 * Always true: a file has at most one open handle here; a slot that opens or closes is waited for, never bypassed; a
 * poisoned handle is abandoned and rebuilt before anybody else gets it.
 */
import { assert } from "../base/assert.ts";
import { ServiceError } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import { sleep, type World } from "../base/world.ts";
import { VectorCache, type VectorPool } from "../model/vector-index.ts";
import type { Disk } from "../sqlite/wal.ts";
import { Database, type DatabaseEvents } from "./database.ts";
import type { EngineOptions, Target } from "./protocol.ts";
import { branchPath, emptyDatabase, openDatabase, removeDatabase } from "./recovery.ts";

export interface RegistryOptions {
  readonly engine: EngineOptions;
  readonly world: World;
  readonly disk: Disk;
  readonly vectorPool: VectorPool;
  readonly events: Pick<DatabaseEvents, "running" | "stopped" | "committed" | "synced"> & {
    /** Something an operator should know; never content. */
    notice(level: "info" | "warn", message: string, uuid: string): void;
  };
}

/** How often a waiter looks again, and how often before it gives up: ten seconds in all. */
const lookAgainMs = 2;
const looksMax = 5_000;

export class Registry {
  readonly #options: RegistryOptions;
  /** In order of use, the least recent first. */
  readonly #open = new Map<string, Database>();
  /** Opening, closing or rebuilding: the promise resolves when the key may be looked at again. */
  readonly #busy = new Map<string, Promise<void>>();
  readonly #empty: Uint8Array;
  opened = 0;
  evicted = 0;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#empty = emptyDatabase(options.engine.scratchDirectory, options.world);
  }

  /** The open database, when it is open now: the fast path, which needs no promise. */
  current(target: Target): Database | undefined {
    const key = keyOf(target);
    const database = this.#open.get(key);
    if (database) {
      this.#open.delete(key);
      this.#open.set(key, database);
    }
    return database;
  }

  /** The open database, opened or created when it is not. */
  async use(target: Target): Promise<Database> {
    const key = keyOf(target);
    for (;;) {
      const database = this.current(target);
      if (database) return database;
      await (this.#busy.get(key) ?? this.#occupy(key, () => this.#openFile(key, target)));
    }
  }

  /** Closes the database, after everyone it owes an answer has it, and removes its files. */
  async drop(target: Target): Promise<void> {
    await this.#close(keyOf(target), () => removeDatabase(this.#options.engine.databasesDirectory, target.uuid));
  }

  /** Every open database, least recently used first. */
  databases(): Iterable<Database> {
    return this.#open.values();
  }

  /** Closes what nobody has used for `idleCloseMs`. */
  closeIdle(): void {
    const beforeMs = this.#options.world.monotonicMs() - this.#options.engine.idleCloseMs;
    for (const [key, database] of this.#open) {
      if (!database.idle || database.lastUsedMs > beforeMs) continue;
      this.#open.delete(key);
      database.close();
    }
  }

  async closeAll(): Promise<void> {
    for (const key of [...this.#open.keys(), ...this.#busy.keys()]) await this.#close(key, async () => {});
  }

  /** Keeps everybody else from the key while `act` runs. */
  async #occupy(key: string, act: () => Promise<void>): Promise<void> {
    assert(!this.#busy.has(key) && !this.#open.has(key), "a key is occupied by one at a time");
    const acting = act().finally(() => this.#busy.delete(key));
    // Whoever waits looks at the key again afterwards; the failure itself belongs to the caller of #occupy.
    this.#busy.set(key, acting.catch(() => {}));
    await acting;
  }

  async #openFile(key: string, target: Target): Promise<void> {
    const { engine, world, disk, events } = this.#options;
    await this.#makeRoom();
    const opened = await openDatabase(branchPath(engine.databasesDirectory, target.uuid, target.branch), this.#empty, world);
    const database: Database = new Database({
      opened,
      world,
      disk,
      vectors: new VectorCache(this.#options.vectorPool),
      writeQueueDepth: engine.writeQueueDepth,
      events: { ...events, poisoned: (error) => this.#rebuild(key, target, database, error) },
    });
    this.opened++;
    this.#open.set(key, database);
  }

  /** Closes the least recently used idle database when there is no room for one more; waits when all are in use. */
  async #makeRoom(): Promise<void> {
    for (let look = 0; look < looksMax; look++) {
      if (this.#open.size < this.#options.engine.hotHandlesMax) return;
      const idle = this.#open.entries().find(([, database]) => database.idle);
      if (idle) {
        this.#open.delete(idle[0]);
        idle[1].close();
        this.evicted++;
      } else {
        await sleep(this.#options.world, lookAgainMs);
      }
    }
    throw new ServiceError("overloaded", "every database handle of this node is in use", { retryAfterSecs: 1 });
  }

  async #close(key: string, then: () => Promise<void>): Promise<void> {
    for (let look = 0; look < looksMax; look++) {
      const busy = this.#busy.get(key);
      const database = this.#open.get(key);
      if (busy) {
        await busy;
      } else if (database && !database.idle) {
        await sleep(this.#options.world, lookAgainMs);
      } else {
        this.#open.delete(key);
        database?.close();
        return this.#occupy(key, then);
      }
    }
    throw new ServiceError("unavailable", "the database stayed in use and could not be closed", { retryAfterSecs: 1 });
  }

  /** After a storage failure: everyone is refused, readers are waited for, the log is cut to what was synced. */
  #rebuild(key: string, target: Target, database: Database, error: unknown): void {
    const reason = (error as { code?: string }).code ?? "fault";
    this.#options.events.notice("warn", `storage failed (${reason}); the handle is rebuilt from what was synced`, target.uuid);
    this.#open.delete(key);
    this.#occupy(key, async () => {
      while (database.pinned) await sleep(this.#options.world, lookAgainMs);
      database.abandon();
    }).catch((fault: unknown) => {
      // The next use opens the file afresh and reports what it meets; the operator learns of it here.
      this.#options.events.notice("warn", `the failed handle could not be cut back (${(fault as { code?: string }).code ?? "fault"})`, target.uuid);
    });
  }
}

/** Uuids and branch names hold no slash, so the two parts can never run into each other. */
function keyOf(target: Target): string {
  return `${target.uuid}/${target.branch}`;
}

/** Handles a thread may hold: three descriptors each with a fifth left for sockets and the store, and memory's share. */
export function hotHandlesAllowed(asked: number, descriptorsMax: number, memoryBytes: number, threads: number): number {
  const byDescriptors = Math.floor((descriptorsMax * 0.8) / 3);
  const byMemory = Math.floor((memoryBytes * 0.5) / limits.hotHandleBytes);
  return Math.max(1, Math.floor(Math.min(asked, byDescriptors, byMemory) / threads));
}
