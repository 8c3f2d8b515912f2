/**
 * Which writes of a database recently took longer than a time slice: such ones go to a process at once, as the slice
 * that they would use up first is lost, and the thread with it for 10 to 30 ms. For as long as they take long there as
 * well, none is tried on the thread again.
 *
 * Must not know: what is done with them.
 */
import type { World } from "../../base/world.ts";
import type { WriteItem } from "./database-options.ts";

/** A stopped write is remembered for this long, and larger ones of its kind are not begun on the thread. */
const longWriteRememberedMs = 5_000;
/**
 * A write that takes this long in a process would not have fitted into a slice of the thread: to hand one over costs 1
 * to 3 ms.
 */
const longWriteMs = 20;

interface Stopped {
  readonly bytes: number;
  readonly atMs: number;
}

export class LongWrites {
  readonly #world: Pick<World, "monotonicMs">;
  /** The smallest input that was stopped, by command. */
  readonly #stopped = new Map<string, Stopped>();

  constructor(world: Pick<World, "monotonicMs">) {
    this.#world = world;
  }

  /** The write was stopped at the end of its slice. */
  note({ work, bytes }: WriteItem): void {
    if (work.kind !== "write") return;
    const { bytes: least = Infinity } = this.#recent(work.command) ?? {};
    this.#stopped.set(work.command, { bytes: Math.min(bytes, least), atMs: this.#world.monotonicMs() });
  }

  /** The write was expected to take long, and has taken so long in a process. */
  ranFor(item: WriteItem, ms: number): void {
    if (ms >= longWriteMs) this.note(item);
  }

  /** Whether a write of the same kind that was at most twice as large was stopped recently. */
  expects({ work, bytes }: WriteItem): boolean {
    return (
      work.kind === "write" && work.ticket !== undefined && 2 * bytes >= (this.#recent(work.command)?.bytes ?? Infinity)
    );
  }

  /** For a while only: what was slow once, on a machine that was busy, is tried again. */
  #recent(command: string): Stopped | undefined {
    const stopped = this.#stopped.get(command);
    return stopped && this.#world.monotonicMs() - stopped.atMs < longWriteRememberedMs ? stopped : undefined;
  }
}
