/**
 * Which reads of a database take longer than a time slice: while other tenants wait, such ones go to a process at once,
 * as the slice that they would use up first is lost, and the thread with it for 10 to 30 ms.
 *
 * Must not know: what is done with them.
 */
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import type { ReadKind } from "../../model/commands.ts";

/** When so many were stopped: one may have been unlucky, beside busy processors, and is faster on the thread, */
const stoppedMin = 3;
/** within this time; after it they are tried there again. */
const withinMs = 5_000;
/** Databases and commands that are remembered; of the one that was stopped longest ago, another try is no harm. */
const keptMax = 10_000;

interface Stopped {
  readonly sinceMs: number;
  readonly count: number;
}

export class LongReads {
  readonly #world: Pick<World, "monotonicMs">;
  /** By database and command. */
  readonly #stopped = new LruMap<string, Stopped>(keptMax);

  constructor(world: Pick<World, "monotonicMs">) {
    this.#world = world;
  }

  /** The read was stopped at the end of its slice. */
  note(uuid: string, command: ReadKind): void {
    const { sinceMs, count } = this.#recent(uuid, command) ?? { sinceMs: this.#world.monotonicMs(), count: 0 };
    this.#stopped.set(`${uuid}/${command}`, { sinceMs, count: count + 1 });
  }

  /** Whether one of the same kind, of the same database, would be stopped as well. */
  expects(uuid: string, command: ReadKind): boolean {
    return (this.#recent(uuid, command)?.count ?? 0) >= stoppedMin;
  }

  #recent(uuid: string, command: ReadKind): Stopped | undefined {
    const stopped = this.#stopped.peek(`${uuid}/${command}`);
    return stopped && this.#world.monotonicMs() - stopped.sinceMs < withinMs ? stopped : undefined;
  }
}
