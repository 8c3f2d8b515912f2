/**
 * Sweeps databases that are not in use, when something in them is due.
 *
 * Always true:
 * - a database is opened only for an entry of the index whose hour has come, when the owner of its shard asks for it,
 *   by the node that holds it or is to; it closes by idleness as after any other use
 * - an entry goes only after its sweep, which notes what will be due next
 *
 * Two nodes that sweep one database at once do no harm: its writer does both, and the second finds nothing to do. Must
 * not know: what expires, how it is removed.
 */
import { getErrorCode, ServiceError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { Semaphore } from "../../base/collections/semaphore.ts";
import { Rounds } from "../../base/rounds.ts";
import type { World } from "../../base/world.ts";
import type { OwnedShards } from "../../control/databases/owned-pages.ts";
import { readDueName, listDue, removeDue } from "../../control/databases/expiry-index.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import type { Retention } from "../../engine/api/protocol.ts";
import { mainBranch } from "../../format/core/names.ts";
import type { DuePlace } from "../../format/keys/expiry-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";

/** How often a node looks for what is due in its shards while there is some. */
export const dueLookMs = 300_000;
/**
 * While none is due, it looks soon after each full hour, as nothing is due before, and this often besides: an entry may
 * have come late.
 */
const dueIdleLookMs = 1_800_000;
/** Within this long after the hour, so that not all nodes look at once. */
const dueSpreadMs = 120_000;
/** Between two looks of which the first has passed as many entries as it may. */
const dueGoOnMs = 1_000;
/** Entries that one look passes; the next one goes on behind them. */
const dueEntriesMax = 10_000;
/** Databases that a node sweeps at once. */
const dueSweepsAtOnceMax = 4;

export interface IdleDatabaseSweeperParts {
  readonly world: World;
  readonly log: Log;
  readonly store: ObjectStore;
  readonly engine: EnginePort;
  /** What the policy of the database says now; undefined when it has none. Throws while that cannot be known. */
  readonly readRetention: (database: string) => Promise<Retention | undefined>;
  /** What this node is the one to look after; absent where it is alone. */
  readonly shards?: OwnedShards | undefined;
}

/** What a look has left: entries that it had no time for, some to be tried again or noted meanwhile, or none. */
type Left = "more" | "some" | "none";

const hourMs = 3_600_000;

export class IdleDatabaseSweeper {
  readonly #parts: IdleDatabaseSweeperParts;
  /** Where the next look goes on, when one has passed as many entries as it may. */
  #after: string | undefined;
  #left: Left = "some";
  readonly #rounds: Rounds;

  constructor(parts: IdleDatabaseSweeperParts) {
    this.#parts = parts;
    const told = (error: unknown): void =>
      parts.log.warn("what is due in databases could not be looked for; tried again", { code: getErrorCode(error) });
    this.#rounds = new Rounds({
      world: parts.world,
      pauseMs: () => this.#pauseMs(),
      round: () => this.look().catch(told),
    });
  }

  /** Looks now, and from now on every few minutes while something is due, otherwise when the next hour has begun. */
  start(): void {
    void this.#rounds.start();
  }

  /** Shards have become this node's: what is due in them is looked for now. */
  takeOver(): void {
    this.#after = undefined;
    this.#rounds.hurry();
  }

  /** Begins nothing more, and waits a moment for what is under way. */
  async close(): Promise<void> {
    await this.#rounds.close(limits.jobStopMs);
  }

  /** Sweeps what is due now. Throws StoreError. */
  async look(): Promise<void> {
    const { store, world, shards } = this.#parts;
    // As it is when the look fails.
    this.#left = "some";
    const permits = new Semaphore(dueSweepsAtOnceMax);
    for (let passed = 0; !this.#rounds.closing;) {
      const page = await listDue(store, world.time.sureMs(), this.#after, shards);
      await Promise.all(page.entries.map((place) => permits.run(() => this.#sweep(place))));
      passed += page.entries.length;
      this.#after = page.next;
      this.#left = page.next !== undefined ? "more" : passed > 0 ? "some" : "none";
      if (page.next === undefined || passed >= dueEntriesMax) return;
    }
  }

  /** Entries are due at full hours. */
  #pauseMs(): number {
    if (this.#left === "more") return dueGoOnMs;
    if (this.#left === "some") return dueLookMs;
    const { world } = this.#parts;
    const [chance = 0] = world.randomBytes(1);
    const untilHourMs = hourMs - (world.nowMs() % hourMs);
    return Math.min(untilHourMs, dueIdleLookMs) + (dueSpreadMs * chance) / 256;
  }

  async #sweep(place: DuePlace): Promise<void> {
    const { store, engine, readRetention, world, log } = this.#parts;
    const { uuid, branchId } = place;
    try {
      if (this.#rounds.closing) return;
      const database = await readDueName(store, place);
      const retention = database === undefined ? undefined : await readRetention(database);
      const target = { uuid, branch: mainBranch, retention, database };
      await engine.branch(
        target,
        { act: "sweep", branchId },
        { deadlineMs: world.monotonicMs() + limits.requestTimeoutSecsDefault * 1_000 },
      );
    } catch (error) {
      const isGone =
        error instanceof ServiceError && (error.code === "database_not_found" || error.code === "branch_not_found");
      if (!isGone)
        return log.warn("what is due in a database could not be removed; tried again", {
          uuid,
          code: getErrorCode(error),
        });
    }
    try {
      await removeDue(store, place);
    } catch (error) {
      // The next look finds it again, and nothing to do.
      log.warn("an entry of what was due could not be removed; tried again", { uuid, code: getErrorCode(error) });
    }
  }
}
