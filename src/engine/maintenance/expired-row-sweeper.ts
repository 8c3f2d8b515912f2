/**
 * Deletes what has expired from the databases that this thread writes, a few of them each second, and makes sure that
 * it is deleted when they are no longer open.
 *
 * Always true:
 * - a sweep is a write like any other, except that it sheds no other write and makes no database look used
 * - it touches no database that another node has, and claims an unclaimed branch only when a look has found something
 *   to remove
 * - when a branch closes that was written, or whose policy removes memories by their age, the index has what will be
 *   due of it, from its last sweep or from a look at its rows
 *
 * Must not know: what expires.
 */
import { toRefusalData } from "../../base/faults/errors.ts";
import type { World } from "../../base/world.ts";
import type { ReadInput, WriteInput, WriteOutput } from "../../model/commands.ts";
import type { Database } from "../database/database.ts";
import type { ExpiryIndexWriter } from "./expiry-index-writer.ts";
import { TurnedAway } from "../api/engine-port.ts";
import { readHistory } from "../history/branch-history.ts";
import type { PageSource } from "../segments/pool-objects.ts";
import type { Registry } from "../pool/registry.ts";
import type { Retentions } from "../pool/retentions.ts";

/** Sweeps that begin in one second on one thread. */
const sweepsPerTickMax = 64;
export const sweepIntervalMs = 60_000;
/** Turns of a sweep of one branch, each of `sweepRowsMax` rows; what is left is due again in the next hour. */
const dueSweepTurnsMax = 1_000;
/** Sweeps delete at most this many rows a turn, so that a sweep never holds a database's queue for long. */
export const sweepRowsMax = 500;

export interface ExpiredRowSweeperOptions {
  readonly world: World;
  readonly registry: Registry;
  readonly retentions: Retentions;
  readonly due: ExpiryIndexWriter;
  readonly source: (uuid: string) => PageSource;
  /** Whether this node holds the database. */
  readonly isHeld: (uuid: string) => boolean;
  /** Something an operator should know; never content. */
  readonly notice: (message: string, uuid: string) => void;
}

/** The last sweep of an open database. */
interface Sweep {
  readonly begunAtMs: number;
  /** Where the next one goes on. */
  position: WriteOutput<"sweep">["position"];
  /** The state that it has swept completely, and the retention that it used. */
  sweptTxid?: number | undefined;
  sweptBy?: string | undefined;
}

export class ExpiredRowSweeper {
  readonly #options: ExpiredRowSweeperOptions;
  readonly #sweeps = new WeakMap<Database, Sweep>();
  #stopped = false;

  constructor(options: ExpiredRowSweeperOptions) {
    this.#options = options;
  }

  /** Begins no more of them. */
  stop(): void {
    this.#stopped = true;
  }

  /** Sweeps the databases whose last sweep is a minute old, a few each second. */
  tick(): void {
    const { world, registry, isHeld } = this.#options;
    const nowMs = world.monotonicMs();
    let begun = 0;
    let looked = 0;
    for (const database of registry.databases()) {
      if (database.ended || database.poisoned || !isHeld(database.opened.uuid)) continue;
      const last = this.#sweeps.get(database);
      if (nowMs - (last?.begunAtMs ?? -Infinity) < sweepIntervalMs) continue;
      // Databases that are only read may be many: those that are written do not wait for them.
      if (!database.claimed && looked >= sweepsPerTickMax) continue;
      const sweep: Sweep = { begunAtMs: nowMs, position: last?.position ?? {} };
      this.#sweeps.set(database, sweep);
      if (!database.claimed) {
        looked++;
        if (!this.#findsDue(database, sweep)) continue;
      }
      this.#sweep(database, sweep, Infinity).catch((error: unknown) => {
        // The node that has the database now sweeps it.
        if (!(error instanceof TurnedAway))
          this.#options.notice(`a sweep of expired rows failed (${toRefusalData(error)?.code ?? "fault"})`, "");
      });
      if (++begun >= sweepsPerTickMax) return;
    }
  }

  /**
   * Whether there is something to remove now from a branch that is only read. Passes a bounded number of rows; the next
   * look goes on there.
   */
  #findsDue(database: Database, sweep: Sweep): boolean {
    try {
      // Of topics that have too many, the look below tells.
      const { dueAtMs = Infinity } = database.look("due", { ...this.#question(database), isSwept: true });
      if (dueAtMs <= this.#options.world.time.sureMs()) return true;
      const countMax = this.#options.retentions.of(database.opened.uuid)?.supersededMaxCount;
      if (countMax === undefined) return false;
      const { found, topic } = database.look("excess", {
        countMax,
        ...(sweep.position.topic && { topic: sweep.position.topic }),
      });
      const { event } = sweep.position;
      if (!found) sweep.position = { ...(event && { event }), ...(topic && { topic }) };
      return found;
    } catch (error) {
      this.#options.notice(
        `it could not be told what is due in a database (${toRefusalData(error)?.code ?? "fault"})`,
        database.opened.uuid,
      );
      return false;
    }
  }

  /**
   * Removes what is due of a branch that was opened for it, and notes what will be. Claims it only when something is.
   */
  async sweepDue(database: Database): Promise<void> {
    const { world, due, retentions, source } = this.#options;
    const { uuid, branchId, manifest } = database.opened;
    const { dueAtMs = Infinity } = database.look("due", this.#question(database));
    const sweep: Sweep = { begunAtMs: world.monotonicMs(), position: {} };
    this.#sweeps.set(database, sweep);
    if (dueAtMs <= world.time.sureMs()) await this.#sweep(database, sweep, dueSweepTurnsMax);
    else if (dueAtMs < Infinity) due.note({ uuid, branchId, atMs: dueAtMs });
    if (manifest.now.history === undefined) return;
    const { timelines } = await readHistory(source(uuid).store, manifest.now);
    // The node that has claimed a branch trims its history.
    if (timelines.some(({ endedAtMs }) => endedAtMs < world.time.sureMs() - retentions.pitrMs(uuid)))
      await database.claimNext();
  }

  /** The branch's file is about to be closed; no call waits for it. */
  closing(database: Database): void {
    const { uuid, branchId, manifest, historyId } = database.opened;
    const { due, world, retentions, isHeld } = this.#options;
    if (database.poisoned || database.ended) return;
    // The branch's last writer has noted what there is, but not what a newer policy removes.
    const { eventMaxAgeMs, supersededMaxAgeMs } = retentions.of(uuid) ?? {};
    if (!database.claimed && (!isHeld(uuid) || (eventMaxAgeMs ?? supersededMaxAgeMs) === undefined)) return;
    // Every state that the branch has dropped by now has left the window by then, or a checkpoint keeps it.
    const { history } = manifest.now;
    if (database.claimed && history !== undefined && history.id !== historyId)
      due.note({ uuid, branchId, atMs: world.nowMs() + retentions.pitrMs(uuid) });
    const question = this.#question(database);
    // The last sweep has noted what there is.
    if (question.isSwept) return;
    try {
      // Of a branch that was only read, the looks of its time tell which topics have too many.
      const { dueAtMs } = database.look("due", { ...question, isSwept: !database.claimed });
      if (dueAtMs !== undefined) due.note({ uuid, branchId, atMs: dueAtMs });
    } catch (error) {
      this.#options.notice(
        `it could not be told what will be due in a database (${toRefusalData(error)?.code ?? "fault"})`,
        uuid,
      );
    }
  }

  #question(database: Database): ReadInput<"due"> {
    const sweep = this.#sweeps.get(database);
    const retention = this.#options.retentions.of(database.opened.uuid);
    const isSame = sweep?.sweptBy === JSON.stringify(retention);
    return { retention, position: sweep?.position, isSwept: isSame && sweep?.sweptTxid === database.safeTxid };
  }

  /** Sweeps until nothing is left to remove now, `turnsMax` turns at most. */
  async #sweep(database: Database, sweep: Sweep, turnsMax: number): Promise<void> {
    const { uuid, branchId } = database.opened;
    sweep.sweptBy = JSON.stringify(this.#options.retentions.of(uuid));
    for (let turn = 1; ; turn++) {
      const { value, txid } = await this.#turn(database, sweep);
      sweep.position = value.position;
      const isOver = this.#stopped || turn >= turnsMax;
      if (value.more && !isOver) continue;
      sweep.sweptTxid = value.more ? undefined : txid;
      const atMs = value.more ? this.#options.world.nowMs() : value.dueAtMs;
      if (atMs !== undefined) this.#options.due.note({ uuid, branchId, atMs });
      return;
    }
  }

  #turn(database: Database, sweep: Sweep): Promise<{ readonly value: WriteOutput<"sweep">; readonly txid: number }> {
    const retention = this.#options.retentions.of(database.opened.uuid);
    const input: WriteInput<"sweep"> = {
      rowsMax: sweepRowsMax,
      untilMs: this.#options.world.time.sureMs(),
      position: sweep.position,
      ...(retention && { retention }),
    };
    return new Promise((resolve, reject) => {
      const done = ({ value, txid }: { readonly value: unknown; readonly txid: number }): void =>
        resolve({ value: value as WriteOutput<"sweep">, txid });
      database.write({
        work: { kind: "write", command: "sweep", input },
        bytes: 0,
        deadlineMs: Infinity,
        durable: false,
        completion: { done, failed: reject },
      });
    });
  }
}
