/**
 * Deletes what has expired from the databases that this thread writes, a few of them each second; and sees to it that
 * somebody does when they are not open any more.
 *
 * Always true: a sweep is a write like any other, except that it sheds nobody's and makes no database look used; it
 * touches none that another node has, and claims a branch only for an entry of the index that was right. When a branch
 * that was written closes, what will be due of it stands in the index, from its last sweep or from a look at its rows.
 * Must not know: what expires.
 */
import { refusalOf } from "../base/errors.ts";
import { limits } from "../base/limits.ts";
import type { World } from "../base/world.ts";
import type { ReadInput, ReadOutput, WriteInput, WriteOutput } from "../model/commands.ts";
import type { Database } from "./database.ts";
import type { DueMarks } from "./due-marks.ts";
import { TurnedAway } from "./engine-port.ts";
import { historyOf } from "./histories.ts";
import type { PageSource } from "./pool-objects.ts";
import type { Registry } from "./registry.ts";
import type { Retentions } from "./retentions.ts";

export interface SweeperOptions {
  readonly world: World;
  readonly registry: Registry;
  readonly retentions: Retentions;
  readonly due: DueMarks;
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
  /** The state of which it was through. */
  sweptTxid?: number | undefined;
}

export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #sweeps = new WeakMap<Database, Sweep>();
  #stopped = false;

  constructor(options: SweeperOptions) {
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
    for (const database of registry.databases()) {
      // What nobody has written here needs no sweep.
      if (!database.claimed || database.expired || !isHeld(database.opened.uuid)) continue;
      const last = this.#sweeps.get(database);
      if (nowMs - (last?.begunAtMs ?? -Infinity) < limits.sweepIntervalMs) continue;
      const sweep: Sweep = { begunAtMs: nowMs, position: last?.position ?? {} };
      this.#sweeps.set(database, sweep);
      this.#sweep(database, sweep, Infinity).catch((error: unknown) => {
        // Whoever has the database now sweeps it.
        if (!(error instanceof TurnedAway)) this.#options.notice(`a sweep of expired rows failed (${refusalOf(error)?.code ?? "fault"})`, "");
      });
      if (++begun >= limits.sweepsPerTickMax) return;
    }
  }

  /** Removes what is due of a branch that was opened for it, and notes what will be. Claims it only when something is. */
  async sweepDue(database: Database): Promise<void> {
    const { world, due, retentions, source } = this.#options;
    const { uuid, branchId, head } = database.opened;
    const { dueAtMs = Infinity } = await new Promise<ReadOutput<"due">>((resolve, reject) => {
      database.read("due", this.#question(database), { done: ({ value }) => resolve(value as ReadOutput<"due">), failed: reject });
    });
    const sweep: Sweep = { begunAtMs: world.monotonicMs(), position: {} };
    this.#sweeps.set(database, sweep);
    if (dueAtMs <= world.time.sureMs()) await this.#sweep(database, sweep, limits.dueSweepTurnsMax);
    else if (dueAtMs < Infinity) due.note({ uuid, branchId, atMs: dueAtMs });
    if (head.now.history === undefined) return;
    const { lines } = await historyOf(source(uuid).store, head.now);
    // Whoever has claimed a branch trims its history.
    if (lines.some(({ endedAtMs }) => endedAtMs < world.time.sureMs() - retentions.pitrMs(uuid))) await database.claimNext();
  }

  /** The branch's file is about to be closed, nobody waits for anything of it. */
  closing(database: Database): void {
    const { uuid, branchId, head, historyId } = database.opened;
    const { due, world, retentions } = this.#options;
    if (!database.claimed || database.poisoned || database.expired) return;
    // Every state that the branch has let go of by now has left the window by then, or a checkpoint keeps it.
    const { history } = head.now;
    if (history !== undefined && history.id !== historyId) due.note({ uuid, branchId, atMs: world.nowMs() + retentions.pitrMs(uuid) });
    const question = this.#question(database);
    // The last sweep has noted what there is.
    if (question.isSwept) return;
    database.read("due", question, {
      done: ({ value }) => {
        const { dueAtMs } = value as ReadOutput<"due">;
        if (dueAtMs !== undefined) due.note({ uuid, branchId, atMs: dueAtMs });
      },
      failed: (error) => this.#options.notice(`it could not be told what will be due in a database (${refusalOf(error)?.code ?? "fault"})`, uuid),
    });
  }

  #question(database: Database): ReadInput<"due"> {
    const sweep = this.#sweeps.get(database);
    return { retention: this.#options.retentions.of(database.opened.uuid), position: sweep?.position, isSwept: sweep?.sweptTxid === database.safeTxid };
  }

  /** Sweeps until nothing is left to remove now, `turnsMax` turns at most. */
  async #sweep(database: Database, sweep: Sweep, turnsMax: number): Promise<void> {
    const { uuid, branchId } = database.opened;
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
    const input: WriteInput<"sweep"> = { rowsMax: limits.sweepRowsMax, untilMs: this.#options.world.time.sureMs(), position: sweep.position, ...(retention && { retention }) };
    return new Promise((resolve, reject) => {
      const done = ({ value, txid }: { readonly value: unknown; readonly txid: number }): void => resolve({ value: value as WriteOutput<"sweep">, txid });
      database.write({ work: { kind: "write", command: "sweep", input }, bytes: 0, deadlineMs: Infinity, durable: false, settle: { done, failed: reject } });
    });
  }
}
